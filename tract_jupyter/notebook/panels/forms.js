// Forms: an action with its inputs, values to change before approving, and how long an approval holds.
// Values are read as JSON text, since a number of JavaScript would round a large one.

function input(parameter, id) {
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
  if (!json && parameter.text.length < 60 && !/[\r\n]/.test(parameter.text))
    return ELEMENT("input", { ...shared, type: "text", value: parameter.text, placeholder: parameter.placeholder });
  const rows = Math.min(8, Math.max(1, Math.ceil(parameter.text.length / 60), parameter.text.split("\n").length));
  return ELEMENT("textarea", { ...shared, rows, spellcheck: "false", placeholder: json ? "JSON" : "" }, parameter.text);
}

// What a control holds, to see whether a person changed it.
const held = (control) => (control.type === "checkbox" ? control.checked : control.value);

// The value of a control as JSON text, or undefined where nothing is given.
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
    return [null, ELEMENT("div", { class: "tract-input" }, ELEMENT("b", {}, parameter.label), ELEMENT("span", { class: "tract-help" }, parameter.help))];
  const control = input(parameter, id);
  const label = ELEMENT("label", { for: id }, parameter.label, star ? " *" : "");
  const help = ELEMENT("span", { class: "tract-help", id: `${id}-help` }, parameter.help);
  return [control, ELEMENT("div", { class: "tract-input" }, label, control, help)];
}

// Runs `readOne`; text that cannot be read marks its control and ends the submission.
function marking(control, label, readOne) {
  try {
    const value = readOne();
    control.removeAttribute("aria-invalid");
    return value;
  } catch (error) {
    control.setAttribute("aria-invalid", "true");
    control.closest("details")?.setAttribute("open", "");
    control.focus();
    throw new Error(`${label}: this is not valid JSON. ${error.message}`);
  }
}

const object = (pairs) => `{${pairs.map(([name, text]) => `${JSON.stringify(name)}:${text}`).join(",")}}`;

// "Change values…": an input for each, of which those that differ are sent.
function editing(parameters, id) {
  const summary = ELEMENT("summary", {}, "Change values…");
  const element = ELEMENT("details", { class: "tract-more", "data-part": "edits" }, summary);
  const rows = ELEMENT("div", { class: "tract-inputs" });
  const fields = [];
  for (const parameter of parameters) {
    const [control, row] = labelled(parameter, `${id}.edit.${parameter.name}`, false);
    rows.append(row);
    if (control) fields.push([parameter, control, held(control)]);
  }
  element.append(ELEMENT("p", { class: "tract-help" }, "Changed values are checked again and recorded."), rows);
  const changed = () => fields.filter(([, control, before]) => held(control) !== before);
  element.addEventListener("input", () => {
    const count = changed().length;
    summary.textContent = count ? `Change values… (${count} changed)` : "Change values…";
  });
  const collect = () => {
    const pairs = changed().map(([parameter, control]) =>
      [parameter.name, marking(control, parameter.label, () => read(parameter, control)) ?? (parameter.kind === "text" && !parameter.nullable ? '""' : "null")]);
    return pairs.length ? [["edits", object(pairs)]] : [];
  };
  return [element, collect];
}

// One value of "Don't ask again…": exactly this, or what fits a pattern.
function patterned(value, id) {
  const exact = ELEMENT("option", { value: "exact" }, "exactly this value");
  const select = ELEMENT("select", { id, name: `${value.name}-how`, disabled: true }, exact, ELEMENT("option", { value: "pattern" }, "values that match the pattern"));
  const text = ELEMENT("input", { id: `${id}.pattern`, name: value.name, type: "text", value: value.text, placeholder: value.placeholder, "aria-label": `Pattern for ${value.name}`, hidden: true });
  const show = () => { text.hidden = select.value === "exact"; text.required = !text.hidden; };
  select.addEventListener("change", () => { show(); if (!text.hidden) text.focus(); });
  const label = ELEMENT("label", { for: id }, ELEMENT("b", {}, value.name), " = ", ELEMENT("code", {}, value.shown));
  const readText = () => {
    if (text.value === "*" || (value.is_text && !text.value.trim().startsWith("["))) return JSON.stringify(text.value);
    if (!value.is_text) JSON.parse(text.value);
    try { return Array.isArray(JSON.parse(text.value)) || !value.is_text ? text.value : JSON.stringify(text.value); } catch { return JSON.stringify(text.value); }
  };
  const collect = () => (select.value === "exact" ? [] : [[value.name, marking(text, value.name, readText)]]);
  return { row: ELEMENT("div", { class: "tract-input" }, label, select, text), select, text, show, collect };
}

