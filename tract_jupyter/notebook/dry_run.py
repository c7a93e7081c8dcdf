"""List what a headless run would refuse: a notebook or a folder against its recorded decisions. Nothing runs."""

from __future__ import annotations

import ast
import os
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from tract_jupyter.analysis import transform
from tract_jupyter.exceptions import ContentError, LockFileError, OperationError, StoreError, TractError
from tract_jupyter.models import printable, tracked, working
from tract_jupyter.notebook.cell_syntax import ParsedCell, parse_cell
from tract_jupyter.notebook.fire_line import parse_fire
from tract_jupyter.notebook.options import OperationOptions
from tract_jupyter.operations import activation_fingerprint, check_spec
from tract_jupyter.review import (
    LOCK_FILE,
    NOT_SIGNED,
    Project,
    RecordedDecision,
    Trust,
    fingerprint,
    read_lock,
    refusal,
    split_words,
    take,
)
from tract_jupyter.storage import Database, TractRows, file_of
from tract_jupyter.tract import Tract

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tract_jupyter.analysis import Escape
    from tract_jupyter.context import Damage
    from tract_jupyter.models import Work
    from tract_jupyter.operations import OperationSpec
    from tract_jupyter.runs import RunRoot


@dataclass(frozen=True, slots=True)
class Refusal:
    """Something that a run without a person would refuse, or that is odd about its recorded decisions.

    Attributes:
        path: of the notebook, or of the lock file.
        cell: which cell, counted from 1 among all cells; None if it is about the file.
        line: which line of the cell.
        what: what is asked.
        why: why it would be refused.
        kind: `refused`; `unknown`, where only a run tells; of entries of the lock file `unsigned`, `foreign` or
            `unused`.
    """

    path: Path
    cell: int | None
    line: int | None
    what: str
    why: str
    kind: Literal["refused", "unknown", "unsigned", "foreign", "unused"] = "refused"

    def __str__(self) -> str:
        place = "" if self.cell is None else f", cell {self.cell}, line {self.line}"
        return printable(f"{self.path}{place}: {self.kind}: {self.what}: {' '.join(self.why.split())}")


class DefinitionStep(NamedTuple):
    """A `%%tract_operation` cell. `line` counts from 1 in the cell, as everywhere here."""

    line: int
    parsed: ParsedCell
    activate: bool
    wait: bool


class FireStep(NamedTuple):
    """A `%tract_fire` line. One that is indented runs as often as the code around it says."""

    line: int
    text: str
    is_indented: bool


class HandlerStep(NamedTuple):
    """A handler for an operation, or for all (`*`)."""

    line: int
    operation: str


class CallStep(NamedTuple):
    """Python code that may ask: for an operation by name, or, with an empty name, for anything."""

    line: int
    text: str
    operation: str


class ErrorStep(NamedTuple):
    """A step that would stop the run."""

    line: int
    what: str
    why: str


Step = DefinitionStep | FireStep | HandlerStep | CallStep | ErrorStep
_MAGICS = {"tract_fire", "tract_operation"}


def steps(source: str) -> list[Step]:
    """List what a code cell defines and asks, in the order of its lines."""
    defined = definition_in(source)
    if defined is not None:
        return [defined]
    transformed = transform(source)
    found = [*_magics(transformed.escapes), *_calls(transformed.code)]
    return sorted(found, key=lambda step: step.line)


def definition_in(source: str) -> DefinitionStep | ErrorStep | None:
    """Return what a `%%tract_operation` cell defines, or why it cannot; None for any other cell."""
    name = "%%tract_operation"
    lines = source.splitlines(keepends=True)
    first = next((number for number, line in enumerate(lines) if line.strip()), 0)
    indent = lines[first][: len(lines[first]) - len(lines[first].lstrip())] if lines else ""
    header, *body = [line.removeprefix(indent) for line in lines[first:]] or [""]
    if header.split()[:1] != [name] or header.rstrip().endswith("?"):
        return None
    try:
        options = OperationOptions.parse(header.strip().removeprefix(name))
        name = f"{name} {options.name}".strip()
        # a line in front, as the magic does, so that lines are those of the cell
        parsed = parse_cell(options.name, "\n" + "".join(body), options.form)
        parsed = parsed.with_options(ask=options.ask, sandbox=options.sandbox)
    except (OperationError, ValueError) as error:
        return ErrorStep(first + 1, name, str(error))
    return DefinitionStep(first + 1, parsed, options.activate, options.wait)


