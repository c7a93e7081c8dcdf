"""Descriptions of arguments in the words of the effects files, and the level of a call by its arguments.

The words for an argument:

* ``missing``, ``true``, ``false``, ``none``, ``number``; ``=text`` for exactly this text; the last part of a dotted
  name (``SafeLoader``); ``function`` and ``class`` for the user's own.
* Texts: ``text`` (known), ``computed`` (known in part), ``plain`` (an expression that only computes), ``reaches``
  (an expression that leads to objects or statements), ``.pkl`` (its extension).
* Addresses and paths: ``public`` (an address of data, and the call sends nothing), ``remote``, ``inside``,
  ``outside``, ``temporary``, ``protected``, ``steering``.
* ``unknown``: nothing is known. ``given``: it comes from a field or the user. ``foreign``: it comes from there, from
  a file or from the network. ``any``: every argument.
"""

from __future__ import annotations

import ast
import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from tract_jupyter.analysis.paths import PathLocation
from tract_jupyter.analysis.rules.base import LOW
from tract_jupyter.analysis.source import arguments_of
from tract_jupyter.analysis.tables.effects import derived, effects
from tract_jupyter.analysis.tables.reader import patterns_of, words
from tract_jupyter.analysis.values import HOLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tract_jupyter.analysis.findings import RiskLevel
    from tract_jupyter.analysis.rules.base import Reference, Rule
    from tract_jupyter.analysis.tables.effects import ArgumentEffect
    from tract_jupyter.analysis.values import Value
    from tract_jupyter.analysis.view import CodeView

_WORDS = words(
    "missing true false none number function class plain reaches text computed public given foreign"
).union(place.name.lower() for place in PathLocation)
"""Reserved words. A dotted name that ends in one of them does not match it."""

_BOOLEANS = {True: "true", False: "false"}
_MAX_DEPTH = 6
_MAX_MEMBERS = 16
_MAX_PARTS = 200
_MAX_TEXT = 500


def judged(reference: Reference, rule: Rule, view: CodeView) -> RiskLevel | None:
    """Return the level of a mention by the arguments of its call; None for no finding."""
    calls = effects().calls.get((reference.symbol, rule.name))
    if calls is None:
        return reference.level
    if isinstance(reference.node, ast.alias):
        called = (reference.node.asname or reference.node.name) in view.program.calls
        return LOW if called else reference.level  # each call is a separate mention
    call = view.call_of(reference.node)
    levels = [level for each in calls for level in _levels(each, reference, call, view)]
    return max((level for level in levels if level is not None), default=None)


def _levels(
    entry: ArgumentEffect, reference: Reference, call: ast.Call | None, view: CodeView
) -> Iterator[RiskLevel | None]:
    usual = entry.level if entry.is_set else reference.level
    if call is None:
        yield usual
        return
    if entry.where is not None:
        name, word = entry.where
        other = next((keyword.value for keyword in call.keywords if keyword.arg == name), None)
        if not any(word in words for words in described(other, call, view)):
            return
    argument = _argument(entry, call)
    entry_words = {word for word, _ in entry.levels}
    brought = {"foreign"} if "foreign" in entry_words and is_foreign(argument, view) else set()
    brought |= {"given"} if "given" in entry_words and is_given(argument, view) else set()
    for argument_words in described(argument, call, view):
        words = argument_words if "text" in argument_words else argument_words | brought
        yield next((level for word, level in entry.levels if word in words), usual)


_SPREAD = ast.Name("**")


def _argument(entry: ArgumentEffect, call: ast.Call) -> ast.expr | None:
    """Return the argument; `_SPREAD` if it may be among the unpacked ones."""
    for keyword in call.keywords:
        if keyword.arg in entry.keywords:
            return keyword.value
    if entry.position is not None:
        positional = call.args[: entry.position + 1]
        if any(isinstance(node, ast.Starred) for node in positional):
            return _SPREAD
        if len(positional) > entry.position:
            return positional[entry.position]
    return _SPREAD if any(keyword.arg is None for keyword in call.keywords) else None


def described(node: ast.expr | None, call: ast.Call | None, view: CodeView) -> Iterator[frozenset[str]]:
    """Yield the words for each possible value of an argument."""
    if node is None or node is _SPREAD:
        yield frozenset({"missing" if node is None else "unknown", "any"})
        return
    if isinstance(node, ast.Constant) and node.value is None:
        yield frozenset({"none", "any"})
        return
    if isinstance(node, ast.Name) and node.id in view.program.classes:
        yield frozenset({"class", "any"})
        return
    yield from described_value(view.resolver.value(node), call, view)


def described_value(value: Value, call: ast.Call | None, view: CodeView) -> Iterator[frozenset[str]]:
    """Yield the words for each possibility of a value, and for the members of a list or tuple."""
    for const in value.consts:
        if isinstance(const, int):
            yield frozenset({_BOOLEANS[const] if isinstance(const, bool) else "number", "any"})
        else:
            text = const if isinstance(const, str) else const.decode("utf-8", "replace")
            yield _of_text(text, call, view)
    for member in (value.items or ())[:_MAX_MEMBERS]:
        yield from (words - {"text", "computed"} for words in described_value(member, call, view))
    named = {name.removesuffix("()").rpartition(".")[2] for name in value.names}
    yield from (frozenset({name, "unknown", "any"} - _WORDS) | {"unknown", "any"} for name in named)
    if value.functions:
        yield frozenset({"function", "any"})
    elif not value.consts and not named:
        yield frozenset({"unknown", "any"})


