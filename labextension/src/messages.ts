import type { JSONObject } from '@lumino/coreutils';

/** Version of the protocol. docs/cells.md describes it. */
export const VERSION = 1;
/** Name of the comm target in the kernel. */
export const TARGET = 'tract_jupyter.cells';
/** Longest message that the kernel reads, in characters of JSON. */
export const LONGEST_MESSAGE = 8_000_000;
/** The ids of cells that nbformat allows. */
export const CELL_ID = /^[A-Za-z0-9_-]{1,64}$/;
const HASH = /^[0-9a-f]{64}$/;

/** A message that this page does not read; `of` is its type. */
export class InvalidMessage extends Error {
  constructor(
    reason: string,
    readonly of = ''
  ) {
    super(reason);
  }
}

/** Returns a value as one of a type. It throws `InvalidMessage` for another value. */
type Taker<T> = (value: unknown, name: string) => T;
type Schema = Record<string, Taker<unknown>>;
type Taken<S> = { readonly [K in keyof S]: S[K] extends Taker<infer T> ? T : never };

function take<T>(is: (value: any) => boolean, what: string): Taker<T> {
  return (value, name) => {
    if (!is(value)) {
      throw new InvalidMessage(`${name} is not ${what}`);
    }
    return value as T;
  };
}

function orNull<T>(taker: Taker<T>): Taker<T | null> {
  return (value, name) => (value === null ? null : taker(value, name));
}

function oneOf<T extends string>(...words: T[]): Taker<T> {
  return take(value => words.includes(value), `one of ${words.join(', ')}`);
}

function listOf<T>(taker: Taker<T>): Taker<readonly T[]> {
  return (value, name) => list(value, name).map(one => taker(one, `one of ${name}`));
}

function object<S extends Schema>(schema: S): Taker<Taken<S>> {
  return (value, name) => {
    const fields = record(value, name);
    return Object.fromEntries(Object.entries(schema).map(([field, taker]) => [field, taker(fields[field], field)])) as Taken<S>;
  };
}

const isCount = (value: unknown) => Number.isSafeInteger(value) && (value as number) >= 0;
const text = take<string>(value => typeof value === 'string', 'a string');
const flag = take<boolean>(value => typeof value === 'boolean', 'true or false');
const count = take<number>(isCount, 'a whole number of at least 0');
const list = take<unknown[]>(Array.isArray, 'a list');
const isRecord = (value: unknown) => typeof value === 'object' && value !== null && !Array.isArray(value);
const record = take<Record<string, unknown>>(isRecord, 'an object');
const isRange = (value: unknown[]) => Array.isArray(value) && value.length === 2 && value.every(isCount);
const range = take<readonly [number, number]>(value => isRange(value) && value[0] <= value[1], 'a range of lines');
const cellId = take<string>(value => typeof value === 'string' && CELL_ID.test(value), 'the id of a cell');

const EDIT = {
  edit: text,
  action: oneOf('insert', 'replace', 'delete', 'move'),
  cell: cellId,
  after: orNull(cellId),
  kind: oneOf('code', 'markdown', 'raw'),
  based_on: orNull(text),
  source: orNull(text)
};
const HUNK = { n: count, old: range, new: range };
const FINDING = { severity: text, text, line: orNull(count) };
const SHOWN = { ...EDIT, number: orNull(count), findings: listOf(object(FINDING)), hunks: listOf(object(HUNK)) };
const MARK_FIELDS = { model: text, turn: text, commit: text, decision: text, request: text };
/** Names of the fields of a mark. */
export const MARK = Object.keys(MARK_FIELDS);

/** A change of one cell. `based_on` is the hash of the source that the model saw. */
export type IEdit = Taken<typeof EDIT>;
/** A part of a replaced source: half-open ranges of lines, counted from 0. */
export type IHunk = Taken<typeof HUNK>;
export type IShownEdit = Taken<typeof SHOWN>;
/** The origin of a cell, for its metadata. */
export type IMark = Taken<typeof MARK_FIELDS>;

const edit: Taker<IEdit> = (value, name) => checkEdit(object(EDIT)(value, name));

/** The kernel chooses the id of a new cell when the edit is applied. Until then, it has one of the page. */
const shownEdit: Taker<IShownEdit> = (value, name) => {
  const fields = record(value, name);
  const isNew = fields.action === 'insert' && fields.cell === null;
  return checkEdit(object(SHOWN)(isNew ? { ...fields, cell: `tract-new-${text(fields.edit, 'edit')}` } : fields, name));
};

function checkEdit<T extends IEdit>(edit: T): T {
  const { action, based_on, source } = edit;
  const hasSource = action === 'insert' || action === 'replace';
  if (hasSource !== (source !== null)) {
    throw new InvalidMessage(`the edit ${action} ${hasSource ? 'needs a' : 'has no'} source`);
  }
  const hasBase = action !== 'insert';
  if (hasBase ? !HASH.test(based_on ?? '') : based_on !== null) {
    throw new InvalidMessage(`the edit ${action} ${hasBase ? 'needs' : 'has no'} based_on`);
  }
  return edit;
}

function edits<T extends IEdit>(taker: Taker<T>): Taker<readonly T[]> {
  return (value, name) => {
    const taken = listOf(taker)(value, name);
    if (taken.length === 0 || new Set(taken.map(one => one.edit)).size < taken.length) {
      throw new InvalidMessage('each edit has a name of its own, and there is at least one');
    }
    return taken;
  };
}

const allOrIds = (value: unknown, name: string) => (value === 'all' ? value : listOf(text)(value, name));
const MESSAGES = {
  welcome: {},
  waiting: { count },
  panel: { models: listOf(text) },
  hide: { request: text, outcome: text },
  effects: { request: text, lines: listOf(text) },
  refused: { reason: text, of: text, request: text },
  compose: { cell: cellId, source: text },
  read: { id: text, which: allOrIds, outputs: flag, limit: count },
  apply: { id: text, edits: edits(edit), mark: orNull(object(MARK_FIELDS)), request: text },
  show: { request: text, digest: text, title: text, edits: edits(shownEdit) }
};

type Message<K extends keyof typeof MESSAGES> = { readonly type: K } & Taken<(typeof MESSAGES)[K]>;
export type Incoming = { [K in keyof typeof MESSAGES]: Message<K> }[keyof typeof MESSAGES];
export type IShow = Message<'show'>;
export type IApply = Message<'apply'>;
export type IRead = Message<'read'>;

/** A choice for one edit of an accepted request: all of it, `hunks` of it, or a `source` of the user. */
export type IAcceptedEdit = JSONObject & { edit: string };

export type EditState = 'applied' | 'stale' | 'missing' | 'read_only';
export type IResult = JSONObject & { edit: string; state: EditState; hash_now: string | null };

/**
 * Return a message of the kernel as a value of the protocol.
 *
 * @throws InvalidMessage for an unknown version or type, or a field of another type.
 */
export function parseMessage(data: unknown): Incoming {
  const fields = record(data, 'message');
  const type = typeof fields.type === 'string' ? fields.type : '';
  try {
    if (fields.v !== VERSION) {
      throw new InvalidMessage(`unknown version; this page reads version ${VERSION}`);
    }
    const schema = Object.entries(MESSAGES).find(([name]) => name === type)?.[1];
    if (!schema) {
      throw new InvalidMessage('unknown type');
    }
    return { type, ...object<Schema>(schema)(fields, 'message') } as unknown as Incoming;
  } catch (error) {
    throw new InvalidMessage(error instanceof Error ? error.message : String(error), type.slice(0, 40));
  }
}
