import type { NotebookPanel } from '@jupyterlab/notebook';
import { Panel, Widget } from '@lumino/widgets';

import { make, makeButton } from './dom';
import type { Session } from './session';

const VIEW = 'application/vnd.jupyter.widget-view+json';
const ASKED = 'tract-jupyter:notifications';
const CANNOT_DRAW = 'This panel needs jupyterlab_widgets. Until it is installed, %tract inbox shows the requests.';
const NOT_LOADED = 'To use this panel, run %load_ext tract_jupyter in the notebook.';

/** The side panel: the kernel's widgets of the current notebook. Without a page that shows it, the kernel has no widgets. */
export class SidePanel extends Panel {
  private session: Session | null = null;
  private readonly note = new Widget({ node: make('p', 'jp-tract-note') });
  private readonly ask = new Widget({ node: make('p', 'jp-tract-ask') });
  private drawn = '';

  constructor() {
    super();
    this.id = 'tract-jupyter';
    this.node.classList.add('jp-tract', 'jp-tract-side');
    this.title.label = 'Tract';
    this.title.caption = 'Requests that wait for you, and the running turn';
    this.ask.node.append(makeButton('Notify me if a request waits', 'jp-mod-link', () => void this.askOnce()));
    [this.note, this.ask].forEach(one => this.addWidget(one));
    this.draw();
  }

  /** Show the panel of another notebook. */
  follow(session: Session | null): void {
    if (session !== this.session) {
      this.session?.changed.disconnect(this.draw, this);
      this.session?.showPanel(false);
      this.session = session;
      session?.changed.connect(this.draw, this);
      session?.showPanel(this.isVisible);
      this.draw();
    }
  }

  protected override onAfterShow(): void {
    this.session?.showPanel(true);
  }

  protected override onAfterHide(): void {
    this.session?.showPanel(false);
  }

  private async askOnce(): Promise<void> {
    localStorage.setItem(ASKED, 'yes');
    await Notification.requestPermission();
    this.draw();
  }

  private draw(): void {
    const { session } = this;
    const models = session?.models ?? [];
    const canDraw = !session || session.panel.content.rendermime.getFactory(VIEW) !== undefined;
    this.note.node.textContent = !canDraw ? CANNOT_DRAW : !session ? 'Open a notebook.' : session.isConnected ? '' : NOT_LOADED;
    this.note.setHidden(this.note.node.textContent === '');
    this.ask.setHidden(!('Notification' in window) || Notification.permission !== 'default' || localStorage.getItem(ASKED) !== null);
    const key = [session?.client, ...models].join(' ');
    if (key !== this.drawn) {
      this.drawn = key;
      this.widgets.filter(one => one !== this.note && one !== this.ask).forEach(one => one.dispose());
      models.filter(() => canDraw).forEach(model => this.addWidget(drawModel(session!.panel, model)));
    }
  }
}

/** Return a view of a widget of the kernel, drawn by the widget manager of its notebook. */
function drawModel({ content: { rendermime } }: NotebookPanel, model: string): Widget {
  const renderer = rendermime.createRenderer(VIEW);
  renderer.addClass('jp-tract-view');
  const data = { [VIEW]: { model_id: model, version_major: 2, version_minor: 0 } };
  void renderer.renderModel(rendermime.createModel({ data, trusted: true }));
  return renderer;
}

/** Tell a user who looks at another page that a request waits. */
export function notify(name: string, open: () => void): void {
  if (document.hidden && 'Notification' in window && Notification.permission === 'granted') {
    const notification = new Notification('A request waits for you', { body: name, tag: `tract-jupyter ${name}` });
    notification.onclick = () => {
      window.focus();
      open();
      notification.close();
    };
  }
}
