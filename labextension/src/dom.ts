type Tags = HTMLElementTagNameMap;

/** Return an element with a class and children. Strings become text nodes, never markup. */
export function make<K extends keyof Tags>(tag: K, className = '', ...children: readonly (Node | string)[]): Tags[K] {
  const node = document.createElement(tag);
  node.className = className;
  node.append(...children);
  return node;
}

/** Return a button with a text. */
export function makeButton(text: string, className: string, onClick: () => void): HTMLButtonElement {
  const button = make('button', `jp-tract-button ${className}`, text);
  button.type = 'button';
  button.addEventListener('click', event => {
    event.stopPropagation();
    // a double click on "Show next" must not accept the edit that it shows
    if (event.isTrusted && event.detail < 2) {
      onClick();
    }
  });
  return button;
}

/** Return a part of the page that JupyterLab's shortcuts leave alone. */
export function makeGroup(className: string, label: string): HTMLElement {
  const node = make('section', `jp-tract ${className}`);
  node.dataset.lmSuppressShortcuts = 'true';
  node.tabIndex = -1;
  node.setAttribute('role', 'group');
  node.setAttribute('aria-label', label);
  return node;
}

/** A row in which the user gives a reason. Enter sends it, Escape closes it. */
export class ReasonField {
  readonly node = make('div', 'jp-tract-reason');
  private readonly input = make('input', 'jp-tract-input');

  constructor(
    private readonly opener: HTMLElement,
    onReject: (reason: string) => void
  ) {
    this.input.setAttribute('aria-label', 'Reason');
    this.input.placeholder = 'Reason (optional)';
    this.input.maxLength = 2000;
    const send = () => {
      this.close();
      onReject(this.input.value.trim());
    };
    this.input.addEventListener('keydown', event => {
      if (event.key === 'Enter' && !event.isComposing && event.isTrusted) {
        event.preventDefault();
        send();
      } else if (event.key === 'Escape') {
        event.stopPropagation();
        this.close();
        this.opener.focus();
      }
    });
    this.node.append(this.input, makeButton('Reject', '', send));
    this.close();
  }

  open(): void {
    this.node.hidden = false;
    this.input.focus();
  }

  close(): void {
    this.node.hidden = true;
  }
}

/** Tells when all of an element has been on display, also if it is higher than its view. */
export class Sight {
  private seen: [number, number][] = [];
  private readonly observer: IntersectionObserver;

  constructor(
    readonly node: HTMLElement,
    private readonly onComplete: () => void
  ) {
    const thresholds = Array.from({ length: 21 }, (_, index) => index / 20);
    this.observer = new IntersectionObserver(this.measure, { threshold: thresholds });
    this.observer.observe(node);
    document.addEventListener('scroll', this.measure, { capture: true, passive: true });
  }

  dispose(): void {
    this.observer.disconnect();
    document.removeEventListener('scroll', this.measure, { capture: true });
  }

  private readonly measure = (): void => {
    const box = this.node.getBoundingClientRect();
    const view = visibleRange(this.node);
    const [top, bottom] = [Math.max(box.top, view[0]), Math.min(box.bottom, view[1])];
    if (box.height === 0 || bottom <= top || document.visibilityState !== 'visible') {
      return;
    }
    this.seen.push([top - box.top, bottom - box.top]);
    this.seen.sort((one, other) => one[0] - other[0]);
    let end = 0;
    for (const [from, to] of this.seen) {
      end = from <= end + 2 ? Math.max(end, to) : end;
    }
    if (end >= box.height - 2) {
      this.dispose();
      this.onComplete();
    }
  };
}

function visibleRange(node: HTMLElement): [number, number] {
  let [top, bottom] = [0, window.innerHeight];
  // the overflow of the body is that of the window
  for (let above = node.parentElement; above && above !== document.body; above = above.parentElement) {
    if (getComputedStyle(above).overflowY !== 'visible') {
      const box = above.getBoundingClientRect();
      [top, bottom] = [Math.max(top, box.top), Math.min(bottom, box.bottom)];
    }
  }
  return [top, bottom];
}
