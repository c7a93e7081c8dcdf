import { type PanelLayout, Widget } from '@lumino/widgets';
import type { Cell } from '@jupyterlab/cells';
import type { EditorView } from '@codemirror/view';

import { drawDiff } from './diff';
import { make, makeButton, makeGroup, ReasonField, Sight } from './dom';
import { escapeHidden, escapeLine } from './escapes';
import { countLines, isTooLong } from './hunks';
import type { EditState, IHunk, IShownEdit } from './messages';
import type { Review } from './review';

/** One edit on display, and its state. */
export class Item {
  readonly chosen: Set<number>;
  choice: 'open' | 'accepted' | 'left out' = 'open';
  state: EditState = 'applied';
  reason = '';
  old: string | null = null;
  /** The place of a new or moved cell. */
  place = '';
  isSeen = false;
  /** The text as the user changed it; null if the user did not. */
  changed: string | null = null;
  /** True if the cell runs after the change. */
  runs = false;
  card: Card | null = null;

  constructor(readonly edit: IShownEdit) {
    this.chosen = new Set(edit.hunks.map(hunk => hunk.n));
  }

  /** True if the edit leaves a cell that can run. */
  get canRun(): boolean {
    return this.edit.kind === 'code' && (this.edit.action === 'insert' || this.edit.action === 'replace');
  }
}

const TOO_LONG = 'The text is too long for this view. Decide in the output of the cell that asked for it.';
const SIGNS = { insert: '+', replace: '~', delete: '−', move: '→' } as const;

/** Return the sign of an edit: "+", "~", "−", "→", or "!" if it cannot be applied. */
export function signOf(item: Item): string {
  return item.state === 'applied' ? SIGNS[item.edit.action] : '!';
}

/** Return the name of an edit's cell. */
export function placeOf({ number }: IShownEdit): string {
  return number === null ? 'new cell' : `cell ${number}`;
}

/** Return a short description of an edit: its lines, or why it cannot be applied. */
export function describe(item: Item): string {
  const { edit, state } = item;
  const isInsert = edit.action === 'insert';
  if (state === 'stale') {
    return isInsert ? 'this cell exists already' : 'you changed this cell since; the edit cannot be applied';
  }
  if (state === 'missing') {
    return isInsert ? 'the cell above it is gone' : 'this cell is gone';
  }
  if (state === 'read_only') {
    return 'the notebook or the cell is read-only';
  }
  if (edit.action === 'move') {
    return `moves ${item.place}`;
  }
  if (edit.action !== 'replace') {
    const count = ((isInsert ? edit.source : item.old) ?? '').split('\n').length;
    const lines = `${count} line${count === 1 ? '' : 's'}`;
    return isInsert ? `${item.place}, ${lines}` : lines;
  }
  const { added, removed } = countLines(edit.hunks);
  return item.old === null ? '' : `+${added} −${removed} lines`;
}

const TITLES = { insert: 'Insert a cell', replace: 'Edit this cell', delete: 'Delete this cell', move: 'Move this cell' };

/** One proposed edit, drawn at its cell. */
export class Card extends Widget {
  private readonly sign = make('span', 'jp-tract-sign');
  private readonly note = make('p', 'jp-tract-note');
  private readonly body = make('div', 'jp-tract-body');
  private readonly status = make('span', 'jp-tract-status');
  private readonly run: HTMLButtonElement;
  private readonly accept: HTMLButtonElement;
  private readonly change: HTMLButtonElement;
  private readonly reject: HTMLButtonElement;
  readonly reason: ReasonField;
  private sight: Sight | null = null;
  private view: EditorView | null = null;

  constructor(
    private readonly item: Item,
    private readonly decider: Review
  ) {
    super({ node: makeGroup('jp-tract-card', `Proposed edit: ${TITLES[item.edit.action]}, ${placeOf(item.edit)}`) });
    this.node.dataset.edit = item.edit.edit;
    this.node.dataset.action = item.edit.action;
    const mayRun = item.canRun && item.edit.findings.length === 0;
    this.run = makeButton('Accept and run', mayRun ? 'jp-mod-accept' : '', () => decider.acceptItem(item, true));
    this.accept = makeButton('Accept', mayRun ? '' : 'jp-mod-accept', () => decider.acceptItem(item));
    this.change = makeButton('Change', 'jp-mod-link', () => this.toggleChange());
    this.reject = makeButton('Reject…', 'jp-mod-reject', () => this.reason.open());
    this.reason = new ReasonField(this.reject, reason => decider.leaveOut(item, reason));
    const title = make('b', '', TITLES[item.edit.action]);
    const kind = item.edit.action === 'insert' ? `${item.edit.kind} cell` : '';
    const head = make('header', 'jp-tract-head', this.sign, title, make('span', 'jp-tract-dim', kind));
    const foot = make('footer', 'jp-tract-foot', this.run, this.accept, this.reject, this.change, this.status);
    this.node.append(head, this.note, this.body, this.drawFindings(), foot, this.reason.node);
    this.node.addEventListener('keydown', event => {
      if (event.key === 'Escape') {
        event.stopPropagation();
        decider.leave(item);
      }
    });
    this.refresh();
  }

  /** Put the card at its cell. Return false if the cell is not drawn yet. */
  place(cell: Cell): boolean {
    const layout = cell.layout as PanelLayout;
    const { action, after } = this.item.edit;
    const input = layout.widgets.findIndex(one => one.hasClass('jp-Cell-inputWrapper'));
    if (input < 0) {
      return false;
    }
    const isBelow = action === 'insert' && after !== null;
    layout.insertWidget(isBelow ? layout.widgets.length : action === 'insert' ? input : input + 1, this);
    return true;
  }

