"""Files and hosts that a piece of code reaches: in calls that open them, and in any other text."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, NamedTuple

from tract_jupyter.analysis.rules import rules_for
from tract_jupyter.analysis.rules.lookup import PathAccess, Sink, sinks
from tract_jupyter.analysis.tables.effects import derived, effects
from tract_jupyter.analysis.values import HOLE, MAX_CONST

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tract_jupyter.analysis.flows import Flows


class Resource(NamedTuple):
    """A file or host that a call reaches; ``computed`` is the expression that decides it when the code runs."""

    text: str
    computed: ast.expr | None = None


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _destroying(name: str) -> tuple[Sink, ...]:
    own = name.startswith("pathlib.")
    last = name.rpartition(".")[2]
    source = Sink(PathAccess.DELETE, -1 if own else 0, ("path", "src", "filename"))
    if last not in {"rename", "renames", "replace", "move"}:
        return (source,)
    return (source, Sink(PathAccess.WRITE, 0 if own else 1, ("dst", "target")))


@derived
def _sinks() -> Mapping[str, tuple[Sink, ...]]:
    destroys = effects().symbols["destroys-files"]
    return {**{name: _destroying(name) for name in destroys}, **sinks()}


_ACCESS = {PathAccess.WRITE: ("write",), PathAccess.DELETE: ("delete",)}

_PATH = "pathlib.Path()."
_OF_PATHS = _words("""
    read_text read_bytes write_text write_bytes symlink_to hardlink_to touch mkdir iterdir unlink rmdir
""")
"""Methods that only paths have, whatever they are called on."""

_NETWORK = frozenset({"TJ301", "TJ302"})
_ADDRESSES = _words("url host address base_url uri server hostname endpoint_url")
_ADDRESSED = _words("""
    connect connect_ex bind sendto get post put patch delete head options request stream open urlopen
