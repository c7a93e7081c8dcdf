// Code that the user changes before approving: numbered and colored lines below an input with transparent text, and the
// difference from the requested code.

const KEYWORDS = "False|None|True|and|as|assert|async|await|break|class|continue|def|del|elif|else|except|finally|for|from|global|if|import|in|is|lambda|nonlocal|not|or|pass|raise|return|try|while|with|yield";
const TOKEN = new RegExp([
  /(?<o>#[^\n]*)/,
  /(?<s>(?<!\w)[rbuf]{0,2}(?:"""[^]*?(?:"""|$)|'''[^]*?(?:'''|$)|"(?:\\[^]|[^"\\\n])*"?|'(?:\\[^]|[^'\\\n])*'?))/,
  /(?<m>(?<![\w.])\d[\w.]*)/,
  new RegExp(`(?<k>\\b(?:${KEYWORDS})\\b)`),
  /\w+/,
].map((part) => part.source).join("|"), "gi");

const codeLine = (number, parts, css = "") =>
  ELEMENT("div", { class: css || null }, ELEMENT("span", { class: "n", "aria-hidden": "true" }, number), ELEMENT("span", { class: "c" }, ...(parts.length ? parts : [" "])));

// The lines of a text for `.code`. A token over several lines is split.
function codeLines(text, isPython) {
  const lines = [[]];
  const put = (css, piece) => piece.split("\n").forEach((part, at) => {
    if (at) lines.push([]);
    if (part) lines.at(-1).push(css ? ELEMENT("span", { class: css }, part) : part);
  });
  let end = 0;
  for (const match of isPython ? text.matchAll(TOKEN) : []) {
    const css = Object.keys(match.groups).find((name) => match.groups[name] !== undefined);
    put("", text.slice(end, match.index));
    put(css, match[0]);
    end = match.index + match[0].length;
  }
  put("", text.slice(end));
  return lines.map((parts, at) => codeLine(String(at + 1), parts));
}

const MOST_COMPARED = 250_000; // pairs of lines

// The steps from `a` to `b`: pairs of a sign and the index of a line in `a` or `b`.
function compared(a, b) {
  if (a.length * b.length > MOST_COMPARED) return [...a.map((_, i) => ["−", i]), ...b.map((_, j) => ["+", j])];
  const common = Array.from({ length: a.length + 1 }, () => new Uint32Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      common[i][j] = a[i] === b[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
  const steps = [];
  for (let i = 0, j = 0; i < a.length || j < b.length;) {
    if (i < a.length && j < b.length && a[i] === b[j]) { steps.push(["", j]); i++; j++; }
    else if (j === b.length || (i < a.length && common[i + 1][j] >= common[i][j + 1])) steps.push(["−", i++]);
    else steps.push(["+", j++]);
  }
  return steps;
}

// The changed lines, each with its neighbors.
function changedLines(before, after) {
  const a = before.split("\n"), b = after.split("\n"), steps = compared(a, b), rows = [];
  let last = -1;
  steps.forEach(([sign, place], at) => {
    if (!sign && !steps[at - 1]?.[0] && !steps[at + 1]?.[0]) return;
    if (at > last + 1) rows.push(codeLine("⋮", []));
    rows.push(codeLine(`${sign} ${place + 1}`, [(sign === "−" ? a : b)[place] || " "], { "−": "del", "+": "add" }[sign]));
    last = at;
  });
  return rows;
}

// Tab indents, and Shift Tab removes the indentation. Enter keeps it. After Escape, Tab leaves the input.
function indenting(control) {
  let leaves = false;
  const write = (from, to, text) => { control.setSelectionRange(from, to); document.execCommand("insertText", false, text); };
  return (event) => {
    if (event.key === "Escape") leaves = true;
    if (event.ctrlKey || event.metaKey || event.altKey || (event.key === "Tab" && leaves)) return;
    if (event.key !== "Tab" && !(event.key === "Enter" && !event.shiftKey)) { leaves = leaves && event.key === "Shift"; return; }
    event.preventDefault();
    event.stopPropagation();
    const { value, selectionStart: from, selectionEnd: to } = control;
    const start = value.lastIndexOf("\n", from - 1) + 1;
    const indent = value.slice(start, from).match(/^ */)[0];
    if (event.key === "Enter") return write(from, to, `\n${indent}${value[from - 1] === ":" ? "    " : ""}`);
    if (from === to && !event.shiftKey) return write(from, to, " ".repeat(4 - ((from - start) % 4)));
    const lines = value.slice(start, to);
    const moved = event.shiftKey ? lines.replace(/^ {1,4}/gm, "") : lines.replace(/^(?=.)/gm, "    ");
    if (moved === lines) return;
    write(start, to, moved);
    if (from !== to) control.setSelectionRange(start, start + moved.length);
    else control.setSelectionRange(Math.max(start, from - 4), Math.max(start, from - 4));
  };
}
