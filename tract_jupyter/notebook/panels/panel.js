// A review panel. All HTML in `view` is made and escaped in Python; everything else is set as text.
// Protocol: we send `ready` until the kernel acknowledges, and one `decide` for each round, again until it is heard.
// The kernel takes the first answer of a round, so sending twice is harmless.

const ELEMENT = (tag, attributes = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
};

const READY_DELAYS = [60, 120, 250, 500, 1000, 2000]; // milliseconds; a kernel's first comm messages may wait
const AGAIN_DELAYS = [700, 1400, 2800];
const SILENCE = 3000;
const PAGE = String(performance.timeOrigin); // tells one loading of the page from the next

let counter = 0;

function input(parameter, id) {
  const shared = { id, name: parameter.name, required: parameter.required, "aria-describedby": `${id}-help` };
  if (parameter.kind === "boolean" && parameter.value !== null)
    return ELEMENT("input", { ...shared, required: false, type: "checkbox", checked: parameter.value === true });
  if (parameter.kind === "choice" || parameter.kind === "boolean") {
    const choices = parameter.choices ?? [true, false];
    const empty = parameter.required || parameter.value !== null ? [] : [ELEMENT("option", { value: "" }, "not given")];
    const options = choices.map((choice, index) =>
      ELEMENT("option", { value: String(index), selected: choice === parameter.value }, String(choice)));
    return ELEMENT("select", shared, ...empty, ...options);
  }
  const text = parameter.value === null || parameter.value === undefined ? ""
    : parameter.kind === "json" ? JSON.stringify(parameter.value) : String(parameter.value);
  if (parameter.kind === "integer" || parameter.kind === "number")
    return ELEMENT("input", { ...shared, type: "number", step: parameter.kind === "integer" ? 1 : "any", value: text });
  if (parameter.kind === "json")
    return ELEMENT("textarea", { ...shared, rows: 1, spellcheck: "false", placeholder: "JSON" }, text);
  return ELEMENT("input", { ...shared, type: "text", value: text, placeholder: parameter.placeholder ?? "" });
}

// The value of a control, or undefined where nothing was given and nothing is needed.
function read(parameter, control) {
  if (control.type === "checkbox") return control.checked;
  if (control.tagName === "SELECT")
    return control.value === "" ? undefined : (parameter.choices ?? [true, false])[Number(control.value)];
  if (control.value === "" && (parameter.kind !== "text" || !parameter.required)) return undefined;
  if (parameter.kind === "integer" || parameter.kind === "number") return Number(control.value);
  return parameter.kind === "json" ? JSON.parse(control.value) : control.value;
}

function form(action, id, submit) {
  const element = ELEMENT("form", { class: `tract-action tract-${action.style}`, "data-action": action.name, "aria-label": action.label });
  const controls = action.parameters.map((parameter) => {
    const control = input(parameter, `${id}-${action.name}-${parameter.name}`);
    const label = ELEMENT("label", { for: control.id }, parameter.label, parameter.required ? " *" : "");
    const help = ELEMENT("span", { class: "tract-help", id: `${control.id}-help` }, parameter.help);
    element.append(ELEMENT("div", { class: "tract-input" }, label, control, help));
    return [parameter, control];
  });
  const button = ELEMENT("button", { type: "submit", title: action.description }, action.label);
  element.append(button);
  element.addEventListener("submit", (event) => {
    event.preventDefault();
    event.stopPropagation();
    const values = {};
    for (const [parameter, control] of controls) {
      try {
        const value = read(parameter, control);
        if (value !== undefined) values[parameter.name] = value;
        control.removeAttribute("aria-invalid");
      } catch (error) {
        control.setAttribute("aria-invalid", "true");
        control.focus();
        return submit.fail(`${parameter.label}: this is no JSON. ${error.message}`);
      }
    }
    submit(action.name, values);
  });
  return element;
}

function render({ model, el }) {
  const id = `tract-${Date.now().toString(36)}-${counter++}`;
  const timers = new Set();
  const later = (run, delay) => timers.add(setTimeout(run, delay));
  const panel = ELEMENT("section", { class: "tract-panel", "aria-labelledby": `${id}-title`, "data-testid": "tract-panel" });
  const message = ELEMENT("div", { class: "tract-message", role: "alert" });
  let sent = null;

  const send = (content) => {
    try {
      model.send(content);
      return true;
    } catch {
      stale();
      return false;
    }
  };
  const stale = () => {
    panel.dataset.status = "stale";
    panel.querySelector(".tract-badge").textContent = "disconnected";
    panel.setAttribute("aria-busy", "false");
    message.textContent = "This panel has lost its kernel. What waits is kept: run %tract inbox in a new one.";
  };
  const busy = (on) => {
    panel.setAttribute("aria-busy", String(on));
    for (const control of panel.querySelectorAll("button, input, select, textarea")) control.disabled = on;
  };

  const submit = (action, values) => {
    const round = model.get("view").round_id;
    if (sent === round) return;
    sent = round;
    message.textContent = "";
    busy(true);
    const content = { type: "decide", round_id: round, action, arguments: values };
    const unheard = () => model.get("view").round_id === round && model.get("heard") !== round;
    const again = (n) => {
      if (n < AGAIN_DELAYS.length && unheard() && send(content)) later(() => again(n + 1), AGAIN_DELAYS[n]);
    };
    if (send(content)) later(() => again(0), AGAIN_DELAYS[0]);
    later(() => {
      if (model.get("view").round_id !== round) return;
      message.textContent = unheard()
        ? "No answer from the kernel yet: it is busy, restarted or disconnected."
        : "The kernel has the decision, and carries it out as soon as it is free.";
    }, SILENCE);
  };
  submit.fail = (text) => { message.textContent = text; };

  const controls = () => [...panel.querySelectorAll("form [name]")].map((control) => [control.id, control]);
  const draw = () => {
    const view = model.get("view");
    const typed = new Map(view.keep_inputs ? controls().map(([key, c]) => [key, [c.value, c.checked]]) : []);
    const open = view.is_open;
    const hadFocus = panel.contains(document.activeElement);
    const badge = ELEMENT("span", { class: "tract-badge", role: "status", tabindex: "-1" }, view.status);
    const body = ELEMENT("div", { class: "tract-body" });
    body.innerHTML = view.body_html;
    panel.dataset.status = view.status;
    panel.dataset.pendingId = view.pending_id;
    // A front end can replace the output of a cell only on the page that ran it.
    message.textContent = open || [PAGE, ""].includes(model.get("page")) ? ""
      : "The page was reloaded since this was asked, so a saved notebook will not show the decision; %tract log does.";
    panel.replaceChildren(
      ELEMENT("header", {}, ELEMENT("div", { id: `${id}-title`, class: "tract-title", role: "heading", "aria-level": 3 }, view.title), badge),
      body,
      ...(open ? view.actions.map((action) => form(action, id, submit)) : []),
      message,
    );
    for (const [key, control] of controls())
      if (typed.has(key)) [control.value, control.checked] = typed.get(key);
    panel.setAttribute("aria-busy", "false");
    if (hadFocus) badge.focus();
  };

  const ping = (n) => {
    if (model.get("ready") || n > READY_DELAYS.length) return;
    if (send({ type: "ready", page: PAGE })) later(() => ping(n + 1), READY_DELAYS[n]);
  };

  el.append(panel);
  panel.addEventListener("keydown", (event) => event.stopPropagation()); // or the notebook takes "a", "b", "d d"
  model.on("change:view", draw);
  draw();
  ping(0);
  return () => {
    model.off("change:view", draw);
    timers.forEach(clearTimeout);
  };
}

export default { render };
