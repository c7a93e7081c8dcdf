"""The network: asking others (TJ301), listening (TJ302)."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from tract_jupyter.analysis.findings import Category
from tract_jupyter.analysis.rules.base import HIGH, LIKELY, MEDIUM, Rule, register
from tract_jupyter.analysis.tables.reader import words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tract_jupyter.analysis.findings import Finding, RiskLevel
    from tract_jupyter.analysis.rules.base import Reference
    from tract_jupyter.analysis.values import Value
    from tract_jupyter.analysis.view import CodeView


_ACTS_ITSELF = frozenset({"logging.handlers"})
"""Modules whose objects act without a further call: a handler sends each message of a log."""


_FACTORIES = words("client resource connect from_env from_url create_pool")
"""Functions that make a client or a connection."""


@register
class TalksToNetwork(Rule):
    """Sends requests over the network.

    ## What it does
    Reports HTTP clients, sockets, mail, FTP, SSH, cloud SDKs and name look-ups. Reading a fixed, public address
    without sending data out is medium, and so are an import and a call that only makes a client. A method that
    acts (`post`, `delete_bucket`, `execute`) is high wherever the client was made.

    ## Why it matters
    A request carries data out (even a name look-up does) and brings instructions or code in.

    ## Example
    ```python
    requests.post("http://example.org/", data=secrets)
    ```

    ## What to do instead
    Use a tool for this service, whose address and arguments are reviewed.
    """

    code = "TJ301"
    name = "talks-to-network"
    category = Category.NETWORK
    level = HIGH
    effect = "talks to another machine"
    remedy = "Use a tool for this service."

    def on_reference(self, reference: Reference, view: CodeView) -> Iterator[Finding]:
        """Lower the level of a class and of an import: its methods act, and are mentions of their own."""
        owner, _, name = reference.symbol.rpartition(".")
        makes = name[:1].isupper() or name in _FACTORIES
        is_class = "()" not in owner and makes and owner not in _ACTS_ITSELF
        waits = is_class or isinstance(reference.node, ast.alias)
        level = MEDIUM if waits and reference.level > MEDIUM else reference.level
        yield self.finding(
            view, reference.node, f"{reference.shown} {self.effect}.", level, reference.confidence
        )


@register
class ListensOnNetwork(Rule):
    """Opens a server.

    ## What it does
    Reports servers of the standard library and of common web frameworks.

    ## Why it matters
    A server lets others into the kernel for as long as it runs.

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
_SHOWN = frozenset(f"{module}.{name}" for module in ("IPython.display", "ipywidgets") for name in _NAMES)
_REMOTE = re.compile(
    r"(?i)(?:src|href|srcset|data|action|url|poster|background)\s{0,9}=?\s{0,9}[\"'(]?\s{0,9}(?:https?:)?//|!\[[^\[\]]{0,999}\]\(\s{0,9}https?:"
    r"|@import|^\s*https?://"
)
_SCRIPT = re.compile(r"(?i)<script|\bon(?:error|load|click|mouse\w+)\s*=|javascript:|<iframe|<object|<embed")
_LINK = re.compile(r"(?i)<a\s[^<>]{0,9999}>")
_CELLS = frozenset({"html", "HTML", "svg", "SVG", "markdown", "latex"})


@register
class ShowsRemote(Rule):
    """Shows something that loads from elsewhere or runs in the browser.

    ## What it does
    Reports HTML, Markdown, images and frames whose text names an address that is loaded as soon as it is
    shown, and HTML with scripts. Links are fine, since they wait for a click.

    ## Why it matters
    Loading a picture sends its server whatever the address contains; a script acts in the notebook with
    the rights of the person who looks at it.

    ## Example
    ```python
    %%html
    <img src="https://example.org/?d=what-was-found">
    ```

    ## What to do instead
    Show data as a table or a plot; save pictures beside the notebook.
    """

    code = "TJ304"
    name = "shows-remote"
    category = Category.NETWORK
    level = MEDIUM
    effect = "loads something as soon as it is shown"
    remedy = "Show data as a table or a plot; save pictures beside the notebook."

    def check(self, view: CodeView) -> Iterator[Finding]:
        """Look at what is given to display classes, and at cells of HTML."""
        for call in view.calls_to(_SHOWN):
            given = (*call.args[:2], *(keyword.value for keyword in call.keywords))
            level = _worst([text for node in given for text in _texts(view.resolver.value(node))])
            if level is not None:
                yield self.finding(view, call, f"The displayed content {_effect(level)}.", level, LIKELY)
        for function in view.of(ast.FunctionDef):
            if function.name == "_repr_javascript_":
                yield self.finding(view, view.source.line_span(function.lineno), "Runs in the browser.", HIGH)
        for escape in view.escapes:
            level = _worst([escape.text]) if escape.kind == "cell_magic" and escape.name in _CELLS else None
            if level is not None:
                yield self.finding(view, escape.span, f"%%{escape.name} {_effect(level)}.", level, LIKELY)


def _texts(value: Value) -> Iterator[str]:
    """Yield the texts of a value, and of a dict from MIME type to text."""
    yield from value.texts
    for key, inner in value.entries or ():
        yield from (f"<script {text}" for text in inner.texts or ("",) if "javascript" in str(key))
        yield from inner.texts


def _worst(texts: list[str]) -> RiskLevel | None:
    if any(_SCRIPT.search(text) for text in texts):
        return HIGH
    return MEDIUM if any(_REMOTE.search(_LINK.sub("", text)) for text in texts) else None


def _effect(level: RiskLevel) -> str:
    return "runs in the browser" if level is HIGH else ShowsRemote.effect
