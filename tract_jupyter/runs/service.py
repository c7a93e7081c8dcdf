"""The runs of a tract: replies of a model, with operations before and after them."""

from __future__ import annotations

import secrets
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
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
from tract_jupyter.runs.events import RunFinished, RunResumed, RunStarted
from tract_jupyter.runs.log import RunLog, load
from tract_jupyter.runs.main_call import MainCall
from tract_jupyter.runs.profile.model import OperationProfile
from tract_jupyter.runs.profile.own import with_own
from tract_jupyter.runs.projection import RunHistory, project
from tract_jupyter.runs.run import WAITING
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
    from tract_jupyter.runs.events import OnEvent, RunEvent
    from tract_jupyter.runs.kinds.registry import KindRegistry
    from tract_jupyter.runs.model import Operation, Run, RunMessage, Skip
    from tract_jupyter.runs.preview import PromptPreview
    from tract_jupyter.runs.run import Ending
    from tract_jupyter.runs.store import Profiles
    from tract_jupyter.runs.verification import RunRoot
    from tract_jupyter.storage import StoredRunEvent


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """How the steps of a turn are made as runs; the fields are arguments of `Tract.generate`."""

    trigger: RunTrigger | str = RunTrigger.GENERATE
    profile: str | OperationProfile | None = None
    on_event: OnEvent | None = None
    options: RunOptions | None = None

    def __post_init__(self) -> None:
        """Check the values that a user wrote.

        Raises:
            RunError: there is no such trigger.
            ContentError: the options or `on_event` are something else.
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
        trigger: of the next run.
        waiting: the run that waits for the user, and its beginning; None if there is none.
    """

    profile: OperationProfile | None
    trigger: RunTrigger
    options: RunOptions
    on_event: OnEvent | None = None
    waiting: tuple[str, RunStarted] | None = None

    @property
    def operations(self) -> tuple[Operation, ...]:
        return () if self.profile is None else self.profile.compile().operations


