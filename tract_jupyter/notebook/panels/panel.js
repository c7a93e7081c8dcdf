// The panel of one request.

function render({ model, el }) {
  const id = newId();
  const parts = frame(id, "tract-panel");
  const kernel = connect(model, parts.lost);
  const one = request({ id, parts, kernel, view: () => model.get("view"), isReloaded: () => wasReloaded(model) });
  el.append(parts.panel);
  const close = follow(model, parts.panel, one.draw, kernel);
  return () => { one.close(); close(); };
}

export default { render };
