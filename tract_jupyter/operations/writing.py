"""Operations that a model writes. Each version is checked and rehearsed, and the user reviews it before activation.

The model has one tool, `propose_operation`, whose arguments are an `OperationSpec` as data. The tool's answers say
why a proposal is invalid, or why the user rejected it. The number of versions is limited, and so is the number of
requests for each valid version.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from tract_jupyter import prompts
from tract_jupyter.concurrency import StopSignal, stopped_by
from tract_jupyter.exceptions import ContentError, TractError, UndecidedError
from tract_jupyter.llm import Reply, WholeReplies, can_stream, tokens_of
from tract_jupyter.models import PendingStatus, brief_repr, counted
from tract_jupyter.operations.spec import spec_from_dict
from tract_jupyter.review import checking

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from tract_jupyter.llm import RawCall
    from tract_jupyter.models import Delta, LLMClient
    from tract_jupyter.operations.activation import PendingActivation
    from tract_jupyter.operations.spec import OperationSpec

STOPPED: Final = "stopped by the user"
MOST: Final = 20
"""The maximum value of `tries` and of `versions`."""
_MOST_REPEATED: Final = 3
"""The number of identical invalid proposals after which the writing stops."""
_STOPPED: Final = f"{STOPPED}; nothing was activated"
_REPEATED: Final = "given up: the model repeated an invalid proposal; describe the task more exactly"


@dataclass(frozen=True, slots=True)
class WritingAttempt:
    """One reply of the model.

    Attributes:
        number: the number of the reply, starting at 1.
        version: the number of the version on display, starting at 1. None if the proposal was invalid.
        problem: the error that the model received. Empty if the proposal went to the user.
        pending: the activation request, if the proposal went to the user.
    """

    number: int
    version: int | None
    problem: str
    pending: PendingActivation | None

    @property
    def reason(self) -> str:
        """The user's reason for the rejection. Empty without a rejection or a reason."""
        return "" if self.pending is None else self.pending.rejection_reason


@dataclass(frozen=True, slots=True)
class WrittenOperation:
    """The result of `write`.

    Attributes:
        attempts: the replies of the model, in order.
        model: the model's name in its replies. Empty if they have none.
        tokens: the sum over all requests, as far as the provider reported it.
        note: the outcome, in a sentence.
    """

    text: str
    attempts: tuple[WritingAttempt, ...]
    model: str
    tokens: int
    note: str

    @property
    def pending(self) -> PendingActivation | None:
        """The activation request for the last reviewed version. None if there was no valid version."""
        return next(
            (attempt.pending for attempt in reversed(self.attempts) if attempt.pending is not None), None
        )

    @property
    def is_active(self) -> bool:
        """True if the user activated the operation."""
        return self.pending is not None and self.pending.status is PendingStatus.APPROVED

    @property
    def spec(self) -> OperationSpec | None:
        """The last reviewed version. None if there was no valid version."""
        return None if self.pending is None else self.pending.spec

    def __repr__(self) -> str:
        return f"<WrittenOperation: {self.note}>"


class WritingObserver(Protocol):
    """Receives progress events during the writing, in the thread that called `write`."""

    def asking(self, number: int, version: int) -> None:
        """Request number `number` for this version is about to start."""
        ...

    def writing(self, characters: int) -> None:
        """The reply has this many characters so far."""
        ...

    def refused(self, attempt: WritingAttempt) -> None:
        """The proposal is invalid. The model receives the error."""
        ...

    def shown(self, attempt: WritingAttempt) -> None:
        """The user is about to review the proposal."""
        ...

    def decided(self, attempt: WritingAttempt) -> None:
        """The user has decided."""
        ...


class _Silent:
    """An observer that ignores all events."""

    def asking(self, number: int, version: int) -> None: ...
    def writing(self, characters: int) -> None: ...
    def refused(self, attempt: WritingAttempt) -> None: ...
    def shown(self, attempt: WritingAttempt) -> None: ...
    def decided(self, attempt: WritingAttempt) -> None: ...


class _Stopped(BaseException):
    """Raised by the stop signal during the user's decision."""


