// Shared by all panels. Python makes and escapes all HTML in the state. Everything else is set as text.
// Protocol: the page repeats `ready` and each answer until the kernel acknowledges them.
// The kernel takes the first answer of a round, so repeated messages are harmless.

const ELEMENT = (tag, attributes = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
};

const icon = (name) => ELEMENT("i", { class: name === "chev" ? name : `i i-${name}`, "aria-hidden": "true" });

const READY_DELAYS = [60, 120, 250, 500, 1000, 2000]; // milliseconds; a kernel's first comm messages may wait
const AGAIN_DELAYS = [700, 1400, 2800];
const SILENCE = 3000;
const BEAT = 20_000; // milliseconds; a background page may send only once a minute
const PAGE = String(performance.timeOrigin); // identifies this load of the page
const RELOADED =
  "The page was reloaded after this request, so a saved notebook will not show the decision. %tract log shows it.";
const UNHEARD =
  "The kernel has not answered for 3 s: it is busy or disconnected. Your answer will be sent again, and counts once.";
const HEARD = "The kernel has received the decision and will carry it out when it is free.";
const IN_THE_INBOX = "Open requests are not lost: run %tract inbox in a new kernel.";
const lostText = (wasSent, next = IN_THE_INBOX) =>
  `This panel has lost its kernel; ${wasSent ? "it may have taken your answer" : "nothing was decided here"}. ${next}`;

// The keys of content that was on display long enough to notice. A jump to the end leaves gaps.
// All panels of the page share it, because the same code has the same keys in each panel.
const SEEN = (globalThis.tractSeen ??= new Set());
// Callbacks of the panels of the page, called after the user saw more in any panel.
const WATCHERS = (globalThis.tractWatchers ??= new Set());
const STAY = 300; // milliseconds
// Keys that were on display for less than that.
const PASSED = new Set();
// For parts taller than the window (a long line at 400 %): the height from the top that was on display.
const READ_TO = new WeakMap();
const TALL = 60; // pixels; a lower part fits into any window
// A value with its name; its keys count if all of it is visible.
const valueOf = ({ name, text, css, keys, more }) => ELEMENT("span", { class: "value", "data-name": name },
  ELEMENT("code", { "data-line": keys || null }, ELEMENT("span", { class: "dim" }, `${name}=`), ELEMENT("span", css ? { class: css } : {}, text), more));
// The line of values, or a sentence instead; omitted values come last.
const valuesOf = ({ values, about }) => values.length
  ? [...values].sort((a, b) => (a.text === "None") - (b.text === "None")).flatMap((value, at) => [at ? " " : "", valueOf(value)])
  : [about];
// A value that is cut at the end of its line is not on display, so its keys do not count.
const markCut = (line, isCut) => {
  const [from, to] = isCut ? ["data-line", "data-cut"] : ["data-cut", "data-line"];
  for (const part of line.querySelectorAll(`[${from}]`)) {
    part.setAttribute(to, part.getAttribute(from));
    part.removeAttribute(from);
  }
};
const keysOf = (part) => (part.dataset.line ?? "").split(" ").filter(Boolean);
const linesIn = (place) => [...place.querySelectorAll("[data-line]")];
// The effects of a rehearsal have their own keys: the user keeps them without reading the code, or runs the code.
const isEffect = (line) => line.closest(".effects") !== null;
// The scrolling elements around a part, from the inside out.
const boxesOf = (part, place) => {
  const boxes = [];
  for (let box = part.parentElement; box && box !== place.parentElement; box = box.parentElement)
    if (box.scrollHeight > box.clientHeight + 1 && /auto|scroll/.test(getComputedStyle(box).overflowY)) boxes.push(box);
  return boxes;
};

// Scrolls a part to the middle of the elements around it. The page does not scroll.
const bring = (part, place) => {
  for (const box of boxesOf(part, place))
    box.scrollTop += part.getBoundingClientRect().top - box.getBoundingClientRect().top - (box.clientHeight - part.clientHeight) / 2;
};
const showAsked = (body, place) => requestAnimationFrame(() => {
  for (const row of body.querySelectorAll(".asks")) bring(row, place);
});

// The number of keys that were on display too briefly and must be shown again.
const passedIn = (place) => new Set(linesIn(place).flatMap(keysOf).filter((key) => PASSED.has(key) && !SEEN.has(key))).size;

