"""`%tract record`: what persons decided in this notebook, for runs in which nobody can be asked."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from tract_jupyter.hooks.builtin.activation import activation_fingerprint
from tract_jupyter.notebook.command import Command, no_arguments, option
from tract_jupyter.notebook.display import Grid, View
from tract_jupyter.notebook.session import BEGAN, notebook_path
from tract_jupyter.review.lock import merged, read_lock, write_lock
from tract_jupyter.review.project import PROJECT_FILE, Project
from tract_jupyter.review.recording import Found, find_entries
from tract_jupyter.review.trust import Trust

if TYPE_CHECKING:
    from pathlib import Path

    from tract_jupyter.notebook.session import Session
    from tract_jupyter.review.lock import Entry
    from tract_jupyter.tract import Tract


def _record(session: Session, rest: list[str]) -> View:
    """Record, and say what is in the file now."""
    everything, rest = option(rest, "--all")
    no_arguments("record", rest)
    trust, path = Trust(), session.lock_path
    tract = session.tract
    project = Project.made(path, trust)
    notebook = project.path_of(notebook_path(session.shell))
    found = find_entries(
        tract.reviewer.ledger, project, since=None if everything else BEGAN, active=_active(tract),
        notebook=notebook,
    )  # fmt: skip
    if not found.entries:
        return View("Nothing to record", (*_nothing(everything=everything), *_left_out(found)))
    before = read_lock(path)
    after = merged(before, found.entries, project)
    project.keep()
    write_lock(path, after)
    lines = (_for_what(path), _where(notebook), _signed_with(trust), *_left_out(found))
    have = {entry.signature for entry in before}
    new = sum(entry.signature not in have for entry in after)
    count = f"{len(after)} decision{'s' if len(after) > 1 else ''}"
    return View(f"{path.name}: {count}, {new} of them new", lines, (_grid(after, project),))


def _for_what(path: Path) -> str:
    verify = f"tract-jupyter verify {shlex.quote(str(path.parent))}"
    return f"Headless runs (nbclient, papermill, CI) ask nobody about these. What they would refuse: {verify}"


def _where(notebook: str) -> str:
    which = notebook or "any notebook beside it, as this kernel does not know the name of its own"
    return f"They count for {which}, and in this project only: commit {PROJECT_FILE}, which is its id, with the file."


def _signed_with(trust: Trust) -> str:
    return (
        f"Signed with your secret, {trust.source}. Such a run elsewhere needs it, too: the README says how."
    )


def _active(tract: Tract) -> set[str]:
    """What activating the operations that are active now was about; their cells do not ask again."""
    registry = tract.operations.registry
    specs = map(registry.reviewed_spec, registry.operation_names)
    return {activation_fingerprint(spec) for spec in specs if spec is not None}


def _grid(entries: list[Entry], project: Project) -> Grid:
    rows = tuple(
        (
            entry.title,
            entry.action,
            entry.decided_by,
            entry.decided_at[:19],
            entry.identity[:8],
            entry.notebook,
            project.why_not(entry),
        )
        for entry in entries
    )
    return Grid(
        ("What", "Decision", "By", "At (UTC)", "Identity", "Notebook", ""), rows, code=frozenset({"Identity"})
    )


def _nothing(*, everything: bool) -> tuple[str, ...]:
    if everything:
        return ("Nobody has decided anything in this store that was asked about.",)
    return ("Nobody has decided anything since this kernel began. --all takes all of the store.",)


def _left_out(found: Found) -> tuple[str, ...]:
    if not found.left_out:
        return ()
    return (f"Left out: {found.left_out} that failed, were not carried out, or are not signed by you.",)


RECORD = Command(
    "record [--all]", "write what was decided since this kernel began to the lock file", _record, ("--all",)
)
