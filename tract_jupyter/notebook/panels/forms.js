// Forms: an action with its inputs, values to change before approving, and the terms of a standing approval.
// Each returns its elements, and a function that collects pairs of a name and JSON text.
// Values are JSON text, because a JavaScript number would round a large value.

// A short value fits into the line of values. The others are in the form below.
const isShort = (parameter) =>
  parameter.kind !== "fixed" && (parameter.text ?? "").length < 60 && !/[\r\n]/.test(parameter.text ?? "");

function input(parameter, id, isInLine = false) {
  const shared = { id, name: parameter.name, required: parameter.required, "aria-describedby": `${id}-help` };
  if (parameter.kind === "boolean" && parameter.value !== null)
    return ELEMENT("input", { ...shared, required: false, type: "checkbox", checked: parameter.value === true });
  if (parameter.kind === "choice" || parameter.kind === "boolean") {
    const choices = parameter.choices ?? [true, false];
    const empty = parameter.nullable ? [ELEMENT("option", { value: "" }, "not given")] : [];
    const options = choices.map((choice, index) =>
      ELEMENT("option", { value: String(index), selected: choice === parameter.value }, String(choice)));
    return ELEMENT("select", shared, ...empty, ...options);
  }
  if (parameter.kind === "integer" || parameter.kind === "number")
    return ELEMENT("input", { ...shared, type: "number", step: parameter.kind === "integer" ? 1 : "any", value: parameter.text });
  const json = parameter.kind === "json";
  if ((!json || isInLine) && isShort(parameter))
    return ELEMENT("input", { ...shared, class: json && "mono", type: "text", value: parameter.text, placeholder: json ? "JSON" : parameter.placeholder });
  const rows = Math.min(8, Math.max(1, Math.ceil(parameter.text.length / 60), parameter.text.split("\n").length));
  return ELEMENT("textarea", { ...shared, rows, spellcheck: "false", placeholder: json ? "JSON" : "" }, parameter.text);
}

// The value of a control, to detect changes.
const valueIn = (control) => (control.type === "checkbox" ? control.checked : control.value);

// The value of a control as JSON text; undefined if it is empty.
function read(parameter, control) {
  if (control.type === "checkbox") return String(control.checked);
  if (control.tagName === "SELECT")
    return control.value === "" ? undefined : JSON.stringify((parameter.choices ?? [true, false])[Number(control.value)]);
  if (parameter.kind === "text")
    return control.value === "" && !parameter.required ? undefined : JSON.stringify(control.value);
  if (control.value === "") return undefined;
  if (parameter.kind === "integer" && /^-?\d+$/.test(control.value)) return String(BigInt(control.value));
  if (parameter.kind === "integer" || parameter.kind === "number") return JSON.stringify(Number(control.value));
  JSON.parse(control.value);
  return control.value;
}

function labelled(parameter, id, star = parameter.required) {
  if (parameter.kind === "fixed")
    return [null, ELEMENT("div", { class: "in" }, ELEMENT("b", {}, parameter.label), ELEMENT("small", {}, parameter.help))];
  const control = input(parameter, id);
  const label = ELEMENT("label", { for: id }, parameter.label, star ? " *" : "");
  const help = ELEMENT("small", { id: `${id}-help` }, parameter.help);
  return [control, ELEMENT("div", { class: "in" }, label, control, help)];
}

// Runs `readOne`. If that fails, marks the control and cancels the submission.
function marking(control, label, readOne) {
  try {
    const value = readOne();
    control.removeAttribute("aria-invalid");
    return value;
  } catch (error) {
    control.setAttribute("aria-invalid", "true");
    throw Object.assign(new Error(`${label}: this is not valid JSON. Nothing was decided; correct it and try again. (${error.message})`), { control });
  }
}

const object = (pairs) => `{${pairs.map(([name, text]) => `${JSON.stringify(name)}:${text}`).join(",")}}`;

// The inputs of an action, each with its label.
function inputsOf(parameters, id) {
  const fields = parameters.map((parameter) => [parameter, ...labelled(parameter, `${id}-${parameter.name}`)]);
  const collect = () => fields.flatMap(([parameter, control]) => {
    const text = control && marking(control, parameter.label, () => read(parameter, control));
    return text === undefined || text === null ? [] : [[parameter.name, text]];
  });
  return { rows: fields.map(([, , row]) => row), controls: fields.map(([, control]) => control).filter(Boolean), collect };
}

