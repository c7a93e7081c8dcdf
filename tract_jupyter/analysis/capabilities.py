"""The capability diff: the capabilities of code, and the new capabilities of a changed version.

A reviewer of a change uses it. It reads only the text of the code, and executes and imports nothing. If the text is
unclear, the diff has too many entries rather than too few, because a missing entry would defeat the review. The diff
explains code and does not restrict it.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import hashlib
import re
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from tract_jupyter.analysis.calls import GETATTR, IMPORTERS
from tract_jupyter.analysis.flows import Flows, NormalForms, shorten
from tract_jupyter.analysis.ipython_syntax import transform
from tract_jupyter.analysis.rules import rules_for
from tract_jupyter.analysis.rules.lookup import PathAccess, Sink, database_path, sinks
from tract_jupyter.analysis.source import PARSE_ERRORS, arguments_of, parse
from tract_jupyter.analysis.tables.effects import derived, effects
from tract_jupyter.analysis.tables.reader import words
from tract_jupyter.analysis.values import HOLE, MAX_CONST, canonical

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from tract_jupyter.analysis.flows import Key


_CALL_KINDS = {
    **dict.fromkeys(("TJ101", "TJ103", "TJ109"), "a command"),
    **dict.fromkeys(("TJ102", "TJ104", "TJ105", "TJ108", "TJ110"), "code from text"),
    "TJ107": "native code",
    "TJ401": "a computed import",
    "TJ404": "a computed attribute",
}
"""Rules about functions with unknown effects. The diff shows the whole call."""

_TABLES = "names looked up by text"
_SECRETS = frozenset({"TJ501", "TJ502", "TJ503"})
_BY_TEXT = frozenset({"builtins.globals", "builtins.locals", "builtins.vars"})
_SETATTR = {"builtins.setattr": "{} =", "builtins.delattr": "del {}", **dict.fromkeys(GETATTR, "{}")}
_RUNNERS = words("""
    eval query exec execute executescript system run_cell run_line_magic run_cell_magic run_code runsource
    apply_decision
