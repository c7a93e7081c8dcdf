"""`Orchestrator`: a model that maintains a context, up to a maximum level of autonomy.

Its conversation is in a separate tract next to the maintained one. Each run has a branch there, which starts empty.
The normal tool loop executes the calls with the tools of the maintained tract: its executor, permissions and gate.
Each step of a run is stored, so another process can resume it.
"""

from __future__ import annotations

import inspect
import threading
from contextlib import nullcontext
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
    warn,
)
from tract_jupyter.orchestrator.assessment import Assessment
from tract_jupyter.orchestrator.config import OrchestratorConfig, checked_config, save_config, stored_config
from tract_jupyter.orchestrator.proposals import ProposalReviewer
from tract_jupyter.orchestrator.result import OrchestratorResult, OrchestratorState, RunSteps
from tract_jupyter.orchestrator.toolset import OrchestratorToolset
from tract_jupyter.prompts import EMPTY, ORCHESTRATE
from tract_jupyter.storage import protected_context
from tract_jupyter.toolkit import profile_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from tract_jupyter.loop import CarryOut, TurnEvent
    from tract_jupyter.review import Settings


ACTOR: Final = "orchestrator"
_RUN: Final = "run-"
_ABOUT: Final = "orchestrator_run"
"""Metadata key of a run's first message: the description of the run."""
_EXTRA_REQUESTS: Final = 3
"""Extra requests of a run: for the last reply, and for replies whose calls were refused."""
_ID_LENGTH: Final = 27
# the default is never modified
_active_contexts: ContextVar[frozenset[str]] = ContextVar("tract_orchestrating", default=frozenset())


