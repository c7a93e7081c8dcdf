import { type Cell, type ICellModel, isCodeCellModel } from '@jupyterlab/cells';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { Signal } from '@lumino/signaling';
import { type PanelLayout, Widget } from '@lumino/widgets';

import { METADATA } from './apply';
import { make, makeButton, makeGroup } from './dom';
import { escapeLine } from './escapes';
import { readMark } from './read';

export type Question = 'fix' | 'explain';

/** Looks at all cells soon after a change of the notebook. */
abstract class Watcher {
  private pending = 0;

  constructor(protected readonly panel: NotebookPanel) {
    panel.content.model?.contentChanged.connect(this.schedule, this);
    this.schedule();
  }

  dispose(): void {
    cancelAnimationFrame(this.pending);
    Signal.clearData(this);
  }

  protected schedule(): void {
    cancelAnimationFrame(this.pending);
    this.pending = requestAnimationFrame(() => this.panel.content.widgets.forEach(cell => this.look(cell)));
  }

  protected abstract look(cell: Cell): void;
}

/** Buttons below each output with an error. */
export class ErrorButtons extends Watcher {
  private readonly rows = new Map<ICellModel, Widget>();

  constructor(
    panel: NotebookPanel,
    private readonly ask: (cell: string, kind: Question) => void
  ) {
    super(panel);
  }

  override dispose(): void {
    super.dispose();
    this.rows.forEach(row => row.dispose());
    this.rows.clear();
  }

  protected look(cell: Cell): void {
    const row = this.rows.get(cell.model);
    const isShown = row !== undefined && !row.isDisposed && row.parent === cell;
    if (hasError(cell.model) !== isShown) {
      row?.dispose();
      this.rows.delete(cell.model);
      if (!isShown) {
        this.add(cell);
      }
    }
  }

  private add(cell: Cell): void {
    const layout = cell.layout as PanelLayout;
    const output = layout.widgets.findIndex(one => one.hasClass('jp-Cell-outputWrapper'));
    if (output < 0) {
      return void cell.ready.then(() => this.schedule());
    }
    const row = new Widget({ node: makeGroup('jp-tract-errors', 'Ask about this error') });
    const button = (text: string, kind: Question) => makeButton(text, 'jp-mod-link', () => this.ask(cell.model.id, kind));
    row.node.append(make('span', 'jp-tract-dim', 'Ask about this error:'), button('Fix', 'fix'), button('Explain', 'explain'));
    layout.insertWidget(output + 1, row);
    this.rows.set(cell.model, row);
  }
}

/** A badge on each cell that a model has written. Its text comes from the file, which may have anything there. */
export class Badges extends Watcher {
  private readonly badges = new WeakMap<Cell, [string, HTMLElement]>();

  protected look(cell: Cell): void {
    const found = readMark(cell.model.sharedModel.getMetadata(METADATA));
    const lines = Object.entries(found ?? {}).map(([name, text]) => `${name}: ${escapeLine(String(text), 80)}`);
    const [before, old] = this.badges.get(cell) ?? ['', null];
    const text = lines.join('\n');
    if (text === before && (text === '' || old?.isConnected)) {
      return;
    }
    old?.remove();
    const badge = make('span', 'jp-tract jp-tract-badge', escapeLine(String(found?.model || 'a model'), 40));
    this.badges.set(cell, [text, badge]);
    badge.title = `This cell was written by a model. %tract log --cell ${cell.model.id} says why.\n${text}`;
    badge.setAttribute('role', 'note');
    badge.setAttribute('aria-label', badge.title);
    if (text !== '') {
      cell.inputArea?.node.append(badge);
    }
  }
}

/** These cells have text for a model, and no code. Their display says what to do about a failed turn. */
const ASKS_A_MODEL = /^\s*%%tract_(chat|run|propose|orchestrate)\b/;

/** Return true if an output of a cell is an error of its code. The user's own Stop is none. */
export function hasError(model: ICellModel): boolean {
  const outputs = isCodeCellModel(model) && !ASKS_A_MODEL.test(model.sharedModel.getSource()) ? model.outputs : null;
  const found = Array.from({ length: outputs?.length ?? 0 }, (_, index) => outputs!.get(index));
  return found.some(one => one.type === 'error' && !/^(KeyboardInterrupt|CancelledError)$/.test(String(one.toJSON().ename)));
}
