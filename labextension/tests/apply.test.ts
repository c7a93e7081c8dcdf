import { YNotebook } from '@jupyter/ydoc';
import { beforeEach, describe, expect, it, vi } from 'vitest';

import { Editor } from '../src/apply';
import { hashSource } from '../src/hash';
import type { IEdit, IMark } from '../src/messages';
import { readCells } from '../src/read';

const MARK: IMark = { model: 'm', turn: '1', commit: 'c', decision: 'approved', request: 'r' };
const SOURCES = ['a = 1\nb = 2', 'print(a)', '# Title', 'x = "😀"'];

function makeNotebook(disableDocumentWideUndoRedo = true): YNotebook {
  const cells = SOURCES.map((source, index) => ({
    id: `cell-${index}`,
    cell_type: index === 2 ? 'markdown' : 'code',
    source,
    metadata: { tags: ['kept'] },
    ...(index === 2 ? {} : { outputs: [{ output_type: 'stream', name: 'stdout', text: `out ${index}` }], execution_count: index + 1 })
  }));
  const data = { cells, metadata: {}, nbformat: 4, nbformat_minor: 5 };
  const notebook = YNotebook.create({ disableDocumentWideUndoRedo, data: data as never });
  notebook.clearUndoHistory();
  return notebook;
}

function edit(action: IEdit['action'], cell: string, fields: Partial<IEdit> = {}): IEdit {
  const index = Number(cell.split('-')[1]);
  const based_on = action === 'insert' ? null : hashSource(SOURCES[index] ?? '');
  return { edit: `${action} ${cell}`, action, cell, after: null, kind: index === 2 ? 'markdown' : 'code', based_on, source: null, ...fields };
}

const show = (notebook: YNotebook) => notebook.cells.map(cell => [cell.getId(), cell.getSource()]);
const states = (results: { state: string }[]) => results.map(one => one.state);

let stored: Map<string, string>;

beforeEach(() => {
  stored = new Map();
  const setItem = (key: string, value: string) => void stored.set(key, value);
  vi.stubGlobal('sessionStorage', { getItem: (key: string) => stored.get(key) ?? null, setItem });
});

