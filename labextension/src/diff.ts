import { history, historyKeymap, insertNewlineAndIndent } from '@codemirror/commands';
import { syntaxHighlighting } from '@codemirror/language';
import { unifiedMergeView } from '@codemirror/merge';
import { Compartment, EditorState, type Extension, type Range } from '@codemirror/state';
import { Decoration, EditorView, keymap, lineNumbers, WidgetType } from '@codemirror/view';
import { type IEditorLanguageRegistry, jupyterHighlightStyle } from '@jupyterlab/codemirror';

import { escapeHidden } from './escapes';
import { hunkChanges, lineStarts, SCAN_LIMIT } from './hunks';
import type { IHunk } from './messages';

/** What a diff shows. `chooser` returns the control of a hunk. With `onChange`, the user can edit the new text. */
export interface IDiff {
  readonly old: string;
  readonly source: string;
  readonly hunks: readonly IHunk[];
  readonly mimeType: string;
  readonly languages: IEditorLanguageRegistry | null;
  readonly chooser: ((hunk: IHunk) => HTMLElement) | null;
  readonly onChange: ((text: string) => void) | null;
}

/** A view writes the styles of all editors again into its root, and the page then computes each element's style. */
const elsewhere = document.createElement('div').attachShadow({ mode: 'open' });
let hasStyles = false;

/** Return a read-only view of a change: removed lines above added ones, or the only text. Hidden characters are escapes. */
export function drawDiff(shown: IDiff): EditorView {
  const [old, source] = [escapeHidden(shown.old), escapeHidden(shown.source)];
  const language = new Compartment();
  const spec = shown.languages?.findByMIME(shown.mimeType);
  const isChange = shown.old !== '' && shown.source !== '';
  const { onChange } = shown;
  const changes = isChange && !onChange ? hunkChanges(old, source, shown.hunks) : null;
  const extensions: Extension[] = [
    onChange ? makeEditable(onChange) : [EditorState.readOnly.of(true), EditorView.editable.of(false)],
    EditorView.lineWrapping,
    lineNumbers(),
    syntaxHighlighting(jupyterHighlightStyle),
    language.of(spec?.support ?? [])
  ];
  if (isChange) {
    extensions.push(
      unifiedMergeView({
        original: old,
        mergeControls: false,
        gutter: true,
        ...(onChange ? {} : { collapseUnchanged: { margin: 3, minSize: 6 } }),
        diffConfig: changes ? { override: () => changes } : { scanLimit: SCAN_LIMIT }
      })
    );
  }
  if (changes && shown.chooser) {
    extensions.unshift(chooseHunks(source, shown.hunks, shown.chooser));
  }
  const state = EditorState.create({ doc: isChange ? source : old + source, extensions });
  const view = new EditorView({ state, root: hasStyles && !onChange ? elsewhere : document });
  hasStyles ||= isChange;
  const loading = spec && !spec.support ? shown.languages?.getLanguage(spec) : null;
  void loading?.then(found => {
    if (found?.support && view.dom.isConnected) {
      view.dispatch({ effects: language.reconfigure(found.support) });
    }
  });
  return view;
}

function makeEditable(onChange: (text: string) => void): Extension {
  return [
    history(),
    keymap.of([...historyKeymap, { key: 'Enter', run: insertNewlineAndIndent }]),
    EditorView.updateListener.of(update => update.docChanged && onChange(update.state.doc.toString()))
  ];
}

class Chooser extends WidgetType {
  constructor(private readonly node: HTMLElement) {
    super();
  }

  toDOM(): HTMLElement {
    return this.node;
  }
}

function chooseHunks(source: string, hunks: readonly IHunk[], chooser: (hunk: IHunk) => HTMLElement): Extension {
  const starts = lineStarts(source);
  const widgets = hunks.map((hunk): Range<Decoration> => {
    const place = Math.min(starts[hunk.new[0]], source.length);
    return Decoration.widget({ widget: new Chooser(chooser(hunk)), block: true, side: -2 }).range(place);
  });
  return EditorView.decorations.of(Decoration.set(widgets, true));
}
