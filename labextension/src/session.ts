import type { Cell, ICodeCellModel } from '@jupyterlab/cells';
import type { IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import { NotebookActions, type NotebookPanel } from '@jupyterlab/notebook';
import type { Kernel, KernelMessage } from '@jupyterlab/services';
import { type JSONObject, UUID } from '@lumino/coreutils';
import { Signal } from '@lumino/signaling';

import { Editor } from './apply';
import type { Actions } from './commands';
import { hashSource } from './hash';
import { Badges, ErrorButtons, hasError, type Question } from './marks';
import { type IApply, type IEdit, type Incoming, InvalidMessage, type IShow, parseMessage, TARGET, VERSION } from './messages';
import { readCells } from './read';
import { Review } from './review';

const WIDGET = 'application/vnd.jupyter.widget-view+json';
const ABILITIES = ['read', 'edit', 'run', 'diff', 'watch'];

/** The connection of one notebook on the page to its kernel. */
export class Session {
  readonly client = UUID.uuid4();
  /** Emitted if the connection, the number of requests, or the widgets of the side panel change: true for more requests. */
  readonly changed = new Signal<this, boolean>(this);
  /** The number of open requests. */
  count = 0;
  /** The widgets of the side panel. */
  models: readonly string[] = [];
  private isPanelOpen = false;
  private readonly reviews = new Map<string, Review>();
  /** The cells with an error that the user asked about: true if the turn about it runs. */
  private readonly asked = new Map<string, boolean>();
  private readonly editor: Editor;
  private readonly badges: Badges;
  private readonly runs = new Map<string, readonly boolean[]>();
  private comm: Kernel.IComm | null = null;
  private buttons: ErrorButtons | null = null;
  private kernel: Kernel.IKernelConnection | null | undefined = null;
  private isNew = true;
  private readonly applied: string[] = [];

  constructor(
    readonly panel: NotebookPanel,
    private readonly languages: IEditorLanguageRegistry | null
  ) {
    this.editor = new Editor(panel.model!.sharedModel, () => panel.context.path);
    this.badges = new Badges(panel);
    const { sessionContext } = panel;
    sessionContext.kernelChanged.connect(this.onStatus, this);
    sessionContext.statusChanged.connect(this.onStatus, this);
    sessionContext.connectionStatusChanged.connect(this.onStatus, this);
    sessionContext.iopubMessage.connect(this.onOutput, this);
    NotebookActions.executed.connect(this.onExecuted, this);
    // before the shortcuts of Notebook 7, which listen on the document
    window.addEventListener('keydown', this.onKey, { capture: true });
    panel.disposed.connect(this.dispose, this);
    this.onStatus();
  }

  private dispose(): void {
    window.removeEventListener('keydown', this.onKey, { capture: true });
    this.disconnect();
    this.badges.dispose();
    Signal.clearData(this);
  }

  /** Let the kernel make or remove the widgets of the side panel. */
  showPanel(isOpen: boolean): void {
    if (isOpen !== this.isPanelOpen) {
      this.isPanelOpen = isOpen;
      this.models = [];
      this.send(this.isConnected ? this.comm : null, { type: 'panel', open: isOpen });
      this.changed.emit(false);
    }
  }

  /** The actions that are possible now. */
  get actions(): Actions {
    const { comm, isConnected } = this;
    const { activeCell } = this.panel.content;
    const id = activeCell && hasError(activeCell.model) ? activeCell.model.id : null;
    const [first, ...others] = this.reviews.values();
    const ask = (kind: Question) => (comm && isConnected && id ? () => this.ask(comm, id, kind) : null);
    return {
      ...(others.find(one => one.hasFocus) ?? first)?.actions,
      fix: ask('fix'),
      explain: ask('explain'),
      stop: comm && isConnected ? () => this.send(comm, { type: 'stop' }) : null
    };
  }

  get isConnected(): boolean {
    return this.buttons !== null;
  }

  private get isReadOnly(): boolean {
    return this.panel.context.model.readOnly || this.panel.context.contentsModel?.writable === false;
  }

  private onStatus(): void {
    const kernel = this.panel.sessionContext.session?.kernel;
    // a kernel that runs a cell tells its status to a new page when the cell ends
    const isRunning = kernel?.status === 'unknown' && kernel.connectionStatus === 'connected';
    const status = isRunning ? 'busy' : kernel?.status;
    if (kernel !== this.kernel || status === 'restarting' || status === 'autorestarting' || status === 'dead') {
      this.disconnect();
      [this.kernel, this.isNew] = [kernel, true];
    }
    if (this.isNew && (status === 'idle' || status === 'busy')) {
      this.isNew = false;
      this.connect();
    }
  }

  /** The kernel knows the target once a cell has loaded the extension. */
  private onExecuted(_: unknown, { notebook, cell }: { notebook: unknown; cell: Cell }): void {
    if (notebook === this.panel.content && !this.comm && cell.model.sharedModel.getSource().includes('tract')) {
      this.connect();
    }
  }

  /** Replace a widget that was saved while it was live: JupyterLab updates only outputs of cells that it has run itself. */
  private onOutput(_: unknown, message: KernelMessage.IMessage): void {
    const { transient } = message.content as { transient?: JSONObject };
    const cells = this.panel.model?.cells;
    if (message.header.msg_type !== 'update_display_data' || !transient?.tract_widget || this.panel.context.model.collaborative || !cells) {
      return;
    }
    const { data, metadata } = message.content as KernelMessage.IUpdateDisplayDataMsg['content'];
    for (const cell of cells) {
      const { outputs } = cell as ICodeCellModel;
      for (let index = 0; index < (outputs?.length ?? 0); index++) {
        const view = outputs.get(index).data[WIDGET] as JSONObject | undefined;
        if (view?.model_id === transient.tract_widget) {
          outputs.set(index, { output_type: 'display_data', data, metadata });
        }
      }
    }
  }

  private connect(): void {
    const kernel = this.panel.sessionContext.session?.kernel;
    if (!kernel || this.comm || !kernel.handleComms) {
      return;
    }
    const comm = kernel.createComm(TARGET);
    comm.onMsg = message => this.onMessage(comm, message);
    comm.onClose = () => void (this.comm === comm && this.disconnect());
    this.comm = comm;
    const { client, isReadOnly: read_only } = this;
    comm.open({ v: VERSION, type: 'hello', notebook: this.panel.context.path, client, read_only, abilities: ABILITIES });
  }

  private disconnect(): void {
    this.comm = null;
    [this.count, this.models] = [0, []];
    this.asked.clear();
    this.buttons?.dispose();
    this.buttons = null;
    [...this.reviews.keys()].forEach(request => this.hide(request));
    this.changed.emit(false);
  }

  private send(comm: Kernel.IComm | null, message: JSONObject): void {
    if (comm && !comm.isDisposed) {
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
        this.send(this.isPanelOpen ? comm : null, { type: 'panel', open: true });
        return this.changed.emit(false);
      case 'waiting': {
        const isMore = message.count > this.count;
        this.count = message.count;
        return this.changed.emit(isMore);
      }
      case 'panel':
        this.models = this.isPanelOpen ? message.models : [];
        return this.changed.emit(false);
      case 'read':
        this.panel.model!.contentChanged.connect(this.onContent, this);
        return this.send(comm, { type: 'cells', reply_to: message.id, cells: readCells(this.panel.model!.sharedModel, message) });
      case 'apply':
        return this.apply(comm, message);
      case 'show':
        return this.show(comm, message);
      case 'effects':
        return this.reviews.get(message.request)?.showEffects(message.lines);
      case 'hide':
        this.reviews.get(message.request)?.closeSoon();
        return void this.reviews.delete(message.request);
      case 'refused':
        void (message.of === 'ask' && this.asked.forEach((isRunning, cell) => isRunning || this.asked.delete(cell)));
        return message.of === 'decide' ? this.refuse(message.request, message.reason) : undefined;
      case 'compose':
        return this.compose(message.cell, message.source);
    }
  }

  /** Let the user decide again about a request, or about all if the kernel could not read which one it was. */
  private refuse(request: string, reason: string): void {
    const names = request === '' ? [...this.runs.keys(), ...this.reviews.keys()] : [request];
    for (const name of names) {
      const review = this.reviews.get(name);
      this.runs.delete(name);
      void (review?.isBusy && review.refuse(reason));
    }
  }

  /** Tell the kernel that the cells that it has read may have changed: once for each reading. */
  private onContent(): void {
    this.panel.model!.contentChanged.disconnect(this.onContent, this);
    this.send(this.comm, { type: 'changed' });
  }

  private apply(comm: Kernel.IComm, { id, edits, mark, request }: IApply): void {
    const results = this.editor.apply(edits, mark, this.isReadOnly);
    if (results.every(one => one.state === 'applied')) {
      this.applied.push(this.takeState());
      this.runAccepted(edits, request);
    }
    this.send(comm, { type: 'applied', reply_to: id, results });
  }

  /** Run the cells that the user accepted with "Accept and run". The edits are the accepted ones, in the same order. */
  private runAccepted(edits: readonly IEdit[], request: string): void {
    const runs = this.runs.get(request) ?? [];
    this.runs.delete(request);
    const ids = edits.filter((_, index) => runs.length === edits.length && runs[index]).map(edit => edit.cell);
    const { widgets } = this.panel.content;
    const cells = widgets.filter((cell, index) => ids.includes(cell.model.id) && index === widgets.findIndex(one => one.model.id === cell.model.id));
    void (cells.length > 0 && NotebookActions.runCells(this.panel.content, cells, this.panel.sessionContext));
  }

  private show(comm: Kernel.IComm, message: IShow): void {
    this.hide(message.request);
    const review = new Review(message, this.panel, this.editor, () => this.isReadOnly, this.languages, (decision, runs) => {
      this.runs.set(message.request, runs);
      this.send(comm, decision);
    });
    this.reviews.set(message.request, review);
    review.open();
  }

  private hide(request: string): void {
    this.reviews.get(request)?.dispose();
    this.reviews.delete(request);
  }

  private ask(comm: Kernel.IComm, cell: string, kind: Question): void {
    if (!this.asked.has(cell)) {
      this.asked.set(cell, false);
      this.send(comm, { type: 'ask', cell, kind });
    }
  }

  /** Insert and run the cell for which the user clicked. Until its end, another click does nothing. */
  private compose(id: string, source: string): void {
    const notebook = this.panel.content;
    const { sharedModel } = this.panel.model!;
    const index = sharedModel.cells.findIndex(cell => cell.getId() === id);
    const isAsked = this.asked.get(id) === false && this.asked.delete(id);
    if (!isAsked || index < 0 || this.isReadOnly) {
      return;
    }
    const below = sharedModel.cells[index + 1];
    if (below?.cell_type !== 'code' || below.getSource() !== source) {
      sharedModel.insertCell(index + 1, { cell_type: 'code', source });
    }
    notebook.deselectAll();
    notebook.activeCellIndex = index + 1;
    this.asked.set(id, true);
    void NotebookActions.run(notebook, this.panel.sessionContext).finally(() => this.asked.delete(id));
  }

  private readonly onKey = (event: KeyboardEvent): void => {
    // Ctrl+Z takes back applied edits if nothing was changed after them
    const isUndo = event.key.toLowerCase() === 'z' && (event.ctrlKey || event.metaKey) && !event.shiftKey && !event.altKey;
    const cell = event.target instanceof Element && !event.target.closest('input, .jp-tract') ? event.target : null;
    if (!isUndo || !this.panel.node.contains(cell) || this.applied[this.applied.length - 1] !== this.takeState()) {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
    this.applied.pop();
    NotebookActions.undo(this.panel.content);
  };

  /** Return all that an undo step can change: the depth of the history, and the cells with their sources. */
  private takeState(): string {
    const { sharedModel } = this.panel.model!;
    const { undoManager } = sharedModel as { undoManager?: { undoStack: unknown[] } };
    return hashSource(JSON.stringify([undoManager?.undoStack.length, sharedModel.cells.map(cell => [cell.getId(), cell.getSource()])]));
  }
}
