// What one step asks, in one list: a header for all of it, and below it each request with its own buttons.

function render({ model, el }) {
  const id = newId();
  const { panel, header, title, badge, message, lost } = frame(id, "tract-questions");
  const rows = [];
  const kernel = connect(model, () => { lost(); for (const row of rows) row.parts.lost(); });

  const approve = ELEMENT("button", { type: "button", class: "tract-approve-all" });
  const reason = ELEMENT("input", { type: "text", name: "reason", placeholder: "Reason for all (shown to whoever asked)", "aria-label": "Reason for all" });
  const reject = ELEMENT("button", { type: "submit", class: "tract-reject-all" });
  const left = ELEMENT("span", { class: "tract-left", id: `${id}-left`, "aria-live": "polite" });
  const approving = ELEMENT("div", { class: "tract-action tract-approve" }, approve, left);
  const rejecting = ELEMENT("form", { class: "tract-action tract-reject" }, ELEMENT("div", { class: "tract-input" }, reason), reject);

  const formOf = (row, kind) => row.panel.querySelector(kind === "approve" ? 'form[data-action="approve"]' : "form.tract-reject");
  const open = (kind) => rows.filter((row) => row.isOpen() && formOf(row, kind));
  const unread = () => open("approve").find((row) => row.unseen() > 0);
  const update = () => {
    const [ready, refusable, first] = [open("approve").length, open("reject").length, unread()];
    approve.textContent = `Approve all (${ready})`;
    reject.textContent = `Reject all (${refusable})`;
    approving.hidden = !ready;
    rejecting.hidden = !refusable;
    const lines = open("approve").reduce((sum, row) => sum + row.unseen(), 0);
    left.textContent = first ? `Read on: ${many(lines, "line")} not shown yet` : "";
    holdBack([approve], Boolean(first), left.id);
  };
  const watcher = watching(update); // told whenever more was seen, by the rows
  // Each row sends what stands in its own form, so that what a person changed or typed there counts.
  const press = (kind, before) => {
    for (const row of open(kind)) { before(formOf(row, kind)); formOf(row, kind).requestSubmit(); }
    update();
  };
  approve.addEventListener("click", () => {
    const first = unread();
    if (first) readOn(first.panel); else press("approve", () => {});
  });
  rejecting.addEventListener("submit", (event) => {
    event.preventDefault();
    press("reject", (form) => {
      const own = form.querySelector("[name]");
      if (own && !own.value) own.value = reason.value;
    });
  });

  const list = ELEMENT("div", { class: "tract-rows" });
  for (const place of model.get("view").rows.keys()) {
    const view = () => model.get("view").rows[place];
    const parts = frame(`${id}-${place}`, "tract-panel");
    parts.title.setAttribute("aria-level", 4);
    const one = request({ id: `${id}-${place}`, parts, kernel, view, isReloaded: () => wasReloaded(model) });
    let drawn = "";
    const draw = () => { // what did not change stays as it is: a person may be typing there
      const now = JSON.stringify(view());
      if (now !== drawn) { drawn = now; one.draw(); }
    };
    rows.push({ ...one, parts, draw });
    list.append(parts.panel);
  }

  const draw = () => {
    title.textContent = model.get("view").title;
    for (const row of rows) row.draw();
    const still = model.get("view").rows.filter((row) => row.is_open).length;
    badge.textContent = still ? `${still} open` : "all decided";
    update();
  };
  panel.append(header, approving, rejecting, list, message);
  el.append(panel);
  const close = follow(model, panel, draw, kernel);
  return () => { watcher.close(); for (const row of rows) row.close(); close(); };
}

export default { render };
