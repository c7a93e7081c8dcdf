// The line with the number of open requests is static HTML. On a live page, this model makes the number a button.
const initialize = ({ model }) => {
  const lines = `[data-waiting="${model.get("line")}"] b`;
  const go = (button) => {
    const page = button.closest(".jp-Document") ?? document;
    const request = [...page.querySelectorAll(".tract .q, [data-testid=tract-batch]")].find((element) => element.checkVisibility());
    if (!request) { model.send({ type: "decide" }); return; }
    request.scrollIntoView({ block: "nearest" });
    (request.matches(".q") ? request : request.querySelector("[tabindex], button, input"))?.focus({ preventScroll: true });
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
