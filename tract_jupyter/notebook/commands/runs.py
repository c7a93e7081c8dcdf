"""The commands of `%tract` about runs, and the views of previews: the next request, and those of operations."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import OperationError
from tract_jupyter.models import one_line, printable, shortened, show_tokens
from tract_jupyter.notebook.commands.command import Command, limit
from tract_jupyter.notebook.runs.cell import RunDisplay, close, view_of
from tract_jupyter.notebook.runs.pictures import HOOK_WORDS, why
from tract_jupyter.notebook.runs.prompt import PromptView, inspected
from tract_jupyter.notebook.views import rows
from tract_jupyter.notebook.views.context import tool_name
from tract_jupyter.notebook.views.html import (
    Grid,
    GridView,
    View,
    ago,
    element,
    fragment,
    join_names,
    root_html,
    style_tag,
)
from tract_jupyter.notebook.views.styles import styled
from tract_jupyter.runs import OperationStatus, RunStatus

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tract_jupyter.notebook.session import NotebookSession
    from tract_jupyter.notebook.views.html import Html
    from tract_jupyter.runs import Imagined, OperationRun, PromptPreview, Run
    from tract_jupyter.tract import Tract


_ID = 60
_LINE = 120
_TEXT = 4_000
_TOOLS = 12


@dataclass(frozen=True)
class PreviewView(View):
    """The preview of a prompt."""

    preview: PromptPreview
    prompt: PromptView

    @classmethod
    def of(cls, tract: Tract, preview: PromptPreview) -> PreviewView:
        """Return the view with the tokens of each message."""
        return cls(preview, PromptView(inspected(preview.run, tract)))

    def to_html(self) -> Html:
        """Return the preview as self-contained HTML."""
        title = "Next request"
        stops = self.preview.why_not
        note = element("div", _sentence(stops), class_="note no") if stops else None
        body = _head_html(title), _lines_html(self._facts(), map(_imagined_html, self.preview.imagined)), note
        page = styled(rows.page(body, label=title, name="tract-preview"))
        if not self.preview.run.prompt:
            return page
        old = style_tag("views/views.css", "views/runs.css")
        prompt = root_html(self.prompt.body_html(), look="tract-views tract-run", tag="section")
        return fragment(page, old, prompt)

    def to_text(self) -> str:
        """Return the same as lines."""
        lines = ["Next request (nothing was sent)"]
        lines += [f"{name}: {value}" for name, value in self._facts()]
        lines += [
            f"{imagined.operation_id}: {_request_text(imagined)}; {_substitute_text(imagined)}"
            for imagined in self.preview.imagined
        ]
        lines += [_sentence(self.preview.why_not)] if self.preview.why_not else []
        lines += self.prompt.to_text().split("\n")[1:] if self.preview.run.prompt else []
        return printable("\n".join(lines))

    def _facts(self) -> list[tuple[str, str]]:
        preview = self.preview
        tokens = f"{show_tokens(preview.tokens, preview.token_source)} tokens"
        price = (
            "price unknown" if preview.cost is None else f"{preview.cost} for the prompt, without the reply"
        )
        tools = join_names([tool_name(tool) for tool in preview.tools], _TOOLS)
        facts = [
            ("Model", one_line(preview.model, _LINE) or "none yet: %tract model openai/gpt-6-luna"),
            ("Size", f"{tokens}; {price if preview.model else 'no model, so no price'}"),
            ("Profile", one_line(preview.run.profile or "none: the context without changes", _ID)),
            ("Messages", self.prompt.inspection.summary),
            ("Tools", tools),
        ]
        return [(name, value) for name, value in facts if value]


@dataclass(frozen=True)
class OperationPreviewView(View):
    """The dry run of one operation: its input, and its result or its request."""

    operation_id: str
    results: Sequence[OperationRun]
    imagined: Imagined | None
    effects: Sequence[Mapping[str, Any]] = ()

    @classmethod
    def of(cls, preview: PromptPreview, operation_id: str) -> OperationPreviewView:
        """Return the view of one operation of a preview."""
        results, imagined = preview.operation(operation_id)
        return cls(operation_id, results, imagined, preview.effects.get(operation_id, ()))

    def to_html(self) -> Html:
        """Return the dry run as self-contained HTML."""
        imagined = [] if self.imagined is None else [_imagined_html(self.imagined, is_open=True)]
        lines = _lines_html(self._facts(), [*imagined, *map(_effect_html, self.effects)])
        head = _head_html(f"Dry run of {one_line(self.operation_id, _ID)}")
        return styled(rows.page(head, lines, label=f"Dry run of {self.operation_id}", name="tract-dry-run"))

    def to_text(self) -> str:
        """Return the same as lines."""
        lines = [f"Dry run of {one_line(self.operation_id, _ID)} (nothing was sent)"]
        lines += [f"{name}: {value}" for name, value in self._facts()]
        if self.imagined is not None:
            lines += [f"It {_request_text(self.imagined)}; {_substitute_text(self.imagined)}"]
            lines += [f"  {line}" for line in _request_content(self.imagined).split("\n")]
        lines += [
            f"Effect {effect.get('type', '')}: {one_line(_json(effect), _LINE)}" for effect in self.effects
        ]
        return printable("\n".join(lines))

    def _facts(self) -> list[tuple[str, str]]:
        return [
            (HOOK_WORDS[result.hook].capitalize(), f"{result.status.value}. {why(result)}".strip())
            for result in self.results
        ]


def _request_text(imagined: Imagined) -> str:
    if imagined.messages:
        whom = f"the model {imagined.model}" if imagined.model else "the model"
        return f"would ask {whom}"
    return f"would call {one_line(imagined.call, _ID)}"


def _substitute_text(imagined: Imagined) -> str:
    value = imagined.instead if isinstance(imagined.instead, str) else _json(imagined.instead)
    return f"here it counts as {one_line(value, _ID)}"


def _request_content(imagined: Imagined) -> str:
    """Return the request: messages with their roles, or arguments."""
    if imagined.messages:
        return "\n\n".join(
            f"{message.get('role')}: {message.get('content')}" for message in imagined.messages
        )
    return _json(imagined.arguments)


def _head_html(title: str) -> Html:
    return element("p", element("b", title), " ", rows.badge("nothing was sent"))


def _lines_html(facts: list[tuple[str, str]], more: Iterable[Html]) -> Html:
    return rows.rows([*(rows.line(rows.said(name), rows.cut(value)) for name, value in facts), *more])


def _imagined_html(imagined: Imagined, *, is_open: bool = False) -> Html:
    cells = (
        rows.named(one_line(imagined.operation_id, _ID)),
        rows.cut(f"{_request_text(imagined)}; {_substitute_text(imagined)}"),
        rows.badge(one_line(imagined.kind, _ID)),
    )
    return rows.row(cells, rows.out(shortened(_request_content(imagined), _TEXT)), is_open=is_open)


def _effect_html(effect: Mapping[str, Any]) -> Html:
    cells = (rows.said("Effect"), rows.cut(str(effect.get("type", ""))))
    return rows.row(cells, rows.out(shortened(_json(effect), _TEXT)))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1, default=str)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}." if text else ""


# --- the commands

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
    text, profile = _message_and_profile(words)
    tract = notebook.tract
    return PreviewView.of(tract, tract.runs.preview(text, profile=profile))


def _dry_run(notebook: NotebookSession, words: list[str]) -> View:
    """Show the preview of one operation. Nothing is sent."""
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
