"""The computed contrast of a page: each text against its background.

    assert not poor_contrast(lab.output(1))                          # every text at least 4.5:1
    assert not poor_contrast(page.locator("main"), least=7)

Colours are resolved by the browser itself, so `color-mix`, variables, transparency and `opacity` count as they look. A
background that is a picture is ignored, and the layer behind it counts. Icons (masks) have no text; their word does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Locator

LEAST = 4.5
"""The contrast that WCAG 2 AA asks of text."""

_MEASURE = """(root, least) => {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 1;
  const context = canvas.getContext("2d", { willReadFrequently: true });
  const known = new Map();
  const rgba = (colour) => {
    if (!known.has(colour)) {
      context.clearRect(0, 0, 1, 1);
      context.fillStyle = colour;
      context.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = context.getImageData(0, 0, 1, 1).data;
      known.set(colour, [r, g, b, a / 255]);
    }
    return known.get(colour);
  };
  const over = ([r, g, b, a], [x, y, z]) => [r * a + x * (1 - a), g * a + y * (1 - a), b * a + z * (1 - a)];
  const chain = (element) => {
    const all = [];
    for (let one = element; one; one = one.parentElement ?? one.getRootNode().host) all.push(one);
    return all;
  };
  const behind = (element) => chain(element).reverse().reduce((under, one) => {
    const [r, g, b, a] = rgba(getComputedStyle(one).backgroundColor);
    return over([r, g, b, a * Number(getComputedStyle(one).opacity)], under);
  }, [255, 255, 255]);
  const light = (colour) => {
    const [r, g, b] = colour.map((part) => (part / 255 <= 0.03928 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (element, colour) => {
    const back = behind(element);
    const opacity = chain(element).reduce((all, one) => all * Number(getComputedStyle(one).opacity), 1);
    const [r, g, b, a] = rgba(colour);
    const [one, other] = [light(over([r, g, b, a * opacity], back)), light(back)].sort((x, y) => y - x);
    return (one + 0.05) / (other + 0.05);
  };
  const isShown = (element) => {
    const { width, height } = element.getBoundingClientRect();
    return width > 1 && height > 1 && element.checkVisibility({ visibilityProperty: true });
  };
  const found = new Map();
  const look = (element, text, colour) => {
    const measured = ratio(element, colour);
    if (measured >= least) return;
    const name = `${element.tagName.toLowerCase()}${[...element.classList].map((one) => `.${one}`).join("")}`;
    const said = `${name} ${JSON.stringify(text.trim().replace(/\\s+/g, " ").slice(0, 40))}`;
    if (!found.has(said)) found.set(said, measured);
  };
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const { data, parentElement: element } = walker.currentNode;
    if (!data.trim() || element.closest("style, script, :disabled") || !isShown(element)) continue;
    look(element, data, getComputedStyle(element).color);
  }
  for (const control of root.querySelectorAll("input, textarea, select")) {
    if (!isShown(control) || control.disabled || ["checkbox", "radio"].includes(control.type)) continue;
    const isEmpty = control.value === "" && control.placeholder;
    look(control, control.value || control.placeholder || "", getComputedStyle(control, isEmpty ? "::placeholder" : null).color);
  }
  return [...found].sort((one, other) => one[1] - other[1]).map(([said, measured]) => `${measured.toFixed(2)} ${said}`);
}"""


def poor_contrast(place: Locator, least: float = LEAST) -> list[str]:
    """Return each visible text of `place` below that contrast, the worst first, like `3.91 button.reject "Reject…"`.

    Args:
        place: the element to check, such as `lab.output(1)`. Folded parts are ignored.
        least: the contrast that is enough, 1 (none) to 21 (black on white).

    Disabled controls are ignored, as in WCAG. Controls with `aria-disabled` are checked.
    """
    texts: list[str] = place.evaluate(_MEASURE, least)
    return texts