  /** Show the item's state. */
  refresh(): void {
    const { item, decider } = this;
    const isOpen = item.state === 'applied';
    this.sign.textContent = signOf(item);
    this.node.dataset.state = item.state;
    this.node.dataset.choice = item.choice;
    this.note.hidden = isOpen;
    this.note.textContent = isOpen ? '' : `${describe(item)}.`;
    if (item.old !== null && this.body.childElementCount === 0) {
      this.draw(item.old);
    }
    this.accept.hidden = !isOpen || (item.old !== null && this.isTooLong);
    this.run.hidden = this.accept.hidden || !item.canRun;
    this.change.hidden = !this.canChange;
    this.change.textContent = item.changed === null ? 'Change' : 'Discard my change';
    for (const [button, runs] of [[this.run, true], [this.accept, false]] as const) {
      button.setAttribute('aria-disabled', String(decider.isBusy || !decider.canAccept(item)));
      button.setAttribute('aria-pressed', String(item.choice === 'accepted' && item.runs === runs));
    }
    this.reject.setAttribute('aria-disabled', String(decider.isBusy));
    this.reject.setAttribute('aria-pressed', String(item.choice === 'left out'));
    this.status.textContent = this.describeStatus();
  }

  /** True if the card has the focus, and its top is on display. */
  get isOnScreen(): boolean {
    const { top, height } = this.node.getBoundingClientRect();
    return document.activeElement === this.node && height > 0 && top >= 0 && top < window.innerHeight;
  }

  /** Scroll to the card and give it the focus. */
  reveal(): void {
    const top = this.node.getBoundingClientRect().height > window.innerHeight * 0.7 ? 'start' : 'center';
    this.node.scrollIntoView({ block: this.item.isSeen ? 'center' : top });
    this.node.focus({ preventScroll: true });
  }

  override dispose(): void {
    this.sight?.dispose();
    this.view?.destroy();
    super.dispose();
  }

  /** True if the user can edit the new text here: all of it is on display. */
  get canChange(): boolean {
    const { source } = this.item.edit;
    return !this.accept.hidden && !this.decider.isBusy && source !== null && escapeHidden(source) === source;
  }

  /** Let the user edit the new text, or discard such a change. */
  toggleChange(): void {
    const { item } = this;
    item.changed = item.changed === null ? item.edit.source : null;
    this.view?.destroy();
    this.sight?.dispose();
    this.body.replaceChildren();
    this.decider.changed();
    if (item.changed !== null) {
      this.view?.focus();
    }
  }

  get isTooLong(): boolean {
    return isTooLong(this.item.old ?? '', this.item.edit.source ?? '');
  }

  private describeStatus(): string {
    const { item, decider } = this;
    if (decider.isBusy) {
      return 'Sent.';
    }
    if (item.choice !== 'open') {
      const runs = item.runs ? ', and runs after the turn' : '';
      return decider.isAlone ? '' : item.choice === 'accepted' ? `Accepted${runs}; other edits are open.` : 'Left out.';
    }
    return item.state === 'applied' && !item.isSeen && !this.isTooLong ? 'Scroll through the change to accept it.' : '';
  }

  private draw(old: string): void {
    const { item, decider } = this;
    const { edit, changed } = item;
    if (edit.action === 'move') {
      this.body.append(make('p', 'jp-tract-dim', `The cell ${describe(item)}. It keeps its text and its outputs.`));
    } else if (this.isTooLong) {
      this.body.append(make('p', 'jp-tract-note', TOO_LONG));
      return;
    } else {
      const hasChoice = edit.hunks.length > 1 && edit.action === 'replace' && changed === null;
      const chooser = hasChoice ? (hunk: IHunk) => this.drawChoice(hunk) : null;
      const setText = (text: string) => {
        item.changed = text;
        decider.changed();
      };
      const onChange = changed === null ? null : setText;
      const source = changed ?? edit.source ?? '';
      this.view = drawDiff({ old, source, hunks: edit.hunks, mimeType: decider.mimeType(item), languages: decider.languages, chooser, onChange });
      this.body.classList.toggle('jp-mod-added', old === '');
      this.body.classList.toggle('jp-mod-removed', edit.source === null || edit.source === '');
      this.body.append(this.view.dom);
    }
    this.sight = new Sight(this.body, () => {
      item.isSeen = true;
      decider.changed();
    });
  }

  private drawChoice(hunk: IHunk): HTMLElement {
    const { chosen, edit } = this.item;
    const box = make('input');
    box.type = 'checkbox';
    box.checked = chosen.has(hunk.n);
    box.addEventListener('change', () => {
      chosen[box.checked ? 'add' : 'delete'](hunk.n);
      this.decider.changed();
    });
    return make('label', 'jp-tract-hunk', box, `Change ${edit.hunks.indexOf(hunk) + 1} of ${edit.hunks.length}`);
  }

  private drawFindings(): HTMLElement {
    const rows = this.item.edit.findings.map(({ severity, text, line }) => {
      const place = line === null ? '' : `Line ${line}: `;
      const row = make('li', '', make('b', '', escapeLine(severity, 20)), ` ${place}${escapeLine(text, 500)}`);
      row.dataset.severity = severity;
      return row;
    });
    return make('ul', 'jp-tract-findings', ...rows);
  }
}
