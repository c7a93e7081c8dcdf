// The inbox: a line for each open request, grouped by origin. Requests of one kind share a line above their different values.

// The user's selection, unfolded rows, text and focus, by panel. A front end may draw the same panel again.
const MEMORY = new Map();
const memoryOf = (board) => {
  if (!MEMORY.has(board))
    MEMORY.set(board, {
      selected: new Set(), opened: new Set(), unfolded: new Set(), folded: new Set(), reason: "", isAsking: false, only: [], sent: new Map(), focus: null, caret: [0, 0],
    });
  return MEMORY.get(board);
};

const isUsable = (element) => element?.isConnected && !element.disabled && element.getClientRects().length > 0;
const DONE = { approved: "done", rejected: "no", failed: "no" };

function render({ model, el }) {
  const id = newId();
  const root = rootOf("Inbox", "tract-batch");
  const message = ELEMENT("div", { class: "err", role: "alert" });
  let isLost = false, isDrawn = false;
  const kernel = connect(model, () => {
    const wasSent = isDrawn && rows().some(isBusy);
    isLost = true;
    root.dataset.status = "stale";
    message.textContent = lostText(wasSent);
    if (isDrawn) draw();
  });
  const memory = memoryOf(model.get("board_id"));

  const rows = () => model.get("view").rows;
  const isSent = (row) => !row.refused && memory.sent.get(row.pending_id) === row.round_id; // the kernel may not know yet
  const isBusy = (row) => row.is_open && (row.is_busy || isSent(row));
  const needs = (row) => (row.keeps ? row.needed_effects : row.needed);
  // all of it may have been on display elsewhere on this page, such as in the cell of its turn
  const isOpened = (row) => !row.must_be_opened || memory.opened.has(row.pending_id) || (needs(row) > 0 && unseen(row) === 0);
  const isReady = (row) => !isLost && row.is_open && !isBusy(row) && isOpened(row);
  const selected = () => rows().filter((row) => isReady(row) && memory.selected.has(row.pending_id));
  const refused = () => { // the rows for "Reject": the row of its button, or the selected rows
    const only = rows().filter((row) => !isLost && row.is_open && !isBusy(row) && memory.only.includes(row.pending_id));
    return only.length ? only : selected();
  };

  // The content of a row: values in its line or cell, values that its kind shares above them, and the full text. All of it
  // must be on display before an approval. A value that is cut at the end of a line is not on display.
  const keysIn = (row) => row.values.flatMap((pair) => pair.keys.split(" ")).filter(Boolean);
  const shown = (row) => list.querySelector(`[data-pending-id="${row.pending_id}"]`);
  const itemOf = (row) => shown(row)?.closest(".item");
  const kindOf = (row) => rows().filter((other) => row.kind && other.kind === row.kind && other.place === row.place);
  const others = (row) => new Set(kindOf(row).filter((other) => other !== row).flatMap(keysIn));
  const unseen = (row) => {
    const item = itemOf(row), needed = needs(row);
    if (!item) return needed;
    const foreign = others(row);
    const lines = linesIn(item).filter((line) => isEffect(line) === row.keeps);
    return needed - new Set(lines.flatMap(keysOf).filter((key) => SEEN.has(key) && !foreign.has(key))).size;
  };
  const toRead = () => selected().find((row) => unseen(row) > 0);

  const decide = (content, isOpen) => {
    const key = newId() + Math.random();
    message.textContent = "";
    kernel.decide({ type: "decide", key, ...content }, key, isOpen, (text) => { message.textContent = text; });
  };
  const submit = (action, chosen = selected()) => {
    if (!chosen.length) return;
    const first = action === "approve" ? chosen.find((row) => unseen(row) > 0) : undefined;
    if (first) { readRow(first); return; }
    const rounds = Object.fromEntries(chosen.map((row) => [row.pending_id, row.round_id]));
    for (const [pending, round] of Object.entries(rounds)) memory.sent.set(pending, round);
    for (const { pending_id } of chosen) { memory.selected.delete(pending_id); memory.unfolded.delete(pending_id); }
    const reason = action === "reject" ? memory.reason : "";
    const opened = new Set([...memory.opened, ...chosen.filter(isOpened).map((row) => row.pending_id)]);
    decide({ action, rounds, reason, opened: [...opened], seen: seenIn(list) }, () => rows().some((row) => rounds[row.pending_id] && isBusy(row)));
    if (action === "reject") { memory.reason = ""; memory.isAsking = false; memory.only = []; }
    const last = rows().indexOf(chosen.at(-1));
    const rest = rows().filter((row) => row.is_open && !isBusy(row));
    draw();
    focusOnRow(rest.find((row) => rows().indexOf(row) > last) ?? rest[0]);
  };
  let turns = 0;
  const turn = (page) => {
    const place = model.get("view").place;
    const mine = ++turns; // two turns may lead back to the same place, so only the latest one matters
    decide({ page }, () => mine === turns && model.get("view").place === place);
  };

  // The line above the list: the selection, and its buttons.
  const title = ELEMENT("b", { class: "heading", role: "heading", "aria-level": 3, tabindex: "-1" });
  const about = ELEMENT("span", { class: "dim", role: "status" });
  const all = ELEMENT("input", { type: "checkbox", id: `${id}-all`, "aria-label": "Select all that can be decided here" });
  const count = ELEMENT("b", {});
  const approve = ELEMENT("button", { type: "button", class: "primary approve-all", id: `${id}-approve`, "data-approves": true });
  const reject = ELEMENT("button", { type: "button", class: "reject", id: `${id}-reject`, "aria-expanded": "false" });
  const left = ELEMENT("span", { class: "left dim cut", id: `${id}-left`, "aria-live": "polite" });
  const bulk = ELEMENT("div", { class: "bulk" }, all, count, approve, reject, left);
  const reason = ELEMENT("input", { type: "text", id: `${id}-reason`, name: "reason", "aria-label": "Reason", placeholder: "Reason (shown to the caller)" });
  const send = ELEMENT("button", { type: "submit", class: "reject-all" });
  const asking = ELEMENT("form", { class: "ask one", "aria-label": "Reject selected" }, reason, send);
  const list = ELEMENT("div", { class: "list" });

  const labelOf = (chosen) => {
    const names = new Set(chosen.map((row) => row.name)), verbs = new Set(chosen.map((row) => row.verb));
    const verb = verbs.size === 1 ? [...verbs][0] : "Approve";
    const what = names.size === 1 && [...names][0] ? (chosen.length > 1 ? `${chosen.length} × ${[...names][0]}` : [...names][0]) : `${chosen.length}`;
    return `${verb} ${what}${chosen.length && chosen.every((row) => row.runs_nothing) ? " without running" : ""}`;
  };
  const update = () => {
    const ready = rows().filter(isReady), chosen = selected(), idle = chosen.filter((row) => row.runs_nothing).length;
    count.textContent = chosen.length ? `${chosen.length} selected` : "Select all";
    approve.textContent = chosen.length ? labelOf(chosen) : "Approve selected";
    approve.classList.toggle("caution", chosen.some((row) => row.is_risky));
    reject.textContent = `Reject ${chosen.length}…`;
    send.textContent = `Reject ${refused().length}`;
    approve.hidden = reject.hidden = !chosen.length;
    asking.hidden = !refused().length || !memory.isAsking;
    reject.setAttribute("aria-expanded", String(!asking.hidden));
    const first = toRead();
    left.textContent = first ? `Read on: ${many(unseen(first), "line")} of “${first.title}” not shown yet` : idle ? `No action of ${many(idle, "operation")} runs; “%tract decide ID ACTION” runs one` : "";
    holdBack([approve], Boolean(first), left.id);
    all.checked = chosen.length > 0 && chosen.length === ready.length;
    all.indeterminate = chosen.length > 0 && chosen.length < ready.length;
    all.disabled = !ready.length;
    for (const row of rows().filter((other) => other.is_open)) updateRow(row);
    for (const box of list.querySelectorAll(".kind")) updateKind(box);
  };
  const updateRow = (row) => {
    const place = shown(row), box = place?.querySelector(".select");
    if (!box) return;
    box.disabled = !isReady(row);
    box.checked = isReady(row) && memory.selected.has(row.pending_id);
    box.title = !isOpened(row) ? "Open it first. This code has not been read yet." : "";
    place.classList.toggle("sel", box.checked);
    const act = place.querySelector(".act");
    if (!act) return;
    const lines = unseen(row), inLine = linesIn(place.querySelector(".line")).flatMap(keysOf).filter((key) => !SEEN.has(key)).length;
    const isShort = lines <= inLine; // the line itself is about to count
    const isFull = !place.querySelector(".full").hidden;
    act.textContent = isShort ? isOpened(row) ? row.verb : "Read" : isFull ? "Read on" : place.querySelector("[data-cut]") && !row.has_code ? "Read" : `Read ${many(lines, "line")}`;
    act.title = isShort && row.runs_nothing ? "Approve without running: none of its actions runs" : "";
    act.disabled = isBusy(row);
  };
  const updateKind = (box) => {
    const ofKind = rows().filter((row) => `${row.place} ${row.kind}` === box.dataset.kind);
    const ready = ofKind.filter(isReady), chosen = ready.filter((row) => memory.selected.has(row.pending_id));
    box.checked = chosen.length > 0 && chosen.length === ready.length;
    box.indeterminate = chosen.length > 0 && chosen.length < ready.length;
    box.disabled = !ready.length;
    const open = ofKind.filter((row) => row.is_open);
    const line = box.closest(".line");
    line.querySelector(".badge").textContent = !open.length ? `${ofKind.length} decided` : chosen.length ? `${chosen.length} of ${open.length} selected` : `×${open.length}`;
    const first = open[0], act = line.querySelector(".act");
    const code = first ? unseen(first) - keysIn(first).filter((key) => !SEEN.has(key)).length : 0;
    act.hidden = code <= 0;
    act.textContent = `Read ${many(Math.max(code, 0), "line")}`;
  };
  const watcher = watching(update);
  const fit = () => {
    for (const line of list.querySelectorAll(".values")) {
      markCut(line, line.classList.contains("brief") || line.scrollWidth > line.clientWidth);
    }
    watcher.watch(list);
    update();
  };
  approve.addEventListener("click", () => submit("approve"));
  const choose = (some, on) => {
    for (const row of some.filter(isReady)) memory.selected[on ? "add" : "delete"](row.pending_id);
    update();
  };
  all.addEventListener("change", () => choose(rows(), all.checked));
  const ask = (on, only = []) => {
    memory.isAsking = on;
    memory.only = only.map((row) => row.pending_id);
    update();
    if (on) reason.focus();
  };
  reject.addEventListener("click", () => ask(asking.hidden));
  reason.addEventListener("input", () => { memory.reason = reason.value; });
  for (const event of ["input", "keyup", "pointerup"])
    reason.addEventListener(event, () => { memory.caret = [reason.selectionStart, reason.selectionEnd]; });
  asking.addEventListener("submit", (event) => { event.preventDefault(); event.stopPropagation(); submit("reject", refused()); });

  // Lines.
  const withName = (row, name, tag) => {
    const element = ELEMENT(tag, { class: "what", ...(tag === "label" ? { for: name } : {}) });
    element.innerHTML = row.headline_html;
    return element;
  };
  const chip = (row) => (row.worst ? [ELEMENT("span", { class: `chip ${row.worst}` }, row.worst)] : []);
  const since = (row) => ELEMENT("small", { class: "num wide-only" }, ELEMENT("time", { datetime: row.since, title: `asked ${row.since_exact}` }));
  const notes = (row) => {
    const note = [row.refused, row.is_open ? row.said : ""].filter(Boolean).join("\n");
    return note ? [ELEMENT("div", { class: "err" }, note)] : [];
  };
  const remember = (details, key) => {
    details.open = memory.unfolded.has(key);
    // "toggle" follows the click later, and the rows may be drawn again in between
    details.querySelector("summary")?.addEventListener("click", () => memory.unfolded[details.open ? "delete" : "add"](key));
    details.addEventListener("toggle", () => memory.unfolded[details.open ? "add" : "delete"](key));
  };
  const fullOf = (row) => {
    const scroll = ELEMENT("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `All of ${row.title}`, "data-lm-suppress-shortcuts": "true" });
    scroll.innerHTML = model.get("bodies")[row.pending_id] ?? "";
    for (const inner of scroll.querySelectorAll("details")) remember(inner, `${row.pending_id} ${inner.dataset.part}`);
    const about = [row.why, row.asked_in && `asked in ${row.asked_in}`, row.waits].filter(Boolean).join(" · ");
    return ELEMENT("div", { class: "full", id: `${id}-${row.pending_id}-full`, hidden: !memory.unfolded.has(row.pending_id) }, ELEMENT("p", { class: "dim" }, about), scroll);
  };
  const unfold = (row, on) => {
    const item = itemOf(row), full = item?.querySelector(".full");
    if (!full) return;
    full.hidden = !on;
    memory.unfolded[on ? "add" : "delete"](item.dataset.first ?? row.pending_id);
    if (on) for (const opened of item.dataset.first ? kindOf(row) : [row]) memory.opened.add(opened.pending_id);
    item.querySelector(".fold")?.setAttribute("aria-expanded", String(on));
    if (on) { showAsked(full, item); watcher.watch(item); }
    update();
  };
  const readRow = (row) => {
    const item = itemOf(row), full = item?.querySelector(".full");
    if (!item) return;
    const isOnDisplay = linesIn(item).some((part) => isUsable(part) && !keysOf(part).every((key) => SEEN.has(key)));
    if (full?.hidden && !isOnDisplay) unfold(row, true);
    readOn(item);
  };
  const item = (row) => {
    const name = `${id}-${row.pending_id}`;
    if (!row.is_open) {
      const element = ELEMENT("div", { class: "item", "data-pending-id": row.pending_id, "data-status": row.status }, ...notes(row));
      const record = ELEMENT("template");
      record.innerHTML = row.record_html;
      element.prepend(record.content);
      for (const inner of element.querySelectorAll("details")) remember(inner, `${row.pending_id} decided ${inner.dataset.part ?? ""}`);
      return element;
    }
    const box = ELEMENT("input", { type: "checkbox", class: "select", id: name, "aria-describedby": `${name}-values` });
    box.addEventListener("change", () => choose([row], box.checked));
    const values = row.values.length
      ? ELEMENT("span", { class: `cut values${row.is_brief ? " brief" : ""}`, id: `${name}-values` }, ...valuesOf(row))
      : ELEMENT("span", { class: "cut dim", id: `${name}-values` }, row.about);
    const act = ELEMENT("button", { type: "button", class: "plain act", id: `${name}-act` });
    act.addEventListener("click", () => { if (!isOpened(row) && !unseen(row)) unfold(row, true); else if (unseen(row)) readRow(row); else submit("approve", [row]); });
    const no = ELEMENT("button", { type: "button", class: "plain", id: `${name}-no` }, "Reject…");
    no.addEventListener("click", () => ask(true, [row]));
    const fold = ELEMENT("button", { type: "button", class: "plain fold", id: `${name}-fold`, "aria-expanded": String(memory.unfolded.has(row.pending_id)), "aria-controls": `${name}-full`, "aria-label": row.must_be_opened ? "Show what would run" : "Show all of it" }, icon("chev"));
    fold.addEventListener("click", () => unfold(row, fold.getAttribute("aria-expanded") !== "true"));
    const busy = isBusy(row) ? [ELEMENT("span", { class: "badge wait" }, "sending")] : row.status === "failed" ? [ELEMENT("span", { class: "badge no" }, "failed")] : [];
    return ELEMENT("div", { class: "item", "data-pending-id": row.pending_id, "data-status": row.status },
      ELEMENT("div", { class: "line" }, box, fold, withName(row, name, "label"), values, ...chip(row), since(row), ...busy, ...(isLost ? [] : [ELEMENT("span", { class: "acts" }, act, no)])),
      ...notes(row), fullOf(row));
  };
  const kind = (ofKind) => {
    const open = ofKind.filter((row) => row.is_open), first = open[0] ?? ofKind[0], name = `${id}-${first.pending_id}-kind`;
    const isShared = (at) => ofKind.length > 1 && ofKind.every((row) => row.values[at].text === ofKind[0].values[at].text);
    const sharing = first.values.map((_, at) => at).filter(isShared), differing = first.values.map((_, at) => at).filter((at) => !isShared(at));
    const together = sharing.map((at) => valueOf({ ...first.values[at], keys: ofKind.map((row) => row.values[at].keys).join(" ") }));
    const names = differing.map((at) => first.values[at].name);
    const difference = `${names.length ? `${names.join(" and ")} ${names.length > 1 ? "differ" : "differs"}` : "all the same"}`;
    const box = ELEMENT("input", { type: "checkbox", class: "kind", id: name, "data-kind": `${first.place} ${first.kind}`, "aria-label": `Select all ${ofKind.length}: ${first.title}` });
    box.addEventListener("change", () => choose(ofKind, box.checked));
    const act = ELEMENT("button", { type: "button", class: "plain act", id: `${name}-act` });
    act.addEventListener("click", () => readRow(first));
    const isOpen = memory.unfolded.has(first.pending_id);
    const fold = ELEMENT("button", { type: "button", class: "plain fold", id: `${name}-fold`, "aria-expanded": String(isOpen), "aria-controls": `${id}-${first.pending_id}-full`, "aria-label": "Show all of the first one" }, icon("chev"));
    fold.addEventListener("click", () => unfold(first, fold.getAttribute("aria-expanded") !== "true"));
    const cells = ofKind.map((row) => {
      const cell = `${id}-${row.pending_id}`;
      const select = ELEMENT("input", { type: "checkbox", class: "select", id: cell });
      select.addEventListener("change", () => choose([row], select.checked));
      const mark = row.is_open ? select : icon(DONE[row.status] ?? "idle");
      const spoken = row.is_open ? [] : [ELEMENT("span", { class: "said" }, row.status)];
      const value = differing.flatMap((at, n) => [n ? " " : "", valueOf(row.values[at])]);
      const more = [row.refused, row.is_open || row.failed ? row.said : ""].filter(Boolean).join("\n");
      return ELEMENT("label", { "data-pending-id": row.pending_id, "data-status": row.status, title: row.is_open ? null : row.said }, mark, ...spoken,
        ELEMENT("code", {}, ...(value.length ? value : [`#${ofKind.indexOf(row) + 1}`])), ...(isBusy(row) ? [ELEMENT("span", { class: "badge wait" }, "sending")] : []),
        ...(more ? [ELEMENT("small", { class: "failure" }, more)] : []));
    });
    return ELEMENT("div", { class: "item", "data-first": first.pending_id },
      ELEMENT("div", { class: "line" }, box, fold, withName(first, name, "label"), ELEMENT("span", { class: "badge" }),
        ELEMENT("span", { class: "cut dim" }, difference), ...chip(first), since(first), ELEMENT("span", { class: "acts" }, act)),
      ELEMENT("div", { class: "same" }, ...(together.length ? [ELEMENT("code", { class: "shared" }, ...together.flatMap((value, at) => [at ? " " : "", value]))] : []), ...cells), ...(open.length ? [fullOf(first)] : []));
  };

  const previous = ELEMENT("button", { type: "button", id: `${id}-previous` }, "Previous page");
  const next = ELEMENT("button", { type: "button", id: `${id}-next` }, "Next page");
  previous.addEventListener("click", () => turn(-1));
  next.addEventListener("click", () => turn(1));
  const place = ELEMENT("span", { class: "dim" });
  const paging = ELEMENT("nav", { class: "paging", "aria-label": "Pages of the inbox" }, previous, place, next);
  const rest = ELEMENT("div", { class: "rest" });

  // The focused element, as its id without the prefix of this drawing. Focus elsewhere clears it. If the front end replaces
  // this drawing, it stays, and the new drawing restores the focus.
  const nameOf = (element) => element.id.slice(id.length);
  root.addEventListener("focusin", (event) => { memory.focus = event.target.id ? nameOf(event.target) : ""; });
  root.addEventListener("focusout", ({ relatedTarget }) => {
    if (relatedTarget && !root.contains(relatedTarget)) memory.focus = null;
  });
  const focusOn = (name) => {
    const named = name && root.querySelector(`[id="${id}${name}"]`);
    (isUsable(named) ? named : title).focus({ preventScroll: true });
  };
  const restoreFocus = (_, observer) => { // once this drawing is on the page
    observer.disconnect();
    fit();
    if (memory.focus === null || !document.activeElement?.contains(root)) return; // another element has the focus
    focusOn(memory.focus);
    reason.setSelectionRange(...memory.caret);
  };

  // Keys: move between lines and cells, select, unfold, fold, decide. No single letter approves.
  const handleOf = (stop) => {
    const box = stop?.querySelector(".select, .kind");
    return isUsable(box) ? box : stop?.querySelector("button.act:not([hidden]), button.fold");
  };
  const stopsIn = () => [...list.querySelectorAll(".item > .line, .same > label")].filter((stop) => handleOf(stop));
  const rowsAt = (stop) => {
    const pending = stop?.closest("[data-pending-id]")?.dataset.pendingId;
    if (pending) return rows().filter((row) => row.pending_id === pending);
    const box = stop?.querySelector(".kind");
    return box ? rows().filter((row) => `${row.place} ${row.kind}` === box.dataset.kind) : [];
  };
  const focusOnStop = (stop) => {
    const handle = stop ? handleOf(stop) : isUsable(next) ? next : title;
    handle?.focus({ preventScroll: Boolean(stop) });
    stop?.scrollIntoView({ block: "nearest" });
  };
  const focusOnRow = (row) => {
    const at = row && shown(row);
    focusOnStop(at?.matches("label") ? at : at?.querySelector(".line"));
  };
  const press = (event) => {
    const { key, shiftKey, target } = event;
    const stop = target.closest(".item > .line, .same > label") ?? target.closest(".item")?.querySelector(".line");
    const at = rowsAt(stop), first = at.find((row) => row.is_open);
    if (key === "Enter" && (event.ctrlKey || event.metaKey) && target !== reason) return () => {
      if (!selected().length) choose(at, true);
      const unread = toRead() ?? at.find((row) => row.is_open && unseen(row) > 0 && !isReady(row));
      if (unread) { readRow(unread); handleOf(stop)?.focus({ preventScroll: true }); } else submit("approve");
    };
    if (event.ctrlKey || event.metaKey || event.altKey) return null;
    if (key === "Escape" && target === reason) return () => { const [left] = refused(); ask(false); focusOnRow(left ?? rows().find((row) => row.is_open)); };
    if (target.matches("input:not([type=checkbox]), textarea, select")) return null;
    const isScrolling = target.matches(".scroll, [role=region]");
    if ((key === "ArrowDown" || key === "ArrowUp") && !isScrolling) {
      const stops = stopsIn(), by = key === "ArrowDown" ? 1 : -1;
      const to = stop ? stops[stops.indexOf(stop) + by] : stops.at(by > 0 ? 0 : -1);
      return to && (() => {
        if (shiftKey) choose([...at, ...rowsAt(to)], true);
        focusOnStop(to);
      });
    }
    if (!first) return null;
    if (key === "ArrowRight" || key === "ArrowLeft") return () => { unfold(first, key === "ArrowRight"); setTimeout(() => handleOf(stop)?.focus({ preventScroll: true })); };
    const unread = at.find((row) => row.is_open && unseen(row) > 0);
    if (key === "PageDown" && unread) return () => { readRow(unread); handleOf(stop)?.focus({ preventScroll: true }); };
    if (key === "r" || key === "R") return () => ask(true, selected().length ? [] : at);
    return null;
  };
  root.addEventListener("keydown", (event) => {
    const done = press(event);
    if (!done) return;
    event.preventDefault();
    event.stopPropagation();
    event.stopImmediatePropagation();
    done();
  }, { capture: true });

  const draw = () => {
    const view = model.get("view");
    isDrawn = true;
    const focused = root.contains(document.activeElement) ? document.activeElement : null;
    const open = view.rows.filter((row) => row.is_open);
    title.textContent = view.title;
    root.setAttribute("aria-label", view.title);
    about.textContent = open.length || !view.rows.length ? "" : view.has_next ? "all decided on this page" : "all decided";
    if (!isLost) root.dataset.status = open.length ? "pending" : "settled";
    const places = [...new Set(view.rows.map((row) => row.place))];
    const parts = places.flatMap((where) => {
      const here = view.rows.filter((row) => row.place === where), still = here.filter((row) => row.is_open).length;
      const kinds = new Map();
      for (const row of here) {
        const key = row.kind || row.pending_id;
        kinds.set(key, [...(kinds.get(key) ?? []), row]);
      }
      const head = places.length > 1 ? [ELEMENT("div", { class: "group" }, ELEMENT("b", {}, where), ELEMENT("span", { class: `badge${still ? " wait" : ""}` }, still ? `${still} waiting` : "decided"), ELEMENT("span", { class: "cut dim" }, here[0].waits))] : [];
      return [...head, ...[...kinds.values()].map((ofKind) => (ofKind.length > 1 ? kind(ofKind) : item(ofKind[0])))];
    });
    list.replaceChildren(...(open.length && !isLost ? [bulk, asking] : []), ...parts);
    list.hidden = !view.rows.length;
    rest.innerHTML = view.rest_html;
    reason.value = memory.reason;
    place.textContent = view.place;
    previous.disabled = isLost || !view.has_previous;
    next.disabled = isLost || !view.has_next;
    paging.hidden = !view.has_previous && !view.has_next;
    keys.hidden = isLost || !open.length;
    root.setAttribute("aria-busy", String(view.rows.some(isBusy)));
    if (!isLost) message.textContent = !open.length && wasReloaded(model) ? RELOADED : "";
    for (const row of view.rows) waits(row.pending_id, root, row.is_open && !isLost);
    tellTimes(root);
    fit();
    if (focused && !isUsable(focused)) focusOn(nameOf(focused)); // an element that was not replaced keeps the focus
  };

  const keys = ELEMENT("div", { class: "keys" });
  for (const [names, does] of [["↑ ↓", "move"], ["Space", "select"], ["Shift ↓", "extend"], ["→ ←", "unfold, fold"], ["PgDn", "read on"], ["Ctrl Enter", "decide"], ["R", "reject…"]])
    keys.append(ELEMENT("span", {}, ...names.split(" ").flatMap((name, at) => [at ? " " : "", ELEMENT("kbd", {}, name)]), ` ${does}`));
  root.append(ELEMENT("p", { class: "head" }, title, " ", about), list, paging, keys, rest, message);
  el.append(root);
  new ResizeObserver(restoreFocus).observe(root);
  const resized = new ResizeObserver(() => fit());
  resized.observe(list);
  const close = follow(model, root, draw, kernel);
  return () => {
    for (const row of rows()) waits(row.pending_id, root, false);
    resized.disconnect();
    watcher.close();
    close();
  };
}

export default { render };
