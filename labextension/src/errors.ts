import { type Cell, type ICellModel, isCodeCellModel } from '@jupyterlab/cells';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { type PanelLayout, Widget } from '@lumino/widgets';

import { make, makeButton, makeGroup } from './dom';

export type Question = 'fix' | 'explain';

/** Buttons below each output with an error. */
export class ErrorButtons {
  private readonly rows = new Map<ICellModel, Widget>();
  private pending = 0;

  constructor(
    private readonly panel: NotebookPanel,
    private readonly ask: (cell: string, kind: Question) => void
  ) {
    panel.content.model?.contentChanged.connect(this.schedule, this);
    this.update();
  }

  dispose(): void {
    cancelAnimationFrame(this.pending);
    this.panel.content.model?.contentChanged.disconnect(this.schedule, this);
    this.rows.forEach(row => row.dispose());
    this.rows.clear();
  }

  private schedule(): void {
    cancelAnimationFrame(this.pending);
    this.pending = requestAnimationFrame(() => this.update());
  }

  private update(): void {
    for (const cell of this.panel.content.widgets) {
      const row = this.rows.get(cell.model);
      const isShown = row !== undefined && !row.isDisposed && row.parent === cell;
      if (hasError(cell.model) === isShown) {
        continue;
      }
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
      void cell.ready.then(() => this.schedule());
      return;
    }
    const row = new Widget({ node: makeGroup('jp-tract-errors', 'Ask about this error') });
    const button = (text: string, kind: Question) =>
      makeButton(text, 'jp-mod-link', () => this.ask(cell.model.id, kind));
    row.node.append(make('span', 'jp-tract-dim', 'Ask about this error:'), button('Fix', 'fix'), button('Explain', 'explain'));
    layout.insertWidget(output + 1, row);
    this.rows.set(cell.model, row);
  }
}

function hasError(model: ICellModel): boolean {
  if (!isCodeCellModel(model)) {
    return false;
  }
  const { outputs } = model;
  return Array.from({ length: outputs.length }, (_, index) => outputs.get(index)).some(one => one.type === 'error');
}
