"""The runs of a tract: replies of a model, with operations before and after them."""

from __future__ import annotations

import secrets
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from tract_jupyter.context import PER_MESSAGE
from tract_jupyter.exceptions import (
    BranchMovedError,
    BranchNotFoundError,
    ContentError,
    LLMError,
    ProfileError,
    RunError,
    RunFailedError,
    StoreCorruptError,
    UndecidedError,
    UnknownRunError,
)
from tract_jupyter.loop import ReplyRequest, StoppedEarlyError, ending_of_reply, is_held
from tract_jupyter.models import ToolCall, brief_repr, check_choice, check_limit, check_text, plain
from tract_jupyter.review import this_process
from tract_jupyter.runs.activation import check_activation
from tract_jupyter.runs.artifacts import session_key
from tract_jupyter.runs.engine import RunOptions
from tract_jupyter.runs.events import WAITING, RunFinished, RunResumed, RunStarted
from tract_jupyter.runs.log import RunLog, load
from tract_jupyter.runs.main_call import MainCall
from tract_jupyter.runs.profile.build import with_own
from tract_jupyter.runs.profile.model import OperationProfile
from tract_jupyter.runs.projection import RunHistory, project
from tract_jupyter.runs.store import is_signed, signed
from tract_jupyter.runs.terms import ExecutionMode, FailedType, RunStatus, RunTrigger
from tract_jupyter.runs.turn import RunResponse, RunSetup, original, run_setup, started_from
from tract_jupyter.storage import RunEventRows, RunLeaseRows, read_dict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from tract_jupyter.context import Attachable, Repository
    from tract_jupyter.llm import Cost, Models
    from tract_jupyter.loop import Generation, OpenTurn, ToolLoop, TurnRequest
    from tract_jupyter.models import ChatResponse, CompiledContext, Validator
    from tract_jupyter.operations import OperationSpec
    from tract_jupyter.review import Signer
    from tract_jupyter.runs.engine import RunEngine
    from tract_jupyter.runs.events import Ending, OnEvent, RunEvent
    from tract_jupyter.runs.kinds.registry import KindRegistry
    from tract_jupyter.runs.model import Operation, Run, RunMessage, Skip
    from tract_jupyter.runs.preview import PromptPreview
    from tract_jupyter.runs.store import Profiles
    from tract_jupyter.runs.verification import RunRoot
    from tract_jupyter.storage import StoredRunEvent


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """The options of a turn whose steps are runs. The fields are arguments of `Tract.generate`."""

    trigger: RunTrigger | str = RunTrigger.GENERATE
    profile: str | OperationProfile | None = None
    on_event: OnEvent | None = None
    options: RunOptions | None = None

    def __post_init__(self) -> None:
        """Check the values that a user wrote.

        Raises:
            RunError: the trigger is unknown.
            ContentError: the options or `on_event` have a wrong type.
        """
        check_choice(str(self.trigger), [one.value for one in RunTrigger], "trigger")
        _check_run(self.options, self.on_event)

    @property
    def is_plain(self) -> bool:
        """True if a turn without a profile needs no run: it makes a new reply, and has no observer."""
        return self.trigger == RunTrigger.GENERATE and self.on_event is None and self.options is None


@dataclass
class _Steps:
    """The runs that are the steps of one turn.

    Attributes:
        trigger: the trigger of the next run.
        waiting: the run that waits for the user, and its start; None if there is none.
    """

    profile: OperationProfile | None
    trigger: RunTrigger
    options: RunOptions
    on_event: OnEvent | None = None
    waiting: tuple[str, RunStarted] | None = None

    @cached_property
    def operations(self) -> tuple[Operation, ...]:
        return () if self.profile is None else self.profile.compile().operations


