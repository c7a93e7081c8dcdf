"""Rules about files: reads (TJ201), writes (TJ202), deletes (TJ203), outside (TJ204), hidden (TJ205), remote (TJ303).

The rules share one table of sinks, which are operations that open a path. The location of the path determines the
code of the finding.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from tract_jupyter.analysis.findings import Category
from tract_jupyter.analysis.paths import PathLocation
from tract_jupyter.analysis.rules.arguments import carries, is_own_host, is_public, suffix_of
from tract_jupyter.analysis.rules.base import CRITICAL, HIGH, LOW, MEDIUM, RULES, Reference, Rule, register
from tract_jupyter.analysis.rules.lookup import PathAccess, Sink, paths_of, sinks
from tract_jupyter.analysis.tables.reader import words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tract_jupyter.analysis.findings import Finding, RiskLevel
    from tract_jupyter.analysis.view import CodeView


_UNSURE = 0.5


@register
class ReadsFile(Rule):
    """Reads a file.

    ## Description
    Reports operations that read or list files: `open`, `pathlib`, `glob`, numpy and pandas readers and
    more. The level is low if the path is inside the workspace or unknown.

    ## Why it matters
    The findings show at a glance which data the code uses.

    ## Example
    ```python
    rows = open("data.csv").read()
    ```

    ## What to do instead
    Nothing, if you intended to read the file. Otherwise pass the data as an argument.
    """

    code = "TJ201"
    name = "reads-file"
    category = Category.FILESYSTEM_READ
    level = LOW
    effect = "reads files"
    remedy = "Check that you intended this. Otherwise pass the data as an argument."

    @property
    def symbols(self) -> Mapping[str, RiskLevel]:
        """The operations that open a path."""
        return dict.fromkeys(sinks(), LOW)

    def on_reference(self, reference: Reference, view: CodeView) -> Iterator[Finding]:
        """Find the paths in the call, and report each under the code of its location."""
        paths = list(paths_of(reference, view))
        opens = sinks()[reference.symbol]
        is_in_memory = opens[0].address and view.call_of(reference.node) is not None
        is_import = isinstance(reference.node, ast.alias)  # each use has a finding
        if not (paths or is_in_memory or is_import or all(sink.anything for sink in opens)):
            yield self._mentioned(reference, opens[-1].access, view)
        for text, access in paths:
            place = PathLocation.UNKNOWN if text is None else view.workspace.locate(text)
            if place is PathLocation.OUTSIDE and text is not None:
                view.external.append(text)
            code, level = _judge(place, access)
            reads = access in {PathAccess.READ, PathAccess.OPEN}
            if place is PathLocation.REMOTE and reads and is_public(text or ""):
                call = view.call_of(reference.node)
                level = MEDIUM if call is None or not carries(call, view) else HIGH
            if place is PathLocation.REMOTE and reads and is_own_host(text or ""):
                level = MEDIUM
            if access is PathAccess.ENTER and place is PathLocation.OUTSIDE and _opens_anything(view):
                level = HIGH
            reason = f"{reference.shown} {access.value} {place.value}."
            if (
                place is PathLocation.INSIDE
                and access is PathAccess.WRITE
                and (change := _change(text or "", reference, view))
            ):
                level, reason = MEDIUM, f"{reference.shown} {change} a data file."
            sure = reference.confidence if text is not None else _UNSURE
            category = _category(place, access)
            yield RULES[code].finding(view, reference.node, reason, level, sure, category, [text])
            if access is PathAccess.WRITE and _only_empties(reference, view):
                level = HIGH if view.in_loop(reference.node) else MEDIUM
                yield RULES["TJ203"].finding(
                    view, reference.node, f"{reference.shown} empties the file.", level
                )

    @staticmethod
    def _mentioned(reference: Reference, access: PathAccess, view: CodeView) -> Finding:
        rule = RULES["TJ202" if access is PathAccess.WRITE else "TJ201"]
        reason = f"{reference.shown} {access.value} files."
        return rule.finding(view, reference.node, reason, LOW, _UNSURE, paths=[None])


_DATA = words(
    """
    csv tsv txt parquet feather arrow orc avro json jsonl ndjson xml xlsx xls ods h5 hdf hdf5 nc npy npz mat zarr db
    sqlite sqlite3 duckdb pkl pickle joblib dta sav rds geojson gpkg shp fasta fastq h5ad
    """,
    ".",
)
_KEEPS = frozenset("ax")
"""Modes of opening that keep the content of a file."""


def _change(text: str, reference: Reference, view: CodeView) -> str:
    """Return the effect on existing data: the file exists, or the code has read it before."""
    if suffix_of(text) not in _DATA:
        return ""
    mode = view.value(view.argument(view.call_of(reference.node), 1, "mode"))
    texts = [text for text in mode.texts if len(text) <= len("rb+t")]
    if texts and all(not _KEEPS.isdisjoint(text) for text in texts):
        adds = all("a" in text for text in texts) and view.workspace.has_file(text)
        return "adds to" if adds else ""
    is_there = text in view.look(_read_first, view) or view.workspace.has_file(text)
    return "overwrites" if is_there else ""


def _read_first(view: CodeView) -> frozenset[str]:
    """Return the paths that this code and earlier cells read before they write them."""
    first: dict[str, PathAccess] = {}
    for call in view.deadline.watched(view.program.nodes):
        if not isinstance(call, ast.Call):
            continue
        for name in _sinks_of(call.func, view):
            for text, access in paths_of(Reference(call.func, name, LOW, _UNSURE), view):
                first.setdefault(text or "", access)
    return frozenset(text for text, access in first.items() if access is PathAccess.READ)


def _sinks_of(function: ast.expr, view: CodeView) -> Iterator[str]:
    own = f"*.{function.attr}" if isinstance(function, ast.Attribute) else ""
    return (name for name in (*sorted(view.resolver.value(function).names), own) if name in sinks())


def _only_empties(reference: Reference, view: CodeView) -> bool:
    """Return True if the call only empties the file: ``open(path, "w").close()``, ``path.write_text("")``."""
    call = view.call_of(reference.node)
    parent = view.parent(call) if call is not None else None
    if call is not None and reference.symbol.endswith((".write_text", ".write_bytes")):
        content = call.args[0] if call.args else None
        return isinstance(content, ast.Constant) and not content.value and _is_found(reference.node, view)
    if reference.symbol != "builtins.open" or not isinstance(parent, ast.Attribute) or parent.attr != "close":
        return False
    return any("w" in text for text in view.value(view.argument(call, 1, "mode")).texts)


def _is_found(node: ast.AST, view: CodeView) -> bool:
    """Return True if the object of a method is a found path: ``for p in folder.glob("*")``."""
    owner = node.value if isinstance(node, ast.Attribute) else None
    if not isinstance(owner, ast.Name):
        return False
    sources = [binding.node for binding in view.program.bindings_of(owner) if binding.kind == "element"]
    return any(
        isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in _FINDERS
        for source in sources
        for call in (ast.walk(source) if source is not None else ())
    )


_FINDERS = frozenset({"glob", "rglob", "iglob", "iterdir", "listdir", "scandir", "walk"})


def _opens_anything(view: CodeView) -> bool:
    """Return True if the code also opens a file. Its relative path then starts at the entered directory."""
    return any(view.calls_to(("builtins.open",))) or any(view.method_calls(_OPENERS))


_OPENERS = words("read_text read_bytes write_text write_bytes read_csv glob rglob to_csv unlink")


def _category(place: PathLocation, access: PathAccess) -> Category:
    if place is PathLocation.REMOTE:
        return Category.NETWORK
    return Category.FILESYSTEM_WRITE if access is PathAccess.WRITE else Category.FILESYSTEM_READ


def _judge(place: PathLocation, access: PathAccess) -> tuple[str, RiskLevel]:
    lists = access in {PathAccess.LIST, PathAccess.ENTER}
    if place is PathLocation.OUTSIDE:
        return "TJ204", MEDIUM if lists else HIGH
    if place is PathLocation.SECRET:
        return "TJ205", LOW if lists else HIGH
    if place is PathLocation.PROTECTED:
        return "TJ205", LOW if lists else HIGH if access is PathAccess.WRITE else MEDIUM
    if place is PathLocation.STEERING and access is PathAccess.WRITE:
        return "TJ205", HIGH
    if place is PathLocation.REMOTE:
        return "TJ303", HIGH
    return ("TJ202" if access is PathAccess.WRITE else "TJ201"), LOW


@register
class WritesFile(Rule):
    """Writes a file inside the workspace.

    ## Description
    Reports operations that create or overwrite files, if the path is inside the workspace or unknown. Overwriting
    a data file that exists, or that the code read before, is medium.

    ## Why it matters
    Opening a file for writing empties it first.

    ## Example
    ```python
    open("data.csv", "w")
    ```

    ## What to do instead
    Write to a new name, or use mode `"x"`, which refuses to overwrite.
    """

    code = "TJ202"
    name = "writes-file"
    category = Category.FILESYSTEM_WRITE
    level = LOW
    effect = "writes files"
    remedy = 'Write to a new name, or open with mode "x".'


@register
class LeavesWorkspace(Rule):
    """Opens a path outside the workspace.

    ## Description
    Follows paths to the operations that open them, also joined, formatted and computed strings. Reports paths
    outside the workspace. For unknown functions, the verb in the name decides. A string that only looks like
    a path is never reported.

    ## Why it matters
    Keys, other projects and system files are outside the workspace.

    ## Example
    ```python
    open("../../.ssh/id_rsa").read()
    ```

    ## What to do instead
    Copy the files that you need into the workspace by hand.
    """

    code = "TJ204"
    name = "leaves-workspace"
    category = Category.FILESYSTEM_READ
    level = HIGH
    effect = "opens a path outside the workspace"
    remedy = "Copy the files that you need into the workspace."


@register
class OpensProtectedFile(Rule):
    """Opens a hidden or configuration file of the workspace.

    ## Description
    Reports paths with a component that starts with a dot: `.git`, `.env`, `.ipython` and so on. Also reports files that
    Python would import in place of a module, such as `json.py` or `pydantic.py` in the notebook's folder.

    ## Why it matters
    Such files hold secrets, or control other programs, for example as git hooks.

    ## Example
    ```python
    open(".git/hooks/pre-commit", "w")
    ```

    ## What to do instead
    Change configuration by hand.
    """

    code = "TJ205"
    name = "opens-protected-file"
    category = Category.FILESYSTEM_WRITE
    level = HIGH
    effect = "opens configuration"
    remedy = "Change configuration by hand."


@register
class ReadsAddress(Rule):
    """Passes a network address to a file reader.

    ## Description
    Reports addresses such as `https://...` that pandas, numpy and other readers fetch. The level is medium if the
    address is fixed and public, and the request contains no data from this machine.

    ## Why it matters
    The data can change without notice, and the address can contain data of this machine.

    ## Example
    ```python
    pd.read_csv("https://example.org/data.csv")
    ```

    ## What to do instead
    Download the file once and read the copy.
    """

    code = "TJ303"
    name = "reads-address"
    category = Category.NETWORK
    level = HIGH
    effect = "fetches from the network"
    remedy = "Download the file once and read the copy."


_FIRST = (
    Sink(PathAccess.DELETE, 0, ("path", "src", "filename", "paths", "directory", "fd", "path1", "lpath")),
)
_BOTH = (*_FIRST, Sink(PathAccess.DELETE, 1, ("dst", "target", "new", "path2", "rpath")))
_OWN = (Sink(PathAccess.DELETE, -1),)
_OWN_BOTH = (*_OWN, Sink(PathAccess.DELETE, 0, ("target", "target_dir")))
_MOVES = words("rename renames replace move move_into mv move_file movedir Rename")


_DECISIVE = frozenset({PathLocation.STEERING, PathLocation.SECRET})


@register
class Destroys(Rule):
    """Deletes, moves or changes files.

    ## Description
    Reports operations that delete, rename or truncate files, or change their permissions. The level rises in a
    loop, for whole directory trees, and for paths outside the workspace. Unknown functions are judged by their
    names (`drop_table`, `terminate_instances`) and arguments (`recursive=True`).

    ## Why it matters
    Deleted files cannot be restored.

    ## Example
    ```python
    shutil.rmtree("results")
    ```

    ## What to do instead
    Move the file to a folder of files to delete, and let the user delete them.
    """

    code = "TJ203"
    name = "destroys-files"
    category = Category.FILESYSTEM_DELETE
    level = MEDIUM
    effect = "deletes, moves or changes files"
    remedy = "Move it to a folder of files to delete, and let the user delete them."

    def on_reference(self, reference: Reference, view: CodeView) -> Iterator[Finding]:
        """Judge by the amount and the location of the deleted files."""
        texts = [text for text, _ in paths_of(reference, view, _sinks(reference.symbol)) if text is not None]
        outside = [text for text in texts if view.workspace.locate(text) is PathLocation.OUTSIDE]
        view.external.extend(outside)
        steering = [text for text in texts if view.workspace.locate(text) in _DECISIVE]
        level = self._level(reference, view, outside=bool(outside or steering))
        reason = f"{reference.shown} {self.effect}{' outside the workspace' if outside else ''}."
        sources = [text for text, _ in paths_of(reference, view, _sinks(reference.symbol)[:1])]
        yield self.finding(view, reference.node, reason, level, reference.confidence, paths=sources)

    def _level(self, reference: Reference, view: CodeView, *, outside: bool) -> RiskLevel:
        if reference.level is HIGH:
            return CRITICAL if outside else HIGH
        many = view.in_loop(reference.node) or _is_handed_on(reference.node, view)
        return HIGH if outside or many else reference.level


def _is_handed_on(node: ast.AST, view: CodeView) -> bool:
    """Return True if the function is an argument: ``map(os.unlink, paths)`` calls it for each path."""
    parent = view.parent(node)
    if isinstance(parent, ast.Call) and node is parent.func:
        return bool(view.resolver.value(parent.func).made)
    return isinstance(parent, ast.Call) and node in parent.args


def _sinks(symbol: str) -> tuple[Sink, ...]:
    """Return the arguments that hold the paths which a call deletes."""
    owner, _, last = symbol.rpartition(".")
    if owner == "*" or owner.endswith("Path()"):
        return _OWN_BOTH if last in _MOVES else _OWN
    return _BOTH if last in _MOVES else _FIRST
