"""Self-contained outputs: HTML with the rules of our style sheets that it needs.

A saved notebook keeps the styles with each output, so an output includes a few kilobytes of rules instead of all. Our
style sheets are flat: rules, and rules within `@media` or `@container`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from tract_jupyter.notebook.views.html import Html, asset, element, fragment, root_html

if TYPE_CHECKING:
    from tract_jupyter.notebook.views.html import HtmlPart

LOOK = "views/tract.css"
"""The style sheet of all outputs: tokens, then shared parts of views."""


def styled(page: Html, *sheets: str) -> Html:
    """Return HTML with the rules that may apply to it. `sheets` are more style sheets of this package."""
    classes = frozenset(name for value in _CLASSES.findall(page) for name in value.split())
    tags, attributes = frozenset(_TAGS.findall(page)), frozenset(_ATTRIBUTES.findall(page))
    css = _needed(classes, tags, attributes, (LOOK, *sheets))
    return fragment(element("style", Html(css)), page)


def output_html(content: HtmlPart, *sheets: str) -> Html:
    """Return a self-contained output: content in a root element, with the rules that may apply to it."""
    return styled(root_html(content), *sheets)


_CLASSES = re.compile(r"""\sclass=["']([^"'<>]*)["']""")
_TAGS = re.compile(r"<([a-z][a-z0-9]*)")
_ATTRIBUTES = re.compile(r"\s([a-z][a-z-]*)(?==[\"']|[\s>])")
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_RULE = re.compile(r"([^{}]+)\{((?:[^{}]|\{[^{}]*\})*)\}")
_ANY_OF = re.compile(r":(?:has|is|where)\(([^()]*)\)")
_NOT = re.compile(r":not\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)")
_ATTRIBUTE = re.compile(r"\[([\w-]+)[^\]]*\]")
_PSEUDO = re.compile(r"::?[\w-]+(?:\([^()]*\))?")
_CLASS = re.compile(r"\.([\w-]+)")
_TAG = re.compile(r"(?<![\w.#-])[a-z][\w-]*")
_VARIABLE = re.compile(r"var\((--[\w-]+)")
_ANIMATION = re.compile(r"animation:\s*([\w-]+)")
_OUTSIDE = frozenset({"data-jp-theme-light", "hidden", "open"})  # set by the surrounding page or the user


class _Rule(NamedTuple):
    """A rule: its selectors or an at-rule, and the text in its braces."""

    head: str
    body: str

    @property
    def text(self) -> str:
        return f"{self.head}{{{self.body}}}"


class _Page(NamedTuple):
    """The names in a page that selectors may use."""

    classes: frozenset[str]
    tags: frozenset[str]
    attributes: frozenset[str]

    def has(self, selector: str) -> bool:
        """Return False if the selector cannot match any element of the page."""
        rest = _NOT.sub("", selector)
        if not all(any(map(self.has, group.split(","))) for group in _ANY_OF.findall(rest)):
            return False
        rest = _ANY_OF.sub("", rest)
        if not self.attributes | _OUTSIDE >= set(_ATTRIBUTE.findall(rest)):
            return False
        rest = _PSEUDO.sub("", _ATTRIBUTE.sub("", rest))
        return self.classes >= set(_CLASS.findall(rest)) and self.tags >= set(
            _TAG.findall(_CLASS.sub("", rest))
        )


@lru_cache(maxsize=64)
def _needed(
    classes: frozenset[str], tags: frozenset[str], attributes: frozenset[str], paths: tuple[str, ...]
) -> str:
    page = _Page(classes, tags, attributes)
    rules = [needed for path in paths for needed in _applicable(_rules(asset(path)), page)]
    moving = {name for rule in rules for name in _ANIMATION.findall(rule.body)} - {"none"}
    is_moving = bool(moving) or any("transition:" in rule.body for rule in rules if rule.head[0] != "@")
    rules = [
        rule
        for rule in rules
        if not rule.head.startswith("@keyframes") or rule.head.split()[-1] in moving
        if "prefers-reduced-motion" not in rule.head or is_moving
    ]
    return "\n".join(rule.text for rule in _with_used_variables(rules))


@lru_cache
def _rules(css: str) -> tuple[_Rule, ...]:
    plain = re.sub(r"\s+", " ", _COMMENT.sub("", css))
    return tuple(_Rule(head.strip(), body.strip()) for head, body in _RULE.findall(plain))


def _applicable(rules: tuple[_Rule, ...], page: _Page) -> list[_Rule]:
    needed = []
    for rule in rules:
        if rule.head.startswith("@keyframes"):
            needed.append(rule)
        elif rule.head.startswith("@"):
            inner = _applicable(_rules(rule.body), page)
            needed += [_Rule(rule.head, "".join(item.text for item in inner))] if inner else []
        else:
            head = ", ".join(item for item in _selectors(rule.head) if page.has(item))
            needed += [_Rule(head, rule.body)] if head else []
    return needed


def _selectors(head: str) -> list[str]:
    """Return the selectors of a rule. Commas within parentheses do not separate them."""
    parts, depth = [""], 0
    for sign in head:
        depth += (sign == "(") - (sign == ")")
        if sign == "," and not depth:
            parts.append("")
        else:
            parts[-1] += sign
    return [part.strip() for part in parts]


def _with_used_variables(rules: list[_Rule]) -> list[_Rule]:
    """Return the rules without unused variables."""
    split = [
        (rule.head, [declaration.strip() for declaration in rule.body.split(";") if declaration.strip()])
        for rule in rules
    ]
    values: dict[str, list[str]] = {}
    wanted = []
    for _, declarations in split:
        for declaration in declarations:
            name, _, value = declaration.partition(":")
            if name.startswith("--"):
                values.setdefault(name, []).append(value)
            else:
                wanted.append(declaration)
    used: set[str] = set()
    while wanted:
        new = set(_VARIABLE.findall(wanted.pop())) - used
        used |= new
        wanted += [value for name in new for value in values.get(name, [])]
    result = [
        (
            head,
            ";".join(
                declaration.replace(": ", ":", 1)
                for declaration in declarations
                if not declaration.startswith("--") or declaration.partition(":")[0] in used
            ),
        )
        for head, declarations in split
    ]
    return [_Rule(head, body) for head, body in result if body]
