"""Commit the effects of operations: check the whole queue, then apply it in one transaction (E1, R58 to R60).

The result depends on the operations only, not on the order in which they ended or are listed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeGuard

from tract_jupyter.exceptions import PlanError, RunError, TractError
from tract_jupyter.models import shortened
from tract_jupyter.runs.artifacts import upserted
from tract_jupyter.runs.effect_types import (
    PROMPT_EFFECTS,
    ArtifactUpsert,
    AssistantReplaceText,
    UiInline,
    UserReplaceText,
)
from tract_jupyter.runs.effects import REWRITES, check_together, checked_effect, effect_type
from tract_jupyter.runs.model import ResultError
from tract_jupyter.runs.schedule import ready_order
from tract_jupyter.runs.terms import (
    MAX_EFFECTS,
    MAX_ERROR_TEXT,
    Data,
    EffectStatus,
    ErrorCode,
    Hook,
    OperationStatus,
    Persistence,
    PlanErrorCode,
)
from tract_jupyter.runs.turn import Turn, rewritten

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tract_jupyter.runs.effect_types import Effect
    from tract_jupyter.runs.model import ArtifactView, Operation, OperationResult
    from tract_jupyter.runs.targets import RunTarget


class CommitEntry(Data):
    """The outcome of one effect. `error` says why it was not applied."""

    operation_id: str
    effect_index: int
    effect_type: str
    status: EffectStatus
    error: ResultError | None = None


RewriteTarget = Literal["user", "reply"]


class Rewrite(Data):
    """A rewritten text of the turn: the text and its part, before and after."""

    operation_id: str
    target: RewriteTarget
    before: str
    after: str
    replaced: str | None = None
    part: str | None = None


class CommitReport(Data):
    """A commit: all effects and all operations, in commit order.

    Attributes:
        required_error: True if an effect of a required operation was not applied. Then the run has failed (E6).
    """

    hook: Hook
    entries: tuple[CommitEntry, ...] = ()
    rewrites: tuple[Rewrite, ...] = ()
    order: tuple[str, ...] = ()
    required_error: bool = False

    @property
    def status(self) -> Literal["done", "error"]:
        """`error` if an effect of a required operation was not applied, otherwise `done`."""
        return "error" if self.required_error else "done"


class EffectWriter:
    """Writes the effects of one commit. Each rewrite starts from the text of the previous one (G30).

    Args:
        turn: the turn before the commit.
        target: receives the effects.
    """

    def __init__(self, turn: Turn, target: RunTarget) -> None:
        self._turn = turn
        self._target = target
        self._persisted: dict[str, ArtifactView] | None = None
        self._written: dict[str, None] = {}
        self.rewrites: list[Rewrite] = []

    def apply(self, effect: Effect, operation_id: str) -> ResultError | None:
        """Write an effect to the target. Return the error if the target refused it."""
        try:
            if isinstance(effect, UserReplaceText):
                self._rewrite("user", effect.text, operation_id)
            elif isinstance(effect, AssistantReplaceText):
                self._rewrite("reply", effect.text, operation_id)
            elif _is_persisted(effect):
                self._persist(effect)
        except Exception as error:  # noqa: BLE001 # any exception of the target is the effect's error (X06)
            return storage_error(error)
        return None

    def finish(self) -> None:
        """Write the artifacts, once for all effects."""
        if self._written:
            persisted = self._known_artifacts()
            self._target.put_artifacts([persisted[tag] for tag in self._written])

    def _rewrite(self, target: RewriteTarget, text: str, operation_id: str) -> None:
        turn = self._turn
        before, replaced = (
            (turn.user_text, turn.user_part) if target == "user" else (turn.reply, turn.reply_part)
        )
        if before is None:
            raise RunError("There is no reply to rewrite. The main call returned none.")
        rewrite = Rewrite(
            operation_id=operation_id, target=target, before=before, after=text, replaced=replaced,
            part=self._target.rewrite(target, replaced, text, operation_id),
        )  # fmt: skip
        self.rewrites.append(rewrite)
        self._turn = rewritten(turn, rewrite)

    def _persist(self, effect: ArtifactUpsert) -> None:
        if self._target.session is None:
            raise RunError(
                f"The artifact {effect.tag!r} cannot be persisted because this run has no session key. "
                "Run a profile, or make the artifact run_only."
            )
        known = self._known_artifacts()
        known[effect.tag] = upserted(known.get(effect.tag), effect)
        self._written[effect.tag] = None

    def _known_artifacts(self) -> dict[str, ArtifactView]:
        """Return the artifacts of the store now: another run may have written since this one began."""
        if self._persisted is None:
            artifacts: Mapping[str, ArtifactView] = self._target.artifacts()
            self._persisted = dict(artifacts)
        return self._persisted


def storage_error(error: Exception) -> ResultError:
    """Return the error that reports a failed write."""
    text = str(error) if isinstance(error, TractError) else f"{type(error).__name__}: {error}"
    safe = text.encode("utf-8", "replace").decode()
    return ResultError(code=ErrorCode.STORAGE, message=shortened(safe, MAX_ERROR_TEXT))


@dataclass(frozen=True, slots=True)
class CommitItem:
    """An ended operation with its effects, valid or not (E2)."""

    operation_id: str
    order: float
    depends_on: Sequence[str] = ()
    required: bool = False
    status: OperationStatus = OperationStatus.DONE
    effects: Sequence[Effect | Any] = ()

    @classmethod
    def of(cls, operation: Operation, result: OperationResult) -> CommitItem:
        """Make the item of an operation and its result."""
        config = operation.config
        return cls(
            result.operation_id,
            config.order,
            config.depends_on,
            config.required,
            result.status,
            result.effects,
        )


class CommitResult(NamedTuple):
    """The turn after a commit, and the report."""

    turn: Turn
    report: CommitReport


def commit_order(queue: Iterable[CommitItem]) -> tuple[str, ...]:
    """Return the ids of the done operations, in commit order (R59, R60).

    Raises:
        PlanError: an id occurs twice, an order is not a number, or dependencies form a cycle.
    """
    nodes = [
        (one.operation_id, one.order, one.depends_on) for one in queue if one.status == OperationStatus.DONE
    ]
    names = set()
    for name, order, _ in nodes:
        if not math.isfinite(order):
            message = f"The order of {name!r} is {order}. Use a finite number."
            raise PlanError(PlanErrorCode.INVALID_ORDER, message)
        names.add(name)
    if len(names) < len(nodes):
        raise PlanError(PlanErrorCode.DUPLICATE_ID, "Two operations have the same id. Rename one.")
    ordered, stuck = ready_order(nodes)
    if stuck:
        raise PlanError(
            PlanErrorCode.CYCLE, f"These operations depend on each other in a cycle: {', '.join(stuck)}"
        )
    return tuple(ordered)


def commit(hook: Hook, queue: Iterable[CommitItem], turn: Turn, target: RunTarget) -> CommitResult:
    """Apply the effects of done operations, in commit order.

    A refused effect does not affect the others (X06). If an effect is stored, all are, in one transaction. If it fails,
    nothing is stored, and each effect in it is a `storage_error`. A commit that this run has made already is not
    repeated.

    Args:
        hook: the hook of the operations.
        queue: ended operations, in any order; only `done` ones have effects (R59).
        turn: the turn before the commit; it is not changed.
        target: receives the effects.

    Raises:
        PlanError: the operations have no order; nothing was applied.
        RunError: this run has committed other effects at this hook.
    """
    items = list(queue)
    order = commit_order(items)
    steps = _steps(items, order, hook)
    persists = [one for one in steps if _is_persisted(one.effect)]
    rewrites = [one for one in steps if isinstance(one.effect, REWRITES)]
    persisted: Mapping[str, ArtifactView] | None = None
    try:
        report = target.committed(hook)
        if report is None and (persists or rewrites):
            with target.transaction():
                report = _apply(hook, order, steps, turn, target)
                target.record(report)
                if persists:
                    persisted = target.artifacts()
        elif report is None:  # no effect is stored, and the log has the same facts
            report = _report(hook, order, steps, [one.error for one in steps])
    except Exception as error:  # noqa: BLE001 # a database or a disk may raise anything, and must not end the run
        return CommitResult(
            turn, _report(hook, order, steps, [one.error or storage_error(error) for one in steps])
        )
    return CommitResult(_turn_after(turn, hook, steps, report, persisted), report)


class _Step(NamedTuple):
    """An effect that was checked, or the error of the check."""

    operation_id: str
    place: int
    type: str
    required: bool
    effect: Effect | None
    error: ResultError | None


def _is_persisted(effect: Effect | None) -> TypeGuard[ArtifactUpsert]:
    return isinstance(effect, ArtifactUpsert) and effect.persistence is Persistence.PERSISTED


def _steps(queue: Iterable[CommitItem], order: Iterable[str], hook: Hook) -> list[_Step]:
    """Return all effects in commit order: by operation, and in the operation's own order (E3)."""
    items = {one.operation_id: one for one in queue if one.status == OperationStatus.DONE}
    steps = []
    for item in map(items.__getitem__, order):
        joint_error = check_together(item.effects)
        for index, effect in enumerate(item.effects[: MAX_EFFECTS + 1]):
            checked = joint_error or checked_effect(effect, hook)
            effect_or_none, error = (None, checked) if isinstance(checked, ResultError) else (checked, None)
            kind = effect_type(effect) if effect_or_none is None else effect_or_none.type
            steps.append(_Step(item.operation_id, index, kind, item.required, effect_or_none, error))
    return steps


