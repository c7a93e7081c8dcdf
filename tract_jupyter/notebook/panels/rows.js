// Shared by rows of all widgets: the title of the page, the clock, keys, and the place of a decided row.

// The title of the page starts with the number of open requests. Each counts once, even if it is on display twice.
const WAITING = (globalThis.tractWaiting ??= { open: new Map(), pages: new WeakMap(), prefix: "" });
function tellTitle() {
  for (const [pending, places] of WAITING.open) {
    for (const place of places) if (isClosed(place)) places.delete(place);
    if (!places.size) WAITING.open.delete(pending);
  }
  const bare = document.title.startsWith(WAITING.prefix) ? document.title.slice(WAITING.prefix.length) : document.title;
  WAITING.prefix = WAITING.open.size ? `(${WAITING.open.size}) ` : "";
  if (document.title !== WAITING.prefix + bare) document.title = WAITING.prefix + bare;
}
// Widgets get no message if their notebook is closed. A row that is scrolled away may leave the page, so its tab is checked.
const isClosed = (place) => WAITING.pages.get(place)?.isConnected === false;
function waits(pending, place, isOpen) {
  const places = WAITING.open.get(pending) ?? new Set();
  if (isOpen) places.add(place); else places.delete(place);
  if (places.size) WAITING.open.set(pending, places); else WAITING.open.delete(pending);
  requestAnimationFrame(() => {
    const page = place.closest(".jp-Document");
    if (page) WAITING.pages.set(place, page);
  });
  tellTitle();
  // the front end may set its title, for example when a tab is selected or closed
  if (!WAITING.observer && document.head) {
    WAITING.observer = new MutationObserver(tellTitle);
    WAITING.observer.observe(document.head, { subtree: true, childList: true, characterData: true });
  }
}

// The waiting times of requests, updated each second.
const CLOCKS = new Set();
let ticking = 0;
function clock(tell) {
  CLOCKS.add(tell);
  ticking ||= setInterval(() => { for (const tick of CLOCKS) tick(); }, 1000);
  return () => {
    CLOCKS.delete(tell);
    if (!CLOCKS.size) { clearInterval(ticking); ticking = 0; }
  };
}
const age = (since) => {
  const seconds = Math.max(0, Math.floor((Date.now() - new Date(since)) / 1000));
  if (seconds < 3600) return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
  return seconds < 86400 ? `${Math.floor(seconds / 3600)} h` : many(Math.floor(seconds / 86400), "day");
};

// A key that is held down decides only once. The focus moves after each decision, and the next one needs a new press.
const isHeldDown = ({ key, repeat, target, ctrlKey, metaKey }) => {
  const isTyped = target.matches("input:not([type=checkbox], [type=radio]), select, textarea");
  return repeat && (key === "Enter" ? ctrlKey || metaKey || !target.matches("textarea") : key === " " && !isTyped);
};

// The root of rows. Its text has no formulas. Keys stop there, because the notebook would react to "a", "b" and "d d".
function rootOf(label, testid) {
  const root = ELEMENT("div", {
    class: "tract mathjax_ignore tex2jax_ignore", "data-lm-suppress-shortcuts": "true", role: "group", "aria-label": label, "data-testid": testid,
  });
  root.addEventListener("keydown", (event) => {
    if (!isHeldDown(event)) return;
    event.preventDefault();
    event.stopImmediatePropagation();
  }, { capture: true });
  root.addEventListener("keydown", (event) => { pressInRows(event, root); event.stopPropagation(); });
  return root;
}

// If an output has many requests, each is one line until it is unfolded. This stays until the last one is decided.
const MANY = 8;
function crowd(root) {
  const area = root.closest(".jp-OutputArea") ?? root;
  const open = area.querySelectorAll(".q").length;
  const roots = [root, ...area.querySelectorAll(".tract:has(.q)")];
  if (open > MANY || !open) for (const other of roots) other.classList.toggle("many", open > MANY);
}

// A single request shows short code immediately.
const isAlone = (q) => q.isConnected && (q.closest(".jp-OutputArea") ?? q.closest(".tract")).querySelectorAll(".q").length === 1;

