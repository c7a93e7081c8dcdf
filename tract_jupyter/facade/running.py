"""Runs: a main call with operations before and after it."""

from __future__ import annotations

import secrets
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import (
    BranchMovedError,
    ContentError,
    ProfileError,
    RunError,
    RunFailedError,
    StoreCorruptError,
    UndecidedError,
    UnknownRunError,
)
from tract_jupyter.facade.conducting import Conducting, MainCall, RunOptions
from tract_jupyter.facade.generating import name_of
from tract_jupyter.facade.reading import Reading
from tract_jupyter.models.canonical import plain
from tract_jupyter.models.checks import check_choice, check_limit, check_text
from tract_jupyter.models.text import brief_repr
from tract_jupyter.models.toolcall import ToolCall
from tract_jupyter.review.process import this_process
from tract_jupyter.runs.activation import check_activation
from tract_jupyter.runs.artifacts import session_key
from tract_jupyter.runs.events import MainFinished, RunFinished, RunResumed, RunStarted
from tract_jupyter.runs.lease import is_held
from tract_jupyter.runs.log import RunLog, load
from tract_jupyter.runs.profile.model import OperationProfile
from tract_jupyter.runs.projection import RunHistory, project, unfinished
from tract_jupyter.runs.replay import replayed
from tract_jupyter.runs.run import WAITING
from tract_jupyter.runs.store import Profiles, is_signed, signed
from tract_jupyter.runs.terms import ExecutionMode, FailedType, RunStatus, Trigger
from tract_jupyter.runs.turn import RunResponse, RunSetup, original, run_setup, started_from
from tract_jupyter.storage.runs import RunLeaseRows
from tract_jupyter.storage.signed import RunProfileRows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from tract_jupyter.facade.turns import OpenTurn
    from tract_jupyter.models.config import ChatResponse
    from tract_jupyter.protocols import Validator
    from tract_jupyter.runs.events import RunEvent
    from tract_jupyter.runs.model import Operation, Run, Skip
    from tract_jupyter.runs.projection import Unfinished
    from tract_jupyter.runs.run import Ending

    OnEvent = Callable[[RunEvent], object]

_SETTINGS = {
    "max_retries": 3,
    "retry_prompt": None,
    "hide_retries": True,
    "message": None,
    "metadata": None,
}


