// The requests of one step in one list: a header for all, and each request with its buttons.

function render({ model, el }) {
  const id = newId();
  const root = rootOf("Tract", "tract-questions");
  const rows = [];
  let isGone = false;
  const kernel = connect(model, () => { isGone = true; for (const row of rows) row.lost(); if (rows.length) update(); });

  const title = ELEMENT("b", { role: "heading", "aria-level": 3 });
  const approve = ELEMENT("button", { type: "button", class: "approve-all", "data-approves": true });
  const reason = ELEMENT("input", { type: "text", name: "reason", placeholder: "Reason for all (shown to the caller)", "aria-label": "Reason for all" });
  const send = ELEMENT("button", { type: "submit", class: "reject-all" });
  const reject = ELEMENT("button", { type: "button", class: "reject", "aria-expanded": "false" });
  const asking = ELEMENT("form", { class: "ask one", hidden: true, "aria-label": "Reject all" }, reason, send);
  const left = ELEMENT("span", { class: "left dim cut", id: `${id}-left`, "aria-live": "polite" });
  const head = ELEMENT("div", { class: "bulk" }, title, left, approve, reject);

  const open = (kind) => rows.filter((row) => row.can(kind));
  const isNew = () => open("approve").some((row) => row.isNew());
  const unread = () => open("approve").find((row) => row.unseen() > 0);
  const update = () => {
    const [ready, refusable, first] = [open("approve").length, open("reject").length, unread()];
    const runs = open("approve").every((row) => row.label().startsWith("Run "));
    approve.textContent = `${runs ? "Run" : "Approve"} all (${ready})`;
    send.textContent = `Reject all (${refusable})`;
    reject.textContent = `Reject all (${refusable})…`;
    approve.hidden = !ready;
    reject.hidden = !refusable;
    asking.hidden = !refusable || reject.getAttribute("aria-expanded") !== "true";
    const lines = open("approve").reduce((sum, row) => sum + row.unseen(), 0);
    left.textContent = first ? `Read on: ${many(lines, "line")} not shown yet` : "";
    holdBack([approve], Boolean(first) || isNew(), left.id);
  };
  const watcher = watching(update); // called after the rows showed more
  approve.addEventListener("click", () => {
    const first = unread();
    if (first) { first.element.scrollIntoView({ block: "nearest" }); first.readOn(); return; }
    if (isNew()) return;
    for (const row of open("approve")) row.approve(); // each sends its changed values
    update();
  });
  const ask = (on) => {
    reject.setAttribute("aria-expanded", String(on));
    update();
    if (on) reason.focus(); else reject.focus({ preventScroll: true });
  };
  reject.addEventListener("click", () => ask(asking.hidden));
  asking.addEventListener("keydown", (event) => { if (event.key === "Escape") { event.stopPropagation(); ask(false); } });
  asking.addEventListener("submit", (event) => {
    event.preventDefault();
    for (const row of open("reject")) row.reject(reason.value);
    update();
  });

  const list = ELEMENT("div", { class: "list" }, head, asking);
  for (const number of model.get("view").rows.keys()) {
    const view = () => model.get("view").rows[number];
    const place = ELEMENT("div", { class: "place" });
    const row = requestRow({ place, id: `${id}-${number}`, kernel, view, isReloaded: () => wasReloaded(model) });
    let drawn = "";
    const draw = () => { // an unchanged row stays, because the user may be typing there
      const now = JSON.stringify(view());
      if (now !== drawn) { drawn = now; row.draw(); }
    };
    rows.push({ ...row, draw });
    list.append(place);
  }

  const draw = () => {
    title.textContent = model.get("view").title;
    for (const row of rows) row.draw();
    update();
  };
  root.append(list);
  const close = follow(model, root, draw, kernel);
  crowd(root);
  el.append(root);
  if (isGone) for (const row of rows) row.lost();
  return () => { watcher.close(); for (const row of rows) row.close(); close(); };
}

export default { render };
