"""Let a model decide a pending, through the same actions and the same gate as a user."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import asdict, dataclass, is_dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from tract_jupyter import prompts
from tract_jupyter.exceptions import ContentError, PendingStateError, SpecError, nearest
from tract_jupyter.llm import Reply, WholeReplies
from tract_jupyter.models import canonical_json, safe_repr
from tract_jupyter.review import introspection
from tract_jupyter.review.decision import deciding, decision_context

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from tract_jupyter.llm import RawCall
    from tract_jupyter.models import LLMClient
    from tract_jupyter.review.pending import Pending


class ConsultationStep(NamedTuple):
    """A step of the model: an action call or a text.

    Attributes:
        action: the action name as the model wrote it. Empty for a text.
        arguments: the arguments of the call. A text if they are not a JSON object.
        answer: the answer to the model: the result as JSON, or the error.
        is_error: True if the step was a mistake.
    """

    action: str
    arguments: dict[str, Any] | str
    answer: str
    is_error: bool


@dataclass(frozen=True, slots=True)
class Consultation:
    """The outcome of a consultation.

    Attributes:
        decided: True if the pending is decided now. Otherwise it is still open.
        turns: the number of the model's replies.
        steps: the steps of the model, in order.
        text: the last text of the model.
        model: the model's name from its replies. Empty if they have none.
    """

    decided: bool
    status: str
    turns: int
    steps: tuple[ConsultationStep, ...]
    text: str
    model: str

    @property
    def mistakes(self) -> tuple[str, ...]:
        """The errors that the model received."""
        return tuple(step.answer for step in self.steps if step.is_error)


def consult(
    pending: Pending, instruction: str, *, client: LLMClient, system_prompt: str | None, max_turns: int
) -> Consultation:
    """Let a model decide; see `Pending.consult`."""
    if not pending.status.is_open:
        raise PendingStateError(f"{pending!r} is already decided; a model cannot decide it again")
    if type(max_turns) is not int or max_turns < 1:
        raise ContentError(
            f"max_turns must be a whole number of replies, at least 1, not {safe_repr(max_turns)}"
        )
    dialogue = _Dialogue(pending, client)
    dialogue.messages = [
        {"role": "system", "content": system_prompt or prompts.CONSULT},
        {"role": "user", "content": prompts.consulting_request(instruction, _as_json(pending.to_dict()))},
    ]
    turns = 0
    while pending.status.is_open and turns < max_turns:
        dialogue.ask()
        turns += 1
    last = dialogue.reply
    return Consultation(
        not pending.status.is_open,
        pending.status.value,
        turns,
        tuple(dialogue.steps),
        last.text,
        last.model or "",
    )


class _Dialogue:
    """The dialogue with a deciding model. Its tools are the pending's actions. A text decides nothing."""

    def __init__(self, pending: Pending, client: LLMClient) -> None:
        self.messages: list[dict[str, Any]] = []
        self.reply = Reply("")
        self.steps: list[ConsultationStep] = []
        self._pending = pending
        self._client = WholeReplies(client)

    def ask(self) -> None:
        """Send a request and carry out the calls of the reply until the pending is decided."""
        pending, fingerprint = self._pending, self._pending.fingerprint
        tools = pending.to_tools()
        self.reply = reply = Reply.of(self._client.chat(list(self.messages), tools=tools))
        self.messages.append(reply.to_message())
        for call in reply.raw_calls:
            if not pending.status.is_open:
                return
            step = _carried_out(pending, call, reply.model or "unknown", fingerprint)
            self.steps.append(step)
            self.messages.append({"role": "tool", "tool_call_id": call.id, "content": step.answer})
            if not step.is_error:
                fingerprint = pending.fingerprint  # the model knows its changes
        if not reply.raw_calls and pending.status.is_open:
            names = ", ".join(tool["function"]["name"] for tool in tools)
            answer = prompts.NO_CALL.format(names=names)
            self.steps.append(ConsultationStep("", {}, answer, is_error=True))
            self.messages.append({"role": "user", "content": answer})


def _carried_out(pending: Pending, call: RawCall, model: str, fingerprint: str) -> ConsultationStep:
    arguments: dict[str, Any] | str = call.arguments
    try:
        arguments = call.values()
        values = _checked(pending, call.name, arguments)
        with _deciding(call.name, model, fingerprint):
            result = pending.execute_tool(call.name, values)
    except Exception as error:  # noqa: BLE001 # an action may raise anything; the model receives the error
        message = f"{type(error).__name__}: {error}"
        return ConsultationStep(call.name, arguments, _as_json({"error": message}), is_error=True)
    answer = _as_json({"result": result, "status": pending.status.value})
    return ConsultationStep(call.name, arguments, answer, is_error=False)


def _deciding(name: str, model: str, fingerprint: str) -> AbstractContextManager[None]:
    # inside a handler, `pass_through` belongs to the handler: the next handler runs, and the pending stays open
    if name == "pass_through" and decision_context().channel == "handler":
        return nullcontext()
    return deciding("model", f"model:{model}", shown=fingerprint)


def _checked(pending: Pending, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments if a model may use them. A model cannot set `scope`, `uses` or `pattern`."""
    offered = [tool["function"]["name"] for tool in pending.to_tools()]
    if name not in offered:
        raise SpecError(f"there is no action {name!r}.{nearest(name, offered)} Actions: {', '.join(offered)}")
    introspection.parameters_for_models(type(pending), name).validate(arguments)
    return arguments


def _as_json(value: Any) -> str:
    """Return any value as text, as JSON if possible."""
    if is_dataclass(value) and not isinstance(value, type):
        return _as_json(asdict(value))
    if isinstance(value, dict):
        value = {str(key): _plain(part) for key, part in value.items()}
    return canonical_json(_plain(value))


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    try:
        canonical_json(value)
    except ContentError:
        return safe_repr(value).encode("utf-8", "replace").decode()
    return value