def _of_text(text: str, call: ast.Call | None, view: CodeView) -> frozenset[str]:
    words = {"any", "computed" if HOLE in text else "text"} | view.look(kind_of_code, text)
    if len(text) <= _MAX_TEXT:
        words.add(f"={text}")
    suffix = suffix_of(text) if len(text) <= _MAX_TEXT else ""
    if suffix:
        words.add(suffix)
    place = view.workspace.locate(text) if len(text) <= _MAX_TEXT else PathLocation.UNKNOWN
    words.add(place.name.lower())
    if place is PathLocation.REMOTE and is_public(text) and (call is None or not carries(call, view)):
        words.add("public")
    return frozenset(words)


_COMPRESSED = frozenset({".gz", ".bz2", ".xz", ".zst", ".lz4", ".zip", ".z"})


def suffix_of(path: str) -> str:
    """Return the extension of a path, in lower case, without a compression's extension."""
    suffixes = [suffix.lower() for suffix in PurePosixPath(path).suffixes[-2:]]
    if len(suffixes) > 1 and suffixes[-1] in _COMPRESSED:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


# code

_DANGEROUS = re.compile(
    r"__\w+__|\bimport\s+\w|\b(?:os|sys|subprocess|builtins|shutil|pathlib|socket|ctypes)\s*\.\s*\w"
    r"|\b(?:exec|eval|compile|open|getattr|setattr|delattr|globals|locals|vars|input|breakpoint|system|popen|Popen)\s*\("
)
_OWN_CALL = re.compile(r"@\s{0,9}\w{1,99}\s{0,9}\(")
_METHOD_CALL = re.compile(r"\.\s{0,9}(\w{1,99})\s{0,9}\(")
_COMPUTING = words("""
    mean median max min sum std var count nunique unique mode quantile isin between round abs any all head tail first
    last idxmax idxmin tolist to_list item lower upper strip startswith endswith contains len astype date normalize
    isna notna isnull notnull fillna cumsum shift diff rank nlargest nsmallest total_seconds keys get
""")
"""Methods that only compute in expressions about data frames: ``price > @df.price.mean()``."""


_FILLED = re.compile(r"\{[{%](?:(?!\{[{%]).)*?[%}]\}", re.DOTALL)


_LEADS_ON = re.compile(
    r"\|\s{0,9}attr\b|[\"']attr[\"']|\\|\b(?:lipsum|cycler|joiner|config|request|self|url_for|get_flashed_messages|import|include|extends)\b"
)
_JOINS = re.compile(r"[~+]")
_CALLED = re.compile(r"([|.]?)\s{0,9}(\w{0,99})\s{0,9}\(")
_FILLING = words(
    "range dict loop cycle items values format title capitalize join split replace strftime isoformat"
    " if not and or in elif is namespace caller"
)
"""Functions and methods that only compute in templates. In expressions they may do more."""


_MACRO = re.compile(r"\bmacro\s{1,9}(\w{1,99})")


def _only_fills(block: str, macros: frozenset[str]) -> bool:
    """Return True if a block of a template only computes with its input."""
    if _LEADS_ON.search(block) or (_JOINS.search(block) and ("[" in block or "format" in block)):
        return False
    called = _CALLED.findall(block)
    known = _FILLING | _COMPUTING | macros
    return all(sign == "|" or not name or name in known for sign, name in called)


