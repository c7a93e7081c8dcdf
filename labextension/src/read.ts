import type { ISharedCell, ISharedNotebook } from '@jupyter/ydoc';
import type { JSONObject, JSONValue } from '@lumino/coreutils';

import { joinText, METADATA } from './apply';
import { hashSource, toWellFormed } from './hash';
import { CELL_ID, type IRead, LONGEST_MESSAGE, MARK } from './messages';

const LONGEST_SOURCE = 1_000_000;
const CUT_SOURCE = 100_000;
const LONGEST_MARK = 1_000;
const MOST_OUTPUTS = 1_000;
const MOST_CELLS = 20_000;

/** A budget of characters. `cut` says that something did not fit. */
class Budget {
  cut = false;

  constructor(private left: number) {}

  take(text: string): string {
    const taken = text.slice(0, this.left);
    this.left -= taken.length;
    this.cut ||= taken.length < text.length;
    return toWellFormed(taken);
  }

  /** Take all of a text or nothing. */
  takeWhole(text: string): boolean {
    const fits = text.length <= this.left;
    this.left -= fits ? text.length : 0;
    this.cut ||= !fits;
    return fits;
  }
}

/** Return the cells that a message asks for, in the order of the notebook. Cells without an id of their own are left out. */
export function readCells(notebook: ISharedNotebook, message: IRead): JSONObject[] {
  const wanted = message.which === 'all' ? null : new Set(message.which);
  const ids = new Set<string>();
  let left = LONGEST_MESSAGE * 0.9;
  const cells: JSONObject[] = [];
  notebook.cells.forEach((cell, index) => {
    const id = cell.getId();
    if ((wanted && !wanted.has(id)) || ids.has(id) || !CELL_ID.test(id) || ids.size >= MOST_CELLS) {
      return;
    }
    ids.add(id);
    let found = readCell(cell, index, message);
    let size = JSON.stringify(found).length;
    if (size > left) {
      const { outputs: _, ...rest } = found;
      const source = joinText(rest.source).slice(0, Math.max(0, Math.floor(left / 8)));
      found = { ...rest, source: toWellFormed(source), cut: true };
      size = JSON.stringify(found).length;
    }
    left -= size;
    cells.push(found);
  });
  return cells;
}

function readCell(cell: ISharedCell, index: number, message: IRead): JSONObject {
  const source = cell.getSource();
  const { execution_count } = cell as { execution_count?: unknown };
  const budget = new Budget(message.limit);
  const found: JSONObject = {
    id: cell.getId(),
    kind: cell.cell_type,
    source: toWellFormed(source.length > LONGEST_SOURCE ? source.slice(0, CUT_SOURCE) : source),
    hash: hashSource(source),
    execution_count: Number.isSafeInteger(execution_count) ? (execution_count as number) : null,
    number: index + 1,
    metadata_tract: readMark(cell.getMetadata(METADATA))
  };
  if (message.outputs && cell.cell_type === 'code') {
    const outputs = ((cell.toJSON() as JSONObject).outputs ?? []) as JSONObject[];
    found.outputs = outputs.slice(0, MOST_OUTPUTS).map(output => cutOutput(output, budget));
    budget.cut ||= outputs.length > MOST_OUTPUTS;
  }
  return budget.cut || source.length > LONGEST_SOURCE ? { ...found, cut: true } : found;
}

/** Return the known fields of a mark. A file may have anything there. */
export function readMark(value: unknown): JSONObject | null {
  if (typeof value !== 'object' || value === null) {
    return null;
  }
  const texts = MARK.map(name => [name, (value as JSONObject)[name]] as const);
  const kept = texts.flatMap(([name, text]) => (typeof text === 'string' ? [[name, toWellFormed(text.slice(0, LONGEST_MARK))]] : []));
  return Object.fromEntries(kept) as JSONObject;
}

function cutOutput(output: JSONObject, budget: Budget): JSONObject {
  const kind = String(output.output_type);
  if (kind === 'stream') {
    return { output_type: kind, name: output.name === 'stderr' ? 'stderr' : 'stdout', text: budget.take(joinText(output.text)) };
  }
  if (kind === 'error') {
    const traceback = Array.isArray(output.traceback) ? output.traceback : [];
    return {
      output_type: kind,
      ename: budget.take(joinText(output.ename)),
      evalue: budget.take(joinText(output.evalue)),
      traceback: traceback.map(line => budget.take(joinText(line)))
    };
  }
  const found: JSONObject = { output_type: kind, data: cutData(output.data as JSONObject, budget), metadata: {} };
  if (kind === 'execute_result') {
    found.execution_count = Number.isSafeInteger(output.execution_count) ? output.execution_count : null;
  }
  return found;
}

function cutData(data: JSONObject | undefined, budget: Budget): JSONObject {
  const found: JSONObject = {};
  for (const [type, value] of Object.entries(data ?? {}).filter(([, one]) => isText(one))) {
    const text = joinText(value);
    if (type.startsWith('text/')) {
      found[type] = budget.take(text);
    } else if (budget.takeWhole(text)) {
      found[type] = toWellFormed(text);
    }
  }
  return found;
}

function isText(value: JSONValue | undefined): boolean {
  return typeof value === 'string' || (Array.isArray(value) && value.every(one => typeof one === 'string'));
}