def _apply(
    hook: Hook, order: tuple[str, ...], steps: Sequence[_Step], turn: Turn, target: RunTarget
) -> CommitReport:
    """Write the effects within the target's transaction."""
    applying = EffectWriter(turn, target)
    errors = [
        one.error if one.effect is None else applying.apply(one.effect, one.operation_id) for one in steps
    ]
    applying.finish()
    return _report(hook, order, steps, errors, tuple(applying.rewrites))


def _report(
    hook: Hook,
    order: tuple[str, ...],
    steps: Sequence[_Step],
    errors: Sequence[ResultError | None],
    rewrites: tuple[Rewrite, ...] = (),
) -> CommitReport:
    entries, is_failed = [], False
    for one, error in zip(steps, errors, strict=True):
        status = EffectStatus.APPLIED if error is None else EffectStatus.ERROR
        entries.append(CommitEntry(
            operation_id=one.operation_id, effect_index=one.place, effect_type=one.type, status=status, error=error
        ))  # fmt: skip
        is_failed = is_failed or (one.required and error is not None)
    return CommitReport(
        hook=hook, entries=tuple(entries), rewrites=rewrites, order=order, required_error=is_failed
    )


def _turn_after(
    turn: Turn,
    hook: Hook,
    steps: Sequence[_Step],
    report: CommitReport,
    persisted: Mapping[str, ArtifactView] | None,
) -> Turn:
    """Return the turn after the applied effects of a report, from this commit or from one before a crash."""
    applied = _applied(steps, report)
    artifacts = turn.artifacts.upsert([one for _, one in applied if isinstance(one, ArtifactUpsert)])
    if persisted is not None:  # the target has the current ones
        artifacts = replace(artifacts, persisted=dict(persisted))
    prompt = turn.prompt
    if hook == Hook.BEFORE:  # after the main call, it stays as sent
        prompt = prompt.apply_all(
            [(label, one) for label, one in applied if isinstance(one, (*PROMPT_EFFECTS, UserReplaceText))]
        )
    notes = [(label, one) for label, one in applied if isinstance(one, UiInline)]
    after = replace(turn, prompt=prompt, artifacts=artifacts, notes=(*turn.notes, *notes))
    return reduce(rewritten, report.rewrites, after)


def _applied(steps: Sequence[_Step], report: CommitReport) -> list[tuple[str, Effect]]:
    applied, is_same = [], len(steps) == len(report.entries)
    for step, entry in zip(steps, report.entries, strict=False):
        if entry.status is EffectStatus.APPLIED and step.effect is not None:
            applied.append((step.operation_id, step.effect))
        known = (entry.operation_id, entry.effect_index, entry.effect_type)
        is_same = is_same and known == (step.operation_id, step.place, step.type)
    if not is_same:
        raise RunError(
            f"This run has committed other effects in {report.hook} already, so nothing was applied. "
            "Resume it with its recorded results."
        )
    return applied
