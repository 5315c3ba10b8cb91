// The configuration editor: CodeMirror with our mode. Loaded only when an editor is shown.
import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap, snippet, type Completion, type CompletionContext } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { bracketMatching, HighlightStyle, indentOnInput, indentService, indentUnit, StreamLanguage, syntaxHighlighting } from "@codemirror/language";
import { lintGutter, linter, lintKeymap, type Diagnostic } from "@codemirror/lint";
import { highlightSelectionMatches, searchKeymap } from "@codemirror/search";
import { Compartment, EditorState, StateEffect, type Extension } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, highlightActiveLineGutter, hoverTooltip, keymap, lineNumbers, type Tooltip } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import type { Fault } from "../api.gen";
import { choices, help, type Choice } from "./complete";
import { i18n } from "../i18n/index.svelte";
import { changes, faultRange, faultText } from "./edits";
import { pbtxtMode } from "./mode";
import type { Schema } from "./path";

export interface EditorOptions {
  parent: HTMLElement;
  doc: string;
  /** The name for screen readers. */
  label: string;
  dark: boolean;
  readOnly: boolean;
  /** null until the schema is loaded; there is no completion or help before. */
  schema: () => Schema | null;
  /** Asks the server for the faults of a text; called 200 ms after the last change. */
  check: (text: string) => Promise<Fault[]>;
  onChange: (text: string) => void;
  onSave: () => void;
}

export interface Editor {
  setDoc(text: string): void;
  setDark(dark: boolean): void;
  /** Moves the cursor to a fault and shows it. */
  reveal(f: Fault): void;
  applyFix(f: Fault, n: number): void;
  /** Checks the text again. */
  recheck(): void;
  focus(): void;
  destroy(): void;
}

const look = EditorView.theme({
  "&": { color: "var(--text)", backgroundColor: "var(--field)", fontSize: "13px", height: "100%" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "-1px" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.5" },
  ".cm-content": { caretColor: "var(--text)", paddingBottom: "40px" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-gutters": { backgroundColor: "var(--field)", color: "var(--muted)", borderRight: "1px solid var(--line)" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--hover)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--select)" },
  ".cm-tooltip": { backgroundColor: "var(--panel)", border: "1px solid var(--line-strong)", borderRadius: "6px", color: "var(--text)", boxShadow: "var(--shadow)" },
  ".cm-tooltip-autocomplete > ul > li[aria-selected]": { backgroundColor: "var(--accent)", color: "var(--on-accent)" },
  ".cm-completionInfo": { padding: "8px 10px", maxWidth: "380px", whiteSpace: "pre-wrap", lineHeight: "1.45" },
  ".cm-help": { padding: "8px 10px", maxWidth: "460px", whiteSpace: "pre-wrap", lineHeight: "1.45" },
  ".cm-help b": { fontFamily: "var(--mono)", fontWeight: "600" },
  ".cm-panels": { backgroundColor: "var(--panel)", color: "var(--text)" },
  ".cm-diagnosticAction": { backgroundColor: "var(--accent)", color: "var(--on-accent)", borderRadius: "4px", padding: "1px 7px" },
  ".cm-diagnosticText": { whiteSpace: "pre-wrap" },
});

const colours = HighlightStyle.define([
  { tag: tags.comment, color: "var(--syn-comment)", fontStyle: "italic" },
  { tag: tags.string, color: "var(--syn-string)" },
  { tag: [tags.number, tags.bool], color: "var(--syn-number)" },
  { tag: tags.propertyName, color: "var(--syn-field)" },
  { tag: tags.atom, color: "var(--syn-enum)" },
]);

/** New lines are indented by the number of open brackets. */
const indent = indentService.of((context, pos) => {
  const before = context.state.sliceDoc(0, pos).replace(/#[^\n]*|"(?:[^"\\\n]|\\.)*"/g, "");
  const depth = (before.match(/[{[]/g)?.length ?? 0) - (before.match(/[}\]]/g)?.length ?? 0);
  const closes = /^\s*[}\]]/.test(context.state.sliceDoc(pos, pos + 80));
  return Math.max(0, depth - (closes ? 1 : 0)) * 2;
});

