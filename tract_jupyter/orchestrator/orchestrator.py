"""`Orchestrator`: a model that looks after a context, under a ceiling of autonomy.

It chats in a tract of its own, which lies beside the one that it looks after; each run has a branch there that begins
empty. The one tool loop carries the chat out, with the tools of the tract that is looked after: its executor, its
permissions, its gate. So a run is stored step by step, and can be gone on with after its process has ended.
"""

from __future__ import annotations

import inspect
import threading
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.concurrency import BY_PERSON, StopSignal
from tract_jupyter.exceptions import BranchExistsError, LLMConfigError, OrchestratorError
from tract_jupyter.loop import StoppedEarlyError, TurnEnded
from tract_jupyter.models import (
    Allowance,
    AutonomyLevel,
    TurnOutcome,
    brief_repr,
    check_text,
    digest,
    effective_autonomy,
    repr_of_whole,
)
from tract_jupyter.orchestrator.assessment import Assessment
from tract_jupyter.orchestrator.config import OrchestratorConfig, checked_config
from tract_jupyter.orchestrator.proposals import ProposalReviewer
from tract_jupyter.orchestrator.result import OrchestratorResult, OrchestratorState
from tract_jupyter.orchestrator.steps import RunSteps
from tract_jupyter.orchestrator.toolset import OrchestratorToolset
from tract_jupyter.prompts import EMPTY, ORCHESTRATE
from tract_jupyter.toolkit import profile_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from tract_jupyter.loop import CarryOut, TurnEvent

ACTOR: Final = "orchestrator"
_RUN: Final = "run-"
_ABOUT: Final = "orchestrator_run"
"""The key of the metadata of a run's first message: what it was run for."""
_REQUESTS_BESIDE: Final = 3
"""Requests of a run beside those that make a call: the last reply, and some whose calls were turned down."""
_ID_LENGTH: Final = 27
_under_way: ContextVar[frozenset[str]] = ContextVar(
    "tract_orchestrating", default=frozenset()
)  # never written to


