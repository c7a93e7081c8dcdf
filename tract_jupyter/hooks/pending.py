"""`Pending`: one thing that awaits a decision.

The same pending can be decided four ways with the same effect and the same row in the store: by Python
(`p.approve()`), by a dict (`p.apply_decision({"action": "approve"})`), by a model that is given `p.to_tools()`, and by
a click in a panel.
"""

from __future__ import annotations

import secrets
import traceback
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from tract_jupyter.exceptions import PendingStateError, SpecError, nearest
from tract_jupyter.hooks import introspection
from tract_jupyter.hooks.actions import action
from tract_jupyter.hooks.marks import gated, offered, reading
from tract_jupyter.models.pending import PendingStatus
from tract_jupyter.review.decision import deciding_by_default, how
from tract_jupyter.review.fingerprint import Subject, fingerprint
from tract_jupyter.review.prompt import ask_until_decided
from tract_jupyter.review.request import ReviewRequest
from tract_jupyter.review.source import asking_place

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from contextlib import AbstractContextManager

    from tract_jupyter.hooks.consulting import Consultation
    from tract_jupyter.models.parameters import Parameters
    from tract_jupyter.protocols import LLMClient
    from tract_jupyter.review.decision import Decision
    from tract_jupyter.review.request import CodeBlock, ValueTable
    from tract_jupyter.storage.decisions import StoredDecision
    from tract_jupyter.storage.pendings import StoredPending

OnTimeout = Literal["wait", "deny", "stop"]


