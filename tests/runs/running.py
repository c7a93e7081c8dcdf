"""What tests of runs share: profiles, clients that misbehave, and how a tract stands at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tract_jupyter.concurrency import current_stop
from tract_jupyter.runs import ResultError, check_together, checked_effect
from tract_jupyter.runs.kinds import OperationOutput
from tract_jupyter.runs.profile import OperationProfile, run_operation

if TYPE_CHECKING:
    from collections.abc import Callable

    from tract_jupyter import Tract
    from tract_jupyter.runs import Operation, OperationContext, Run


def compute(name: str, function: str | None = None, **config: Any) -> Operation:
    """An operation that calls a registered function of its own name."""
    return run_operation(name, "compute", function=function or name, **{"order": 10, **config})


def story() -> OperationProfile:
    """One operation of each sort: a guard, a template that it decides about, memory, and rewrites of both texts."""
    return OperationProfile.of("story", [
        run_operation("ask", "guard", order=1, engine="liquid", outputs=["dark"], text='{"dark": true}'),
        run_operation("mood", order=10, text="Be kind.", into="system", only_if={"ask.dark": True}, required=True),
        run_operation("diary", order=20, text="{{ art.diary.value }}+", tag="diary", keep=True, history={"maxItems": 9}),
        run_operation("clear", order=30, text="Where is the cat?", into="message", required=True),
        run_operation("polish", order=10, text="It sleeps.", into="reply", when="after", required=True),
        run_operation("count", order=20, text="{{ art.count.value }}#", tag="count", keep=True, when="after"),
        run_operation("rare", order=40, text="x", into="tail", activation={"everyNTurns": 2}),
    ])  # fmt: skip


def end_state(tract: Tract, run: Run) -> dict[str, Any]:
    """All of a tract and its newest run that does not differ by itself."""
    started = tract.runs.events(run.run_id)[0].data
    persisted = tract._parts.engine.artifacts.load(started.session_key)
    return {
        "messages": [(one.role, one.content) for one in tract.compile().messages],
        "commits": [(one.operation, one.content_hash) for one in tract.log()],
        "artifacts": {tag: view.to_dict() for tag, view in persisted.items()},
        "counters": tract._parts.engine.artifacts.at(tract.head).counters.get("story", {}),
        "runs": len(tract.runs()),
        "statuses": {(one.hook, one.operation_id): one.status for one in run.operations},
        "end": (run.status, run.failed_type, run.reply),
        "reports": [without_parts(report) for report in run.reports],
        "root": run.root_hash,
        "damage": tract.verify(),
    }


def without_parts(report: dict[str, Any]) -> dict[str, Any]:
    """A commit report without the hashes of commits, which hold the time."""
    rewrites = [
        {key: value for key, value in one.items() if key not in {"part", "replaced"}}
        for one in report.get("rewrites", [])
    ]
    return {**report, "rewrites": rewrites}


def errors(run: Run) -> dict[str, str | None]:
    """Why operations failed, or were skipped."""
    return {one.operation_id: one.error_code or one.skipped_reason for one in run.operations}


def until_told_to_stop(_: OperationContext, __: dict[str, Any]) -> str:
    """Work until the signal comes."""
    current_stop().wait()
    current_stop().check()
    return "never"


def effects(*given: dict[str, Any]) -> Callable[..., OperationOutput]:
    """A function that gives these effects."""
    return lambda _context, _arguments: OperationOutput(effects=list(given))


def upsert(tag: str) -> dict[str, Any]:
    """An effect that writes an artifact of this run."""
    return {
        "type": "artifact.upsert", "tag": tag, "value": 1, "format": "json", "persistence": "run_only",
        "usage": "internal", "semantics": "intermediate",
    }  # fmt: skip


def check_effect(effect: Any, hook: Any) -> ResultError | None:
    """Why an effect cannot be applied; None if it can."""
    checked = checked_effect(effect, hook)
    return checked if isinstance(checked, ResultError) else None


def check_effects(effects: list[Any], hook: Any) -> ResultError | None:
    """The first reason why the effects of one operation cannot be applied; None if they can."""
    refused = check_together(effects)
    return refused or next((error for one in effects if (error := check_effect(one, hook))), None)
