// Conflicts: a choice between two texts. Each has buttons that take one of them, and an editor for another text.
// Returns the same as `editing` of forms.js, because choices are values that the user changes before approving.

const WORDS = ["ours", "theirs", "skip"];

function choosing(choices, id, place, onChange) {
  const boxes = [...place.querySelectorAll(".choice")];
  const fields = choices.map((choice, number) => picking(choice, `${id}.choice.${number}`, boxes[number], onChange));
  const changed = () => fields.filter((field) => field.isChanged());
  const collect = () => {
    const pairs = changed().map((field) => [field.name, field.read()]);
    return pairs.length ? [["edits", object(pairs)]] : [];
  };
  const restored = () => { for (const field of fields) field.restored(); };
  const undecided = () => fields.filter((field) => field.isOpen());
  return { rows: [], changed, collect, restored, settle: () => {}, undecided };
}

// One conflict. A hidden control has the decision as JSON text, which survives a new drawing.
function picking(choice, id, box, onChange) {
  const before = JSON.stringify(choice.decided);
  const state = ELEMENT("input", { type: "hidden", id, name: choice.name, value: before });
  const previous = box.querySelectorAll(".taken > span, pre"); // the earlier decision stays on display
  const status = ELEMENT("b", { "aria-live": "polite" });
  const text = ELEMENT("textarea", { id: `${id}.text`, "aria-label": "New text", spellcheck: "false", rows: 4, hidden: true });
  const now = () => JSON.parse(state.value);
  const isChanged = () => state.value !== before;
  const isText = () => now() !== null && !WORDS.includes(now());
  const take = (value) => { state.value = JSON.stringify(value); show(); onChange(); };
  const button = (label, press) => {
    const element = ELEMENT("button", { type: "button", "aria-pressed": "false" }, label);
    element.addEventListener("click", press);
    return element;
  };
  const pick = (number) => button(`Take ${WORDS[number]}`, () => take(WORDS[number]));
  const [ours, theirs] = [pick(0), pick(1)];
  const edit = button("Edit…", () => {
    if (!isText()) text.value = choice.texts[now() === "theirs" ? 1 : 0] ?? choice.texts[1] ?? "";
    text.rows = Math.min(12, Math.max(3, text.value.split("\n").length + 1));
    take(text.value);
    text.focus();
  });
  const show = () => {
    const value = now();
    const isWritten = isText() || document.activeElement === text;
    text.hidden = !isWritten;
    if (isText() && text.value !== value) text.value = value;
    ours.setAttribute("aria-pressed", String(value === "ours"));
    theirs.setAttribute("aria-pressed", String(value === "theirs"));
    edit.setAttribute("aria-pressed", String(isWritten));
    box.dataset.decided = isWritten ? "other" : value ?? "";
    const words = { ours: `takes ${choice.sides[0]}`, theirs: `takes ${choice.sides[1]}`, skip: "leaves it out" };
    status.textContent = !isChanged() ? "" : isWritten ? "takes this text" : words[value];
    for (const part of previous) {
      if (part.matches("pre, :has([data-line])")) part.classList.toggle("was", isChanged()); else part.hidden = isChanged();
    }
  };
  text.addEventListener("input", () => { state.value = JSON.stringify(text.value); show(); onChange(); });
  box.querySelector(".taken").prepend(ours, theirs, edit);
  box.querySelector(".taken").append(status);
  box.append(text, state);
  const read = () => {
    if (text.hidden || !WORDS.includes(text.value)) return state.value;
    const message = `The word ${text.value} takes a side. Write another text, or press its button. Nothing was decided.`;
    throw Object.assign(new Error(message), { control: text });
  };
  const focus = () => { bring(box, box.closest(".q")); ours.focus({ preventScroll: true }); };
  const isOpen = () => choice.is_needed && now() === null;
  return { name: choice.name, read, focus, isOpen, isChanged, restored: show };
}
