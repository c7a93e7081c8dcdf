"""`Pending`: one thing that awaits a decision.

The same pending can be decided four ways with the same effect and the same row in the store: by Python
(`p.approve()`), by a dict (`p.apply_decision({"action": "approve"})`), by a model that is given `p.to_tools()`, and by
a click in a panel.

An action decides, or changes what is decided about: its outermost call goes through the gate, which stores it.

The same pending can be decided four ways with the same effect and the same row in the store: by Python
(`p.approve()`), by a dict (`p.apply_decision({"action": "approve"})`), by a model that is given `p.to_tools()`, and by
a click in a panel.
"""

from __future__ import annotations

import functools
import traceback
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from tract_jupyter.exceptions import FingerprintError, PendingStateError, SpecError, nearest
from tract_jupyter.hooks import introspection
from tract_jupyter.hooks.introspection import gated, reading
from tract_jupyter.hooks.question import Question
from tract_jupyter.models.pending import PendingStatus
from tract_jupyter.review.decision import deciding_by_default, decision_context
from tract_jupyter.review.prompt import ask_until_decided
from tract_jupyter.storage.interrupts import interruptible

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from typing import Self

    from tract_jupyter.hooks.consulting import Consultation
    from tract_jupyter.protocols import LLMClient


F = TypeVar("F", bound="Callable[..., Any]")


