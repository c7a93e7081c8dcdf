"""HTML that a user's code displays, without active content: tables and formatted text with their styles.

The HTML is parsed and written again with allowed elements only. A style sheet applies only within its output.
"""

from __future__ import annotations

import hashlib
import re
from html.parser import HTMLParser
from typing import Final

from tract_jupyter.notebook.views.html import Html, element, fragment


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_TAGS: Final = _words(
    "a abbr b blockquote br caption center cite code col colgroup dd del details dfn div dl dt em figcaption figure "
    "font h1 h2 h3 h4 h5 h6 hr i img ins kbd li mark ol p pre q s samp small span strong sub summary sup table tbody "
    "td tfoot th thead tr tt u ul var"
)
_EMPTY: Final = _words("br col hr img")
_DROPPED: Final = _words(
    "applet audio button canvas form frameset head iframe math noembed noframes noscript object option plaintext "
    "portal script select svg template textarea title video xmp"
)
"""Elements that are removed with their content. Of other forbidden elements, only the tags are removed."""
_ATTRIBUTES: Final = _words(
    "align alt bgcolor border cellpadding cellspacing color colspan dir height lang open rowspan scope span "
    "start title valign width"
)
_NEEDS_SCRIPTS = re.compile(r"<\s*(?:script|iframe|object|embed|canvas)\b", re.IGNORECASE)
_IMAGE = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/=\s]*")
_MOST_SHOWN: Final = 20_000  # characters of a text that is not read as HTML
_LINK = re.compile(r"https?://[^\s\"'<>]*")
_UNSAFE_CSS = re.compile(
    r"[\\<@{}&\r\f\0]|/\*|var\(|url|image|src|expression|behaviou?r|binding|position\s*:\s*(?:fixed|sticky)",
    re.IGNORECASE,
)
_CLASS = re.compile(
    r"dataframe|data|blank|index_name|(?:row|col)_heading|level\d+|(?:row|col)\d+|T_\w+|table-\w+|[A-Z]\w*"
)
"""Classes of tables. Other classes could be rows and buttons of this package."""
_ID = re.compile(r"T_\w+")
_CLOSES: Final = {
    "li": (_words("li"), _words("ul ol")),
    "dd": (_words("dd dt"), _words("dl")),
    "dt": (_words("dd dt"), _words("dl")),
    "table": (_words("table"), _words("td th caption")),
}
"""Elements that a browser closes before such a tag, unless one of the second group is open within them."""
_MOST_UNCLOSED: Final = 200
"""The most tags without an end. The parser reads the rest of the text again for each."""
_STRING = re.compile(r'"[^"\\\n{}]*"|\'[^\'\\\n{}]*\'')
_BACKGROUND = re.compile(
    r"(?:^|;)\s*background(?:-color)?\s*:\s*"
    r"((?!transparent|inherit|initial|unset|revert|none|currentcolor)[a-z]+|#(?:[\da-f]{3}){1,2}|(?:rgb|hsl)a?\([\d\s.%]+(?:,[\d\s.%]+){2}\))"
    r"\s*(?:!\s*important\s*)?(?:;|$)",
    re.IGNORECASE,
)
"""A background of one opaque color."""
_COLOR = re.compile(r"(?:^|;)\s*color\s*:", re.IGNORECASE)
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


def needs_scripts(text: str) -> bool:
    """Return True if the HTML shows little without scripts, frames or embedded objects."""
    return _NEEDS_SCRIPTS.search(text) is not None


def sanitized_html(text: str) -> Html:
    """Return HTML without scripts, event handlers, forms and addresses that a page would load."""
    scope = f"o-{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:12]}"
    if sum(part.count("<") - 1 for part in text.split(">") if "<" in part) > _MOST_UNCLOSED:
        return element("pre", text[:_MOST_SHOWN])
    reader = _Reader(scope)
    reader.feed(text)
    reader.close()
    return element("div", reader.result(), class_=scope)


