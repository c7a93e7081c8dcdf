"""What stands at the head of a run, and the sentences about it that HTML and text share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tract_jupyter.notebook.command import when
from tract_jupyter.notebook.excerpts import one_line
from tract_jupyter.notebook.runs.picture import State
from tract_jupyter.notebook.runs.words import duration, error_text
from tract_jupyter.runs.terms import EffectStatus, Hook, RunStatus

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tract_jupyter.notebook.runs.gantt import Gantt
    from tract_jupyter.notebook.runs.picture import Node, Picture
    from tract_jupyter.runs.model import Run

_NAME = 60
_NAMED = 8
_COMMITTED = 20
_HASH = 16
_URGENT = (State.ERROR, State.ABORTED, State.WAITING, State.SKIPPED)
_HOOKS = {Hook.BEFORE: "before the main call", Hook.AFTER: "after it"}


@dataclass(frozen=True)
class Reason:
    """Operations that are not done for the same reason."""

    state: State
    names: str
    why: str


def standing(run: Run, *, is_interrupted: bool = False) -> str:
    """How a run ended, or that it goes on; one word."""
    return "interrupted" if is_interrupted and run.status is RunStatus.RUNNING else run.status.value


def facts(shown: Picture) -> list[tuple[str, str]]:
    """Names and values, in the order in which they are shown."""
    run = shown.run
    told = [
        ("trigger", run.trigger.value),
        ("profile", one_line(run.profile, _NAME) if run.profile else "none"),
        ("branch", one_line(run.branch, _NAME) if run.branch else ""),
        ("time", _time(shown)),
        ("started", when(run.started_at) if run.started_at else ""),
        ("reply commit", run.reply_commit[:8] if run.reply_commit else ""),
        ("root hash", run.root_hash[:_HASH] if run.root_hash else ""),
    ]
    return [(name, value) for name, value in told if value]


def _time(shown: Picture) -> str:
    run = shown.run
    if run.started_at is None:
        return ""
    end = run.finished_at.timestamp() if run.finished_at else shown.at
    return duration(max(end - run.started_at.timestamp(), 0.0) * 1000)


def progress(shown: Picture) -> str:
    """How far a run that goes on is."""
    running = [node for node in shown.nodes if node.state is State.RUNNING]
    told = [f"{shown.ended:,} of {len(shown.nodes):,} operations have ended"] if shown.nodes else []
    if shown.main is State.RUNNING:
        told.append("the main call is made")
    told += [f"running: {_listed(running)}"] if running else []
    return "; ".join(told) or "it begins"


def reasons(shown: Picture) -> list[Reason]:
    """Why operations are not done, the failed ones first; those with the same reason together."""
    if shown.run.status is RunStatus.RUNNING:
        nodes = [node for node in shown.nodes if node.why and node.state is not State.PLANNED]
    else:
        nodes = [node for node in shown.nodes if node.why]
    groups: dict[tuple[int, str], list[Node]] = {}
    for node in nodes:
        groups.setdefault((_URGENT.index(node.state), node.why), []).append(node)
    ordered = sorted(groups.items(), key=lambda group: group[0][0])
    told = [Reason(_URGENT[rank], _listed(group), why) for (rank, why), group in ordered]
    return [*_not_committed(shown.run.reports), *told]


def _not_committed(reports: Iterable[Mapping[str, Any]]) -> Iterator[Reason]:
    """Effects of operations that are done, which were refused all the same."""
    for report in reports:
        for entry in report.get("entries", ()):
            if entry.get("status") == EffectStatus.ERROR:
                error = entry.get("error") or {}
                why = error_text(str(error.get("code", "")), str(error.get("message", "")))
                effect = one_line(str(entry.get("effectType", "")), _NAME)
                name = one_line(str(entry.get("operationId", "")), _NAME)
                yield Reason(State.ERROR, name, f"Its effect {effect} was not committed. {why}")


def commit_lines(shown: Picture) -> list[str]:
    """In which order effects were committed, a sentence for each hook."""
    return [
        f"Committed {_HOOKS[hook]}: {_listed(nodes, ' → ', _COMMITTED)}"
        for hook, nodes in shown.committed.items()
        if nodes
    ]


def side_by_side(chart: Gantt) -> str:
    """How much ran at once."""
    most = chart.most_at_once
    return "one after the other" if most <= 1 else f"up to {most:,} operations at once"


def _listed(nodes: list[Node], between: str = ", ", most: int = _NAMED) -> str:
    names = [
        f"{one_line(node.title, _NAME)}{' (required)' if node.required and node.why else ''}"
        for node in nodes
    ]
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return between.join(names[:most]) + more
