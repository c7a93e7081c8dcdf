import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import { INotebookTracker, type NotebookPanel } from '@jupyterlab/notebook';
import { IStatusBar } from '@jupyterlab/statusbar';
import { Widget } from '@lumino/widgets';

import { addCommands } from './commands';
import { make, makeButton } from './dom';
import { Session } from './session';
import { notify, SidePanel } from './sidebar';

/** Shows the edits that a model proposes at the cells of each notebook, and a panel with all requests. */
const plugin: JupyterFrontEndPlugin<void> = {
  id: 'tract-jupyter-labextension:plugin',
  description: 'Shows the edits that a model proposes at the cells of a notebook.',
  autoStart: true,
  requires: [INotebookTracker],
  optional: [IEditorLanguageRegistry, ICommandPalette, IStatusBar],
  activate: (
    app: JupyterFrontEnd,
    tracker: INotebookTracker,
    languages: IEditorLanguageRegistry | null,
    palette: ICommandPalette | null,
    statusBar: IStatusBar | null
  ) => {
    const sessions = new Map<NotebookPanel | null, Session>();
    const current = () => sessions.get(tracker.currentWidget) ?? null;
    const side = new SidePanel();
    const open = () => app.shell.activateById(side.id);
    const waiting = makeButton('', 'jp-mod-link', open);
    const item = new Widget({ node: make('span', 'jp-tract jp-tract-waiting', waiting) });
    app.shell.add(side, 'right', { rank: 700 });
    statusBar?.registerStatusItem(side.id, { item, align: 'left', rank: 700, isActive: () => (current()?.count ?? 0) > 0 });
    addCommands(app, palette, () => ({ 'open-panel': open, ...current()?.actions }));
    const follow = () => {
      side.follow(current());
      const count = current()?.count ?? 0;
      waiting.textContent = `Tract: ${count} waiting`;
      item.setHidden(count === 0);
    };
    tracker.currentChanged.connect(follow);
    follow();
    tracker.widgetAdded.connect((_tracker, panel) => {
      void panel.context.ready.then(() => {
        if (panel.isDisposed) {
          return;
        }
        const session = new Session(panel, languages);
        sessions.set(panel, session);
        session.changed.connect((_session, isMore) => {
          follow();
          void (isMore && notify(panel.title.label, open));
        });
        panel.disposed.connect(() => sessions.delete(panel));
        follow();
      });
    });
  }
};

export default plugin;
