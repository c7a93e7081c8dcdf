// A turn of chat: blocks in order, and a foot. The kernel sends patches. Unchanged nodes stay, which keeps the user's
// selection, focus and unfolded rows. Python makes and escapes all HTML.
// The model outlives its view: after the turn, a static page replaces the view, and the model adds the buttons to its foot.

// The page's copy of a turn. `watch` adds a callback for the ids of changed blocks. They are empty if only the foot changed.
function turnOf(model) {
  const watchers = new Set();
  const turn = { blocks: new Map(), n: -1, foot: "", actions: [], turn: "", over: false, told: "", go_on: "" };
  const notify = (changed) => { for (const watcher of watchers) watcher(changed); };
  const update = ({ foot = turn.foot, actions = turn.actions, turn: name = turn.turn, over = turn.over, told = turn.told, go_on = turn.go_on }) =>
    Object.assign(turn, { foot, actions, turn: name, over, told, go_on });
  const takeAll = () => {
    const state = model.get("whole");
    if (!(state?.n > turn.n)) return;
    turn.n = state.n;
    turn.blocks = new Map(state.blocks.map((block) => [block.id, block]));
    update(state);
    notify(new Set(turn.blocks.keys()));
  };
  const take = (patch) => {
    if (patch?.type !== "patch" || patch.n <= turn.n) return;
    if (patch.n > turn.n + 1) { model.send({ type: "all" }); return; }
    turn.n = patch.n;
    for (const { keep, ...block } of patch.blocks) {
      if (keep) block.html = turn.blocks.get(block.id).html.slice(0, keep) + block.html;
      turn.blocks.set(block.id, block);
    }
    if (patch.order) turn.blocks = new Map(patch.order.map((id) => [id, turn.blocks.get(id)]));
    update(patch);
    notify(new Set(patch.blocks.map((block) => block.id)));
  };
  turn.watch = (watcher) => { watchers.add(watcher); return () => watchers.delete(watcher); };
  model.on("msg:custom", take);
  model.on("change:whole", takeAll);
  takeAll();
  return turn;
}

// Changes the children of `parent` to the children of `target`, except for the last `spared` ones. Equal nodes stay, and
// unfolded details stay unfolded.
function morph(parent, target, spared = 0) {
  const wanted = [...target.childNodes];
  const limit = () => parent.childNodes.length - spared;
  for (const [at, child] of wanted.entries()) {
    const now = at < limit() ? parent.childNodes[at] : null;
    if (!now) parent.insertBefore(child, parent.childNodes[limit()] ?? null);
    else if (now.isEqualNode(child)) continue;
    else if (now.nodeType === Node.TEXT_NODE && child.nodeType === Node.TEXT_NODE) {
      if (child.data.startsWith(now.data)) now.appendData(child.data.slice(now.data.length)); // keeps the selection
      else now.data = child.data;
    } else if (now.nodeName === child.nodeName && now.nodeType === Node.ELEMENT_NODE) {
      for (const { name } of [...now.attributes]) if (!child.hasAttribute(name) && name !== "open") now.removeAttribute(name);
      for (const { name, value } of child.attributes) if (now.getAttribute(name) !== value) now.setAttribute(name, value);
      morph(now, child);
    } else now.replaceWith(child);
  }
  while (limit() > wanted.length) parent.childNodes[wanted.length].remove();
}
const parsed = (html) => {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content;
};

