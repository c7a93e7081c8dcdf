r"""Markdown of a model as HTML that runs nothing and loads nothing.

A front end trusts the live output of a cell. A reply must never get there as `text/markdown` or unchanged HTML, because
its scripts would run. Here, HTML in a reply stays text. A picture becomes its description and address. Only http, https
and mailto links work, and each shows its host.

Formulas are `$a$`, `$$a$$`, `\(a\)` and `\[a\]`. The typesetter of the page sets a formula if all its commands are in
`_COMMANDS`. Other commands can make links, load pictures and packages, or define commands. Such a formula stays as the
model wrote it, in the code font.
"""

from __future__ import annotations

import html
import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from tract_jupyter.models import printable, shortened
from tract_jupyter.notebook.chat.rows import highlighted_lines
from tract_jupyter.notebook.views.html import Html, element, fragment
from tract_jupyter.notebook.views.rows import out

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token


_DEEPEST = 40  # levels of quotes, lists and items; a deeper block would be incomplete, so it appears as typed
_MOST_OPENED = 20  # in one line: the parser reads every line of such a block once per level
_QUICK = 4_000  # characters of a code block that are highlighted each time it grows
_MOST_BRACKETS = 300  # in a paragraph: the parser tries each pair of them as a link
_MOST_MARKS = 2_000  # of emphasis in a paragraph, for the same reason
_MOST_CELLS = 5_000  # of a table
_LINE_COST, _CELL_COST, _LINK_COST = 40, 20, 100  # microseconds, with their content
_BUDGET = 1_200_000  # of a whole text
_CHEAP = 5_000  # up to this cost, a growing block is drawn each time; above it, after each quarter
_FREE, _FREE_EACH = 500_000, 100  # for all such blocks: at first, and per new character
_PLAIN = 16_000  # characters of a part, if all of it appears as typed
_HEAVY = re.compile(
    rf"^(?:(?:[ \t]*(?:>|[-*+][ \t]|\d{{1,9}}[.)][ \t])){{{_MOST_OPENED}}}|(?:[^|\n]*\|){{300}})",
    re.MULTILINE,
)
"""Matches a line that opens twenty quotes and lists, or 300 columns. Its block appears as typed."""
_RUN = re.compile(r"\S(?:[^\n]|\n(?![ \t]*\n))*\n*")
"""Matches lines up to an empty line."""
_LONGEST = 40_000  # characters of such lines; longer ones appear as typed
_ADDRESS = 200  # characters of a picture's address
_LANGUAGES = {
    **{name: name for name in ("python", "json", "yaml", "bash", "sql", "toml", "diff", "r")},
    "py": "python", "python3": "python", "ipython": "python", "sh": "bash", "shell": "bash", "yml": "yaml",
}  # fmt: skip
"""The highlighted languages. Some of the 500 languages of Pygments take minutes for a malicious line."""
_HOST = re.compile(r"[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?\.?|[0-9a-f:.]+", re.IGNORECASE)


def markdown_html(text: str) -> Html:
    """Return a text as HTML for a part of class `prose`."""
    stream = MarkdownStream()
    stream.append(text)
    return Html("\n").join(part for _, part in stream.parts())


def markdown_text(text: str) -> str:
    """Return the words of a Markdown text, without its marks."""
    return html.unescape(_TAG.sub("", markdown_html(text)))


_TAG: Final = re.compile(r"<[^>]*>")  # all tags are ours, because those of the text are escaped