class Running(Conducting, Reading):
    """The part of `Tract` that makes runs."""

    @cached_property
    def profiles(self) -> Profiles:
        """The profiles of this tract: which operations its runs have."""
        return Profiles(
            self._database, RunProfileRows(self.tract_id), self._events, self.signer,
            lambda operations: self.kinds.missing_models(operations, self.models.resolve),
        )  # fmt: skip

    def generate(
        self,
        *,
        trigger: Trigger | str = Trigger.GENERATE,
        profile: str | OperationProfile | None = None,
        on_event: OnEvent | None = None,
        run: RunOptions | None = None,
        validator: Validator | None = None,
        **options: Any,
    ) -> ChatResponse:
        """Send the context to the model, and commit what it replies as the assistant's.

        With a profile, its operations run before and after that. Without one it is the plain call: nothing is sent if
        the reply could not be committed, and nothing is committed if no reply came. It is on record as a run all the
        same if `on_event` or `run` are given.

        Args:
            trigger: `generate`, or `regenerate` for another variant of the reply that the context ends with, which
                takes its place.
            profile: whose operations run: a name, or a profile that need not be stored; the active one if left out.
            on_event: is called with each event of the run as it happens, on this thread or another.
            run: how the run is carried out: executor, limits, timeout, ...
            validator: called with the text of each reply; returns None or True if it is good, else a text that tells
                what is wrong, False, or `(False, text)`. The model is told that, and asked again.
            **options: `max_retries`, `retry_prompt`, `hide_retries`, `message`, `metadata` as for `propose_generate`;
                the others are for the client: `model`, `temperature`, `max_tokens`, ...

        Returns:
            The reply. With operations it is a `RunResponse`: `.run` tells what happened, also what failed after the
            reply (R21).

        Raises:
            RunFailedError: the run failed before there was a reply, or was aborted; `.run` tells why.
            UndecidedError: an operation waits for a person, and nobody could be asked; `resume_run` goes on with it.
            TrustError: the run cannot be signed; only its user can resume it.
            ProfileError: an operation names a model or a credential that is not there; nothing was asked or noted.
            TractError: as of the plain call, and what the client raises comes as it is; see `propose_generate`.
        """
        check_choice(str(trigger), [one.value for one in Trigger], "trigger")
        _check_run(run, on_event)
        chosen = self._profile_of(profile)
        if chosen is None and trigger == Trigger.GENERATE and on_event is None and run is None:
            return super().generate(validator=validator, **options)
        settings = {name: options.pop(name, usual) for name, usual in _SETTINGS.items()}
        call = MainCall(settings, options, validator)
        return self._run(Trigger(trigger), chosen, call, run or RunOptions(), on_event)

    def runs(self, limit: int = 20) -> list[Run]:
        """The newest runs, the newest first. One whose events are damaged is left out; `verify` tells which.

        Raises:
            StoreError: the store cannot be read.
        """
        with self._database.read() as connection:
            newest = self._run_rows.newest(connection, check_limit(limit))
        found = []
        for first, _ in newest:
            with suppress(StoreCorruptError):
                found.append(project(self.run_events(first.run_id)))
        return found

    def run(self, run_id: str) -> Run:
        """What happened in a run, by its id or the beginning of it.

        Raises:
            UnknownRunError: there is no such run, or several.
        """
        return project(self.run_events(run_id))

    def run_events(self, run_id: str) -> list[RunEvent]:
        """All events of a run, in their order; arguments as of `run`."""
        return load(self._database, self._run_rows, self._full_run_id(run_id))

    def is_run_going_on(self, run_id: str) -> bool:
        """Whether a process works on a run now, as far as is known here; arguments as of `run`.

        One that has not ended and does not go on waits for a person, or its process has ended: see `resume_run`.
        """
        return is_held(self._database, RunLeaseRows(self.tract_id), self._full_run_id(run_id))

    def resume_run(
        self,
        run_id: str,
        *,
        on_event: OnEvent | None = None,
        run: RunOptions | None = None,
        validator: Validator | None = None,
    ) -> ChatResponse:
        """Go on with a run that waits for a person, or whose process ended.

        What is done is not done again: operations, commits, the reply. A main call whose reply did not come is made
        again.

        Args:
            run_id: of the run, or the beginning of it.
            on_event: as of `generate`; it is called with the new events.
            run: how it is carried on; variables are those that the run began with.
            validator: a function is not kept with the run, so give it again where the run began with one.

        Raises:
            UnknownRunError: there is no such run.
            RunError: it has ended, it is another user's, another process works on it, or its validator is missing.
            LLMConfigError: no model is configured that could be asked.
            BranchMovedError: it belongs to another branch than the current one.
            RunFailedError, UndecidedError: as of `generate`.
        """
        _check_run(run, on_event)
        run_id = self._full_run_id(run_id)
        begun = self.run_events(run_id)[0].data
        branch, question = (begun.branch, begun.turn_id) if isinstance(begun, RunStarted) else (None, None)
        with self._turns.resuming(run_id, branch, question) as turn:  # what is read before that may be old
            events = self.run_events(run_id)
            so_far = unfinished(events)
            self._check_resumable(so_far, validator)
            self._check_models(_left(so_far), so_far.snapshot.trigger)
            log = RunLog(self._database, self._run_rows, run_id, events, on_event=on_event)
            log.add(RunResumed(process=this_process()))
            settings = so_far.snapshot.settings
            call = MainCall(settings["reply"], settings["options"], validator)
            with _told(turn, log), self._aborted_by_ctrl_c(log):
                ending = self._conduct(so_far.snapshot, log, turn.lease, call, run or RunOptions(), so_far)
                return self._response(log, call, ending)

    def replay_run(self, run_id: str) -> Run:
        """Go through a run again with what its operations and its main call gave, and check that it comes out the same.

        Nothing is executed, asked or written.

        Returns:
            The run as the replay made it: its reports and its root hash are those of the recorded one.

        Raises:
            UnknownRunError: there is no such run.
            RunError: it has not ended; or the replay differs, and tells where.
        """
        return replayed(self.run_events(run_id), self.kinds)

    # ---

    def _check_resumable(self, so_far: Unfinished, validator: object) -> None:
        run_id, branch = so_far.run_id[:8], so_far.snapshot.branch
        if so_far.is_finished:
            raise RunError(f"run {run_id} has ended; generate() makes another one")
        if so_far.snapshot.tract_id != self.tract_id or not is_signed(
            self.signer, so_far.run_id, so_far.snapshot
        ):
            raise RunError(
                f"run {run_id} is not gone on with, for you have not begun it: it comes from another user, store or "
                f"tract, or its beginning was changed. run({run_id!r}) shows it; generate() makes one of your own"
            )
        if branch != self.current_branch:
            raise BranchMovedError(
                f"run {run_id} belongs to branch {branch!r}; switch({branch!r}), then resume it"
            )
        if so_far.main is None:
            _ = self.llm  # without one the run would end, and could not be resumed with one
        is_answered = so_far.main is not None or self._is_answered(
            so_far.run_id
        )  # which the log may not say yet
        if not is_answered and not self._is_turn_open(so_far.snapshot):
            raise RunError(
                f"the turn of run {run_id} is over: its message has a reply, was set aside, or is not in the history "
                f"of {branch!r} any more; generate() makes another run"
            )
        wanted = so_far.snapshot.settings["validator"]
        if wanted is not None and validator is None and so_far.main is None:
            raise RunError(
                f"run {run_id} began with a validator, {wanted!r}, that looks at its reply; give it again: "
                f"resume_run({run_id!r}, validator=...)"
            )

    def _is_turn_open(self, snapshot: RunStarted) -> bool:
        if snapshot.trigger is Trigger.GENERATE:
            return snapshot.turn_id is None or self._turns.is_open(snapshot.turn_id)
        return any(one.commit_hash == snapshot.replaces for one in self.compile().messages)

    def _profile_of(self, given: str | OperationProfile | None) -> OperationProfile | None:
        if given is None:
            found = self.profiles.active
        elif isinstance(given, str):
            found = self.profiles.get(given)
        elif isinstance(given, OperationProfile):
            found = given
        else:
            raise ContentError(
                f"profile is a name or a profile as of OperationProfile.of(name, operations), not {brief_repr(given)}"
            )
        return found if found is not None and found.enabled else None

    def _run(
        self,
        trigger: Trigger,
        profile: OperationProfile | None,
        call: MainCall,
        options: RunOptions,
        on_event: OnEvent | None,
    ) -> ChatResponse:
        _ = self.llm
        self._check_place()
        waiting = self._waiting_run()
        if waiting is not None and self._is_again(waiting[1], trigger, profile, call, options):
            return self.resume_run(waiting[0], on_event=on_event, run=options, validator=call.validator)
        with self._turns.answering(is_new=trigger is Trigger.GENERATE) as turn:
            log = RunLog(self._database, self._run_rows, turn.lease.run_id, on_event=on_event)
            with _told(turn, log), self._aborted_by_ctrl_c(log):
                snapshot = self._begin(log, trigger, profile, call, options)
                ending = self._conduct(snapshot, log, turn.lease, call, options)
                return self._response(log, call, ending)

    def _is_waiting(self, question: str) -> bool:
        waiting = self._waiting_run()
        is_asked = waiting is not None and waiting[1].turn_id == question
        return is_asked or super()._is_waiting(question)

    def _waiting_run(self) -> tuple[str, RunStarted] | None:
        """The newest run and what it goes by, if it waits for a person and can be gone on with here."""
        with self._database.read() as connection:
            newest = self._run_rows.newest(connection, 1)
        if not newest or newest[0][1].event_type == "run.finished":
            return None
        run_id = newest[0][0].run_id
        try:
            history = RunHistory.of(load(self._database, self._run_rows, run_id))
        except StoreCorruptError:  # `verify` tells of it
            return None
        begun = history.snapshot
        is_ours = begun.tract_id == self.tract_id and is_signed(self.signer, run_id, begun)
        can_go_on = history.status is RunStatus.WAITING and is_ours and begun.branch == self.current_branch
        return (run_id, begun) if can_go_on else None

    def _is_again(
        self,
        begun: RunStarted,
        trigger: Trigger,
        profile: OperationProfile | None,
        call: MainCall,
        options: RunOptions,
    ) -> bool:
        """Whether a run that waits is what is asked for: the same turn with the same profile and settings."""
        start = run_setup(self._to_be_answered()[1], trigger)
        operations = () if profile is None else profile.compile().operations
        return (begun.trigger, begun.turn_id, begun.operations, begun.settings, begun.variables) == (
            trigger, start.turn_id, operations, _settings(call), plain(dict(options.variables))
        )  # fmt: skip

    def _begin(
        self,
        log: RunLog,
        trigger: Trigger,
        profile: OperationProfile | None,
        call: MainCall,
        options: RunOptions,
    ) -> RunStarted:
        """Note what the run goes by, and count it, before anything runs."""
        branch, context = self._to_be_answered()
        start = run_setup(context, trigger)
        compiled = None if profile is None else profile.compile()
        operations = () if compiled is None else compiled.operations
        self._check_models(operations, trigger)
        name = "" if profile is None else profile.profile_id
        # of no branch: what it keeps follows the history, and so is on each branch what it was where that began
        session = None if profile is None else session_key(self.tract_id, None, name, profile.session_id)
        with self.batch():
            counted = check_activation(
                operations, start, trigger, self._run_artifacts.at(context.head).counters.get(name, {})
            )
            start = self._unrewritten(start, operations, trigger, counted.skips)
            snapshot = RunStarted(
                trigger=trigger, tract_id=self.tract_id, branch=branch,
                profile=None if profile is None else profile.name, session_key=session,
                operations=operations, plain_prompt=start.prompt.messages, user_key=start.prompt.user_key,
                user_commit=start.user_commit, base_commit=context.head, turn_id=start.turn_id,
                replaces=start.replaces, activation_skips=counted.skips, seed=secrets.randbits(32),
                profile_id=name or None,
                counters={key: (one.turns, one.tokens) for key, one in counted.counters.items()},
                artifacts={} if session is None else dict(self._run_artifacts.load(session)),
                clock=datetime.now(UTC).isoformat(), variables=plain(dict(options.variables)),
                settings=_settings(call),
                mode=ExecutionMode.CONCURRENT if compiled is None else compiled.execution_mode,
            )  # fmt: skip
            snapshot = signed(self.signer, log.run_id, snapshot)
            log.add(snapshot)
            log.flush()
        return snapshot

    def _unrewritten(
        self, start: RunSetup, operations: Iterable[Operation], trigger: Trigger, skips: Mapping[str, Skip]
    ) -> RunSetup:
        """The turn without what those of these operations that are due have made of the user's message before."""
        due = {
            one.id
            for one in operations
            if one.config.enabled and trigger in one.config.triggers and one.id not in skips
        }
        if start.turn_id is None or not due:
            return start
        version = original(versions := self._history.versions(start.turn_id), due)
        if version.commit_hash == versions[-1].commit_hash:
            return start
        return started_from(start, version, str(self.get_content(version.commit_hash)["text"]))

    def _check_models(self, operations: Iterable[Operation], trigger: Trigger) -> None:
        """Look before any call whether the models that operations name are there, with their keys.

        Raises:
            ProfileError: one is not, and nothing was asked; with the line to type.
        """
        due = [one for one in operations if one.config.enabled and trigger in one.config.triggers]
        if missing := self.kinds.missing_models(due, self.models.client):
            raise ProfileError(missing)

    def _response(self, log: RunLog, call: MainCall, ending: Ending) -> ChatResponse:
        """The reply, or the error that tells why there is none."""
        run = project(log.events)
        if ending is WAITING:
            raise self._waiting(run)
        if call.raised is not None and not isinstance(call.raised, Exception):
            raise call.raised
        if run.reply_commit is None or ending.failed_type in {FailedType.BEFORE_BARRIER, FailedType.MAIN_LLM}:
            raise RunFailedError(_why(run), run) from call.raised
        info = self.get_commit(run.reply_commit)
        main = next(one.data for one in reversed(log.events) if isinstance(one.data, MainFinished))
        calls = tuple(ToolCall.from_dict(one) for one in info.metadata.get("tool_calls", ()))
        return RunResponse(
            run.reply or "", info, main.reply.usage, dict(info.generation_config or {}), calls, run
        )

    def _waiting(self, run: Run) -> UndecidedError:
        waiting = [one for one in run.operations if one.status == "waiting"]
        names = ", ".join(repr(one.operation_id) for one in waiting)
        return UndecidedError(
            f"run {run.run_id[:8]} waits for a decision about {names}; decide in '%tract inbox', then "
            f"resume_run({run.run_id[:8]!r}) goes on with it", None
        )  # fmt: skip

    def _full_run_id(self, given: str) -> str:
        check_text(given, "a run's id", error=UnknownRunError)
        with self._database.read() as connection:
            found = self._run_rows.ids(connection, given) if given.isalnum() else []
        if len(found) == 1 or given in found:
            return given if given in found else found[0]
        what = (
            f"several runs begin with {given!r}; give more of it" if found else f"there is no run {given!r}"
        )
        raise UnknownRunError(f"{what}; runs() lists them")