const LEFT = '<span><i class="i i-stop"></i><b>Did not finish</b></span>';
const HELD = 5_000; // ms after a press, in which a new page of the turn gets the focus of the pressed button
// The foot of a live view or a static page: the state of the turn, and its buttons, such as Stop, Undo and Fork.
function footOf(foot, turn, kernel) {
  const end = ELEMENT("span", { class: "end" });
  const message = ELEMENT("div", { class: "err", role: "alert" });
  const root = foot.parentElement; // a block may have places for some of the buttons
  const placeOf = (action) => root.querySelector(`[data-slot~="${action}"]`) ?? end;
  const placed = () => root.querySelectorAll("[data-slot] > [data-act], .foot > .end > [data-act]");
  let drawn = "", sent = "";
  foot.querySelector(":scope > .end")?.remove();
  foot.append(end);
  foot.after(message);
  const draw = () => {
    morph(foot, parsed(turn.foot), 1);
    message.textContent = turn.told;
    const now = JSON.stringify([turn.actions, turn.told]);
    if (now === drawn && !root.querySelector("[data-slot]:empty")) return;
    drawn = now;
    sent = "";
    const before = [...placed()];
    const active = document.activeElement;
    const isHeld = active === document.body && performance.now() - turn.pressedAt < HELD;
    const focused = before.includes(active) ? active.dataset.act : isHeld ? turn.pressed : "";
    for (const button of before) button.remove();
    for (const [action, label] of turn.actions) {
      const place = placeOf(action);
      const look = place.className !== "do" ? "plain" : place.firstChild ? "" : "primary";
      const button = ELEMENT("button", { type: "button", class: look, "data-act": action }, label);
      button.addEventListener("click", () => act(action, button));
      place.append(button);
    }
    if (focused) (root.querySelector(`[data-act="${focused}"]`) ?? placed()[0])?.focus({ preventScroll: true });
  };
  const act = (action, button) => {
    if (sent) return;
    const key = sent = newId();
    if (document.activeElement === button) Object.assign(turn, { pressed: action, pressedAt: performance.now() });
    for (const other of placed()) other.setAttribute("aria-disabled", "true");
    button.prepend(icon("run"));
    kernel.decide({ type: "act", action, key }, key, () => sent === key, (text) => { message.textContent = text; });
  };
  const lost = () => {
    for (const button of placed()) button.remove();
    if (turn.over) return;
    morph(foot, parsed(LEFT), 1);
    message.textContent = `The kernel was restarted or has ended. In a new kernel, ${turn.go_on} continues it and asks again.`;
  };
  return { draw, lost };
}

// `reads` is true if the user scrolled, typed, unfolded or selected something after the last press of a button or of the
// keys that run a cell or decide. Then nothing moves. All turns of the page share it.
const READER = (globalThis.tractReading ??= readerOfPage());
function readerOfPage() {
  const reader = { reads: false };
  let last = { time: -Infinity }, isAgain = false;
  const on = (type, take) => document.addEventListener(type, take, { capture: true, passive: true });
  const read = () => { reader.reads = true; };
  const endDouble = () => { last = { time: -Infinity }; }; // the next press begins a new click
  on("input", endDouble);
  on("wheel", read);
  on("touchmove", read);
  on("pointerdown", ({ target, clientX, clientY, timeStamp }) => { // a busy page reads the event late
    const now = { time: timeStamp, button: target.closest(ACTS), x: clientX, y: clientY };
    isAgain = now.time - last.time < DOUBLE && now.x === last.x && now.y === last.y && now.button !== last.button;
    last = now;
    const isOnScrollbar = () => target.clientWidth > 0 && clientX >= target.getBoundingClientRect().left + target.clientLeft + target.clientWidth;
    reader.reads = !now.button && (Boolean(target.closest(`.cm-editor, .tract, ${TYPED}`)) || isOnScrollbar());
  });
  on("keydown", ({ key, target, shiftKey, ctrlKey, metaKey, altKey }) => {
    endDouble();
    if (["Shift", "Control", "Meta", "Alt"].includes(key)) return;
    const isPress = (key === "Enter" && (shiftKey || ctrlKey || metaKey || altKey || target.matches("input"))) || ((key === "Enter" || key === " ") && target.closest(ACTS));
    if (isPress) reader.reads = false; else if (!ctrlKey && !metaKey) read();
  });
  document.addEventListener("click", (event) => { // the second click of a double click, on another button
    if (!isAgain || !event.detail || !event.target.closest(ACTS)) return;
    event.preventDefault();
    event.stopImmediatePropagation();
  }, { capture: true });
  return reader;
}
const DOUBLE = 500; // milliseconds
const TYPED = "input, textarea, select";
const ACTS = ".tract :is([data-approves], [data-slot] > button, [type=submit], .bulk > button, .foot button, .foot .pill)";

const scrollerOf = (root) => {
  for (let box = root.parentElement; box; box = box.parentElement)
    if (box.scrollHeight > box.clientHeight + 1 && /auto|scroll/.test(getComputedStyle(box).overflowY)) return box;
  return null;
};