// The number of the `needed` keys that the place has not shown yet. Missing keys count as not shown.
const unseenIn = (place, needed, ofEffects = false) =>
  needed - new Set(linesIn(place).filter((line) => isEffect(line) === ofEffects).flatMap(keysOf).filter((key) => SEEN.has(key))).size;

// Scrolls to the first part that was not on display, in its elements and on the page. For a tall part, scrolls to its next stretch.
let lastTried = null;
function readOn(place) {
  const part = linesIn(place).find((line) => !keysOf(line).every((key) => SEEN.has(key)));
  if (!part) return;
  for (let fold = part.closest("details:not([open])"); fold; fold = fold.parentElement.closest("details:not([open])")) fold.open = true;
  const boxes = boxesOf(part, place);
  const readTo = READ_TO.get(part)?.end ?? 0;
  const fits = !readTo && part !== lastTried; // a part that did not count last time starts at the top
  lastTried = part;
  for (const box of boxes) box.scrollTop += part.getBoundingClientRect().top + readTo - box.getBoundingClientRect().top - 4;
  boxes[0]?.focus({ preventScroll: true });
  if (fits) boxes.at(-1)?.scrollIntoView({ block: "nearest" });
  if (fits) { part.scrollIntoView({ block: "nearest" }); return; }
  const mark = ELEMENT("i", { class: "tract-mark" });
  place.append(mark);
  Object.assign(mark.style, { position: "absolute", left: 0, width: "1px", height: "1px" });
  mark.style.top = `${part.getBoundingClientRect().top + readTo - place.getBoundingClientRect().top - place.clientTop}px`;
  mark.scrollIntoView({ block: "start" });
  mark.remove();
}

// Records the parts on display. Calls `changed` soon after the user saw more.
function watching(changed) {
  const stays = new Map();
  const visible = new Map(); // for tall parts: the visible stretch, and since when
  let due = 0;
  const tell = () => { due ||= requestAnimationFrame(() => { due = 0; changed(); }); };
  WATCHERS.add(tell);
  const observer = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      const { target, intersectionRatio } = entry;
      if (stays.has(target) && intersectionRatio < 0.95) keysOf(target).forEach((key) => PASSED.add(key));
      clearTimeout(stays.get(target));
      stays.delete(target);
      if (intersectionRatio >= 0.95) stays.set(target, setTimeout(() => note(target), STAY));
      else if (isTall(entry)) readDown(entry);
      else visible.delete(target);
    }
  }, { threshold: [0, 0.95] });
  const isTall = ({ boundingClientRect: all, intersectionRect: shown }) =>
    all.height > TALL && shown.height > 0 && shown.width >= 0.95 * all.width && !document.hidden;
  const look = (part) => { observer.unobserve(part); observer.observe(part); };
  // A tall part counts from the top down, stretch by stretch, each after the usual time.
  const readDown = ({ target, boundingClientRect: all, intersectionRect: shown }) => {
    const now = { since: performance.now(), from: shown.top - all.top, to: shown.bottom - all.top };
    const before = visible.get(target);
    const stayed = before && { since: before.since, from: Math.max(before.from, now.from), to: Math.min(before.to, now.to) };
    const isOver = stayed && stayed.from < stayed.to && now.since - stayed.since >= STAY;
    visible.set(target, stayed && stayed.from < stayed.to && !isOver ? stayed : now);
    if (isOver) {
      const known = READ_TO.get(target);
      const end = known?.height === all.height ? known.end : 0; // with another width, the lines break elsewhere
      READ_TO.set(target, { height: all.height, end: stayed.from <= end + 1 ? Math.max(end, stayed.to) : end });
      if (READ_TO.get(target).end >= 0.99 * all.height) { note(target); return; }
    }
    stays.set(target, setTimeout(() => look(target), STAY));
  };
  const note = (part) => {
    observer.unobserve(part);
    if (!part.isConnected || document.hidden) { observer.observe(part); return; } // again when the page is visible
    keysOf(part).forEach((key) => SEEN.add(key));
    WATCHERS.forEach((notify) => notify());
  };
  const watch = (place) => {
    for (const part of linesIn(place)) if (!keysOf(part).every((key) => SEEN.has(key))) observer.observe(part);
  };
  const again = (place) => linesIn(place).forEach(look); // restart, because it was not fully visible
  const close = () => { WATCHERS.delete(tell); observer.disconnect(); stays.forEach(clearTimeout); cancelAnimationFrame(due); };
  return { watch, again, close };
}

