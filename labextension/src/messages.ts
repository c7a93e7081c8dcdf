import type { JSONObject } from '@lumino/coreutils';

/** Version of the protocol. docs/cells.md describes it. */
export const VERSION = 1;
/** Name of the comm target in the kernel. */
export const TARGET = 'tract_jupyter.cells';
/** Longest message that the kernel reads, in characters of JSON. */
export const LONGEST_MESSAGE = 8_000_000;

export type Kind = 'code' | 'markdown' | 'raw';
export type Action = 'insert' | 'replace' | 'delete' | 'move';

/** A change of one cell. `based_on` is the hash of the source that the model saw. */
export interface IEdit {
  readonly edit: string;
  readonly action: Action;
  readonly cell: string;
  readonly after: string | null;
  readonly kind: Kind;
  readonly based_on: string | null;
  readonly source: string | null;
}

/** A part of a replaced source: half-open ranges of lines, counted from 0. */
export interface IHunk {
  readonly n: number;
  readonly old: readonly [number, number];
  readonly new: readonly [number, number];
}

export interface IFinding {
  readonly severity: string;
  readonly text: string;
  readonly line: number | null;
}

export interface IShownEdit extends IEdit {
  readonly number: number | null;
  readonly findings: readonly IFinding[];
  readonly hunks: readonly IHunk[];
}

/** The origin of a cell, for its metadata. */
export interface IMark extends JSONObject {
  model: string;
  turn: string;
  commit: string;
  decision: string;
  request: string;
}

export interface IShow {
  readonly type: 'show';
  readonly request: string;
  readonly digest: string;
  readonly title: string;
  readonly edits: readonly IShownEdit[];
}

export interface IApply {
  readonly type: 'apply';
  readonly id: string;
  readonly edits: readonly IEdit[];
  readonly mark: IMark | null;
}

export interface IRead {
  readonly type: 'read';
  readonly id: string;
  readonly which: 'all' | readonly string[];
  readonly outputs: boolean;
  readonly limit: number;
}

export type Incoming =
  | IShow
  | IApply
  | IRead
  | { readonly type: 'welcome' }
  | { readonly type: 'hide'; readonly request: string; readonly outcome: string }
  | { readonly type: 'refused'; readonly reason: string; readonly of: string }
  | { readonly type: 'compose'; readonly cell: string; readonly source: string };

/** A choice for one edit of an accepted request. Without `hunks`, it covers the whole edit. */
export interface IAcceptedEdit extends JSONObject {
  edit: string;
}

export type EditState = 'applied' | 'stale' | 'missing' | 'read_only';

export interface IResult extends JSONObject {
  edit: string;
  state: EditState;
  hash_now: string | null;
}

/** A message that this page does not read; `of` is its type. */
export class InvalidMessage extends Error {
  constructor(
    reason: string,
    readonly of = ''
  ) {
    super(reason);
  }
}

/** The ids of cells that nbformat allows. */
export const CELL_ID = /^[A-Za-z0-9_-]{1,64}$/;
const HASH = /^[0-9a-f]{64}$/;
const ACTIONS: readonly string[] = ['insert', 'replace', 'delete', 'move'];
const KINDS: readonly string[] = ['code', 'markdown', 'raw'];
/** Names of the fields of a mark. */
export const MARK = ['model', 'turn', 'commit', 'decision', 'request'] as const;

type Fields = Record<string, unknown>;

/**
 * Return a message of the kernel as a value of the protocol.
 *
 * @throws InvalidMessage for an unknown version or type, or a field of another type.
 */
export function parseMessage(data: unknown): Incoming {
  const fields = asFields(data, 'message');
  const type = typeof fields.type === 'string' ? fields.type : '';
  try {
    if (fields.v !== VERSION) {
      throw new InvalidMessage(`unknown version; this page reads version ${VERSION}`);
    }
    return parseFields(type, fields);
  } catch (error) {
    throw new InvalidMessage(error instanceof Error ? error.message : String(error), type.slice(0, 40));
  }
}

function parseFields(type: string, fields: Fields): Incoming {
  switch (type) {
    case 'welcome':
      return { type };
    case 'hide':
      return { type, request: text(fields, 'request'), outcome: text(fields, 'outcome') };
    case 'refused':
      return { type, reason: text(fields, 'reason'), of: text(fields, 'of') };
    case 'compose':
      return { type, cell: cellId(fields, 'cell'), source: text(fields, 'source') };
    case 'read':
      return {
        type,
        id: text(fields, 'id'),
        which: fields.which === 'all' ? 'all' : ids(fields, 'which'),
        outputs: flag(fields, 'outputs'),
        limit: count(fields, 'limit')
      };
    case 'apply':
      return {
        type,
        id: text(fields, 'id'),
        edits: parseEdits(fields, parseEdit),
        mark: fields.mark === null ? null : parseMark(asFields(fields.mark, 'mark'))
      };
    case 'show':
      return {
        type,
        request: text(fields, 'request'),
        digest: text(fields, 'digest'),
        title: text(fields, 'title'),
        edits: parseEdits(fields, parseShownEdit)
      };
    default:
      throw new InvalidMessage('unknown type');
  }
}