// Scrolls new content of a turn into view, as little as possible. The page shows everything from `top` (pixels below the
// top of the root: the latest decision) to the foot. If that is too tall, it shows the buttons of a request, the start of
// an answer, or the end of an output, and as much as possible above.
const EDGE = 8, PART_OF_ANSWER = 0.4;
function reveal(root, top) {
  const box = scrollerOf(root), selection = document.getSelection();
  if (!box?.clientHeight || READER.reads || (!selection.isCollapsed && root.contains(selection.anchorNode))) return;
  const height = box.clientHeight, edge = box.getBoundingClientRect().top + box.clientTop;
  const [body, foot] = [root.querySelector(":scope > .blocks") ?? root, root.querySelector(":scope > .foot")];
  const question = body.querySelector(".q:not([aria-busy=true])");
  const last = root === body ? foot.previousElementSibling : body.lastElementChild;
  const end = foot.getBoundingClientRect().bottom;
  let needed = end;
  if (question) needed = question.querySelector(":scope > .do").getBoundingClientRect().bottom;
  else if (last?.className === "prose") needed = Math.min(end, last.getBoundingClientRect().top + PART_OF_ANSWER * height);
  const first = root.getBoundingClientRect().top + top - edge - EDGE;
  const least = Math.max(needed + EDGE - edge - height, Math.min(end + EDGE - edge - height, first));
  const by = Math.min(Math.max(0, least), Math.max(least, first));
  if (Math.abs(by) < 1 || (Number.isFinite(POINTER.x) && document.elementFromPoint(POINTER.x, POINTER.y)?.closest(ACTS))) return;
  box.scrollTop += by; // no button is under the pointer
}

// The group of each kind of block: rows and requests in lists, prose in prose. Other blocks have no group.
const GROUPS = { row: "list", question: "list", prose: "prose" };
const STREAM = ":scope > :is(.stdout, .stderr)"; // follows its end unless the user scrolled it
const [RUNNING, DONE] = ["run", "done"].map((state) => `:scope > .row > summary > .i-${state}`);

function isScrolledToEnd(place) {
  const stream = place.querySelector(STREAM);
  return !stream || stream.scrollTop + stream.clientHeight >= stream.scrollHeight - EDGE;
}

function hasFinishedRow(place) {
  let row = place;
  do row = row.previousElementSibling; while (row && !row.querySelector(":scope > .row"));
  return Boolean(row?.querySelector(DONE));
}

// A script that failed or was stopped keeps the end of its output in view. Others show the beginning.
function showBeginning(row) {
  for (let place = row.nextElementSibling; place?.querySelector(":scope > .result"); place = place.nextElementSibling)
    if (isScrolledToEnd(place)) place.querySelector(STREAM)?.scrollTo(0, 0);
}