""")
"""Methods of any object that take code as text."""

_TYPES = (str, int, float, bool, complex, bytes, list, dict, set, tuple, frozenset, type(None), type(...))
_PLAIN = frozenset(
    {kind.__name__ for kind in _TYPES}
    | {name for name in dir(builtins) if name.endswith(("Error", "Exception", "Warning"))}
)
"""Builtins whose mention is not a capability. Their calls are."""

_DUNDER = re.compile(
    r"__(?!(?:name|qualname|doc|version|class)__)\w+__|[fg]i?_(?:globals|builtins|locals|frame|code|back)"
)
_WHOLE_NAME = re.compile(r"[\w.?]*\w(?:\(parameter\))?")
_TOOL = re.compile(r"(?:^|\.)tools\.(\w+)")
_BY_NAME = re.compile(r"(?:^|\.)(?:executor\.execute|bridge\.call|tools\.call)")
_PRIVATE_FIELD = re.compile(r"\{[^{}]*(?:\._|\[__)")


def _dotted(name: str) -> str:
    return shown(name.removeprefix("builtins."))


class CapabilityCollector:
    """A collector of the capabilities of code. Its attributes have the names of the fields of `Capabilities`."""

    def __init__(self, flows: Flows, forms: NormalForms) -> None:
        self._flows = flows
        self._forms = forms
        self._outside = ResourceFinder(flows)
        self._seen: dict[str, set[Key]] = {}
        self._at_sinks: set[ast.AST] = set()
        self.imports: set[str] = set()
        self.calls: set[str] = set()
        self.attributes: set[str] = set()
        self.files: set[str] = set()
        self.hosts: set[str] = set()
        self.tools: set[str] = set()
        self.unknown: set[str] = set()

    def run(self) -> None:
        """Visit all nodes, inner ones first. This keeps each evaluation shallow."""
        nodes = self._flows.nodes[::-1]
        for node in nodes:
            look = self._LOOKS.get(type(node))
            if look is not None:
                look(self, node)
        for node in nodes:
            if isinstance(node, (ast.Constant, ast.JoinedStr, ast.BinOp, ast.Call, ast.Subscript)):
                self._text(node)

    def _not_known(self, what: str, node: ast.expr) -> None:
        """Record an expression as unknown, with everything that flows into it."""
        self.unknown.add(f"{what}: {self._forms.of(node)}")
        for source in self._flows.into(node, self._seen.setdefault(what, set())):
            self.unknown.add(f"{what}, _ = {self._forms.of(source)}")

    # statements

    def _import(self, node: ast.Import) -> None:
        self.imports.update(alias.name for alias in node.names)

    def _import_from(self, node: ast.ImportFrom) -> None:
        module = "." * node.level + (node.module or "")
        self.imports.add(module)
        for alias in node.names:
            if alias.name == "*":
                self.unknown.add(f"everything of {module}")
            elif node.level:
                self.attributes.add(f"{module}.{alias.name}")
            else:
                self.attributes.add(_dotted(canonical(f"{module}.{alias.name}")))

    def _decorated(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        for decorator in node.decorator_list:
            self._called(decorator)

    def _pattern(self, node: ast.MatchClass) -> None:
        self.attributes.update(f"?.{name}" for name in node.kwd_attrs)

    # mentions

    def _mention(self, node: ast.Name | ast.Attribute) -> None:
        """Collect a name or a chain of attributes, unless it is part of a longer chain."""
        names = self._flows.dotted(node)
        self._internals(node, names)
        for name in names:
            self.tools.update(_TOOL.findall(name))
        parent = self._flows.parent(node)
        if isinstance(parent, ast.Attribute) and all(len(name) < 100 for name in names):  # noqa: PLR2004 - see MAX_NAME
            return
        called = isinstance(parent, ast.Call) and parent.func is node
        if isinstance(node, ast.Attribute):
            form = {ast.Load: "{}", ast.Store: "{} =", ast.Del: "del {}"}[type(node.ctx)]
            reached = (name for name in names if not called or not name.startswith(("?", "builtins.")))
            if not isinstance(node.ctx, ast.Load):  # the target of a write, not its current value
                reached = (f"{owner}.{node.attr}" for owner in self._flows.dotted(node.value))
            self.attributes.update(form.format(_dotted(name)) for name in reached)
        elif isinstance(node.ctx, ast.Load) and not called:
            full_names = {_dotted(name) for name in names if name != "?" and _WHOLE_NAME.fullmatch(name)}
            self.attributes |= full_names - _PLAIN
        if not called:
            self._handed_on(node, names)

    def _internals(self, node: ast.Name | ast.Attribute, names: Iterable[str]) -> None:
        """Collect access to the interpreter's internals and to secrets."""
        if isinstance(node, ast.Attribute) and _DUNDER.fullmatch(node.attr):
            self._not_known("the interpreter's insides", self._chain(node))
        codes = {rule.code for name in names for rule, _ in rules_for(name)}
        if "TJ403" in codes:
            self._not_known(_TABLES, self._chain(node))
        if codes & _SECRETS:
            outer = self._flows.access(node)
            parent = self._flows.parent(outer)
            self._secret(parent if isinstance(parent, ast.Call) and parent.func is outer else outer)

    def _secret(self, node: ast.expr) -> None:
        own = any(self._flows.key(part)[0] for part in ast.walk(node) if isinstance(part, ast.Name))
        if own:
            self._not_known("a computed variable of the environment", node)
        self.attributes.add(self._forms.of(node))

    def _chain(self, node: ast.expr) -> ast.expr:
        """Return the longest chain of attributes, items and calls, without the arguments of its last call."""
        while True:
            outer = self._flows.access(node)
            call = self._flows.parent(outer)
            if not isinstance(call, ast.Call) or call.func is not outer or self._flows.access(call) is call:
                return outer
            node = call

    def _handed_on(self, node: ast.expr, names: Iterable[str]) -> None:
        """Collect a passed function that opens, runs or sends something: ``map(open, paths)``."""
        if not any(rules_for(name) or sinks_of(name) or is_network(name) for name in names):
            return
        around = self._flows.parent(node)
        while isinstance(around, (ast.keyword, ast.Starred, ast.List, ast.Tuple, ast.Dict, ast.IfExp)):
            around = self._flows.parent(around)
        if isinstance(around, ast.Call):
            self._not_known("a function handed on", around)

    def _item(self, node: ast.Subscript) -> None:
        if isinstance(node.ctx, ast.Load):
            return
        form = "{}[...] =" if isinstance(node.ctx, ast.Store) else "del {}[...]"
        owners = (name for name in self._flows.dotted(node.value) if not name.startswith("builtins."))
        self.attributes.update(form.format(_dotted(name)) for name in owners)

    # calls

    def _called(self, function: ast.expr) -> None:
        for name in self._flows.dotted(function):
            if name == "?" or name.endswith("]") or HOLE in name:
                self._not_known("a computed call", function)
            if name != "?":
                self.calls.add(_dotted(name))

    def _call(self, node: ast.Call) -> None:
        self._called(node.func)
        for name in self._flows.dotted(node.func):
            self._call_effects(node, name)
            self._by_text(node, name)
            self._tool(node, name)
            self._add(self.files, "a computed path", self._outside.files(name, node))
            self._add(self.hosts, "a computed address", self._outside.hosts(name, node))
            if sinks_of(name):
                self._at_sinks.update(arguments_of(node))

    def _add(self, entries_so_far: set[str], what: str, entries: Iterable[Resource]) -> None:
        for entry in entries:
            entries_so_far.add(entry.text)
            if entry.computed is not None:
                self._not_known(what, entry.computed)

    def _call_effects(self, node: ast.Call, name: str) -> None:
        """Collect calls whose effect depends on the whole call, such as imports by name and commands."""
        root = name.partition("()")[0]
        if root in GETATTR:
            return
        # other arguments (a package, a list of names) also determine the imported module
        is_plain = len(node.args) == 1 and not node.keywords
        if name in IMPORTERS and is_plain and self._flows.is_certain(node.args[0]):
            self.imports.update(text.replace(":", ".") for text in self._flows.texts(node.args[0]))
            return
        codes = {rule.code for known in (name, root) for rule, _ in rules_for(known)}
        for code in codes & _CALL_KINDS.keys():
            self._not_known(_CALL_KINDS[code], node)
        if name in _BY_TEXT:
            self._not_known(_TABLES, self._chain(node))
        if not codes & _CALL_KINDS.keys() and "." in name and name.rpartition(".")[2] in _RUNNERS:
            self._not_known("code from text", node)

    def _by_text(self, node: ast.Call, name: str) -> None:
        """Collect ``getattr(x, "name")`` and similar calls."""
        form = _SETATTR.get(name)
        if form is None:
            return
        name_node = node.args[1] if len(node.args) > 1 else None
        if (
            name_node is None
            or isinstance(node.args[0], ast.Starred)
            or not self._flows.is_certain(name_node)
        ):
            self._not_known("a computed attribute", self._chain(node) if form == "{}" else node)
            return
        for owner in self._flows.dotted(node.args[0]) or {"?"}:
            for text in self._flows.texts(name_node):
                reached = canonical(f"{owner}.{text}")
                self.attributes.add(form.format(_dotted(reached)))
                self.tools.update(_TOOL.findall(reached))
                if _DUNDER.fullmatch(text):
                    self._not_known("the interpreter's insides", self._chain(node))

    def _tool(self, node: ast.Call, name: str) -> None:
        """Collect fired operations, and tools that are called by name."""
        fires = name.rpartition(".")[2] == "fire"
        if not fires and not _BY_NAME.search(name):
            return
        before = "fire_" if fires else ""
        named = [keyword.value for keyword in node.keywords if keyword.arg in {"operation", "name"}]
        tool_node = (named or node.args or [node])[0]
        self.tools.update(before + shown(text) for text in self._flows.texts(tool_node))
        if not self._flows.is_certain(tool_node):
            self.tools.add(before + "?")
            self._not_known("a computed tool", tool_node)

    # texts

    def _text(self, node: ast.expr) -> None:
        """Collect addresses and paths in any text, including computed texts."""
        containers = (ast.JoinedStr,) if isinstance(node, ast.Constant) else (ast.JoinedStr, ast.BinOp)
        if isinstance(self._flows.parent(node), containers):
            return
        for text in _value(node) or self._flows.texts(node):
            for host in hosts_of(text):
                self.hosts.add(host)
                if host == "?":
                    self._not_known("a computed address", node)
            if is_path(text) and node not in self._at_sinks:
                self.files.add(f"names:{shown(text)}")
            if _PRIVATE_FIELD.search(text):
                self._not_known("a format that reads private attributes", node)

    _LOOKS: ClassVar[dict[type[ast.AST], Callable[..., None]]] = {
        ast.Import: _import,
        ast.ImportFrom: _import_from,
        **dict.fromkeys((ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef), _decorated),
        ast.MatchClass: _pattern,
        **dict.fromkeys((ast.Name, ast.Attribute), _mention),
        ast.Subscript: _item,
        ast.Call: _call,
    }


