"""`Pending`: one thing that awaits a decision.

The same pending can be decided four ways with the same effect: by Python (`p.approve()`), by a dict
(`p.apply_decision({"action": "approve"})`), by a model that is given `p.to_tools()`, and by a click in a panel.
"""

from __future__ import annotations

import secrets
import traceback
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from tract_jupyter.exceptions import PendingStateError, SpecError, nearest
from tract_jupyter.hooks import introspection
from tract_jupyter.models.pending import PendingStatus
from tract_jupyter.review.fingerprint import fingerprint
from tract_jupyter.review.request import ReviewRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from tract_jupyter.review.request import CodeBlock, ValueTable


class Pending:
    """Something that awaits a decision.

    Args:
        operation: the operation's name.
        tract: the tract it belongs to.
        fields: what it is about; validated by whoever makes it.
        execute_fn: what `approve` runs, given the pending; its result becomes `result`.
        triggered_by: what set it off, for the log.
        actor: who set it off: `user` or `agent:<id>`.
    """

    _public_actions: ClassVar[frozenset[str]] = frozenset({"approve", "reject", "pass_through", "get_state"})
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
    rejection_reason: str
    error: str | None
    executed_at: datetime | None
    result: Any

    def __init__(
        self,
        operation: str,
        *,
        tract: Any,
        fields: dict[str, Any],
        execute_fn: Callable[[Any], Any] | None = None,
        triggered_by: str | None = None,
        actor: str = "user",
    ) -> None:
        self.operation = operation
        self.tract = tract
        self.fields = fields
        self.triggered_by = triggered_by
        self.actor = actor
        self.pending_id = secrets.token_hex(8)
        self.created_at = datetime.now(UTC)
        self.status = PendingStatus.PENDING
        self.rejection_reason = ""
        self.error = None
        self.executed_at = None
        self.result = None
        self._execute_fn = execute_fn

    # --- decisions

    def approve(self) -> Any:
        """Approve, run what there is to run, and return its result.

        Raises:
            PendingStateError: it was decided before.
        """
        self._require_open("approve")
        self.status = PendingStatus.APPROVED
        if self._execute_fn is not None:
            try:
                self.result = self._execute_fn(self)
            except BaseException as error:  # interrupted half-way is failed too, and can be tried again
                self._fail(error)
                raise
        self.executed_at = datetime.now(UTC)
        self.error = None
        return self.result

    def reject(self, reason: Annotated[str, "Why; whoever asked for it is told."] = "") -> None:
        """Reject, with a reason."""
        self._require_open("reject")
        self.status = PendingStatus.REJECTED
        self.rejection_reason = reason

    def pass_through(self) -> None:
        """Leave the decision to the next handler."""
        self._require_open("pass through")
        self.status = PendingStatus.PASSED_THROUGH

    def apply_decision(self, decision: Mapping[str, Any]) -> Any:
        """Carry out `{"action": name, "args": {...}}`.

        Raises:
            SpecError: the action is missing, or not offered.
            ParameterError: the arguments do not fit.
        """
        if "action" not in decision:
            raise SpecError(
                'a decision is a dict such as {"action": "approve", "args": {}}; "action" is missing'
            )
        return self.execute_tool(decision["action"], decision.get("args") or {})

    def execute_tool(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Carry out an offered action by name, as a model's tool call names it."""
        if not isinstance(name, str) or name not in self._public_actions:
            offered = ", ".join(sorted(self._public_actions))
            raise SpecError(f"{self.operation!r} offers no action {name!r}.{nearest(str(name), self._public_actions)} "
                            f"Offered are: {offered}")  # fmt: skip
        method = getattr(self, name)
        return method(**introspection.action_parameters(type(self), name).validate(arguments))

    def adopt(self, status: PendingStatus) -> None:
        """Take over the status that another process gave it."""
        self.status = status

    def __await__(self) -> Generator[Any, None, Pending]:
        """Ask a person, and wait. `await pending` gives the decided pending."""
        return self._decided().__await__()

    async def _decided(self) -> Pending:
        __tracebackhide__ = True
        if self.status.is_open:
            await self.tract.reviewer.decide(self)
        return self

    # --- what a reviewer is shown

    @property
    def title(self) -> str:
        """The heading of its panel."""
        return f"{self.operation}"

    @property
    def fingerprint(self) -> str:
        """What an approval of this, as it is now, binds to: 64 hex digits."""
        return fingerprint("pending", self.operation, "", self.fields)

    @property
    def resumable(self) -> bool:
        """Whether another process could carry it out; not if what it runs lives in this one."""
        return False

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

    def review_request(self, note: str = "") -> ReviewRequest:
        """Everything that is shown, as data."""
        return ReviewRequest(
            pending_id=self.pending_id,
            title=self.title,
            summary=self.summary(),
            why=self.why(),
            fingerprint=self.fingerprint,
            actions=introspection.review_actions(self),
            code=self.code_blocks(),
            tables=self.tables(),
            note=note,
        )

    # --- introspection

    def get_state(self) -> dict[str, Any]:
        """Everything about it, nothing cut."""
        return introspection.state(self)

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

    def _require_open(self, verb: str) -> None:
        if not self.status.is_open:
            raise PendingStateError(
                f"cannot {verb} {self!r}: it is decided already; the first decision counts"
            )

    def _fail(self, error: BaseException) -> None:
        """Keep the error. What had been decided and done before it stays so."""
        if self.error is None or self.status.is_open:
            text = "".join(traceback.format_exception_only(error)).strip()
            self.error = text.encode("utf-8", "backslashreplace").decode()  # a surrogate cannot be stored
        if self.executed_at is None and self.status is not PendingStatus.REJECTED:
            self.status = PendingStatus.FAILED


def _detail(pending: Pending) -> str:
    if pending.status is PendingStatus.REJECTED and pending.rejection_reason:
        return f", {pending.rejection_reason!r}"
    return f", {pending.error}" if pending.error else ""
