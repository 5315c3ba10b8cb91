// Syntax highlighting for the text format of protocol buffers.
import type { StreamParser } from "@codemirror/language";

interface State {
  /** The quote of the string that is open; null outside a string. */
  quote: string | null;
}

/** The parser for CodeMirror's StreamLanguage. It works line by line, because strings in pbtxt do not span lines. */
export const pbtxtMode: StreamParser<State> = {
  name: "pbtxt",
  startState: () => ({ quote: null }),
  languageData: { commentTokens: { line: "#" }, closeBrackets: { brackets: ["{", "[", '"', "'"] } },
  token(stream) {
    if (stream.eatSpace()) return null;
    if (stream.match(/^#.*/)) return "comment";
    if (stream.match(/^"(?:[^"\\]|\\.)*"?/) || stream.match(/^'(?:[^'\\]|\\.)*'?/)) return "string";
    if (stream.match(/^[-+]?(?:0x[\da-f]+|\d*\.?\d+(?:e[-+]?\d+)?f?)\b/i)) return "number";
    if (stream.match(/^(?:true|false)\b/)) return "bool";
    if (stream.match(/^[A-Za-z_][\w.]*(?=\s*(?::|\{|\[|<))/)) return "propertyName";
    if (stream.match(/^[A-Z][A-Z0-9_]+\b/)) return "atom";
    if (stream.match(/^[A-Za-z_][\w.]*/)) return "variableName";
    if (stream.match(/^[{}[\]<>]/)) return "bracket";
    stream.next();
    return null;
  },
};