describe('apply', () => {
  it('restores the cell of this notebook, also if a copy of the notebook has the same ids', () => {
    const notebooks = ['one.ipynb', 'two.ipynb'].map(path => {
      const notebook = makeNotebook();
      notebook.cells[3].setMetadata('tags', [path]);
      return [path, notebook, notebook.toJSON()] as const;
    });
    const deleted = notebooks.map(([path, notebook]) => {
      const editor = new Editor(notebook, () => path);
      editor.apply([edit('delete', 'cell-3')], MARK, false);
      return editor;
    });
    const back = edit('insert', 'cell-3', { after: 'cell-2', source: SOURCES[3] });
    deleted[0].apply([back], null, false);
    new Editor(notebooks[1][1], () => 'two.ipynb').apply([back], null, false); // after the page is loaded again
    notebooks.forEach(([, notebook, before]) => expect(notebook.toJSON()).toEqual(before));
  });

  it('restores a deleted cell whole after the page is loaded again, or its text alone if there was no room', () => {
    const fail = () => {
      throw new Error('switched off, or full');
    };
    for (const isFull of [false, true]) {
      const notebook = makeNotebook();
      const before = notebook.toJSON();
      if (isFull) {
        vi.stubGlobal('sessionStorage', { getItem: fail, setItem: fail });
      }
      new Editor(notebook).apply([edit('delete', 'cell-3')], MARK, false);
      const back = edit('insert', 'cell-3', { after: 'cell-2', source: SOURCES[3] });
      expect(states(new Editor(notebook).apply([back], null, false))).toEqual(['applied']);
      expect(notebook.cells[3].getSource()).toBe(SOURCES[3]);
      if (!isFull) {
        expect(notebook.toJSON()).toEqual(before);
      }
    }
  });

  it('makes all edits in order, as one step that can be undone and redone', () => {
    for (const perCell of [true, false]) {
      const notebook = makeNotebook(perCell);
      const before = notebook.toJSON();
      const results = new Editor(notebook).apply(
        [
          edit('replace', 'cell-0', { source: 'a = 1\nb = 20' }),
          edit('insert', 'new-1', { source: 'new', after: 'cell-0' }),
          edit('insert', 'new-2', { source: '# T', after: 'new-1', kind: 'markdown' }),
          edit('move', 'cell-3'),
          edit('move', 'cell-0', { based_on: hashSource('a = 1\nb = 20'), after: 'cell-2', edit: 'again' }),
          edit('delete', 'cell-1')
        ],
        MARK,
        false
      );
      expect(states(results)).toEqual(Array(6).fill('applied'));
      expect(results[0].hash_now).toBe(hashSource('a = 1\nb = 20'));
      expect(results[5].hash_now).toBeNull();
      const after = notebook.toJSON();
      expect(show(notebook)).toEqual([
        ['cell-3', 'x = "😀"'],
        ['new-1', 'new'],
        ['new-2', '# T'],
        ['cell-2', '# Title'],
        ['cell-0', 'a = 1\nb = 20']
      ]);
      expect(notebook.cells[1].getMetadata('tract')).toEqual(MARK);
      expect(notebook.cells[4].getMetadata()).toEqual({ tags: ['kept'], tract: MARK });
      expect(notebook.cells[0].toJSON()).toEqual(before.cells[3]);
      notebook.undo();
      expect(notebook.toJSON()).toEqual(before);
      notebook.redo();
      expect(notebook.toJSON()).toEqual(after);
    }
  });

  it('applies nothing if one edit cannot be applied', () => {
    const good = edit('delete', 'cell-1');
    const cases: [IEdit, string][] = [
      [edit('replace', 'cell-0', { source: 'x', based_on: hashSource('another text') }), 'stale'],
      [edit('replace', 'cell-0', { source: 'x', kind: 'markdown' }), 'stale'],
      [edit('insert', 'cell-3', { source: 'x' }), 'stale'],
      [edit('move', 'cell-3', { after: 'cell-3' }), 'stale'],
      [edit('insert', 'new-1', { source: 'x', after: 'gone' }), 'missing'],
      [edit('move', 'cell-3', { after: 'cell-1' }), 'missing'],
      [edit('delete', 'gone-9'), 'missing'],
      [edit('delete', 'cell-1', { edit: 'again' }), 'missing']
    ];
    for (const [bad, state] of cases) {
      const notebook = makeNotebook();
      const before = notebook.toJSON();
      expect(states(new Editor(notebook).apply([good, bad], MARK, false))).toEqual(['stale', state]);
      expect(notebook.toJSON()).toEqual(before);
      expect(notebook.canUndo()).toBe(false);
    }
  });

  it('refuses read-only notebooks and cells, and cells that run', () => {
    const notebook = makeNotebook();
    const editor = new Editor(notebook);
    const replace = edit('replace', 'cell-0', { source: 'x' });
    expect(states(editor.apply([replace], MARK, true))).toEqual(['read_only']);
    notebook.cells[0].setMetadata('editable', false);
    expect(states(editor.apply([replace], MARK, false))).toEqual(['read_only']);
    notebook.cells[1].setMetadata('deletable', false);
    expect(states(editor.apply([edit('delete', 'cell-1')], MARK, false))).toEqual(['read_only']);
    (notebook.cells[3] as unknown as { executionState: string }).executionState = 'running';
    expect(states(editor.apply([edit('delete', 'cell-3')], MARK, false))).toEqual(['stale']);
    expect(show(notebook).map(([, source]) => source)).toEqual(SOURCES);
  });

  it('restores a deleted cell whole, and only with its own source', () => {
    const notebook = makeNotebook();
    const before = notebook.toJSON();
    const editor = new Editor(notebook);
    editor.apply([edit('delete', 'cell-3')], MARK, false);
    editor.apply([edit('insert', 'cell-3', { source: SOURCES[3], after: 'cell-2' })], null, false);
    expect(notebook.toJSON()).toEqual(before);
    editor.apply([edit('delete', 'cell-3')], MARK, false);
    editor.apply([edit('insert', 'cell-3', { source: 'other', after: 'cell-2' })], null, false);
    expect((notebook.cells[3].toJSON() as { outputs: unknown[] }).outputs).toEqual([]);
  });

  it('takes the mark away without one, and keeps surrogate pairs whole', () => {
    const notebook = makeNotebook();
    const editor = new Editor(notebook);
    let old = SOURCES[3];
    for (const source of ['x = "😁"', '😂x = "😁"', '', '😀😁', '😀😀😁', '😀']) {
      const replace = edit('replace', 'cell-3', { source, based_on: hashSource(old) });
      expect(editor.apply([replace], MARK, false)[0]).toMatchObject({ state: 'applied', hash_now: hashSource(source) });
      old = source;
    }
    editor.apply([edit('replace', 'cell-3', { source: SOURCES[3], based_on: hashSource(old) })], null, false);
    expect(notebook.cells[3].getMetadata('tract')).toBeUndefined();
  });
});

