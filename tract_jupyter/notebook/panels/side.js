// The lower part of the side panel: the running turn with Stop, follow-ups, and the state of the tract.

function render({ model, el }) {
  const root = ELEMENT("section", { class: "tract side", "aria-label": "State of the tract", "data-lm-suppress-shortcuts": "true" });
  const message = ELEMENT("p", { class: "err", role: "alert" });
  let isLost = false;
  const kernel = connect(model, () => { isLost = true; draw(); });
  const act = (action, content = {}) => {
    const key = newId() + Math.random();
    message.textContent = "";
    kernel.decide({ type: "decide", key, action, ...content }, key, () => true, (text) => { if (text === UNHEARD) message.textContent = text; });
  };
  const button = (text, kind, action, content, name = text) => {
    const element = ELEMENT("button", { type: "button", class: kind, "aria-label": name }, text);
    element.addEventListener("click", (event) => { if (event.isTrusted) act(action, content()); });
    return element;
  };

  const title = ELEMENT("b", { class: "cut" });
  const foot = ELEMENT("div", { class: "foot" });
  const running = ELEMENT("div", { class: "running" },
    ELEMENT("div", { class: "top" }, icon("run"), title, button("Stop", "stop", "stop", () => ({}), "Stop the running turn")), foot);
  const queue = ELEMENT("ol", { class: "queue", "aria-label": "Follow-ups" });
  const about = ELEMENT("p", { class: "dim" });
  const field = ELEMENT("textarea", { rows: 2, maxlength: 20000, "aria-label": "Follow-up", placeholder: "Follow-up: sent after this turn" });
  const add = ELEMENT("button", { type: "submit" }, "Add");
  const form = ELEMENT("form", { class: "next" }, field, add);
  const facts = ELEMENT("div", { class: "facts" });
  const closed = ELEMENT("div", { class: "closed" });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (!event.isTrusted || !field.value.trim()) return;
    act("queue", { text: field.value });
    field.value = "";
  });
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || !event.isTrusted) return;
    event.preventDefault();
    form.requestSubmit();
  });

  const row = (text, number) => ELEMENT("li", {}, ELEMENT("span", { class: "cut", title: text }, text),
    button("Remove", "plain", "remove", () => ({ number, text }), `Remove “${text.slice(0, 60)}”`));
  const draw = () => {
    const view = model.get("view");
    running.hidden = isLost || view.running === null;
    title.textContent = view.running || "Running turn";
    title.title = view.running ?? "";
    foot.innerHTML = view.foot;
    queue.replaceChildren(...view.queue.map(row));
    queue.hidden = !view.queue.length;
    about.textContent = view.queue.length ? `${view.queue.length > 1 ? "These are" : "This is"} sent after ${view.running === null ? "the next" : "this"} turn.` : "";
    about.hidden = !view.queue.length;
    form.hidden = isLost || view.running === null;
    facts.innerHTML = view.facts;
    const opener = view.has_store ? [button("Show the stored requests", "", "open", () => ({}))] : [];
    closed.replaceChildren(ELEMENT("p", { class: "dim" }, isLost ? "The kernel has ended." : "This kernel has not used the tract yet."), ...(isLost ? [] : opener));
    closed.hidden = view.is_open && !isLost;
    facts.hidden = isLost;
  };
  root.append(running, queue, about, form, facts, closed, message);
  el.append(root);
  return follow(model, root, draw, kernel);
}

export default { render };