class MarkdownStream:
    """A growing text as HTML. Each finished block is rendered once.

    A block never depends on later text, so reference links and underlined headings are not supported.
    """

    def __init__(self) -> None:
        self._done: list[tuple[str, Html]] = []
        self._last = ""
        """The block that may still grow, with its incomplete line."""
        self._added: list[str] = []
        self._settled = 0
        """The number of characters of the last block in complete, checked lines."""
        self._drawn: list[tuple[str, Html]] = []
        """The HTML of the last block when it had `_drawn_length` characters."""
        self._drawn_length = 0
        self._drawn_cost = 0
        self._left = _BUDGET
        """The remaining cost for blocks that have ended."""
        self._redrawn, self._free = 0, _FREE
        """The cost of drawing growing blocks, and its limit."""
        self._is_plain = False

    def append(self, text: str) -> None:
        """Append new text."""
        self._added.append(text)
        self._free = min(self._free + _FREE_EACH * len(text), _BUDGET)

    def parts(self) -> list[tuple[str, Html]]:
        """Return (id, HTML) of each block. Blocks of an earlier call stay the same, except for the last one.

        An expensive block is drawn again after it grew by a quarter. Until then, its new text follows as typed. If
        the whole text reaches its cost limit, the rest appears as typed.
        """
        self._take()
        is_cheap = self._drawn_cost <= _CHEAP and self._redrawn <= self._free
        if (
            not (self._is_plain or is_cheap)
            and self._drawn_length <= len(self._last) < self._drawn_length * 1.25
        ):
            added = self._last[self._drawn_length :]
            end = [(f"{len(self._done)}+", _typed(added))] if added else []
            return [*self._done, *self._drawn, *end]
        self._settle()
        first = len(self._done)
        blocks = [_Block([], self._last, 0)] if self._is_plain else _blocks(self._last, self._left)
        self._drawn = [
            (str(first + i), _html(block, growing=True)) for i, block in enumerate(blocks) if block.source
        ]
        self._drawn_length, self._drawn_cost = len(self._last), _cost(self._last)
        self._redrawn += self._drawn_cost
        return [*self._done, *self._drawn]

    def _take(self) -> None:
        added = "".join(self._added)
        self._added = ["\r"] if added.endswith("\r") else []  # half of a line end, or all of it
        self._last += added.removesuffix("\r").replace("\r\n", "\n").replace("\r", "\n")

    def _settle(self) -> None:
        """Render the finished blocks. Another block follows them in complete lines."""
        complete = self._last.rfind("\n") + 1
        if complete <= self._settled:
            return
        if not self._is_plain:
            blocks = _blocks(self._last[:complete], self._left)
            self._is_plain = bool(blocks) and blocks[-1].is_rest
            self._finish(blocks[:-1], blocks[-1].begin if blocks else 0)
        if self._is_plain:
            ends = [*range(_PLAIN, len(self._last), _PLAIN)]
            self._finish([_Block([], self._last[end - _PLAIN : end], 0) for end in ends], len(ends) * _PLAIN)
        self._settled = self._last.rfind("\n") + 1

    def _finish(self, blocks: list[_Block], end: int) -> None:
        """Render finished blocks, which are the text up to `end`."""
        self._done += [(str(len(self._done) + i), _html(block)) for i, block in enumerate(blocks)]
        self._left -= _cost(self._last[:end])
        self._last = self._last[end:]


class _Block:
    """A block at the top level: its tokens and its source from `begin` on. `is_rest` marks the rest over budget."""

    def __init__(self, tokens: list[Token], source: str, begin: int, *, is_rest: bool = False) -> None:
        self.tokens = tokens
        self.source = source
        self.begin = begin
        self.is_rest = is_rest


def _cost(text: str) -> int:
    """Return an upper bound of the rendering time in microseconds on an ordinary machine.

    It depends only on the text. The cost of two pieces is the sum of their costs.
    """
    marks = sum(map(text.count, "*_~`"))
    large = _LINE_COST * text.count("\n") + _CELL_COST * (text.count("|") + text.count(">"))
    return 2 * len(text) + 5 * marks + large + _LINK_COST * (text.count("[") + text.count("<"))