// Values to change before approving. Only changed values are sent. A short value has its input in the line of values, where
// a click opens it. The others are in `rows`. `onChange` is called after each change.
function editing(parameters, id, line, body, onChange, defaults = []) {
  const fields = [];
  const rows = [], folded = [];
  const shownOf = (name) => [...line.querySelectorAll(".value")].find((value) => value.dataset.name === name);
  for (const parameter of parameters) {
    const code = body.querySelector(`.code[data-name="${CSS.escape(parameter.name)}"]`);
    if (code && parameter.kind !== "fixed") {
      fields.push(inCode(parameter, `${id}.edit.${parameter.name}`, code, onChange));
      continue;
    }
    const shown = isShort(parameter) ? shownOf(parameter.name) : null;
    if (shown) {
      fields.push(inLine(parameter, `${id}.edit.${parameter.name}`, shown, onChange));
      rows.push(fields.at(-1).row);
    } else {
      const [control, row] = labelled(parameter, `${id}.edit.${parameter.name}`, false);
      (defaults.includes(parameter.name) ? folded : rows).push(row);
      if (!control) continue;
      const before = valueIn(control);
      control.addEventListener("input", onChange);
      fields.push({ parameter, control, isChanged: () => valueIn(control) !== before, show: () => {}, close: () => {}, settle: () => {} });
    }
  }
  const changed = () => fields.filter((field) => field.isChanged());
  const collect = () => {
    const pairs = changed().map(({ parameter, control, show }) => {
      const readOne = () => marking(control, parameter.name, () => read(parameter, control));
      try {
        return [parameter.name, readOne() ?? (parameter.kind === "text" && !parameter.nullable ? '""' : "null")];
      } catch (error) { show(true); throw error; }
    });
    return pairs.length ? [["edits", object(pairs)]] : [];
  };
  const restored = () => { for (const field of fields) field.close(); };
  // If the line is cut, all inputs are in the form.
  const settle = (isCut) => { for (const field of fields) field.settle(isCut); };
  if (folded.length)
    rows.push(ELEMENT("details", { class: "more", "data-part": "change defaults" },
      ELEMENT("summary", {}, ELEMENT("i", { class: "chev" }), `Change ${many(folded.length, "value")} at ${folded.length > 1 ? "their" : "its"} default`), ...folded));
  return { rows, changed, collect, restored, settle };
}

// Code with a button below it. The button replaces the code by an input with the same text.
function inCode(parameter, id, code, onChange) {
  const control = ELEMENT("textarea", { id, name: parameter.name, rows: 1, spellcheck: "false", autocapitalize: "off", "aria-label": parameter.label }, parameter.text);
  const before = valueIn(control);
  const press = ELEMENT("button", { type: "button", class: "plain", "data-after-reading": true });
  const { what } = code.dataset; // "code" or "text"
  const lines = ELEMENT("div", { class: "code", "aria-hidden": "true" });
  const editor = ELEMENT("div", { class: "editor", hidden: true }, lines, control);
  const difference = ELEMENT("div", { class: "code", role: "region", "aria-label": "Your change" });
  const changes = ELEMENT("div", { hidden: true }, ELEMENT("div", { class: "sub" }, "Your change"), difference);
  const isChanged = () => valueIn(control) !== before;
  const drawLines = () => {
    lines.replaceChildren(...codeLines(control.value, what === "code"));
    changes.hidden = editor.hidden || !isChanged();
    if (!changes.hidden) difference.replaceChildren(...changedLines(before, control.value));
  };
  const show = (on) => {
    editor.hidden = !on;
    code.hidden = on;
    drawLines();
    press.textContent = on ? "Undo the change" : `Change the ${what}`;
  };
  press.addEventListener("click", () => {
    if (press.getAttribute("aria-disabled") === "true") return;
    const isOpen = !editor.hidden;
    control.value = before;
    show(!isOpen);
    onChange();
    (isOpen ? press : control).focus({ preventScroll: true });
  });
  control.addEventListener("input", () => { drawLines(); onChange(); });
  if (what === "code") control.addEventListener("keydown", indenting(control));
  code.after(editor, changes, press);
  show(false);
  return { parameter, control, isChanged, show, close: () => show(isChanged()), settle: () => {} };
}

// A value of the line as a button that becomes an input. Enter keeps the typed value, Escape the old one.
function inLine(parameter, id, shown, onChange) {
  const control = input(parameter, id, true);
  const before = valueIn(control);
  const open = ELEMENT("button", { type: "button", class: "plain change", "aria-label": `Change ${parameter.name}`, title: "Change this value" });
  const label = ELEMENT("label", { for: id, class: "dim mono" }, `${parameter.name}=`);
  const help = ELEMENT("span", { class: "said", id: `${id}-help` }, parameter.help);
  const field = ELEMENT("span", { class: "with-in", hidden: true }, label, control, help);
  const now = ELEMENT("code", { class: "changed", hidden: true });
  const code = shown.querySelector("code");
  const isChanged = () => valueIn(control) !== before;
  const text = () => (control.tagName === "SELECT" ? control.selectedOptions[0].textContent : String(valueIn(control)));
  const line = shown.parentElement;
  const show = (on) => {
    field.hidden = !on;
    open.hidden = on;
    line.classList.toggle("edited", on); // the other values make room
    shown.classList.toggle("open", on);
    code.hidden = on || isChanged();
    now.hidden = on || !isChanged();
    now.textContent = `${parameter.name}=${text()}`;
    onChange();
  };
  const close = () => show(false);
  const row = ELEMENT("div", { class: "in", hidden: true }, ELEMENT("label", { for: id }, parameter.name), ELEMENT("small", {}, parameter.help));
  const settle = (isCut) => {
    if (isCut === !row.hidden || !field.hidden) return;
    row.hidden = !isCut;
    open.hidden = isCut;
    if (isCut) row.insertBefore(control, row.lastChild); else field.insertBefore(control, help);
    if (!isCut) close();
  };
  open.addEventListener("click", () => { show(true); control.focus(); control.select?.(); });
  control.addEventListener("keydown", (event) => {
    if (!row.hidden || (event.key !== "Enter" && event.key !== "Escape")) return;
    if (event.ctrlKey || event.metaKey) { close(); return; } // the row handles it
    event.preventDefault();
    event.stopPropagation();
    if (event.key === "Escape") { control.removeAttribute("aria-invalid"); if (control.type === "checkbox") control.checked = before; else control.value = before; }
    close();
    open.focus({ preventScroll: true });
  });
  control.addEventListener("input", onChange);
  control.addEventListener("blur", () => setTimeout(() => { if (row.hidden && !field.hidden && !field.contains(document.activeElement) && control.getAttribute("aria-invalid") !== "true") close(); }));
  shown.append(now, open, field);
  return { parameter, control, row, isChanged, show: (on) => { if (row.hidden) show(on); }, close: () => { if (row.hidden) close(); }, settle };
}

