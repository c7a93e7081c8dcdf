import type { ISharedCell, ISharedNotebook, SharedCell } from '@jupyter/ydoc';
import type * as nbformat from '@jupyterlab/nbformat';

import { hashSource } from './hash';
import type { EditState, IEdit, IMark, IResult } from './messages';

/** Name of the part of a cell's metadata that says where its source comes from. */
export const METADATA = 'tract';

type IState = ReturnType<typeof takeState>;

/** Applies edits to a notebook. It remembers the cells that it deleted, to restore them whole. */
export class Editor {
  private readonly kept = new Map<string, nbformat.IBaseCell>();

  /** `path` returns the path of the notebook: a copy of it has cells with the same ids. */
  constructor(
    private readonly notebook: ISharedNotebook,
    private readonly path = () => ''
  ) {}

  /**
   * Apply all edits as one step of the notebook's undo history, or none.
   *
   * @returns The state of each edit. If one cannot be applied, none is "applied".
   */
  apply(edits: readonly IEdit[], mark: IMark | null, readOnly: boolean): IResult[] {
    const cells = this.notebook.cells.map(takeState);
    const states = edits.map(edit => (readOnly ? 'read_only' : checkEdit(cells, edit)));
    if (states.some(state => state !== 'applied')) {
      return edits.map((edit, index) => this.result(edit, states[index] === 'applied' ? 'stale' : states[index]));
    }
    // Yjs joins changes of the same half second into one step
    this.endStep();
    // `cells` of the notebook changes after the transaction only
    const order = [...this.notebook.cells];
    this.notebook.transact(() => edits.forEach(edit => this.make(order, edit, mark)), true);
    this.endStep();
    return edits.map(edit => this.result(edit, 'applied'));
  }

  /** Return the state that each edit would get now, after the ones before it. */
  check(edits: readonly IEdit[]): EditState[] {
    const cells = this.notebook.cells.map(takeState);
    return edits.map(edit => checkEdit(cells, edit));
  }

  private result(edit: IEdit, state: EditState): IResult {
    const cell = this.notebook.cells.find(one => one.getId() === edit.cell);
    return { edit: edit.edit, state, hash_now: cell ? hashSource(cell.getSource()) : null };
  }

  private make(order: ISharedCell[], edit: IEdit, mark: IMark | null): void {
    const index = order.findIndex(cell => cell.getId() === edit.cell);
    switch (edit.action) {
      case 'insert':
        return this.insert(order, edit.after, this.compose(edit, mark));
      case 'replace':
        replaceSource(order[index], edit.source ?? '');
        return setMark(order[index], mark);
      case 'delete':
        return void this.keep(edit.cell, this.remove(order, index));
      case 'move':
        return this.insert(order, edit.after, this.remove(order, index) as SharedCell.Cell);
    }
  }

  private insert(order: ISharedCell[], after: string | null, cell: SharedCell.Cell): void {
    const index = order.findIndex(one => one.getId() === after) + 1;
    order.splice(index, 0, this.notebook.insertCell(index, cell));
  }

  private remove(order: ISharedCell[], index: number): nbformat.IBaseCell {
    const [cell] = order.splice(index, 1);
    const json = { ...cell.toJSON(), id: cell.getId() };
    this.notebook.deleteCell(index);
    return json;
  }

  private compose(edit: IEdit, mark: IMark | null): SharedCell.Cell {
    const deleted = this.keep(edit.cell);
    if (deleted && deleted.cell_type === edit.kind && joinText(deleted.source) === edit.source) {
      return deleted as SharedCell.Cell;
    }
    const metadata = mark === null ? {} : { [METADATA]: { ...mark } };
    return { id: edit.cell, cell_type: edit.kind, source: edit.source ?? '', metadata } as SharedCell.Cell;
  }

  /** Keep a deleted cell while this page is open, and in most browsers also after it is loaded again. Return it, or null. */
  private keep(id: string, cell?: nbformat.IBaseCell): nbformat.IBaseCell | null {
    const key = `tract_jupyter:${this.path()}:${id}`;
    void (cell && this.kept.set(id, cell));
    try {
      void (cell && sessionStorage.setItem(key, JSON.stringify(cell)));
      return this.kept.get(id) ?? JSON.parse(sessionStorage.getItem(key) ?? 'null');
    } catch {
      return this.kept.get(id) ?? null; // no room, or switched off
    }
  }

  private endStep(): void {
    (this.notebook as { undoManager?: { stopCapturing(): void } }).undoManager?.stopCapturing();
  }
}

/** Return a text that nbformat stores as one string or as a list of strings. */
export function joinText(text: unknown): string {
  return Array.isArray(text) ? text.join('') : String(text ?? '');
}

function takeState(cell: ISharedCell) {
  return {
    id: cell.getId(),
    kind: cell.cell_type as string,
    source: () => cell.getSource(),
    editable: cell.getMetadata('editable') !== false,
    deletable: cell.getMetadata('deletable') !== false,
    running: (cell as { executionState?: string }).executionState === 'running'
  };
}

/** Check an edit against the cells, and change them as the edit would. */
function checkEdit(cells: IState[], edit: IEdit): EditState {
  const index = cells.findIndex(cell => cell.id === edit.cell);
  const after = cells.findIndex(cell => cell.id === edit.after);
  const place = edit.action === 'insert' || edit.action === 'move';
  if ((edit.action !== 'insert' && index < 0) || (place && edit.after !== null && after < 0)) {
    return 'missing';
  }
  if (edit.action === 'insert') {
    if (index >= 0) {
      return 'stale';
    }
    const added = { id: edit.cell, kind: edit.kind, source: () => edit.source ?? '', editable: true, deletable: true };
    cells.splice(after + 1, 0, { ...added, running: false });
    return 'applied';
  }
  const cell = cells[index];
  if (cell.kind !== edit.kind || hashSource(cell.source()) !== edit.based_on || edit.after === edit.cell) {
    return 'stale';
  }
  if (edit.action === 'replace') {
    cell.source = () => edit.source ?? '';
    return cell.editable ? 'applied' : 'read_only';
  }
  if (cell.running) {
    return 'stale'; // its outputs would be lost
  }
  cells.splice(index, 1);
  if (edit.action === 'delete') {
    return cell.deletable ? 'applied' : 'read_only';
  }
  cells.splice(cells.findIndex(one => one.id === edit.after) + 1, 0, cell);
  return 'applied';
}

/** Change only the part that differs: the cursor stays, and so does a concurrent edit of another user elsewhere. */
function replaceSource(cell: ISharedCell, source: string): void {
  const old = cell.getSource();
  const most = Math.min(old.length, source.length);
  let start = 0;
  while (start < most && old[start] === source[start]) {
    start++;
  }
  let end = 0;
  while (end < most - start && old[old.length - 1 - end] === source[source.length - 1 - end]) {
    end++;
  }
  start -= Number(isInsidePair(old, start) || isInsidePair(source, start));
  end -= Number(isInsidePair(old, old.length - end) || isInsidePair(source, source.length - end));
  cell.updateSource(start, old.length - end, source.slice(start, source.length - end));
}

/** Yjs replaces a surrogate pair that is cut in two. */
function isInsidePair(text: string, index: number): boolean {
  return /[\ud800-\udbff]/.test(text.charAt(index - 1)) && /[\udc00-\udfff]/.test(text.charAt(index));
}

function setMark(cell: ISharedCell, mark: IMark | null): void {
  if (mark !== null) {
    cell.setMetadata(METADATA, { ...mark });
  } else if (cell.getMetadata(METADATA) !== undefined) {
    cell.deleteMetadata(METADATA);
  }
}
