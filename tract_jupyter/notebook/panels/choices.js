// Places for which one of two texts is to be taken: below each the buttons that take one, and an editor for another text.
// It gives what `editing` of forms.js gives: they are values that are changed before approving.

const WORDS = ["ours", "theirs", "skip"];

function choosing(choices, id, place, told) {
  const boxes = [...place.querySelectorAll(".choice")];
  const fields = choices.map((choice, number) => picking(choice, `${id}.choice.${number}`, boxes[number], told));
  const changed = () => fields.filter((field) => field.isChanged());
  const collect = () => {
    const pairs = changed().map((field) => [field.name, field.read()]);
    return pairs.length ? [["edits", object(pairs)]] : [];
  };
  const restored = () => { for (const field of fields) field.restored(); };
  const undecided = () => fields.filter((field) => field.isOpen());
  return { rows: [], changed, collect, restored, settle: () => {}, undecided };
}

// One of them. What is decided is kept as JSON text in a hidden control, so that it outlives a new drawing.
function picking(choice, id, box, told) {
  const before = JSON.stringify(choice.decided);
  const state = ELEMENT("input", { type: "hidden", id, name: choice.name, value: before });
  const stood = box.querySelectorAll(".taken > span, pre"); // what was decided before stays on display
  const said = ELEMENT("b", { "aria-live": "polite" });
  const text = ELEMENT("textarea", { id: `${id}.text`, "aria-label": "The text that it becomes", spellcheck: "false", rows: 4, hidden: true });
  const now = () => JSON.parse(state.value);
  const isChanged = () => state.value !== before;
  const isText = () => now() !== null && !WORDS.includes(now());
  const take = (value) => { state.value = JSON.stringify(value); show(); told(); };
  const button = (label, press) => {
    const made = ELEMENT("button", { type: "button", "aria-pressed": "false" }, label);
    made.addEventListener("click", press);
    return made;
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
    said.textContent = !isChanged() ? "" : isWritten ? "takes this text" : words[value];
    for (const one of stood) {
      if (one.matches("pre, :has([data-line])")) one.classList.toggle("was", isChanged()); else one.hidden = isChanged();
    }
  };
  text.addEventListener("input", () => { state.value = JSON.stringify(text.value); show(); told(); });
  box.querySelector(".taken").prepend(ours, theirs, edit);
  box.querySelector(".taken").append(said);
  box.append(text, state);
  const read = () => {
    if (text.hidden || !WORDS.includes(text.value)) return state.value;
    const message = `${text.value} is a word that takes a side: write another text, or press its button. Nothing was decided.`;
    throw Object.assign(new Error(message), { control: text });
  };
  const focus = () => { bring(box, box.closest(".q")); ours.focus({ preventScroll: true }); };
  const isOpen = () => choice.is_needed && now() === null;
  return { name: choice.name, read, focus, isOpen, isChanged, restored: show };
}