class Runs:
    """The runs of one tract. Call it to list the newest ones.

    Args:
        repository: receives replies and the effects of operations.
        generation: makes main calls.
        engine: returns the engine, which executes runs.
        models: the models of the tract.
        profiles: the profiles by name, and the active one.
        signer: signs the start of each run.
        loop: returns the turn loop; each step of a turn is a reply or a run.
        own_operations: returns the active operations that fire in each run.
    """

    def __init__(
        self,
        repository: Repository,
        generation: Generation,
        engine: Callable[[], RunEngine],
        models: Models,
        profiles: Profiles,
        signer: Signer,
        loop: Callable[[], ToolLoop],
        *,
        own_operations: Callable[[], Sequence[OperationSpec]] = tuple,
    ) -> None:
        self._own_operations = own_operations
        self._make_loop = loop
        self._repository = repository
        self._database = repository.database
        self._rows = RunEventRows(repository.tract_id)
        self._generation = generation
        self._make_engine = engine
        self._models = models
        self._profiles = profiles
        self._signer = signer

    @property
    def _engine(self) -> RunEngine:
        return self._make_engine()

    def __call__(self, limit: int = 20) -> list[Run]:
        """Return the newest runs, the newest first, without damaged ones. `verify` reports these."""
        with self._database.read() as connection:
            newest = self._rows.newest(connection, check_limit(limit))
        runs = []
        for first, _ in newest:
            with suppress(StoreCorruptError):
                runs.append(self._current_run(self.events(first.run_id)))
        return runs

    def get(self, run_id: str) -> Run:
        """Return a run by its id or the beginning of it.

        A run that waits or whose process ended is `aborted` once its turn is over without it: answered by another run,
        set aside or undone. While its turn is open, it is `waiting` or `running`, and `resume` continues it.

        Raises:
            UnknownRunError: no run, or more than one, matches.
        """
        return self._current_run(self.events(run_id))

    def events(self, run_id: str) -> list[RunEvent]:
        """Return all events of a run, in order; for the argument see `get`."""
        return load(self._database, self._rows, self._full_id(run_id))

    def roots(self) -> list[RunRoot]:
        """Return the status and the root hash of each run, the oldest first. `Tract.verify` checks the hashes.

        The status is as in `get`, or `damaged` if the run cannot be read.
        """
        with self._database.read() as connection:
            newest = self._rows.newest(connection)
        return [self._root(last) for _, last in reversed(newest)]

    def unsigned(self) -> list[str]:
        """Return the ids of the runs whose start has no signature of this user, the oldest first.

        `Tract.verify` reports runs that cannot be read.

        Raises:
            TrustError: the signing secret cannot be read.
        """
        with self._database.read() as connection:
            newest = self._rows.newest(connection)
        found = []
        for first, _ in reversed(newest):
            try:
                begun = RunHistory.of(load(self._database, self._rows, first.run_id)).snapshot
            except StoreCorruptError:
                continue
            if not is_signed(self._signer, first.run_id, begun):
                found.append(first.run_id)
        return found

    def is_active(self, run_id: str) -> bool:
        """Return True if a process is working on the run, as far as this process knows; for the argument see `get`.

        If not, an unfinished run waits for the user, or its process has ended: see `resume`.
        """
        leases = RunLeaseRows(self._repository.tract_id)
        return is_held(self._database, leases, self._full_id(run_id))

    def is_answering(self) -> bool:
        """Return True if a reply on the current branch is in progress, with or without a run."""
        return self._generation.turns.is_held()

    def replay(self, run_id: str) -> Run:
        """Repeat a run with the recorded results, and check that the outcome is the same.

        Nothing is executed, requested or stored.

        Args:
            run_id: the id of the run, or the beginning of it.

        Returns:
            The replayed run. Its reports and its root hash equal the recorded ones.

        Raises:
            UnknownRunError: no such run.
            RunError: the run has not ended, was aborted, or the replay differs; names the differences.
        """
        from tract_jupyter.runs.verification import replayed

        events = self.events(run_id)
        return replayed(events, self._current_run(events), self._engine.kinds)

    def generate(self, turn: TurnRequest, runs: RunRequest) -> RunResponse:
        """Execute a turn; its steps are runs if there are operations or an observer. See `Tract.generate`.

        Raises:
            RunFailedError: the run failed before its reply, or was aborted.
            UndecidedError: an operation waits for the user, and no user is available.
            TrustError: the run cannot be signed.
            ProfileError: an operation names an unknown model or credential; nothing was requested or recorded.
        """
        try:
            response = self._turn(turn, runs)
        except StoppedEarlyError as stopped:
            response = stopped.response
        return RunResponse.of(response)

    def chat(
        self,
        text: str | None,
        name: str | None,
        attachments: Sequence[Attachable],
        turn: TurnRequest,
        runs: RunRequest,
    ) -> RunResponse:
        """Commit the user's message and execute the turn, or continue an interrupted turn. See `Tract.chat`.

        Raises:
            TractError: see `Tract.chat`.
        """
        try:
            if text is None:
                response = self._continue_turn(attachments, turn, runs)
            else:
                with self._make_loop().asking(turn, text, name, attachments) as held:
                    first = None if held.waits else self._turn(turn, runs)
                response = first or self._turn(turn, runs)  # it continues a waiting reply or run
        except StoppedEarlyError as stopped:
            response = stopped.response
        return RunResponse.of(response)

    def _continue_turn(
        self, attachments: Sequence[Attachable], turn: TurnRequest, runs: RunRequest
    ) -> ChatResponse:
        """Continue the interrupted turn, or return its answer if it has one."""
        if attachments:
            raise ContentError(
                "chat(None) continues a turn, so it takes no attachments. Send a message with them."
            )
        is_open, loop = self._generation.turns.is_set_aside, self._make_loop()
        answer = None if is_open else loop.last_response()
        return answer or self._turn(loop.resumed_request(turn, is_set_aside=is_open), runs)

    def _turn(self, turn: TurnRequest, runs: RunRequest) -> ChatResponse:
        """Execute a turn. Its steps are runs if there is a profile or if the caller uses an option of runs."""
        profile, steps = self._profile_of(runs.profile), None
        if profile is not None or not runs.is_plain:
            options = runs.options or RunOptions()
            steps = _Steps(profile, RunTrigger(runs.trigger), options, runs.on_event)
        if not self._generation.turns.is_asked:  # a new message has checked this already
            self._generation.check_ready()
            if steps is not None:
                steps.waiting = self._waiting_run()
                if steps.waiting is not None and self._is_again(steps, MainCall(turn.reply)):
                    run_id, validator = steps.waiting[0], turn.reply.validator
                    return self.resume(run_id, on_event=runs.on_event, run=runs.options, validator=validator)
        with self._generation.turns.answering(is_new=runs.trigger == RunTrigger.GENERATE) as held:
            return self._make_loop().turn(turn, None if steps is None else partial(self._step, steps, held))

    def _step(self, steps: _Steps, turn: OpenTurn, asked: ReplyRequest) -> ChatResponse:
        """Make one request of a turn as a run with its operations, or as the waiting run if it matches."""
        call, engine = MainCall(asked), self._engine
        is_again = steps.waiting is not None and not turn.has_run and self._is_again(steps, call)
        waiting = steps.waiting[0] if steps.waiting is not None and is_again else None
        if turn.has_run or waiting is not None:
            turn.lease.hold_for(waiting or uuid4().hex)
            turn.here = None
        turn.has_run = True
        events = [] if waiting is None else self.events(waiting)
        log = RunLog(self._database, self._rows, turn.lease.run_id, events, on_event=steps.on_event)
        with _report_state(turn, log), engine.aborted_by_ctrl_c(log):
            so_far = None if waiting is None else self._record_resumption(log, call.request.validator)
            snapshot = self._begin(log, turn, engine, steps, call) if so_far is None else so_far.snapshot
            steps.trigger = RunTrigger.GENERATE  # of later steps
            ended = engine.carry_out(snapshot, log, turn.lease, call, steps.options, so_far)
            return self._response(log, call, *ended)

    def resume(
        self,
        run_id: str,
        *,
        on_event: OnEvent | None = None,
        run: RunOptions | None = None,
        validator: Validator | None = None,
    ) -> RunResponse:
        """Continue a run that waits for the user, or whose process ended.

        Completed operations, commits and replies are not repeated. A main call without a reply is made again.

        Args:
            run_id: the id of the run, or the beginning of it.
            on_event: see `Tract.generate`; called with the new events.
            run: the options from here on. The variables stay the same as at the start.
            validator: the validator of the reply. Functions are not stored, so pass it again if the run began with
                one.

        Raises:
            UnknownRunError: no such run.
            RunError: the run has ended, another user began it, another process works on it, or its validator is
                missing.
            LLMConfigError: no model is configured.
            BranchMovedError: the run belongs to another branch.
            RunFailedError, UndecidedError: see `generate`.
        """
        _check_run(run, on_event)
        run_id = self._full_id(run_id)
        begun = self.events(run_id)[0].data
        branch, question = (begun.branch, begun.turn_id) if isinstance(begun, RunStarted) else (None, None)
        with self._generation.turns.resuming(
            run_id, branch, question
        ) as turn:  # earlier data may be outdated
            log = RunLog(self._database, self._rows, run_id, self.events(run_id), on_event=on_event)
            so_far = self._record_resumption(log, validator)
            settings = so_far.snapshot.settings
            call = MainCall(
                ReplyRequest(**settings["reply"], options=dict(settings["options"]), validator=validator)
            )
            with _report_state(turn, log), self._engine.aborted_by_ctrl_c(log):
                ended = self._engine.carry_out(
                    so_far.snapshot, log, turn.lease, call, run or RunOptions(), so_far
                )
                return self._response(log, call, *ended)

    def preview(
        self,
        text: str = "",
        *,
        profile: str | OperationProfile | None = None,
        run: RunOptions | None = None,
    ) -> PromptPreview:
        """Return the prompt that would be sent now. Nothing is requested, called or stored.

        Operations that only compute run in memory. Requests and calls of other operations are recorded, and
        placeholders replace their results.

        Args:
            text: a message of the user; empty to use the context without one.
            profile: see `Tract.generate`.
            run: only its variables are used.

        Raises:
            ContentError: the context has nothing to answer.
            RunError: the profile is unknown, or not trusted.
        """
        from tract_jupyter.runs.preview import rehearsed

        _check_run(run, None)
        branch, context = self._generation.with_user_message(check_text(text, "the user's message"))
        steps = _Steps(self._profile_of(profile), RunTrigger.GENERATE, run or RunOptions())
        snapshot = self._snapshot(self._engine, branch, context, steps, MainCall(ReplyRequest()), _draw())
        preview, ending = rehearsed(snapshot, self._engine.kinds, self._engine.search)
        tokens = self._tokens_of(preview.run.prompt or snapshot.plain_prompt)
        connection = self._models.connection("chat")
        return replace(
            preview, tools=context.tools, model="" if connection is None else str(connection), tokens=tokens,
            token_source=context.token_source, cost=self._price_of(tokens),
            why_not="" if preview.run.prompt else _why_not(ending),
        )  # fmt: skip

    def _tokens_of(self, messages: Iterable[RunMessage]) -> int:
        count = self._repository.counter.count_text
        return sum(
            count(one.content) + self._generation.attached_tokens(one.attachments) + PER_MESSAGE
            for one in messages
        )

    def _price_of(self, tokens: int) -> Cost | None:
        from tract_jupyter.llm import Usage

        if self._models.connection("chat") is None:
            return None
        with suppress(LLMError):  # without a key, say
            cost = self._models.client_for("chat").price(Usage(tokens, 0, 0, 0))
            return None if cost is None else replace(cost, is_estimate=True)
        return None

    def _record_resumption(self, log: RunLog, validator: Validator | None) -> RunHistory:
        so_far = RunHistory.of(log.events)
        self._check_resumable(so_far, validator)
        self._check_models(_unfinished(so_far), so_far.snapshot.trigger, self._engine.kinds)
        log.add(RunResumed(process=this_process()))
        return so_far

    def is_waiting(self, question: str) -> bool:
        """Return True if a run that answers this message waits for the user."""
        waiting = self._waiting_run()
        return waiting is not None and waiting[1].turn_id == question

    # ---

    def _current_run(self, events: list[RunEvent]) -> Run:
        """Return a run. It is aborted if no process works on it and it cannot be resumed."""
        run = project(events)
        begun = events[0].data
        if run.status not in {RunStatus.RUNNING, RunStatus.WAITING} or not isinstance(begun, RunStarted):
            return run
        is_alive = self.is_active(run.run_id) or RunHistory.of(events).main is not None
        if is_alive or self._engine.main_calls.is_answered(run.run_id) or self._is_turn_open(begun):
            return run
        return run.model_copy(update={"status": RunStatus.ABORTED})

    def _root(self, last: StoredRunEvent) -> RunRoot:
        from tract_jupyter.runs.verification import RunRoot

        if last.event_type == "run.finished":
            end = read_dict(last.data_json)
            return RunRoot(last.run_id, str(end.get("status", "damaged")), end.get("rootHash"))
        try:
            return RunRoot(last.run_id, self.get(last.run_id).status, None)
        except StoreCorruptError:
            return RunRoot(last.run_id, "damaged", None)

    def _check_resumable(self, so_far: RunHistory, validator: object) -> None:
        run_id, branch = so_far.run_id[:8], so_far.snapshot.branch
        if so_far.end is not None:
            raise RunError(f"Run {run_id} has ended. generate() makes another one.")
        if so_far.snapshot.tract_id != self._repository.tract_id or not is_signed(
            self._signer, so_far.run_id, so_far.snapshot
        ):
            raise RunError(
                f"Run {run_id} is not resumed because you did not begin it: it comes from another user, store or "
                f"tract, or its start was changed. runs.get({run_id!r}) shows it; generate() starts a new run."
            )
        if branch != self._repository.refs.position.branch:
            raise BranchMovedError(
                f"Run {run_id} belongs to branch {branch!r}. Call switch({branch!r}), then resume it."
            )
        if so_far.main is None:
            self._models.check()  # without a model the run would end, and could not be resumed later
        is_answered = so_far.main is not None or self._engine.main_calls.is_answered(
            so_far.run_id
        )  # the log may not have it yet
        if not is_answered and not self._is_turn_open(so_far.snapshot):
            raise RunError(
                f"The turn of run {run_id} is over: its message has a reply, was set aside, or is no longer in the "
                f"history of {branch!r}. generate() makes another run."
            )
        wanted = so_far.snapshot.settings["validator"]
        if wanted is not None and validator is None and so_far.main is None:
            raise RunError(
                f"Run {run_id} began with the validator {wanted!r}, which is not stored. Pass it again: "
                f"runs.resume({run_id!r}, validator=...)"
            )

    def _is_turn_open(self, snapshot: RunStarted) -> bool:
        if snapshot.branch is None:
            return True
        try:
            head = self._repository.refs.at(snapshot.branch).commit_hash
        except BranchNotFoundError:
            return False
        if snapshot.trigger is RunTrigger.GENERATE:
            turns, base = self._generation.turns, snapshot.base_commit
            if snapshot.turn_id is None or turns.is_open(snapshot.turn_id, head):
                return True
            return base is not None and turns.is_due(base, head)  # a later step, after answers of tools
        messages = () if head is None else self._repository.compiler.of(head).messages
        return any(one.commit_hash == snapshot.replaces for one in messages)

    def _profile_of(self, choice: str | OperationProfile | None) -> OperationProfile | None:
        if choice is None:
            profile = self._profiles.active
        elif isinstance(choice, str):
            profile = self._profiles.get(choice)
        elif isinstance(choice, OperationProfile):
            profile = choice
        else:
            raise ContentError(
                f"profile must be a name or an OperationProfile.of(name, operations), not {brief_repr(choice)}."
            )
        return with_own(profile if profile is not None and profile.enabled else None, self._own_operations())

    def _waiting_run(self) -> tuple[str, RunStarted] | None:
        """Return the newest run and its snapshot, if it waits for the user and can be resumed here."""
        with self._database.read() as connection:
            newest = self._rows.newest(connection, 1)
        if not newest or newest[0][1].event_type == "run.finished":
            return None
        run_id = newest[0][0].run_id
        try:
            history = RunHistory.of(load(self._database, self._rows, run_id))
        except StoreCorruptError:  # `verify` reports it
            return None
        begun = history.snapshot
        is_ours = begun.tract_id == self._repository.tract_id and is_signed(self._signer, run_id, begun)
        can_go_on = (
            history.status is RunStatus.WAITING
            and is_ours
            and begun.branch == self._repository.refs.position.branch
        )
        return (run_id, begun) if can_go_on else None

    def _is_again(self, steps: _Steps, call: MainCall) -> bool:
        """Return True if the waiting run matches: the same turn with the same profile and settings."""
        if steps.waiting is None:
            return False
        begun, start = steps.waiting[1], run_setup(self._generation.to_be_answered()[1], steps.trigger)
        return (begun.trigger, begun.turn_id, begun.operations, begun.settings, begun.variables) == (
            steps.trigger, start.turn_id, steps.operations, _settings(call), plain(dict(steps.options.variables))
        )  # fmt: skip

    def _begin(
        self, log: RunLog, turn: OpenTurn, engine: RunEngine, steps: _Steps, call: MainCall
    ) -> RunStarted:
        """Record the start of a run with its snapshot. It is stored before anything acts: see `coordinator.execute`."""
        branch, context = call.context_at = self._generation.to_be_answered(turn.here)
        self._check_models(steps.operations, steps.trigger, engine.kinds)
        # templates can show both, so a cassette records them
        cassette = self._models.cassette
        drawn = _draw() if cassette is None else cassette.draw(f"run at {context.head}", _draw)
        snapshot = self._snapshot(engine, branch, context, steps, call, drawn)
        snapshot = signed(self._signer, log.run_id, snapshot)
        log.add(snapshot)
        return snapshot

    def _snapshot(
        self,
        engine: RunEngine,
        branch: str,
        context: CompiledContext,
        steps: _Steps,
        call: MainCall,
        drawn: Sequence[Any],
    ) -> RunStarted:
        """Return the snapshot of a run, unsigned; `drawn` has its seed and its time."""
        trigger, profile, options = steps.trigger, steps.profile, steps.options
        start = run_setup(context, trigger)
        operations = steps.operations
        name = "" if profile is None else profile.profile_id
        # without a branch: artifacts follow the history, so a new branch starts with those of its origin
        session = (
            None
            if profile is None
            else session_key(self._repository.tract_id, None, name, profile.session_id)
        )
        state = engine.artifacts.at(context.head)
        counted = check_activation(operations, start, trigger, state.counters.get(name, {}))
        start = self._without_rewrites(start, context.head, operations, trigger, counted.skips)
        seed, clock = drawn
        return RunStarted(
            trigger=trigger, tract_id=self._repository.tract_id, branch=branch,
            profile=None if profile is None else profile.name, session_key=session,
            operations=operations, plain_prompt=start.prompt.messages, user_key=start.prompt.user_key,
            user_commit=start.user_commit, base_commit=context.head, turn_id=start.turn_id,
            replaces=start.replaces, activation_skips=counted.skips, seed=seed,
            profile_id=name or None,
            counters={key: (one.turns, one.tokens) for key, one in counted.counters.items()},
            artifacts={} if session is None else dict(engine.artifacts.load_from(state, session)),
            clock=clock, variables=plain(dict(options.variables)) if options.variables else {},
            settings=_settings(call),
            mode=ExecutionMode.CONCURRENT if profile is None else profile.execution_mode,
        )  # fmt: skip

    def _without_rewrites(
        self,
        start: RunSetup,
        head: str | None,
        operations: Iterable[Operation],
        trigger: RunTrigger,
        skips: Mapping[str, Skip],
    ) -> RunSetup:
        """Return the turn without rewrites of the user's message by operations that are due."""
        if start.turn_id in {None, head} or not self._repository.history.is_edited(start.turn_id, head):
            return start
        due = {
            one.id
            for one in operations
            if one.config.enabled and trigger in one.config.triggers and one.id not in skips
        }
        if not due:
            return start
        version = original(versions := self._repository.history.versions(start.turn_id), due)
        if version.commit_hash == versions[-1].commit_hash:
            return start
        return started_from(
            start, version, str(self._repository.commits.entry(version.commit_hash).content["text"])
        )

    def _check_models(
        self, operations: Iterable[Operation], trigger: RunTrigger, kinds: KindRegistry
    ) -> None:
        """Check that the models and keys that operations name exist, before any call."""
        due = [one for one in operations if one.config.enabled and trigger in one.config.triggers]
        if missing := kinds.missing_models(due, self._models.client):
            raise ProfileError(missing)

    def _response(self, log: RunLog, call: MainCall, ending: Ending, history: RunHistory) -> RunResponse:
        """Return the reply, or raise the error that explains its absence."""
        events = log.events
        if ending is WAITING:
            raise self._waiting(project(events))
        if call.raised is not None and not isinstance(call.raised, Exception):
            raise call.raised
        commit, main = history.reply_commit, history.main
        is_cut = ending.failed_type in {FailedType.BEFORE_BARRIER, FailedType.MAIN_LLM}
        if commit is None or main is None or is_cut:
            run = project(events)
            raise RunFailedError(_why(run), run) from call.raised
        info = call.reply
        if info is None or info.commit_hash != commit:  # committed before an interruption
            info = self._repository.commits.get(commit)
        calls = tuple(ToolCall.from_dict(one) for one in info.metadata.get("tool_calls", ()))
        return RunResponse(
            history.reply or "",
            info,
            main.reply.usage,
            dict(info.generation_config or {}),
            calls,
            *ending_of_reply(info.metadata, has_calls=bool(calls)),
            events=events,
        )

    def _waiting(self, run: Run) -> UndecidedError:
        waiting = [one for one in run.operations if one.status == "waiting"]
        names = ", ".join(repr(one.operation_id) for one in waiting)
        return UndecidedError(
            f"Run {run.run_id[:8]} waits for a decision about {names}. Decide in '%tract inbox', then call "
            f"runs.resume({run.run_id[:8]!r}).", None
        )  # fmt: skip

    def _full_id(self, prefix: str) -> str:
        check_text(prefix, "a run's id", error=UnknownRunError)
        with self._database.read() as connection:
            matches = self._rows.ids(connection, prefix) if prefix.isalnum() else []
        if len(matches) == 1 or prefix in matches:
            return prefix if prefix in matches else matches[0]
        problem = f"Several runs begin with {prefix!r}." if matches else f"There is no run {prefix!r}."
        raise UnknownRunError(f"{problem} tract.runs() or %tract runs lists them.")


