import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { ICommandPalette } from '@jupyterlab/apputils';
import { CommandRegistry } from '@lumino/commands';

/** The commands and their names in the palette. The schema of the plugin has their shortcuts. */
const LABELS = {
  'open-panel': 'Show the Side Panel',
  'next-edit': 'Next Proposed Edit',
  'previous-edit': 'Previous Proposed Edit',
  accept: 'Accept This Edit',
  'accept-and-run': 'Accept This Edit and Run the Cell',
  change: 'Change This Edit',
  reject: 'Reject This Edit…',
  'accept-all': 'Accept All Edits',
  'reject-all': 'Reject All Edits…',
  fix: 'Fix the Error of This Cell',
  explain: 'Explain the Error of This Cell',
  stop: 'Stop the Running Turn'
};

/** The commands that can run now. */
export type Actions = Partial<Record<keyof typeof LABELS, (() => void) | null>>;

/** Add the commands. `actions` returns the ones that are possible now. */
export function addCommands({ commands }: JupyterFrontEnd, palette: ICommandPalette | null, actions: () => Actions): void {
  for (const [name, label] of Object.entries(LABELS) as [keyof Actions, string][]) {
    const command = `tract:${name}`;
    commands.addCommand(command, {
      label: `Tract: ${label}`,
      isEnabled: () => Boolean(actions()[name]),
      execute: () => isUser(window.event) && actions()[name]?.()
    });
    palette?.addItem({ command, category: 'Tract' });
  }
  // JupyterLab's shortcuts do not reach the cards, because their letters would edit the notebook
  const onKey = (event: KeyboardEvent) => {
    const isOurs = event.target instanceof Element && event.target.closest('[data-lm-suppress-shortcuts]') !== null;
    const keys = isOurs && event.isTrusted ? CommandRegistry.keystrokeForKeydownEvent(event) : '';
    const binding = keys && commands.keyBindings.find(one => one.command.startsWith('tract:') && one.keys[0] === keys);
    if (binding) {
      event.preventDefault();
      event.stopPropagation();
      void commands.execute(binding.command);
    }
  };
  document.addEventListener('keydown', onKey, { capture: true });
}

/** A script of an output may send keys, and a Markdown cell may have a button that runs a command. */
function isUser(event: Event | undefined): boolean {
  const isButton = event?.target instanceof Element && event.target.closest('[data-commandlinker-command]') !== null;
  return navigator.userActivation?.isActive !== false && event?.isTrusted !== false && !isButton;
}
