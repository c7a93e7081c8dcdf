// One request: what is drawn of it, and what takes the answer. It stands alone in a panel, or with others in a list.
// `view` gives how it stands now.

function request({ id, parts, kernel, view: current, isReloaded }) {
  const { panel, header, title, badge, message } = parts;
  let sent = null;

  const busy = (on) => {
    panel.setAttribute("aria-busy", String(on));
    for (const control of panel.querySelectorAll("button, input, select, textarea")) control.disabled = on;
  };
  const text = ELEMENT("span", { id: `${id}-reading`, class: "tract-left", "aria-live": "polite" });
  const bar = ELEMENT("i", {});
  const more = ELEMENT("button", { type: "button", class: "tract-next" }, "Show next unread lines");
  const reading = ELEMENT("div", { class: "tract-reading" }, ELEMENT("span", { class: "tract-bar", "aria-hidden": "true" }, bar), text, more);
  more.addEventListener("click", () => readOn(panel));
  const unseen = () => unseenIn(panel, current().needed);
  const measure = () => {
    const [left, all] = [unseen(), current().needed];
    text.textContent = left ? `Read on: ${many(left, "line")} of ${all.toLocaleString("en")} not shown yet` : all ? `${all > 1 ? `All ${many(all, "line")} were` : "It was"} shown` : "";
    bar.style.width = `${all ? (100 * (all - left)) / all : 100}%`;
    more.hidden = !left;
    holdBack(panel.querySelectorAll("form:not(.tract-reject) button"), left > 0, text.id);
  };
  const watcher = watching(measure);

  const submit = (action, values) => {
    const { round_id: round, actions } = current();
    const isRejection = actions.some((one) => one.name === action && one.style === "reject");
    if (!isRejection && unseen()) { readOn(panel); return; }
    if (sent === round) return;
    sent = round;
    message.textContent = "";
    busy(true);
    const content = { type: "decide", pending_id: current().pending_id, round_id: round, action, arguments: values, seen: seenIn(panel) };
    const isOpen = () => current().round_id === round && !current().late;
    kernel.decide(content, round, isOpen, (text) => { message.textContent = text; });
  };
  submit.fail = (text) => { message.textContent = text; };

  // What a person typed or unfolded is kept over a new drawing; what they left alone shows how things stand now.
  const controls = () => [...panel.querySelectorAll("form [name]")];
  const untouched = new Map();
  const typed = () => new Map(controls().filter((c) => held(c) !== untouched.get(c.id)).map((c) => [c.id, [c.value, c.checked]]));
  const unfolded = () => new Set([...panel.querySelectorAll("details[open]")].map((part) => part.dataset.part));
  const restore = (values, open) => {
    untouched.clear();
    for (const control of controls()) untouched.set(control.id, held(control));
    for (const control of controls())
      if (values.has(control.id)) [control.value, control.checked] = values.get(control.id);
    for (const part of panel.querySelectorAll("details")) part.open = open.has(part.dataset.part);
    for (const one of panel.querySelectorAll("form")) one.restored();
  };

  const draw = () => {
    const view = current();
    const keep = view.keep_inputs || view.late;
    const [values, open] = keep ? [typed(), unfolded()] : [new Map(), new Set()];
    const hadFocus = panel.contains(document.activeElement);
    const body = ELEMENT("div", { class: "tract-body" });
    body.innerHTML = view.body_html;
    panel.dataset.status = view.status;
    panel.dataset.pendingId = view.pending_id;
    title.textContent = view.title;
    badge.textContent = view.status;
    message.textContent = view.late || (!view.is_open && isReloaded() ? RELOADED : "");
    panel.replaceChildren(header, body, ...(view.is_open ? [reading, ...view.actions.map((action) => form(action, id, submit))] : []), message);
    restore(values, open);
    measure();
    if (view.is_open) watcher.watch(body);
    tellTimes(body);
    showAsked(body);
    panel.setAttribute("aria-busy", "false");
    if (view.late) sent = null; // that answer was not taken; another one may be
    if (hadFocus) badge.focus();
  };

  const isOpen = () => current().is_open && sent !== current().round_id;
  return { panel, draw, unseen, isOpen, close: watcher.close };
}
