"""The data of a run for drawing, during the run and after it: nodes with states, times and sentences.

Also the page of a run, and the parts that it shares with the pages of a prompt and a profile.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tract_jupyter.models import one_line, safe_repr
from tract_jupyter.notebook.views.html import element, fragment, heading, join_names, root_html, style_tag
from tract_jupyter.runs import (
    Blocked,
    ErrorCode,
    FailedType,
    Hook,
    OperationStatus,
    RunStatus,
    Skip,
    SkippedReason,
    ready_order,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from tract_jupyter.notebook.views.html import Attribute, Html, HtmlPart
    from tract_jupyter.runs import Operation, OperationRun, Run, RunEvent, RunNote


_NAME = 60
_NAMED = 6
_MESSAGE = 400
_MINUTE = 60_000
_SECOND = 1_000

_FAILED_AT = {
    FailedType.BEFORE_BARRIER: "before the main call",
    FailedType.MAIN_LLM: "in the main call",
    FailedType.AFTER_MAIN_LLM: "after the main call",
}
_ERRORS: Final[dict[str, str]] = {
    ErrorCode.VALIDATION: "Its result is not valid",
    ErrorCode.POLICY: "It requested an effect that is not allowed here",
    ErrorCode.ARTIFACT_CONFLICT: "It wrote more than one artifact",
    ErrorCode.DEPENDENCY_FAILED: "A dependency failed",
    ErrorCode.PROVIDER: "The provider failed",
    ErrorCode.RATE_LIMITED: "The provider refused: too many requests",
    ErrorCode.TIMEOUT: "It took too long",
    ErrorCode.TEMPLATE_RENDER: "Its template cannot be rendered",
    ErrorCode.OUTPUT_PARSE: "The model's reply cannot be parsed",
    ErrorCode.BUDGET_EXCEEDED: "The budget is used up",
    ErrorCode.STORAGE: "The store failed",
    ErrorCode.OPERATION: "It failed",
}


def duration(milliseconds: float) -> str:
    """Return a time as text: `12 ms`, `1.24 s`, `2 min 05 s`."""
    if round(milliseconds) < _SECOND:
        return f"{milliseconds:.0f} ms"
    if milliseconds < _MINUTE:
        return f"{milliseconds / _SECOND:.2f} s"
    minutes, rest = divmod(round(milliseconds / _SECOND), 60)
    return f"{minutes:,} min {rest:02} s"


def why(operation: OperationRun) -> str:
    """Return why an operation is not `done`; empty if it is."""
    if operation.status is OperationStatus.SKIPPED:
        return _why_skipped(operation)
    if operation.status is OperationStatus.ERROR:
        return _why_failed(operation)
    if operation.status is OperationStatus.ABORTED:
        return "It was stopped when the run was aborted."
    if operation.status is OperationStatus.WAITING:
        return "A request needs a decision: %tract inbox."
    return ""


def outcome(run: Run) -> str:
    """Return the cause of a failure, or the decision that the run waits for; empty if there is nothing to explain."""
    if run.status is RunStatus.WAITING:
        return (
            f"A request needs a decision: %tract inbox. Then %tract run {run.run_id[:8]} --resume resumes it."
        )
    if run.status is RunStatus.ABORTED:
        if run.reply_commit is not None:
            return "It was aborted after the reply. The reply stays."
        return "It was aborted. Nothing was committed afterwards."
    if run.status is not RunStatus.FAILED:
        return ""
    at = _FAILED_AT[run.failed_type] if run.failed_type else "somewhere"
    return f"Failed {at}. {_cause(run)}".rstrip()


def _cause(run: Run) -> str:
    details = run.failed_details
    name = details.get("operationId")
    cause = next(
        (operation for operation in run.operations if operation.operation_id == name and why(operation)), None
    )
    if cause is not None:
        return f"{_required(name)}: {why(cause)}"
    if "errorCode" in details:
        return error_text(str(details["errorCode"]), str(details.get("errorMessage", "")))
    return f"{_required(name)}: its effects could not be committed." if name else ""


def _required(name: object) -> str:
    return f"Required operation {one_line(str(name), _NAME)}"


def _why_failed(operation: OperationRun) -> str:
    tried = f" It was tried {operation.attempts} times." if operation.attempts > 1 else ""
    return error_text(operation.error_code or "", operation.error_message or "", tried)


def error_text(code: str, message: str, tried: str = "") -> str:
    """Return the meaning of an error code, and the message."""
    known = _ERRORS.get(code)
    start = known or (f"It failed ({one_line(code, _NAME)})" if code else "It failed")
    text = one_line(message, _MESSAGE)
    return (
        f"{start}: {text}{'' if text.endswith(('.', '!', '?', '…')) else '.'}{tried}"
        if text
        else f"{start}.{tried}"
    )


def _why_skipped(operation: OperationRun) -> str:
    skip = operation.skip or Skip(reason=operation.skipped_reason or "")
    says = _SKIPS.get(skip.reason)
    if says is not None:
        return says(operation, skip)
    return f"It skipped itself: {one_line(skip.reason, _MESSAGE)}." if skip.reason else "It was skipped."


def _condition(skip: Skip) -> str:
    condition = skip.condition
    if not condition or "source" not in condition:
        return "One of its conditions does not hold."
    what = one_line(f"{condition['source']}.{condition.get('output', '')}".rstrip("."), _NAME)
    wanted = _word(condition.get("is", True))
    if "actual" not in condition:
        return f"Its condition does not hold: {what} should be {wanted}."
    return f"Its condition does not hold: {what} is {_word(condition['actual'])}, and should be {wanted}."


def _dependency(skip: Skip) -> str:
    names = [one_line(name, _NAME) for name in skip.blocked_by]
    if not names:
        return "A dependency did not end as done."
    is_are = "is" if len(names) == 1 else "are"
    ended = f"{is_are} not part of this run" if skip.dep is Blocked.MISSING else "did not end as done"
    sentence = f"It depends on {join_names(names, _NAMED)}, which {ended}"
    shared = (
        f" ({one_line(skip.blocked_by_reason.replace('_', ' '), _NAME)})" if skip.blocked_by_reason else ""
    )
    return f"{sentence}{shared}."


def _listed_values(values: Mapping[str, Any] | None) -> str:
    parts = [
        f"{one_line(key, _NAME)} {_word(value)}" for key, value in (values or {}).items() if value is not None
    ]
    return f" ({', '.join(parts)})" if parts else ""


def _word(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "absent" if value is None else one_line(safe_repr(value), _NAME)


def _always(text: str) -> Callable[[OperationRun, Skip], str]:
    return lambda _, __: text


_SKIPS: Final[dict[str, Callable[[OperationRun, Skip], str]]] = {
    SkippedReason.DISABLED: _always("It is switched off in the profile."),
    SkippedReason.POLICY: _always("A policy blocked it."),
    SkippedReason.RUN_ABORTED: _always("The run was aborted before it began."),
    SkippedReason.FILTERED_OUT: _always("It was filtered out of this run."),
    SkippedReason.TRIGGER_MISMATCH: lambda one, _: (
        f"It does not run when the trigger is {one.trigger.value}."
    ),
    SkippedReason.UNSUPPORTED_KIND: lambda one, _: (
        f"Nothing here runs operations of the kind {one_line(one.kind, _NAME)!r}."
    ),
    SkippedReason.CONDITION_FALSE: lambda _, skip: _condition(skip),
    SkippedReason.DEPENDENCY_FAILED: lambda _, skip: _dependency(skip),
    SkippedReason.ACTIVATION_NOT_REACHED: lambda _, skip: (
        f"It is not due yet{_listed_values(skip.activation)}."
    ),
}


def note_place(note: RunNote) -> str:
    """Return the role of a note, and its place in the conversation."""
    depth = abs(note.depth_from_end)
    if note.anchor == "after_last_user":
        place = "after the user's message"
    elif depth == 0:
        place = "at the end"
    else:
        place = f"{depth:,} message{'s' if depth > 1 else ''} before the end"
    return f"{note.role.value}, {place}"


_NOTE = 80
Key = tuple[Hook, str]


HOOK_WORDS: Final = {Hook.BEFORE: "before the main call", Hook.AFTER: "after the main call"}


class NodeState(StrEnum):
    """The state of an operation, in the order of the legend."""

    DONE = "done"
    RUNNING = "running"
    PLANNED = "planned"
    WAITING = "waiting"
    SKIPPED = "skipped"
    ERROR = "error"
    ABORTED = "aborted"


GLYPHS = {
    NodeState.DONE: "✓", NodeState.RUNNING: "▸", NodeState.PLANNED: "○", NodeState.WAITING: "?",
    NodeState.SKIPPED: "\N{EN DASH}", NodeState.ERROR: "✕", NodeState.ABORTED: "■",
}  # fmt: skip


class TimeSpan(NamedTuple):
    """A time span in seconds since the epoch. `end` is None while it is open; `exact` is False if it was derived."""

    start: float
    end: float | None
    exact: bool = True


@dataclass(frozen=True)
class OperationNode:
    """An operation at one hook. `committed` counts from 1 within the hook; `why` says why it is not done."""

    id: str
    hook: Hook
    name: str
    kind: str
    state: NodeState
    required: bool = False
    order: float = 0
    depends_on: tuple[str, ...] = ()
    span: TimeSpan | None = None
    milliseconds: float = 0
    attempts: int = 0
    why: str = ""
    note: str = ""
    committed: int | None = None

    @property
    def title(self) -> str:
        """The name, or the id if there is no name."""
        return self.name or self.id


@dataclass(frozen=True)
class Picture:
    """A run for drawing. Its state is known up to the time `at`, in seconds since the epoch."""

    run: Run
    nodes: tuple[OperationNode, ...]
    main: NodeState
    main_span: TimeSpan | None
    at: float

    def of(self, hook: Hook) -> list[OperationNode]:
        """Return the operations of one hook, by (order, id)."""
        return [node for node in self.nodes if node.hook is hook]

    @property
    def committed(self) -> dict[Hook, list[OperationNode]]:
        """The operations with committed effects, in that order."""
        return {
            hook: sorted((n for n in self.of(hook) if n.committed), key=lambda n: n.committed or 0)
            for hook in Hook
        }

    @property
    def ended(self) -> int:
        """The number of operations that have ended."""
        return sum(
            node.state not in {NodeState.PLANNED, NodeState.RUNNING, NodeState.WAITING} for node in self.nodes
        )


def picture(run: Run, events: Sequence[RunEvent] = (), now: float | None = None) -> Picture:
    """Return the data of a run. Events add the running operations.

    Without `now`, running operations end at the last known time.
    """
    nodes = {(operation.hook, operation.operation_id): _of_run(operation) for operation in run.operations}
    for event in events:
        _tell(nodes, event, run)
    ordered = sorted(nodes.values(), key=lambda node: (list(Hook).index(node.hook), node.order, node.id))
    placed = _numbered(ordered, run, events)
    at = _known_until(run, placed, events)
    if now is not None and run.status is RunStatus.RUNNING:
        at = max(at, now)
    return Picture(run, tuple(placed), _main_state(run, events), _main_span(run, placed, events), at)


def planned(operations: Iterable[Operation]) -> list[OperationNode]:
    """Return nodes of operations that have not run, one for each of their hooks."""
    return [_planned(operation, hook) for operation in operations for hook in operation.config.hooks]


def commit_order(nodes: Iterable[OperationNode]) -> list[str]:
    """Return ids in commit order: dependencies, then `order`, then id (R60). Operations in a cycle are omitted."""
    return ready_order([(node.id, node.order, node.depends_on) for node in nodes])[0]


def _of_run(operation: OperationRun) -> OperationNode:
    span = None if operation.started_at is None else TimeSpan(operation.started_at, operation.finished_at)
    return OperationNode(
        operation.operation_id, operation.hook, operation.name, operation.kind, NodeState(operation.status.value),
        operation.required, operation.order, operation.depends_on, span, operation.duration_ms, operation.attempts,
        why(operation),
    )  # fmt: skip


def _planned(operation: Operation, hook: Hook) -> OperationNode:
    about, config = operation.definition, operation.config
    state = NodeState.PLANNED if config.enabled else NodeState.SKIPPED
    return OperationNode(
        operation.id, hook, about.name, about.kind, state, config.required, config.order, config.depends_on,
        why="" if config.enabled else "It is switched off in the profile.",
    )  # fmt: skip


def _tell(nodes: dict[Key, OperationNode], event: RunEvent, run: Run) -> None:
    data: Any = event.data  # its class belongs to the type
    if event.type == "run.started":
        for node in planned(data.operations):
            nodes.setdefault((node.hook, node.id), node)
        return
    if not event.type.startswith("operation."):
        return
    key = (data.hook, data.operation_id)
    if key in nodes and not _ended(key, run):
        nodes[key] = _updated(nodes[key], event.type, data)


def _updated(node: OperationNode, event_type: str, data: Any) -> OperationNode:
    if event_type == "operation.started":
        return replace(node, state=NodeState.RUNNING, span=TimeSpan(data.started_at, None), why="")
    if event_type == "operation.waiting":
        return replace(node, state=NodeState.WAITING, why="A request needs a decision: %tract inbox.")
    if event_type == "operation.attempt":
        return replace(node, attempts=data.attempt, note=f"attempt {data.attempt}")
    return replace(node, note=_progress(data.data)) if event_type == "operation.progress" else node


def _ended(key: Key, run: Run) -> bool:
    return any(
        (operation.hook, operation.operation_id) == key and operation.status is not OperationStatus.WAITING
        for operation in run.operations
    )


def _progress(data: Mapping[str, Any]) -> str:
    done, total = data.get("done"), data.get("total")
    texts = [str(data[name]) for name in ("message", "text") if data.get(name)]
    if isinstance(done, int | float) and isinstance(total, int | float):
        texts.insert(0, f"{done:g} of {total:g}")
    return one_line(" ".join(texts), _NOTE)


def _numbered(nodes: list[OperationNode], run: Run, events: Sequence[RunEvent]) -> list[OperationNode]:
    """Return the nodes with their number in the order of commits. Nodes of an uncommitted hook have none."""
    numbers: dict[Key, int] = {}
    reports = {report.get("hook"): report for report in run.reports}
    for hook in Hook:
        if hook in reports:
            order = reports[hook].get("order", ())
            numbers |= {(hook, key): number for number, key in enumerate(order, 1)}
        elif _was_committed(hook, run, events):
            done = [node for node in nodes if node.hook is hook and node.state is NodeState.DONE]
            numbers |= {(hook, key): number for number, key in enumerate(commit_order(done), 1)}
    return [replace(node, committed=numbers.get((node.hook, node.id))) for node in nodes]


def _was_committed(hook: Hook, run: Run, events: Sequence[RunEvent]) -> bool:
    if events:
        commits: list[Any] = [event.data for event in events if event.type == "commit.finished"]
        return any(data.hook is hook for data in commits)
    if hook is Hook.BEFORE:
        return (
            _main_state(run, events) is not NodeState.SKIPPED or run.failed_type is FailedType.BEFORE_BARRIER
        )
    return run.status is RunStatus.DONE or run.failed_type is FailedType.AFTER_MAIN_LLM


def _main_state(run: Run, events: Sequence[RunEvent]) -> NodeState:
    if run.failed_type is FailedType.MAIN_LLM:
        return NodeState.ERROR
    if run.reply is not None:
        return NodeState.ABORTED if run.finish_reason in {"user_abort", "deadline"} else NodeState.DONE
    if run.status in {RunStatus.FAILED, RunStatus.ABORTED, RunStatus.DONE}:
        return NodeState.SKIPPED
    return (
        NodeState.RUNNING if any(event.type == "main_llm.started" for event in events) else NodeState.PLANNED
    )


def _main_span(run: Run, nodes: Sequence[OperationNode], events: Sequence[RunEvent]) -> TimeSpan | None:
    """Return the time span of the main call.

    Without events, it is only known to lie between the operations, including the commits.
    """
    times = {event.type: event.at.timestamp() for event in events if event.type.startswith("main_llm.")}
    if "main_llm.started" in times:
        return TimeSpan(times["main_llm.started"], times.get("main_llm.finished"))
    if events or _main_state(run, events) in {NodeState.PLANNED, NodeState.SKIPPED}:
        return None
    before = [n.span.end for n in nodes if n.hook is Hook.BEFORE and n.span and n.span.end is not None]
    after = [n.span.start for n in nodes if n.hook is Hook.AFTER and n.span]
    start = max(before) if before else run.started_at.timestamp() if run.started_at else None
    end = min(after) if after else run.finished_at.timestamp() if run.finished_at else None
    return None if start is None or end is None or end < start else TimeSpan(start, end, exact=False)


def _known_until(run: Run, nodes: Sequence[OperationNode], events: Sequence[RunEvent]) -> float:
    times = [event.at.timestamp() for event in events[-1:]]
    times += [moment.timestamp() for moment in (run.started_at, run.finished_at) if moment]
    times += [node.span.end or node.span.start for node in nodes if node.span]
    return max(times, default=0.0)


# --- the page


def run_page(body: HtmlPart, label: str, name: str, **attributes: Attribute) -> Html:
    """Return a self-contained page. `label` is for screen readers, and `name` for tests."""
    named = {"data_testid": name, **attributes, "aria_label": label}
    page = root_html(body, look="tract-views tract-run", tag="section", **named)
    return fragment(style_tag("views/views.css", "views/runs.css"), page)


def head_html(title: str, word: str, look: str = "") -> Html:
    """Return a title with a word on a color."""
    return element("header", heading(title), element("span", word, class_=("tract-badge", look)))


def facts_html(facts: Iterable[tuple[str, HtmlPart]]) -> Html:
    """Return names with their values in a line."""
    items = (element("span", element("b", name), " ", value) for name, value in facts)
    return element("p", items, class_="tract-facts")


def section(title: str, about: str, body: HtmlPart, name: str | None, *, is_open: bool) -> Html:
    """Return a folding part of a page. A note follows its title."""
    note = [" ", element("span", about, class_="tract-about")] if about else []
    summary = element("summary", title, note)
    return element("details", summary, body, class_="tract-section", data_testid=name, open=is_open)


def mark(state: NodeState, glyph: str = "") -> Html:
    """Return the mark of a state. `glyph` replaces the usual sign."""
    return element("i", glyph or GLYPHS[state], class_=f"tract-mark tract-{state}")


def reason_html(sign: Html, what: str, why: str) -> Html:
    """Return an entry of a list of reasons."""
    return element("li", sign, element("b", what), f" {why}")


def reasons_html(items: HtmlPart, name: str) -> Html:
    """Return a list of reasons."""
    return element("ul", items, class_="tract-reasons", data_testid=name)