def _draw() -> list[Any]:
    return [secrets.randbits(32), datetime.now(UTC).isoformat()]


def _why_not(ending: Ending) -> str:
    details = ending.details
    who = f"operation {details['operationId']!r}" if "operationId" in details else "it"
    why = (
        details.get("errorMessage") or details.get("skippedReason") or details.get("errorCode") or "not done"
    )
    return f"There is no request to the model, because {who} is required: {why}"


def _settings(call: MainCall) -> dict[str, Any]:
    request = call.request
    settings = {"reply": request.settings, "options": request.options, "validator": request.validator_name}
    return plain(settings)  # type: ignore[no-any-return] # a dict stays one


def _unfinished(so_far: RunHistory) -> list[Operation]:
    return [
        one for one in so_far.snapshot.operations
        if any((hook, one.id) not in so_far.ended for hook in one.config.hooks)
    ]  # fmt: skip


@contextmanager
def _report_state(turn: OpenTurn, log: RunLog) -> Iterator[None]:
    """Update the turn when its run ends, waits for the user or is interrupted."""
    try:
        yield
    finally:
        events = log.events
        turn.goes_on = bool(events) and not isinstance(events[-1].data, RunFinished)
        turn.waits = turn.waits or (turn.goes_on and RunHistory.of(events).status is RunStatus.WAITING)


def _check_run(run: object, on_event: object) -> None:
    if run is not None and not isinstance(run, RunOptions):
        raise ContentError(f"run must be RunOptions(timeout=60, ...), not {brief_repr(run)}.")
    if on_event is not None and not callable(on_event):
        raise ContentError(f"on_event must be a function of one event, not {brief_repr(on_event)}.")


def _why(run: Run) -> str:
    details = run.failed_details
    who = f" operation {details['operationId']!r}" if "operationId" in details else ""
    cause = ": ".join(
        str(details[key]) for key in ("errorCode", "skippedReason", "errorMessage") if details.get(key)
    )
    if run.status is RunStatus.ABORTED:
        return (
            f"Run {run.run_id[:8]} was aborted by a signal or at its deadline. "
            f"runs.get({run.run_id[:8]!r}) shows its completed steps."
        )
    at = {FailedType.MAIN_LLM: "the main call failed"}.get(
        run.failed_type or FailedType.MAIN_LLM, "it failed before the main call"
    )
    return f"Run {run.run_id[:8]}: {at}{',' if who else ''}{who}{f': {cause}' if cause else ''}"
