"""The commands of `%tract` that show the context and its history, and move in it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tract_jupyter.context import diff_contexts
from tract_jupyter.exceptions import OperationError
from tract_jupyter.models import CompiledContext, Priority, counted, text_of
from tract_jupyter.notebook.commands.command import (
    Command,
    arguments,
    branch_words,
    commit_words,
    limit,
    no_arguments,
    option,
)
from tract_jupyter.notebook.views.commit_graph import Graph, graph
from tract_jupyter.notebook.views.diff import diff_view
from tract_jupyter.notebook.views.html import Grid, GridView, when

if TYPE_CHECKING:
    from collections.abc import Callable

    from tract_jupyter.context import UndoStep
    from tract_jupyter.models import DiffResult
    from tract_jupyter.notebook.session import NotebookSession
    from tract_jupyter.storage import Event
    from tract_jupyter.tract import Tract

_HOVER = 600
_CONTENT = frozenset({"append", "edit"})


@dataclass(frozen=True)
class ViewSequence:
    """Views that are shown one under the other in one output."""

    parts: tuple[Any, ...]

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {
            "text/html": "".join(part.to_html() for part in self.parts),
            "text/plain": "\n\n".join(part.to_text() for part in self.parts),
        }


@dataclass(frozen=True)
class BundleView:
    """A bundle of representations as a part of an output."""

    bundle: dict[str, str]

    def to_html(self) -> str:
        """Return the HTML."""
        return self.bundle["text/html"]

    def to_text(self) -> str:
        """Return the plain text."""
        return self.bundle["text/plain"]


def _status(notebook: NotebookSession, rest: list[str]) -> GridView:
    no_arguments("status", rest)
    status = notebook.tract.status()
    head = f" at {status.head[:8]}" if status.head else ", empty"
    lines = [
        (
            f"Branch {status.branch}{head}: {counted(status.commit_count, 'commit')}, "
            f"{counted(status.message_count, 'message')}, "
            f"{status.tokens} tokens ({status.token_source})"
        ),
        f"Operations: {', '.join(status.operations) or 'none'}",
    ]
    if status.waiting:
        lines.append(f"Waiting for a decision: {status.waiting} (%tract inbox)")
    if status.quarantined:
        lines.append(f"Stored but not approved here: {', '.join(status.quarantined)} (%tract review NAME)")
    if status.quarantined_handlers:
        listed = ", ".join(status.quarantined_handlers)
        lines.append(
            f"Saved handlers not approved here: {listed} (%tract review NAME); until then you are asked instead"
        )
    scripts = notebook.tract.scripts
    if scripts.runs:
        saved = scripts.savings
        lines.append(
            f"Scripts: {scripts.runs:,}" + (f"; {saved.verdict}: {saved.arithmetic}" if saved.in_code else "")
        )
    return GridView(f"tract in {status.location}", tuple(lines))


def _log(notebook: NotebookSession, words: list[str]) -> ViewSequence:
    current_only, words = option(words, "--current")
    number = limit("log", words)
    tract = notebook.tract
    parts: list[Any] = [_graph(tract, number, all_branches=not current_only)]
    events = tract.events(limit=number)
    if events:
        rows = tuple(map(_event_row, events))
        grid = Grid(("What", "By", "Details", "When"), rows, code=frozenset({"What"}))
        parts.append(GridView("Events", (), (grid,)))
    return ViewSequence(tuple(parts))


def _graph(tract: Tract, number: int, *, all_branches: bool) -> Graph:
    infos = tract.log(number, all_branches=all_branches)
    contents = tract.history.contents(infos)
    texts = {
        i.commit_hash: text_of(contents[i.commit_hash])[:_HOVER] for i in infos if i.operation in _CONTENT
    }
    roles = {key: str(content["role"]) for key, content in contents.items() if "role" in content}
    return graph(infos, tract.list_branches(), head=tract.head, contents=texts, roles=roles)


def _compile(notebook: NotebookSession, words: list[str]) -> CompiledContext:
    at, words = option(words, "--at")
    names = arguments("compile [--at COMMIT]", words, int(at), int(at))
    return notebook.tract.compile(at_commit=names[0] if names else None)


def _diff(notebook: NotebookSession, words: list[str]) -> DiffResult:
    return notebook.tract.diff(*arguments("diff [A [B]]", words, 0, 2))


def _branch(notebook: NotebookSession, words: list[str]) -> GridView:
    names = arguments("branch [NAME [FROM]]", words, 0, 2)
    tract = notebook.tract
    if any(quote in name for name in names for quote in "\"'"):
        raise OperationError(f"a branch is typed without quotes, and has no spaces; got {' '.join(names)}")
    if names:
        tract.branch(names[0], source=names[1] if len(names) > 1 else None)
        return _here(tract, f"Switched to the new branch {names[0]}")
    rows = tuple(
        (
            "→" if info.is_current else "",
            info.name,
            info.commit_hash[:8] if info.commit_hash else "no commits yet",
        )
        for info in tract.list_branches()
    )
    return GridView("Branches", (), (Grid(("", "Name", "Commit"), rows, code=frozenset({"Name", "Commit"})),))


def _switch(notebook: NotebookSession, words: list[str]) -> GridView:
    (name,) = arguments("switch BRANCH", words, 1, 1)
    notebook.tract.switch(name)
    return _here(notebook.tract, f"Switched to {notebook.tract.current_branch}")


def _checkout(notebook: NotebookSession, words: list[str]) -> GridView:
    (name,) = arguments("checkout COMMIT", words, 1, 1)
    tract = notebook.tract
    commit_hash = tract.checkout(name) or ""
    if tract.current_branch is None:
        return _here(tract, f"HEAD is detached at {commit_hash[:8]}; %tract branch NAME goes on from here")
    return _here(tract, f"Switched to {tract.current_branch}")


def _tag(notebook: NotebookSession, words: list[str]) -> GridView:
    names = arguments("tag [COMMIT TAG]", words, 0, 2)
    tract = notebook.tract
    if len(names) == 1:
        raise OperationError("%tract tag COMMIT TAG adds a tag, %tract tag lists them all")
    if names:
        tract.tags.add(*names)
        info = tract.get_commit(names[0])
        return GridView(f"{info.short_hash} is tagged {', '.join(tract.tags.of(info.commit_hash))}")
    rows = tuple((tag.name, f"{tag.count:,}", tag.description) for tag in tract.tags.list())
    return GridView(
        "Tags",
        () if rows else ("None yet.",),
        (Grid(("Tag", "Commits", "For"), rows, right=frozenset({"Commits"})),),
    )


def _priority(priority: str) -> Callable[[NotebookSession, list[str]], GridView]:
    verb = _VERBS[priority]

    def run(notebook: NotebookSession, words: list[str]) -> GridView:
        confirmed, rest = option(words, "--yes")
        if not rest:
            raise OperationError(f"name a commit, and a reason if you like: %tract {verb} HEAD [WHY]")
        tract = notebook.tract
        info = tract.get_commit(rest[0])
        shows_or_hides = (info.priority == Priority.SKIP) != (priority == Priority.SKIP)
        cost = tract.costs.of_rewrite(info.commit_hash) if shows_or_hides and not confirmed else None
        if cost:
            told = f"This takes something from the model: {cost}."
            later = f"Nothing has changed yet: %tract {verb} {' '.join(rest)} --yes does it."
            return GridView(f"{info.short_hash} would be {priority}: {info.message}", (told, later))
        from tract_jupyter.runs import RewriteWarning

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RewriteWarning)  # it was said, and confirmed
            tract.annotate(info.commit_hash, priority, reason=" ".join(rest[1:]))
        return _here(tract, f"{info.short_hash} is {priority} now: {info.message}")

    return run


def _undo(notebook: NotebookSession, words: list[str]) -> Any:
    return _move(notebook, words, redo=False)


def _redo(notebook: NotebookSession, words: list[str]) -> Any:
    return _move(notebook, words, redo=True)


def _move(notebook: NotebookSession, words: list[str], *, redo: bool) -> Any:
    """Say what would move; with `--yes`, move it."""
    name = "redo" if redo else "undo"
    confirmed, rest = option(words, "--yes")
    no_arguments(name, rest)
    tract = notebook.tract
    if confirmed:
        step = tract.redo() if redo else tract.undo()
        return _here(tract, f"{'Done again' if redo else 'Undone'}: {step}")
    step = tract.preview_undo(redo=redo)
    told = (f"{step}", f"Nothing has moved yet: %tract {name} --yes does it.")
    return ViewSequence(
        (GridView(f"What {name} would do", told), BundleView(diff_view(_difference(tract, step))))
    )


def _difference(tract: Tract, step: UndoStep) -> DiffResult:
    now = tract.compile()
    then = tract.compile(at_commit=step.new) if step.new else CompiledContext.empty(now.token_source)
    return diff_contexts(now, then)


def _here(tract: Tract, said: str) -> GridView:
    status = tract.status()
    return GridView(
        said, (f"{status.branch}: {counted(status.message_count, 'message')}, {status.tokens} tokens",)
    )


def _event_row(event: Event) -> tuple[str, ...]:
    return (event.event_type, event.actor, _details(event), when(event.created_at))


def _details(event: Event) -> str:
    data = event.data
    if event.event_type == "rejected":
        return f"{data['action']} rejected it, because: {data['reason'] or 'no reason given'}"
    if event.event_type == "decision":
        reason = f", because: {data['reason']}" if data.get("reason") else ""
        left = f": {data['outcome']}" if data.get("outcome") else ""
        return (
            f"{data['action']}: {data['title']}{reason}{left} ({data['channel']}, {data['fingerprint'][:8]})"
        )
    if event.event_type == "operation.activated":
        return f"{data['name']} version {data['version']}"
    if event.event_type == "failed":
        return f"{data['action']}: {data['error']}"
    return ", ".join(f"{key}={str(value)[:80]}" for key, value in data.items() if value is not None)


_VERBS = {"pinned": "pin", "skip": "skip", "normal": "unpin", "important": "important"}

COMMANDS = (
    Command("status", "show where the context stands; the default", _status),
    Command("log [N] [--current]", "show the newest N commits as a graph, and events", _log, ("--current",)),
    Command(
        "compile [--at COMMIT]",
        "show the messages that a commit stands for",
        _compile,
        ("--at", commit_words),
    ),
    Command(
        "diff [A [B]]",
        "show how two contexts differ; HEAD and its parent if left out",
        _diff,
        (commit_words,),
    ),
    Command(
        "branch [NAME [FROM]]", "list branches, or create one and switch to it", _branch, (commit_words,)
    ),
    Command("switch BRANCH", "switch to another branch; - is the previous one", _switch, (branch_words,)),
    Command("checkout COMMIT", "go to the context as it was at a commit", _checkout, (commit_words,)),
    Command("tag [COMMIT TAG]", "list tags, or add one to a commit", _tag, (commit_words,)),
    Command(
        "pin COMMIT [WHY] [--yes]",
        "always keep a message word for word",
        _priority("pinned"),
        (commit_words, "--yes"),
    ),
    Command(
        "skip COMMIT [WHY] [--yes]",
        "leave a message out of the context",
        _priority("skip"),
        (commit_words, "--yes"),
    ),
    Command(
        "unpin COMMIT [WHY] [--yes]",
        "give a message its normal priority again",
        _priority("normal"),
        (commit_words, "--yes"),
    ),
    Command(
        "undo [--yes]",
        "show what undoing the last operation would change; --yes undoes it",
        _undo,
        ("--yes",),
    ),
    Command("redo [--yes]", "show what redoing would change; --yes does it", _redo, ("--yes",)),
)
