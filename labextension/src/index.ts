import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import { INotebookTracker } from '@jupyterlab/notebook';

import { Session } from './session';

/** Shows the edits that a model proposes at the cells of each notebook. */
const plugin: JupyterFrontEndPlugin<void> = {
  id: 'tract-jupyter-labextension:plugin',
  description: 'Shows the edits that a model proposes at the cells of a notebook.',
  autoStart: true,
  requires: [INotebookTracker],
  optional: [IEditorLanguageRegistry],
  activate: (_: JupyterFrontEnd, tracker: INotebookTracker, languages: IEditorLanguageRegistry | null) => {
    tracker.widgetAdded.connect((_tracker, panel) => {
      void panel.context.ready.then(() => panel.isDisposed || new Session(panel, languages));
    });
  }
};

export default plugin;
