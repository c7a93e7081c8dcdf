"""What a headless run would refuse: a notebook, or a folder of them, against its recorded decisions. Nothing runs."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Literal

from tract_jupyter.exceptions import ContentError, LockFileError
from tract_jupyter.interchange.loading import load_notebook
from tract_jupyter.notebook.dry_run import DryRun
from tract_jupyter.notebook.refusal import Refusal
from tract_jupyter.notebook.steps import code_cells, steps
from tract_jupyter.review.lock import LOCK_FILE, Entry, read_lock
from tract_jupyter.review.project import Project
from tract_jupyter.review.trust import Trust

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
        ContentError: there is no such notebook, or it is none.
        TrustError: the signing secret cannot be read.
    """
    path = Path(path)
    chosen = _below(path) if path.is_dir() else [path]
    folders: dict[Path, list[Path]] = defaultdict(list)
    for notebook in chosen:
        folders[notebook.parent].append(notebook)
    found: list[Refusal] = []
    for folder, notebooks in folders.items():
        found += _in_folder(folder / lock_file, notebooks, stops=not path.is_dir())
    return found


def _in_folder(lock: Path, notebooks: list[Path], *, stops: bool) -> list[Refusal]:
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
            continue
        found += run.found
        runs.append(run)
    others = [other for other in lock.parent.glob("*.ipynb") if other not in notebooks] if entries else []
    for other in others:  # they share the file
        try:
            runs.append(_dry_run(other, entries, project, lock.name))
        except ContentError:
            continue
    return found + _odd_entries(lock, entries, runs, project)


def _dry_run(notebook: Path, entries: tuple[Entry, ...], project: Project, lock_name: str) -> DryRun:
    cells = [(number, source, steps(source)) for number, source in code_cells(load_notebook(notebook))]
    return DryRun(notebook, cells, entries, project, lock_name)


def _odd_entries(
    lock: Path, entries: tuple[Entry, ...], runs: list[DryRun], project: Project
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


def _may_be_asked(entry: Entry, may_ask: set[str]) -> bool:
    """Whether something that only a run tells may ask about it. Tools and built-in operations are called by code."""
    if entry.kind in {"tool", "pending"} or "*" in may_ask:
        return True
    return entry.kind == "operation" and entry.title in may_ask


def _below(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.ipynb") if _COPIES not in path.parts and path.is_file())