def _value(node: ast.expr) -> tuple[str, ...]:
    """Return the text of a literal, however long."""
    value = node.value if isinstance(node, ast.Constant) else None
    if isinstance(value, bytes):
        return (value.decode("utf-8", "replace"),)
    return (value,) if isinstance(value, str) else ()


UNPARSABLE = "code that does not parse"
"""The one entry of `Capabilities.unknown` for code that is not Python."""


@dataclass(frozen=True)
class Capabilities:
    """The capabilities of a piece of code, as far as its text shows.

    In a dotted name, ``?`` means an unknown object, ``[...]`` an item, and ``()`` the result of a call. Names that the
    code chose itself do not occur.

    Attributes:
        imports: Modules, as the code names them.
        calls: Called functions: ``os.system``, ``print``, ``pending.approve``, ``?.append``.
        attributes: Attributes that the code reads, functions and modules that it passes on, and names that it imports
            from a module. Writes end with ``=``, and deletions begin with ``del``: ``pending.fields[...] =``.
            Environment variables have their name: ``os.environ['HOME']``.
        files: ``read:PATH``, ``write:PATH`` and ``delete:PATH`` for operations on files, with ``?`` for a computed
            path; ``names:PATH`` for another text that looks like a path.
        hosts: Hosts of all addresses; ``?`` for a computed one.
        tools: Tools that the code calls or passes on. A fired operation counts as its tool ``fire_<name>``.
        unknown: The source of expressions with unknown effects, with ``_`` for the code's own names, and an entry for
            each expression that flows into these names.
    """

    imports: frozenset[str] = frozenset()
    calls: frozenset[str] = frozenset()
    attributes: frozenset[str] = frozenset()
    files: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()
    tools: frozenset[str] = frozenset()
    unknown: frozenset[str] = frozenset()

    def merged(self, others: Iterable[Capabilities]) -> Capabilities:
        """Return the union with other capabilities, for example of all actions of an operation."""
        versions = (self, *others)
        return Capabilities(
            **{
                field.name: frozenset().union(*(getattr(each, field.name) for each in versions))
                for field in fields(self)
            }
        )