def kind_of_code(text: str) -> frozenset[str]:
    """Return ``plain`` or ``reaches``, or neither if the text is not an expression."""
    if _reaches(text):
        return frozenset({"reaches"})
    if HOLE in text:
        return frozenset()
    if "{{" in text or "{%" in text:
        macros = frozenset(_MACRO.findall(text))
        computes = all(_only_fills(match[0], macros) for match in _FILLED.finditer(text))
        return frozenset({"plain"}) if computes else frozenset()
    try:
        tree = ast.parse(text[:_MAX_TEXT].strip().replace("@", " ").replace("^", "**"), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    called = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    methods = {function.attr for function in called if isinstance(function, ast.Attribute)}
    return frozenset({"plain"}) if methods <= _COMPUTING else frozenset()


def _reaches(text: str) -> bool:
    if _DANGEROUS.search(text):
        return True
    methods = _METHOD_CALL.findall(text) if "@" in text else ()
    return bool(not _COMPUTING.issuperset(methods) or ("@" in text and _OWN_CALL.search(text)))


# addresses

_ADDRESS = re.compile(r"(?i)^(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<host>[^/?#]*)(?P<rest>.*)$", re.DOTALL)
_PUBLIC_SCHEMES = frozenset({"http", "https", "ftp", "s3", "gs", "gcs", "hf", "az", "abfs"})
_LOCAL_ENDINGS = tuple(words("local internal onion localhost invalid test example lan corp home", "."))
_NUMERIC = re.compile(r"^[\d.]+$|^\[|^0x|:")
_CODE_FILE = re.compile(
    r"(?i)\.(?:py|pyc|pyw|ipynb|sh|bash|zsh|ps1|bat|cmd|exe|dll|so|dylib|js|whl|egg|jar|pkl|pickle|dill|joblib|pth?"
    r"|npy|deb|rpm|msi|apk|bin|run|yaml|yml)(?:$|[?#])"
)


@derived
def _collectors() -> re.Pattern[str]:
    names = "|".join(map(re.escape, sorted(effects().words.get("collecting_hosts", ()))))
    return re.compile(rf"(?i)(?:^|\.)(?:{names})$" if names else r"(?!)")


_OWN_HOST = re.compile(
    r"(?i)[\w+.-]{1,40}://(?:[^@/?#]{0,200}@)?(?:localhost|127\.0\.0\.1|\[::1\])(?:[:/?#]|$)"
)


def is_own_host(text: str) -> bool:
    """Return True if an address belongs to this machine."""
    return _OWN_HOST.match(text) is not None


def is_public(text: str) -> bool:
    """Return True if an address has public data: no code, and no service that collects data."""
    match = _ADDRESS.match(text)
    if match is None or match["scheme"].lower() not in _PUBLIC_SCHEMES:
        return False
    host = match["host"].lower()
    if (
        not host
        or HOLE in host
        or "@" in host
        or _NUMERIC.search(host.removesuffix(":443").removesuffix(":80"))
    ):
        return False
    if host == "localhost" or host.endswith(_LOCAL_ENDINGS):
        return False
    if "." not in host and match["scheme"].lower() in {"http", "https", "ftp"}:
        return False
    return not _CODE_FILE.search(match["rest"]) and not _collectors().search(host)


_READS = words("read_text() read_bytes() read() to_csv() to_json() to_string() getvalue()")
_PRIVATE_RULES = words("reads-environment reads-secret inspects-process starts-program reads-internals")


@derived
def _is_private(name: str) -> bool:
    """Return True if a value with this name was read from this machine: a file, a secret, a setting."""
    known = effects()
    root = name.partition("()")[0]
    around = patterns_of(root)
    if any(not known.symbols.get(rule, {}).keys().isdisjoint(around) for rule in _PRIVATE_RULES):
        return True
    if name != root and (root in known.paths or name.rpartition(".")[2] in _READS):
        return True
    return root in known.words.get("private_sources", ())


def carries(call: ast.Call, view: CodeView) -> bool:
    """Return True if a call's arguments contain data that was read from this machine."""
    return any(_parts(arguments_of(call), view, _is_private))


def is_given(node: ast.expr | None, view: CodeView) -> bool:
    """Return True if user input flows into an argument."""
    return node is not None and node is not _SPREAD and any(_parts([node], view, _is_typed))


def _is_typed(name: str) -> bool:
    return name.startswith(_FOREIGN)


_FOREIGN = (
    "tract_jupyter.pending().fields",
    "tract_jupyter.Pending().fields",
    "builtins.input()",
    "sys.argv",
)


@derived
def _brings(name: str) -> bool:
    """Return True if a value with this name comes from a field, a file, the network or the user."""
    if name.startswith(_FOREIGN):
        return True
    root, _, rest = name.partition("()")
    if rest.rpartition(".")[2] not in _TEXTS:
        return False
    known = effects()
    talks = not known.symbols["talks-to-network"].keys().isdisjoint(patterns_of(root))
    return root in known.paths or talks or root == "pathlib.Path"


_TEXTS = words("read() read_text() readline() readlines() text content json() decode()")


def is_foreign(node: ast.expr | None, view: CodeView) -> bool:
    """Return True if data from a field, a file, the network or the user flows into an argument."""
    return node is not None and node is not _SPREAD and any(_parts([node], view, _brings))


def _parts(nodes: Iterable[ast.expr], view: CodeView, is_asked: Callable[[str], bool]) -> Iterator[ast.AST]:
    """Yield the parts of expressions, and of the bindings of their names, whose dotted name satisfies a test."""
    stack: list[tuple[ast.AST, int]] = [(node, 0) for node in nodes]
    seen: set[ast.AST] = set()
    while stack and len(seen) < _MAX_PARTS:
        node, depth = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        named = view.resolver.value(node).names if isinstance(node, _NAMED) else ()
        reads = (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and f"{node.func.attr}()" in _READS
        )
        if reads or any(map(is_asked, named)):
            yield node
            continue
        if isinstance(node, ast.Name) and depth < _MAX_DEPTH:
            bound = [binding.node for binding in view.program.bindings_of(node) if binding.kind != "param"]
            stack += [(each, depth + 1) for each in bound if isinstance(each, ast.expr)]
        else:
            children = (child for child in ast.iter_child_nodes(node) if isinstance(child, _PARTS))
            stack += [(child, depth) for child in children]


_NAMED = (ast.Name, ast.Attribute, ast.Call, ast.Subscript)
_PARTS = (ast.expr, ast.keyword, ast.comprehension)