// Disables approving buttons until everything was on display. A part that is not measured yet counts as not shown.
function holdBack(buttons, isHeld, why) {
  for (const button of buttons) {
    button.setAttribute("aria-disabled", String(isHeld));
    if (isHeld) button.setAttribute("aria-describedby", why); else button.removeAttribute("aria-describedby");
  }
}

const seenIn = (place) => linesIn(place).flatMap(keysOf).filter((key) => SEEN.has(key));

const many = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;

// Times are relative and updated each minute. Hovering shows the exact time.
const UNITS = [["year", 31536000], ["month", 2592000], ["day", 86400], ["hour", 3600], ["minute", 60]];
const AGO = new Intl.RelativeTimeFormat("en", { numeric: "always" });
const ago = (moment) => {
  const seconds = (Date.now() - new Date(moment)) / 1000;
  const [unit, size] = UNITS.find(([, least]) => seconds >= least) ?? [];
  return unit ? AGO.format(-Math.floor(seconds / size), unit) : "just now";
};
const tellTimes = (place) => {
  for (const time of place.querySelectorAll("time[datetime]")) time.textContent = ago(time.dateTime);
};

let counter = 0;
const newId = () => `tract-${Date.now().toString(36)}-${counter++}`;

const GONE = ["comm:close", "comm_live_update"]; // events of a model whose kernel is gone

// A front end can replace the output of a cell only on the page that ran the cell.
const wasReloaded = (model) => ![PAGE, ""].includes(model.get("page"));

// The connection to the kernel. Calls `lost` once if the kernel was restarted or has ended.
function connect(model, lost) {
  const timers = new Set();
  const heard = new Set(); // all acknowledged keys; the state has only the last one
  const hear = () => heard.add(model.get("heard"));
  const later = (run, delay) => timers.add(setTimeout(run, delay));
  let isLost = false;
  const lose = () => {
    if (isLost) return;
    isLost = true;
    lost();
  };
  const send = (content) => {
    if (isLost) return false;
    try {
      model.send(content);
      return true;
    } catch {
      lose();
      return false;
    }
  };
  const ping = (n) => {
    if (model.get("ready") || n > READY_DELAYS.length) return;
    if (send({ type: "ready", page: PAGE })) later(() => ping(n + 1), READY_DELAYS[n]);
  };
  // Sends an answer until its key is acknowledged. `isOpen` returns true while the answer matters, and `tell` shows a message.
  const decide = (content, key, isOpen, tell) => {
    const unheard = () => isOpen() && !heard.has(key);
    const again = (n) => {
      if (n < AGAIN_DELAYS.length && unheard() && send(content)) later(() => again(n + 1), AGAIN_DELAYS[n]);
    };
    if (!send(content)) return;
    later(() => again(0), AGAIN_DELAYS[0]);
    later(() => { if (isOpen() && !isLost) tell(unheard() ? UNHEARD : HEARD); }, SILENCE);
  };
  // Tells the kernel that this page is open while it shows an open request, and once when it closes.
  const open = new Set();
  const beat = (type = "here") => { if (open.size) send({ type, page: PAGE }); };
  const leave = () => beat("gone");
  const beats = setInterval(beat, BEAT);
  addEventListener("pagehide", leave);
  const shows = (question, isOpen) => { if (isOpen) open.add(question); else open.delete(question); };
  const close = () => {
    clearInterval(beats);
    removeEventListener("pagehide", leave);
    model.off("change:heard", hear);
    for (const event of GONE) model.off(event, lose);
    timers.forEach(clearTimeout);
  };
  model.on("change:heard", hear);
  for (const event of GONE) model.on(event, lose);
  ping(0);
  return { decide, shows, close };
}

// Hides the input box of an ended prompt. The front end keeps it, but the text would not arrive.
function hidePrompts(model, place) {
  const hide = (content) => {
    if (content?.type !== "prompt_over") return;
    for (const box of place.closest(".jp-Document")?.querySelectorAll(".jp-OutputArea-stdin-item") ?? []) box.style.display = "none";
  };
  model.on("msg:custom", hide);
  return () => model.off("msg:custom", hide);
}

// Draws now and after each change of the view. Returns a function that ends it.
function follow(model, panel, draw, kernel) {
  const unhide = hidePrompts(model, panel);
  model.on("change:view", draw);
  draw();
  const timer = setInterval(() => tellTimes(panel), 60_000);
  return () => {
    clearInterval(timer);
    unhide();
    model.off("change:view", draw);
    kernel.close();
  };
}
