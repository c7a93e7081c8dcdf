// The line that says how many requests wait. A click leads to the first one on the page, or opens the inbox below the line.
function render({ model, el }) {
  const root = rootOf("Waiting requests", "tract-waiting");
  const draw = () => { root.innerHTML = model.get("html"); };
  const unhide = hidePrompts(model, el);
  root.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    const page = el.closest(".jp-Document") ?? document;
    const asked = [...page.querySelectorAll(".tract :is(.q, [data-testid=tract-batch])")].find((one) => one.checkVisibility());
    if (asked) {
      asked.scrollIntoView({ block: "nearest" });
      asked.focus({ preventScroll: true });
    } else if (button.getAttribute("aria-disabled") !== "true") {
      button.setAttribute("aria-disabled", "true");
      model.send({ type: "decide" });
    }
  });
  el.append(root);
  model.on("change:html", draw);
  draw();
  return () => { unhide(); model.off("change:html", draw); };
}

export default { render };