def capabilities_of(code: str, *, parameters: Collection[str] = ()) -> Capabilities:
    """Return the capabilities of any text, without executing or importing it.

    Args:
        code: A cell or the body of an action: Python with IPython's additions.
        parameters: Names that the caller binds, such as ``pending`` and an action's parameters.
    """
    try:
        return _read(code, parameters)
    except Exception:  # noqa: BLE001 - code that is too complex has unknown capabilities
        digest = hashlib.sha256(code.encode("utf-8", "backslashreplace")).hexdigest()
        return Capabilities(unknown=frozenset({f"code that the analysis gave up on ({digest[:16]})"}))


def widened(old: Capabilities, new: Capabilities) -> Capabilities:
    """Return the entries that only the new version has.

    No entry covers another one. A computed or unknown entry of the old version does not allow named entries of the
    new version.
    """
    return Capabilities(
        **{field.name: getattr(new, field.name) - getattr(old, field.name) for field in fields(new)}
    )


def _read(code: str, parameters: Collection[str]) -> Capabilities:
    plain, escapes = code, frozenset[str]()
    if not _parses(code):
        changed = transform(code)
        plain = changed.code
        escapes = frozenset(f"a shell line or magic: {shorten(escape.text)}" for escape in changed.escapes)
        if not _parses(plain):
            return Capabilities(unknown=frozenset({UNPARSABLE}))
    flows = Flows(plain, parameters)
    collector = CapabilityCollector(flows, NormalForms(plain, flows))
    collector.run()
    collector.unknown |= escapes
    return Capabilities(
        **{field.name: frozenset(getattr(collector, field.name)) for field in fields(Capabilities)}
    )


