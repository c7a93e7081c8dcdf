"""Looks at policies at their moments, and does, proposes or tells what they want.

One look at a time for each tract: what policies do fires no policies. A firing is a row before anything happens and in
the same transaction as what happens, or, where a model may be asked or a handler decides, before and after that. Of
several processes, the one that moves the row's counter fires.
"""

from __future__ import annotations

import copy
import threading
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import RejectedError, UndecidedError
from tract_jupyter.models import AutonomyLevel, PendingStatus, canonical_json, one_line, warn
from tract_jupyter.policy.protocols import ORCHESTRATE, PolicyWarning, wanted_of
from tract_jupyter.policy.saved import slot_of
from tract_jupyter.policy.view import PolicyView
from tract_jupyter.review import has_ended, this_process
from tract_jupyter.storage import is_order, triggered
from tract_jupyter.toolkit import Permission, policy_actor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sqlalchemy import Connection

    from tract_jupyter.context import Repository, VersionedContext
    from tract_jupyter.policy.protocols import Ceiling, PolicyAction
    from tract_jupyter.policy.saved import PolicyStore, Slot
    from tract_jupyter.policy.view import Watch
    from tract_jupyter.storage import PendingRows
    from tract_jupyter.toolkit import PendingPolicy, PolicyCalls

OUTCOMES: Final = (
    "executed", "proposed", "told", "rejected", "denied", "failed", "began", "interrupted", "skipped",
)  # fmt: skip
"""What can come of a firing; each is an event `policy.<outcome>`."""
_LONGEST: Final = 500  # characters of an error in the journal


