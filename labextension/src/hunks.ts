import { Change, presentableDiff } from '@codemirror/merge';

import type { IHunk } from './messages';

/** Longest part that is compared character by character. */
export const SCAN_LIMIT = 500;
const MOST_CHARACTERS = 200_000;
const LONGEST_LINE = 10_000;

/** Return true if the two texts are too long to be shown line by line. */
export function isTooLong(...texts: readonly string[]): boolean {
  return texts.some(text => text.length > MOST_CHARACTERS || text.split('\n').some(line => line.length > LONGEST_LINE));
}

/** Return the changed words of the hunks, or null if the texts differ outside of them. */
export function hunkChanges(old: string, source: string, hunks: readonly IHunk[]): Change[] | null {
  const [oldStarts, newStarts] = [lineStarts(old), lineStarts(source)];
  const changes: Change[] = [];
  let [a, b] = [0, 0];
  for (const hunk of hunks) {
    let [fromA, fromB] = [oldStarts[hunk.old[0]], newStarts[hunk.new[0]]];
    const [toA, toB] = [oldStarts[hunk.old[1]], newStarts[hunk.new[1]]];
    if ([fromA, fromB, toA, toB].includes(undefined as never)) {
      return null;
    }
    // at the end of the text, the line feed before the first line belongs to the change
    const atEnd = hunk.old[1] === oldStarts.length - 1 || hunk.new[1] === newStarts.length - 1;
    if (atEnd && fromA > 0 && fromB > 0) {
      [fromA, fromB] = [fromA - 1, fromB - 1];
    }
    const [endA, endB] = [Math.min(toA, old.length), Math.min(toB, source.length)];
    if (fromA < a || fromB < b || old.slice(a, fromA) !== source.slice(b, fromB)) {
      return null;
    }
    for (const one of presentableDiff(old.slice(fromA, endA), source.slice(fromB, endB), { scanLimit: SCAN_LIMIT })) {
      changes.push(new Change(one.fromA + fromA, one.toA + fromA, one.fromB + fromB, one.toB + fromB));
    }
    [a, b] = [endA, endB];
  }
  return hunks.length > 0 && old.slice(a) === source.slice(b) ? changes : null;
}

/** Return the numbers of added and removed lines. */
export function countLines(hunks: readonly IHunk[]): { added: number; removed: number } {
  const sum = (side: 'old' | 'new') => hunks.reduce((total, hunk) => total + hunk[side][1] - hunk[side][0], 0);
  return { added: sum('new'), removed: sum('old') };
}

/** Return the start of each line, and one past the end of the text. */
export function lineStarts(text: string): number[] {
  const starts = [0];
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) {
    starts.push(at + 1);
  }
  return [...starts, text.length + 1];
}
