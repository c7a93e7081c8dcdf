// The line that says how many requests wait is static HTML. This model makes its number a button, on a live page only.
const initialize = ({ model }) => {
  const lines = `[data-waiting="${model.get("line")}"] b`;
  const go = (button) => {
    const page = button.closest(".jp-Document") ?? document;
    const asked = [...page.querySelectorAll(".tract .q, [data-testid=tract-batch]")].find((one) => one.checkVisibility());
    if (!asked) { model.send({ type: "decide" }); return; }
    asked.scrollIntoView({ block: "nearest" });
    (asked.matches(".q") ? asked : asked.querySelector("[tabindex], button, input"))?.focus({ preventScroll: true });
  };
  const attach = () => {
    for (const button of document.querySelectorAll(`${lines}:not([role])`)) {
      button.setAttribute("role", "button");
      button.tabIndex = 0;
      Object.assign(button.style, { cursor: "pointer", color: "var(--link)" });
      button.addEventListener("click", () => go(button));
      button.addEventListener("keydown", (event) => {
        event.stopPropagation();
        if (event.key === "Enter" || event.key === " ") { event.preventDefault(); go(button); }
      });
    }
  };
  const observer = new MutationObserver(attach);
  observer.observe(document.body, { childList: true, subtree: true });
  attach();
  return () => observer.disconnect();
};

export default { initialize };
