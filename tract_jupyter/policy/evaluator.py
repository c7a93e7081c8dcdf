"""Evaluates policies at their moments, and executes, proposes or reports their actions.

Each tract evaluates once at a time, so the actions of policies trigger no policies. A firing is stored as a row in
the same transaction as its action. If the action may call a model or a handler may decide, the row is written before
and after the action instead. If several processes fire at once, only the first one that increments the row's counter
continues.
"""

from __future__ import annotations

import copy
import threading
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import RejectedError, UndecidedError
from tract_jupyter.models import AutonomyLevel, PendingStatus, canonical_json, one_line, warn
from tract_jupyter.policy.protocols import ORCHESTRATE, PolicyWarning, wanted_of
from tract_jupyter.policy.saved import slot_of
from tract_jupyter.policy.view import PolicyView
from tract_jupyter.review import has_ended, this_process
from tract_jupyter.storage import is_order, protected_context, triggered
from tract_jupyter.toolkit import Permission, policy_actor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from sqlalchemy import Connection

    from tract_jupyter.context import Repository, VersionedContext
    from tract_jupyter.policy.protocols import PolicyAction
    from tract_jupyter.policy.saved import PolicyStore, Slot
    from tract_jupyter.policy.view import ContextWatch
    from tract_jupyter.storage import PendingRows
    from tract_jupyter.toolkit import Autonomy, PendingPolicy, PolicyCalls

OUTCOMES: Final = (
    "executed", "proposed", "told", "rejected", "denied", "failed", "began", "interrupted", "skipped",
)  # fmt: skip
"""The possible outcomes of a firing. Each is an event `policy.<outcome>`."""
_LONGEST: Final = 500  # maximum characters of an error in the journal