class Writing:
    """The dialogue with a model that writes an operation. `note` holds the outcome, and is empty until the end.

    `propose` checks a spec and returns its activation request, and `decide` asks the user about it. The other arguments
    are those of `Operations.write`.
    """

    def __init__(
        self,
        client: LLMClient,
        observer: WritingObserver | None,
        stop: StopSignal | None,
        tries: int,
        versions: int,
        propose: Callable[[OperationSpec], PendingActivation],
        decide: Callable[[PendingActivation], object],
    ) -> None:
        for name, value in (("tries", tries), ("versions", versions)):
            if type(value) is not int or not 1 <= value <= MOST:
                raise ContentError(f"{name} must be a number from 1 to {MOST}, not {brief_repr(value)}")
        self.messages: list[dict[str, Any]] = []
        self.reply = Reply("")
        self.requests = self.tokens = 0
        self.attempts: list[WritingAttempt] = []
        self.note = ""
        self._client = client
        self._observer = observer or _Silent()
        self._stop = stop or StopSignal()
        self._tries, self._versions = tries, versions
        self._left = tries
        self._version = 1
        self._refused: list[tuple[str, str]] = []
        self._propose = propose
        self._decide = decide

    def write(self, text: str, system_prompt: str | None, taken: Collection[str]) -> WrittenOperation:
        """Let the model write an operation for a task. `taken`: the names of the active operations."""
        if not isinstance(text, str) or not text.strip():
            raise ContentError(
                "an operation needs a task as a text, such as 'check that every citation survives'"
            )
        self.messages = [
            {"role": "system", "content": system_prompt or prompts.WRITE_OPERATION},
            {"role": "user", "content": prompts.writing_request(text.strip(), taken)},
        ]
        self._run()
        model = self.reply.model or ""
        return WrittenOperation(text, tuple(self.attempts), model, self.tokens, self.note)

    def _run(self) -> None:
        """Send requests until an operation is active, the tries are used up, or the user stops the writing."""
        try:
            with stopped_by(self._stop):
                while not self.note:
                    if self._stop.is_set():
                        self.note = _STOPPED
                        return
                    self._ask()
                    self._answer()
        except TractError:
            if not self._stop.is_set():
                raise
            self.note = _STOPPED  # Stop ended the request

    def _ask(self) -> None:
        self._observer.asking(self.requests + 1, self._version)
        size = 0

        def take(delta: Delta) -> None:
            nonlocal size
            size += len(delta.text)
            self._observer.writing(size)

        streamed = {"on_delta": take} if can_stream(self._client) else {}
        self.reply = reply = Reply.of(
            WholeReplies(self._client).chat(
                list(self.messages), tools=[dict(prompts.PROPOSE_OPERATION)], **streamed
            )
        )
        self.requests += 1
        used = (reply.usage, *reply.usage.get("failed_tries", ()))
        self.tokens += sum(tokens_of(usage) or 0 for usage in used)
        self.messages.append(reply.to_message())

    def _answer(self) -> None:
        """Handle the first tool call of the reply, ask the user about it, and answer each call."""
        if not self.reply.raw_calls:
            self._record_failure("the reply has only text, and proposes no operation")
            self.messages.append({"role": "user", "content": prompts.NO_OPERATION})
        for place, call in enumerate(self.reply.raw_calls):
            answer = prompts.ONE_OPERATION if place else self._review(call)
            if answer is None:
                return
            self.messages.append({"role": "tool", "tool_call_id": call.id, "content": answer})

    # ---

    def _review(self, call: RawCall) -> str | None:
        """Check the model's proposal, ask the user, and return the answer for the model."""
        try:
            pending = self._proposed(call)
        except TractError as error:
            self._record_failure(str(error))
            self._refused.append((call.name, call.arguments))
            if not self.note and self._refused.count(self._refused[-1]) == _MOST_REPEATED:
                self.note = _REPEATED
            return prompts.refused_operation(str(error))
        attempt = WritingAttempt(self.requests, self._version, "", pending)
        self.attempts.append(attempt)
        self._observer.shown(attempt)
        if not self._is_decided(pending):
            return None
        self._observer.decided(attempt)
        if pending.status is PendingStatus.APPROVED:
            self.note = f"operation {pending.spec.name} is active"
            return self.note
        return self._rejected(pending)

    def _proposed(self, call: RawCall) -> PendingActivation:
        name = prompts.PROPOSE_OPERATION["function"]["name"]
        if call.name != name:
            raise ContentError(f"there is no tool {brief_repr(call.name)}; the only one is {name!r}")
        return self._propose(spec_from_dict(call.values()))

    def _record_failure(self, problem: str) -> None:
        attempt = WritingAttempt(self.requests, None, problem, None)
        self.attempts.append(attempt)
        self._observer.refused(attempt)
        self._left -= 1
        if not self._left:
            often = "1 try" if self._tries == 1 else f"{self._tries} tries"
            self.note = f"given up after {often} without a valid operation: {problem}"

    def _is_decided(self, pending: PendingActivation) -> bool:
        """Ask the user. Return False if no user is available. Stopping the writing withdraws the request."""
        try:
            with checking(self._check_stop):
                self._decide(pending)
        except UndecidedError as error:
            self.note = str(error)
            return False
        except _Stopped:
            _withdraw(pending)
            self.note = _STOPPED
            return False
        except BaseException:
            _withdraw(pending)
            raise
        return True

    def _check_stop(self) -> None:
        if self._stop.is_set():
            raise _Stopped

    def _rejected(self, pending: PendingActivation) -> str:
        reason = pending.rejection_reason
        if pending.status is not PendingStatus.REJECTED:
            self.note = "the request expired; nothing was activated"
        elif not reason:
            self.note = "rejected without a reason, so the model did not try again"
        elif self._version >= self._versions:
            self.note = f"given up after {counted(self._versions, 'rejected version')}"
        else:
            self._version += 1
            self._left = self._tries
        rehearsal = pending.rehearsal
        return prompts.rejected_operation(reason, "" if rehearsal is None else rehearsal.summary_for_model)


def _withdraw(pending: PendingActivation) -> None:
    if pending.status.is_open:
        try:
            pending.reject(STOPPED)
        except TractError:  # another process or thread just decided it
            return
