"""A run that asks nobody: what would be sent to the model, and what each operation would do.

Operations that only compute do their work, in memory. What would ask a model or a person, call a tool or a function is
noted, and a stand-in takes the place of what would come back. Nothing is stored.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NoReturn

from tract_jupyter.exceptions import RunError, nearest
from tract_jupyter.runs.artifacts import MemoryArtifacts
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
    from tract_jupyter.runs.events import RunStarted
    from tract_jupyter.runs.kinds.base import KindOutcome, OperationKind, Runner
    from tract_jupyter.runs.model import Operation, OperationContext, OperationRun, Run
    from tract_jupyter.runs.run import Ending
    from tract_jupyter.runs.turn import Turn

UNSAID: Final = "⟨what {} would say⟩"
"""Stands for a text that nobody was asked for."""

_COMPUTED: Final = {"template", "transform", "rag"}  # rag reads the history
_NO_COMMIT: Final = "0" * 64


@dataclass
class Imagined:
    """What an operation would do outside of this process, and was kept from.

    Attributes:
        operation_id: of the operation.
        kind: of the operation.
        model: the name under which a model would be asked; empty for the tract's own, or where none would be.
        messages: what it would be sent, in OpenAI's shape.
        call: the tool or function that would be called; empty if none would be.
        arguments: of that call.
        instead: what takes the place of the result, for the operations after it.
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
        """True if anything would be asked or called."""
        return bool(self.messages or self.call)


@dataclass(frozen=True)
class PromptPreview:
    """What would be sent now, and by whose doing.

    Attributes:
        run: the run as far as it can be told without asking: `prompt` is what would be sent, `plain_prompt` the same
            without operations.
        imagined: what operations would have asked or called, in the order of the profile.
        effects: what each operation wants changed, by its id, as JSON.
        tools: the schemas of the context's tools.
        model: who would be asked, in words; empty if nobody is configured.
        tokens: of the prompt, estimated.
        token_source: what counted them.
        cost: of the prompt; the reply is not in it. None if the price is unknown.
        why_not: why the model would not be asked; empty if it would.
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
        """Return how one operation ended at its hooks, and what it would have asked or called.

        Raises:
            RunError: the profile has no such operation.
        """
        results = [one for one in self.run.operations if one.operation_id == operation_id]
        imagined = next((one for one in self.imagined if one.operation_id == operation_id), None)
        if not results:
            known = dict.fromkeys(one.operation_id for one in self.run.operations)
            raise RunError(
                f"the profile {self.run.profile or 'none'!r} has no operation {operation_id!r} that could run now."
                f"{nearest(operation_id, known)} It has {', '.join(known) or 'none'}"
            )
        return results, imagined


def rehearsed(
    snapshot: RunStarted, kinds: KindRegistry, search: Callable[..., Any]
) -> tuple[PromptPreview, Ending]:
    """Go through a run in memory, without asking or calling anybody; return what is known then, and how it ends."""
    seen: list[Imagined] = []
    stand_ins = {name: _StandIn(kinds[name], seen) for name in kinds if name not in _COMPUTED}
    log, artifacts = EventLog("preview"), MemoryArtifacts()
    if snapshot.session_key is not None:
        artifacts.put(snapshot.session_key, list(snapshot.artifacts.values()))
    log.add(snapshot)
    target = MemoryTarget(session=snapshot.session_key, artifacts=artifacts)
    with closing(ThreadWorkers()) as workers:
        dependencies = RunDependencies(
            kinds=KindRegistry(more=stand_ins),
            services=Services(search=search),
            workers=workers,
            ask=_unasked,
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


def _unasked(_: Turn) -> MainFinished:
    """Stand for the main call."""
    return MainFinished(reply=MainReply(text=UNSAID.format("the model")), reply_commit=_NO_COMMIT)


class _NotAskedError(Exception):
    """Ends an operation where it would have asked."""


class _Recorder:
    """A model, its registry, and whatever calls tools: notes what is asked, and answers nothing."""

    def __init__(self, seen: Imagined) -> None:
        self._seen = seen

    def client(self, provider: str | None = None, credential: str | None = None) -> _Recorder:  # noqa: ARG002 # as `Models`
        """Be the model of this name."""
        self._seen.model = provider or ""
        return self

    def chat(self, messages: Sequence[Mapping[str, Any]], **_: Any) -> NoReturn:
        """Note what would be sent."""
        self._seen.messages = tuple(messages)
        raise _NotAskedError

    def call_tool(self, name: str, arguments: Mapping[str, Any], **_: Any) -> NoReturn:
        """Note what would be called."""
        self._seen.call, self._seen.arguments = name, arguments
        raise _NotAskedError


class _StandIn:
    """Stands for a kind whose work is not done by this process alone."""

    anywhere = False

    def __init__(self, kind: OperationKind, seen: list[Imagined]) -> None:
        self.name = kind.name
        self._kind, self._seen = kind, seen
        outputs = getattr(kind, "outputs", None)
        if outputs is not None:
            self.outputs = outputs

    def check(self, operation: Operation) -> list[tuple[str, str]]:
        """Return what is wrong with its parameters."""
        return self._kind.check(operation)

    def prepare(self, operation: Operation, services: Services) -> Runner:
        """Return what does all of the work but the asking."""
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
        """Return the value for the operations after it: of a guard, that all holds."""
        if self.name == "guard":
            return dict.fromkeys(self.outputs(operation), True)
        return UNSAID.format(operation.id)


@dataclass(frozen=True)
class _Noted:
    """An operation that is not begun: somebody's function, a question to a person, a kind of another package."""

    seen: Imagined
    params: dict[str, Any]

    def __call__(self, context: OperationContext) -> OperationOutput:
        """Note what would be called."""
        named = self.params.get("function") or self.params.get("operation") or self.seen.kind
        self.seen.call = str(named)
        given = self.params.get("arguments") or self.params.get("fields") or {}
        self.seen.arguments = filled(given, context) if isinstance(given, dict) else {}
        return OperationOutput(self.seen.instead)
