"""The commands of `%tract` about runs."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import OperationError
from tract_jupyter.models import one_line
from tract_jupyter.notebook.commands.command import Command, limit
from tract_jupyter.notebook.runs.cell import RunDisplay, close, view_of
from tract_jupyter.notebook.views.html import Grid, GridView, View, ago
from tract_jupyter.runs import OperationStatus, RunStatus

if TYPE_CHECKING:
    from tract_jupyter.notebook.session import NotebookSession
    from tract_jupyter.runs import Run
    from tract_jupyter.tract import Tract

_NAME = 40
_REPLY = 60
_WAYS = ("--prompt", "--resume", "--replay")
_DRY = "--dry"
_USAGE = "run [ID] [--prompt | --resume | --replay], run --dry OPERATION [TEXT] [--profile NAME]"
_PROMPT_USAGE = "prompt [TEXT] [--profile NAME]"
_PROFILE = re.compile(r"(?:^|\s)--profile(?:\s+|=)(\S+)")


def _runs(notebook: NotebookSession, words: list[str]) -> GridView:
    tract = notebook.tract
    rows = tuple(_run_row(tract, run) for run in tract.runs(limit("runs", words)))
    heads = ("Run", "Started", "Trigger", "Status", "Profile", "Done", "Time", "Reply")
    grid = Grid(heads, rows, code=frozenset({"Run"}), right=frozenset({"Done", "Time"}))
    note = "%tract run ID shows one." if rows else "None yet. %%tract_run makes one."
    return GridView("Runs", (note,), (grid,))


def _run_row(tract: Tract, run: Run) -> tuple[str, ...]:
    from tract_jupyter.notebook.runs.pictures import duration
    from tract_jupyter.notebook.runs.view import standing

    is_open = run.status is RunStatus.RUNNING
    done = sum(operation.status is OperationStatus.DONE for operation in run.operations)
    took = (run.finished_at - run.started_at).total_seconds() if run.started_at and run.finished_at else None
    return (
        run.run_id[:8],
        ago(run.started_at, datetime.now(UTC)) if run.started_at else "",
        run.trigger.value,
        standing(run, is_interrupted=is_open and not tract.runs.is_active(run.run_id))
        + (f": {run.failed_type.value}" if run.failed_type else ""),
        one_line(run.profile or "", _NAME),
        f"{done:,} of {len(run.operations):,}" if run.operations else "",
        "" if took is None else duration(took * 1000),
        one_line(run.reply or "", _REPLY),
    )


def _prompt(notebook: NotebookSession, words: list[str]) -> View:
    from tract_jupyter.notebook.runs.preview import PreviewView

    text, profile = _message_and_profile(words)
    tract = notebook.tract
    return PreviewView.of(tract, tract.runs.preview(text, profile=profile))


def _dry_run(notebook: NotebookSession, words: list[str]) -> View:
    """Show the preview of one operation. Nothing is sent."""
    from tract_jupyter.notebook.runs.preview import OperationPreviewView

    text, profile = _message_and_profile([" ".join(words)])
    name, _, rest = text.partition(" ")
    if not name or name.startswith("-"):
        raise OperationError(f"usage: %tract {_USAGE}; got run --dry {' '.join(words)}".rstrip())
    preview = notebook.tract.runs.preview(_unquoted(rest.strip()), profile=profile)
    return OperationPreviewView.of(preview, name)


def _message_and_profile(words: list[str]) -> tuple[str, str | None]:
    """Return the message, and the profile of the line."""
    line = words[0] if words else ""
    match = _PROFILE.search(line)
    text = line if match is None else f"{line[: match.start()]}{line[match.end() :]}"
    text = _unquoted(text.strip())
    if text.startswith("--"):
        raise OperationError(f"usage: %tract {_PROMPT_USAGE}; got prompt {line}")
    return text, None if match is None else match[1]


def _unquoted(text: str) -> str:
    is_quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "\"'"
    return text[1:-1] if is_quoted else text


def _run(notebook: NotebookSession, words: list[str]) -> Any:
    if words[:1] == [_DRY]:
        return _dry_run(notebook, words[1:])
    ways = [word for word in words if word in _WAYS]
    names = [word for word in words if word not in _WAYS]
    if len(ways) > 1 or len(names) > 1 or any(name.startswith("-") for name in names):
        raise OperationError(f"usage: %tract {_USAGE}; got run {' '.join(words)}")
    tract = notebook.tract
    run_id = names[0] if names else _newest(tract)
    if ways == ["--resume"]:
        return _resume(notebook, run_id)
    if ways == ["--replay"]:
        return _replay(tract, run_id)
    return _show(tract, run_id, only_prompt=bool(ways))


def _newest(tract: Tract) -> str:
    for run in tract.runs(1):
        return run.run_id
    raise OperationError("there are no runs yet; %%tract_run makes one")


def _show(tract: Tract, run_id: str, *, only_prompt: bool) -> Any:
    from tract_jupyter.notebook.runs.prompt import PromptView, inspected

    if only_prompt:
        return PromptView(inspected(tract.runs.get(run_id), tract))
    return view_of(tract, tract.runs.events(run_id))


def _resume(notebook: NotebookSession, run_id: str) -> None:
    tract = notebook.tract
    events = tract.runs.events(run_id)
    display = RunDisplay(events, shows_all=notebook.front_end.has_kernel)
    try:
        tract.runs.resume(run_id, on_event=display)
    finally:
        if len(display.events) > len(events):  # it was resumed
            close(tract, display)


def _replay(tract: Tract, run_id: str) -> GridView:
    run = tract.runs.replay(run_id)
    text = (
        "The replay planned, ordered and committed the recorded results again. It executed nothing, sent no "
        "request and wrote nothing."
    )
    return GridView(
        f"Run {run.run_id[:8]}: the replay gives the same result",
        (text, f"Root hash: {run.root_hash or 'none'}"),
    )


def _profile_words(notebook: NotebookSession, typed: list[str]) -> list[tuple[str, str]]:
    if typed[-1:] != ["--profile"]:
        return []
    return [(profile.name, "profile") for profile in notebook.tract.profiles.list()]


def _words(notebook: NotebookSession, typed: list[str]) -> list[tuple[str, str]]:
    if any(not word.startswith("-") for word in typed):
        return []
    return [(run.run_id[:8], "run") for run in notebook.tract.runs()]


COMMANDS = (
    Command("runs [N]", "list the newest runs: a model's call with the operations around it", _runs),
    Command(
        _USAGE,
        "show a run (by default, the newest) or its prompt; resume it; verify it by a replay; "
        "--dry previews one operation",
        _run,
        (_words, *_WAYS, _DRY),
    ),
    Command(
        _PROMPT_USAGE,
        "show the next request to the model, with operations, tokens and price, without sending it",
        _prompt,
        (_profile_words, "--profile"),
        whole_line=True,
    ),
)
