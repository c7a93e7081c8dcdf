// What the panel of one request and that of several share. All HTML in the state is made and escaped in Python;
// everything else is set as text.
// Protocol: we send `ready` until the kernel acknowledges, and each answer again until it is heard.
// The kernel takes the first answer of a round, so sending twice is harmless.

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
const BEAT = 20_000; // milliseconds; a page in the background may send once a minute only
const PAGE = String(performance.timeOrigin); // tells one loading of the page from the next
const RELOADED =
  "The page was reloaded after this was asked, so a saved notebook will not show the decision; %tract log does.";
const UNHEARD =
  "The kernel has not answered for 3 s: it is busy or disconnected. Your answer is kept and sent again; it counts once.";
const HEARD = "The kernel has received the decision and carries it out as soon as it is free.";
const IN_THE_INBOX = "Waiting questions are kept: run %tract inbox in a new kernel.";
const lostText = (wasSent, next = IN_THE_INBOX) =>
  `This panel has lost its kernel; ${wasSent ? "whether it took your answer is not known here" : "nothing was decided here"}. ${next}`;

// What was on display, by key: what stood in view for as long as it takes to notice. A jump to the end leaves gaps.
// All panels of the page share it: code that one of them showed has the same keys in another one.
const SEEN = (globalThis.tractSeen ??= new Set());
// What each panel of the page does when more was seen, by whichever of them: code that two of them show is read once.
const WATCHERS = (globalThis.tractWatchers ??= new Set());
const STAY = 300; // milliseconds
// What stood in view, but not for as long as that.
const PASSED = new Set();
// Of a part that is taller than what shows of it (a long line at 400 %): how far down it stood in view, from its top.
const READ_TO = new WeakMap();
const TALL = 60; // pixels; what is lower fits into any window
// A value with its name; its keys count if all of it is visible.
const valueOf = ({ name, text, css, keys, more }) => ELEMENT("span", { class: "value", "data-name": name },
  ELEMENT("code", { "data-line": keys || null }, ELEMENT("span", { class: "dim" }, `${name}=`), ELEMENT("span", css ? { class: css } : {}, text), more));
// The line of values, or a sentence instead; omitted values come last.
const valuesOf = ({ values, about }) => values.length
  ? [...values].sort((one, other) => (one.text === "None") - (other.text === "None")).flatMap((value, at) => [at ? " " : "", valueOf(value)])
  : [about];
// A value that is cut at the end of its line is not on display: its keys do not count.
const markCut = (line, isCut) => {
  const [from, to] = isCut ? ["data-line", "data-cut"] : ["data-cut", "data-line"];
  for (const part of line.querySelectorAll(`[${from}]`)) {
    part.setAttribute(to, part.getAttribute(from));
    part.removeAttribute(from);
  }
};
const keysOf = (part) => (part.dataset.line ?? "").split(" ").filter(Boolean);
const linesIn = (place) => [...place.querySelectorAll("[data-line]")];
// The parts around it that scroll by themselves, from the inside out.
const boxesOf = (part, place) => {
  const boxes = [];
  for (let one = part.parentElement; one && one !== place.parentElement; one = one.parentElement)
    if (one.scrollHeight > one.clientHeight + 1 && /auto|scroll/.test(getComputedStyle(one).overflowY)) boxes.push(one);
  return boxes;
};

// Brings a part into the middle of what scrolls around it; the page itself stays where it is.
const bring = (part, place) => {
  for (const box of boxesOf(part, place))
    box.scrollTop += part.getBoundingClientRect().top - box.getBoundingClientRect().top - (box.clientHeight - part.clientHeight) / 2;
};
const showAsked = (body, place) => requestAnimationFrame(() => {
  for (const row of body.querySelectorAll(".asks")) bring(row, place);
});

// How many parts were in view too briefly, and are to be shown again.
const passedIn = (place) => new Set(linesIn(place).flatMap(keysOf).filter((key) => PASSED.has(key) && !SEEN.has(key))).size;

// How many of the `needed` keys the place has not shown yet. What is not there at all counts as not shown.
const unseenIn = (place, needed) => needed - new Set(linesIn(place).flatMap(keysOf).filter((key) => SEEN.has(key))).size;

