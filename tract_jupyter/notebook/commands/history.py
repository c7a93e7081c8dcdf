"""The commands of `%tract` that show the context and its history, and move in it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from tract_jupyter.context import diff_contexts
from tract_jupyter.exceptions import MergeConflictError, OperationError
from tract_jupyter.models import CompiledContext, Priority, counted, display_text, one_line
from tract_jupyter.notebook.commands.command import (
    Command,
    arguments,
    branch_words,
    commit_words,
    limit,
    no_arguments,
    option,
    option_value,
)
from tract_jupyter.notebook.views.commit_graph import Graph, graph
from tract_jupyter.notebook.views.diff import DiffView
from tract_jupyter.notebook.views.events import EventsView
from tract_jupyter.notebook.views.html import Grid, GridView, View
from tract_jupyter.notebook.views.overview import TractView

if TYPE_CHECKING:
    from collections.abc import Callable

    from tract_jupyter.context import UndoStep
    from tract_jupyter.models import DiffResult
    from tract_jupyter.notebook.session import NotebookSession
    from tract_jupyter.tract import Tract

_HOVER = 600
_FIRST_WORDS = 80
_CONTENT = frozenset({"append", "edit"})


@dataclass(frozen=True)
class ViewSequence(View):
    """Several views in one output."""

    parts: tuple[Any, ...]

    def to_html(self) -> str:
        """Return the views one after the other."""
        return "".join(part.to_html() for part in self.parts)

    def to_text(self) -> str:
        """Return the views, separated by blank lines."""
        return "\n\n".join(part.to_text() for part in self.parts)


def _status(notebook: NotebookSession, rest: list[str]) -> TractView:
    no_arguments("status", rest)
    return TractView.of(notebook.tract)


def _log(notebook: NotebookSession, words: list[str]) -> View:
    if "--cell" in words:
        return _origin(notebook, words)
    with_events, words = option(words, "--events")
    current_only, words = option(words, "--current")
    number = limit("log", words)
    tract = notebook.tract
    drawing = _graph(tract, number, all_branches=not current_only)
    if not with_events:
        return drawing
    return ViewSequence((drawing, EventsView.of(tract.events(limit=number))))


def _origin(notebook: NotebookSession, words: list[str]) -> GridView:
    """Answer why a cell is there: one with an id or a number, or the running one."""
    from tract_jupyter.notebook.cells import describe_origin

    name, words = option_value(words, "--cell")
    no_arguments("log --cell [ID]", words)
    name = name or notebook.front_end.cell_id
    return GridView(f"Cell {one_line(name, 64)}", describe_origin(notebook.tract, notebook.cells.pages, name))


def _graph(tract: Tract, number: int, *, all_branches: bool) -> Graph:
    infos = tract.log(number, all_branches=all_branches)
    contents = tract.history.contents(infos)
    texts = {
        i.commit_hash: display_text(contents[i.commit_hash])[:_HOVER]
        for i in infos
        if i.operation in _CONTENT
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
    if names:
        tract.branch(names[0], source=names[1] if len(names) > 1 else None)
        return _with_state(tract, f"Switched to the new branch {names[0]}")
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
    return _with_state(notebook.tract, f"Switched to {notebook.tract.current_branch}")


def _merge(notebook: NotebookSession, words: list[str]) -> GridView | None:
    """Merge a branch. A panel asks about conflicts."""
    (name,) = arguments("merge BRANCH", words, 1, 1)
    tract = notebook.tract
    try:
        merged = tract.merge(name, triggered_by="%tract merge")
    except MergeConflictError:
        tract.reviewer.show(tract.propose_merge(name, triggered_by="%tract merge"))
        return None
    how = {"fast_forward": "fast-forward", "clean": "no conflicts"}.get(merged.merge_type, "")
    return _with_state(tract, f"Merged {name} into {merged.target_branch}{f': {how}' if how else ''}")


def _checkout(notebook: NotebookSession, words: list[str]) -> GridView:
    (name,) = arguments("checkout COMMIT", words, 1, 1)
    tract = notebook.tract
    commit_hash = tract.checkout(name) or ""
    if tract.current_branch is None:
        return _with_state(
            tract, f"HEAD is detached at {commit_hash[:8]}. %tract branch NAME continues from here"
        )
    return _with_state(tract, f"Switched to {tract.current_branch}")


def _tag(notebook: NotebookSession, words: list[str]) -> GridView:
    names = arguments("tag [COMMIT TAG]", words, 0, 2)
    tract = notebook.tract
    if len(names) == 1:
        raise OperationError("%tract tag COMMIT TAG adds a tag, and %tract tag lists all tags")
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
            warning = f"This change has a cost: {cost}."
            later = f"Nothing has changed yet: %tract {verb} {' '.join(rest)} --yes does it."
            return GridView(f"{info.short_hash} would be {priority}: {info.message}", (warning, later))
        from tract_jupyter.runs import RewriteWarning

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RewriteWarning)  # the user confirmed it
            tract.annotate(info.commit_hash, priority, reason=" ".join(rest[1:]))
        return _with_state(tract, f"{info.short_hash} is {priority} now: {info.message}")

    return run


def _compress(notebook: NotebookSession, words: list[str]) -> Any:
    """Show the messages that a summary would replace, and its price. With `--yes`, replace them."""
    confirmed, rest = option(words, "--yes")
    names = arguments("compress [FROM [TO]] [--yes]", rest, 0, 2)
    tract = notebook.tract
    first, last = (*names, None, None)[:2]
    if confirmed:
        return _with_state(
            tract,
            f"Compressed {tract.compress(from_commit=first, to_commit=last, triggered_by='%tract compress')}",
        )
    plan = tract.preview_compress(from_commit=first, to_commit=last)
    cost = tract.costs.of_rewrite(
        *(message.commit_hash for group in plan.groups for message in group.messages)
    )
    again = " ".join(["%tract compress", *rest, "--yes"])
    lines = (
        f"{plan}.",
        f"This change has a cost: {cost}." if cost else "",
        f"Nothing has changed yet: {again} does it. %tract undo --yes takes it back.",
    )
    rows = tuple(
        (
            group.messages[0].commit_hash[:8],
            f"{len(group.messages):,}",
            f"{group.tokens:,}",
            one_line(group.messages[0].content, _FIRST_WORDS),
        )
        for group in plan.groups
    )
    heads = ("From", "Messages", "Tokens", "Begins with")
    grid = Grid(heads, rows, code=frozenset({"From"}), right=frozenset({"Messages", "Tokens"}))
    return GridView("Messages to summarize", tuple(filter(None, lines)), (grid,))


def _move(notebook: NotebookSession, words: list[str], *, redo: bool) -> Any:
    """Show the changes of an undo or redo. With `--yes`, do it."""
    name = "redo" if redo else "undo"
    confirmed, rest = option(words, "--yes")
    no_arguments(name, rest)
    tract = notebook.tract
    if confirmed:
        step = tract.redo() if redo else tract.undo()
        return _with_state(tract, f"{'Done again' if redo else 'Undone'}: {step}")
    step = tract.preview_undo(redo=redo)
    lines = (f"{step}", f"Nothing has moved yet: %tract {name} --yes does it.")
    return ViewSequence((GridView(f"What {name} would do", lines), DiffView(_difference(tract, step))))


def _difference(tract: Tract, step: UndoStep) -> DiffResult:
    now = tract.compile()
    then = tract.compile(at_commit=step.new) if step.new else CompiledContext.empty(now.token_source)
    return diff_contexts(now, then)


def _with_state(tract: Tract, title: str) -> GridView:
    status = tract.status()
    return GridView(
        title, (f"{status.branch}: {counted(status.message_count, 'message')}, {status.tokens_phrase}",)
    )


_VERBS = {"pinned": "pin", "skip": "skip", "normal": "unpin", "important": "important"}

COMMANDS = (
    Command("status", "show the state of the context; the default", _status, tells_waiting=True),
    Command(
        "log [N] [--current] [--events] [--cell [ID]]",
        "show the newest N commits as a graph; --events adds other events; --cell tells why a cell is there",
        _log,
        ("--current", "--events", "--cell"),
    ),
    Command(
        "compile [--at COMMIT]",
        "show the messages of the context at a commit",
        _compile,
        ("--at", commit_words),
    ),
    Command(
        "diff [A [B]]",
        "show the difference between two contexts; by default, HEAD and its parent",
        _diff,
        (commit_words,),
    ),
    Command(
        "branch [NAME [FROM]]", "list branches, or create one and switch to it", _branch, (commit_words,)
    ),
    Command("switch BRANCH", "switch to another branch; - is the previous one", _switch, (branch_words,)),
    Command(
        "merge BRANCH",
        "merge another branch; a panel asks about conflicts",
        _merge,
        (branch_words,),
    ),
    Command("checkout COMMIT", "check out the context at a commit", _checkout, (commit_words,)),
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
        "compress [FROM [TO]] [--yes]",
        "show the messages that a summary would replace, and the price; --yes replaces them",
        _compress,
        (commit_words, "--yes"),
    ),
    Command(
        "undo [--yes]",
        "show what undoing the last operation would change; --yes undoes it",
        partial(_move, redo=False),
        ("--yes",),
    ),
    Command(
        "redo [--yes]", "show what redoing would change; --yes does it", partial(_move, redo=True), ("--yes",)
    ),
)