function toCompletion(c: Choice): Completion {
  const template = c.insert.replace("|", "${}");
  return { label: c.label, detail: c.detail, type: c.kind === "field" ? "property" : "enum", ...(c.doc ? { info: c.doc } : {}), apply: snippet(template) };
}

function completer(schema: () => Schema | null) {
  return (context: CompletionContext) => {
    const s = schema();
    const word = context.matchBefore(/[\w.]*/);
    const inside = context.matchBefore(/#[^\n]*|"(?:[^"\\\n]|\\.)*$/);
    if (!s || !word || inside || (word.from === word.to && !context.explicit)) return null;
    const options = choices(s, context.state.sliceDoc(0, word.from)).map(toCompletion);
    return options.length ? { from: word.from, options, validFor: /^\w*$/ } : null;
  };
}

function hover(schema: () => Schema | null): Extension {
  return hoverTooltip((view, pos): Tooltip | null => {
    const s = schema();
    const word = view.state.wordAt(pos);
    const h = s && word && help(s, view.state.doc.toString(), word.from, word.to);
    if (!h) return null;
    return {
      pos: word.from,
      end: word.to,
      create: () => {
        const dom = document.createElement("div");
        dom.className = "cm-help";
        const title = dom.appendChild(document.createElement("b"));
        title.textContent = h.title;
        dom.append(h.doc ? "\n" + h.doc : "");
        return { dom };
      },
    };
  });
}

function diagnostics(text: string, faults: readonly Fault[]): Diagnostic[] {
  return faults.map((f) => ({
    ...faultRange(text, f),
    severity: f.severity,
    message: faultText(f),
    actions: f.fixes.map((fix) => ({
      name: i18n.server("fixes", fix.label),
      apply: (view: EditorView) => view.dispatch({ changes: changes(view.state.doc.toString(), fix.edits) }),
    })),
  }));
}

/** Requests a check of the same text, because the target has changed. */
const refresh = StateEffect.define<null>();

export function createEditor(o: EditorOptions): Editor {
  const theme = new Compartment();
  const darkness = (dark: boolean) => EditorView.darkTheme.of(dark);
  const lint = linter(async (view) => {
    const text = view.state.doc.toString();
    return diagnostics(text, await o.check(text));
  }, { delay: 200, needsRefresh: (u) => u.transactions.some((tr) => tr.effects.some((e) => e.is(refresh))) });
  const view = new EditorView({
    parent: o.parent,
    state: EditorState.create({
      doc: o.doc,
      extensions: [
        lineNumbers(), lintGutter(), history(), drawSelection(), indentOnInput(), bracketMatching(), closeBrackets(),
        highlightActiveLine(), highlightActiveLineGutter(), highlightSelectionMatches(), indentUnit.of("  "), indent,
        StreamLanguage.define(pbtxtMode), syntaxHighlighting(colours), look, theme.of(darkness(o.dark)),
        autocompletion({ override: [completer(o.schema)], icons: false }), hover(o.schema), lint,
        EditorState.readOnly.of(o.readOnly),
        EditorView.contentAttributes.of({ "aria-label": o.label, spellcheck: "false", tabindex: "0" }),
        EditorView.updateListener.of((u) => { if (u.docChanged) o.onChange(u.state.doc.toString()); }),
        keymap.of([
          { key: "Mod-s", preventDefault: true, run: () => (o.onSave(), true) },
          // Tab leaves the editor, as Escape would close a dialog around it; Ctrl+] indents.
          ...closeBracketsKeymap, ...completionKeymap, ...searchKeymap, ...historyKeymap, ...lintKeymap, ...defaultKeymap,
        ]),
      ],
    }),
  });
  return {
    setDoc: (text) => {
      if (text !== view.state.doc.toString()) view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });
    },
    setDark: (dark) => view.dispatch({ effects: theme.reconfigure(darkness(dark)) }),
    reveal: (f) => {
      const at = faultRange(view.state.doc.toString(), f);
      view.dispatch({ selection: { anchor: at.from, head: at.to }, scrollIntoView: true });
      view.focus();
    },
    applyFix: (f, n) => {
      const fix = f.fixes[n];
      if (fix) view.dispatch({ changes: changes(view.state.doc.toString(), fix.edits) });
    },
    recheck: () => view.dispatch({ effects: refresh.of(null) }),
    focus: () => view.focus(),
    destroy: () => view.destroy(),
  };
}
