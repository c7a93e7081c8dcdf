// The panel of several requests: a list with a checkbox and the full request of each, and two buttons for all selected.

// What a person selected, unfolded and typed, and where they are, by panel: a front end may draw the same panel anew.
const MEMORY = new Map();
const memoryOf = (board) => {
  if (!MEMORY.has(board))
    MEMORY.set(board, {
      selected: new Set(), opened: new Set(), unfolded: new Set(), reason: "", sent: new Map(), focus: null, caret: [0, 0],
    });
  return MEMORY.get(board);
};

const isUsable = (element) => element?.isConnected && !element.disabled && element.getClientRects().length > 0;

function render({ model, el }) {
  const id = newId();
  const { panel, header, title, badge, message, lost } = frame(id, "tract-batch");
  const kernel = connect(model, lost);
  const memory = memoryOf(model.get("board_id"));

  const rows = () => model.get("view").rows;
  const isSent = (row) => !row.refused && memory.sent.get(row.pending_id) === row.round_id; // the kernel may not know yet
  const isBusy = (row) => row.is_open && (row.is_busy || isSent(row));
  const isReady = (row) => row.is_open && !isBusy(row) && (!row.must_be_opened || memory.opened.has(row.pending_id));
  const selected = () => rows().filter((row) => isReady(row) && memory.selected.has(row.pending_id));

  // What each row shows: its values, where they stand whole in its line, and its body. All of it, before it is approved.
  const shown = (row) => panel.querySelector(`[data-pending-id="${row.pending_id}"]`);
  const unseen = (row) => (shown(row) ? unseenIn(shown(row), row.needed) : row.needed);
  const toRead = () => selected().find((row) => unseen(row) > 0);

  const decide = (content, isOpen) => {
    const key = newId() + Math.random();
    message.textContent = "";
    kernel.decide({ type: "decide", key, ...content }, key, isOpen, (text) => { message.textContent = text; });
  };
  const submit = (action) => {
    const chosen = selected();
    if (!chosen.length) return;
    const first = action === "approve" ? toRead() : undefined;
    if (first) { readOn(shown(first)); return; }
    const rounds = Object.fromEntries(chosen.map((row) => [row.pending_id, row.round_id]));
    for (const [pending, round] of Object.entries(rounds)) memory.sent.set(pending, round);
    for (const { pending_id } of chosen) { memory.selected.delete(pending_id); memory.unfolded.delete(pending_id); }
    const reason = action === "reject" ? memory.reason : "";
    decide({ action, rounds, reason, opened: [...memory.opened], seen: chosen.flatMap((row) => seenIn(shown(row))) }, () => rows().some((row) => rounds[row.pending_id] && isBusy(row)));
    if (action === "reject") memory.reason = "";
    draw();
    const rest = rows().filter((row) => row.is_open && !isBusy(row));
    const last = rows().indexOf(chosen.at(-1));
    focusOnRow(rest.find((row) => rows().indexOf(row) > last) ?? rest[0]);
  };
  let turns = 0;
  const turn = (page) => {
    const place = model.get("view").place;
    const mine = ++turns; // there and back shows the same place again: only the latest turn still matters
    decide({ page }, () => mine === turns && model.get("view").place === place);
  };

  // What follows from a selection, without drawing anew: a person may be in the midst of a list.
  const approve = ELEMENT("button", { type: "button", class: "tract-approve-all", id: `${id}-approve` });
  const reject = ELEMENT("button", { type: "submit", class: "tract-reject-all", id: `${id}-reject` });
  const left = ELEMENT("span", { class: "tract-left", id: `${id}-left`, "aria-live": "polite" });
  const all = ELEMENT("input", { type: "checkbox", id: `${id}-all` });
  const update = () => {
    const ready = rows().filter(isReady);
    const count = selected().length;
    const idle = selected().filter((row) => row.runs_nothing).length;
    const verb = count && idle === count ? "Approve without running" : "Approve selected";
    approve.textContent = count ? `${verb} (${count})` : verb;
    reject.textContent = count ? `Reject selected (${count})` : "Reject selected";
    approve.disabled = reject.disabled = !count;
    const first = toRead();
    left.textContent = first ? `Read on: ${many(unseen(first), "line")} of “${first.title}” not shown yet` : idle ? `No action of ${many(idle, "operation")} runs; “%tract decide ID ACTION” runs one` : "";
    holdBack([approve], Boolean(first), left.id);
    all.checked = count > 0 && count === ready.length;
    all.indeterminate = count > 0 && count < ready.length;
    all.disabled = !ready.length;
    for (const row of rows()) {
      const box = panel.querySelector(`[data-pending-id="${row.pending_id}"] .tract-select`);
      if (!box) continue;
      box.disabled = !isReady(row);
      box.checked = isReady(row) && memory.selected.has(row.pending_id);
      box.title = row.is_open && row.must_be_opened && !memory.opened.has(row.pending_id) ? "Open it first: nobody has read this code yet" : "";
    }
  };
  const watcher = watching(update);
  approve.addEventListener("click", () => submit("approve"));
  all.addEventListener("change", () => {
    for (const row of rows().filter(isReady)) memory.selected[all.checked ? "add" : "delete"](row.pending_id);
    update();
  });

  const fold = (row) => {
    const hint = row.is_open && row.must_be_opened ? "Show what would run (open it to select it)" : "Show the full request";
    const part = ELEMENT("details", { class: "tract-more" }, ELEMENT("summary", { id: `${id}-${row.pending_id}-fold` }, hint));
    const body = ELEMENT("div", { class: "tract-body" });
    body.innerHTML = model.get("bodies")[row.pending_id] ?? "";
    const remember = (details, key) => {
      details.open = memory.unfolded.has(key);
      // "toggle" comes later than the click, and the rows may be drawn anew in between
      details.querySelector("summary")?.addEventListener("click", () => memory.unfolded[details.open ? "delete" : "add"](key));
      details.addEventListener("toggle", () => memory.unfolded[details.open ? "add" : "delete"](key));
    };
    for (const inner of body.querySelectorAll("details")) remember(inner, `${row.pending_id} ${inner.dataset.part}`);
    part.append(body);
    remember(part, row.pending_id);
    part.addEventListener("toggle", () => {
      if (part.open) { memory.opened.add(row.pending_id); showAsked(body); }
      update();
    });
    return part;
  };
  const item = (row) => {
    const name = `${id}-${row.pending_id}`;
    const box = ELEMENT("input", { type: "checkbox", class: "tract-select", id: name, "aria-describedby": `${name}-about` });
    box.addEventListener("change", () => { memory.selected[box.checked ? "add" : "delete"](row.pending_id); update(); });
    const worst = row.worst ? [ELEMENT("span", { class: `tract-chip tract-${row.worst}` }, `finding: ${row.worst}`)] : [];
    const status = ELEMENT("span", { class: "tract-badge" }, isBusy(row) ? `${row.status} …` : row.status);
    const said = [row.refused, row.said].filter(Boolean).join("\n");
    return ELEMENT("li", { class: "tract-row", "data-pending-id": row.pending_id, "data-status": row.status },
      ELEMENT("div", { class: "tract-row-head" }, box, ELEMENT("label", { for: name }, row.title), ...worst, status),
      ELEMENT("div", { class: "tract-row-about", id: `${name}-about` },
        ...(row.values ? [ELEMENT("code", { "data-line": row.value_keys.join(" ") || null }, row.values)] : []), ELEMENT("div", {}, row.why),
        ELEMENT("div", { class: "tract-foot" }, "asked ", ELEMENT("time", { datetime: row.since, title: row.since_exact }),
          ...[row.asked_in && `in ${row.asked_in}`, row.waits].filter(Boolean).map((text) => ` · ${text}`))),
      ...(said ? [ELEMENT("pre", { class: `tract-note${row.refused || row.failed ? "" : " tract-plain"}` }, said)] : []),
      fold(row));
  };

  const reason = ELEMENT("input", { type: "text", id: `${id}-reason`, name: "reason", placeholder: "Reason (shown to whoever asked)" });
  reason.addEventListener("input", () => { memory.reason = reason.value; });
  for (const event of ["input", "keyup", "pointerup"])
    reason.addEventListener(event, () => { memory.caret = [reason.selectionStart, reason.selectionEnd]; });
  const rejecting = ELEMENT("form", { class: "tract-action tract-reject", "aria-label": "Reject selected" },
    ELEMENT("div", { class: "tract-input" }, ELEMENT("label", { for: reason.id }, "Reason"), reason), reject);
  rejecting.addEventListener("submit", (event) => { event.preventDefault(); event.stopPropagation(); submit("reject"); });
  const previous = ELEMENT("button", { type: "button", id: `${id}-previous` }, "Previous page");
  const next = ELEMENT("button", { type: "button", id: `${id}-next` }, "Next page");
  previous.addEventListener("click", () => turn(-1));
  next.addEventListener("click", () => turn(1));
  const place = ELEMENT("span", { class: "tract-foot" });
  const paging = ELEMENT("nav", { class: "tract-paging", "aria-label": "Pages of the inbox" }, previous, place, next);
  const list = ELEMENT("ul", { class: "tract-rows", role: "list" });
  const rest = ELEMENT("div", { class: "tract-body" });
  const selecting = ELEMENT("div", { class: "tract-all" }, all, ELEMENT("label", { for: all.id }, "Select all that can be decided here"));
  const deciding = ELEMENT("div", { class: "tract-action tract-approve" }, approve, left);

  // Where the focus is, without the part of the id that is this drawing's. It is gone when it went elsewhere, but not
  // when the front end took this drawing away to make another one: that one goes on where the person was.
  const nameOf = (element) => element.id.slice(id.length);
  panel.addEventListener("focusin", (event) => { memory.focus = nameOf(event.target); });
  panel.addEventListener("focusout", () => setTimeout(() => {
    if (panel.isConnected && !panel.contains(document.activeElement)) memory.focus = null;
  }));
  const focusOn = (name) => {
    const named = panel.querySelector(`[id="${id}${name}"]`);
    (isUsable(named) ? named : badge).focus();
  };
  const goOn = (_, observer) => { // once this drawing is on the page
    observer.disconnect();
    if (memory.focus === null || !document.activeElement?.contains(panel)) return; // nobody else has the focus
    focusOn(memory.focus);
    reason.setSelectionRange(...memory.caret);
  };

  // Keys: from row to row, unfold and fold, decide. No single letter approves.
  const rowAt = (element) => rows().find((row) => shown(row)?.contains(element));
  const handleOf = (row) => {
    const box = shown(row)?.querySelector(".tract-select");
    return isUsable(box) ? box : shown(row)?.querySelector("summary");
  };
  const focusOnRow = (row) => {
    const handle = row ? handleOf(row) : isUsable(next) ? next : badge;
    handle?.focus();
    if (row) shown(row).scrollIntoView({ block: "nearest" });
  };
  const select = (row) => { if (row && isReady(row)) { memory.selected.add(row.pending_id); update(); } };
  const move = (row, by, extend) => {
    const open = rows().filter((one) => one.is_open || one === row);
    const to = open[open.indexOf(row) + by];
    if (!to) return;
    if (extend) { select(row); select(to); }
    focusOnRow(to);
  };
  const unfold = (row, open) => {
    const part = shown(row).querySelector("details.tract-more");
    part.open = open;
    memory.opened.add(row.pending_id);
    setTimeout(() => focusOnRow(row)); // after the box can be selected
  };
  let leftAt = null; // the row from which a reason is typed
  const decideAt = (row) => {
    if (!selected().length) select(row);
    const unread = toRead();
    submit("approve");
    if (unread) handleOf(unread)?.focus({ preventScroll: true });
  };
  const press = (event, row) => {
    const { key, shiftKey } = event;
    const isPrimary = key === "Enter" && (event.ctrlKey || event.metaKey);
    if (isPrimary && event.target !== reason) return () => decideAt(row);
    if (event.ctrlKey || event.metaKey || event.altKey) return null;
    if (key === "Escape" && event.target === reason) return () => focusOnRow(leftAt ?? rows().find((one) => one.is_open));
    if (event.target.matches("input:not([type=checkbox]), textarea, select")) return null;
    if (!row && (key === "ArrowDown" || key === "ArrowUp"))
      return () => focusOnRow(rows().filter((one) => one.is_open).at(key === "ArrowUp" ? -1 : 0));
    if (!row) return null;
    if (key === "ArrowDown") return () => move(row, 1, shiftKey);
    if (key === "ArrowUp") return () => move(row, -1, shiftKey);
    if (key === "ArrowRight") return () => unfold(row, true);
    if (key === "ArrowLeft") return () => unfold(row, false);
    if (key === "PageDown" && unseen(row)) return () => { readOn(shown(row)); handleOf(row)?.focus({ preventScroll: true }); };
    if (key === "r" || key === "R") return () => { if (!selected().length) select(row); leftAt = row; reason.focus(); };
    return null;
  };
  panel.addEventListener("keydown", (event) => {
    const done = press(event, rowAt(event.target));
    if (!done) return;
    event.preventDefault();
    done();
  });

  const draw = () => {
    const view = model.get("view");
    const focused = panel.contains(document.activeElement) ? document.activeElement : null;
    const open = view.rows.filter((row) => row.is_open).length;
    title.textContent = view.title;
    badge.textContent = open ? `${open} open here` : view.has_next ? "all decided on this page" : "all decided";
    panel.dataset.status = open ? "pending" : "settled";
    list.replaceChildren(...view.rows.map(item));
    rest.innerHTML = view.rest_html;
    reason.value = memory.reason;
    place.textContent = view.place;
    previous.disabled = !view.has_previous;
    next.disabled = !view.has_next;
    paging.hidden = !view.has_previous && !view.has_next;
    selecting.hidden = deciding.hidden = rejecting.hidden = keys.hidden = !open;
    panel.setAttribute("aria-busy", String(view.rows.some(isBusy)));
    message.textContent = !open && wasReloaded(model) ? RELOADED : "";
    tellTimes(panel);
    update();
    watcher.watch(list);
    if (focused && !isUsable(focused)) focusOn(nameOf(focused)); // what was not replaced keeps it
  };

  const keys = ELEMENT("div", { class: "tract-foot tract-keys" },
    "↑ ↓ rows · Space selects · → ← unfold, fold · Page Down reads on · Ctrl Enter approves · R rejects with a reason");
  panel.append(header, selecting, list, deciding, rejecting, keys, paging, rest, message);
  el.append(panel);
  new ResizeObserver(goOn).observe(panel);
  const close = follow(model, panel, draw, kernel);
  return () => { watcher.close(); close(); };
}

export default { render };