class PolicyEvaluator:
    """The evaluator of one tract's policies.

    Args:
        tract: what policies are shown.
        repository: of the tract.
        store: where they are kept.
        pendings: the rows of proposals.
        calls: calls tools for policies, and proposes calls.
        ceiling: gives what holds their autonomy down.
        watch: knows the context.
        orchestrate: starts an orchestrator, with the reason and the level that counts.
        unfinished: says why no orchestrator is started now, as a run of it is not over; empty if none is.
    """

    def __init__(
        self,
        tract: VersionedContext,
        repository: Repository,
        store: PolicyStore,
        pendings: PendingRows,
        calls: PolicyCalls,
        ceiling: Callable[[], Ceiling],
        watch: Watch,
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
        """Is called with a line for a person about what a policy would have done; a warning if None."""
        self.is_paused = False
        self._lock = threading.Lock()  # held while policies are looked at; by no thread twice
        self._holds = 0
        self._suspensions = 0
        self._count_lock = threading.Lock()
        self._owed: set[str] = set()
        self.objects: dict[str, Any] = {}
        """The policies that this process was given, which are not built in."""
        self.slots: dict[str, Slot] = {}
        self._due: dict[str, list[Slot]] = {}
        self._told: set[str] = set()

    # --- what there is

    def look_again(self) -> None:
        """Read the policies: other processes may have added some, or removed them, or fired."""
        former = self.slots
        with self.repository.database.read() as connection:
            rows = self.store.rows_of(connection)
        slots = {}
        for row in rows:
            before = former.get(row.name)
            is_same = before is not None and before.row == row
            own = self.objects.get(row.name)
            if before is not None and is_same and (before.policy is not None or own is None):
                slots[row.name] = before
                continue
            slot = slots[row.name] = slot_of(row, self.store, own)
            if before is not None:
                slot.error = before.error
            if before is None or before.policy is None or (slot.is_on and not before.is_on):
                self.watch.new = None  # what it has not seen yet
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

    # --- when

    def committed(self, entries: Sequence[Any] | None) -> None:
        """Take note of commits, and look at the policies; not within a batch, a turn or a policy's action."""
        if entries is None:
            self.watch.forget()
            return
        self.watch.take(entries)
        self._moment("commit")

    def compiling(self) -> None:
        """Look at the policies that are due before the context is compiled."""
        self._moment("compile")

    def hold(self) -> None:
        """Look at nothing until `release`: a turn is under way."""
        with self._count_lock:
            self._holds += 1

    def release(self) -> None:
        """End a turn; after the last one, what is due is looked at."""
        with self._count_lock:
            self._holds -= 1
            if self._holds:
                return
        if self._is_free() and not self._lock.locked():
            self.look_again()
            self._owed |= {"compile", "turn"}
            self._moment("turn")

    @contextmanager
    def suspend(self) -> Iterator[None]:
        """Look at nothing within this."""
        with self._count_lock:
            self._suspensions += 1
        try:
            yield
        finally:
            with self._count_lock:
                self._suspensions -= 1

    @property
    def is_suspended(self) -> bool:
        """True within `suspend`."""
        return self._suspensions > 0

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
            return  # within what a policy does, or while another thread looks
        try:
            if self._owed:
                owed, self._owed = self._owed | {moment}, set()
                for one in ("compile", "commit", "turn"):
                    if one in owed and (one != "commit" or self.watch.new != []):
                        self._look(one)
            else:
                self._look(moment)
        finally:
            self._lock.release()

    def _look(self, moment: str) -> None:
        """Look at the policies of a moment once."""
        watch = self.watch
        count = None if watch.new is None else len(watch.new)
        view = PolicyView(self.tract, watch, moment)
        for slot in tuple(self._due.get(moment, ())):
            if self._evaluated(slot, view):  # something happened
                watch.changed()
                view = PolicyView(self.tract, watch, moment)
        if moment == "commit":
            watch.settled(count)

    def _evaluated(self, slot: Slot, view: PolicyView) -> bool:
        """Look at one policy, and do what it wants; True if something happened."""
        policy = slot.policy
        if slot.cooldown and self._is_cooling(slot, view):
            return False
        own: dict[str, Any] = {}
        if slot.remembers:
            own = view.memory = slot.own
        try:
            if slot.is_built_in:
                given = policy.evaluate(view)
            else:
                with (
                    self.repository.database.read()
                ):  # within which nothing can be written, and no model asked
                    given = policy.evaluate(view)
            if given is None and own == slot.saved and not slot.memory.get("stopped"):
                slot.error = ""
                return False
            wanted = wanted_of(given)
            canonical_json(own)
        except (
            BaseException
        ) as error:  # a policy never breaks the commit that it looks at, whatever it raises
            if is_order(error):
                raise
            slot.memory["own"] = copy.deepcopy(slot.saved)
            self._broke(slot, error)
            return False
        slot.error = ""
        try:
            return self._wanted(slot, wanted, view, has_news=own != slot.saved)
        except Exception as error:  # noqa: BLE001 # nor does the store
            self._warn(slot, f"what it wants could not be carried out ({_words(error)})")
            with suppress(Exception):
                self.look_again()
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

    def _wanted(
        self, slot: Slot, wanted: tuple[PolicyAction, ...], view: PolicyView, *, has_news: bool
    ) -> bool:
        """Carry out what is wanted and was not before; forget what is wanted no more."""
        if getattr(slot.policy, "forgets", True):
            still = {one.about for one in wanted}
            kept = [one for one in slot.stopped if isinstance(one, list) and one and one[0] in still]
            has_news = has_news or len(kept) != len(slot.stopped)
            slot.memory["stopped"] = kept
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
                    break  # it was changed elsewhere meanwhile
        if has_news:
            self._remember(slot)
        return happened

    # --- proposals of before

    def _is_open(self, slot: Slot, action: PolicyAction) -> bool:
        """Return True if a proposal about the same is open, or was settled in this very condition."""
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
        """Tell what a process that has ended had begun, and nobody knows the end of."""
        began = slot.began
        if began is None or slot.why or not has_ended(str(began.get("process"))):
            return
        slot.memory["began"] = None
        about = {"action": began.get("action"), "reason": began.get("reason"), "began_at": began.get("at")}
        if self._journal(slot, "interrupted", about):
            self._warn(
                slot,
                f"the process that carried out {began.get('action')!r} for it ended before it had told the end; look "
                "at '%tract log' whether that was done. It is looked at anew",
            )

    # --- firing

    def _fire(self, slot: Slot, actions: list[PolicyAction], view: PolicyView) -> bool:
        """Do, propose or tell one thing that is wanted, for one or more reasons; True if something happened."""
        if slot.began is not None:
            self._recover(slot)
            if slot.began is not None:
                return False  # another process is at it
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
            return self._fired(slot, actions, reason, level, about)
        except _LostError:
            slot.memory = former
            self.look_again()  # it was changed, or has fired elsewhere
            return True

    def _fired(
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
                self._noted(slot, "told", about)
                self._tell(slot, about)
            else:
                self._use_tool(slot, actions, reason, level, about)
        except _LostError:
            raise
        except Exception as error:  # noqa: BLE001 # told and journaled, and never raised in the commit
            for one in actions:
                slot.open.pop(one.about, None)
                slot.stop(one.about, one.condition)
            self._failed(slot, about, error)
        return True

    def _tell(self, slot: Slot, about: dict[str, Any]) -> None:
        self._say(
            f"Policy {slot.name} would {about['action']}: {about['reason']} "
            "(Autonomy is manual: nothing was done.)"
        )

    def _orchestrate(self, slot: Slot, reason: str, level: AutonomyLevel, about: dict[str, Any]) -> None:
        """Start an orchestrator, which asks about its steps itself; not beside a run that is not over."""
        start = self.orchestrate
        if start is None:
            raise LookupError("no orchestrator is there to start")
        why, told = self.unfinished(), slot.memory.pop("skipped", "")
        if why:
            slot.memory["skipped"] = why
            if told == why:  # once for each run
                self._remember(slot)
            else:
                self._noted(slot, "skipped", {**about, "error": why})
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
        """Have handlers decide about a call of a tool; if none does, call it or propose that, as the level permits."""
        action, name = actions[0], slot.name
        tool, actor = self.calls.tool(action.action_type, action.params), policy_actor(name)
        permission = self.ceiling().permission(tool, level, actor)
        is_told = level is AutonomyLevel.MANUAL
        if permission is Permission.DENY and not is_told:
            why = self.ceiling().why_not(tool, level, actor)
            self._noted(slot, "denied", {**about, "error": why})
            self._say(f"Policy {name} was not allowed to {action.action_type}: {why}")
            return
        if permission is Permission.ASK and not self.calls.has_handlers:
            self._propose(slot, actions, reason, about)
            return

        def propose(pending: PendingPolicy) -> None:
            raise UndecidedError(f"{pending.title!r} waits in '%tract inbox'", self.calls.keep(pending))

        def tell(_: PendingPolicy) -> None:
            self._tell(slot, about)
            raise _ToldError

        unhandled = tell if is_told else propose if permission is Permission.ASK else None

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
        """Store that it begins, do it, and store the end. What stays open is the proposal of these actions."""
        at = self.watch.clock().isoformat()
        slot.memory["began"] = {
            "process": this_process(), "action": about["action"], "reason": about["reason"], "at": at
        }  # fmt: skip
        self._noted(slot, "began", about)
        outcome, more = "executed", {}
        try:
            with triggered(f"policy {slot.name}"):
                call()
        except UndecidedError as error:
            outcome, more = "proposed", {"pending_id": getattr(error.pending, "pending_id", "")}
            self._keep_open(slot, actions, more["pending_id"])
        except _ToldError:
            outcome = "told"
        except RejectedError as error:
            outcome, more = "rejected", {"error": _words(error)}
        except Exception:
            slot.memory["began"] = None
            raise
        except BaseException:  # interrupted by a person: nobody is at it any more
            slot.memory["began"] = None
            with suppress(Exception):
                self._journal(slot, "interrupted", about)
            raise
        slot.memory["began"] = None
        self._begin_anew(slot)
        self._journal(slot, outcome, {**about, **more})

    def _begin_anew(self, slot: Slot) -> None:
        """Let a policy that counts begin from where its action has led."""
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
        """Ask a person, who finds it in the inbox."""
        action = actions[0]
        with triggered(f"policy {slot.name}"), self.repository.database.write() as connection:
            pending = self.calls.propose(slot.name, action.action_type, action.params, reason=reason)
            self._keep_open(slot, actions, pending.pending_id)
            self._claim(connection, slot, "proposed", {**about, "pending_id": pending.pending_id})
        self._count(slot)

    def _failed(self, slot: Slot, about: dict[str, Any], error: Exception) -> None:
        words = _words(error)
        self._journal(slot, "failed", {**about, "error": words})
        self._warn(
            slot,
            f"its action {about['action']!r} failed: {words}. It is tried again once something has changed",
        )

    def _broke(self, slot: Slot, error: BaseException) -> None:
        """Tell once that a policy could not be looked at."""
        words = _words(error)
        if slot.error == words:
            return
        slot.error = words
        with suppress(Exception):
            self._journal(slot, "failed", {"action": None, "error": words})
        self._warn(slot, f"it could not be looked at: {words}. It is passed over until it can")

    # --- the rows

    def _claim(self, connection: Connection, slot: Slot, outcome: str, about: dict[str, Any]) -> None:
        """Store what comes of a firing, with its event, in the caller's transaction.

        Raises:
            _LostError: the policy was changed, or has fired, elsewhere; the transaction is to be rolled back.
        """
        slot.memory["fired"] = {
            "at": self.watch.clock().isoformat(), "outcome": outcome, "reason": str(about.get("reason", ""))
        }  # fmt: skip
        if not self.store.rows.remember(connection, slot.row, canonical_json(slot.memory)):  # type: ignore[attr-defined]
            raise _LostError
        data = {"name": slot.name, "type": slot.type_name, **about}
        self.repository.events.append(connection, f"policy.{outcome}", policy_actor(slot.name), data)

    def _count(self, slot: Slot) -> None:
        """Note that the row was written."""
        slot.row = slot.row._replace(memory_json=canonical_json(slot.memory), firings=slot.row.firings + 1)
        slot.saved = copy.deepcopy(slot.own) if slot.remembers else {}

    def _noted(self, slot: Slot, outcome: str, about: dict[str, Any]) -> None:
        with self.repository.database.write() as connection:
            self._claim(connection, slot, outcome, about)
        self._count(slot)

    def _journal(self, slot: Slot, outcome: str, about: dict[str, Any]) -> bool:
        """Store an end. What was changed elsewhere meanwhile stays as it is there; False if it was."""
        memory = slot.memory
        try:
            self._noted(slot, outcome, about)
        except _LostError:
            self._reread(slot)
            current = self.slots.get(slot.name)
            if current is None or current.row.name != slot.name:
                return False
            if current.began is None and outcome == "interrupted":
                return False  # another process has told it
            current.memory = {**memory, "open": {**current.open, **memory.get("open", {})}}
            self._noted(current, outcome, about)
        return True

    def _remember(self, slot: Slot) -> None:
        """Store what is remembered; if it was changed elsewhere, that counts."""
        text = canonical_json(slot.memory)
        with self.repository.database.write() as connection:
            is_kept = self.store.rows.remember(connection, slot.row, text)  # type: ignore[attr-defined]
        if is_kept:
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

    # --- telling

    def _say(self, text: str) -> None:
        line = one_line(text, _LONGEST)
        with suppress(Exception):  # a `Warning` is one, where warnings are errors
            if self.tell is None:
                warn(line, PolicyWarning)
            else:
                self.tell(line)

    def _warn(self, slot: Slot, text: str) -> None:
        with suppress(Warning):  # where warnings are errors: the commit stands
            warn(f"policy {slot.name!r}: {text}. What was committed stands", PolicyWarning)


class _ToldError(Exception):
    """Raised if no handler decides and the level is manual."""


class _LostError(Exception):
    """Raised where another process was faster."""


def _words(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 # its own __str__ may raise anything
        text = ""
    return one_line(f"{type(error).__name__}: {text}" if text else type(error).__name__, _LONGEST)