class _Reader(HTMLParser):
    """Parses HTML, and writes its allowed parts."""

    def __init__(self, scope: str) -> None:
        super().__init__(convert_charrefs=True)
        self._scope = scope
        self._made: list[Html] = []
        self._open: list[str] = []
        self._dropped = ""
        self._depth = 0
        self._style: list[str] | None = None

    def result(self) -> Html:
        """Return the written HTML with all elements closed."""
        return fragment(self._made, map(_END.format, reversed(self._open)))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Write an allowed tag."""
        if self._dropped:
            self._depth += tag == self._dropped
        elif tag == "style":
            self._style = []
        elif tag in _DROPPED:
            self._dropped, self._depth = tag, 1
        elif tag in _TAGS:
            self._close_before(tag)
            attributes = fragment(_attribute(tag, name, value or "") for name, value in attrs)
            self._made.append(_START.format(tag, attributes))
            if tag not in _EMPTY:
                self._open.append(tag)

    def _close_before(self, tag: str) -> None:
        """Close the elements that a browser closes before a tag.

        Otherwise end tags could close elements outside the output.
        """
        closed, within = _CLOSES.get(tag, (frozenset(), frozenset()))
        for name in reversed(self._open):
            if name in closed:
                self.handle_endtag(name)
                return
            if name in within:
                return

    def handle_endtag(self, tag: str) -> None:
        """Close an element, and the open elements in it."""
        if self._dropped:
            self._depth -= tag == self._dropped
            self._dropped = self._dropped if self._depth else ""
        elif tag == "style" and self._style is not None:
            self._made.append(_style_element("".join(self._style), self._scope))
            self._style = None
        elif tag in self._open:
            while True:
                last = self._open.pop()
                self._made.append(_END.format(last))
                if last == tag:
                    break

    def handle_data(self, data: str) -> None:
        """Write escaped text."""
        if self._style is not None:
            self._style.append(data)
        elif not self._dropped:
            self._made.append(Html.escape(data))


_START: Final = Html("<{}{}>")
_END: Final = Html("</{}>")
_GIVEN: Final = Html(' {}="{}"')


def _attribute(tag: str, name: str, value: str) -> Html:
    if name == "style":
        allowed_parts = [part for part in value.split(";") if part.strip() and not _UNSAFE_CSS.search(part)]
        return _GIVEN.format(name, _readable(";".join(allowed_parts))) if allowed_parts else Html()
    if name in {"class", "id"}:
        allowed = _CLASS if name == "class" else _ID
        allowed_parts = [part for part in value.split() if allowed.fullmatch(part)]
        return _GIVEN.format(name, " ".join(allowed_parts)) if allowed_parts else Html()
    if name == "href" and tag == "a":
        link = Html(' href="{}" rel="noreferrer" target="_blank"')
        return link.format(value) if _LINK.fullmatch(value) else Html()
    if name == "src" and tag == "img":
        return _GIVEN.format(name, value) if _IMAGE.fullmatch(value) else Html()
    return _GIVEN.format(name, value) if name in _ATTRIBUTES else Html()


def _style_element(css: str, scope: str) -> Html:
    """Return a style sheet whose rules apply only within an output; empty if that is not certain."""
    css = _COMMENT.sub(" ", css)
    plain = _STRING.sub("", css)
    if "'" in plain or '"' in plain or _UNSAFE_CSS.search(re.sub("[{}]", "", css)):
        return Html()
    depth = 0
    for brace in re.findall("[{}]", plain):
        depth += 1 if brace == "{" else -1
        if depth < 0:
            return Html()
    css = re.sub(r"[^{};]+(?:;[^{};]*)*(?=\})", lambda found: _readable(found[0]), css)
    return Html() if depth else element("style", Html(f".tract.tract .{scope} {{{css}}}"))


def _readable(declarations: str) -> str:
    """Return CSS declarations. If they set only a background color, add black or white as the color of the text.

    The theme's text color fits only the theme's background.
    """
    background = _BACKGROUND.search(declarations)
    if background is None or _COLOR.search(declarations):
        return declarations
    return (
        f"{declarations.rstrip().rstrip(';')};color:lch(from {background[1]} calc((50 - l) * infinity) 0 0)"
    )