def action(method: F) -> F:
    """Make a method of a pending one of its actions. Arguments are validated against its type hints."""
    name = method.__name__

    @functools.wraps(method)
    def act(self: Any, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        parameters = introspection.action_parameters(type(self), name)
        arguments = parameters.validate(parameters.bind(args, kwargs))
        call = functools.partial(method, self, **arguments)
        if not self.is_instant(name):  # it may take long, and is noted however it ends
            call = functools.partial(interruptible, call)
        return self.through_gate(name, arguments, call)

    return gated(act)  # type: ignore[return-value]


_FEWEST_DIGITS = 8  # of a fingerprint that stands for all of it


class Pending(Question):
    """Something that awaits a decision; `Question` says what it is made of."""

    runs_elsewhere: bool = False
    """Whether a decision is only stored here, for the process that asked to carry out."""

    # --- decisions

    @action
    def approve(self) -> Any:
        """Approve, run what there is to run, and return its result."""
        return self.run_approved()

    @action
    def reject(self, reason: Annotated[str, "Why; whoever asked for it is told."] = "") -> None:
        """Reject, with a reason."""
        self._require_open("reject")
        self.status = PendingStatus.REJECTED
        self.rejection_reason = reason

    @gated  # not an @action: a handler that passes it on decides nothing
    def pass_through(self) -> None:
        """Leave the decision to the next handler."""
        self._require_open("pass through")
        if decision_context().channel == "handler":
            self.status = PendingStatus.PASSED_THROUGH
        else:
            self.through_gate("pass_through", {}, self._passed)

    def named(self, fingerprint: str) -> Self:
        """Say in code which text it is that you have read, and return the pending, to be approved.

        In a notebook, code must do so before it approves a definition that was not shown there.

        Args:
            fingerprint: its fingerprint, or 8 digits or more of its beginning.

        Raises:
            FingerprintError: it has another one.
        """
        if len(fingerprint) < _FEWEST_DIGITS or not self.fingerprint.startswith(fingerprint):
            raise FingerprintError(
                f"{self.title!r} does not have the fingerprint {fingerprint[:64]!r}; read what it is now. At least "
                f"{_FEWEST_DIGITS} digits of its beginning are needed"
            )
        self._named = self.fingerprint
        return self

    @reading
    def get_state(self) -> dict[str, Any]:
        """Everything about it, nothing cut."""
        return introspection.state(self)

    def apply_decision(self, decision: Mapping[str, Any]) -> Any:
        """Carry out `{"action": name, "args": {...}}`.

        Raises:
            SpecError: the action is missing, or not offered.
            ParameterError: the arguments do not fit.
            PendingStateError: it is decided already.
        """
        if "action" not in decision:
            raise SpecError(
                'a decision is a dict such as {"action": "approve", "args": {}}; "action" is missing'
            )
        with deciding_by_default("dict"):
            return self.execute_tool(decision["action"], decision.get("args") or {})

    def execute_tool(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Carry out an offered action by name, as a model's tool call names it."""
        if not isinstance(name, str) or name not in self.offered_actions:
            known = ", ".join(sorted(self.offered_actions))
            raise SpecError(f"{self.operation!r} offers no action {name!r}.{nearest(str(name), self.offered_actions)} "
                            f"Offered are: {known}")  # fmt: skip
        values = introspection.action_parameters(self.owner_of_action(name), name).validate(arguments)
        with deciding_by_default("tool"):
            return self.carry_out_action(name, values)

    def carry_out_action(self, name: str, arguments: dict[str, Any]) -> Any:
        """Carry an offered action out, with validated arguments."""
        return getattr(self, name)(**arguments)

    def through_gate(self, name: str, arguments: dict[str, Any], run: Callable[[], Any]) -> Any:
        """Do something about it through the gate."""
        __tracebackhide__ = True
        return self.tract.review.gate.carry_out(self, name, arguments, run)

    def __await__(self) -> Generator[Any, None, Pending]:
        """Ask a person, and wait. `await pending` gives the decided pending."""
        return self._decided().__await__()

    def consult(
        self,
        instruction: str,
        *,
        client: LLMClient | None = None,
        system_prompt: str | None = None,
        max_turns: int = 3,
    ) -> Consultation:
        """Have a model decide: it is given the fields and the actions, and its tool calls are carried out.

        A mistake of the model (no call, an action that is not offered, arguments that do not fit, an action that
        raises) is told to it and counts as a turn. After the last turn the pending stays open, as the result says.
        A standing approval is nothing that a model can give.

        Args:
            instruction: what it should look after.
            client: the model to ask; the tract's if left out.
            system_prompt: instead of the usual words about its task.
            max_turns: how many replies it has.

        Raises:
            LLMError: there is no client, or it gave back no reply.
            PendingStateError: it is decided already.
        """
        from tract_jupyter.hooks.consulting import consult

        return consult(
            self,
            instruction,
            client=client or self.tract.llm_for("consult"),
            system_prompt=system_prompt,
            max_turns=max_turns,
        )

    def review(self, prompt_fn: Callable[[str], str] | None = None) -> PendingStatus:
        """Ask at the terminal until it is decided, or left for later with an empty answer; then it is in the inbox.

        The questions are those of a notebook's prompt: values can be changed first (`edit`), and an approval can stand
        (`session`, `always`), where a panel offers that.

        Args:
            prompt_fn: asks one question and returns what was typed; `input` if left out.
        """
        status = ask_until_decided(self, prompt_fn or input)  # looked up now: a kernel has one of its own
        if status.is_open:
            self.tract.reviewer.keep(self)
        return status

    async def _decided(self) -> Pending:
        __tracebackhide__ = True
        if self.status.is_open:
            await self.tract.reviewer.decide(self)
        return self

    # --- what is decided

    def is_instant(self, action: str) -> bool:
        """Whether an action only decides, so that there is nothing to carry out."""
        return action in {"reject", "pass_through"} or (action == "approve" and self._execute_fn is None)

    def check_current(self) -> None:
        """Check that what it would run is still what is active.

        Raises:
            FingerprintError: it was replaced or removed since.
        """

    # --- for subclasses

    def run_approved(self) -> Any:
        """What approval does."""
        self._require_open("approve")
        self.status = PendingStatus.APPROVED
        if self._execute_fn is not None:
            try:
                self.result = interruptible(self._execute_fn, self)
            except BaseException as error:  # interrupted half-way is failed too, and can be tried again
                self.fail(error)
                raise
        self.executed_at = datetime.now(UTC)
        self.error = None
        return self.result

    def fail(self, error: BaseException) -> None:
        """Keep the error. What had been decided and done before it stays so."""
        if self.error is None or self.status.is_open:
            text = "".join(traceback.format_exception_only(error)).strip()
            self.error = text.encode("utf-8", "backslashreplace").decode()  # a surrogate cannot be stored
        if self.executed_at is None and self.status is not PendingStatus.REJECTED:
            self.status = PendingStatus.FAILED

    def _passed(self) -> None:
        self.status = PendingStatus.PASSED_THROUGH

    def _require_open(self, verb: str) -> None:
        if not self.status.is_open:
            raise PendingStateError(
                f"cannot {verb} {self!r}: it is decided already; the first decision counts"
            )
