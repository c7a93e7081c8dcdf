"""A headless run of a notebook that lists its refusals: `tract-jupyter verify NOTEBOOK`.

`verify` executes the notebook with nbclient, like any headless runner. An environment variable of the kernel names a
temporary folder. The kernel opens a copy of the store there and reports refusals to a file in it.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import sys
import threading
import traceback
from collections import defaultdict
from contextlib import closing
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

from tract_jupyter.exceptions import ContentError, LockFileError, StoreError, TractError
from tract_jupyter.models import one_line, printable, tracked
from tract_jupyter.review import Project, RecordedDecision, RecordedDecisions, Trust, read_lock
from tract_jupyter.storage import file_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tract_jupyter.review import Pending

_FOLDER = "TRACT_JUPYTER_HEADLESS_RUN"
_REPORT = "report.jsonl"
_SESSION = "JPY_SESSION_NAME"  # a headless kernel does not know its notebook
_COPIES = ".ipynb_checkpoints"
_LONGEST = 300  # characters of an error
_CELL = re.compile(r"ipykernel_\d+")  # in the name that ipykernel gives to the code of a cell


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refusal of a headless run, the error that ended the run, or a recorded decision that it cannot use.

    Attributes:
        path: the notebook or the lock file.
        cell: the number of the cell, counted from 1; None for a file.
        line: the line of the cell; None if it is unknown.
        what: the title of the request.
        why: the reason.
        kind: `refused`, or `error` if an error ended the run. Entries of the lock file are `unsigned`, `foreign` or
            `unused`.
        identity: the identity of the decision that the request needs; empty if there is none.
    """

    path: Path
    cell: int | None
    line: int | None
    what: str
    why: str
    kind: Literal["refused", "error", "unsigned", "foreign", "unused"] = "refused"
    identity: str = ""

    def __str__(self) -> str:
        cell = "" if self.cell is None else f", cell {self.cell}"
        line = "" if self.line is None else f", line {self.line}"
        needed = f". It needs a recorded decision with identity {self.identity[:8]}" if self.identity else ""
        why = " ".join(self.why.split())
        return printable(f"{self.path}{cell}{line}: {self.kind}: {self.what}: {why}{needed}")


# --- in the kernel


class KernelReport:
    """The kernel's side of a headless run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @classmethod
    def current(cls) -> KernelReport | None:
        """Return the report of this kernel; None outside of `verify`."""
        folder = os.environ.get(_FOLDER)
        return cls(Path(folder)) if folder else None

    def copy_store(self, place: dict[str, Any]) -> dict[str, Any]:
        """Return the place of the copy of a store. The first call makes the copy.

        Raises:
            StoreError: the store cannot be copied.
        """
        named = str(place.get("path") or place["url"])
        file = file_of(named) if "url" in place else Path(named)
        if named == ":memory:" or (file is None and named.startswith("sqlite")):
            return place
        if file is None:
            raise StoreError(
                "'tract-jupyter verify' runs a notebook on a copy of its store, and it cannot copy a store of a "
                "database server. Set TractJupyter.store to a file for this run"
            )
        copy = self._folder / sha256(str(file.absolute()).encode()).hexdigest()[:8] / file.name
        if file.exists() and not copy.exists():
            copy.parent.mkdir(exist_ok=True)
            # without a WAL there is no writer, and SQLite does not have to create files next to it
            how = "mode=ro" if file.with_name(f"{file.name}-wal").exists() else "mode=ro&immutable=1"
            try:
                with (
                    closing(sqlite3.connect(f"{file.absolute().as_uri()}?{how}", uri=True)) as source,
                    closing(sqlite3.connect(copy)) as target,
                ):
                    source.backup(target)
            except sqlite3.Error as error:
                copy.unlink(missing_ok=True)
                raise StoreError(f"{file} cannot be copied for the run: {error}") from error
        return {"path": copy}

    def note(self, **told: Any) -> None:
        """Add a line to the report."""
        with (self._folder / _REPORT).open("a", encoding="utf-8") as file:
            file.write(json.dumps(told) + "\n")


class ReportedDecisions(RecordedDecisions):
    """The recorded decisions of a headless run. They report each use and each refusal."""

    def __init__(
        self, report: KernelReport, path: Path, trust: Trust, used: set[str], cell: Callable[[], str]
    ) -> None:
        super().__init__(path, trust, used, cell)
        self._report = report
        report.note(lock=str(path))

    def take(self, identity: str) -> RecordedDecision | None:
        """Use up the next decision and report it."""
        entry = super().take(identity)
        if entry is not None:
            self._report.note(used=entry.signature)
        return entry

    def why_not(self, pending: Pending) -> str:
        """Report a refused request, and return the reason."""
        why = super().why_not(pending)
        self._report.note(refused=pending.title, why=why, identity=pending.identity, line=_line_of_cell())
        return why


def _line_of_cell() -> int | None:
    """Return the line of the running cell; None if the main thread is not in its code."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)  # noqa: SLF001 # no public function returns the frame of another thread
    if frame is None:
        return None
    lines = [line for each, line in traceback.walk_stack(frame) if _CELL.search(each.f_code.co_filename)]
    return lines[-1] if lines else None


# --- in the process that runs the notebook