// Brings the first part that was not on display into view, within its box and on the page; of a tall one, its next stretch.
let tried = null;
function readOn(place) {
  const part = linesIn(place).find((one) => !keysOf(one).every((key) => SEEN.has(key)));
  if (!part) return;
  for (let fold = part.closest("details:not([open])"); fold; fold = fold.parentElement.closest("details:not([open])")) fold.open = true;
  const boxes = boxesOf(part, place);
  const readTo = READ_TO.get(part)?.end ?? 0;
  const fits = !readTo && part !== tried; // what stood there last time, and does not count yet, is to begin at the top
  tried = part;
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

// Notes what stands in view; `changed` is called soon after that became more.
function watching(changed) {
  const stays = new Map();
  const standing = new Map(); // of tall parts: the stretch that stands in view, and since when
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
      else standing.delete(target);
    }
  }, { threshold: [0, 0.95] });
  const isTall = ({ boundingClientRect: all, intersectionRect: shown }) =>
    all.height > TALL && shown.height > 0 && shown.width >= 0.95 * all.width && !document.hidden;
  const look = (part) => { observer.unobserve(part); observer.observe(part); };
  // What a tall part shows counts from its top down, stretch by stretch, each after it stood for as long as any part.
  const readDown = ({ target, boundingClientRect: all, intersectionRect: shown }) => {
    const now = { since: performance.now(), from: shown.top - all.top, to: shown.bottom - all.top };
    const before = standing.get(target);
    const stood = before && { since: before.since, from: Math.max(before.from, now.from), to: Math.min(before.to, now.to) };
    const isOver = stood && stood.from < stood.to && now.since - stood.since >= STAY;
    standing.set(target, stood && stood.from < stood.to && !isOver ? stood : now);
    if (isOver) {
      const known = READ_TO.get(target);
      const end = known?.height === all.height ? known.end : 0; // another width: its lines break elsewhere
      READ_TO.set(target, { height: all.height, end: stood.from <= end + 1 ? Math.max(end, stood.to) : end });
      if (READ_TO.get(target).end >= 0.99 * all.height) { note(target); return; }
    }
    stays.set(target, setTimeout(() => look(target), STAY));
  };
  const note = (part) => {
    observer.unobserve(part);
    if (!part.isConnected || document.hidden) { observer.observe(part); return; } // again, when somebody can look
    keysOf(part).forEach((key) => SEEN.add(key));
    WATCHERS.forEach((one) => one());
  };
  const watch = (place) => {
    for (const part of linesIn(place)) if (!keysOf(part).every((key) => SEEN.has(key))) observer.observe(part);
  };
  const again = (place) => linesIn(place).forEach(look); // counted from now on: it did not stand there in full
  const close = () => { WATCHERS.delete(tell); observer.disconnect(); stays.forEach(clearTimeout); cancelAnimationFrame(due); };
  return { watch, again, close };
}

// Buttons that would approve: not before all was on display. What is not measured yet is not shown yet.
function holdBack(buttons, isHeld, why) {
  for (const button of buttons) {
    button.setAttribute("aria-disabled", String(isHeld));
    if (isHeld) button.setAttribute("aria-describedby", why); else button.removeAttribute("aria-describedby");
  }
}

const seenIn = (place) => linesIn(place).flatMap(keysOf).filter((key) => SEEN.has(key));

const many = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;

// Times are relative, and said anew each minute; the exact one stands there on hovering.
const UNITS = [["year", 31536000], ["month", 2592000], ["day", 86400], ["hour", 3600], ["minute", 60]];
const AGO = new Intl.RelativeTimeFormat("en", { numeric: "always" });
const ago = (moment) => {
  const seconds = (Date.now() - new Date(moment)) / 1000;
  const [unit, size] = UNITS.find(([, one]) => seconds >= one) ?? [];
  return unit ? AGO.format(-Math.floor(seconds / size), unit) : "just now";
};
const tellTimes = (place) => {
  for (const time of place.querySelectorAll("time[datetime]")) time.textContent = ago(time.dateTime);
};

let counter = 0;
const newId = () => `tract-${Date.now().toString(36)}-${counter++}`;

const GONE = ["comm:close", "comm_live_update"]; // what a model is told when its kernel is gone

// A front end can replace the output of a cell only on the page that ran it.
const wasReloaded = (model) => ![PAGE, ""].includes(model.get("page"));

// The connection to the kernel. `lost` is called once, when it is gone: the kernel was restarted, or has ended.
function connect(model, lost) {
  const timers = new Set();
  const heard = new Set(); // all keys so far: the state holds only the last one
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
  // Sends an answer until its key was heard; `isOpen` says whether it still matters, `tell` shows a message.
  const decide = (content, key, isOpen, tell) => {
    const unheard = () => isOpen() && !heard.has(key);
    const again = (n) => {
      if (n < AGAIN_DELAYS.length && unheard() && send(content)) later(() => again(n + 1), AGAIN_DELAYS[n]);
    };
    if (!send(content)) return;
    later(() => again(0), AGAIN_DELAYS[0]);
    later(() => { if (isOpen() && !isLost) tell(unheard() ? UNHEARD : HEARD); }, SILENCE);
  };
  // The kernel is told that this page is open for as long as it shows an open question, and once when it closes.
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

// The front end keeps the box of a prompt that the kernel has ended. Nothing typed there would arrive, so it is hidden.
function hidePrompts(model, place) {
  const hide = (content) => {
    if (content?.type !== "prompt_over") return;
    for (const box of place.closest(".jp-Document")?.querySelectorAll(".jp-OutputArea-stdin-item") ?? []) box.style.display = "none";
  };
  model.on("msg:custom", hide);
  return () => model.off("msg:custom", hide);
}

// Draws now and whenever the view changes; gives what ends that.
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