function drawTurn(el, turn, kernel, isReloaded, fill) {
  const id = newId();
  const root = rootOf("Turn", "tract-turn");
  const body = ELEMENT("div", { class: "blocks", role: "log", "aria-relevant": "additions" });
  const state = ELEMENT("span", { class: "said", role: "status" });
  const line = ELEMENT("div", { class: "foot" });
  root.classList.add("turn");
  root.append(body, line, state);
  const foot = footOf(line, turn, kernel);
  const places = new Map(); // id -> {element, html} or {element, row, view}
  let from = root; // the element of the latest decision
  let shows = false;
  const show = () => { if (shows) reveal(root, from.isConnected ? from.getBoundingClientRect().top - root.getBoundingClientRect().top : 0); };
  const sized = new ResizeObserver(show);
  sized.observe(body);

  const drawBlock = (block) => {
    const place = places.get(block.id) ?? { element: ELEMENT("div", { class: "place", "data-block": block.id }), html: null };
    places.set(block.id, place);
    if (!block.view) {
      const hadFocus = place.element.contains(document.activeElement);
      if (place.row) {
        place.row.close();
        place.view = { ...place.view, is_open: false, round_id: "" }; // for its timers
        place.row = null;
        place.element.replaceChildren();
      }
      const isAtEnd = isScrolledToEnd(place.element), isRunning = place.element.querySelector(RUNNING);
      if (place.html !== block.html) morph(place.element, parsed(block.html));
      place.html = block.html;
      fill(place.element);
      if (isAtEnd && !hasFinishedRow(place.element)) place.element.querySelector(STREAM)?.scrollTo(0, 1e9);
      if (isRunning && place.element.querySelector(DONE)) showBeginning(place.element);
      tellTimes(place.element);
      if (hadFocus && !place.element.contains(document.activeElement)) place.element.querySelector("summary")?.focus({ preventScroll: true });
      return;
    }
    if (place.row && JSON.stringify(block.view) === JSON.stringify(place.view)) return;
    place.view = block.view;
    if (!place.row) {
      place.element.replaceChildren();
      place.html = null;
      place.row = requestRow({ place: place.element, id: `${id}-${block.id}`, kernel, view: () => place.view, isReloaded });
    }
    place.row.draw();
  };

  // Puts each place into its group, in order. Moves only misplaced elements.
  let laid = "";
  const layOut = () => {
    const now = JSON.stringify([...turn.blocks.values()].map(({ id: name, kind }) => [name, kind]));
    if (now === laid) return;
    laid = now;
    for (const [name, place] of places)
      if (!turn.blocks.has(name)) { place.row?.close(); place.element.remove(); places.delete(name); }
    let part = null, inPart = 0, parts = 0;
    for (const { id: name, kind } of turn.blocks.values()) {
      const css = GROUPS[kind] ?? "";
      const { element } = places.get(name);
      if (!part || !css || part.className !== css) {
        const next = body.children[parts++];
        part = next?.className === (css || "alone") ? next : ELEMENT("div", { class: css || "alone" });
        if (part !== next) body.insertBefore(part, next ?? null);
        inPart = 0;
      }
      if (part.children[inPart] !== element) part.insertBefore(element, part.children[inPart] ?? null);
      inPart += 1;
    }
    for (const group of [...body.children]) if (!group.firstChild) group.remove();
  };

  let announced = "";
  const announceState = () => {
    const now = line.querySelector(".pill, b")?.textContent ?? "";
    if (now !== announced) state.textContent = announced = now;
  };
  const draw = (changed) => {
    const requests = [...places.values()].filter((place) => place.row);
    for (const name of changed) drawBlock(turn.blocks.get(name));
    from = requests.find((place) => !place.row)?.element ?? from;
    layOut();
    foot.draw();
    crowd(root);
    const last = [...turn.blocks.values()].at(-1);
    root.classList.toggle("writing", !turn.over && last?.kind === "prose");
    announceState();
  };
  line.addEventListener("click", (event) => {
    if (!event.target.closest(".pill")) return;
    const question = body.querySelector(".q");
    question?.scrollIntoView({ block: "nearest" });
    question?.focus({ preventScroll: true });
  });
  el.append(root);
  draw(new Set(turn.blocks.keys()));
  shows = !turn.over && !isReloaded();
  const unwatch = turn.watch((changed) => {
    draw(changed);
    if (!turn.over) return;
    show(); // the static page may replace the view before the next frame
    shows = false;
    turn.reader = { ...readerOf(root), top: from.getBoundingClientRect().top - root.getBoundingClientRect().top };
  });
  const timer = setInterval(() => tellTimes(root), 60_000);
  const lost = () => {
    for (const place of places.values()) place.row?.lost(`In a new kernel ${turn.go_on} asks again.`);
    foot.lost();
    announceState();
  };
  const close = () => {
    unwatch();
    sized.disconnect();
    clearInterval(timer);
    for (const place of places.values()) place.row?.close();
  };
  return { lost, close };
}

// The state of reading: unfolded rows, focus, selection, and scroll positions of outputs. The static page restores it.
const textIn = (root) => {
  const texts = [];
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) if (walker.currentNode.parentElement.closest(".list, .prose")) texts.push(walker.currentNode);
  return texts;
};
const resultsIn = (root) => [...root.querySelectorAll(".result")];
function readerOf(root) {
  const folds = [...root.querySelectorAll("details")];
  const open = folds.map((fold) => fold.open);
  const focus = folds.findIndex((fold) => fold.firstElementChild === document.activeElement);
  const scrolled = resultsIn(root).map((result) => result.scrollTop);
  const chosen = document.getSelection();
  const range = chosen.rangeCount && !chosen.isCollapsed ? chosen.getRangeAt(0) : null;
  if (!range || !root.contains(range.commonAncestorContainer)) return { open, focus, scrolled };
  let text = "";
  const ends = {};
  for (const node of textIn(root)) {
    if (node === range.startContainer) ends.from = text.length + range.startOffset;
    if (node === range.endContainer) ends.to = text.length + range.endOffset;
    text += node.data;
  }
  return ends.from === undefined || ends.to === undefined ? { open, focus, scrolled } : { open, focus, scrolled, ...ends, text: text.slice(0, ends.to) };
}
function restoreReader(root, { open, focus, scrolled, from, to, text, top }) {
  const folds = [...root.querySelectorAll("details")];
  if (folds.length === open.length) {
    folds.forEach((fold, at) => { fold.open = open[at]; });
    folds[focus]?.firstElementChild.focus({ preventScroll: true });
  }
  resultsIn(root).forEach((result, at) => { result.scrollTop = scrolled[at] ?? 0; });
  if (top !== undefined) { // figures appear soon
    const sized = new ResizeObserver(() => reveal(root, top));
    sized.observe(root);
    setTimeout(() => sized.disconnect(), AGAIN);
  }
  const chosen = document.getSelection();
  if (from === undefined || (chosen.rangeCount && !chosen.isCollapsed)) return;
  const range = document.createRange();
  let length = 0, before = "";
  for (const node of textIn(root)) {
    const end = length + node.data.length;
    if (from >= length && from < end) range.setStart(node, from - length);
    before += node.data;
    if (to <= end) {
      if (before.slice(0, to) !== text) return;
      range.setEnd(node, to - length);
      chosen.removeAllRanges();
      chosen.addRange(range);
      return;
    }
    length = end;
  }
}