class HeadlessRun:
    """A run of one notebook in a separate kernel.

    Attributes:
        path: the notebook.
        found: the refusals, and the error that ended the run.
        used: the signatures of the recorded decisions that the run used.
        lock: the file of recorded decisions; None if no cell used the context.
        is_complete: True if the last cell ran.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.found: list[Refusal] = []
        self.used: set[str] = set()
        self.lock: Path | None = None
        self.is_complete = False

    def execute(self) -> None:
        """Run the notebook to the end or to the first error."""
        try:
            from jupyter_client.kernelspec import NoSuchKernel
            from nbclient import NotebookClient
            from nbclient.exceptions import CellExecutionError, DeadKernelError
        except ImportError as error:
            raise TractError(
                f"running a notebook needs a package that is not installed ({error.name}): "
                "pip install 'tract_jupyter[headless]'"
            ) from error
        notebook = load_notebook(self.path)
        with TemporaryDirectory(prefix="tract-verify-", ignore_cleanup_errors=True) as folder:
            report = Path(folder, _REPORT)
            report.touch()
            environment = {name: value for name, value in os.environ.items() if name != _SESSION}
            client = NotebookClient(notebook, resources={"metadata": {"path": str(self.path.parent)}})
            try:
                with (
                    report.open(encoding="utf-8") as lines,
                    client.setup_kernel(env=environment | {_FOLDER: folder}),
                ):
                    for number, cell in enumerate(notebook.cells, 1):
                        try:
                            client.execute_cell(cell, number - 1)
                        finally:
                            self._read(lines, number, cell.source)
                    self.is_complete = True
            except NoSuchKernel as error:
                raise ContentError(
                    f"{self.path} needs the kernel {error.name!r}, which is not installed"
                ) from None
            except (CellExecutionError, DeadKernelError) as error:
                message = f"{getattr(error, 'ename', 'DeadKernelError')}: {getattr(error, 'evalue', error)}"
                why = f"{one_line(message, _LONGEST)}. The run ends here"
                self.found.append(Refusal(self.path, number, None, "the cell fails", why, "error"))

    def _read(self, lines: Iterator[str], cell: int, source: str) -> None:
        before = source[: len(source) - len(source.lstrip())].count("\n")  # IPython leaves these lines out
        for entry in map(json.loads, lines):
            if "lock" in entry:
                self.lock = Path(entry["lock"])
            elif "used" in entry:
                self.used.add(entry["used"])
            else:
                what, why, identity = entry["refused"], entry["why"], entry["identity"]
                line = entry["line"] and entry["line"] + before
                refusal = Refusal(self.path, cell, line, what, why, identity=identity)
                if refusal not in self.found:  # a waiting cell repeats the request
                    self.found.append(refusal)


def verify(path: str | Path) -> list[Refusal]:
    """Run notebooks like a headless runner (nbclient, papermill, CI), and list the refusals.

    The cells really run, in the folder of the notebook. They use files, the network and models. Only the notebook and
    its store are temporary copies. A run ends at the first error. Entries of the lock file without your signature are
    `unsigned`, entries of another project or notebook are `foreign`, and entries that a complete run did not use are
    `unused`.

    Args:
        path: a notebook, or a folder with notebooks at any depth. Jupyter's checkpoints are ignored.

    Raises:
        ContentError: the notebook does not exist, or the file is not a notebook.
        TractError: nbclient is not installed, or the signing secret cannot be read.
    """
    path = Path(path)
    refusals: list[Refusal] = []
    runs: dict[Path, list[HeadlessRun]] = defaultdict(list)
    for notebook in tracked(_below(path) if path.is_dir() else [path], "Running notebooks"):
        run = HeadlessRun(notebook)
        try:
            run.execute()
        except ContentError as error:
            if not path.is_dir():
                raise
            refusals.append(Refusal(notebook, None, None, "the notebook", str(error), "error"))
        refusals += run.found
        if run.lock is not None:
            runs[run.lock].append(run)
    return refusals + [refusal for lock, its in runs.items() for refusal in _odd_entries(lock, its)]


def _below(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.ipynb") if _COPIES not in path.parts and path.is_file())


def _odd_entries(lock: Path, runs: list[HeadlessRun]) -> Iterator[Refusal]:
    """Yield the entries of a lock file that do not count, or that no run used."""
    trust = Trust()
    try:
        entries, project = read_lock(lock), Project.of(lock, trust)
    except LockFileError as error:
        yield Refusal(lock, None, None, "recorded decisions", str(error), "error")
        return
    used = set().union(*(run.used for run in runs))
    ran = {"", *(project.path_of(run.path) for run in runs)}
    for number, entry in enumerate(entries, 1):
        what, why_not = f"entry {number}, {entry.title}", project.why_not(entry)
        if why_not:
            is_of_here = bool(project.project_id) and entry.project == project.project_id
            kind: Literal["foreign", "unsigned"] = (
                "unsigned" if is_of_here and not entry.verifies(project.signer) else "foreign"
            )
            yield Refusal(lock, None, None, what, f"it {why_not}; it does not count", kind)
        elif entry.signature not in used and entry.notebook in ran and all(run.is_complete for run in runs):
            yield Refusal(lock, None, None, what, "the run did not use it", "unused")


def load_notebook(path: Path) -> Any:
    """Read a notebook file."""
    import nbformat

    try:
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
    except OSError as error:
        raise ContentError(f"{path} cannot be read: {error.strerror}; check the path") from None
    except Exception as error:  # noqa: BLE001 # nbformat raises many kinds of errors for invalid files
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ContentError(
            f"{path} is not a notebook that nbformat {nbformat.__version__} can read: {reason:.200}; "
            "open it in Jupyter and save it, or repair its JSON"
        ) from None
    return notebook
