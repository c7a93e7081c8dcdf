"""A preview of a run: the prompt that would be sent, and the actions of each operation. Nothing is sent or stored.

Operations that only compute run in memory. Requests to models and users, tool calls and function calls are recorded,
and placeholders replace their results.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NoReturn

from tract_jupyter.exceptions import RunError, nearest
from tract_jupyter.runs.engine import RunDependencies, RunExecutor
from tract_jupyter.runs.events import MainFinished, OperationFinished
from tract_jupyter.runs.kinds.base import OperationOutput, Services, filled
from tract_jupyter.runs.kinds.registry import KindRegistry
from tract_jupyter.runs.log import EventLog
from tract_jupyter.runs.model import MainReply
from tract_jupyter.runs.projection import project
from tract_jupyter.runs.targets import MemoryTarget
from tract_jupyter.runs.workers import ThreadWorkers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tract_jupyter.llm import Cost
    from tract_jupyter.runs.events import Ending, RunStarted
    from tract_jupyter.runs.kinds.base import KindOutcome, OperationKind, Runner
    from tract_jupyter.runs.model import Operation, OperationContext, OperationRun, Run
    from tract_jupyter.runs.turn import Turn

PLACEHOLDER: Final = "⟨text of {}⟩"
"""The placeholder of a text from a model or a user."""

_COMPUTED: Final = {"template", "transform", "rag"}  # rag reads the history
_NO_COMMIT: Final = "0" * 64


@dataclass
class Imagined:
    """An external action of an operation that the preview did not carry out.

    Attributes:
        operation_id: the operation.
        kind: the kind of the operation.
        model: the name of the model; empty for the tract's own model, or if there is no request.
        messages: the messages for the model, in OpenAI's format.
        call: the tool or function; empty if there is no call.
        arguments: the arguments of that call.
        instead: the placeholder for the operations after it.
    """

    operation_id: str
    kind: str
    model: str = ""
    messages: Sequence[Mapping[str, Any]] = ()
    call: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    instead: Any = None

    @property
    def is_needed(self) -> bool:
        """True if the operation would send a request or make a call."""
        return bool(self.messages or self.call)


@dataclass(frozen=True)
class PromptPreview:
    """The prompt that would be sent now, and the actions of operations.

    Attributes:
        run: the run without its external actions. `prompt` is the prompt to send, `plain_prompt` the prompt without
            operations.
        imagined: the requests and calls of operations, in the order of the profile.
        effects: the effects of each operation by id, as JSON.
        tools: the schemas of the context's tools.
        model: a description of the model; empty if none is configured.
        tokens: the estimated tokens of the prompt.
        token_source: the counter of these tokens.
        cost: the cost of the prompt without the reply; None if the price is unknown.
        why_not: the reason why there is no request to the model; empty if there is one.
    """

    run: Run
    imagined: tuple[Imagined, ...]
    effects: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    tools: tuple[Mapping[str, Any], ...] = ()
    model: str = ""
    tokens: int = 0
    token_source: str = ""
    cost: Cost | None = None
    why_not: str = ""

    def operation(self, operation_id: str) -> tuple[list[OperationRun], Imagined | None]:
        """Return the results of one operation at its hooks, and its external action.

        Raises:
            RunError: the profile has no such operation.
        """
        results = [one for one in self.run.operations if one.operation_id == operation_id]
        imagined = next((one for one in self.imagined if one.operation_id == operation_id), None)
        if not results:
            known = dict.fromkeys(one.operation_id for one in self.run.operations)
            raise RunError(
                f"The profile {self.run.profile or 'none'!r} has no operation {operation_id!r} that could run now."
                f"{nearest(operation_id, known)} Its operations: {', '.join(known) or 'none'}."
            )
        return results, imagined


def rehearsed(
    snapshot: RunStarted, kinds: KindRegistry, search: Callable[..., Any]
) -> tuple[PromptPreview, Ending]:
    """Execute a run in memory without external actions. Return its preview and its ending."""
    seen: list[Imagined] = []
    stand_ins = {name: _StandIn(kinds[name], seen) for name in kinds if name not in _COMPUTED}
    log = EventLog("preview")
    log.add(snapshot)
    target = MemoryTarget(session=snapshot.session_key, artifacts=snapshot.artifacts.values())
    with closing(ThreadWorkers()) as workers:
        dependencies = RunDependencies(
            kinds=KindRegistry(more=stand_ins),
            services=Services(search=search),
            workers=workers,
            ask=_placeholder_reply,
        )
        ending = RunExecutor(snapshot, log, target, dependencies).run()
    effects: dict[str, list[Mapping[str, Any]]] = {}
    for event in log.events:
        if isinstance(event.data, OperationFinished):
            result = event.data.result
            effects.setdefault(result.operation_id, []).extend(one.to_dict() for one in result.effects)
    places = {one.id: place for place, one in enumerate(snapshot.operations)}
    needed = sorted((one for one in seen if one.is_needed), key=lambda one: places[one.operation_id])
    return PromptPreview(project(log.events), tuple(needed), effects), ending


def _placeholder_reply(_: Turn) -> MainFinished:
    return MainFinished(reply=MainReply(text=PLACEHOLDER.format("the model")), reply_commit=_NO_COMMIT)


class _NotExecutedError(Exception):
    """Ends an operation at its external action."""


class _Recorder:
    """A model, a registry and a tool executor that record requests and answer nothing."""

    def __init__(self, seen: Imagined) -> None:
        self._seen = seen

    def client(self, provider: str | None = None, credential: str | None = None) -> _Recorder:  # noqa: ARG002 # as `Models`
        self._seen.model = provider or ""
        return self

    def chat(self, messages: Sequence[Mapping[str, Any]], **_: Any) -> NoReturn:
        self._seen.messages = tuple(messages)
        raise _NotExecutedError

    def call_tool(self, name: str, arguments: Mapping[str, Any], **_: Any) -> NoReturn:
        self._seen.call, self._seen.arguments = name, arguments
        raise _NotExecutedError


class _StandIn:
    """Replaces a kind with external actions."""

    def __init__(self, kind: OperationKind, seen: list[Imagined]) -> None:
        self.name = kind.name
        self._kind, self._seen = kind, seen
        outputs = getattr(kind, "outputs", None)
        if outputs is not None:
            self.outputs = outputs

    def check(self, operation: Operation) -> list[tuple[str, str]]:
        return self._kind.check(operation)

    def prepare(self, operation: Operation, services: Services) -> Runner:
        """Return a function that does everything but the external action."""
        seen = Imagined(operation.id, self.name, instead=self._instead(operation))
        self._seen.append(seen)
        recorder: Any = _Recorder(seen)
        if self.name not in {"llm", "guard", "tool"}:
            return _Noted(seen, dict(operation.config.params))
        mine = replace(services, llm=recorder, models=recorder, call_tool=recorder.call_tool)
        run = self._kind.prepare(operation, mine)

        def rehearse(context: OperationContext) -> KindOutcome:
            try:
                return run(context)
            except Exception:
                if not seen.is_needed:
                    raise
                return OperationOutput(seen.instead)

        return rehearse

    def _instead(self, operation: Operation) -> Any:
        """Return the placeholder of the value; for a guard, all answers are True."""
        if self.name == "guard":
            return dict.fromkeys(self.outputs(operation), True)
        return PLACEHOLDER.format(operation.id)


@dataclass(frozen=True)
class _Noted:
    """An operation that is not started: a function, a question to the user, or a kind of another package."""

    seen: Imagined
    params: dict[str, Any]

    def __call__(self, context: OperationContext) -> OperationOutput:
        named = self.params.get("function") or self.params.get("operation") or self.seen.kind
        self.seen.call = str(named)
        arguments = self.params.get("arguments") or self.params.get("fields") or {}
        self.seen.arguments = filled(arguments, context) if isinstance(arguments, dict) else {}
        return OperationOutput(self.seen.instead)