""")
"""Methods of clients, sessions and sockets that take an address."""

# Each of these takes time in proportion to the text, however it was made.
_URL = re.compile(r":[/\\]{2}([^/?#\s'\"<>]+)")
_FILE = re.compile(r"(?i)(?:^|[^a-z0-9+.-])file")
_WHOLE_HOST = re.compile(r"[A-Za-z][\w+.-]*:[/\\]{2}[^/?#\s'\"<>]+[/?#]")
_PLACE = re.compile(
    r"(?:~[\w.-]*(?:[/\\]|$)|/|\.\.?[/\\]|\.\.$|[A-Za-z]:[\\/]|\\\\)[^\n]*"  # leads out of the folder
    r"|\S*[^\s/\\][/\\]\S*"  # has a folder
    r"|[\w?*.-]*\.[A-Za-z]\w{0,7}"  # has an extension
)
_METHOD = re.compile(r"[A-Z]{3,8}")


def shown(text: str) -> str:
    """Return a text with ``?`` for its unknown pieces."""
    return text.replace(HOLE, "?")


def is_path(text: str) -> bool:
    """Return True if a text looks like a path: it leads somewhere, has a folder or an extension."""
    return len(text) <= MAX_CONST and bool(_PLACE.fullmatch(text))


def hosts_of(text: str) -> Iterator[str]:
    """Yield the hosts of the addresses in a text; ``?`` for one that is partly computed."""
    for match in _URL.finditer(text):
        if not _FILE.fullmatch(text[max(0, match.start() - 5) : match.start()]):
            yield _host(match[1])


def _host(place: str) -> str:
    if any(letter in place for letter in (HOLE, "{", "%", "$")):
        return "?"
    # Programs disagree about what odd places mean, so these stay whole.
    return (place if any(letter in place for letter in "@\\") else re.sub(r":\d*$", "", place)).lower()


def sinks_of(name: str) -> tuple[Sink, ...]:
    """Return the operations on files that a dotted name may stand for."""
    last = name.rpartition(".")[2]
    vague = name.startswith("?") or "[...]" in name
    if last in _OF_PATHS or (last == "open" and vague):
        return _sinks().get(name) or _sinks()[_PATH + last]
    return _sinks().get(name) or _sinks().get(f"*.{last}", ())


def is_network(name: str) -> bool:
    """Return True if a dotted name belongs to a client or a server."""
    root = name.partition("()")[0]
    # The canonical name of socket.socket is that of its module.
    return any(rule.code in _NETWORK for one in (root, f"{root}.member") for rule, _ in rules_for(one))


class ResourceFinder:
    """The finder of the files and hosts that the calls of a piece of code reach."""

    def __init__(self, flows: Flows) -> None:
        self._flows = flows

    def files(self, name: str, call: ast.Call) -> Iterator[Resource]:
        """Yield the files that a call opens: ``read:PATH``, ``write:?``."""
        for sink in sinks_of(name):
            places = list(self._places(sink, call))
            accesses = self._accesses(name, sink, call)
            yield from (Resource(f"{access}:{text}", node) for access in accesses for text, node in places)

    def _places(self, sink: Sink, call: ast.Call) -> Iterator[Resource]:
        node = _owner(call) if sink.position < 0 else _argument(call, sink.position, sink.keywords)
        if node is None:
            if sink.access is PathAccess.LIST and sink.position >= 0:
                yield Resource(".")
            return
        texts = self._flows.texts(node)
        yield from (Resource(shown(text)) for text in texts if text and not text.startswith(HOLE))
        if not sink.anything and (not texts or not self._flows.is_certain(node)):
            yield Resource("?", node)

    def _accesses(self, name: str, sink: Sink, call: ast.Call) -> tuple[str, ...]:
        if name == "os.open":
            return ("read", "write")
        mode = None if sink.mode is None else _argument(call, sink.mode, ("mode",))
        if mode is None:
            return _ACCESS.get(sink.access, ("read",))
        texts = self._flows.texts(mode)
        if not texts or not self._flows.is_certain(mode) or any("+" in text for text in texts):
            return ("read", "write")
        writes = any(letter in text for text in texts for letter in "wax")
        return ("write",) if writes else _ACCESS.get(sink.access, ("read",))

    def hosts(self, name: str, call: ast.Call) -> Iterator[Resource]:
        """Yield the hosts that a call of a client or a server names."""
        if not is_network(name) or ("()" in name and name.rpartition(".")[2] not in _ADDRESSED):
            return
        for node in self._addresses(call):
            texts = self._flows.texts(node)
            for text in texts:
                yield from map(Resource, hosts_of(text) if _URL.search(text) else _bare(text))
            if not self._has_certain_host(node):
                yield Resource("?", node)

    def _addresses(self, call: ast.Call) -> Iterator[ast.expr]:
        """Yield the arguments that may be an address."""
        for keyword in call.keywords:
            if keyword.arg is None or keyword.arg in _ADDRESSES:
                yield keyword.value
        for node in call.args[:2]:
            # A socket takes a pair of host and port.
            yield node.elts[0] if isinstance(node, ast.Tuple) and node.elts else node
            method = all(_METHOD.fullmatch(text) for text in self._flows.texts(node) or ("",))
            sends = isinstance(call.func, ast.Attribute) and call.func.attr == "sendto"
            if not (method or sends):
                return

    def _has_certain_host(self, node: ast.expr) -> bool:
        """Return True if the host is certain, even if what follows it is computed: ``f"https://a.org/{page}"``."""
        if self._flows.is_certain(node):
            return True
        while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            node = node.left
        first = node.values[0] if isinstance(node, ast.JoinedStr) and node.values else node
        texts = self._flows.texts(first)
        return self._flows.is_certain(first) and bool(texts) and all(map(_WHOLE_HOST.match, texts))


def _bare(text: str) -> Iterator[str]:
    """Yield a host without a scheme, as sockets take it."""
    if text and not _METHOD.fullmatch(text):
        yield _host(text.partition("/")[0] or text)


def _owner(call: ast.Call) -> ast.expr:
    return call.func.value if isinstance(call.func, ast.Attribute) else call.func


def _argument(call: ast.Call, position: int, keywords: tuple[str, ...]) -> ast.expr | None:
    """Return the argument at a position or with a keyword. An unpacked one may be any of them."""
    for keyword in call.keywords:
        if keyword.arg is None or keyword.arg in keywords:
            return keyword.value
    starred = [node for node in call.args[: position + 1] if isinstance(node, ast.Starred)]
    return starred[0] if starred else call.args[position] if position < len(call.args) else None