// Draws the widgets that code displayed, in a live turn and in its static page. Without a kernel, a widget stays text.
function widgetsOf(model) {
  const views = new Map(); // by the place
  return (root) => {
    for (const [place, view] of views) if (!place.isConnected || !place.contains(view.el)) leave(place, view);
    for (const place of root.querySelectorAll("[data-widget]")) if (!views.has(place)) draw(place).catch(() => {});
  };
  async function draw(place) {
    const manager = model.widget_manager;
    const view = await manager.create_view(await manager.get_model(place.dataset.widget));
    if (views.has(place)) return view.remove();
    views.set(place, view);
    place.replaceChildren(view.el);
    view.luminoWidget?.processMessage({ type: "after-attach" });
  }
  function leave(place, view) {
    views.delete(place);
    view.luminoWidget?.processMessage({ type: "after-detach" }); // a detached node cannot be detached again
    view.remove();
  }
}

// The static pages of turns with live models. One observer serves all turns of the page.
const STATIC = (globalThis.tractTurns ??= { attach: new Set(), due: 0, observer: null });
function watchPages(attach) {
  const look = () => {
    STATIC.due ||= requestAnimationFrame(() => {
      STATIC.due = 0;
      const pages = [...document.querySelectorAll(".tract.turn[data-turn]")];
      for (const attachTo of STATIC.attach) attachTo(pages);
    });
  };
  STATIC.attach.add(attach);
  if (!STATIC.observer) {
    STATIC.observer = new MutationObserver(look);
    STATIC.observer.observe(document.body, { childList: true, subtree: true });
  }
  look();
  return () => {
    STATIC.attach.delete(attach);
    if (!STATIC.attach.size) { STATIC.observer.disconnect(); STATIC.observer = null; }
  };
}

export default () => {
  let turn, kernel, fill, isLost = false;
  const views = new Set();
  const feet = new Map(); // by static page
  const lose = () => { isLost = true; for (const shown of [...views, ...feet.values()]) shown.lost(); };
  const initialize = ({ model }) => {
    turn = turnOf(model);
    fill = widgetsOf(model);
    kernel = connect(model, lose);
    const attach = (pages) => {
      for (const page of feet.keys()) {
        if (page.isConnected) continue;
        turn.reader ??= readerOf(page);
        feet.delete(page);
      }
      for (const page of pages) {
        if (isLost || !turn.turn || page.dataset.turn !== turn.turn || feet.has(page)) continue;
        const line = page.querySelector(":scope > .foot");
        if (!line) continue;
        page.addEventListener("keydown", (event) => { pressInRows(event, page); event.stopPropagation(); });
        feet.set(page, footOf(line, turn, kernel));
        feet.get(page).draw();
        fill(page);
        if (turn.reader) restoreReader(page, turn.reader);
        turn.reader = null;
      }
    };
    const unwatch = turn.watch(() => { for (const foot of feet.values()) foot.draw(); });
    const leave = watchPages(attach);
    return () => { leave(); unwatch(); kernel.close(); };
  };
  const render = ({ model, el }) => {
    const view = drawTurn(el, turn, kernel, () => wasReloaded(model), fill);
    if (isLost) view.lost();
    views.add(view);
    const unhide = hidePrompts(model, el);
    return () => { unhide(); views.delete(view); view.close(); };
  };
  return { initialize, render };
};