const PATTERN_HELP = "In a pattern * and ? stand for characters other than /, ** for any; * alone for anything; "
  + "[\"a\", \"b\"] for one of these. A changed definition is asked about again.";

// "Don't ask again…": for how long, how often, and for which values.
function standing(offer, id) {
  const scope = ELEMENT("select", { id: `${id}.scope`, name: "scope" },
    ...offer.scopes.map(([name, label]) => ELEMENT("option", { value: name }, label)));
  const uses = ELEMENT("input", { id: `${id}.uses`, name: "uses", type: "number", min: 1, step: 1, placeholder: "any number", disabled: true });
  const whom = ELEMENT("select", { id: `${id}.whom`, name: "whom", disabled: true },
    ...offer.whom.map(([name, label]) => ELEMENT("option", { value: name }, label)));
  const values = offer.values.map((value) => patterned(value, `${id}.value.${value.name}`));
  const show = () => {
    const once = scope.value === "once";
    uses.disabled = whom.disabled = once;
    for (const { select, text, show: showOne } of values) { select.disabled = text.disabled = once; showOne(); }
  };
  scope.addEventListener("change", show);
  const element = ELEMENT("details", { class: "tract-more", "data-part": "standing" },
    ELEMENT("summary", {}, "Don't ask again…"),
    ELEMENT("div", { class: "tract-inputs" },
      ELEMENT("div", { class: "tract-input" }, ELEMENT("label", { for: scope.id }, "If this is asked again"), scope),
      ELEMENT("div", { class: "tract-input" }, ELEMENT("label", { for: uses.id }, "For the next"), uses),
      ELEMENT("div", { class: "tract-input" }, ELEMENT("label", { for: whom.id }, "For whom"), whom),
      ...values.map(({ row }) => row)),
    ...(offer.ignored.length ? [ELEMENT("p", { class: "tract-help", "data-part": "ignored" }, "It will not look at: ",
      ...offer.ignored.flatMap(({ name, shown }, i) => [i ? ", " : "", ELEMENT("b", {}, name), " (now ", ELEMENT("code", {}, shown), ")"]))] : []),
    ...(values.length ? [ELEMENT("p", { class: "tract-help" }, PATTERN_HELP)] : []));
  const collect = () => {
    if (scope.value === "once") return [];
    const pattern = values.flatMap((value) => value.collect());
    return [["scope", JSON.stringify(scope.value)],
      ...(whom.value === "this" ? [] : [["whom", JSON.stringify(whom.value)]]),
      ...(uses.value === "" ? [] : [["uses", JSON.stringify(Number(uses.value))]]),
      ...(pattern.length ? [["pattern", object(pattern)]] : [])];
  };
  return [element, collect, show];
}

// A button with all that goes with it. `submit(action, arguments)` gets the arguments as JSON text.
function form(action, id, submit) {
  const element = ELEMENT("form", { class: `tract-action tract-${action.style}`, "data-action": action.name, "aria-label": action.label });
  const controls = action.parameters.map((parameter) => {
    const [control, row] = labelled(parameter, `${id}-${action.name}-${parameter.name}`);
    element.append(row);
    return [parameter, control];
  });
  element.append(ELEMENT("button", { type: "submit", title: action.description }, action.label));
  const more = [];
  if (action.edits?.length) more.push(editing(action.edits, id));
  if (action.standing) more.push(standing(action.standing, id));
  element.append(...more.map(([part]) => part));
  element.restored = () => more.forEach(([part, , show]) => { show?.(); part.dispatchEvent(new Event("input")); });
  // a control in a folded part cannot be shown as wrong, and would hold the answer back without a word
  element.addEventListener("invalid", (event) => event.target.closest("details")?.setAttribute("open", ""), true);
  element.addEventListener("submit", (event) => {
    event.preventDefault();
    event.stopPropagation();
    try {
      const pairs = controls.flatMap(([parameter, control]) => {
        const text = marking(control, parameter.label, () => read(parameter, control));
        return text === undefined ? [] : [[parameter.name, text]];
      });
      submit(action.name, object([...pairs, ...more.flatMap(([, collect]) => collect())]));
    } catch (error) {
      submit.fail(error.message);
    }
  });
  return element;
}