def _blocks(text: str, budget: int) -> list[_Block]:
    """Return the blocks of a text. After the end of the budget, the rest is one block, which appears as typed."""
    blocks, at = list[_Block](), 0
    for run in _RUN.finditer(text):
        begin, end = run.span()
        budget -= _cost(text[begin:end])
        if budget < 0:
            return [*blocks, *_parsed(text[at:begin], at), _Block([], text[begin:], begin, is_rest=True)]
        is_code = text.startswith(("```", "~~~"), begin)
        if (end - begin > _LONGEST and not is_code) or _HEAVY.search(text, begin, end):
            blocks += [*_parsed(text[at:begin], at), _Block([], text[begin:end], begin)]
            at = end
    return [*blocks, *_parsed(text[at:], at)]


def _parsed(text: str, offset: int) -> Iterator[_Block]:
    begins = [0, *(match.end() for match in re.finditer("\n", text)), len(text)]
    tokens, parsed = list[Any](), list[Any]()
    parser = _parser()
    parser.block.parse(text, parser, {}, parsed)
    for token in parsed:
        tokens.append(token)
        if token.level == 0 and token.nesting < 1:
            first, end = tokens[0].map
            begin = begins[first]
            yield _Block(tokens, text[begin : begins[min(end, len(begins) - 1)]], offset + begin)
            tokens = []


def _html(block: _Block, *, growing: bool = False) -> Html:
    parser = _parser()
    if not block.tokens or any(token.level >= _DEEPEST - 1 for token in block.tokens):
        return _typed(block.source)
    if sum(token.type == "td_open" for token in block.tokens) > _MOST_CELLS:
        return _typed(block.source)
    for token in block.tokens:
        if token.type == "inline":
            token.children = _inline(token)
    html = parser.renderer.render(block.tokens, parser.options, {"growing": growing})
    return Html(printable(html).strip("\n"))  # here, because "&#8238;" is now a character


def _typed(text: str) -> Html:
    return out(text)


def _inline(token: Token) -> list[Token]:
    from markdown_it.token import Token as Plain

    marks = sum(token.content.count(mark) for mark in "*_~")
    most = max(map(token.content.count, ["[", "$", "\\("]))
    if marks > _MOST_MARKS or most > _MOST_BRACKETS:
        return [Plain("text", "", 0, content=token.content)]
    return _parser().parseInline(token.content)[0].children or []


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": _DEEPEST})
    parser.enable(["table", "strikethrough"])
    parser.disable(["lheading", "reference", "html_block", "html_inline"])
    parser.validateLink = _is_link  # type: ignore[assignment,method-assign] # as its documentation does
    rules = {
        "image": _image, "link_open": _link_open, "link_close": _link_close, "fence": _code, "code_block": _code,
        "text": _text, "heading_open": _heading_open, "heading_close": _heading_close,
        "th_open": _cell_open, "td_open": _cell_open,
    }  # fmt: skip
    for name, rule in rules.items():
        parser.add_render_rule(name, rule)
    add_formulas(parser)
    return parser


def _is_link(address: str) -> bool:
    """Return True if the address may be a link or a picture. Other addresses stay plain text."""
    return bool(_target(address))


def _target(address: str) -> str:
    """Return the host of a link or the address of a mail; empty if the link is not allowed."""
    try:
        parts = urlsplit(address)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        return ""
    if parts.scheme == "mailto":
        return unquote(parts.path)
    return host if parts.scheme in {"http", "https"} and _HOST.fullmatch(host) else ""


_PER_CENT = re.compile(r"(?<=\d) (?=[%‰])")


def _text(_renderer: Any, tokens: Sequence[Token], at: int, *_: Any) -> str:
    """Return a text without line breaks between a number and its percent sign."""
    return str(Html.escape(_PER_CENT.sub("\N{NO-BREAK SPACE}", tokens[at].content)))


def _image(_renderer: Any, tokens: Sequence[Token], at: int, *_: Any) -> str:
    """Return the description and address of a picture. Loading it would reveal the reader."""
    token = tokens[at]
    address = shortened(str(token.attrs.get("src", "")), _ADDRESS)
    about = f": {token.content}" if token.content else ""
    return str(element("span", f"[picture{about}, not loaded: {address}]", class_="dim"))