def _settings(call: MainCall) -> dict[str, Any]:
    """How the model is asked, as it is noted with a run."""
    noted = {"reply": call.settings, "options": call.options, "validator": name_of(call.validator)}
    return plain(noted)  # type: ignore[no-any-return] # a dict stays one


def _left(so_far: Unfinished) -> list[Operation]:
    """The operations of a run that have not ended at each of their hooks."""
    return [
        one for one in so_far.snapshot.operations
        if any(one.id not in so_far.results[hook] for hook in one.config.hooks)
    ]  # fmt: skip


@contextmanager
def _told(turn: OpenTurn, log: RunLog) -> Iterator[None]:
    """Tell the turn how its run stands: it has ended, waits for a person, or was cut off."""
    try:
        yield
    finally:
        events = log.events
        turn.goes_on = bool(events) and not isinstance(events[-1].data, RunFinished)
        turn.waits = turn.waits or (bool(events) and RunHistory.of(events).status is RunStatus.WAITING)


def _check_run(run: object, on_event: object) -> None:
    if run is not None and not isinstance(run, RunOptions):
        raise ContentError(f"run is made with RunOptions(timeout=60, ...), not {brief_repr(run)}")
    if on_event is not None and not callable(on_event):
        raise ContentError(
            f"on_event is a function that is called with each event, not {brief_repr(on_event)}"
        )


def _why(run: Run) -> str:
    details = run.failed_details
    who = f" operation {details['operationId']!r}" if "operationId" in details else ""
    said = ": ".join(
        str(details[key]) for key in ("errorCode", "skippedReason", "errorMessage") if details.get(key)
    )
    if run.status is RunStatus.ABORTED:
        return (
            f"run {run.run_id[:8]} was aborted: it was told to stop, or its time was over; "
            f"run({run.run_id[:8]!r}) tells what it had done"
        )
    at = {FailedType.MAIN_LLM: "the main call failed"}.get(
        run.failed_type or FailedType.MAIN_LLM, "it failed before the main call"
    )
    return f"run {run.run_id[:8]}: {at}{',' if who else ''}{who}{f': {said}' if said else ''}"