// One value of "Always…": an exact value or a pattern.
function patterned(value, id) {
  const exact = ELEMENT("option", { value: "exact" }, "is exactly this");
  const select = ELEMENT("select", { id, name: `${value.name}-how` }, exact, ELEMENT("option", { value: "pattern" }, "fits the pattern"));
  const text = ELEMENT("input", { id: `${id}.pattern`, class: "mono", name: value.name, type: "text", value: value.text, placeholder: value.placeholder, "aria-label": `Pattern for ${value.name}`, hidden: true });
  const show = () => { text.hidden = select.value === "exact"; text.required = !text.hidden; };
  select.addEventListener("change", () => { show(); if (!text.hidden) text.focus(); });
  const label = ELEMENT("label", { for: id }, ELEMENT("b", {}, value.name));
  const readText = () => {
    if (text.value === "*" || (value.is_text && !text.value.trim().startsWith("["))) return JSON.stringify(text.value);
    if (!value.is_text) JSON.parse(text.value);
    try { return Array.isArray(JSON.parse(text.value)) || !value.is_text ? text.value : JSON.stringify(text.value); } catch { return JSON.stringify(text.value); }
  };
  const collect = () => (select.value === "exact" ? [] : [[value.name, marking(text, value.name, readText)]]);
  return { row: [label, ELEMENT("code", { class: "cut" }, value.shown), select, ELEMENT("span", {}, text)], show, collect };
}

const PATTERN_HELP = "In a pattern, * and ? match characters other than /, and ** matches any. In an address, ? is itself, and * matches one part. * alone matches anything, and "
  + "[\"a\", \"b\"] one of these values. A changed definition needs a new approval.";

// The form of "Always…": the requester, the number of uses, the time, and the values.
function standing(offer, id) {
  const help = "The model gets the output of scripts whose rehearsal has no effects. The approval ends with the kernel, %reset or %tract looking off.";
  if (offer.rule) return { rows: [ELEMENT("div", { class: "wide" }, offer.rule), ELEMENT("small", { class: "wide" }, help)], collect: () => [["scope", '"session"']], restored: () => {} };
  const scope = ELEMENT("select", { id: `${id}.scope`, name: "scope", "aria-label": "How long" },
    ...offer.scopes.map(([name, label]) => ELEMENT("option", { value: name }, label)));
  const uses = ELEMENT("input", { id: `${id}.uses`, name: "uses", type: "number", min: 1, step: 1, placeholder: "any number of", "aria-label": "For the next" });
  const whom = ELEMENT("select", { id: `${id}.whom`, name: "whom", "aria-label": "For whom" },
    ...offer.whom.map(([name, label]) => ELEMENT("option", { value: name }, label)));
  const values = offer.values.map((value) => patterned(value, `${id}.value.${value.name}`));
  const ignored = offer.ignored.flatMap(({ name, shown }) =>
    [ELEMENT("b", {}, name), ELEMENT("code", { class: "cut" }, shown), ELEMENT("small", {}, "not compared"), ELEMENT("small", {}, "it is volatile")]);
  const rows = [
    ELEMENT("b", {}, "Don’t ask"),
    ELEMENT("div", { class: "wide" }, whom, " for ", uses, " times, ", scope),
    ...values.flatMap(({ row }) => row), ...ignored,
    ...(values.length ? [ELEMENT("small", { class: "wide" }, PATTERN_HELP)] : []),
  ];
  const collect = () => {
    const pattern = values.flatMap((value) => value.collect());
    return [["scope", JSON.stringify(scope.value)],
      ...(whom.value === "this" ? [] : [["whom", JSON.stringify(whom.value)]]),
      ...(uses.value === "" ? [] : [["uses", JSON.stringify(Number(uses.value))]]),
      ...(pattern.length ? [["pattern", object(pattern)]] : [])];
  };
  return { rows, collect, restored: () => { for (const { show } of values) show(); } };
}