class Runs:
    """The runs of one tract. Calling it lists the newest.

    Args:
        repository: where replies and the effects of operations are committed.
        generation: makes main calls.
        engine: carries runs out.
        models: the models of the tract.
        profiles: gives the profiles by name, and the active one.
        signer: signs how runs began.
        loop: carries turns out, each of whose steps is a reply or a run.
        own_operations: gives the active operations that say themselves that they are a part of each run.
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
        """Return the newest runs, the newest first. One whose events are damaged is left out; `verify` tells which.

        Raises:
            StoreError: the store cannot be read.
        """
        with self._database.read() as connection:
            newest = self._rows.newest(connection, check_limit(limit))
        found = []
        for first, _ in newest:
            with suppress(StoreCorruptError):
                found.append(self._as_it_stands(self.events(first.run_id)))
        return found

    def get(self, run_id: str) -> Run:
        """Return a run, by its id or the beginning of it.

        One that waits, or whose process ended, is `aborted` once its turn is over without it: answered by another run,
        set aside or undone. While its turn is open it is `waiting` or `running`, and `resume` goes on with it.

        Raises:
            UnknownRunError: there is no such run, or several.
        """
        return self._as_it_stands(self.events(run_id))

    def events(self, run_id: str) -> list[RunEvent]:
        """Return all events of a run, in their order; arguments as of `get`."""
        return load(self._database, self._rows, self._full_id(run_id))

    def roots(self) -> list[RunRoot]:
        """Return the status and the root hash of each run, the oldest first; `Tract.verify` tells whether it holds.

        The status is that of `get`; `damaged` where it cannot be read.

        Raises:
            StoreError: the store cannot be read.
        """
        with self._database.read() as connection:
            newest = self._rows.newest(connection)
        return [self._root(last) for _, last in reversed(newest)]

    def is_going_on(self, run_id: str) -> bool:
        """Return whether a process works on a run now, as far as is known here; arguments as of `get`.

        One that has not ended and does not go on waits for a person, or its process has ended: see `resume`.
        """
        leases = RunLeaseRows(self._repository.tract_id)
        return is_held(self._database, leases, self._full_id(run_id))

    def is_answering(self) -> bool:
        """Return whether somebody answers on the current branch now, with a run or without, as far as is known here."""
        return self._generation.turns.is_held()

    def replay(self, run_id: str) -> Run:
        """Go through a run again with the recorded results, and check that it comes out the same.

        Nothing is executed, asked or written.

        Args:
            run_id: of the run, or the beginning of it.

        Returns:
            The run as the replay made it: its reports and its root hash are those of the recorded one.

        Raises:
            UnknownRunError: there is no such run.
            RunError: it has not ended, or was aborted; or the replay differs, and tells where.
        """
        from tract_jupyter.runs.verification import replayed

        events = self.events(run_id)
        return replayed(events, self._as_it_stands(events), self._engine.kinds)

    def generate(self, turn: TurnRequest, runs: RunRequest) -> RunResponse:
        """Carry a turn out, each step as a run where there are operations or somebody looks on; see `Tract.generate`.

        Raises:
            RunFailedError: the run failed before there was a reply, or was aborted.
            UndecidedError: an operation waits for a person, and nobody could be asked.
            TrustError: the run cannot be signed.
            ProfileError: an operation names a model or a credential that is not there; nothing was asked or noted.
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
        """Commit what the user says and carry the turn out, or go on with the one that was left; see `Tract.chat`.

        Raises:
            TractError: as of `Tract.chat`.
        """
        try:
            if text is None:
                response = self._go_on(attachments, turn, runs)
            else:
                with self._make_loop().asking(turn, text, name, attachments) as held:
                    first = None if held.waits else self._turn(turn, runs)
                response = first or self._turn(turn, runs)  # it continues a waiting reply or run
        except StoppedEarlyError as stopped:
            response = stopped.response
        return RunResponse.of(response)

    def _go_on(self, attachments: Sequence[Attachable], turn: TurnRequest, runs: RunRequest) -> ChatResponse:
        """Continue the interrupted turn, or return its answer if it has one."""
        if attachments:
            raise ContentError(
                "chat(None) goes on with a turn as it was begun, so it takes no attachments; say something "
                "with them"
            )
        is_open, loop = self._generation.turns.is_set_aside, self._make_loop()
        answer = None if is_open else loop.last_response()
        return answer or self._turn(loop.going_on(turn, is_set_aside=is_open), runs)

    def _turn(self, turn: TurnRequest, runs: RunRequest) -> ChatResponse:
        """Carry a turn out. Its steps are runs if there is a profile, or if the caller asks for something of a run."""
        profile, steps = self._profile_of(runs.profile), None
        if profile is not None or not runs.is_plain:
            options = runs.options or RunOptions()
            steps = _Steps(profile, RunTrigger(runs.trigger), options, runs.on_event)
        if not self._generation.turns.is_asked:  # what was said just now looked at this first
            self._generation.check_ready()
            if steps is not None:
                steps.waiting = self._waiting_run()
                if steps.waiting is not None and self._is_again(steps, MainCall(turn.reply)):
                    run_id, validator = steps.waiting[0], turn.reply.validator
                    return self.resume(run_id, on_event=runs.on_event, run=runs.options, validator=validator)
        with self._generation.turns.answering(is_new=runs.trigger == RunTrigger.GENERATE) as held:
            return self._make_loop().turn(turn, None if steps is None else partial(self._step, steps, held))

    def _step(self, steps: _Steps, turn: OpenTurn, asked: ReplyRequest) -> ChatResponse:
        """Make one request of a turn as a run, with the operations around it; as the waiting run if that is due."""
        call, engine = MainCall(asked), self._engine
        is_again = steps.waiting is not None and not turn.has_run and self._is_again(steps, call)
        waiting = steps.waiting[0] if steps.waiting is not None and is_again else None
        if turn.has_run or waiting is not None:
            turn.lease.hold_for(waiting or uuid4().hex)
            turn.here = None
        turn.has_run = True
        events = [] if waiting is None else self.events(waiting)
        log = RunLog(self._database, self._rows, turn.lease.run_id, events, on_event=steps.on_event)
        with _told(turn, log), engine.aborted_by_ctrl_c(log):
            so_far = None if waiting is None else self._resumed(log, call.asked.validator)
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
        """Go on with a run that waits for a person, or whose process ended.

        What is done is not done again: operations, commits, the reply. A main call whose reply did not come is made
        again.

        Args:
            run_id: of the run, or the beginning of it.
            on_event: as of `Tract.generate`; it is called with the new events.
            run: how the run is carried on; variables are those that it began with.
            validator: a function is not kept with the run, so give it again where the run began with one.

        Raises:
            UnknownRunError: there is no such run.
            RunError: it has ended, it is another user's, another process works on it, or its validator is missing.
            LLMConfigError: no model is configured that could be asked.
            BranchMovedError: it belongs to another branch than the current one.
            RunFailedError, UndecidedError: as of `generate`.
        """
        _check_run(run, on_event)
        run_id = self._full_id(run_id)
        begun = self.events(run_id)[0].data
        branch, question = (begun.branch, begun.turn_id) if isinstance(begun, RunStarted) else (None, None)
        with self._generation.turns.resuming(
            run_id, branch, question
        ) as turn:  # what is read before may be old
            log = RunLog(self._database, self._rows, run_id, self.events(run_id), on_event=on_event)
            so_far = self._resumed(log, validator)
            settings = so_far.snapshot.settings
            call = MainCall(
                ReplyRequest(**settings["reply"], options=dict(settings["options"]), validator=validator)
            )
            with _told(turn, log), self._engine.aborted_by_ctrl_c(log):
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
        """Return what would be sent if this were said now. Nobody is asked, nothing is called, and nothing is stored.

        Operations that only compute do so in memory; what others would ask or call is noted, and a stand-in takes the
        place of what would come back.

        Args:
            text: what the user would say; empty for the context as it stands.
            profile: as of `Tract.generate`.
            run: its variables count.

        Raises:
            ContentError: there is nothing that could be answered.
            RunError: there is no such profile, or it is not used.
        """
        from tract_jupyter.runs.preview import rehearsed

        _check_run(run, None)
        branch, context = self._generation.with_said(check_text(text, "what the user would say"))
        steps = _Steps(self._profile_of(profile), RunTrigger.GENERATE, run or RunOptions())
        snapshot = self._snapshot(self._engine, branch, context, steps, MainCall(ReplyRequest()), _drawn())
        made, ending = rehearsed(snapshot, self._engine.kinds, self._engine.search)
        tokens = self._tokens_of(made.run.prompt or snapshot.plain_prompt)
        connection = self._models.connection("chat")
        return replace(
            made, tools=context.tools, model="" if connection is None else str(connection), tokens=tokens,
            token_source=context.token_source, cost=self._price_of(tokens),
            why_not="" if made.run.prompt else _why_not(ending),
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

    def _resumed(self, log: RunLog, validator: Validator | None) -> RunHistory:
        """Note that a run goes on, and return how far it had come.

        Raises:
            TractError: as of `resume`.
        """
        so_far = RunHistory.of(log.events)
        self._check_resumable(so_far, validator)
        self._check_models(_left(so_far), so_far.snapshot.trigger, self._engine.kinds)
        log.add(RunResumed(process=this_process()))
        return so_far

    def is_waiting(self, question: str) -> bool:
        """Return whether a run that answers a message of the user waits for a person."""
        waiting = self._waiting_run()
        return waiting is not None and waiting[1].turn_id == question

    # ---

    def _as_it_stands(self, events: list[RunEvent]) -> Run:
        """Return a run; as aborted if nobody works on it, and nothing is left that a resume could do."""
        run = project(events)
        begun = events[0].data
        if run.status not in {RunStatus.RUNNING, RunStatus.WAITING} or not isinstance(begun, RunStarted):
            return run
        is_alive = self.is_going_on(run.run_id) or RunHistory.of(events).main is not None
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
            raise RunError(f"run {run_id} has ended; generate() makes another one")
        if so_far.snapshot.tract_id != self._repository.tract_id or not is_signed(
            self._signer, so_far.run_id, so_far.snapshot
        ):
            raise RunError(
                f"run {run_id} is not resumed, because you did not begin it: it comes from another user, store or "
                f"tract, or its beginning was changed. run({run_id!r}) shows it; generate() makes one of your own"
            )
        if branch != self._repository.refs.position.branch:
            raise BranchMovedError(
                f"run {run_id} belongs to branch {branch!r}; switch({branch!r}), then resume it"
            )
        if so_far.main is None:
            self._models.check()  # without one the run would end, and could not be resumed with one
        is_answered = so_far.main is not None or self._engine.main_calls.is_answered(
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
                f"runs.resume({run_id!r}, validator=...)"
            )

    def _is_turn_open(self, snapshot: RunStarted) -> bool:
        """Return True if a run could still answer on its branch."""
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

    def _profile_of(self, given: str | OperationProfile | None) -> OperationProfile | None:
        if given is None:
            found = self._profiles.active
        elif isinstance(given, str):
            found = self._profiles.get(given)
        elif isinstance(given, OperationProfile):
            found = given
        else:
            raise ContentError(
                f"profile is a name or a profile as of OperationProfile.of(name, operations), not {brief_repr(given)}"
            )
        return with_own(found if found is not None and found.enabled else None, self._own_operations())

    def _waiting_run(self) -> tuple[str, RunStarted] | None:
        """Return the newest run and its snapshot, if it waits for a person and can be resumed here."""
        with self._database.read() as connection:
            newest = self._rows.newest(connection, 1)
        if not newest or newest[0][1].event_type == "run.finished":
            return None
        run_id = newest[0][0].run_id
        try:
            history = RunHistory.of(load(self._database, self._rows, run_id))
        except StoreCorruptError:  # `verify` tells of it
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
        """Note what the run goes by, and count it, before anything runs."""
        branch, context = self._generation.to_be_answered(turn.here)
        self._check_models(steps.operations, steps.trigger, engine.kinds)
        with self._repository.writer.batch():
            # both can be seen in what templates make of them
            cassette = self._models.cassette
            drawn = _drawn() if cassette is None else cassette.draw(f"run at {context.head}", _drawn)
            snapshot = self._snapshot(engine, branch, context, steps, call, drawn)
            snapshot = signed(self._signer, log.run_id, snapshot)
            log.add(snapshot)
            log.flush()
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
        """Return what a run goes by, unsigned; `drawn` are a seed and a time."""
        trigger, profile, options = steps.trigger, steps.profile, steps.options
        start = run_setup(context, trigger)
        compiled = None if profile is None else profile.compile()
        operations = steps.operations
        name = "" if profile is None else profile.profile_id
        # of no branch: what it keeps follows the history, and so is on each branch what it was where that began
        session = (
            None
            if profile is None
            else session_key(self._repository.tract_id, None, name, profile.session_id)
        )
        state = engine.artifacts.at(context.head)
        counted = check_activation(operations, start, trigger, state.counters.get(name, {}))
        start = self._unrewritten(start, context.head, operations, trigger, counted.skips)
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
            mode=ExecutionMode.CONCURRENT if compiled is None else compiled.execution_mode,
        )  # fmt: skip

    def _unrewritten(
        self,
        start: RunSetup,
        head: str | None,
        operations: Iterable[Operation],
        trigger: RunTrigger,
        skips: Mapping[str, Skip],
    ) -> RunSetup:
        """Return the turn without the rewrites of the user's message by those of the operations that are due."""
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
        """Look before any call whether the models that operations name are there, with their keys.

        Raises:
            ProfileError: one is not, and nothing was asked; with the line to type.
        """
        due = [one for one in operations if one.config.enabled and trigger in one.config.triggers]
        if missing := kinds.missing_models(due, self._models.client):
            raise ProfileError(missing)

    def _response(self, log: RunLog, call: MainCall, ending: Ending, history: RunHistory) -> RunResponse:
        """Return the reply, or raise the error that tells why there is none."""
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
        if info is None or info.commit_hash != commit:  # it was committed before the run was interrupted
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
            f"run {run.run_id[:8]} waits for a decision about {names}; decide in '%tract inbox', then "
            f"runs.resume({run.run_id[:8]!r}) goes on with it", None
        )  # fmt: skip

    def _full_id(self, given: str) -> str:
        check_text(given, "a run's id", error=UnknownRunError)
        with self._database.read() as connection:
            found = self._rows.ids(connection, given) if given.isalnum() else []
        if len(found) == 1 or given in found:
            return given if given in found else found[0]
        what = (
            f"several runs begin with {given!r}; give more of it" if found else f"there is no run {given!r}"
        )
        raise UnknownRunError(f"{what}; tract.runs(), or %tract runs, lists them")


