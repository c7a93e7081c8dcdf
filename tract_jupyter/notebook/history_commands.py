"""The subcommands of `%tract` that look at the context and its history, and move in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tract_jupyter.context.diff import diff_contexts
from tract_jupyter.exceptions import OperationError
from tract_jupyter.models.content import text_of
from tract_jupyter.models.context import CompiledContext
from tract_jupyter.notebook.arguments import Command, arguments, limit, no_arguments, option, when
from tract_jupyter.notebook.views.diff import diff_view
from tract_jupyter.notebook.views.graph import Graph, graph
from tract_jupyter.notebook.views.html import Grid, View

if TYPE_CHECKING:
    from collections.abc import Callable

    from tract_jupyter.context.undo import UndoStep
    from tract_jupyter.models.diff import DiffResult
    from tract_jupyter.notebook.session import Session
    from tract_jupyter.storage.journal import Event
    from tract_jupyter.tract import Tract

_HOVER = 600
_CONTENT = frozenset({"append", "edit"})


@dataclass(frozen=True)
class Several:
    """Things shown one under the other in one output."""

    parts: tuple[Any, ...]

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {
            "text/html": "".join(part.to_html() for part in self.parts),
            "text/plain": "\n\n".join(part.to_text() for part in self.parts),
        }


@dataclass(frozen=True)
class Shown:
    """A bundle of representations as a part of an output."""

    bundle: dict[str, str]

    def to_html(self) -> str:
        """As HTML."""
        return self.bundle["text/html"]

    def to_text(self) -> str:
        """As text."""
        return self.bundle["text/plain"]


def _log(session: Session, words: list[str]) -> Several:
    current_only, words = option(words, "--current")
    number = limit("log", words)
    tract = session.tract
    parts: list[Any] = [_graph(tract, number, all_branches=not current_only)]
    events = tract.events(limit=number)
    if events:
        rows = tuple(map(_event_row, events))
        grid = Grid(("What", "By", "Details", "When"), rows, code=frozenset({"What"}))
        parts.append(View("Events", (), (grid,)))
    return Several(tuple(parts))


def _graph(tract: Tract, number: int, *, all_branches: bool) -> Graph:
    infos = tract.log(number, all_branches=all_branches)
    contents = tract.history.contents(infos)
    texts = {
        i.commit_hash: text_of(contents[i.commit_hash])[:_HOVER] for i in infos if i.operation in _CONTENT
    }
    roles = {key: str(content["role"]) for key, content in contents.items() if "role" in content}
    return graph(infos, tract.list_branches(), head=tract.head, contents=texts, roles=roles)


def _compile(session: Session, words: list[str]) -> CompiledContext:
    at, words = option(words, "--at")
    names = arguments("compile [--at COMMIT]", words, int(at), int(at))
    return session.tract.compile(at_commit=names[0] if names else None)


def _diff(session: Session, words: list[str]) -> DiffResult:
    return session.tract.diff(*arguments("diff [A [B]]", words, 0, 2))


def _branch(session: Session, words: list[str]) -> View:
    names = arguments("branch [NAME [FROM]]", words, 0, 2)
    tract = session.tract
    if names:
        tract.branch(names[0], source=names[1] if len(names) > 1 else None)
        return _here(tract, f"Switched to the new branch {names[0]}")
    rows = tuple(
        ("→" if info.is_current else "", info.name, (info.commit_hash or "no commits yet")[:14])
        for info in tract.list_branches()
    )
    return View("Branches", (), (Grid(("", "Name", "Commit"), rows, code=frozenset({"Name", "Commit"})),))


def _switch(session: Session, words: list[str]) -> View:
    (name,) = arguments("switch BRANCH", words, 1, 1)
    session.tract.switch(name)
    return _here(session.tract, f"Switched to {session.tract.current_branch}")


def _checkout(session: Session, words: list[str]) -> View:
    (name,) = arguments("checkout COMMIT", words, 1, 1)
    tract = session.tract
    commit_hash = tract.checkout(name) or ""
    if tract.is_detached:
        return _here(tract, f"HEAD is detached at {commit_hash[:8]}; %tract branch NAME goes on from here")
    return _here(tract, f"Switched to {tract.current_branch}")


def _tag(session: Session, words: list[str]) -> View:
    names = arguments("tag [COMMIT TAG]", words, 0, 2)
    tract = session.tract
    if len(names) == 1:
        raise OperationError("%tract tag COMMIT TAG adds a tag, %tract tag lists them all")
    if names:
        tract.tag(*names)
        info = tract.get_commit(names[0])
        return View(f"{info.short_hash} is tagged {', '.join(tract.get_tags(info.commit_hash))}")
    rows = tuple((tag.name, f"{tag.count:,}", tag.description) for tag in tract.list_tags())
    return View(
        "Tags",
        () if rows else ("None yet.",),
        (Grid(("Tag", "Commits", "For"), rows, right=frozenset({"Commits"})),),
    )


def _priority(priority: str) -> Callable[[Session, list[str]], View]:
    def run(session: Session, words: list[str]) -> View:
        if not words:
            raise OperationError(
                f"name a commit: %tract {_VERBS[priority]} HEAD, with a reason behind it if you like"
            )
        tract = session.tract
        info = tract.get_commit(words[0])
        tract.annotate(info.commit_hash, priority, reason=" ".join(words[1:]))
        return _here(tract, f"{info.short_hash} is {priority} now: {info.message}")

    return run


def _undo(session: Session, words: list[str]) -> Any:
    return _move(session, words, redo=False)


def _redo(session: Session, words: list[str]) -> Any:
    return _move(session, words, redo=True)


def _move(session: Session, words: list[str], *, redo: bool) -> Any:
    """Say what would move; with `--yes`, move it."""
    name = "redo" if redo else "undo"
    confirmed, rest = option(words, "--yes")
    no_arguments(name, rest)
    tract = session.tract
    if confirmed:
        step = tract.redo() if redo else tract.undo()
        return _here(tract, f"{'Done again' if redo else 'Undone'}: {step}")
    step = tract.preview_undo(redo=redo)
    told = (f"{step}", f"Nothing has moved yet: %tract {name} --yes does it.")
    return Several((View(f"What {name} would do", told), Shown(diff_view(_difference(tract, step)))))


def _difference(tract: Tract, step: UndoStep) -> DiffResult:
    now = tract.compile()
    then = tract.compile(at_commit=step.new) if step.new else CompiledContext.empty(now.token_source)
    return diff_contexts(now, then)


def _here(tract: Tract, said: str) -> View:
    status = tract.status()
    return View(said, (f"{status.branch}: {status.message_count:,} messages, {status.tokens} tokens",))


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
            f"{data['action']}: {data['title']}{reason}{left} ({data['channel']}, {data['fingerprint'][:16]})"
        )
    if event.event_type == "operation.activated":
        return f"{data['name']} version {data['version']}"
    if event.event_type == "failed":
        return f"{data['action']}: {data['error']}"
    return ", ".join(f"{key}={str(value)[:80]}" for key, value in data.items() if value is not None)


_VERBS = {"pinned": "pin", "skip": "skip", "normal": "unpin", "important": "important"}

HISTORY = {
    "log": Command(
        "log [N] [--current]", "the newest N commits as a graph, and events", _log, ("--current",)
    ),
    "compile": Command(
        "compile [--at COMMIT]", "the messages that a commit stands for", _compile, ("--at", "commit")
    ),
    "diff": Command(
        "diff [A [B]]", "how two contexts differ; HEAD and its parent if left out", _diff, ("commit",)
    ),
    "branch": Command(
        "branch [NAME [FROM]]", "list branches, or make one and switch to it", _branch, ("commit",)
    ),
    "switch": Command("switch BRANCH", "work on another branch; - is the one before", _switch, ("branch",)),
    "checkout": Command(
        "checkout COMMIT", "look at the context as it was at a commit", _checkout, ("commit",)
    ),
    "tag": Command("tag [COMMIT TAG]", "list tags, or add one to a commit", _tag, ("commit",)),
    "pin": Command("pin COMMIT [WHY]", "keep a message word for word", _priority("pinned"), ("commit",)),
    "skip": Command("skip COMMIT [WHY]", "leave a message out", _priority("skip"), ("commit",)),
    "unpin": Command(
        "unpin COMMIT [WHY]", "make a message an ordinary one again", _priority("normal"), ("commit",)
    ),
    "undo": Command("undo [--yes]", "say what the last operation moved; take it back", _undo, ("--yes",)),
    "redo": Command("redo [--yes]", "the same for what was undone", _redo, ("--yes",)),
}