// The user may be about to press the button that was there before. So a destructive request takes no decision for a moment
// after it appeared, or after it moved under a resting pointer.
const STEADY = 700; // milliseconds
const POINTER = { x: NaN, y: NaN };
document.addEventListener("pointermove", ({ clientX, clientY }) => Object.assign(POINTER, { x: clientX, y: clientY }), { capture: true, passive: true });
function steadiness(q) {
  let since = -Infinity, timer = 0;
  const begin = () => {
    since = performance.now();
    clearTimeout(timer);
    timer = setTimeout(() => WATCHERS.forEach((notify) => notify()), STEADY);
    WATCHERS.forEach((notify) => notify());
  };
  q.addEventListener("pointerover", ({ target, clientX, clientY }) => {
    if (target.closest("[data-approves]") && clientX === POINTER.x && clientY === POINTER.y) begin();
  });
  return { begin, isNew: () => performance.now() - since < STEADY, close: () => clearTimeout(timer) };
}

// The functions of a row, by its element: `unfold(on)`, `readOn()`, `decide()`, `reject()`, `escape()`.
const ROWS = new WeakMap();
const STOPS = ".q, summary, .line[tabindex]";
function pressInRows(event, root) {
  const { key, target } = event;
  if (target.closest("[data-widget]")) return undefined; // a widget of the user's code handles its keys
  const row = ROWS.get(target.closest(".q"));
  const isTyped = target.matches("input:not([type=checkbox], [type=radio]), select, textarea");
  const done = (run) => { event.preventDefault(); run(); };
  if (row && key === "Enter" && (event.ctrlKey || event.metaKey)) return done(row.decide);
  if (row && key === "Escape") return done(row.escape);
  if (event.ctrlKey || event.metaKey || event.altKey || isTyped) return undefined;
  const isScrolling = target.matches(".scroll, [role=region]");
  if ((key === "ArrowDown" || key === "ArrowUp") && !isScrolling) {
    const stops = [...root.querySelectorAll(STOPS)].filter((stop) => stop.checkVisibility());
    const to = stops[stops.indexOf(target.closest(STOPS)) + (key === "ArrowDown" ? 1 : -1)] ?? beyond(root, key === "ArrowDown");
    return to && done(() => { to.focus({ preventScroll: true }); to.scrollIntoView({ block: "nearest" }); });
  }
  if (!row) return undefined;
  if (key === "ArrowRight") return done(() => row.unfold(true));
  if (key === "ArrowLeft") return done(() => { row.unfold(false); target.closest(".q").focus({ preventScroll: true }); });
  if (key === "PageDown" && row.readOn()) return done(() => {});
  if (key === "r" || key === "R") return done(row.reject);
  return undefined;
}
// The next request after this output, or the last one before it.
function beyond(root, isDown) {
  const side = isDown ? Node.DOCUMENT_POSITION_FOLLOWING : Node.DOCUMENT_POSITION_PRECEDING;
  const others = [...document.querySelectorAll(".tract .q")].filter((q) => root.compareDocumentPosition(q) & side && !root.contains(q) && q.checkVisibility());
  return isDown ? others[0] : others.at(-1);
}
const nextQuestion = (from) => [...document.querySelectorAll(".tract .q:not([aria-busy=true])")]
  .find((q) => from.compareDocumentPosition(q) & Node.DOCUMENT_POSITION_FOLLOWING && q.checkVisibility());

// A decided request becomes one line. After a click, its place keeps its height for a second, because the second click of a
// double click must not hit another button. The front end may put another output there.
// After a key press, the focus stays at the decided request.
const AGAIN = 1000; // milliseconds
const FOCUS = 3000;
const HOLDS = new WeakMap(); // the latest click that holds a place
const rowsIn = (place) => [...place.querySelectorAll(":is(.q, .row):not(.body *, .rule)")];
function keepPlace(element, hasFocus) {
  const child = element.closest(".jp-OutputArea-child") ?? element.closest(".tract");
  const area = child?.parentElement;
  if (!area) return;
  const at = [...area.children].indexOf(child), height = child.offsetHeight, nth = rowsIn(child).indexOf(element);
  const hold = () => {
    const now = area.children[at];
    if (!now) return;
    if (!hasFocus) { now.style.minHeight = `${height}px`; HOLDS.set(now, hold); }
    else if (now !== child && !area.contains(document.activeElement)) (rowsIn(now)[nth]?.querySelector("summary") ?? now.querySelector("summary, [tabindex]"))?.focus({ preventScroll: true });
  };
  const observer = new MutationObserver(hold);
  const end = () => {
    observer.disconnect();
    for (const held of [child, area.children[at]]) if (HOLDS.get(held) === hold) held.style.minHeight = "";
  };
  observer.observe(area, { childList: true, subtree: hasFocus });
  hold();
  setTimeout(end, hasFocus ? FOCUS : AGAIN);
}
