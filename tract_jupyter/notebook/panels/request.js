// One request as a row of three lines: what and how risky, with what, the buttons; all of it unfolds beneath, in a part that
// scrolls by itself. Decided it is one line. `requestRow` draws it into `place`, an element of whichever widget, within a root
// of class `tract` whose keys go to `pressInRows`; `view` gives how it stands now, `kernel` is what `connect` gave.

function requestRow({ place, id, kernel, view: current, isReloaded = () => false }) {
  const q = ELEMENT("section", { class: "q", tabindex: "-1", "data-testid": "tract-panel" });
  const message = ELEMENT("div", { class: "err", role: "alert" });
  const said = ELEMENT("span", { class: "said", role: "status" });
  const badge = ELEMENT("span", { class: "badge wait" });
  const why = ELEMENT("span", { id: `${id}-why`, class: "why dim cut", "aria-live": "polite" });
  const fold = ELEMENT("button", { type: "button", class: "plain unfold", "aria-expanded": "false", "aria-controls": `${id}-full` });
  const scroll = ELEMENT("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "All of it" });
  const bar = ELEMENT("i", {});
  const left = ELEMENT("span", { class: "left" });
  const next = ELEMENT("button", { type: "button", class: "plain next" }, "Next unread lines ", ELEMENT("kbd", {}, "PgDn"));
  const reading = ELEMENT("div", { class: "reading" }, ELEMENT("span", { class: "bar", "aria-hidden": "true" }, bar), left, next);
  const full = ELEMENT("div", { class: "full", id: `${id}-full`, hidden: true }, scroll, reading);
  const line = ELEMENT("span", { class: "cut values" });
  place.append(q);
  let sent = null; // the round that was answered
  let isLost = false;
  let part = ""; // which of the forms is open: an action's name, or "standing"
  let drawn = null; // what the buttons of the present drawing are made of
  let asked = ""; // the round that came up last

  // What was read, and what is missing.
  const unseen = () => unseenIn(q, current().needed);
  const steady = steadiness(q);
  const isNew = () => current().is_destructive && steady.isNew();
  const undecided = () => drawn?.edits.undecided?.() ?? [];
  const isCut = () => current().is_brief || line.scrollWidth > line.clientWidth;
  const fit = () => { // what is cut is not on display: none of that line counts
    if (line.classList.contains("edited")) return;
    const cut = isCut();
    if (!drawn?.edits.changed().length) drawn?.edits.settle(cut);
    markCut(line, cut);
    if (!cut) watcher.again(line);
    measure();
  };
  const missing = (lines) => {
    const inLine = [...new Set(linesIn(line).flatMap(keysOf))].filter((key) => !SEEN.has(key)).length;
    const more = lines - inLine; // the line itself is about to count
    if (more <= 0) return "";
    const cutKeys = new Set([...line.querySelectorAll("[data-cut]")].flatMap((one) => one.dataset.cut.split(" ")));
    if ([...cutKeys].filter((key) => !SEEN.has(key)).length >= lines) return "A value is cut: unfold it first";
    const hasBegun = linesIn(scroll).flatMap(keysOf).some((key) => SEEN.has(key) && !cutKeys.has(key));
    const passed = Math.min(passedIn(scroll), more);
    const tooFast = passed && !full.hidden ? `, ${passed === more ? "which" : passed} passed too fast` : "";
    return `${hasBegun && !full.hidden ? "Read on:" : "Read"} ${many(more, "line")} first${tooFast}`;
  };
  const measure = () => {
    const view = current();
    if (isLost) fold.lastChild.textContent = full.hidden ? "Details" : "Fold";
    if (!view.is_open || !drawn) return;
    const [lines, all, open] = [unseen(), view.needed, undecided().length];
    const toRead = missing(lines);
    const say = toRead || (open ? `Decide ${many(open, "conflict")} first` : isNew() ? "It has just come up: look first" : "");
    const changes = drawn.edits.changed().length;
    why.textContent = sent === view.round_id || isLost ? "" : say || (changes ? `${view.is_code ? "Code" : many(changes, view.choices.length ? "decision" : "value")} changed: checked again, and recorded` : view.why);
    why.title = say ? "" : view.why_all;
    why.toggleAttribute("data-missing", Boolean(say || changes));
    const inBody = all - new Set(linesIn(line).flatMap(keysOf)).size; // those of the line above are not counted again
    left.textContent = lines ? `${many(lines, "more line")}` : all ? `${inBody > 1 ? `All ${many(inBody, "line")} were` : "All of it was"} shown` : "";
    bar.style.width = `${all ? (100 * (all - lines)) / all : 100}%`;
    reading.hidden = !all;
    next.hidden = !lines;
    fold.lastChild.textContent = !full.hidden ? "Fold" : toRead.startsWith("Read") ? toRead.replace(" on:", "").replace(" first", "") : toRead ? "Read it" : "Details";
    holdBack(q.querySelectorAll("[data-approves]"), lines > 0 || open > 0 || isNew(), why.id);
    holdBack(q.querySelectorAll("[data-after-reading]"), lines > 0, why.id);
  };
  const watcher = watching(measure);
  const resized = new ResizeObserver(() => { if (current().is_open) fit(); });
  resized.observe(line);

  const settle = () => q.toggleAttribute("data-open", Boolean(!full.hidden || part || message.textContent));
  const unfold = (on) => {
    const isFirst = on && full.hidden;
    full.hidden = !on;
    settle();
    fold.setAttribute("aria-expanded", String(on));
    measure();
    if (isFirst && !current().choices.length) showAsked(scroll, q);
  };
  const goOn = () => {
    if (!unseen() && !undecided().length) return false;
    if (full.hidden) unfold(true);
    else if (unseen()) readOn(full.querySelector("[data-line]") ? full : q);
    else undecided()[0].focus();
    return true;
  };
  fold.append(icon("chev"), ELEMENT("span", {}));
  fold.addEventListener("click", () => unfold(full.hidden));
  next.addEventListener("click", () => readOn(full));

  // Answers.
  const busy = (on) => {
    q.setAttribute("aria-busy", String(on));
    for (const control of q.querySelectorAll("button:not(.unfold, .next), input, select, textarea")) control.disabled = on;
    if (on) badge.replaceChildren(icon("run"), "sending");
    if (on) said.textContent = "sending";
  };
  const tell = (text) => { message.textContent = text; settle(); };
  const submit = (action, collect, byKey) => {
    const { round_id: round, actions, pending_id } = current();
    const isRejection = actions.some((one) => one.name === action && one.style === "reject");
    if (!isRejection && (goOn() || isNew())) return;
    if (sent === round) return;
    let values = "";
    try { values = object(collect()); } catch (error) {
      tell(error.message);
      error.control?.focus();
      return;
    }
    sent = round;
    tell("");
    const content = { type: "decide", pending_id, round_id: round, action, arguments: values, seen: seenIn(q) };
    const isAsked = () => current().round_id === round && !current().late;
    kernel.decide(content, round, isAsked, tell); // before anything is measured or drawn: a line waits
    if (isLost) return;
    busy(true);
    const after = byKey && nextQuestion(q);
    keepPlace(q, byKey && !after);
    measure();
    if (after) { after.focus({ preventScroll: true }); after.scrollIntoView({ block: "nearest" }); }
  };

  // Buttons with the forms behind them; one form is open at a time, in its place beneath the buttons.
  const button = (label, attributes, press) => {
    const made = ELEMENT("button", { type: "button", ...attributes }, label);
    made.addEventListener("click", (event) => press(event.detail === 0));
    return made;
  };
  const opener = (name, label, attributes = {}) =>
    button(`${label}…`, { ...attributes, "data-opens": name, "aria-expanded": "false" }, () => open(part === name ? "" : name));
  const open = (name) => {
    if (!drawn) return;
    part = drawn.forms.has(name) ? name : "";
    for (const [one, form] of drawn.forms) form.hidden = one !== part;
    settle();
    for (const one of q.querySelectorAll("[data-opens]")) one.setAttribute("aria-expanded", String(one.dataset.opens === part));
    if (part) drawn.forms.get(part).querySelector("input, select, textarea, button")?.focus();
  };
  const formOf = (name, label, css, content, collect, isApproval, action = name) => {
    const form = ELEMENT("form", { class: css, "aria-label": label, "data-action": action, "data-part": name, hidden: true }, ...content);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      event.stopPropagation();
      submit(action, collect, true);
    });
    if (isApproval) form.querySelector("button[type=submit]").setAttribute("data-approves", "");
    return form;
  };
  const inLineInputs = (action) => action && action.parameters.length <= 3 && action.parameters.every(isShort);

  const build = (view) => {
    const { actions } = view;
    const forms = new Map();
    const primary = actions.find((action) => action.style === "approve");
    const rejecting = actions.find((action) => action.style === "reject");
    const main = actions.find((action) => "standing" in action);
    const edits = view.choices.length ? choosing(view.choices, id, scroll, measure) : editing(main?.edits ?? [], id, line, scroll, measure, view.defaults);
    const own = inLineInputs(primary) ? inputsOf(primary.parameters, `${id}-${primary.name}`) : null;
    // The terms of the approval go with every action that approves; next to arguments of its own they have one key.
    const collectOf = (action, inputs, stands) => () => {
      const terms = action.name === "approve" || !view.choices.length ? [...edits.collect(), ...(stands?.collect() ?? [])] : [];
      return [...inputs.collect(), ...(action.name === "approve" ? terms : terms.length ? [["approval:", object(terms)]] : [])];
    };
    const fits = (controls) => controls.every((control) => control.reportValidity());
    const buttons = [];
    const act = (action, css) => {
      if (!action.parameters.length || (action === primary && own)) {
        const inputs = own && action === primary ? own : inputsOf([], id);
        const press = (byKey) => { if (fits(inputs.controls)) submit(action.name, collectOf(action, inputs), byKey); };
        buttons.push(button(action.label, { class: css, "data-approves": true, "data-action": action.name, title: action.description || null }, press));
        return;
      }
      const inputs = inputsOf(action.parameters, `${id}-${action.name}`);
      const send = ELEMENT("button", { type: "submit", class: css }, action.label);
      forms.set(action.name, formOf(action.name, action.label, "ask", [...inputs.rows, send], collectOf(action, inputs), true));
      buttons.push(opener(action.name, action.label, { class: css, title: action.description || null }));
    };
    if (primary) act(primary, `primary${view.is_risky ? " caution" : ""}`);
    const others = actions.filter((action) => action !== primary && action !== rejecting);
    for (const action of others.filter((one) => one.name !== "approve")) act(action, "");
    if (rejecting) {
      const inputs = inputsOf(rejecting.parameters, `${id}-${rejecting.name}`);
      const send = ELEMENT("button", { type: "submit" }, rejecting.label);
      forms.set(rejecting.name, formOf(rejecting.name, rejecting.label, "ask one", [...inputs.rows, send], inputs.collect, false));
      buttons.push(opener(rejecting.name, rejecting.label, { class: "reject" }));
    }
    let stands = null;
    if (main?.standing) {
      stands = standing(main.standing, id);
      const inputs = own ?? inputsOf(main.parameters, `${id}-standing-${main.name}`);
      const send = ELEMENT("button", { type: "submit", class: `primary${view.is_risky ? " caution" : ""}` }, `${main.label}, and don’t ask again`);
      const given = own ? [] : inputs.rows.map((row) => ELEMENT("div", { class: "wide" }, row));
      const rows = [...given, ...stands.rows, ELEMENT("div", { class: "wide" }, send, button("Cancel", {}, () => open("")))];
      forms.set("standing", formOf("standing", "Always", "form", rows, collectOf(main, inputs, stands), true, main.name));
      buttons.push(opener("standing", "Always"));
    }
    for (const action of others.filter((one) => one.name === "approve")) act(action, "");
    return { forms, buttons, edits, own, stands, primary, rejecting };
  };

  // What a person typed is kept over a new drawing; what they left alone shows how things stand now.
  const controls = () => [...q.querySelectorAll("[name]")];
  const untouched = new Map();
  const typed = () => new Map(controls().filter((c) => held(c) !== untouched.get(c.id)).map((c) => [c.id, [c.value, c.checked]]));
  const folds = () => new Set([...scroll.querySelectorAll("details[open]")].map((one) => one.dataset.part));
  const restore = (values, opened) => {
    untouched.clear();
    for (const control of controls()) untouched.set(control.id, held(control));
    for (const control of controls()) if (values.has(control.id)) [control.value, control.checked] = values.get(control.id);
    for (const one of scroll.querySelectorAll("details")) one.open = opened.has(one.dataset.part);
    drawn.edits.restored();
    drawn.stands?.restored();
  };

  const tellAge = () => {
    if (!current().is_open || isLost || sent === current().round_id) return;
    badge.replaceChildren(ELEMENT("span", { class: "wide-only" }, `${current().status === "failed" ? "failed" : "waiting"} `), age(current().since));
  };
  const stopClock = clock(tellAge);

  const drawOpen = (view) => {
    const keep = view.keep_inputs || view.late;
    const [values, opened, wasOpen] = keep ? [typed(), folds(), part] : [new Map(), new Set(), ""];
    const hadFocus = q.contains(document.activeElement);
    const what = ELEMENT("div", { class: "what" });
    what.innerHTML = `<i class="i i-wait" aria-hidden="true"></i>${view.headline_html}${view.risk_html}`;
    what.append(badge, said);
    line.replaceChildren(...valuesOf(view));
    scroll.innerHTML = view.body_html;
    drawn = build(view);
    const atDefault = view.defaults.length; // beside the line, so that it never cuts a value
    const rest = `${view.values.length || view.about ? `${atDefault} more` : many(atDefault, "value")} at ${atDefault > 1 ? "their" : "its"} default`;
    const hint = atDefault ? [ELEMENT("small", { class: "rest cut", title: view.defaults.join(", ") }, rest)] : [];
    const withLine = ELEMENT("div", { class: "with" }, line, ...hint, ...(drawn.own?.rows ?? []));
    if (drawn.edits.rows.length)
      scroll.append(ELEMENT("div", { class: "edits", role: "group", "aria-label": "Change values" },
        ELEMENT("h4", { class: "sub" }, "Change values ", ELEMENT("small", {}, "checked again and recorded")), ...drawn.edits.rows));
    for (const button of what.querySelectorAll(".jump"))
      button.addEventListener("click", () => { unfold(true); jump(button.textContent, view.worst); });
    const doing = ELEMENT("div", { class: drawn.buttons.length > 5 ? "do many" : "do" }, ...drawn.buttons, why, fold);
    message.textContent = view.late || view.note;
    said.textContent = view.status === "failed" ? "failed" : "waiting";
    q.replaceChildren(what, withLine, doing, message, ...drawn.forms.values(), full);
    if (!q.isConnected) place.replaceChildren(q);
    restore(values, opened);
    if (view.late) sent = null; // that answer was not taken; another one may be
    busy(false);
    open(wasOpen);
    tellAge();
    watcher.watch(q);
    if (asked !== view.round_id && !keep) steady.begin();
    if (!asked && view.is_short) requestAnimationFrame(() => { if (isAlone(q)) unfold(true); });
    asked = view.round_id;
    fit();
    if (undecided().length) unfold(true); // nothing can be done before something is chosen there
    if (!view.choices.length) showAsked(scroll, q);
    if (hadFocus) q.focus({ preventScroll: true });
  };
  const jump = (line, level) => {
    const numbers = [...scroll.querySelectorAll(`.mark.${level} > .n`)];
    const found = numbers.find((one) => one.textContent === line)?.parentElement ?? scroll.querySelector("mark, u");
    if (found) bring(found, q);
  };

  const drawDecided = (view) => {
    const hadFocus = q.contains(document.activeElement);
    message.textContent = view.late || (isReloaded() ? RELOADED : "");
    place.innerHTML = view.record_html;
    const row = place.firstElementChild;
    Object.assign(row.dataset, { testid: "tract-panel", pendingId: view.pending_id }); // it is live, and no saved record
    if (message.textContent) place.append(message);
    drawn = null;
    if (hadFocus) row.firstElementChild.focus({ preventScroll: true });
  };

  const draw = () => {
    const view = current();
    q.dataset.status = view.status;
    q.dataset.pendingId = view.pending_id;
    q.setAttribute("aria-label", view.title);
    q.classList.toggle("on-code", view.is_code);
    waits(view.pending_id, place, view.is_open);
    kernel.shows(id, view.is_open);
    if (view.is_open) drawOpen(view); else drawDecided(view);
  };
  // What would be pressed is gone, what was asked can still be read. `next` says what to do about it.
  const lost = (next) => {
    const view = current(), wasSent = sent === view.round_id;
    isLost = true;
    if (!view.is_open) return;
    drawn = null;
    part = "";
    q.dataset.status = "stale";
    q.querySelector(".what > .i").className = "i i-stop";
    badge.className = "badge";
    badge.textContent = said.textContent = "disconnected";
    line.classList.remove("edited");
    line.replaceChildren(...valuesOf(view));
    for (const one of q.querySelectorAll("form, .edits, .with > .in, .do > button:not(.unfold)")) one.remove();
    busy(false);
    for (const control of scroll.querySelectorAll("button, input, select, textarea")) control.disabled = true;
    why.textContent = "";
    reading.hidden = true;
    measure();
    waits(view.pending_id, place, false); // nobody can decide it here
    tell(lostText(wasSent, next));
  };
  const close = () => {
    waits(current().pending_id, place, false);
    kernel.shows(id, false);
    stopClock();
    resized.disconnect();
    watcher.close();
    steady.close();
  };
  const isOpen = () => !isLost && current().is_open && sent !== current().round_id;
  // What "all at once" does to a row: the same as its own button, with what was changed or typed there.
  const primary = () => q.querySelector(".do > .primary[data-approves]");
  const approve = () => primary()?.click();
  const reject = (reason) => {
    const own = drawn?.forms.get(drawn.rejecting?.name);
    const field = own?.querySelector("[name]");
    if (field && !field.value) field.value = reason;
    own?.requestSubmit();
  };
  ROWS.set(q, {
    unfold, readOn: goOn,
    decide: () => {
      if (isLost) return;
      const open = drawn?.forms.get(part);
      if (open) open.requestSubmit(); else if (drawn?.primary) q.querySelector(".do > .primary")?.click();
      else tell("There is more than one action that could run: choose one by its button. Nothing was decided.");
    },
    reject: () => { if (drawn?.rejecting) open(drawn.rejecting.name); },
    escape: () => { open(""); q.focus({ preventScroll: true }); },
  });
  const can = (kind) => isOpen() && Boolean(kind === "approve" ? primary() : drawn?.rejecting);
  const label = () => primary()?.textContent ?? "";
  return { label, element: q, draw, close, lost, unseen, isNew, readOn: goOn, isOpen, can, approve, reject };
}