describe('read', () => {
  const message = { type: 'read', id: '1', which: 'all', outputs: true, limit: 100 } as const;

  it('returns the wanted cells in the order of the notebook', () => {
    const cells = readCells(makeNotebook(), { ...message, which: ['cell-2', 'cell-0', 'gone'] });
    expect(cells).toEqual([
      {
        id: 'cell-0', kind: 'code', source: SOURCES[0], hash: hashSource(SOURCES[0]), execution_count: 1, number: 1,
        metadata_tract: null, outputs: [{ output_type: 'stream', name: 'stdout', text: 'out 0' }]
      },
      {
        id: 'cell-2', kind: 'markdown', source: '# Title', hash: hashSource('# Title'), execution_count: null, number: 3,
        metadata_tract: null
      }
    ]);
  });

  it('sends only what the kernel reads', () => {
    const notebook = makeNotebook();
    notebook.cells[0].setMetadata('tract', { ...MARK, model: '\ud800', more: [[]], turn: 3 });
    notebook.cells[0].setSource('a \udc00');
    const json = { cell_type: 'code', source: '' };
    notebook.insertCells(1, [{ ...json, id: '../x' }, { ...json, id: 'cell-0' }] as never);
    const cells = readCells(notebook, message);
    const { turn: _, ...texts } = MARK;
    expect(cells.map(cell => cell.id)).toEqual(['cell-0', 'cell-1', 'cell-2', 'cell-3']);
    expect(cells[0]).toMatchObject({ source: 'a \ufffd', hash: hashSource('a \ufffd'), metadata_tract: { ...texts, model: '\ufffd' } });
    expect(cells[0].metadata_tract).not.toHaveProperty('more');
    expect(hashSource('a \udc00')).toBe(cells[0].hash);
  });

  it('cuts outputs at the limit, and long sources', () => {
    const notebook = makeNotebook();
    const image = { output_type: 'display_data', metadata: {}, data: { 'image/png': 'A'.repeat(200), 'text/plain': ['a', 'b'], 'x/y': {} } };
    (notebook.cells[0] as unknown as { setOutputs(outputs: unknown[]): void }).setOutputs([image]);
    notebook.cells[1].setSource('#'.repeat(1_000_001));
    const [first, second] = readCells(notebook, message);
    expect(first).toMatchObject({ cut: true, outputs: [{ data: { 'text/plain': 'ab' } }] });
    expect(second).toMatchObject({ cut: true, hash: hashSource('#'.repeat(1_000_001)) });
    expect((second.source as string).length).toBe(100_000);
    const many = YNotebook.create();
    many.insertCells(0, Array.from({ length: 20 }, () => ({ cell_type: 'code', source: '\u0001'.repeat(900_000) })) as never);
    expect(JSON.stringify(readCells(many, message)).length).toBeLessThan(8_000_000);
  });
});
