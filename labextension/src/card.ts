import type { IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import { type PanelLayout, Widget } from '@lumino/widgets';
import type { Cell } from '@jupyterlab/cells';

import { drawDiff } from './diff';
import { make, makeButton, makeGroup, ReasonField, Sight } from './dom';
import { escapeLine } from './escapes';
import { countLines, isTooLong } from './hunks';
import type { EditState, IHunk, IShownEdit } from './messages';

/** The state of one edit on display. */
export interface IItem {
  readonly edit: IShownEdit;
  readonly chosen: Set<number>;
  choice: 'open' | 'accepted' | 'left out';
  state: EditState;
  reason: string;
  old: string | null;
  /** The place of a new or moved cell. */
  place: string;
  isSeen: boolean;
  card: Card | null;
}

/** What a card needs of its review. */
export interface IDecider {
  readonly isBusy: boolean;
  readonly isAlone: boolean;
  readonly languages: IEditorLanguageRegistry | null;
  mimeType(item: IItem): string;
  canAccept(item: IItem): boolean;
  changed(): void;
  acceptItem(item: IItem): void;
  leaveOut(item: IItem, reason: string): void;
  leave(item: IItem): void;
}

const SIGNS = { insert: '+', replace: '~', delete: '−', move: '→' } as const;

/** The lines of each replaced text, which are compared once. */
const counted = new WeakMap<IItem, string>();

/** Return the sign of an edit: "+", "~", "−", "→", or "!" if it cannot be applied. */
export function signOf(item: IItem): string {
  return item.state === 'applied' ? SIGNS[item.edit.action] : '!';
}

/** Return the name of an edit's cell. */
export function placeOf({ number }: IShownEdit): string {
  return number === null ? 'new cell' : `cell ${number}`;
}

/** Return a short description of an edit: its lines, or why it cannot be applied. */
export function describe(item: IItem): string {
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
  const known = counted.get(item);
  if (known !== undefined || item.old === null) {
    return known ?? '';
  }
  const { added, removed } = countLines(item.old, edit.source ?? '');
  counted.set(item, `+${added} −${removed} lines`);
  return describe(item);
}

const TITLES = { insert: 'Insert a cell', replace: 'Edit this cell', delete: 'Delete this cell', move: 'Move this cell' };

/** One proposed edit, drawn at its cell. */
export class Card extends Widget {
  private readonly item: IItem;
  private readonly decider: IDecider;
  private readonly sign = make('span', 'jp-tract-sign');
  private readonly note = make('p', 'jp-tract-note');
  private readonly body = make('div', 'jp-tract-body');
  private readonly status = make('span', 'jp-tract-status');
  private readonly accept: HTMLButtonElement;
  private readonly reject: HTMLButtonElement;
  private readonly reason: ReasonField;
  private sight: Sight | null = null;
  private view: { destroy(): void } | null = null;

  constructor(item: IItem, decider: IDecider) {
    super({ node: makeGroup('jp-tract-card', `Proposed edit: ${TITLES[item.edit.action]}, ${placeOf(item.edit)}`) });
    this.item = item;
    this.decider = decider;
    this.node.dataset.edit = item.edit.edit;
    this.node.dataset.action = item.edit.action;
    this.accept = makeButton('Accept', 'jp-mod-accept', () => decider.acceptItem(item));
    this.reject = makeButton('Reject…', 'jp-mod-reject', () => this.reason.open());
    this.reason = new ReasonField(
      () => this.reject,
      reason => decider.leaveOut(item, reason)
    );
    const title = make('b', '', TITLES[item.edit.action]);
    const kind = item.edit.action === 'insert' ? `${item.edit.kind} cell` : '';
    const head = make('header', 'jp-tract-head', this.sign, title, make('span', 'jp-tract-dim', kind));
    const foot = make('footer', 'jp-tract-foot', this.accept, this.reject, this.status);
    this.node.append(head, this.note, this.body, this.drawFindings(), foot, this.reason.node);
    this.node.addEventListener('keydown', event => this.onKey(event));
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
    if (action !== 'insert') {
      layout.insertWidget(input + 1, this);
    } else if (after === null) {
      layout.insertWidget(input, this);
    } else {
      layout.addWidget(this);
    }
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
    this.accept.setAttribute('aria-disabled', String(decider.isBusy || !decider.canAccept(item)));
    this.reject.setAttribute('aria-disabled', String(decider.isBusy));
    this.accept.setAttribute('aria-pressed', String(item.choice === 'accepted'));
    this.reject.setAttribute('aria-pressed', String(item.choice === 'left out'));
    this.status.textContent = this.describeStatus();
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

  get isTooLong(): boolean {
    return isTooLong(this.item.old ?? '', this.item.edit.source ?? '');
  }

  private describeStatus(): string {
    const { item, decider } = this;
    if (decider.isBusy) {
      return 'Sent.';
    }
    if (item.choice !== 'open') {
      return decider.isAlone ? '' : item.choice === 'accepted' ? 'Accepted; other edits are open.' : 'Left out.';
    }
    return item.state === 'applied' && !item.isSeen && !this.isTooLong ? 'Scroll through the change to accept it.' : '';
  }

  private draw(old: string): void {
    const { edit } = this.item;
    if (edit.action === 'move') {
      const text = `The cell ${describe(this.item)}. It keeps its text and its outputs.`;
      this.body.append(make('p', 'jp-tract-dim', text));
    } else if (this.isTooLong) {
      const text = 'The text is too long for this view. Decide in the output of the cell that asked for it.';
      this.body.append(make('p', 'jp-tract-note', text));
      return;
    } else {
      const { languages } = this.decider;
      const several = edit.hunks.length > 1 && edit.action === 'replace';
      const mimeType = this.decider.mimeType(this.item);
      const chooser = several ? (hunk: IHunk) => this.drawChoice(hunk) : null;
      const view = drawDiff({ old, source: edit.source ?? '', hunks: edit.hunks, mimeType, languages, chooser });
      this.view = view;
      this.body.classList.toggle('jp-mod-added', old === '');
      this.body.classList.toggle('jp-mod-removed', edit.source === null || edit.source === '');
      this.body.append(view.dom);
    }
    this.sight = new Sight(this.body, () => {
      this.item.isSeen = true;
      this.decider.changed();
    });
  }

  private drawChoice(hunk: IHunk): HTMLElement {
    const { chosen, edit } = this.item;
    const box = make('input');
    box.type = 'checkbox';
    box.checked = chosen.has(hunk.n);
    box.addEventListener('change', () => {
      if (box.checked) {
        chosen.add(hunk.n);
      } else {
        chosen.delete(hunk.n);
      }
      this.decider.changed();
    });
    const name = `Change ${edit.hunks.indexOf(hunk) + 1} of ${edit.hunks.length}`;
    return make('label', 'jp-tract-hunk', box, name);
  }

  private drawFindings(): HTMLElement {
    const rows = this.item.edit.findings.map(({ severity, text, line }) => {
      const place = line === null ? '' : `Line ${line}: `;
      const level = escapeLine(severity, 20);
      const row = make('li', '', make('b', '', level), ` ${place}${escapeLine(text, 500)}`);
      row.dataset.severity = level;
      return row;
    });
    const list = make('ul', 'jp-tract-findings', ...rows);
    list.hidden = rows.length === 0;
    return list;
  }

  private onKey(event: KeyboardEvent): void {
    if (event.key === 'Escape') {
      event.stopPropagation();
      this.decider.leave(this.item);
    }
  }
}
