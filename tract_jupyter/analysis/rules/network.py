"""Rules about the network: requests (TJ301), servers (TJ302), displayed content (TJ304)."""

from __future__ import annotations

import ast
import re
from itertools import repeat
from typing import TYPE_CHECKING

from tract_jupyter.analysis.findings import Category
from tract_jupyter.analysis.rules.base import HIGH, LIKELY, MEDIUM, Rule, register
from tract_jupyter.analysis.rules.lookup import rules_for
from tract_jupyter.analysis.rules.other_calls import words_of
from tract_jupyter.analysis.tables.reader import words
from tract_jupyter.analysis.values import HOLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tract_jupyter.analysis.findings import Finding, RiskLevel
    from tract_jupyter.analysis.rules.base import Reference
    from tract_jupyter.analysis.values import Value
    from tract_jupyter.analysis.view import CodeView


_ACTS_ITSELF = frozenset({"logging.handlers"})
"""Modules whose objects act without a further call. For example, a handler sends each log message."""


_FACTORIES = words("client resource connect from_env from_url create_pool")
"""Functions that make a client or a connection."""

_CLIENTS = {("client",), ("driver",), ("pool",), ("engine",)}
"""The last word of the names of further such functions: ``get_client``."""


@register
class TalksToNetwork(Rule):
    """Sends requests over the network.

    ## Description
    Reports HTTP clients, sockets, mail, FTP, SSH, cloud SDKs and name lookups. The level is medium for an import,
    for a call that only creates a client, and for reading a fixed, public address without sending data. It is high
    for a method that acts (`post`, `delete_bucket`, `execute`), also if an earlier cell created the client. It is
    also high for any other function with an address and a body as arguments.

    ## Why it matters
    A request can send data out, even a name lookup. Its response can contain instructions or code.

    ## Example
    ```python
    requests.post("http://example.org/", data=secrets)
    ```

    ## What to do instead
    Use a tool for this service. Then the user reviews the address and the arguments.
    """

    code = "TJ301"
    name = "talks-to-network"
    category = Category.NETWORK
    level = HIGH
    effect = "talks to another machine"
    remedy = "Use a tool for this service."

    def level_of(self, reference: Reference, view: CodeView) -> RiskLevel:  # noqa: ARG002 - the name decides
        """Lower the level of a class and of an import. The methods act, and are separate mentions."""
        owner, _, name = reference.symbol.rpartition(".")
        name_words = words_of(name)
        makes = (
            name[:1].isupper()
            or name in _FACTORIES
            or name_words[-1:] in _CLIENTS
            or name_words[:2] == ("connect", "to")
        )
        is_class = "()" not in owner and makes and owner not in _ACTS_ITSELF
        waits = is_class or isinstance(reference.node, ast.alias)
        return MEDIUM if waits and reference.level > MEDIUM else reference.level


@register
class ListensOnNetwork(Rule):
    """Opens a server.

    ## Description
    Reports servers of the standard library and of common web frameworks.

    ## Why it matters
    While a server runs, other machines can reach the kernel.

    ## Example
    ```python
    http.server.HTTPServer(("0.0.0.0", 8000), Handler).serve_forever()
    ```

    ## What to do instead
    Run servers outside the notebook.
    """

    code = "TJ302"
    name = "listens-on-network"
    category = Category.NETWORK
    level = HIGH
    effect = "lets other machines connect"
    remedy = "Run servers outside the notebook."


_NAMES = words(
    "HTML Markdown SVG Latex Image IFrame Video Audio Javascript display display_html publish_display_data"
)
_SHOWN = frozenset(
    f"{module}.{name}" for module in ("IPython.display", "ipywidgets", "panel.pane") for name in _NAMES
)
_REMOTE = re.compile(
    r"(?i)(?:src|href|srcset|data|action|url|poster|background)\s{0,9}=?\s{0,9}[\"'(]?\s{0,9}(?:https?:)?//|!\[[^\[\]]{0,999}\]\(\s{0,9}https?:"
    r"|@import|^\s*https?://"
)
_CARRIES = re.compile(
    rf"//(?:[^\s\"'<>/?{HOLE}]{{0,255}}{HOLE}[^\s\"'<>/]{{0,255}}\.|[^\s\"'<>?]{{0,999}}\?[^\s\"'<>{HOLE}]{{0,999}}{HOLE})"
)
"""An address whose host or query contains data."""
_SCRIPT = re.compile(r"(?i)<script|\bon(?:error|load|click|mouse\w+)\s*=|javascript:|<iframe|<object|<embed")
_LINK = re.compile(r"(?i)<a\s[^<>]{0,9999}>")
_CELLS = frozenset({"html", "HTML", "svg", "SVG", "markdown", "latex"})