class Orchestrator:
    """An agent that looks after a context.

    Each step of a run can be replaced: `assess` says where the context stands, `llm_callable` chooses in the place of
    the model, `config.on_proposal` decides in the place of the person, `act` makes a call in the place of the executor.

    Args:
        tract: the context that it looks after.
        config: how it works; the usual settings if left out.
        llm_callable: is asked in the place of the model for `orchestrate`: a client, or a function `f(messages,
            tools, ...)` that returns a text or a response in OpenAI's shape.
        assess: a function that is given the `Assessment`, and returns what the model is told of it.
        act: a function in the place of making a call: `act(call, make)`, where `make()` makes it; see `ToolLoop`.
        by: the tract of a supervisor, whose models are asked and beside which the conversation is kept; that of the
            context if left out.

    Raises:
        OrchestratorError: the settings, or one of the functions, cannot be used.
    """

    def __init__(
        self,
        tract: Any,
        config: OrchestratorConfig | None = None,
        llm_callable: Any = None,
        *,
        assess: Callable[[Assessment], str] | None = None,
        act: CarryOut | None = None,
        by: Any = None,
    ) -> None:
        self._config = OrchestratorConfig() if config is None else checked_config(config)
        for name, given in (("tract", tract), ("by", tract if by is None else by)):
            if not callable(getattr(given, "beside", None)):
                raise OrchestratorError(f"{name} is a Tract, not {brief_repr(given)}")
        for name, given in (("assess", assess), ("act", act)):
            if not (given is None or callable(given)):
                raise OrchestratorError(f"{name} is a function or None, not {brief_repr(given)}")
        is_model = (
            llm_callable is None or callable(llm_callable) or callable(getattr(llm_callable, "chat", None))
        )
        if not is_model:
            raise OrchestratorError(
                f"llm_callable is a function of the messages and the tools, or a client, not {brief_repr(llm_callable)}"
            )
        self.assess = assess
        self.act = act
        self.llm_callable = llm_callable
        self._tract = tract
        self._by = tract if by is None else by
        self._state = OrchestratorState.IDLE
        self._signal: StopSignal | None = None
        self._wanted: OrchestratorState | None = None  # what was said while a run is under way
        self._waits: Any = None
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._ended.set()

    @repr_of_whole
    def __repr__(self) -> str:
        whose = self._tract.family.agent_id[:12]
        return f"<Orchestrator of {whose}: {self.state}, {self.config.autonomy_ceiling} at most>"

    # --- settings and state

    @property
    def config(self) -> OrchestratorConfig:
        """How it works. What is changed while it runs counts from the next call on, where that can still count."""
        return self._config

    @config.setter
    def config(self, config: OrchestratorConfig) -> None:
        """Work in another way.

        Raises:
            OrchestratorError: the settings cannot be used.
            CodeDecisionError: what runs on behalf of a model wants to raise the level.
        """
        self._config = self._allowed(config)

    def _allowed(self, config: object) -> OrchestratorConfig:
        """Return settings that can be used, and that whoever gives them may give."""
        checked = checked_config(config)
        if checked.autonomy_ceiling.rank > self._config.autonomy_ceiling.rank:
            self._tract.autonomy.check_raised(checked.autonomy_ceiling)
        return checked

    @property
    def state(self) -> OrchestratorState:
        """How far it is; `idle` again after a run."""
        return self._state

    @property
    def actor(self) -> str:
        """The actor of its calls: `orchestrator`, or `orchestrator:` and the id of its supervisor."""
        return ACTOR if self._by is self._tract else f"{ACTOR}:{self._by.family.agent_id}"

    @property
    def own_id(self) -> str:
        """The id of the tract that has its conversations: `orch.` and whose it is."""
        whose = self._by.family.agent_id.replace(":", ".").replace("/", ".")
        if len(whose) <= _ID_LENGTH:
            return f"orch.{whose}"
        return f"orch.{whose[:18]}.{digest(whose)[:8]}"

    # --- running

    def run(
        self,
        reason: str = "",
        autonomy: AutonomyLevel | str | None = None,
        *,
        on_turn: Callable[[TurnEvent], object] | None = None,
    ) -> OrchestratorResult:
        """Look after the context once, and return what came of it.

        Args:
            reason: why, for the model: what a policy found, or what you want done.
            autonomy: the level at which whoever starts it would have it act; the ceilings count where they are lower.
            on_turn: is given each event of the conversation as it happens; see `Tract.chat`.

        Raises:
            OrchestratorError: no model is configured, it runs already, or the settings cannot be used.
            ContentError: there is no such level.
            LLMError: a request failed; what was done until then stays, and `resume` goes on.
        """
        check_text(reason, "reason")
        level = AutonomyLevel.AUTONOMOUS if autonomy is None else AutonomyLevel(autonomy)
        with self._running():
            if self._tract.head is None:
                return OrchestratorResult(note=EMPTY, reason=reason, autonomy=self._effective(level))
            return self._carried_out(self._new_run(reason, level), reason, level, on_turn)

    def resume(
        self, run: str | None = None, *, on_turn: Callable[[TurnEvent], object] | None = None
    ) -> OrchestratorResult:
        """Go on with a run that was left: by a limit, Stop, an error, a missing decision, the end of its process.

        A call that has ended is not made again; about one that was begun and whose end is not known a person is asked.

        Args:
            run: its name; the newest if left out.
            on_turn: as of `run`.

        Raises:
            OrchestratorError: there is no such run, or it cannot go on; see `run`.
            LLMError: a request failed.
        """
        name = self._known_run(run)
        with self._running():
            own = self._left_open(name) or self.conversation(name)
            about = about_run(own)
            why = ""
            if about is None:
                why = "ended before it was told what for, and nothing was done: run() begins a new one"
            elif about.get("of") != self._tract.family.agent_id:
                why = f"looked after another context, {brief_repr(about.get('of'))}: an orchestrator of that resumes it"
            if about is None or why:
                own.close()
                raise OrchestratorError(f"{name!r} {why}")
            return self._carried_out(own, about["reason"], self._level_of(name, about), on_turn)

    def stop(self) -> None:
        """Stop the run, from any thread; what becomes of a call that is being made, `ToolLoop.stop` says.

        The model's call ends at once, and what was not begun is not made. Nothing happens if nothing runs.
        """
        self._end(OrchestratorState.STOPPED)

    def pause(self) -> None:
        """Have the run end once the calls of the present step are made. Nothing happens if nothing runs."""
        self._end(OrchestratorState.PAUSING)

    def close(self) -> None:
        """Stop the run, and wait for its end, five seconds at most."""
        self.stop()
        self._ended.wait(5)
        self._left_open()

    # --- runs that were

    def runs(self) -> list[str]:
        """Return the names of the runs that are kept, the oldest first."""
        return self._kept_runs()

    def conversation(self, run: str | None = None) -> Any:
        """Return the tract with the conversation of a run, to look at: `.compile()`, `.loop.turns()`; close it then.

        Args:
            run: its name; the newest if left out.

        Raises:
            OrchestratorError: there is no such run.
        """
        return self._by.beside(self.own_id, self._known_run(run), self._purpose())

    def unfinished(self) -> str:
        """Return why no policy starts another run now, as the newest is not over; empty if it is.

        One that was stopped, or ended by a limit or an error, counts as over, though `resume` may go on with it.

        Raises:
            StoreError: the store cannot be read.
        """
        kept = self._kept_runs()
        if not kept:
            return ""
        own = self.conversation(kept[-1])
        try:
            if own.runs.is_answering():
                return f"{kept[-1]} of the orchestrator is under way"
            turns = own.loop.turns()
            ended = own.loop.events_of(turns[-1])[-1] if turns else None
        finally:
            own.close()
        if not isinstance(ended, TurnEnded) or ended.outcome is not TurnOutcome.WAITING:
            return ""
        return (
            f"{kept[-1]} of the orchestrator waits for your decision: '%tract inbox' shows it, and "
            "'%tract_orchestrate --resume' goes on then"
        )

    # ---

    def _end(self, wanted: OrchestratorState) -> None:
        """Have the run end; one that is about to ask its model ends there."""
        if self._ended.is_set():
            return
        self._wanted = self._state = wanted
        self._tell_signal()

    def _tell_signal(self) -> None:
        signal, wanted = self._signal, self._wanted
        if signal is None or wanted is None:
            return
        if wanted is OrchestratorState.STOPPED:
            signal.set(BY_PERSON)
        else:
            signal.pause()

    @contextmanager
    def _running(self) -> Iterator[None]:
        checked_config(self._config)
        self._named_model()
        looked_after = self._tract.family.agent_id
        if looked_after in _under_way.get() or not self._lock.acquire(blocking=False):
            raise OrchestratorError(
                f"an orchestrator of {looked_after} runs already; wait for its end, or stop() it"
            )
        token = _under_way.set(_under_way.get() | {looked_after})
        self._wanted, self._state = None, OrchestratorState.RUNNING
        self._ended.clear()
        try:
            with self._suspended():
                yield
        finally:
            self._signal = None
            self._state = OrchestratorState.IDLE
            self._ended.set()
            _under_way.reset(token)
            self._lock.release()

    def _suspended(self) -> AbstractContextManager[object]:
        """Have what it does fire no policy."""
        suspended: AbstractContextManager[object] = self._tract.policies.suspended()
        return suspended

    def _effective(self, level: AutonomyLevel) -> AutonomyLevel:
        effective: AutonomyLevel = self._tract.autonomy.effective(self._config.autonomy_ceiling, level)
        return effective

    def _purpose(self) -> str:
        return f"Conversations of the orchestrator of {self._by.family.agent_id}"[:200]

    @property
    def _named(self) -> str:
        """What the names of runs begin with: those of a supervisor say whose context they look after."""
        if self._by is self._tract:
            return _RUN
        return f"{_RUN}{self._tract.family.agent_id.replace('..', '--')}-"

    def _kept_runs(self) -> list[str]:
        named = self._named
        numbers = sorted(
            int(name.removeprefix(named))
            for name in self._by.branches_beside(self.own_id)
            if name.startswith(named) and name.removeprefix(named).isdecimal()
        )
        return [f"{named}{number}" for number in numbers]

    def _known_run(self, run: str | None) -> str:
        kept = self._kept_runs()
        if not kept:
            raise OrchestratorError("there are no runs yet: run() begins one")
        if run is not None and run not in kept:
            raise OrchestratorError(
                f"there is no run {brief_repr(run)}; the newest are {', '.join(kept[-5:])}"
            )
        return kept[-1] if run is None else run

    def _new_run(self, reason: str, level: AutonomyLevel) -> Any:
        """Make the branch of a run, which says what it is for."""
        assessment = self._assessed(reason, level)
        prompt = self._config.system_prompt
        text = ORCHESTRATE if prompt is None else assessment.filled(prompt)
        self._check_model()
        kept = self._kept_runs()
        number = int(kept[-1].removeprefix(self._named)) if kept else 0
        own = None
        while own is None:
            number += 1
            try:
                own = self._by.beside(self.own_id, f"{self._named}{number}", self._purpose(), is_new=True)
            except BranchExistsError:  # another process was faster
                continue
        about = {
            "of": self._tract.family.agent_id, "reason": reason, "autonomy": level.value,
            "effective": self._effective(level).value, "branch": self._tract.current_branch or "",
            "tokens": self._tract.status().token_count, "head": self._tract.head,
        }  # fmt: skip
        signature = self._by.review.signer.sign(_ABOUT, [own.current_branch, about])
        metadata = {_ABOUT: {**about, "signature": signature}}
        own.commit({"content_type": "instruction", "text": text}, metadata=metadata)
        return own

    def _level_of(self, name: str, about: dict[str, Any]) -> AutonomyLevel:
        """Return the level that a stored run was asked for; if not this user began it so, no more than the usual."""
        unsigned = {key: value for key, value in about.items() if key != "signature"}
        signature, level = about.get("signature"), AutonomyLevel(about["autonomy"])
        signer = self._by.review.signer
        if isinstance(signature, str) and signer.verify(_ABOUT, [name, unsigned], signature):
            return level
        return effective_autonomy(level, AutonomyLevel.COLLABORATIVE)

    def _left_open(self, run: str | None = None) -> Any | None:
        """Return the conversation that waits for a decision, which it knows the questions of, if it is this run's."""
        waits, self._waits = self._waits, None
        if waits is not None and waits.current_branch != run:
            waits.close()
            return None
        return waits

    def _check_model(self) -> None:
        if self.llm_callable is not None:
            return
        models, model = self._by.models, self._config.model
        is_own = model is None or self._named_model() is None
        try:
            with nullcontext() if is_own else models.lent(model, "orchestrate"):
                models.check("orchestrate")
        except LLMConfigError as error:
            raise OrchestratorError(
                f"no model can be asked to look after the context: {error}. tract.models.use(NAME, "
                "operation='orchestrate') chooses one for this alone; llm_callable takes a function"
            ) from error

    def _assessed(self, reason: str, level: AutonomyLevel) -> Assessment:
        config = self._config
        return Assessment.of(
            self._tract, reason, config.task_context or "", self._effective(level), config.recent_commits,
            self._by.cassette,
        )  # fmt: skip

    def _carried_out(
        self, own: Any, reason: str, level: AutonomyLevel, on_turn: Callable[[TurnEvent], object] | None
    ) -> OrchestratorResult:
        """Have a conversation go on; it stays open as long as it waits for a decision."""
        self._left_open()
        try:
            result = self._chatted(own, reason, level, on_turn)
            if result.outcome is TurnOutcome.WAITING:
                self._waits = own
            return result
        finally:
            if self._waits is not own:
                own.close()

    def _chatted(
        self, own: Any, reason: str, level: AutonomyLevel, on_turn: Callable[[TurnEvent], object] | None
    ) -> OrchestratorResult:
        config, loop = self._config, own.loop
        self._choose_model(own)
        steps = RunSteps(self._tract, lambda step: config.on_step and config.on_step(step), on_turn)
        permission = self._tract.autonomy.at(lambda: self._effective(level))
        toolset = OrchestratorToolset(
            self._tract.executor, profile_of(config.profile), actor=self.actor, permission=permission,
            said=lambda: steps.said, acts_on="" if self._by is self._tract else self._tract.family.agent_id,
        )  # fmt: skip
        steps.toolset = toolset
        if config.on_proposal is not None:
            toolset.proposals = ProposalReviewer(
                toolset.reviewer, config.on_proposal, lambda: self._assessed(reason, level).summary
            )
        loop.after_step, loop.carry_out, loop.whole = steps.after_step, self.act, True
        loop.about_end = lambda: {"tokens": self._tract.status().token_count}
        loop.instructions = lambda profile, query: self._tract.scripts.get_system_instructions(
            profile=profile, query=query
        )
        effective = self._effective(level)
        before = self._tract.status().token_count
        with loop.signal() as self._signal:
            self._tell_signal()
            try:
                response = own.chat(
                    self._first_text(own, reason, level), tools=toolset, limits=self._limits(),
                    on_turn=steps.on_turn, **self._options(),
                )  # fmt: skip
            except StoppedEarlyError as early:
                response = early.response
        is_stopped = response.outcome is TurnOutcome.STOPPED
        return OrchestratorResult(
            tuple(steps.results),
            OrchestratorState.STOPPED if is_stopped else OrchestratorState.IDLE,
            response.outcome,
            steps.note(response.outcome, response.note),
            response.text,
            own.current_branch or "",
            reason,
            effective,
            before,
            self._tract.status().token_count,
            dict(response.usage or {}),
        )

    def _first_text(self, own: Any, reason: str, level: AutonomyLevel) -> str | None:
        """Return what the model is told first; None if it was told already, so that the run goes on."""
        if any(message.role == "user" for message in own.compile().messages):
            return None
        assessment = self._assessed(reason, level)
        if self.assess is None:
            return str(assessment)
        text = self.assess(assessment)
        if not isinstance(text, str) or not text.strip():
            raise OrchestratorError(
                f"assess returns what the model is told, as a text, not {brief_repr(text)}"
            )
        return text

    def _limits(self) -> Allowance:
        config = self._config
        given = config.limits or Allowance()
        calls = config.max_steps if given.calls is None else min(given.calls, config.max_steps)
        steps = 2 * config.max_steps + _REQUESTS_BESIDE
        return Allowance(
            steps=steps if given.steps is None else min(given.steps, steps), calls=calls, tokens=given.tokens,
            usd=given.usd, seconds=given.seconds,
        )  # fmt: skip

    def _options(self) -> dict[str, Any]:
        config = self._config
        is_own_name = config.model is not None and self._named_model() is None
        model = {"model": config.model} if is_own_name and self.llm_callable is None else {}
        return {**model, **({} if config.temperature is None else {"temperature": config.temperature})}

    def _named_model(self) -> Any:
        """Return the model that the settings name; None if they name none, or another one of the same client.

        Raises:
            OrchestratorError: there is no such model.
        """
        model = self._config.model
        if model is None or self.llm_callable is not None:
            return None
        try:
            return self._by.models.named(model, "orchestrate")
        except LLMConfigError as error:
            raise OrchestratorError(str(error)) from None

    def _choose_model(self, own: Any) -> None:
        """Have the conversation ask the model for `orchestrate`."""
        own.models.replies = "orchestrate"
        named = self._named_model()
        if self.llm_callable is not None:
            own.models.use(_asked_as_it_takes(self.llm_callable), operation="orchestrate")
        elif named is not None:
            own.models.use(named, operation="orchestrate")


def about_run(own: Any) -> dict[str, Any] | None:
    """Return what a run is for; None if that was not said before it was left.

    Args:
        own: its conversation.

    Returns:
        `of` (whose context it looks after), `reason`, `autonomy` (the level that was asked for), `effective` (that
        which counted then), and how the context stood before: `branch`, `head` and `tokens`; and the `signature` of
        whoever began it.
    """
    messages = own.compile().messages
    for message in messages:
        found = own.get_commit(message.commit_hash).metadata.get(_ABOUT)
        if isinstance(found, dict):
            return {
                **found,
                "reason": str(found.get("reason", "")),
                "autonomy": str(found.get("autonomy", "manual")),
            }
    return None


def _asked_as_it_takes(model: Any) -> Any:
    """Return a function that is given the options that it takes, and no others; a client as it is."""
    if callable(getattr(model, "chat", None)):
        return model
    try:
        parameters = inspect.signature(model).parameters.values()
    except (TypeError, ValueError):
        return model
    if any(one.kind is one.VAR_KEYWORD for one in parameters):
        return model
    names = {one.name for one in parameters}

    def ask(messages: list[dict[str, Any]], **options: Any) -> Any:
        return model(messages=messages, **{name: value for name, value in options.items() if name in names})

    return ask
