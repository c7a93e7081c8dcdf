import type { IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import { NotebookActions, type NotebookPanel } from '@jupyterlab/notebook';
import type { Cell } from '@jupyterlab/cells';
import type { JSONObject } from '@lumino/coreutils';
import { Widget } from '@lumino/widgets';

import type { Editor } from './apply';
import type { Actions } from './commands';
import { Card, describe, Item, placeOf, signOf } from './card';
import { make, makeButton, makeGroup, ReasonField } from './dom';
import { escapeLine } from './escapes';
import type { IAcceptedEdit, IShow } from './messages';

const LONGEST_REASON = 4_000;
/** The page shows the first cards before it draws others. */
const CARDS_OF_A_FRAME = 3;
/** Milliseconds in which the diffs are drawn before the summary, and in which an edit is made before its card goes. */
const [OPENING, CLOSING] = [50, 150];

/** One request with its edits: a summary above the notebook, and a card at each cell. */
export class Review extends Widget {
  isBusy = false;
  private readonly items: Item[];
  private readonly content = make('div');
  private readonly size = new ResizeObserver(([{ borderBoxSize }]) => this.setHeight(borderBoxSize[0].blockSize));
  private readonly rows = make('ul', 'jp-tract-rows');
  private readonly effects = make('ul', 'jp-tract-findings');
  private readonly status = make('span', 'jp-tract-status');
  private readonly accept: HTMLButtonElement;
  private readonly reject: HTMLButtonElement;
  private readonly reason: ReasonField;
  private pending = 0;
  private drawn = '';

  constructor(
    private readonly message: IShow,
    private readonly panel: NotebookPanel,
    private readonly editor: Editor,
    private readonly isReadOnly: () => boolean,
    readonly languages: IEditorLanguageRegistry | null,
    private readonly send: (decision: JSONObject, runs: readonly boolean[]) => void
  ) {
    super({ node: makeGroup('jp-tract-summary', 'Proposed edits') });
    this.items = message.edits.map(edit => new Item(edit));
    this.node.dataset.request = message.request;
    this.accept = makeButton('Accept', 'jp-mod-accept', () => this.acceptAll());
    this.reject = makeButton('Reject…', 'jp-mod-reject', () => this.reason.open());
    this.reason = new ReasonField(this.reject, reason => this.decide('reject', [], reason));
    this.status.setAttribute('role', 'status');
    const head = make('header', 'jp-tract-head', make('b', '', escapeLine(message.title)));
    const foot = make('footer', 'jp-tract-foot', this.accept, this.reject, this.status);
    this.content.append(head, this.rows, this.effects, foot, this.reason.node);
    this.node.append(this.content);
    this.size.observe(this.content);
    this.node.addEventListener('keydown', event => {
      if (event.key === 'Escape') {
        this.panel.content.activate();
      }
    });
    panel.content.model?.contentChanged.connect(this.schedule, this);
    this.changed();
  }

  get isAlone(): boolean {
    return this.items.length === 1;
  }

  /** Compare the edits with the notebook, and show the result. */
  changed(): void {
    this.check();
    let left = CARDS_OF_A_FRAME;
    for (const item of this.items) {
      left -= Number(left > 0 && this.place(item));
      item.card?.refresh();
    }
    if (left === 0) {
      this.schedule();
    }
    this.draw();
  }

  canAccept(item: Item): boolean {
    const isEmpty = item.changed === null ? item.edit.hunks.length > 0 && item.chosen.size === 0 : item.changed === item.old;
    return item.state === 'applied' && item.isSeen && !isEmpty;
  }

  acceptItem(item: Item, runs = false): void {
    if (!this.isBusy && !this.canAccept(item)) {
      void this.reveal(item);
    } else if (!this.isBusy) {
      [item.choice, item.reason, item.runs] = ['accepted', '', runs];
      this.finish();
    }
  }

  leaveOut(item: Item, reason: string): void {
    if (!this.isBusy) {
      [item.choice, item.reason] = ['left out', reason];
      this.finish();
    }
  }

  leave(item: Item): void {
    const notebook = this.panel.content;
    const index = notebook.widgets.findIndex(cell => cell.node.contains(item.card?.node ?? null));
    notebook.activeCellIndex = Math.max(index, 0);
    notebook.activate();
  }

  mimeType({ edit }: Item): string {
    return edit.kind === 'code' ? this.panel.content.codeMimetype : edit.kind === 'raw' ? 'text/plain' : 'text/x-ipythongfm';
  }

  /** Show the effects of the new code on a copy of the kernel. */
  showEffects(lines: readonly string[]): void {
    this.effects.replaceChildren(...lines.map(line => make('li', '', escapeLine(line, 500))));
  }

  /** Show why the kernel did not take the decision. */
  refuse(reason: string): void {
    this.isBusy = false;
    this.items.forEach(item => (item.choice = 'open'));
    this.changed();
    this.status.textContent = `Not accepted: ${escapeLine(reason, 300)}`;
  }

  get hasFocus(): boolean {
    return this.node.contains(document.activeElement) || this.items.some(hasFocus);
  }

  /** The actions that are possible now: on all edits, and on the one that has the focus. */
  get actions(): Actions {
    const item = this.isAlone ? this.items[0] : this.items.find(hasFocus);
    return {
      'next-edit': () => this.move(1),
      'previous-edit': () => this.move(-1),
      'accept-all': () => this.acceptAll(),
      'reject-all': () => this.reason.open(),
      accept: () => (item ? this.acceptItem(item) : this.move(1)),
      'accept-and-run': item?.canRun ? () => this.acceptItem(item, true) : null,
      change: item?.card?.canChange ? () => item.card?.toggleChange() : null,
      reject: item?.card ? () => item.card?.reason.open() : null
    };
  }

  /** Go to the card after or before the one that has the focus. */
  private move(by: 1 | -1): void {
    const items = this.items.filter(item => item.card?.isAttached);
    const current = items.findIndex(hasFocus);
    const next = items[current < 0 && by < 0 ? items.length - 1 : (current + by + items.length) % items.length];
    if (next) {
      void this.reveal(next);
    }
  }

  /** Show the summary after the diffs, because JupyterLab lays out all cells again for it. */
  open(): void {
    window.setTimeout(() => this.isDisposed || this.panel.contentHeader.addWidget(this), OPENING);
  }

  protected override onAfterAttach(): void {
    this.setHeight(this.content.offsetHeight);
  }

  /** Take no more clicks, and go soon: the layout of all cells would delay an accepted edit. */
  closeSoon(): void {
    this.isBusy = true;
    this.panel.content.model?.contentChanged.disconnect(this.schedule, this);
    window.setTimeout(() => this.dispose(), CLOSING);
  }

  override dispose(): void {
    if (this.isDisposed) {
      return;
    }
    this.size.disconnect();
    cancelAnimationFrame(this.pending);
    const { hasFocus } = this;
    this.items.forEach(({ card }) => card?.dispose());
    super.dispose();
    if (hasFocus) {
      this.panel.content.activate();
    }
  }

  /** Tell the panel above the notebook how high the summary is; it gives no more than a widget asks for. */
  private setHeight(content: number): void {
    const height = `${Math.ceil(Math.min(content + 15, window.innerHeight * 0.36))}px`;
    if (this.node.style.minHeight !== height) {
      this.node.style.minHeight = height;
      this.panel.contentHeader.fit();
    }
  }

  private schedule(): void {
    cancelAnimationFrame(this.pending);
    this.pending = requestAnimationFrame(() => this.changed());
  }

  private check(): void {
    const { sharedModel } = this.panel.content.model ?? {};
    const kept = this.items.filter(item => item.choice !== 'left out');
    const states = this.editor.check(kept.map(item => item.edit));
    kept.forEach((item, index) => (item.state = this.isReadOnly() ? 'read_only' : states[index]));
    for (const item of this.items) {
      const cell = sharedModel?.cells.find(one => one.getId() === item.edit.cell);
      const above = sharedModel?.cells.findIndex(one => one.getId() === item.edit.after) ?? -1;
      item.place = above < 0 ? 'to the top' : `below cell ${above + 1}`;
      if (item.old === null && (item.state === 'applied' || item.state === 'read_only')) {
        item.old = item.edit.action === 'insert' ? '' : (cell?.getSource() ?? null);
      }
    }
  }

  /** Draw the card of an edit, if it is not at its cell yet. Return true for a new card. */
  private place(item: Item): boolean {
    const cell = this.findCell(item);
    if (!cell || item.card?.parent === cell) {
      return false;
    }
    const card = new Card(item, this);
    if (!card.place(cell)) {
      card.dispose(); // the notebook has not drawn this cell yet
      void cell.ready.then(() => this.isDisposed || this.changed());
      return false;
    }
    item.card?.dispose();
    item.card = card;
    return true;
  }

  private async reveal(item: Item): Promise<void> {
    const notebook = this.panel.content;
    const cell = this.findCell(item);
    if (cell) {
      NotebookActions.expandParent(cell, notebook); // it may be in a folded section
      await notebook.scrollToItem(notebook.widgets.indexOf(cell)).catch(() => undefined);
      await cell.ready;
      // a large notebook draws the cells around it in the next frames
      for (let frame = 0; frame < 30 && !item.card?.isOnScreen; frame++) {
        item.card?.reveal();
        await new Promise(requestAnimationFrame);
      }
    }
  }

  /** Return the cell of an edit; for a new cell, the cell above it, or the first one. */
  private findCell({ edit }: Item): Cell | undefined {
    const { widgets } = this.panel.content;
    const id = edit.action === 'insert' ? edit.after : edit.cell;
    return id === null ? widgets[0] : widgets.find(cell => cell.model.id === id);
  }

  private draw(): void {
    const open = this.items.filter(item => item.state === 'applied' && item.choice !== 'left out');
    const unseen = open.filter(item => !this.canAccept(item));
    this.drawRows();
    const name = this.isAlone ? 'Accept' : `Accept ${open.length}`;
    this.accept.textContent = unseen.length > 0 ? 'Show next' : name;
    this.accept.hidden = open.length === 0;
    this.accept.setAttribute('aria-disabled', String(this.isBusy));
    this.reject.setAttribute('aria-disabled', String(this.isBusy));
    const hint = `${unseen.length} of ${open.length} not seen in full. Alt+Shift+E goes to the next edit.`;
    this.status.textContent = this.isBusy ? 'Sent.' : unseen.length > 0 ? hint : '';
  }

  /** Draw the rows again if one has changed: a button with the focus would lose it. */
  private drawRows(): void {
    const texts = JSON.stringify(this.items.map(item => [signOf(item), describe(item), item.choice]));
    if (texts !== this.drawn) {
      this.drawn = texts;
      this.rows.replaceChildren(...this.items.map(item => this.drawRow(item)));
    }
  }

  private drawRow(item: Item): HTMLElement {
    const jump = makeButton(placeOf(item.edit), 'jp-mod-link', () => void this.reveal(item));
    const chosen = item.choice === 'open' ? '' : item.choice;
    const sign = make('span', 'jp-tract-sign', signOf(item));
    const row = make('li', '', sign, jump, make('span', '', describe(item)), make('span', 'jp-tract-dim', chosen));
    Object.assign(row.dataset, { edit: item.edit.edit, action: item.edit.action, state: item.state });
    return row;
  }

  private acceptAll(): void {
    const open = this.items.filter(item => item.state === 'applied' && item.choice !== 'left out');
    const unseen = open.find(item => !this.canAccept(item));
    if (!this.isBusy && unseen) {
      void this.reveal(unseen);
    } else if (!this.isBusy && open.length > 0) {
      open.forEach(item => ([item.choice, item.reason] = ['accepted', '']));
      this.decideItems();
    }
  }

  private finish(): void {
    this.changed();
    if (this.items.every(item => item.choice !== 'open' || item.state !== 'applied')) {
      this.decideItems();
    }
  }

  private decideItems(): void {
    const accepted = this.items.filter(item => item.choice === 'accepted' && this.canAccept(item));
    const reasons = this.items.filter(item => item.reason);
    const reason = reasons.map(item => (this.isAlone ? item.reason : `${item.edit.edit}: ${item.reason}`)).join('; ');
    const runs = accepted.map(item => item.runs);
    this.decide(runs.length > 0 ? 'accept' : 'reject', accepted.map(takeChoice), reason.slice(0, LONGEST_REASON), runs);
  }

  private decide(choice: 'accept' | 'reject', edits: IAcceptedEdit[], reason: string, runs: readonly boolean[] = []): void {
    if (this.isBusy) {
      return;
    }
    const { request, digest } = this.message;
    this.isBusy = true;
    this.changed();
    this.send({ type: 'decide', request, digest, choice, edits, ...(reason ? { reason } : {}) }, runs);
  }
}

function hasFocus({ card }: Item): boolean {
  return card?.node.contains(document.activeElement) ?? false;
}

function takeChoice({ edit, chosen, changed }: Item): IAcceptedEdit {
  if (changed !== null && changed !== edit.source) {
    return { edit: edit.edit, source: changed };
  }
  const isWhole = chosen.size === edit.hunks.length;
  return isWhole ? { edit: edit.edit } : { edit: edit.edit, hunks: [...chosen].sort((a, b) => a - b) };
}