def _link_open(_renderer: Any, tokens: Sequence[Token], at: int, *_: Any) -> str:
    address = str(tokens[at].attrs["href"])
    link = Html('<a href="{}" target="_blank" rel="noopener noreferrer">').format(address)
    return str(link) if address else ""


def _link_close(_renderer: Any, tokens: Sequence[Token], at: int, *_: Any) -> str:
    """End a link with its host, unless its text is the host."""
    begin = max(i for i in range(at) if tokens[i].type == "link_open")
    address = str(tokens[begin].attrs["href"])
    text = "".join(token.content for token in tokens[begin + 1 : at]).strip()
    if not address:
        return ""
    target = _target(address)
    is_told = text in {address, unquote(address), target} and "@" not in urlsplit(address).netloc
    host = None if is_told else (" ", element("span", f"({target})", class_="dim"))
    return str(fragment(Html("</a>"), host))


def _heading_open(_renderer: Any, tokens: Sequence[Token], at: int, *_: Any) -> str:
    """Begin a heading without an anchor or an entry in the table of contents of JupyterLab."""
    level = int(tokens[at].tag[1:])
    start = Html('<div class="h h{}" role="heading" aria-level="{}">')
    return str(start.format(level, min(level + 2, 6)))


def _heading_close(*_: Any) -> str:
    return "</div>"


def _cell_open(_renderer: Any, tokens: Sequence[Token], at: int, *_: Any) -> str:
    token = tokens[at]
    aligned = str(token.attrs.get("style", "")).removeprefix("text-align:")
    if aligned not in {"right", "center"}:
        return str(Html("<{}>").format(token.tag))
    return str(Html('<{} class="{}">').format(token.tag, aligned))


def _code(_renderer: Any, tokens: Sequence[Token], at: int, _options: Any, env: Any, *_: Any) -> str:
    token = tokens[at]
    name = token.info.split()[0].lower() if token.info.split() else ""
    text = token.content.removesuffix("\n")
    is_plain = name not in _LANGUAGES or (env.get("growing") and len(text) > _QUICK)
    code = text if is_plain else Html("\n").join(map(fragment, highlighted_lines(text, _LANGUAGES[name])))
    return str(element("pre", element("code", code), class_="out"))


# --- formulas

_INLINE: Final = re.compile(
    r"(?P<double>\$\$)([^$`]{1,1000}?)(?<!\\)\$\$|\$(?=[^\s$])([^$`]{1,1000}?)(?<![\s\\])\$(?!\d)|\\\((.{1,1000}?)\\\)",
    re.DOTALL,
)
"""A price is not a formula: no space follows the first dollar or precedes the last one, and no digit follows it."""
_CLOSING: Final = {"$$": "$$", "\\[": "\\]"}
_LONGEST_FORMULA: Final = 1_000  # characters of a formula that is typeset
_LONGEST_INLINE: Final = 100  # a longer one is a block, which scrolls
_DEEPEST_FORMULA: Final = 12
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
        and len(text) <= _LONGEST_FORMULA
        and not re.search("[$%#]", _COMMAND.sub("", text))
        and _is_small(text)
    )


def _is_small(text: str) -> bool:
    """Return True if a formula has few levels, rows and spaces, and is cheap to draw."""
    rows = [match.end() for match in _COMMAND.finditer(text) if match[0] == r"\\"]
    if len(rows) > _MOST_ROWS or any(_LENGTH.match(text, end) for end in rows):
        return False
    return len(_SPACE.findall(text)) <= _MOST_SPACES and _levels(text) <= _DEEPEST_FORMULA


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
    while closing not in text and number + 1 < end:
        if state.isEmpty(number + 1) or state.sCount[number + 1] < state.blkIndent:
            break
        number += 1
        text = _line(state, number).strip()
    if not silent:
        token = state.push("formula_block", "", 0)
        token.content = state.getLines(start, number + 1, state.blkIndent, False).strip()  # noqa: FBT003 # see above
        token.markup = opening if text.endswith(closing) and text.count(closing) == 1 else ""
        token.map = [start, number + 1]
        state.line = number + 1
    return True


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