def _magics(escapes: tuple[Escape, ...]) -> Iterator[Step]:
    for escape in escapes:
        line = escape.span.line
        if escape.kind == "line_magic" and escape.name == "tract_fire":
            yield FireStep(line, escape.rest, escape.span.column > 0)
        elif escape.kind == "line_magic" and escape.name == "run":
            yield CallStep(line, f"%run {escape.rest}", "")


def _calls(code: str) -> Iterator[Step]:
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return  # not Python, or an error that stops the run before anything is asked
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            step = _call(node, node.func)
            if step is not None:
                yield step


def _call(node: ast.Call, function: ast.Attribute) -> Step | None:
    first, name = _first_text(node), function.attr
    if name == "on" and (first is not None or _is_tract(function.value)):
        return HandlerStep(node.lineno, "*" if first is None else first)
    if name == "fire":
        return CallStep(node.lineno, _spelling(function), first or "")
    if name.startswith("fire_"):
        return CallStep(node.lineno, _spelling(function), name.removeprefix("fire_"))
    is_proposal = name == "propose_operation" or (
        name == "propose" and _named(function.value) == "operations"
    )
    if is_proposal or (name in {"run_line_magic", "run_cell_magic"} and first in _MAGICS):
        return CallStep(node.lineno, _spelling(function), "")
    return None


def _named(node: ast.expr) -> str:
    """Return the last name of an expression such as `tract.operations`."""
    return node.attr if isinstance(node, ast.Attribute) else ""