class Orchestrator:
    """An agent that maintains a context.

    You can replace each stage of a run: `assess` describes the context, `llm_callable` replaces the model,
    `config.on_proposal` decides instead of the user, and `act` replaces the execution of a call.

    Args:
        tract: the maintained context.
        config: the settings; defaults if omitted.
        llm_callable: replaces the model for `orchestrate`: a client, or a function `f(messages, tools, ...)` that
            returns a text or a response in OpenAI's format.
        assess: a function that gets the `Assessment` and returns its text for the model.
        act: a function that replaces the execution of a call: `act(call, make)`. `make()` runs the call; see
            `ToolLoop`.
        by: the tract of a supervisor. It provides the models, and its store has the conversation. By default, the
            maintained context.

    Raises:
        OrchestratorError: invalid settings or functions.
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
        for name, value in (("tract", tract), ("by", tract if by is None else by)):
            if not callable(getattr(value, "beside", None)):
                raise OrchestratorError(f"{name} must be a Tract, not {brief_repr(value)}")
        for name, value in (("assess", assess), ("act", act)):
            if not (value is None or callable(value)):
                raise OrchestratorError(f"{name} must be a function or None, not {brief_repr(value)}")
        is_model = (
            llm_callable is None or callable(llm_callable) or callable(getattr(llm_callable, "chat", None))
        )
        if not is_model:
            raise OrchestratorError(
                f"llm_callable must be a function of messages and tools, or a client, not {brief_repr(llm_callable)}"
            )
        self.assess = assess
        self.act = act
        self.llm_callable = llm_callable
        self._tract = tract
        self._by = tract if by is None else by
        self._state = OrchestratorState.IDLE
        self._signal: StopSignal | None = None
        self._requested: OrchestratorState | None = None  # by `stop` or `pause` during a run
        self._waiting: Any = None
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._ended.set()

    @repr_of_whole
    def __repr__(self) -> str:
        context_id = self._tract.family.agent_id[:12]
        return f"<Orchestrator of {context_id}: {self.state}, {self.config.autonomy_ceiling} at most>"

    # --- settings and state

    @property
    def config(self) -> OrchestratorConfig:
        """The settings. Changes during a run apply from the next call on, as far as possible."""
        return self._config

    @config.setter
    def config(self, config: OrchestratorConfig) -> None:
        """Replace the settings."""
        self._config = self._check_config(config)

    def _check_config(self, config: object) -> OrchestratorConfig:
        """Return valid settings. Fail if they raise the autonomy level without permission."""
        checked = checked_config(config)
        if checked.autonomy_ceiling.rank > self._config.autonomy_ceiling.rank:
            self._tract.autonomy.check_raised(checked.autonomy_ceiling)
        return checked

    @property
    def state(self) -> OrchestratorState:
        """The state; `idle` again after a run."""
        return self._state

    @property
    def actor(self) -> str:
        """The actor of its calls: `orchestrator`, or `orchestrator:` and the supervisor's id."""
        return ACTOR if self._by is self._tract else f"{ACTOR}:{self._by.family.agent_id}"

    @property
    def own_id(self) -> str:
        """The id of the tract with its conversations: `orch.` and the owner's id."""
        owner = self._by.family.agent_id.replace(":", ".").replace("/", ".")
        if len(owner) <= _ID_LENGTH:
            return f"orch.{owner}"
        return f"orch.{owner[:18]}.{digest(owner)[:8]}"

    # --- running

    def run(
        self,
        reason: str = "",
        autonomy: AutonomyLevel | str | None = None,
        *,
        on_turn: Callable[[TurnEvent], object] | None = None,
    ) -> OrchestratorResult:
        """Maintain the context once, and return the result.

        Args:
            reason: the reason for the model: a policy's finding, or your instruction.
            autonomy: the requested level. The lower ceilings take precedence.
            on_turn: receives each event of the conversation; see `Tract.chat`.

        Raises:
            OrchestratorError: no model is configured, a run is active, or invalid settings.
            ContentError: unknown level.
            LLMError: a request failed. The completed steps are stored, and `resume` continues.
        """
        check_text(reason, "reason")
        level = AutonomyLevel.AUTONOMOUS if autonomy is None else AutonomyLevel(autonomy)
        with self._running():
            if self._tract.head is None:
                return OrchestratorResult(note=EMPTY, reason=reason, autonomy=self._effective_level(level))
            return self._run_conversation(self._create_run(reason, level), reason, level, on_turn)

    def resume(
        self, run: str | None = None, *, on_turn: Callable[[TurnEvent], object] | None = None
    ) -> OrchestratorResult:
        """Continue an interrupted run: after a limit, Stop, an error, a decision, or the end of its process.

        Calls that have ended do not run again. If the end of a call is unknown, the user decides about it.

        Args:
            run: the name of the run; by default the newest.
            on_turn: as for `run`.

        Raises:
            OrchestratorError: there is no such run, or it cannot continue; see `run`.
            LLMError: a request failed.
        """
        name = self._find_run(run)
        with self._running():
            conversation = self._take_waiting(name) or self.conversation(name)
            about = about_run(conversation)
            problem = ""
            if about is None:
                problem = "ended before its task was stored, and nothing was done; run() starts a new run"
            elif about.get("of") != self._tract.family.agent_id:
                problem = (
                    f"belongs to another context, {brief_repr(about.get('of'))}; resume it with that context's "
                    "orchestrator"
                )
            if about is None or problem:
                conversation.close()
                raise OrchestratorError(f"{name!r} {problem}")
            return self._run_conversation(
                conversation, about["reason"], self._stored_level(name, about), on_turn
            )

    def stop(self) -> None:
        """Stop the run, from any thread. `ToolLoop.stop` describes the effect on a running call.

        The request to the model ends at once, and no further call starts. Without a run, this does nothing.
        """
        self._request_end(OrchestratorState.STOPPED)

    def pause(self) -> None:
        """End the run after the calls of the current step. Without a run, this does nothing."""
        self._request_end(OrchestratorState.PAUSING)

    def close(self) -> None:
        """Stop the run, and wait up to five seconds for its end."""
        self.stop()
        self._ended.wait(5)
        self._take_waiting()

    # --- stored runs

    def runs(self) -> list[str]:
        """Return the names of the stored runs, oldest first."""
        return self._list_runs()

    def conversation(self, run: str | None = None) -> Any:
        """Return the tract with the conversation of a run, to read it with `.compile()` or `.loop.turns()`.

        Close it afterwards.

        Args:
            run: the name of the run; by default the newest.

        Raises:
            OrchestratorError: there is no such run.
        """
        return self._by.beside(self.own_id, self._find_run(run), self._purpose())

    def unfinished(self) -> str:
        """Return the reason why policies cannot start a run now: the newest run is unfinished. Empty if they can.

        A run that was stopped, or ended by a limit or an error, counts as finished, although `resume` may continue it.
        """
        runs = self._list_runs()
        if not runs:
            return ""
        conversation = self.conversation(runs[-1])
        try:
            if conversation.runs.is_answering():
                return f"{runs[-1]} of the orchestrator is running"
            turns = conversation.loop.turns()
            last_event = conversation.loop.events_of(turns[-1])[-1] if turns else None
        finally:
            conversation.close()
        if not isinstance(last_event, TurnEnded) or last_event.outcome is not TurnOutcome.WAITING:
            return ""
        return (
            f"{runs[-1]} of the orchestrator waits for your decision: '%tract inbox' shows it, and "
            "'%tract_orchestrate --resume' continues it afterwards"
        )

    # ---

    def _request_end(self, state: OrchestratorState) -> None:
        """End the run. If its next request is about to start, the run ends there."""
        if self._ended.is_set():
            return
        self._requested = self._state = state
        self._update_signal()

    def _update_signal(self) -> None:
        signal, state = self._signal, self._requested
        if signal is None or state is None:
            return
        if state is OrchestratorState.STOPPED:
            signal.set(BY_PERSON)
        else:
            signal.pause()

    @protected_context
    def _running(self) -> Iterator[None]:
        checked_config(self._config)
        self._registered_model()
        context_id = self._tract.family.agent_id
        if context_id in _active_contexts.get() or not self._lock.acquire(blocking=False):
            raise OrchestratorError(
                f"an orchestrator of {context_id} is already running; wait for its end, or stop() it"
            )
        token = _active_contexts.set(_active_contexts.get() | {context_id})
        self._requested, self._state = None, OrchestratorState.RUNNING
        self._ended.clear()
        try:
            with self._suspend_policies():
                yield
        finally:
            self._signal = None
            self._state = OrchestratorState.IDLE
            self._ended.set()
            _active_contexts.reset(token)
            self._lock.release()

    def _suspend_policies(self) -> AbstractContextManager[object]:
        suspended: AbstractContextManager[object] = self._tract.policies.suspended()
        return suspended

    def _effective_level(self, level: AutonomyLevel) -> AutonomyLevel:
        effective: AutonomyLevel = self._tract.autonomy.effective(self._config.autonomy_ceiling, level)
        return effective

    def _purpose(self) -> str:
        return f"Conversations of the orchestrator of {self._by.family.agent_id}"[:200]

    @property
    def _run_prefix(self) -> str:
        """The prefix of the names of runs. A supervisor's runs have the id of the maintained context in it."""
        if self._by is self._tract:
            return _RUN
        return f"{_RUN}{self._tract.family.agent_id.replace('..', '--')}-"

    def _list_runs(self) -> list[str]:
        prefix = self._run_prefix
        numbers = sorted(
            int(name.removeprefix(prefix))
            for name in self._by.branches_beside(self.own_id)
            if name.startswith(prefix) and name.removeprefix(prefix).isdecimal()
        )
        return [f"{prefix}{number}" for number in numbers]

    def _find_run(self, run: str | None) -> str:
        runs = self._list_runs()
        if not runs:
            raise OrchestratorError("there are no runs yet; run() starts one")
        if run is not None and run not in runs:
            raise OrchestratorError(
                f"there is no run {brief_repr(run)}; the newest are {', '.join(runs[-5:])}"
            )
        return runs[-1] if run is None else run

    def _create_run(self, reason: str, level: AutonomyLevel) -> Any:
        """Create the branch of a run, with its purpose in the first message."""
        assessment = self._make_assessment(reason, level)
        prompt = self._config.system_prompt
        text = ORCHESTRATE if prompt is None else assessment.filled(prompt)
        self._check_model()
        runs = self._list_runs()
        number = int(runs[-1].removeprefix(self._run_prefix)) if runs else 0
        conversation = None
        while conversation is None:
            number += 1
            try:
                conversation = self._by.beside(
                    self.own_id, f"{self._run_prefix}{number}", self._purpose(), is_new=True
                )
            except BranchExistsError:  # another process was faster
                continue
        about = {
            "of": self._tract.family.agent_id, "reason": reason, "autonomy": level.value,
            "effective": self._effective_level(level).value, "branch": self._tract.current_branch or "",
            "tokens": self._tract.status().token_count, "head": self._tract.head,
        }  # fmt: skip
        signature = self._by.review.signer.sign(_ABOUT, [conversation.current_branch, about])
        metadata = {_ABOUT: {**about, "signature": signature}}
        conversation.commit({"content_type": "instruction", "text": text}, metadata=metadata)
        return conversation

    def _stored_level(self, name: str, about: dict[str, Any]) -> AutonomyLevel:
        """Return the requested level of a stored run; at most the default level if its signature is invalid."""
        unsigned = {key: value for key, value in about.items() if key != "signature"}
        signature, level = about.get("signature"), AutonomyLevel(about["autonomy"])
        signer = self._by.review.signer
        if isinstance(signature, str) and signer.verify(_ABOUT, [name, unsigned], signature):
            return level
        return effective_autonomy(level, AutonomyLevel.COLLABORATIVE)

    def _take_waiting(self, run: str | None = None) -> Any | None:
        """Return the open conversation if it belongs to this run, else close it. It knows its requests to the user."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None and waiting.current_branch != run:
            waiting.close()
            return None
        return waiting

    def _check_model(self) -> None:
        if self.llm_callable is not None:
            return
        models, model = self._by.models, self._config.model
        is_default = model is None or self._registered_model() is None
        try:
            with nullcontext() if is_default else models.lent(model, "orchestrate"):
                models.check("orchestrate")
        except LLMConfigError as error:
            raise OrchestratorError(
                f"the orchestrator has no model: {error}. Select one with tract.models.use(NAME, "
                "operation='orchestrate'), or pass a function as llm_callable"
            ) from error

    def _make_assessment(self, reason: str, level: AutonomyLevel) -> Assessment:
        config = self._config
        return Assessment.of(
            self._tract, reason, config.task_context or "", self._effective_level(level), config.recent_commits,
            self._by.cassette,
        )  # fmt: skip

    def _run_conversation(
        self,
        conversation: Any,
        reason: str,
        level: AutonomyLevel,
        on_turn: Callable[[TurnEvent], object] | None,
    ) -> OrchestratorResult:
        """Run a conversation. Keep it open as long as it waits for a decision."""
        self._take_waiting()
        try:
            result = self._chat(conversation, reason, level, on_turn)
            if result.outcome is TurnOutcome.WAITING:
                self._waiting = conversation
            return result
        finally:
            if self._waiting is not conversation:
                conversation.close()

    def _chat(
        self,
        conversation: Any,
        reason: str,
        level: AutonomyLevel,
        on_turn: Callable[[TurnEvent], object] | None,
    ) -> OrchestratorResult:
        config, loop = self._config, conversation.loop
        self._choose_model(conversation)
        steps = RunSteps(self._tract, lambda step: config.on_step and config.on_step(step), on_turn)
        permission = self._tract.autonomy.at(lambda: self._effective_level(level))
        toolset = OrchestratorToolset(
            self._tract.executor, profile_of(config.profile), actor=self.actor, permission=permission,
            last_text=lambda: steps.last_text, acts_on="" if self._by is self._tract else self._tract.family.agent_id,
        )  # fmt: skip
        steps.toolset = toolset
        if config.on_proposal is not None:
            toolset.proposals = ProposalReviewer(
                toolset.reviewer, config.on_proposal, lambda: self._make_assessment(reason, level).summary
            )
        loop.after_step, loop.carry_out, loop.whole = steps.after_step, self.act, True
        loop.about_end = lambda: {"tokens": self._tract.status().token_count}
        loop.instructions = lambda profile, query: self._tract.scripts.get_system_instructions(
            profile=profile, query=query
        )
        effective = self._effective_level(level)
        before = self._tract.status().token_count
        with loop.signal() as self._signal:
            self._update_signal()
            try:
                response = conversation.chat(
                    self._first_text(conversation, reason, level), tools=toolset, limits=self._limits(),
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
            conversation.current_branch or "",
            reason,
            effective,
            before,
            self._tract.status().token_count,
            dict(response.usage or {}),
        )

    def _first_text(self, conversation: Any, reason: str, level: AutonomyLevel) -> str | None:
        """Return the first text for the model; None if the conversation already has it."""
        if any(message.role == "user" for message in conversation.compile().messages):
            return None
        assessment = self._make_assessment(reason, level)
        if self.assess is None:
            return str(assessment)
        text = self.assess(assessment)
        if not isinstance(text, str) or not text.strip():
            raise OrchestratorError(f"assess must return a text for the model, not {brief_repr(text)}")
        return text

    def _limits(self) -> Allowance:
        config = self._config
        limits = config.limits or Allowance()
        calls = config.max_steps if limits.calls is None else min(limits.calls, config.max_steps)
        steps = 2 * config.max_steps + _EXTRA_REQUESTS
        return Allowance(
            steps=steps if limits.steps is None else min(limits.steps, steps), calls=calls, tokens=limits.tokens,
            usd=limits.usd, seconds=limits.seconds,
        )  # fmt: skip

    def _options(self) -> dict[str, Any]:
        config = self._config
        is_client_name = config.model is not None and self._registered_model() is None
        model = {"model": config.model} if is_client_name and self.llm_callable is None else {}
        return {**model, **({} if config.temperature is None else {"temperature": config.temperature})}

    def _registered_model(self) -> Any:
        """Return the registered model that the settings name; None for no name, or another name of the same client."""
        model = self._config.model
        if model is None or self.llm_callable is not None:
            return None
        try:
            return self._by.models.named(model, "orchestrate")
        except LLMConfigError as error:
            raise OrchestratorError(str(error)) from None

    def _choose_model(self, conversation: Any) -> None:
        """Select the model for `orchestrate` in the conversation."""
        conversation.models.replies = "orchestrate"
        model = self._registered_model()
        if self.llm_callable is not None:
            conversation.models.use(_with_accepted_options(self.llm_callable), operation="orchestrate")
        elif model is not None:
            conversation.models.use(model, operation="orchestrate")


def about_run(conversation: Any) -> dict[str, Any] | None:
    """Return the description of a run; None if the run was interrupted before it was stored.

    Returns:
        `of` (the id of the maintained context), `reason`, `autonomy` (the requested level), `effective` (the effective
        level at the start), the state of the context at the start (`branch`, `head` and `tokens`), and the `signature`
        of the user who started it.
    """
    messages = conversation.compile().messages
    for message in messages:
        about = conversation.get_commit(message.commit_hash).metadata.get(_ABOUT)
        if isinstance(about, dict):
            return {
                **about,
                "reason": str(about.get("reason", "")),
                "autonomy": str(about.get("autonomy", "manual")),
            }
    return None


def _with_accepted_options(model: Any) -> Any:
    """Return a function that passes on only the options that `model` accepts. A client stays unchanged."""
    if callable(getattr(model, "chat", None)):
        return model
    try:
        parameters = inspect.signature(model).parameters.values()
    except (TypeError, ValueError):
        return model
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return model
    names = {parameter.name for parameter in parameters}

    def ask(messages: list[dict[str, Any]], **options: Any) -> Any:
        return model(messages=messages, **{name: value for name, value in options.items() if name in names})

    return ask


_POLICY: Final = "orchestrator"
"""The name of the policy for the triggers in the settings."""


class TractOrchestrator(Orchestrator):
    """The orchestrator of a tract. Its settings are signed and saved in the tract, except functions.

    Args:
        tract: the tract.
        settings: the storage of the settings.

    Attributes:
        problem: the reason why the saved settings are not used; empty if they are.
    """

    def __init__(self, tract: Any, settings: Settings) -> None:
        config, self.problem = stored_config(settings)
        super().__init__(tract, config)
        self._settings = settings
        if self.problem:
            warn(self.problem, UserWarning)

    @property
    def config(self) -> OrchestratorConfig:
        """The settings. Assign an `OrchestratorConfig` to save it in the tract.

        The triggers become the policy `orchestrator` in `t.policies`. Functions (`on_proposal`, `on_step`) are not
        saved. They apply until this tract is closed.
        """
        return self._config

    @config.setter
    def config(self, config: OrchestratorConfig) -> None:
        """Save new settings and use them."""
        save_config(self._settings, self._check_config(config))
        self._config, self.problem = config, ""
        policies = self._tract.policies
        if config.triggers:
            level = config.autonomy_ceiling
            policies.add("orchestrate", name=_POLICY, when=config.triggers, autonomy=level)
        elif any(row.name == _POLICY for row in policies.list()):
            policies.remove(_POLICY)