class PolicyEvaluator:
    """The evaluator of one tract's policies.

    Args:
        tract: the tract that policies read.
        repository: the repository of the tract.
        store: the stored policies.
        pendings: the rows of proposals.
        calls: calls tools for policies, and proposes calls.
        ceiling: returns the limit of their autonomy.
        watch: tracks the context.
        orchestrate: starts an orchestrator, with the reason and the effective level.
        unfinished: returns the reason why no orchestrator can start now, because a run is unfinished. Empty if one
            can start.
    """

    def __init__(
        self,
        tract: VersionedContext,
        repository: Repository,
        store: PolicyStore,
        pendings: PendingRows,
        calls: PolicyCalls,
        ceiling: Callable[[], Autonomy],
        watch: ContextWatch,
        orchestrate: Callable[[str, AutonomyLevel], object] | None = None,
        *,
        unfinished: Callable[[], str] = lambda: "",
    ) -> None:
        self.tract = tract
        self.repository = repository
        self.store = store
        self._pendings = pendings
        self.calls = calls
        self.ceiling = ceiling
        self.watch = watch
        self.orchestrate = orchestrate
        self.unfinished = unfinished
        self.tell: Callable[[str], object] | None = None
        """Receives a line for the user about an action that did not run. If None, the line is a warning."""
        self.is_paused = False
        self._lock = threading.Lock()  # held during an evaluation; not reentrant
        self._holds: list[None] = []
        self._suspensions: list[None] = []
        self._owed: set[str] = set()
        self.objects: dict[str, Any] = {}
        """This process's policy objects that are not built in."""
        self.slots: dict[str, Slot] = {}
        self._due: dict[str, list[Slot]] = {}

    # --- the policies

    def reload(self) -> None:
        """Reload the policies. Other processes may have added, removed or fired some."""
        former = self.slots
        with self.repository.database.read() as connection:
            rows = self.store.rows_of(connection)
        slots = {}
        for row in rows:
            before = former.get(row.name)
            is_same = before is not None and before.row == row
            policy = self.objects.get(row.name)
            if before is not None and is_same and (before.policy is not None or policy is None):
                slots[row.name] = before
                continue
            slot = slots[row.name] = slot_of(row, self.store, policy)
            if before is not None:
                slot.error = before.error
            if before is None or before.policy is None or (slot.is_on and not before.is_on):
                self.watch.new = None  # it has not seen these commits
        self.slots = slots
        self._sort()
        for slot in list(slots.values()):
            self._recover(slot)

    def _sort(self) -> None:
        due: dict[str, list[Slot]] = {}
        for slot in sorted(self.slots.values(), key=lambda one: (one.priority, one.name)):
            if slot.is_on and slot.policy is not None:
                for moment in slot.moments:
                    due.setdefault(moment, []).append(slot)
        self._due = due

    # --- moments

    def committed(self, entries: Sequence[Any] | None) -> None:
        """Record commits and evaluate the policies, except within a batch, a turn or a policy's action."""
        if entries is None:
            self.watch.forget()
            return
        self.watch.take(entries)
        self._moment("commit")

    def compiling(self) -> None:
        """Evaluate the policies that are due before a compilation of the context."""
        self._moment("compile")

    def hold(self) -> AbstractContextManager[None]:
        """Postpone all evaluation within this context, because a turn is running."""
        return _counted(self._holds)

    def end_turn(self) -> None:
        """After the last turn, evaluate the due policies."""
        if self._is_free() and not self._lock.locked():
            self.reload()
            self._owed |= {"compile", "turn"}
            self._moment("turn")

    def suspend(self) -> AbstractContextManager[None]:
        """Evaluate no policies within this context."""
        return _counted(self._suspensions)

    def _is_free(self) -> bool:
        return not (
            self.is_paused or self._suspensions or self._holds or self.repository.database.in_transaction
        )

    def _moment(self, moment: str) -> None:
        due = self._due.get(moment)
        if not due and not self._owed:
            return
        if not self._is_free():
            if not self._suspensions and not self.is_paused:
                self._owed.add(moment)
            return
        if not self._lock.acquire(blocking=False):
            return  # within a policy's action, or during an evaluation in another thread
        try:
            if self._owed:
                owed, self._owed = self._owed | {moment}, set()
                for one in ("compile", "commit", "turn"):
                    if one in owed and (one != "commit" or self.watch.new != []):
                        self._evaluate_all(one)
            else:
                self._evaluate_all(moment)
        finally:
            self._lock.release()

    def _evaluate_all(self, moment: str) -> None:
        """Evaluate the policies of a moment once."""
        watch = self.watch
        count = None if watch.new is None else len(watch.new)
        view = PolicyView(self.tract, watch, moment)
        for slot in tuple(self._due.get(moment, ())):
            if self._evaluate(slot, view):  # something happened
                watch.changed()
                view = PolicyView(self.tract, watch, moment)
        if moment == "commit":
            watch.settled(count)

    def _evaluate(self, slot: Slot, view: PolicyView) -> bool:
        """Evaluate one policy and execute its actions. Return True if anything happened."""
        policy = slot.policy
        if slot.cooldown and self._is_cooling(slot, view):
            return False
        memory: dict[str, Any] = {}
        if slot.remembers:
            memory = view.memory = slot.own
        try:
            if slot.is_built_in:
                result = policy.evaluate(view)
            else:
                # a read transaction: writes and model calls are impossible
                with self.repository.database.read():
                    result = policy.evaluate(view)
            if result is None and memory == slot.saved and not slot.memory.get("stopped"):
                slot.error = ""
                return False
            wanted = wanted_of(result)
            canonical_json(memory)
        except BaseException as error:
            # an exception of a policy never breaks the commit
            if is_order(error):
                raise
            slot.memory["own"] = copy.deepcopy(slot.saved)
            self._report_broken(slot, error)
            return False
        slot.error = ""
        try:
            return self._perform(slot, wanted, view, has_news=memory != slot.saved)
        except Exception as error:  # noqa: BLE001 # a store error does not break it either
            self._warn(slot, f"its requested actions could not be executed ({_words(error)})")
            with suppress(Exception):
                self.reload()
            return True

    def _is_cooling(self, slot: Slot, view: PolicyView) -> bool:
        at = slot.fired.get("at")
        try:
            return (
                isinstance(at, str)
                and (view.now - datetime.fromisoformat(at)).total_seconds() < slot.cooldown
            )
        except (ValueError, TypeError):
            return False

    def _perform(
        self, slot: Slot, wanted: tuple[PolicyAction, ...], view: PolicyView, *, has_news: bool
    ) -> bool:
        """Execute the new actions. Drop the stopped conditions of subjects that the policy no longer proposes."""
        if getattr(slot.policy, "forgets", True):
            subjects = {one.about for one in wanted}
            stopped = [one for one in slot.stopped if isinstance(one, list) and one and one[0] in subjects]
            has_news = has_news or len(stopped) != len(slot.stopped)
            slot.memory["stopped"] = stopped
        fresh = [one for one in wanted if not slot.is_stopped(one.about, one.condition)]
        groups: dict[tuple[str, str, str], list[PolicyAction]] = {}
        for one in fresh:
            key = (one.action_type, canonical_json(dict(one.params)), one.autonomy.value)
            groups.setdefault(key, []).append(one)
        happened = False
        for group in groups.values():
            due = [one for one in group if not self._is_open(slot, one)]
            if due and self._fire(slot, due, view):
                happened = True
                has_news = False
                if self.slots.get(slot.name) is not slot:
                    break  # another process changed it
        if has_news:
            self._remember(slot)
        return happened

    # --- earlier proposals

    def _is_open(self, slot: Slot, action: PolicyAction) -> bool:
        """Return True if a proposal with the same `about` is open, or was settled in the same condition."""
        known = slot.open.get(action.about)
        if known is None:
            return False
        pending_id, condition = (*known, "")[:2] if isinstance(known, list) and known else ("", "")
        with self.repository.database.read() as connection:
            stored = self._pendings.get(connection, str(pending_id))
        if stored is not None and PendingStatus(stored.status).is_open:
            return True
        del slot.open[action.about]
        slot.stop(action.about, str(condition))
        if stored is not None:
            slot.fired["outcome"] = str(stored.status)
        self._remember(slot)
        return slot.is_stopped(action.about, action.condition)

    def _recover(self, slot: Slot) -> None:
        """Report an action that a dead process left unfinished."""
        began = slot.began
        if began is None or slot.why or not has_ended(str(began.get("process"))):
            return
        slot.memory["began"] = None
        about = {"action": began.get("action"), "reason": began.get("reason"), "began_at": began.get("at")}
        if self._journal(slot, "interrupted", about):
            self._warn(
                slot,
                f"a process died while it ran {began.get('action')!r}; check in '%tract log' whether the action was "
                "done. The policy is evaluated again",
            )

    # --- firing

    def _fire(self, slot: Slot, actions: list[PolicyAction], view: PolicyView) -> bool:
        """Execute, propose or report one action, for one or more reasons. Return True if anything happened."""
        if slot.began is not None:
            self._recover(slot)
            if slot.began is not None:
                return False  # another process is running the action
        action = actions[0]
        reason = " ".join(dict.fromkeys(one.reason for one in actions if one.reason))
        level = self.ceiling().effective(action.autonomy)
        about: dict[str, Any] = {
            "action": action.action_type, "params": dict(action.params), "reason": reason,
            "autonomy": action.autonomy.value, "effective": level.value,
        }  # fmt: skip
        fired = getattr(slot.policy, "fired", None)
        former = copy.deepcopy(slot.memory)
        if callable(fired):
            fired(view)
        for one in actions:
            slot.stop(one.about, one.condition)
        try:
            return self._execute(slot, actions, reason, level, about)
        except _LostError:
            slot.memory = former
            self.reload()  # another process changed or fired it
            return True

    def _execute(
        self,
        slot: Slot,
        actions: list[PolicyAction],
        reason: str,
        level: AutonomyLevel,
        about: dict[str, Any],
    ) -> bool:
        action, is_manual = actions[0], level is AutonomyLevel.MANUAL
        try:
            if action.action_type == ORCHESTRATE and not is_manual:
                self._orchestrate(slot, reason, level, about)
            elif is_manual and not self.calls.has_handlers:
                self._record(slot, "told", about)
                self._tell(slot, about)
            else:
                self._use_tool(slot, actions, reason, level, about)
        except _LostError:
            raise
        except Exception as error:  # noqa: BLE001 # reported and logged, never raised in the commit
            for one in actions:
                slot.open.pop(one.about, None)
                slot.stop(one.about, one.condition)
            self._report_failure(slot, about, error)
        return True

    def _tell(self, slot: Slot, about: dict[str, Any]) -> None:
        self._say(
            f"Policy {slot.name} would {about['action']}: {about['reason']} "
            "(Autonomy is manual: nothing was done.)"
        )

    def _orchestrate(self, slot: Slot, reason: str, level: AutonomyLevel, about: dict[str, Any]) -> None:
        """Start an orchestrator, which asks about its steps itself. Skip the start if a run is unfinished."""
        start = self.orchestrate
        if start is None:
            raise LookupError("no orchestrator is available")
        why, reported = self.unfinished(), slot.memory.pop("skipped", "")
        if why:
            slot.memory["skipped"] = why
            if reported == why:  # once for each run
                self._remember(slot)
            else:
                self._record(slot, "skipped", {**about, "error": why})
            return
        self._in_two_steps(slot, about, lambda: start(reason, level))

    def _use_tool(
        self,
        slot: Slot,
        actions: list[PolicyAction],
        reason: str,
        level: AutonomyLevel,
        about: dict[str, Any],
    ) -> None:
        """Let handlers decide about a tool call. If none decides, call or propose it, depending on the permission."""
        action, name = actions[0], slot.name
        tool, actor = self.calls.tool(action.action_type, action.params), policy_actor(name)
        permission = self.ceiling().permission(tool, level, actor)
        is_manual = level is AutonomyLevel.MANUAL
        if permission is Permission.DENY and not is_manual:
            why = self.ceiling().why_not(tool, level, actor)
            self._record(slot, "denied", {**about, "error": why})
            self._say(f"Policy {name} was not allowed to {action.action_type}: {why}")
            return
        if permission is Permission.ASK and not self.calls.has_handlers:
            self._propose(slot, actions, reason, about)
            return

        def propose(pending: PendingPolicy) -> None:
            raise UndecidedError(f"{pending.title!r} waits in '%tract inbox'", self.calls.keep(pending))

        def tell(_: PendingPolicy) -> None:
            self._tell(slot, about)
            raise _ReportedError

        unhandled = tell if is_manual else propose if permission is Permission.ASK else None

        def call() -> object:
            return self.calls.apply(
                name, action.action_type, action.params, reason=reason, permission=Permission.ALLOW,
                unhandled=unhandled,
            )  # fmt: skip

        if tool.traits.open_world or self.calls.is_decided_by_handlers(tool):
            self._in_two_steps(slot, about, call, actions)
            return
        with triggered(f"policy {name}"), self.repository.database.write() as connection:
            self._claim(connection, slot, "executed", about)
            call()
        self._count(slot)

    def _in_two_steps(
        self,
        slot: Slot,
        about: dict[str, Any],
        call: Callable[[], object],
        actions: Sequence[PolicyAction] = (),
    ) -> None:
        """Store the start, run the call, and store the outcome.

        If the call is undecided, the proposal of these actions stays open.
        """
        at = self.watch.clock().isoformat()
        slot.memory["began"] = {
            "process": this_process(), "action": about["action"], "reason": about["reason"], "at": at
        }  # fmt: skip
        self._record(slot, "began", about)
        outcome, more = "executed", {}
        try:
            with triggered(f"policy {slot.name}"):
                call()
        except UndecidedError as error:
            outcome, more = "proposed", {"pending_id": getattr(error.pending, "pending_id", "")}
            self._keep_open(slot, actions, more["pending_id"])
        except _ReportedError:
            outcome = "told"
        except RejectedError as error:
            outcome, more = "rejected", {"error": _words(error)}
        except Exception:
            slot.memory["began"] = None
            raise
        except BaseException:  # the user interrupted the action
            slot.memory["began"] = None
            with suppress(Exception):
                self._journal(slot, "interrupted", about)
            raise
        slot.memory["began"] = None
        self._restart_counters(slot)
        self._journal(slot, outcome, {**about, **more})

    def _restart_counters(self, slot: Slot) -> None:
        """Restart a policy's counters after its action."""
        fired = getattr(slot.policy, "fired", None)
        if callable(fired):
            view = PolicyView(self.tract, self.watch, "turn")
            view.memory = slot.own
            fired(view)

    def _keep_open(self, slot: Slot, actions: Sequence[PolicyAction], pending_id: str) -> None:
        for one in actions if pending_id else ():
            slot.stopped.remove([one.about, one.condition])
            slot.open[one.about] = [pending_id, one.condition]

    def _propose(self, slot: Slot, actions: list[PolicyAction], reason: str, about: dict[str, Any]) -> None:
        """Put a proposal into the user's inbox."""
        action = actions[0]
        with triggered(f"policy {slot.name}"), self.repository.database.write() as connection:
            pending = self.calls.propose(slot.name, action.action_type, action.params, reason=reason)
            self._keep_open(slot, actions, pending.pending_id)
            self._claim(connection, slot, "proposed", {**about, "pending_id": pending.pending_id})
        self._count(slot)

    def _report_failure(self, slot: Slot, about: dict[str, Any], error: Exception) -> None:
        words = _words(error)
        self._journal(slot, "failed", {**about, "error": words})
        self._warn(
            slot,
            f"its action {about['action']!r} failed: {words}. The policy tries again after the next change",
        )

    def _report_broken(self, slot: Slot, error: BaseException) -> None:
        """Report once that the evaluation of a policy failed."""
        words = _words(error)
        if slot.error == words:
            return
        slot.error = words
        with suppress(Exception):
            self._journal(slot, "failed", {"action": None, "error": words})
        self._warn(slot, f"its evaluation failed: {words}. It has no effect until an evaluation succeeds")

    # --- the rows

    def _claim(self, connection: Connection, slot: Slot, outcome: str, about: dict[str, Any]) -> None:
        """Store the outcome of a firing, with its event, in the caller's transaction.

        Raises:
            _LostError: another process changed or fired the policy. The caller must roll back the transaction.
        """
        slot.memory["fired"] = {
            "at": self.watch.clock().isoformat(), "outcome": outcome, "reason": str(about.get("reason", ""))
        }  # fmt: skip
        if not self.store.rows.remember(connection, slot.row, canonical_json(slot.memory)):  # type: ignore[attr-defined]
            raise _LostError
        data = {"name": slot.name, "type": slot.type_name, **about}
        self.repository.events.append(connection, f"policy.{outcome}", policy_actor(slot.name), data)

    def _count(self, slot: Slot) -> None:
        """Update the slot after a write of its row."""
        slot.row = slot.row._replace(memory_json=canonical_json(slot.memory), firings=slot.row.firings + 1)
        slot.saved = copy.deepcopy(slot.own) if slot.remembers else {}

    def _record(self, slot: Slot, outcome: str, about: dict[str, Any]) -> None:
        with self.repository.database.write() as connection:
            self._claim(connection, slot, outcome, about)
        self._count(slot)

    def _journal(self, slot: Slot, outcome: str, about: dict[str, Any]) -> bool:
        """Store an outcome. Keep changes by other processes. Return False if they make the outcome obsolete."""
        memory = slot.memory
        try:
            self._record(slot, outcome, about)
        except _LostError:
            self._reread(slot)
            current = self.slots.get(slot.name)
            if current is None or current.row.name != slot.name:
                return False
            if current.began is None and outcome == "interrupted":
                return False  # another process reported it
            current.memory = {**memory, "open": {**current.open, **memory.get("open", {})}}
            self._record(current, outcome, about)
        return True

    def _remember(self, slot: Slot) -> None:
        """Store the policy's memory. A change by another process takes precedence."""
        text = canonical_json(slot.memory)
        with self.repository.database.write() as connection:
            is_stored = self.store.rows.remember(connection, slot.row, text)  # type: ignore[attr-defined]
        if is_stored:
            self._count(slot)
        else:
            self._reread(slot)

    def _reread(self, slot: Slot) -> None:
        with self.repository.database.read() as connection:
            row = self.store.rows.get(connection, slot.name)
        if row is None:
            self.slots.pop(slot.name, None)
        else:
            self.slots[slot.name] = slot_of(row, self.store, self.objects.get(slot.name))
        self._sort()

    # --- reports

    def _say(self, text: str) -> None:
        line = one_line(text, _LONGEST)
        with suppress(Exception):  # a warning may be an error, depending on the filters
            if self.tell is None:
                warn(line, PolicyWarning)
            else:
                self.tell(line)

    def _warn(self, slot: Slot, text: str) -> None:
        with suppress(Warning):  # a warning may be an error; the commit is done anyway
            warn(f"policy {slot.name!r}: {text}. The commit itself is not affected", PolicyWarning)


class _ReportedError(Exception):
    """Raised if no handler decides and the level is manual."""


class _LostError(Exception):
    """Raised if another process was faster."""


@protected_context
def _counted(entered: list[None]) -> Iterator[None]:
    """Add an entry for the duration of a context. Other threads may do the same: both steps are atomic."""
    entered.append(None)
    try:
        yield
    finally:
        entered.pop()


def _words(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 # its own __str__ may raise anything
        text = ""
    return one_line(f"{type(error).__name__}: {text}" if text else type(error).__name__, _LONGEST)
