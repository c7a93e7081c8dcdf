"""What there is to draw of a run, whether it goes on or has ended: nodes with states and times."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from tract_jupyter.models.text import one_line
from tract_jupyter.notebook.runs.words import why
from tract_jupyter.runs.order import ready_order
from tract_jupyter.runs.terms import FailedType, Hook, OperationStatus, RunStatus

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from tract_jupyter.runs.model import Operation, OperationRun, Run

_NOTE = 80
Key = tuple[Hook, str]


class Event(Protocol):
    """An event of a run. `data` is of the kind that `type` names, such as `operation.started`."""

    @property
    def type(self) -> str:
        """What kind of event it is."""
        ...

    @property
    def at(self) -> datetime:
        """When it happened."""
        ...

    @property
    def data(self) -> Any:
        """What it tells."""
        ...


class State(StrEnum):
    """Where an operation stands; the order is that of a legend."""

    DONE = "done"
    RUNNING = "running"
    PLANNED = "planned"
    WAITING = "waiting"
    SKIPPED = "skipped"
    ERROR = "error"
    ABORTED = "aborted"


GLYPHS = {
    State.DONE: "✓", State.RUNNING: "▸", State.PLANNED: "○", State.WAITING: "?",
    State.SKIPPED: "\N{EN DASH}", State.ERROR: "✕", State.ABORTED: "■",
}  # fmt: skip


class Span(NamedTuple):
    """Seconds since the epoch; `end` is None while it goes on. `exact` is False if it was only derived."""

    start: float
    end: float | None
    exact: bool = True


@dataclass(frozen=True)
class Node:
    """An operation at one hook. `committed` counts from 1 within the hook; `why` says why it is not done."""

    id: str
    hook: Hook
    name: str
    kind: str
    state: State
    required: bool = False
    order: float = 0
    depends_on: tuple[str, ...] = ()
    span: Span | None = None
    milliseconds: float = 0
    attempts: int = 0
    why: str = ""
    note: str = ""
    committed: int | None = None

    @property
    def title(self) -> str:
        """Its name, or its id where it has none."""
        return self.name or self.id


@dataclass(frozen=True)
class Picture:
    """A run as it is drawn. `at` is the time up to which it is known, in seconds since the epoch."""

    run: Run
    nodes: tuple[Node, ...]
    main: State
    main_span: Span | None
    at: float

    def of(self, hook: Hook) -> list[Node]:
        """The operations of one hook, by (order, id)."""
        return [node for node in self.nodes if node.hook is hook]

    @property
    def committed(self) -> dict[Hook, list[Node]]:
        """The operations whose effects were committed, in that order."""
        return {
            hook: sorted((n for n in self.of(hook) if n.committed), key=lambda n: n.committed or 0)
            for hook in Hook
        }

    @property
    def ended(self) -> int:
        """How many operations have ended."""
        return sum(node.state not in {State.PLANNED, State.RUNNING, State.WAITING} for node in self.nodes)


def picture(run: Run, events: Sequence[Event] = (), now: float | None = None) -> Picture:
    """What is drawn of a run, by its events too where they are at hand: they know what runs at present.

    Without `now`, what goes on is drawn up to the last time that is known.
    """
    nodes = {(one.hook, one.operation_id): _of_run(one) for one in run.operations}
    for event in events:
        _tell(nodes, event, run)
    ordered = sorted(nodes.values(), key=lambda node: (list(Hook).index(node.hook), node.order, node.id))
    placed = _numbered(ordered, run, events)
    at = _known_until(run, placed, events)
    if now is not None and run.status is RunStatus.RUNNING:
        at = max(at, now)
    return Picture(run, tuple(placed), _main_state(run, events), _main_span(run, placed, events), at)


def planned(operations: Iterable[Operation]) -> list[Node]:
    """Operations that did not run, at each of their hooks."""
    return [_planned(one, hook) for one in operations for hook in one.config.hooks]


def commit_order(nodes: Iterable[Node]) -> list[str]:
    """Ids in the order in which effects are committed (R60, G9). What waits in a circle is left out."""
    return ready_order([(node.id, node.order, node.depends_on) for node in nodes])[0]


def _of_run(one: OperationRun) -> Node:
    span = None if one.started_at is None else Span(one.started_at, one.finished_at)
    return Node(
        one.operation_id, one.hook, one.name, one.kind, State(one.status.value), one.required, one.order,
        one.depends_on, span, one.duration_ms, one.attempts, why(one),
    )  # fmt: skip


def _planned(one: Operation, hook: Hook) -> Node:
    about, config = one.definition, one.config
    state = State.PLANNED if config.enabled else State.SKIPPED
    return Node(
        one.id, hook, about.name, about.kind, state, config.required, config.order, config.depends_on,
        why="" if config.enabled else "It is switched off in the profile.",
    )  # fmt: skip


def _tell(nodes: dict[Key, Node], event: Event, run: Run) -> None:
    """What an event says about operations that have not ended."""
    if event.type == "run.started":
        for node in planned(event.data.operations):
            nodes.setdefault((node.hook, node.id), node)
        return
    if not event.type.startswith("operation."):
        return
    key = (event.data.hook, event.data.operation_id)
    if key in nodes and not _ended(key, run):
        nodes[key] = _told(nodes[key], event)


def _told(node: Node, event: Event) -> Node:
    data = event.data
    if event.type == "operation.started":
        return replace(node, state=State.RUNNING, span=Span(data.started_at, None), why="")
    if event.type == "operation.waiting":
        return replace(node, state=State.WAITING, why="A person has to decide first: %tract inbox.")
    if event.type == "operation.attempt":
        return replace(node, attempts=data.attempt, note=f"attempt {data.attempt}")
    return replace(node, note=_progress(data.data)) if event.type == "operation.progress" else node


def _ended(key: Key, run: Run) -> bool:
    return any(
        (one.hook, one.operation_id) == key and one.status is not OperationStatus.WAITING
        for one in run.operations
    )


def _progress(data: Mapping[str, Any]) -> str:
    done, total = data.get("done"), data.get("total")
    told = [str(data[name]) for name in ("message", "text") if data.get(name)]
    if isinstance(done, int | float) and isinstance(total, int | float):
        told.insert(0, f"{done:g} of {total:g}")
    return one_line(" ".join(told), _NOTE)


def _numbered(nodes: list[Node], run: Run, events: Sequence[Event]) -> list[Node]:
    """With the place of each in the order of commits; a hook that was not committed has none."""
    numbers: dict[Key, int] = {}
    reports = {report.get("hook"): report for report in run.reports}
    for hook in Hook:
        if hook in reports:
            order = reports[hook].get("order", ())
            numbers |= {(hook, key): number for number, key in enumerate(order, 1)}
        elif _was_committed(hook, run, events):
            done = [node for node in nodes if node.hook is hook and node.state is State.DONE]
            numbers |= {(hook, key): number for number, key in enumerate(commit_order(done), 1)}
    return [replace(node, committed=numbers.get((node.hook, node.id))) for node in nodes]


def _was_committed(hook: Hook, run: Run, events: Sequence[Event]) -> bool:
    if events:
        return any(event.type == "commit.finished" and event.data.hook is hook for event in events)
    if hook is Hook.BEFORE:
        return _main_state(run, events) is not State.SKIPPED or run.failed_type is FailedType.BEFORE_BARRIER
    return run.status is RunStatus.DONE or run.failed_type is FailedType.AFTER_MAIN_LLM


def _main_state(run: Run, events: Sequence[Event]) -> State:
    if run.failed_type is FailedType.MAIN_LLM:
        return State.ERROR
    if run.reply is not None:
        return State.ABORTED if run.finish_reason in {"user_abort", "deadline"} else State.DONE
    if run.status in {RunStatus.FAILED, RunStatus.ABORTED, RunStatus.DONE}:
        return State.SKIPPED
    return State.RUNNING if any(event.type == "main_llm.started" for event in events) else State.PLANNED


def _main_span(run: Run, nodes: Sequence[Node], events: Sequence[Event]) -> Span | None:
    """When the main call was made. Without events only that it was between the operations, and the commits with it."""
    times = {event.type: event.at.timestamp() for event in events if event.type.startswith("main_llm.")}
    if "main_llm.started" in times:
        return Span(times["main_llm.started"], times.get("main_llm.finished"))
    if events or _main_state(run, events) in {State.PLANNED, State.SKIPPED}:
        return None
    before = [n.span.end for n in nodes if n.hook is Hook.BEFORE and n.span and n.span.end is not None]
    after = [n.span.start for n in nodes if n.hook is Hook.AFTER and n.span]
    start = max(before) if before else run.started_at.timestamp() if run.started_at else None
    end = min(after) if after else run.finished_at.timestamp() if run.finished_at else None
    return None if start is None or end is None or end < start else Span(start, end, exact=False)


def _known_until(run: Run, nodes: Sequence[Node], events: Sequence[Event]) -> float:
    times = [event.at.timestamp() for event in events[-1:]]
    times += [moment.timestamp() for moment in (run.started_at, run.finished_at) if moment]
    times += [node.span.end or node.span.start for node in nodes if node.span]
    return max(times, default=0.0)
