import type { IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import { NotebookActions, type NotebookPanel } from '@jupyterlab/notebook';
import type { Kernel, KernelMessage } from '@jupyterlab/services';
import { type JSONObject, UUID } from '@lumino/coreutils';

import { Editor } from './apply';
import { ErrorButtons, type Question } from './errors';
import { type IApply, type Incoming, InvalidMessage, type IRead, type IShow, parseMessage, TARGET, VERSION } from './messages';
import { readCells } from './read';
import { Review } from './review';

const ABILITIES = ['read', 'edit', 'run', 'diff'];

/** The connection of one notebook on the page to its kernel. */
export class Session {
  private readonly client = UUID.uuid4();
  private readonly reviews = new Map<string, Review>();
  private readonly asked = new Set<string>();
  private readonly editor: Editor;
  private comm: Kernel.IComm | null = null;
  private buttons: ErrorButtons | null = null;
  private isNew = true;
  private applied: string[] | null = null;

  constructor(
    private readonly panel: NotebookPanel,
    private readonly languages: IEditorLanguageRegistry | null
  ) {
    this.editor = new Editor(panel.model!.sharedModel);
    const { sessionContext } = panel;
    sessionContext.kernelChanged.connect(this.restart, this);
    sessionContext.statusChanged.connect(this.onStatus, this);
    sessionContext.connectionStatusChanged.connect(this.onStatus, this);
    NotebookActions.executed.connect(this.onExecuted, this);
    // before the shortcuts of Notebook 7, which listen on the document
    window.addEventListener('keydown', this.onKey, { capture: true });
    panel.disposed.connect(this.dispose, this);
    this.onStatus();
  }

  private dispose(): void {
    const { sessionContext } = this.panel;
    sessionContext.kernelChanged.disconnect(this.restart, this);
    sessionContext.statusChanged.disconnect(this.onStatus, this);
    sessionContext.connectionStatusChanged.disconnect(this.onStatus, this);
    NotebookActions.executed.disconnect(this.onExecuted, this);
    window.removeEventListener('keydown', this.onKey, { capture: true });
    this.disconnect();
  }

  private get isReadOnly(): boolean {
    const { context } = this.panel;
    return context.model.readOnly || context.contentsModel?.writable === false;
  }

  private restart(): void {
    this.disconnect();
    this.isNew = true;
    this.onStatus();
  }

  private onStatus(): void {
    const kernel = this.panel.sessionContext.session?.kernel;
    // a kernel that runs a cell tells its status to a new page when the cell ends
    const isRunning = kernel?.status === 'unknown' && kernel.connectionStatus === 'connected';
    const status = isRunning ? 'busy' : kernel?.status;
    if (status === 'restarting' || status === 'autorestarting' || status === 'dead') {
      this.disconnect();
      this.isNew = true;
    } else if (this.isNew && (status === 'idle' || status === 'busy')) {
      this.isNew = false;
      this.connect();
    }
  }

  /** The kernel knows the target once a cell has loaded the extension. */
  private onExecuted(_: unknown, { notebook, cell }: { notebook: unknown; cell: { model: { sharedModel: { getSource(): string } } } }): void {
    if (notebook === this.panel.content && !this.comm && cell.model.sharedModel.getSource().includes('tract')) {
      this.connect();
    }
  }

  private connect(): void {
    const kernel = this.panel.sessionContext.session?.kernel;
    if (!kernel || this.comm || !kernel.handleComms) {
      return;
    }
    const comm = kernel.createComm(TARGET);
    comm.onMsg = message => this.onMessage(comm, message);
    comm.onClose = () => {
      if (this.comm === comm) {
        this.disconnect();
      }
    };
    this.comm = comm;
    const hello = { v: VERSION, type: 'hello', notebook: this.panel.context.path, client: this.client };
    comm.open({ ...hello, read_only: this.isReadOnly, abilities: ABILITIES });
  }

  private disconnect(): void {
    this.comm = null;
    this.asked.clear();
    this.buttons?.dispose();
    this.buttons = null;
    [...this.reviews.keys()].forEach(request => this.hide(request));
  }

  private send(comm: Kernel.IComm, message: JSONObject): void {
    if (!comm.isDisposed) {
      comm.send({ v: VERSION, ...message });
    }
  }

  private onMessage(comm: Kernel.IComm, message: KernelMessage.ICommMsgMsg): void {
    if (this.comm !== comm || this.panel.isDisposed) {
      return;
    }
    try {
      this.answer(comm, parseMessage(message.content.data));
    } catch (error) {
      if (!(error instanceof InvalidMessage)) {
        throw error;
      }
      this.send(comm, { type: 'refused', reason: error.message, of: error.of });
    }
  }

  private answer(comm: Kernel.IComm, message: Incoming): void {
    switch (message.type) {
      case 'welcome':
        this.buttons ??= new ErrorButtons(this.panel, (cell, kind) => this.ask(comm, cell, kind));
        break;
      case 'read':
        this.read(comm, message);
        break;
      case 'apply':
        this.apply(comm, message);
        break;
      case 'show':
        this.show(comm, message);
        break;
      case 'hide':
        this.hide(message.request);
        break;
      case 'refused':
        if (message.of === 'decide') {
          this.reviews.forEach(review => review.isBusy && review.refuse(message.reason));
        }
        break;
      case 'compose':
        this.compose(message.cell, message.source);
        break;
    }
  }

  private read(comm: Kernel.IComm, message: IRead): void {
    this.send(comm, { type: 'cells', reply_to: message.id, cells: readCells(this.panel.model!.sharedModel, message) });
  }

  private apply(comm: Kernel.IComm, { id, edits, mark }: IApply): void {
    const results = this.editor.apply(edits, mark, this.isReadOnly);
    if (results.every(one => one.state === 'applied')) {
      this.applied = this.takeState();
    }
    this.send(comm, { type: 'applied', reply_to: id, results });
  }

  private show(comm: Kernel.IComm, message: IShow): void {
    this.hide(message.request);
    const review = new Review(
      message,
      this.panel,
      this.editor,
      () => this.isReadOnly,
      this.languages,
      decision => this.send(comm, decision)
    );
    this.reviews.set(message.request, review);
    this.panel.contentHeader.addWidget(review);
  }

  private hide(request: string): void {
    this.reviews.get(request)?.dispose();
    this.reviews.delete(request);
  }

  private ask(comm: Kernel.IComm, cell: string, kind: Question): void {
    this.asked.add(cell);
    this.send(comm, { type: 'ask', cell, kind });
  }

  /** Insert and run the cell for which the user clicked: once for each click. */
  private compose(id: string, source: string): void {
    const notebook = this.panel.content;
    const index = notebook.widgets.findIndex(cell => cell.model.id === id);
    if (!this.asked.delete(id) || index < 0 || this.isReadOnly) {
      return;
    }
    this.panel.model!.sharedModel.insertCell(index + 1, { cell_type: 'code', source });
    notebook.deselectAll();
    notebook.activeCellIndex = index + 1;
    void NotebookActions.run(notebook, this.panel.sessionContext);
  }

  private readonly onKey = (event: KeyboardEvent): void => {
    if (!(event.target instanceof Node) || !this.panel.node.contains(event.target)) {
      return;
    }
    const [review] = this.reviews.values();
    if (review && event.code === 'KeyE' && event.altKey && event.shiftKey) {
      event.preventDefault();
      event.stopPropagation();
      review.next();
    } else {
      this.undo(event);
    }
  };

  /** Ctrl+Z takes back applied edits if nothing was changed after them. */
  private undo(event: KeyboardEvent): void {
    const isUndo = event.key.toLowerCase() === 'z' && (event.ctrlKey || event.metaKey) && !event.shiftKey && !event.altKey;
    const isOurs = event.target instanceof Element && event.target.closest('input, .jp-tract') !== null;
    if (!isUndo || isOurs || this.applied === null || !isSame(this.applied, this.takeState())) {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
    this.applied = null;
    NotebookActions.undo(this.panel.content);
  }

  /** Return all that an undo step can change: the depth of the history, and the cells with their sources. */
  private takeState(): string[] {
    const { sharedModel } = this.panel.model!;
    const { undoManager } = sharedModel as { undoManager?: { undoStack: unknown[] } };
    const cells = sharedModel.cells.flatMap(cell => [cell.getId(), cell.getSource()]);
    return [String(undoManager?.undoStack.length), ...cells];
  }
}

function isSame(one: string[], other: string[]): boolean {
  return one.length === other.length && one.every((text, index) => text === other[index]);
}