@register
class ShowsRemote(Rule):
    """Displays content that loads from another machine or runs in the browser.

    ## Description
    Reports HTML, Markdown, images and frames that load an address as soon as they are displayed, and HTML with
    scripts. The level is high if the address contains data, or if the content is the body of a response. Links
    are not reported, because they need a click.

    ## Why it matters
    Loading a picture sends the address, and the data in it, to a server. A script acts in the notebook with the
    rights of the user who opens it.

    ## Example
    ```python
    %%html
    <img src="https://example.org/?d=what-was-found">
    ```

    ## What to do instead
    Show data as a table or a plot. Save pictures in the folder of the notebook.
    """

    code = "TJ304"
    name = "shows-remote"
    category = Category.NETWORK
    level = MEDIUM
    effect = "loads an address as soon as it is displayed"
    remedy = "Show data as a table or a plot. Save pictures in the folder of the notebook."

    def check(self, view: CodeView) -> Iterator[Finding]:
        """Check the arguments of display classes, and cells of HTML."""
        for call in view.calls_to(_SHOWN):
            content = (*call.args[:2], *(keyword.value for keyword in call.keywords))
            if any(map(_from_network, content, repeat(view))):
                reason = "The displayed content comes from another machine, and may run in the browser."
                yield self.finding(view, call, reason, HIGH, LIKELY)
            texts = [text for node in content for text in _texts(view.resolver.value(node))]
            worst = _worst(texts or list(_texts_behind(content, view)), view)
            if worst is not None:
                yield self.finding(view, call, f"The displayed content {worst[1]}.", worst[0], LIKELY)
        for node in _scripts_set(view):
            yield self.finding(view, node, "The displayed content runs in the browser.", HIGH, LIKELY)
        yield from self._shows_itself(view)
        for escape in view.escapes:
            shows = escape.kind == "cell_magic" and escape.name in _CELLS
            worst = _worst([escape.text], view) if shows else None
            if worst is not None:
                yield self.finding(view, escape.span, f"%%{escape.name} {worst[1]}.", worst[0], LIKELY)

    def _shows_itself(self, view: CodeView) -> Iterator[Finding]:
        for function in view.of(ast.FunctionDef):
            returned = view.resolver.returned(function) if function.name in _SHOWS_ITSELF else None
            worst = _worst(list(_texts(returned)), view) if returned is not None else None
            if worst is not None:
                line = view.source.line_span(function.lineno)
                yield self.finding(view, line, f"The displayed object {worst[1]}.", worst[0])
            if function.name == "_repr_javascript_":
                yield self.finding(view, view.source.line_span(function.lineno), "Runs in the browser.", HIGH)


def _texts(value: Value) -> Iterator[str]:
    """Yield the texts of a value, and of a dict from MIME type to text."""
    yield from value.texts
    for key, inner in value.entries or ():
        yield from (f"<script {text}" for text in inner.texts or ("",) if "javascript" in str(key))
        yield from inner.texts


_CONTENT = frozenset({"value", "object", "data", "html", "innerHTML", "outerHTML", "srcdoc", "children"})
"""Attributes that hold the content of widgets."""


def _scripts_set(view: CodeView) -> Iterator[ast.expr]:
    for write in view.member_writes:
        texts = view.value(write.value).texts if write.member in _CONTENT else ()
        if any(view.look(_SCRIPT.search, text) for text in texts):
            yield write.node


_MAX_BEHIND = 200
_ESCAPES = frozenset(f"{module}.escape" for module in ("html", "markupsafe", "xml.sax.saxutils"))


def _texts_behind(nodes: Iterable[ast.expr], view: CodeView) -> Iterator[str]:
    """Yield the texts in computed content: in a template, or in the cells of a table without escaping."""
    stack: list[ast.AST] = list(nodes)
    seen: set[ast.AST] = set()
    while stack and len(seen) < _MAX_BEHIND:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.Name):
            value = view.program.last_value(node)
            stack += [value] if value is not None else []
        elif not (isinstance(node, ast.Call) and _escapes(node, view)):
            stack += ast.iter_child_nodes(node)


def _escapes(call: ast.Call, view: CodeView) -> bool:
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "to_html":
        return not view.resolver.value(call.func).names.isdisjoint(_ESCAPES)
    raw = any(
        keyword.arg == "escape" and isinstance(keyword.value, ast.Constant) and not keyword.value.value
        for keyword in call.keywords
    )
    return not raw and not any(getattr(each, "attr", "") == "style" for each in view.chain(call))


def _worst(texts: list[str], view: CodeView) -> tuple[RiskLevel, str] | None:
    """Return the highest level of the texts, and its effect."""
    return max((judged for text in texts if (judged := view.look(_judged, text))), default=None)


def _judged(text: str) -> tuple[RiskLevel, str] | None:
    if _SCRIPT.search(text):
        return HIGH, "runs in the browser"
    text = _LINK.sub("", text)
    if not _REMOTE.search(text):
        return None
    if _CARRIES.search(text):
        return HIGH, "sends data to another machine as soon as it is displayed"
    return MEDIUM, ShowsRemote.effect


_SHOWS_ITSELF = frozenset({"_repr_html_", "_repr_markdown_", "_repr_svg_", "_repr_mimebundle_"})
_RESPONSES = words("response resp res reply r page answer")
_BODY = frozenset({"text", "content", "html", "read", "json"})


def _from_network(node: ast.expr, view: CodeView) -> bool:
    """Return True if the content is the body of a response: ``HTML(response.text)``."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        node = node.func.value if node.func.attr in {"decode", "strip", "format", "replace"} else node.func
    if not isinstance(node, ast.Attribute) or node.attr not in _BODY:
        return False
    roots = {name.partition("()")[0] for name in view.resolver.value(node.value).names}
    if any(rule.code == TalksToNetwork.code for root in roots for rule, _ in rules_for(root)):
        return True
    named = isinstance(node.value, ast.Name) and node.value.id in _RESPONSES
    return named and node.attr in {"text", "content"}