def _is_tract(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "tract"


def _spelling(function: ast.Attribute) -> str:
    """Return the call as messages name it; in short, where a chain is longer than Python's own stack."""
    try:
        return f"{ast.unparse(function)}(...)"
    except RecursionError:
        return f"….{function.attr}(...)"


def _first_text(node: ast.Call) -> str | None:
    first = node.args[0] if node.args else None
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else None


class Variables(dict[str, Any]):
    """Stands for the namespace of a notebook that does not run; notes whether it was asked for a value."""

    asked = False

    def __contains__(self, name: object) -> bool:
        self.asked = True
        return True

    def __missing__(self, name: str) -> None:
        return None


def load_notebook(path: Path) -> dict[str, Any]:
    """Read a notebook file.

    Raises:
        ContentError: the file does not exist or is not a notebook.
    """
    import nbformat

    try:
        notebook: dict[str, Any] = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
    except OSError as error:
        raise ContentError(f"{path} cannot be read: {error.strerror}; check the path") from None
    except (
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        RecursionError,
        nbformat.ValidationError,
    ) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ContentError(
            f"{path} is not a notebook that nbformat {nbformat.__version__} can read: {reason:.200}; "
            "open it in Jupyter and save it, or repair its JSON"
        ) from None
    return notebook


def code_cells(notebook: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    """Yield the place of each code cell among all cells, from 1, and its source."""
    for number, cell in enumerate(notebook["cells"], 1):
        if cell["cell_type"] == "code":
            yield number, cell["source"]


_AROUND = "the code around it decides whether and how often it is asked"
_VALUES = "the values of its variables are known only when it runs"


class DryRun:
    """Follows the cells of one notebook on an empty store.

    Args:
        path: of the notebook.
        cells: the place of each code cell, its source, and what it does.
        entries: of the lock file, those that count here and others.
        project: tells them apart.
        lock_name: of the lock file.
    """

    def __init__(
        self,
        path: Path,
        cells: list[tuple[int, str, list[Step]]],
        entries: tuple[RecordedDecision, ...],
        project: Project,
        lock_name: str,
    ) -> None:
        self.found: list[Refusal] = []
        self.used: set[str] = set()
        """Signatures of the entries that would be used."""
        self.may_ask: set[str] = set()
        """Titles of what may be asked besides, when it runs; `*` for anything."""
        self._path, self._entries, self._project, self._lock_name = path, entries, project, lock_name
        self._versions = _versions(cells)
        self._active: dict[str, OperationSpec] = {}
        self._inactive: dict[str, str] = {}
        self._handled: set[str] = set()
        self._cell = self._line = 0
        for self._cell, self._source, steps in cells:
            for step in steps:
                self._line = step.line
                self._follow(step)

    def _follow(self, step: Step) -> None:
        match step:
            case DefinitionStep():
                self._define(step)
            case FireStep():
                self._fire(step)
            case HandlerStep():
                self._handled.add(step.operation)
            case CallStep():
                self._call(step)
            case ErrorStep():
                self._note(step.what, step.why)

    # --- definitions

    def _define(self, step: DefinitionStep) -> None:
        what = f"activate operation {step.parsed.spec.name}"
        try:
            spec = step.parsed.checked()
        except OperationError as error:
            self._note(what, str(error))
            return
        if spec == self._active.get(spec.name):
            return
        self._inactive.pop(spec.name, None)
        if step.activate:
            self._active[spec.name] = spec
        else:
            self._propose(spec, what, waits=step.wait)

    def _propose(self, spec: OperationSpec, what: str, *, waits: bool) -> None:
        entry = self._take(activation_fingerprint(spec))
        if entry is None:
            self._inactive[spec.name] = f"its activation in cell {self._cell} would be refused"
            self._note(what, self._why_not(activation_fingerprint(spec), f"Activate operation {spec.name}"))
        elif entry.action == "approve":
            self._active[spec.name] = spec
        else:
            self._inactive[spec.name] = f"{entry.decided_by} rejected it, as {self._lock_name} says"
            if waits:
                self._note(what, f"{self._inactive[spec.name]}, and '--wait' stops the run there")

    # --- questions

    def _fire(self, step: FireStep) -> None:
        name = next(iter(split_words(step.text)), "")
        what, spec = f"%tract_fire {name}".strip(), self._active.get(name)
        variables, given, values, problem = Variables(), None, {}, ""
        try:
            given = parse_fire(step.text, variables)
            if spec is not None and not variables.asked:
                values = spec.given_parameters().validate(given.fields)
        except OperationError as error:
            problem = str(error)
        is_reviewed = given is not None and given.review
        unclear = self._unclear(step, variables, name, is_reviewed=is_reviewed)
        if problem and unclear not in {_VALUES, _AROUND}:
            self._note(what, problem)
        elif spec is None and unclear != _AROUND:
            self._not_active(name, what)
        elif spec is not None and given is not None and not is_reviewed and spec.unhandled != "ask":
            pass  # nobody is asked
        elif unclear:
            self._may_ask(what, name, unclear)
        elif spec is not None and spec.two_stage:
            self._may_ask(what, name, "a model writes its guidance when it is fired")
        elif spec is not None:
            self._ask(spec, values, what)

    def _unclear(self, step: FireStep, variables: Variables, name: str, *, is_reviewed: bool) -> str:
        if step.is_indented:
            return _AROUND
        if variables.asked or step.text.endswith("\\"):
            return _VALUES
        if not is_reviewed and self._handled & {name, "*"}:
            return "a handler may decide it"
        return ""

    def _not_active(self, name: str, what: str) -> None:
        later = [cell for cell, spec in self._versions if spec.name == name and cell > self._cell]
        if name in self._inactive:
            self._note(what, f"operation {name!r} would not be active: {self._inactive[name]}")
        elif later and "*" not in self.may_ask:
            self._note(what, f"operation {name!r} is not active yet: it is defined in cell {later[0]}")
        else:
            self._may_ask(what, name, f"no cell before defines operation {name!r}")

    def _ask(self, spec: OperationSpec, values: dict[str, Any], what: str) -> None:
        identity = operation_identity(spec, values)
        entry = self._take(identity)
        if entry is not None:
            if (
                entry.action in spec.actions
            ):  # only a run tells what that makes of the fields, and whether it decides
                self.may_ask.add(spec.name)
            return
        others = [
            cell
            for cell, other in self._versions
            if other.name == spec.name and other != spec and self._has(operation_identity(other, values))
        ]
        why = self._why_not(identity, spec.name)
        if others:
            why = f"the entry in {self._lock_name} is for the version of {spec.name!r} in cell {others[-1]}"
        self._note(what, why)

    def _call(self, step: CallStep) -> None:
        spec = self._active.get(step.operation)
        if spec is not None and spec.unhandled != "ask" and step.text.startswith("tools."):
            return
        self._may_ask(step.text, step.operation or "*", "what Python code asks is known only when it runs")

    # ---

    def _take(self, identity: str) -> RecordedDecision | None:
        return take(self._entries, identity, self.used, self._project, self._source)

    def _has(self, identity: str) -> bool:
        return any(entry.identity == identity for entry in self._entries)

    def _why_not(self, identity: str, title: str) -> str:
        return refusal(self._entries, identity, title, self._project, self._source, self._lock_name)

    def _may_ask(self, what: str, title: str, why: str) -> None:
        self.may_ask.add(title)
        self.found.append(Refusal(self._path, self._cell, self._line, what, why, "unknown"))

    def _note(self, what: str, why: str) -> None:
        self.found.append(Refusal(self._path, self._cell, self._line, what, why))


def operation_identity(spec: OperationSpec, values: dict[str, Any]) -> str:
    """Return the identity by which a recorded decision about a fired operation is found.

    Args:
        spec: of the operation.
        values: all values of its fields.
    """
    kept = {name: value for name, value in values.items() if name not in spec.volatile}
    return fingerprint("operation", spec.name, spec.spec_hash, kept)


def _versions(cells: list[tuple[int, str, list[Step]]]) -> list[tuple[int, OperationSpec]]:
    """Return every valid definition with its cell."""
    found = []
    for cell, _, steps in cells:
        for step in steps:
            if isinstance(step, DefinitionStep):
                try:
                    found.append((cell, check_spec(step.parsed.spec)))
                except OperationError:
                    continue
    return found


_COPIES = ".ipynb_checkpoints"


def verify(path: str | Path, *, lock_file: str = LOCK_FILE) -> list[Refusal]:
    """List what a run of notebooks without a person (nbclient, papermill, CI) would refuse, on an empty store.

    Cells are parsed; nothing runs. What only a run tells (values of variables, calls in Python code, how often code in
    a loop asks) is listed as `unknown`. Entries of the lock file that you have not signed are listed as `unsigned`,
    those of another project or notebook as `foreign`, and those that no notebook beside it asks about as `unused`.

    Args:
        path: a notebook, or a folder: then all notebooks below it, but for Jupyter's own copies.
        lock_file: the name of the file of recorded decisions, which lies beside each notebook.

    Raises:
        ContentError: the notebook does not exist, or the file is not a notebook.
        TrustError: the signing secret cannot be read.
    """
    path = Path(path)
    chosen = _below(path) if path.is_dir() else [path]
    folders: dict[Path, list[Path]] = defaultdict(list)
    for notebook in chosen:
        folders[notebook.parent].append(notebook)
    found: list[Refusal] = []
    with working("Checking notebooks", len(chosen)) as work:
        for folder, notebooks in folders.items():
            found += _in_folder(folder / lock_file, notebooks, work, stops=not path.is_dir())
    return found


def _in_folder(lock: Path, notebooks: list[Path], work: Work, *, stops: bool) -> list[Refusal]:
    trust = Trust()
    try:
        entries, project = read_lock(lock), Project.of(lock, trust)
    except LockFileError as error:
        return [Refusal(lock, None, None, "recorded decisions", str(error))]
    found, runs = [], []
    for notebook in notebooks:
        try:
            run = _dry_run(notebook, entries, project, lock.name)
        except ContentError as error:
            if stops:
                raise
            found.append(Refusal(notebook, None, None, "the notebook", str(error)))
        else:
            found += run.found
            runs.append(run)
        work.advance()
    others = [other for other in lock.parent.glob("*.ipynb") if other not in notebooks] if entries else []
    for other in others:  # they share the file
        try:
            runs.append(_dry_run(other, entries, project, lock.name))
        except ContentError:
            continue
    return found + _odd_entries(lock, entries, runs, project)


def _dry_run(
    notebook: Path, entries: tuple[RecordedDecision, ...], project: Project, lock_name: str
) -> DryRun:
    cells = [(number, source, steps(source)) for number, source in code_cells(load_notebook(notebook))]
    return DryRun(notebook, cells, entries, project, lock_name)


def _odd_entries(
    lock: Path, entries: tuple[RecordedDecision, ...], runs: list[DryRun], project: Project
) -> list[Refusal]:
    used = set().union(*(run.used for run in runs))
    may_ask = set().union(*(run.may_ask for run in runs))
    found = []
    for number, entry in enumerate(entries, 1):
        what = f"entry {number}, {entry.title}"
        why_not = project.why_not(entry)
        if why_not:
            is_of_here = bool(project.project_id) and entry.project == project.project_id
            is_unsigned = is_of_here and not entry.verifies(project.signer)
            kind: Literal["foreign", "unsigned"] = "unsigned" if is_unsigned else "foreign"
            found.append(Refusal(lock, None, None, what, f"it {why_not}; it does not count", kind))
        elif entry.signature not in used and not _may_be_asked(entry, may_ask):
            why = "nothing in the notebooks beside it asks about this, or not as often"
            found.append(Refusal(lock, None, None, what, why, "unused"))
    return found


def _may_be_asked(entry: RecordedDecision, may_ask: set[str]) -> bool:
    """Return whether something that only a run tells may ask about it.

    Tools and built-in operations are called by code.
    """
    if entry.kind in {"tool", "pending"} or "*" in may_ask:
        return True
    return entry.kind == "operation" and entry.title in may_ask


def _below(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.ipynb") if _COPIES not in path.parts and path.is_file())


_SUFFIXES = {".db", ".sqlite", ".sqlite3"}
_FILE_BEGINS = b"SQLite format 3\0"  # https://www.sqlite.org/fileformat.html


@dataclass(frozen=True, slots=True)
class VerifiedTract:
    """The result of verifying a tract.

    Attributes:
        damaged: what is not as it was written.
        runs: its runs, the oldest first.
        unsigned: what stands there without this user's signature, in words: operations, handlers, profiles, grants,
            questions and decisions. It decides nothing and never runs.
    """

    tract_id: str
    damaged: tuple[Damage, ...]
    runs: tuple[RunRoot, ...]
    unsigned: tuple[str, ...] = ()


def is_store(path: str | Path) -> bool:
    """Return whether it is meant as a store: an SQLAlchemy URL, an SQLite file, or a path that ends like one."""
    if "://" in str(path):
        return True
    is_folder = os.path.isdir(path)  # noqa: PTH112 # that of a Path raises where a name is too long
    is_named_so = Path(path).suffix.lower() in _SUFFIXES and not is_folder
    return is_named_so or _beginning(Path(path)) == _FILE_BEGINS


def _beginning(path: Path) -> bytes | None:
    """Return the first bytes of a file, None if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(len(_FILE_BEGINS))
    except OSError:
        return None


def existing_store(store: str | Path) -> Database:
    """Open a store that is there; none is made.

    Args:
        store: the SQLite file, or an SQLAlchemy URL.

    Raises:
        StoreError: there is none, or it cannot be opened.
    """
    _check_file(str(store))
    return Database(**place_of(store), must_exist=True)


def place_of(store: str | Path) -> dict[str, Any]:
    """Return the arguments of `Tract.open` that say which store is meant: its `url` or its `path`."""
    return {"url": str(store)} if "://" in str(store) else {"path": store}


def _check_file(store: str) -> None:
    """Check that there is a file: opening a missing or an empty one would make a new store.

    Raises:
        StoreError: there is none.
    """
    path = file_of(store) if "://" in store else Path(store)
    if path is None:
        if store.startswith("sqlite"):
            raise StoreError(f"{store} is a store in memory, which is always empty; give the file of a store")
        return
    begins = _beginning(path)
    if begins is None:
        raise StoreError(
            f"there is no store {store}; a notebook makes one, by default .tract/NAME.db in its folder"
        )
    if begins != _FILE_BEGINS:
        what = "it does not begin as an SQLite file does" if begins else "the file is empty"
        raise StoreError(f"{store} is no store: {what}; give another path, or restore a backup of it")


def verify_store(store: str | Path) -> list[VerifiedTract]:
    """Recompute every hash of every tract of a store, including the hashes of runs.

    Args:
        store: the SQLite file, or an SQLAlchemy URL.

    Returns:
        The tracts, the oldest first. Two stores in which the same was run, or a run and its replay, have the same root
        hashes; in two stores not if an operation gave a commit's hash, as a hit of `rag` does.

    Raises:
        StoreError: there is no such store, or it cannot be opened. No store is made.
    """
    where = place_of(store)
    database = existing_store(store)
    try:
        with database.read() as connection:
            tract_ids = TractRows().ids(connection)
    finally:
        database.close()
    found = []
    several = len(tract_ids) > 1  # of a single one its commits are counted
    for tract_id in tracked(tract_ids, "Checking tracts") if several else tract_ids:
        with Tract.open(**where, tract_id=tract_id) as tract:
            found.append(
                VerifiedTract(
                    tract_id, tuple(tract.verify()), tuple(tract.runs.roots()), tuple(_unsigned(tract))
                )
            )
    return found


def _unsigned(tract: Tract) -> Iterator[str]:
    """Say what stands in a tract without this user's signature."""
    try:
        handlers = tract.hooks.saved.quarantined
        kinds = {
            "operation": tract.operations.quarantined,
            "handler": {f"{operation}/{name}": why for (operation, name), why in handlers.items()},
            "profile": {one.name: one.quarantined for one in tract.profiles.list() if one.quarantined},
        }
        for kind, found in kinds.items():
            yield from (f"{kind} {name!r}: {why}" for name, why in sorted(found.items()))
        for grant in tract.review.grants.all():
            if grant.state == NOT_SIGNED:
                yield f"grant {grant.grant_id[:8]} for {grant.kind} {grant.name!r}: {NOT_SIGNED}"
        waiting, decisions = tract.review.ledger.unsigned()
        for question in waiting:
            yield f"question {question.pending_id[:8]} {question.title!r}: {NOT_SIGNED}"
        for one in decisions:
            what = f"{one.action!r} of {one.decided_by!r}"
            yield f"decision {one.round + 1} on {one.pending_id[:8]}, {what}: {NOT_SIGNED}"
    except TractError as error:  # such as a secret that cannot be read
        yield f"the rest could not be told: {error}"