def _parses(code: str) -> bool:
    with contextlib.suppress(*PARSE_ERRORS):
        parse(code)
        return True
    return False


class Resource(NamedTuple):
    """A file or host that a call reaches. ``computed`` is the expression that determines it at run time."""

    text: str
    computed: ast.expr | None = None


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
_OF_PATHS = words("""
    read_text read_bytes write_text write_bytes symlink_to hardlink_to touch mkdir iterdir unlink rmdir
""")
"""Methods that only paths have, on any object."""

_NETWORK = frozenset({"TJ301", "TJ302"})
_ADDRESSES = words("url host address base_url uri server hostname endpoint_url")
_ADDRESSED = words("""
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
_SETTINGS = re.compile(r"\s*(?:host|hostaddr|dbname|user|port|service|password)\s?=")
_HOST_SETTING = re.compile(r"\bhost(?:addr)?\s?=\s?'?([^\s';]+)")


def shown(text: str) -> str:
    """Return a text with ``?`` for its unknown pieces."""
    return text.replace(HOLE, "?")


def is_path(text: str) -> bool:
    """Return True if a text looks like a path: it leaves the folder, or has a folder or an extension."""
    return len(text) <= MAX_CONST and bool(_PLACE.fullmatch(text))


def hosts_of(text: str) -> Iterator[str]:
    """Yield the hosts of the addresses in a text; ``?`` for a partly computed host."""
    for match in _URL.finditer(text):
        if not _FILE.fullmatch(text[max(0, match.start() - 5) : match.start()]):
            yield _host(match[1])


def _host(place: str) -> str:
    if any(letter in place for letter in (HOLE, "{", "%", "$")):
        return "?"
    # Programs disagree about what odd places mean, so these stay whole.
    return (place if any(letter in place for letter in "@\\") else re.sub(r":\d*$", "", place)).lower()


def sinks_of(name: str) -> tuple[Sink, ...]:
    """Return the file operations of a dotted name."""
    last = name.rpartition(".")[2]
    vague = name.startswith("?") or "[...]" in name
    if last in _OF_PATHS or (last == "open" and vague):
        return _sinks().get(name) or _sinks()[_PATH + last]
    return _sinks().get(name) or _sinks().get(f"*.{last}", ())


def is_network(name: str) -> bool:
    """Return True if a dotted name belongs to a client or a server."""
    root = name.partition("()")[0]
    # The canonical name of socket.socket is that of its module.
    return any(rule.code in _NETWORK for symbol in (root, f"{root}.member") for rule, _ in rules_for(symbol))


class ResourceFinder:
    """A finder of the files and hosts that calls reach."""

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
        if sink.address and texts:
            texts = tuple(filter(None, map(database_path, texts)))
            if not texts and self._flows.is_certain(node):
                return
        yield from (Resource(shown(text)) for text in texts if text and not text.startswith(HOLE))
        if (not sink.anything or sink.data) and (not texts or not self._flows.is_certain(node)):
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
        """Return True if the host is certain, even if the rest is computed: ``f"https://a.org/{page}"``."""
        if self._flows.is_certain(node):
            return True
        while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            node = node.left
        first = node.values[0] if isinstance(node, ast.JoinedStr) and node.values else node
        texts = self._flows.texts(first)
        return self._flows.is_certain(first) and bool(texts) and all(map(_WHOLE_HOST.match, texts))


def _bare(text: str) -> Iterator[str]:
    """Yield a host without a scheme, as for sockets, or from settings such as ``host=db dbname=shop``."""
    if _SETTINGS.match(text):
        yield from _HOST_SETTING.findall(text) or ["localhost"]
    elif text and not _METHOD.fullmatch(text):
        yield _host(text.partition("/")[0] or text)


def _owner(call: ast.Call) -> ast.expr:
    return call.func.value if isinstance(call.func, ast.Attribute) else call.func


def _argument(call: ast.Call, position: int, keywords: Collection[str]) -> ast.expr | None:
    """Return the argument at a position or with a keyword. An unpacked argument may be any of them."""
    for keyword in call.keywords:
        if keyword.arg is None or keyword.arg in keywords:
            return keyword.value
    starred = [node for node in call.args[: position + 1] if isinstance(node, ast.Starred)]
    return starred[0] if starred else call.args[position] if position < len(call.args) else None