def _drawn() -> list[Any]:
    return [secrets.randbits(32), datetime.now(UTC).isoformat()]


def _why_not(ending: Ending) -> str:
    details = ending.details
    who = f"operation {details['operationId']!r}" if "operationId" in details else "it"
    why = (
        details.get("errorMessage") or details.get("skippedReason") or details.get("errorCode") or "not done"
    )
    return f"the model would not be asked, as {who} is required: {why}"


def _settings(call: MainCall) -> dict[str, Any]:
    """Return how the model is asked, as it is noted with a run."""
    asked = call.asked
    noted = {"reply": asked.settings, "options": asked.options, "validator": asked.validator_name}
    return plain(noted)  # type: ignore[no-any-return] # a dict stays one


def _left(so_far: RunHistory) -> list[Operation]:
    """Return the operations of a run that have not ended at each of their hooks."""
    return [
        one for one in so_far.snapshot.operations
        if any((hook, one.id) not in so_far.ended for hook in one.config.hooks)
    ]  # fmt: skip


@contextmanager
def _told(turn: OpenTurn, log: RunLog) -> Iterator[None]:
    """Tell the turn how its run stands: it has ended, waits for a person, or was cut off."""
    try:
        yield
    finally:
        events = log.events
        turn.goes_on = bool(events) and not isinstance(events[-1].data, RunFinished)
        turn.waits = turn.waits or (turn.goes_on and RunHistory.of(events).status is RunStatus.WAITING)


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
            f"runs.get({run.run_id[:8]!r}) tells what it had done"
        )
    at = {FailedType.MAIN_LLM: "the main call failed"}.get(
        run.failed_type or FailedType.MAIN_LLM, "it failed before the main call"
    )
    return f"run {run.run_id[:8]}: {at}{',' if who else ''}{who}{f': {said}' if said else ''}"