function parseEdits<T extends IEdit>(fields: Fields, parse: (fields: Fields) => T): T[] {
  const edits = list(fields, 'edits').map(one => parse(asFields(one, 'edit')));
  if (edits.length === 0 || new Set(edits.map(one => one.edit)).size < edits.length) {
    throw new InvalidMessage('each edit has a name of its own, and there is at least one');
  }
  return edits;
}

function parseEdit(fields: Fields): IEdit {
  const action = word(fields, 'action', ACTIONS) as Action;
  const edit: IEdit = {
    edit: text(fields, 'edit'),
    action,
    cell: cellId(fields, 'cell'),
    after: fields.after === null ? null : cellId(fields, 'after'),
    kind: word(fields, 'kind', KINDS) as Kind,
    based_on: fields.based_on === null ? null : text(fields, 'based_on'),
    source: fields.source === null ? null : text(fields, 'source')
  };
  const hasSource = action === 'insert' || action === 'replace';
  if (hasSource !== (edit.source !== null)) {
    throw new InvalidMessage(`the edit ${action} ${hasSource ? 'needs a' : 'has no'} source`);
  }
  const hasBase = action !== 'insert';
  if (hasBase ? !HASH.test(edit.based_on ?? '') : edit.based_on !== null) {
    throw new InvalidMessage(`the edit ${action} ${hasBase ? 'needs' : 'has no'} based_on`);
  }
  return edit;
}

/** The kernel chooses the id of a new cell when the edit is applied. Until then, it has one of the page. */
function parseShownEdit(fields: Fields): IShownEdit {
  const isNew = fields.action === 'insert' && fields.cell === null;
  return {
    ...parseEdit(isNew ? { ...fields, cell: `tract-new-${text(fields, 'edit')}` } : fields),
    number: fields.number === null ? null : count(fields, 'number'),
    findings: list(fields, 'findings').map(one => parseFinding(asFields(one, 'finding'))),
    hunks: list(fields, 'hunks').map(one => parseHunk(asFields(one, 'hunk')))
  };
}

function parseFinding(fields: Fields): IFinding {
  const line = fields.line === null ? null : count(fields, 'line');
  return { severity: text(fields, 'severity'), text: text(fields, 'text'), line };
}

function parseHunk(fields: Fields): IHunk {
  return { n: count(fields, 'n'), old: range(fields, 'old'), new: range(fields, 'new') };
}

function parseMark(fields: Fields): IMark {
  const mark: Partial<IMark> = {};
  for (const name of MARK) {
    mark[name] = text(fields, name);
  }
  return mark as IMark;
}

function asFields(value: unknown, name: string): Fields {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new InvalidMessage(`${name} is not an object`);
  }
  return value as Fields;
}

function text(fields: Fields, name: string): string {
  const value = fields[name];
  if (typeof value !== 'string') {
    throw new InvalidMessage(`${name} is not a string`);
  }
  return value;
}

function word(fields: Fields, name: string, words: readonly string[]): string {
  const value = text(fields, name);
  if (!words.includes(value)) {
    throw new InvalidMessage(`${name} is not one of ${words.join(', ')}`);
  }
  return value;
}

function cellId(fields: Fields, name: string): string {
  const value = text(fields, name);
  if (!CELL_ID.test(value)) {
    throw new InvalidMessage(`${name} is not the id of a cell`);
  }
  return value;
}

function count(fields: Fields, name: string): number {
  const value = fields[name];
  if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < 0) {
    throw new InvalidMessage(`${name} is not a whole number of at least 0`);
  }
  return value;
}

function flag(fields: Fields, name: string): boolean {
  const value = fields[name];
  if (typeof value !== 'boolean') {
    throw new InvalidMessage(`${name} is neither true nor false`);
  }
  return value;
}

function list(fields: Fields, name: string): unknown[] {
  const value = fields[name];
  if (!Array.isArray(value)) {
    throw new InvalidMessage(`${name} is not a list`);
  }
  return value;
}

function ids(fields: Fields, name: string): string[] {
  const values = list(fields, name);
  if (!values.every(value => typeof value === 'string')) {
    throw new InvalidMessage(`${name} is not a list of strings`);
  }
  return values as string[];
}

function range(fields: Fields, name: string): [number, number] {
  const [start, end, ...more] = list(fields, name) as number[];
  if (![start, end].every(Number.isSafeInteger) || start < 0 || end < start || more.length > 0) {
    throw new InvalidMessage(`${name} is not a range of lines`);
  }
  return [start, end];
}
