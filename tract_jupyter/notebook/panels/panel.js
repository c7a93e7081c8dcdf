// The panel of one request.

function render({ model, el }) {
  const root = rootOf("Tract", "tract-question");
  let row = null, isGone = false;
  const kernel = connect(model, () => { isGone = true; row?.lost(); });
  row = requestRow({ place: root, id: newId(), kernel, view: () => model.get("view"), isReloaded: () => wasReloaded(model) });
  el.append(root);
  const close = follow(model, root, row.draw, kernel);
  if (isGone) row.lost();
  requestAnimationFrame(() => crowd(root));
  return () => { row.close(); close(); };
}

export default { render };
