import { describe, expect, it } from 'vitest';

import { escapeHidden, escapeLine } from '../src/escapes';
import { hashSource } from '../src/hash';
import { countLines, hunkChanges, isTooLong } from '../src/hunks';
import { InvalidMessage, parseMessage } from '../src/messages';

describe('hashSource', () => {
  it('is SHA-256 of UTF-8', () => {
    expect(hashSource('')).toBe('e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855');
    expect(hashSource('é😀')).toBe('1184d1f608158eea09d297565575892231550c403aaa913008d867a97cfd5c76');
    expect(hashSource('abc')).toBe('ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad');
  });
});

describe('escapes', () => {
  it('shows controls, bidirectional and invisible characters', () => {
    expect(escapeHidden('a\tb\nc')).toBe('a\tb\nc');
    expect(escapeHidden('\u001b[31m\r\u202e\u200b\ufeff\u2028')).toBe('\\x1b[31m\\x0d\\u202e\\u200b\\ufeff\\u2028');
    expect(escapeHidden('\u{e0041}\u{1d173}\u{1bca0}\u2800')).toBe('\\U000e0041\\U0001d173\\U0001bca0\\u2800');
    expect(escapeHidden('é 漢 😀 <b>&amp;')).toBe('é 漢 😀 <b>&amp;');
    expect(escapeLine(`a\nb${'x'.repeat(300)}`, 10)).toBe('a⏎bxxxxxxx…');
  });
});

describe('hunkChanges', () => {
  const old = 'a\nb\nc\nd';

  function apply(text: string, source: string, hunks: Parameters<typeof hunkChanges>[2]): string | null {
    const changes = hunkChanges(text, source, hunks);
    let [made, at] = ['', 0];
    for (const one of changes ?? []) {
      made += text.slice(at, one.fromA) + source.slice(one.fromB, one.toB);
      at = one.toA;
    }
    return changes && made + text.slice(at);
  }

  it('turns one text into the other', () => {
    const cases: [string, [number, number], [number, number]][] = [
      ['a\nB\nc\nd', [1, 2], [1, 2]],
      ['a\nb\nc\nd\ne\nf', [4, 4], [4, 6]],
      ['a\nb', [2, 4], [2, 2]],
      ['x\na\nb\nc\nd', [0, 0], [0, 1]],
      ['c\nd', [0, 2], [0, 0]],
      ['a\nb\nc\nD', [3, 4], [3, 4]],
      ['x', [0, 4], [0, 1]]
    ];
    for (const [source, from, to] of cases) {
      expect(apply(old, source, [{ n: 0, old: from, new: to }])).toBe(source);
    }
  });

  it('is null if the texts differ elsewhere, or the lines do not exist', () => {
    expect(hunkChanges(old, 'a\nB\nc\nD', [{ n: 0, old: [1, 2], new: [1, 2] }])).toBeNull();
    expect(hunkChanges(old, 'a', [{ n: 0, old: [1, 9], new: [1, 1] }])).toBeNull();
    expect(hunkChanges(old, old, [])).toBeNull();
  });

  it('counts lines, and knows texts that are too long to show', () => {
    const hunks = [{ n: 0, old: [1, 2], new: [1, 2] }, { n: 1, old: [3, 3], new: [3, 4] }] as const;
    expect(countLines(hunks)).toEqual({ added: 2, removed: 1 });
    expect(isTooLong('x'.repeat(10_001))).toBe(true);
    expect(isTooLong('x\n'.repeat(10_000), '')).toBe(false);
  });
});

describe('parseMessage', () => {
  const hash = hashSource('');
  const edit = { edit: 'e1', action: 'replace', cell: 'c1', after: null, kind: 'code', based_on: hash, source: 'x' };
  const shown = { ...edit, number: 1, findings: [{ severity: 'low', text: 't', line: null }], hunks: [{ n: 0, old: [0, 1], new: [0, 1] }] };
  const mark = { model: '', turn: '', commit: '', decision: '', request: '' };
  const messages: Record<string, object> = {
    welcome: {},
    waiting: { count: 2 },
    panel: { models: ['m1', 'm2'] },
    hide: { request: 'r', outcome: 'approved' },
    refused: { reason: 'no', of: 'decide', request: 'r1' },
    compose: { cell: 'c1', source: 'x' },
    read: { id: '1', which: ['c1'], outputs: true, limit: 5 },
    apply: { id: '1', edits: [edit], mark, request: 'r' },
    show: { request: 'r', digest: 'd', title: 't', edits: [shown] }
  };

  it('reads all types, and copies known fields only', () => {
    for (const [type, fields] of Object.entries(messages)) {
      expect(parseMessage({ v: 1, type, ...fields, more: 1 })).toEqual({ type, ...fields });
    }
    expect(parseMessage({ v: 1, type: 'apply', id: '1', edits: [edit], mark: { ...mark, more: 1 }, request: '' })).toMatchObject({ mark });
  });

  it('refuses each field of another type, and unknown versions and types', () => {
    for (const [type, fields] of Object.entries(messages)) {
      for (const name of Object.keys(fields)) {
        for (const value of [undefined, 7.5, {}, [[]]]) {
          expect(() => parseMessage({ v: 1, type, ...fields, [name]: value }), `${type} ${name}`).toThrow(InvalidMessage);
        }
      }
    }
    for (const data of [null, [], 'x', {}, { v: 2, type: 'welcome' }, { v: 1, type: '__proto__' }, { v: 1, type: 'hello' }]) {
      expect(() => parseMessage(data)).toThrow(InvalidMessage);
    }
  });

  it('gives a proposed cell an id', () => {
    const added = { ...shown, action: 'insert', cell: null, based_on: null };
    const message = { v: 1, type: 'show', request: 'r', digest: 'd', title: 't', edits: [added] };
    expect(parseMessage(message)).toMatchObject({ edits: [{ cell: 'tract-new-e1' }] });
  });

  it('refuses impossible edits', () => {
    const bad = [
      { source: null }, { based_on: null }, { based_on: 'x' }, { action: 'run' }, { cell: '../x' }, { cell: null },
      { kind: 'html' }, { action: 'insert' }, { action: 'delete' }, { after: '' }
    ];
    for (const change of bad) {
      expect(() => parseMessage({ v: 1, type: 'apply', id: '1', edits: [{ ...edit, ...change }], mark: null, request: '' })).toThrow(InvalidMessage);
    }
    for (const edits of [[], [edit, edit]]) {
      expect(() => parseMessage({ v: 1, type: 'apply', id: '1', edits, mark: null, request: '' })).toThrow(InvalidMessage);
    }
  });
});
