// A request as a row of three lines: the action with its risk, the values, the buttons. The full request unfolds below, in a
// scrolling part. A decided request is one line. `requestRow` draws it into `place`, an element of any widget, within a root
// of class `tract` that passes its keys to `pressInRows`. `view` returns the current state, and `kernel` is from `connect`.

function requestRow({ place, id, kernel, view: current, isReloaded = () => false }) {
  const q = ELEMENT("section", { class: "q", tabindex: "-1", "data-testid": "tract-panel" });
  const message = ELEMENT("div", { class: "err", role: "alert" });
  const spoken = ELEMENT("span", { class: "said", role: "status" });
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
  const effects = ELEMENT("div", { class: "rehearsed" });
  place.append(q);
  let sent = null; // the answered round
  let isLost = false;
  let part = ""; // the open form: the name of an action, or "standing"
  let drawn = null; // the parts of the current drawing
  let lastRound = ""; // the round of the last drawing

  // Reading: the keys that were seen, and the missing ones.
  const unseen = () => unseenIn(q, current().needed);
  const isKept = (action) => action === "keep" && current().has_effects;
  const isEdited = () => current().has_effects && drawn?.edits.changed().length > 0; // such code is rehearsed first
  const unseenEffects = () => unseenIn(q, current().needed_effects, true);
  const unreadKept = () => unseenEffects() + (current().keeps_code ? unseen() : 0); // a kept function is code
  const unread = (action) => (isEdited() ? 0 : isKept(action) ? unreadKept() : unseen());
  const steady = steadiness(q);
  const isNew = () => current().is_destructive && steady.isNew();
  const undecided = () => drawn?.edits.undecided?.() ?? [];
  const isCut = () => current().is_brief || line.scrollWidth > line.clientWidth;
  const fit = () => { // a cut line is not on display, so none of it counts
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
    const cutKeys = new Set([...line.querySelectorAll("[data-cut]")].flatMap((part) => part.dataset.cut.split(" ")));
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
    const main = drawn.primary?.name, more = unread(main);
    const effectsLeft = isKept(main) ? unseenEffects() : 0;
    const toRead = isEdited() || !more ? "" : effectsLeft ? `Read ${many(effectsLeft, "effect")} first` : missing(lines);
    const say = toRead || (open ? `Decide ${many(open, "conflict")} first` : isNew() ? "New request: look first" : "");
    const changes = drawn.edits.changed().length;
    why.textContent = sent === view.round_id || isLost ? "" : say || (changes ? isEdited() ? "Code changed: rehearsed again before anything changes" : `${view.is_code ? "Code" : many(changes, view.choices.length ? "decision" : "value")} changed: checked again, and recorded` : view.why);
    why.title = say ? "" : view.why_all;
    why.toggleAttribute("data-missing", Boolean(say || changes));
    const inBody = all - new Set(linesIn(line).flatMap(keysOf)).size; // without those of the line above
    left.textContent = lines ? `${many(lines, "more line")}` : all ? `${inBody > 1 ? `All ${many(inBody, "line")} were` : "All of it was"} shown` : "";
    bar.style.width = `${all ? (100 * (all - lines)) / all : 100}%`;
    reading.hidden = !all;
    next.hidden = !lines;
    fold.lastChild.textContent = !full.hidden ? "Fold" : view.has_effects ? "Code" : toRead.startsWith("Read") ? toRead.replace(" on:", "").replace(" first", "") : toRead ? "Read it" : "Details";
    for (const button of q.querySelectorAll("[data-approves]")) {
      holdBack([button], unread(button.dataset.action ?? button.form?.dataset.action) > 0 || open > 0 || isNew(), why.id);
    }
    if (view.has_effects) [...q.querySelectorAll(".do > [data-approves]")].forEach((button, at) => {
      button.dataset.label ??= button.textContent;
      button.textContent = isEdited() ? "Rehearse the change" : button.dataset.label;
      button.hidden = isEdited() && at > 0;
    });
    holdBack(q.querySelectorAll("[data-after-reading]"), lines > 0 && !view.has_effects, why.id);
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
  const show = (on) => {
    unfold(on);
    if (on) full.scrollIntoView({ block: "nearest" });
  };
  const readNext = (action = drawn?.primary?.name) => {
    if (!unread(action) && !undecided().length) return false;
    if (isKept(action) && unseenEffects()) readOn(effects);
    else if (full.hidden) show(true);
    else if (unseen()) readOn(full.querySelector("[data-line]") ? full : q);
    else undecided()[0].focus();
    return true;
  };
  fold.append(icon("chev"), ELEMENT("span", {}));
  fold.addEventListener("click", () => show(full.hidden));
  next.addEventListener("click", () => readOn(full));

  // Answers.
  const busy = (on) => {
    q.setAttribute("aria-busy", String(on));
    for (const control of q.querySelectorAll("button:not(.unfold, .next), input, select, textarea")) control.disabled = on;
    if (on) badge.replaceChildren(icon("run"), "sending");
    if (on) spoken.textContent = "sending";
  };
  const tell = (text) => { message.textContent = text; message.classList.remove("news"); settle(); };
  const submit = (action, collect, byKey) => {
    const { round_id: round, actions, pending_id } = current();
    const isRejection = actions.some((other) => other.name === action && other.style === "reject");
    if (!isRejection && (readNext(action) || isNew())) return;
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
    kernel.decide(content, round, isAsked, tell); // first, because measuring and drawing take time
    if (isLost) return;
    busy(true);
    const after = byKey && nextQuestion(q);
    keepPlace(q, byKey && !after);
    measure();
    if (after) { after.focus({ preventScroll: true }); after.scrollIntoView({ block: "nearest" }); }
  };

  // Buttons with their forms. At most one form is open, below the buttons.
  const button = (label, attributes, press) => {
    const element = ELEMENT("button", { type: "button", ...attributes }, label);
    element.addEventListener("click", (event) => press(event.detail === 0));
    return element;
  };
  const opener = (name, label, attributes = {}) =>
    button(`${label}…`, { ...attributes, "data-opens": name, "aria-expanded": "false" }, () => open(part === name ? "" : name));
  const open = (name) => {
    if (!drawn) return;
    part = drawn.forms.has(name) ? name : "";
    for (const [formName, form] of drawn.forms) form.hidden = formName !== part;
    settle();
    for (const opener of q.querySelectorAll("[data-opens]")) opener.setAttribute("aria-expanded", String(opener.dataset.opens === part));
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
    const lineInputs = inLineInputs(primary) ? inputsOf(primary.parameters, `${id}-${primary.name}`) : null;
    // Each approving action sends the terms of the approval. Next to arguments, they have one key.
    const collectOf = (action, inputs, stands) => () => {
      const terms = action.name === "approve" || !view.choices.length ? [...edits.collect(), ...(stands?.collect() ?? [])] : [];
      return [...inputs.collect(), ...(action.name === "approve" ? terms : terms.length ? [["approval:", object(terms)]] : [])];
    };
    const fits = (controls) => controls.every((control) => control.reportValidity());
    const buttons = [];
    const act = (action, css) => {
      if (!action.parameters.length || (action === primary && lineInputs)) {
        const inputs = lineInputs && action === primary ? lineInputs : inputsOf([], id);
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
    const isLast = (action) => action.name === "approve" && !view.has_effects; // it would run nothing
    for (const action of others.filter((other) => !isLast(other))) act(action, "");
    if (rejecting) {
      const inputs = inputsOf(rejecting.parameters, `${id}-${rejecting.name}`);
      const send = ELEMENT("button", { type: "submit" }, rejecting.label);
      forms.set(rejecting.name, formOf(rejecting.name, rejecting.label, "ask one", [...inputs.rows, send], inputs.collect, false));
      buttons.push(opener(rejecting.name, rejecting.label, { class: "reject" }));
    }
    if (view.has_effects && main?.edits.length) {
      const change = () => { show(true); scroll.querySelector(":scope > [data-after-reading]")?.click(); };
      buttons.push(button("Change code", { class: "plain" }, change));
    }
    let stands = null;
    if (main?.standing) {
      stands = standing(main.standing, id);
      const inputs = lineInputs ?? inputsOf(main.parameters, `${id}-standing-${main.name}`);
      const send = ELEMENT("button", { type: "submit", class: `primary${view.is_risky ? " caution" : ""}` }, main.standing.submit ?? `${main.label}, and don’t ask again`);
      const argumentRows = lineInputs ? [] : inputs.rows.map((row) => ELEMENT("div", { class: "wide" }, row));
      const rows = [...argumentRows, ...stands.rows, ELEMENT("div", { class: "wide" }, send, button("Cancel", {}, () => open("")))];
      forms.set("standing", formOf("standing", "Always", "form", rows, collectOf(main, inputs, stands), true, main.name));
      buttons.push(opener("standing", main.standing.label ?? "Always", main.standing.label ? { class: "plain" } : {}));
    }
    for (const action of others.filter(isLast)) act(action, "");
    return { forms, buttons, edits, lineInputs, stands, primary, rejecting };
  };

  // A new drawing keeps what the user typed. Other controls show the current state.
  const controls = () => [...q.querySelectorAll("[name]")];
  const untouched = new Map();
  const typed = () => new Map(controls().filter((c) => valueIn(c) !== untouched.get(c.id)).map((c) => [c.id, [c.value, c.checked]]));
  const folds = () => new Set([...scroll.querySelectorAll("details[open]")].map((fold) => fold.dataset.part));
  const restore = (values, opened) => {
    untouched.clear();
    for (const control of controls()) untouched.set(control.id, valueIn(control));
    for (const control of controls()) if (values.has(control.id)) [control.value, control.checked] = values.get(control.id);
    for (const details of scroll.querySelectorAll("details")) details.open = opened.has(details.dataset.part);
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
    what.append(badge, spoken);
    line.replaceChildren(...valuesOf(view.has_effects ? { ...view, about: "" } : view));
    effects.innerHTML = view.effects_html ?? "";
    scroll.innerHTML = view.body_html;
    drawn = build(view);
    const atDefault = view.defaults.length; // next to the line, because it must not cut a value
    const rest = `${view.values.length || view.about ? `${atDefault} more` : many(atDefault, "value")} at ${atDefault > 1 ? "their" : "its"} default`;
    const hint = atDefault ? [ELEMENT("small", { class: "rest cut", title: view.defaults.join(", ") }, rest)] : [];
    const withLine = ELEMENT("div", { class: "with" }, line, ...hint, ...(drawn.lineInputs?.rows ?? []));
    if (drawn.edits.rows.length)
      scroll.append(ELEMENT("div", { class: "edits", role: "group", "aria-label": "Change values" },
        ELEMENT("h4", { class: "sub" }, "Change values ", ELEMENT("small", {}, "checked again and recorded")), ...drawn.edits.rows));
    for (const button of what.querySelectorAll(".jump"))
      button.addEventListener("click", () => { unfold(true); jump(button.textContent, view.worst); });
    const doing = ELEMENT("div", { class: drawn.buttons.length > (view.has_effects ? 4 : 5) ? "do many" : "do" }, ...drawn.buttons, why, fold);
    message.textContent = view.late || view.note;
    message.classList.toggle("news", view.is_news && !view.late);
    spoken.textContent = view.status === "failed" ? "failed" : "waiting";
    withLine.hidden = view.has_effects && !view.values.length;
    q.replaceChildren(what, withLine, effects, doing, message, ...drawn.forms.values(), full);
    if (!q.isConnected) place.replaceChildren(q);
    restore(values, opened);
    if (view.late) sent = null; // the answer was refused, so another one may follow
    busy(false);
    open(wasOpen);
    tellAge();
    watcher.watch(q);
    if (lastRound !== view.round_id && !keep) steady.begin();
    if (!lastRound && view.is_short) requestAnimationFrame(() => { if (isAlone(q)) unfold(true); });
    lastRound = view.round_id;
    fit();
    if (undecided().length) unfold(true); // the user has to choose there first
    if (!view.choices.length) showAsked(scroll, q);
    if (hadFocus) q.focus({ preventScroll: true });
  };
  const jump = (line, level) => {
    const numbers = [...scroll.querySelectorAll(`.mark.${level} > .n`)];
    const target = numbers.find((number) => number.textContent === line)?.parentElement ?? scroll.querySelector("mark, u");
    if (target) bring(target, q);
  };

  const drawDecided = (view) => {
    const hadFocus = q.contains(document.activeElement);
    message.textContent = view.late || (isReloaded() ? RELOADED : "");
    message.classList.remove("news");
    place.innerHTML = view.record_html;
    const row = place.firstElementChild;
    Object.assign(row.dataset, { testid: "tract-panel", pendingId: view.pending_id }); // a live record, not a saved one
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
  // Removes the controls. The request stays readable, and `next` names the next step.
  const lost = (next) => {
    const view = current(), wasSent = sent === view.round_id;
    isLost = true;
    if (!view.is_open) return;
    drawn = null;
    part = "";
    q.dataset.status = "stale";
    q.querySelector(".what > .i").className = "i i-stop";
    badge.className = "badge";
    badge.textContent = spoken.textContent = "disconnected";
    line.classList.remove("edited");
    if (!view.has_effects) line.replaceChildren(...valuesOf(view));
    for (const element of q.querySelectorAll("form, .edits, .with > .in, .do > button:not(.unfold)")) element.remove();
    busy(false);
    for (const control of scroll.querySelectorAll("button, input, select, textarea")) control.disabled = true;
    why.textContent = "";
    reading.hidden = true;
    measure();
    waits(view.pending_id, place, false); // it cannot be decided here
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
  // Decisions for all rows. They act like the button of the row, with the changed and typed values.
  const primary = () => q.querySelector(".do > .primary[data-approves]");
  const approve = () => primary()?.click();
  const reject = (reason) => {
    const form = drawn?.forms.get(drawn.rejecting?.name);
    const field = form?.querySelector("[name]");
    if (field && !field.value) field.value = reason;
    form?.requestSubmit();
  };
  ROWS.set(q, {
    unfold: show, readOn: readNext,
    decide: () => {
      if (isLost) return;
      const open = drawn?.forms.get(part);
      if (open) open.requestSubmit(); else if (drawn?.primary) q.querySelector(".do > .primary")?.click();
      else tell("More than one action can run. Choose one by its button. Nothing was decided.");
    },
    reject: () => { if (drawn?.rejecting) open(drawn.rejecting.name); },
    escape: () => { open(""); q.focus({ preventScroll: true }); },
  });
  const can = (kind) => isOpen() && Boolean(kind === "approve" ? primary() : drawn?.rejecting);
  const label = () => primary()?.textContent ?? "";
  return { label, element: q, draw, close, lost, unseen: () => unread(drawn?.primary?.name), isNew, readOn: readNext, isOpen, can, approve, reject };
}