class Pending:
    """Something that awaits a decision.

    Args:
        operation: the operation's name.
        tract: the tract it belongs to.
        fields: what it is about; validated by whoever makes it.
        execute_fn: what `approve` runs, given the pending; its result becomes `result`.
        triggered_by: what set it off, for the log.
        actor: who set it off: `user` or `agent:<id>`.
        timeout: seconds that a decision may take, None for any time.
        on_timeout: what it means if that time is over: `wait` on, `deny` (it expires), or `stop` waiting with an error,
            while it stays in the inbox.
    """

    _public_actions: ClassVar[frozenset[str]]
    runs_elsewhere: bool = False
    """Whether a decision is only stored here, for the process that asked to carry out."""
    labels: ClassVar[Mapping[str, str]] = {"approve": "Approve", "reject": "Reject"}
    """What the buttons of the built-in decisions say."""

    operation: str
    tract: Any
    pending_id: str
    created_at: datetime
    status: PendingStatus
    fields: dict[str, Any]
    triggered_by: str | None
    actor: str
    timeout: float | None
    on_timeout: str
    rejection_reason: str
    error: str | None
    executed_at: datetime | None
    result: Any
    rounds: int
    """How many decisions on it this process knows of."""
    deciding_thread: int | None
    """The thread that carries a decision out at the moment."""
    decision: Decision | None
    """The last decision on it."""
    unfinished: StoredDecision | None
    """An approval that was not carried out to its end, as the process that had it ended; asked about again."""
    note: str
    """What the person who decided should know."""
    doubt: str
    """What is wrong with the way it lies in the store, where it was made again from there."""

    def __init__(
        self,
        operation: str,
        *,
        tract: Any,
        fields: dict[str, Any],
        execute_fn: Callable[[Any], Any] | None = None,
        triggered_by: str | None = None,
        actor: str = "user",
        timeout: float | None = None,
        on_timeout: OnTimeout = "wait",
    ) -> None:
        self.operation = operation
        self.tract = tract
        self.fields = fields
        self.triggered_by = triggered_by
        self.actor = actor
        self.timeout = timeout
        self.on_timeout = on_timeout
        self.pending_id = secrets.token_hex(8)
        self.created_at = datetime.now(UTC)
        self.status = PendingStatus.PENDING
        self.rejection_reason = ""
        self.error = None
        self.executed_at = None
        self.result = None
        self.rounds = 0
        self.deciding_thread = None
        self.decision = None
        self.unfinished = None
        self.note = ""
        self.doubt = ""
        self._execute_fn = execute_fn
        self._place = asking_place()
        self._asking: CodeBlock | None = None

    def __init_subclass__(cls) -> None:
        cls._public_actions = offered(cls)

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
        if how().channel == "handler":
            self.status = PendingStatus.PASSED_THROUGH
        else:
            self.through_gate("pass_through", {}, self._passed)

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
        if not isinstance(name, str) or name not in self._public_actions:
            known = ", ".join(sorted(self._public_actions))
            raise SpecError(f"{self.operation!r} offers no action {name!r}.{nearest(str(name), self._public_actions)} "
                            f"Offered are: {known}")  # fmt: skip
        values = introspection.action_parameters(type(self), name).validate(arguments)
        with deciding_by_default("tool"):
            return getattr(self, name)(**values)

    def through_gate(self, name: str, arguments: dict[str, Any], run: Callable[[], Any]) -> Any:
        """Do something about it through the gate."""
        __tracebackhide__ = True
        return self.tract.gate.carry_out(self, name, arguments, run)

    def adopt(self, stored: StoredPending, decision: Decision | None) -> None:
        """Take over what another process made of it."""
        self.status = PendingStatus(stored.status)
        self.fields, self.error, self.executed_at = stored.fields, stored.error, stored.executed_at
        self.decision = decision or self.decision
        if self.status is PendingStatus.REJECTED and decision is not None:
            self.rejection_reason = decision.reason

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
            client=client or self.tract.llm,
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

    # --- what a decision binds to

    @property
    def fingerprint(self) -> str:
        """What an approval of this, as it is now, binds to: 64 hex digits."""
        return fingerprint("pending", self.operation, "", self.fields)

    @property
    def identity(self) -> str:
        """The fingerprint without what the author calls volatile: what a recorded decision is found by."""
        return self.fingerprint

    @property
    def subject(self) -> Subject | None:
        """What a standing approval could be about; None if it is asked about each time."""
        return None

    @property
    def resumable(self) -> bool:
        """Whether another process could carry it out; not if what it runs lives in this one."""
        return False

    @property
    def expires_at(self) -> datetime | None:
        """After that it cannot be approved any more; None for never."""
        if self.timeout is None or self.on_timeout != "deny":
            return None
        return self.created_at + timedelta(seconds=self.timeout)

    def is_instant(self, action: str) -> bool:
        """Whether an action only decides, so that there is nothing to carry out."""
        return action in {"reject", "pass_through"} or (action == "approve" and self._execute_fn is None)

    def check_current(self) -> None:
        """Check that what it would run is still what is active.

        Raises:
            FingerprintError: it was replaced or removed since.
        """

    def edited(self, arguments: Mapping[str, Any], *, keep: bool = True) -> AbstractContextManager[None]:  # noqa: ARG002
        """Change the fields as an action's arguments say; back again if the block raises, or with `keep=False`."""
        return nullcontext()

    # --- what a reviewer is shown

    @property
    def title(self) -> str:
        """The heading of its panel."""
        return f"{self.operation}"

    def code_blocks(self) -> tuple[CodeBlock, ...]:
        """The code that would run."""
        return ()

    def tables(self) -> tuple[ValueTable, ...]:
        """The values that it would run on."""
        return introspection.field_tables(self)

    def summary(self) -> str:
        """What it is, in a sentence or two."""
        return (type(self).__doc__ or "").strip()

    def why(self) -> str:
        """Why a person is asked."""
        return f"asked by {self.triggered_by}" if self.triggered_by else ""

    def editable(self) -> Parameters | None:
        """The fields that may be changed before approving, with the present values as defaults."""
        return None

    def asking_block(self) -> CodeBlock | None:
        """The line of code that asked, where that says something."""
        return self._asking if self._place is None else self._place.block()

    def asked_earlier(self, block: CodeBlock | None) -> None:
        """Take over the line that asked: made again from the store, this object has another maker."""
        self._place, self._asking = None, block

    def review_request(self, note: str = "") -> ReviewRequest:
        """Everything that is shown, as data."""
        asking = self.asking_block()
        return ReviewRequest(
            pending_id=self.pending_id,
            title=self.title,
            summary=self.summary(),
            why=" ".join(
                filter(None, [self.doubt, introspection.unfinished_text(self.unfinished), self.why()])
            ),
            fingerprint=self.fingerprint,
            actions=introspection.review_actions(self),
            code=(*self.code_blocks(), *(() if asking is None else (asking,))),
            tables=self.tables(),
            fields=self.editable(),
            subject=self.subject,
            note=note,
        )

    # --- introspection

    def to_dict(self) -> dict[str, Any]:
        """What a model needs to decide, long values cut."""
        return introspection.to_dict(self)

    def to_tools(self) -> list[dict[str, Any]]:
        """Its actions as tools in OpenAI's shape."""
        return introspection.to_tools(self)

    def describe_api(self) -> str:
        """Its fields and actions in Markdown."""
        return introspection.describe_api(self)

    def pprint(self) -> None:
        """Print it."""
        print(introspection.to_text(self))  # noqa: T201 # that is what it is for

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.pending_id[:8]}: {self.status}{_detail(self)}>"

    # --- for subclasses

    def run_approved(self) -> Any:
        """What approval does."""
        self._require_open("approve")
        self.status = PendingStatus.APPROVED
        if self._execute_fn is not None:
            try:
                self.result = self._execute_fn(self)
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


Pending._public_actions = offered(Pending)  # noqa: SLF001 # as `__init_subclass__` does for the others


def _detail(pending: Pending) -> str:
    if pending.status is PendingStatus.REJECTED and pending.rejection_reason:
        return f", {pending.rejection_reason!r}"
    return f", {pending.error}" if pending.error else ""
