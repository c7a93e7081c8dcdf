r"""Formulas in a model's Markdown: `$a$`, `$$a$$`, `\(a\)` and `\[a\]`.

The typesetter of the page sets a formula if all its commands are in `_COMMANDS`. Other commands can make links, load
pictures and packages, or define commands. Such a formula stays as the model wrote it, in the code font.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.notebook.views.html import element

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token

    from tract_jupyter.notebook.views.html import Html

_INLINE: Final = re.compile(
    r"(?P<double>\$\$)([^$`]{1,1000}?)(?<!\\)\$\$|\$(?=[^\s$])([^$`]{1,1000}?)(?<![\s\\])\$(?!\d)|\\\((.{1,1000}?)\\\)",
    re.DOTALL,
)
"""A price is not a formula: no space follows the first dollar or precedes the last one, and no digit follows it."""
_CLOSING: Final = {"$$": "$$", "\\[": "\\]"}
_LONGEST: Final = 1_000  # characters of a formula that is typeset
_LONGEST_INLINE: Final = 100  # a longer one is a block, which scrolls
_DEEPEST: Final = 12
"""Levels of groups. Chromium crashes at a formula of about 150 levels."""
_MOST_ROWS: Final = 20
_MOST_SPACES: Final = 20
_SHOWN: Final = (
    "frac dfrac tfrac sqrt binom sum prod int iint iiint oint lim limsup liminf sup inf max min argmax argmin "
    "log ln lg exp sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh det dim ker gcd deg Pr "
    "alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi pi varpi rho "
    "varrho sigma varsigma tau upsilon phi varphi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi "
    "Psi Omega partial nabla infty hbar ell Re Im aleph emptyset varnothing forall exists nexists neg lnot land "
    "lor wedge vee cap cup subset subseteq supset supseteq in notin ni setminus times div cdot cdots ldots dots "
    "vdots ddots pm mp ast star circ bullet oplus otimes odot le leq ge geq ne neq ll gg approx sim simeq cong "
    "equiv propto mid nmid parallel perp to gets mapsto leftarrow rightarrow Leftarrow Rightarrow leftrightarrow "
    "Leftrightarrow longrightarrow Longrightarrow implies iff uparrow downarrow hat bar vec tilde dot ddot "
    "overline underline widehat widetilde overbrace underbrace left right big Big bigg Bigg bigl bigr Bigl Bigr "
    "langle rangle lfloor rfloor lceil rceil lvert rvert lVert rVert vert Vert prime text textbf textit textrm "
    "mathrm mathbf mathit mathsf mathbb mathcal mathfrak boldsymbol operatorname displaystyle textstyle limits "
    "nolimits quad qquad begin end therefore because angle triangle top bot dagger"
)
_COMMANDS: Final = frozenset(_SHOWN.split())
_ENVIRONMENTS: Final = frozenset(
    {"matrix", "pmatrix", "bmatrix", "Bmatrix", "vmatrix", "Vmatrix", "cases", "aligned", "align", "align*",
     "gathered", "split"}
)  # fmt: skip
_COMMAND: Final = re.compile(r"\\(?:([A-Za-z]+)|([,;:> {}|\\%#&_])|.?)", re.DOTALL)
_PART: Final = re.compile(r"\\sqrt\s*\[|\\(?:[A-Za-z]+|.)|[^\s([^_]", re.DOTALL)
_SPACE: Final = re.compile(r"\\(?:q?quad|[,;:> ])|~")
_LENGTH: Final = re.compile(r"\s*\*?\s*\[")  # after a row: its distance to the next one
_ENVIRONMENT: Final = re.compile(r"\\(?:begin|end)\s*(?:\{([^{}]*)\})?")


def add_formulas(parser: MarkdownIt) -> None:
    """Add formulas to the syntax of a parser."""
    parser.block.ruler.before("fence", "formula", _read_block, {"alt": ["paragraph", "blockquote", "list"]})
    parser.inline.ruler.before("escape", "formula", _read_inline)
    parser.add_render_rule("formula_block", _block_html)
    parser.add_render_rule("formula", _inline_html)


def is_plain_formula(text: str) -> bool:
    """Return True if a formula has only known commands. They only draw symbols."""
    known = all(match[1] in _COMMANDS if match[1] else bool(match[2]) for match in _COMMAND.finditer(text))
    named = all(match[1] in _ENVIRONMENTS for match in _ENVIRONMENT.finditer(text))
    return (
        known
        and named
        and len(text) <= _LONGEST
        and not re.search("[$%#]", _COMMAND.sub("", text))
        and _is_small(text)
    )


def _is_small(text: str) -> bool:
    """Return True if a formula has few levels, rows and spaces, and is cheap to draw."""
    rows = [match.end() for match in _COMMAND.finditer(text) if match[0] == r"\\"]
    if len(rows) > _MOST_ROWS or any(_LENGTH.match(text, end) for end in rows):
        return False
    return len(_SPACE.findall(text)) <= _MOST_SPACES and _levels(text) <= _DEEPEST


def _levels(text: str) -> int:
    """Return the depth of a formula: its nested groups and consecutive commands."""
    groups, commands, most = 0, 0, 0
    for part in _PART.findall(text):
        groups += part in {"{", r"\left", r"\begin"} or part.endswith("[")
        groups -= part in {"}", r"\right", r"\end"}
        commands = commands + 1 if part.startswith("\\") else commands if part == "{" else 0
        most = max(most, groups + commands)
    return most


def _read_block(state: StateBlock, start: int, end: int, silent: bool) -> bool:  # noqa: FBT001 # as its parser calls it
    """Read the lines from an opening mark to its closing mark, or to an empty line.

    They are one block, even without the closing mark, which may arrive later.
    """
    opening = _line(state, start)[:2]
    closing = _CLOSING.get(opening)
    if closing is None or state.is_code_block(start):
        return False
    text, number = _line(state, start)[2:].strip(), start
    if closing in text and not text.endswith(closing):
        return False
    while closing not in text and number + 1 < end and not _ends(state, number + 1):
        number += 1
        text = _line(state, number).strip()
    if not silent:
        token = state.push("formula_block", "", 0)
        token.content = state.getLines(start, number + 1, state.blkIndent, False).strip()  # noqa: FBT003 # see above
        token.markup = opening if text.endswith(closing) and text.count(closing) == 1 else ""
        token.map = [start, number + 1]
        state.line = number + 1
    return True


def _ends(state: StateBlock, number: int) -> bool:
    return state.isEmpty(number) or state.sCount[number] < state.blkIndent


def _line(state: StateBlock, number: int) -> str:
    return state.src[state.bMarks[number] + state.tShift[number] : state.eMarks[number]]


def _read_inline(state: StateInline, silent: bool) -> bool:  # noqa: FBT001 # as its parser calls it
    match = _INLINE.match(state.src, state.pos, state.posMax) if state.src[state.pos] in "$\\" else None
    if match is None:
        return False
    if not silent:
        token = state.push("formula", "", 0)
        token.content = match[2] or match[3] or match[4]
        token.markup = match["double"] or "$"
    state.pos = match.end()
    return True


def _block_html(_renderer: Any, tokens: Sequence[Token], at: int, *_: Any) -> str:
    token = tokens[at]
    text = token.content[2:-2].strip() if token.markup else token.content
    if not token.markup or not is_plain_formula(text):
        return f"{element('pre', element('code', text), class_='out')}\n"
    return f"{element('p', _typeset_html(text, '$$', 'block'))}\n"


def _inline_html(_renderer: Any, tokens: Sequence[Token], at: int, *_: Any) -> str:
    text = tokens[at].content
    if not is_plain_formula(text):
        return str(element("code", text))
    if tokens[at].markup == "$$" or len(text) > _LONGEST_INLINE:
        return str(_typeset_html(text, "$$", "block"))
    return str(_typeset_html(text, "$"))


def _typeset_html(text: str, mark: str, kind: str = "") -> Html:
    """Return a formula for the typesetter, which works only within these classes."""
    return element("span", mark, text, mark, class_=("math", kind, "mathjax_process tex2jax_process"))
