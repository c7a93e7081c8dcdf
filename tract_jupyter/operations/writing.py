"""Operations that a model writes: each version is checked and rehearsed, and the user reviews it before it is active.

The model has one tool, `propose_operation`, whose arguments are an `OperationSpec` as data. Its answers say why a
proposal is not valid, or why the user rejected it. The number of versions is limited, and so is the number of requests
for each valid version.
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

STOPPED: Final = "stopped by the person"
MOST: Final = 20
"""Tries, or versions, that can be asked for."""
_MOST_REPEATED: Final = 3
"""How often a model may propose the same after it was refused."""
_STOPPED: Final = f"{STOPPED}; nothing was activated"
_REPEATED: Final = (
    "given up: the model kept proposing the same, which was refused; say more exactly what it is to do"
)


@dataclass(frozen=True, slots=True)
class WritingAttempt:
    """One reply of the model.

    Attributes:
        number: from 1 on.
        version: the version that a person was shown, from 1 on; None if it could not be shown.
        problem: what was wrong with it, as the model was told; empty if it was shown.
        pending: the question about it, if it was shown.
    """

    number: int
    version: int | None
    problem: str
    pending: PendingActivation | None

    @property
    def reason(self) -> str:
        """The reason of the person who rejected it; empty if it was not, or without one."""
        return "" if self.pending is None else self.pending.rejection_reason


@dataclass(frozen=True, slots=True)
class WrittenOperation:
    """What came of having an operation written.

    Attributes:
        text: what was asked for.
        attempts: the replies of the model, in order.
        said: what the model wrote last, besides the operation.
        model: its name, as its replies have it; empty if they have none.
        tokens: of all requests, as far as the provider reported them.
        note: how it ended, in a sentence.
    """

    text: str
    attempts: tuple[WritingAttempt, ...]
    said: str
    model: str
    tokens: int
    note: str

    @property
    def pending(self) -> PendingActivation | None:
        """The question about the last version that was shown; None if none could be."""
        return next((one.pending for one in reversed(self.attempts) if one.pending is not None), None)

    @property
    def is_active(self) -> bool:
        """True if a person activated it."""
        return self.pending is not None and self.pending.status is PendingStatus.APPROVED

    @property
    def spec(self) -> OperationSpec | None:
        """The last version that was shown; None if none could be."""
        return None if self.pending is None else self.pending.spec

    def __repr__(self) -> str:
        return f"<WrittenOperation: {self.note}>"


class WritingObserver(Protocol):
    """Is told what happens while an operation is written; called in the thread that has it written."""

    def asking(self, number: int, version: int) -> None:
        """The model is asked, for the `number`th time, for this version."""
        ...

    def writing(self, characters: int) -> None:
        """So many characters of the reply have come."""
        ...

    def refused(self, attempt: WritingAttempt) -> None:
        """What it gave cannot be an operation, which it is told."""
        ...

    def shown(self, attempt: WritingAttempt) -> None:
        """A person is about to be asked about it."""
        ...

    def decided(self, attempt: WritingAttempt) -> None:
        """The person has decided."""
        ...


class _Silent:
    """Is told, and does nothing."""

    def asking(self, number: int, version: int) -> None: ...
    def writing(self, characters: int) -> None: ...
    def refused(self, attempt: WritingAttempt) -> None: ...
    def shown(self, attempt: WritingAttempt) -> None: ...
    def decided(self, attempt: WritingAttempt) -> None: ...


class _Stopped(BaseException):  # an order
    """It is to end, while a person is asked."""


def write(
    text: str,
    *,
    tries: int,
    versions: int,
    client: LLMClient,
    system_prompt: str | None,
    observer: WritingObserver | None,
    stop: StopSignal | None,
    taken: Collection[str],
    propose: Callable[[OperationSpec], PendingActivation],
    decide: Callable[[PendingActivation], object],
) -> WrittenOperation:
    """Have a model write an operation: see `Operations.write`.

    Args:
        text: see there, as for the next six.
        tries: see there.
        versions: see there.
        client: see there.
        system_prompt: see there.
        observer: see there.
        stop: see there.
        taken: the names of the operations that there are.
        propose: checks a spec, and returns the question about it.
        decide: asks a person, and returns once they have decided.
    """
    if not isinstance(text, str) or not text.strip():
        raise ContentError(
            "there is nothing to write an operation from: say what it is to do, such as "
            "'check that every citation survives'"
        )
    for name, value in (("tries", tries), ("versions", versions)):
        if type(value) is not int or not 1 <= value <= MOST:
            raise ContentError(f"{name} is a number from 1 to {MOST}, not {brief_repr(value)}")
    turn = _Writing(client, observer or _Silent(), stop or StopSignal(), tries, versions, propose, decide)
    turn.messages = [
        {"role": "system", "content": system_prompt or prompts.WRITE_OPERATION},
        {"role": "user", "content": prompts.writing_request(text.strip(), taken)},
    ]
    turn.run()
    return WrittenOperation(
        text, tuple(turn.attempts), turn.reply.text, turn.reply.model or "", turn.tokens, turn.note
    )


class _Writing:
    """The dialogue with a model that writes an operation. `note` says how it ended; empty until then."""

    def __init__(
        self,
        client: LLMClient,
        observer: WritingObserver,
        stop: StopSignal,
        tries: int,
        versions: int,
        propose: Callable[[OperationSpec], PendingActivation],
        decide: Callable[[PendingActivation], object],
    ) -> None:
        self.messages: list[dict[str, Any]] = []
        self.reply = Reply("")
        self.requests = self.tokens = 0
        self.attempts: list[WritingAttempt] = []
        self.note = ""
        self._client = client
        self._observer = observer
        self._stop = stop
        self._tries, self._versions = tries, versions
        self._left = tries
        self._version = 1
        self._refused: list[tuple[str, str]] = []
        self._propose = propose
        self._decide = decide

    def run(self) -> None:
        """Ask until an operation is active, the tries are used up, or the user stops it."""
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
        """Look at the first call of the reply, have the user decide about it, and answer each call."""
        if not self.reply.raw_calls:
            self._missed("it proposed no operation, and only wrote text")
            self.messages.append({"role": "user", "content": prompts.NO_OPERATION})
        for place, call in enumerate(self.reply.raw_calls):
            answer = prompts.ONE_OPERATION if place else self._looked_at(call)
            if answer is None:
                return
            self.messages.append({"role": "tool", "tool_call_id": call.id, "content": answer})

    # ---

    def _looked_at(self, call: RawCall) -> str | None:
        """Check what the model proposes, have a person decide, and return what the model is told."""
        try:
            pending = self._proposed(call)
        except TractError as error:
            self._missed(str(error))
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

    def _missed(self, problem: str) -> None:
        attempt = WritingAttempt(self.requests, None, problem, None)
        self.attempts.append(attempt)
        self._observer.refused(attempt)
        self._left -= 1
        if not self._left:
            often = "1 try" if self._tries == 1 else f"{self._tries} tries"
            self.note = f"given up after {often}, as no operation came of it: {problem}"

    def _is_decided(self, pending: PendingActivation) -> bool:
        """Have a person decide; False if nobody can be asked. Whoever stops it withdraws the question."""
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
            self.note = "nobody decided in time; nothing was activated"
        elif not reason:
            self.note = "rejected without a reason, so that the model was not asked again"
        elif self._version >= self._versions:
            self.note = f"given up after {counted(self._versions, 'version')} that were rejected"
        else:
            self._version += 1
            self._left = self._tries
        rehearsal = pending.rehearsal
        return prompts.rejected_operation(reason, "" if rehearsal is None else rehearsal.summary)


def _withdraw(pending: PendingActivation) -> None:
    if pending.status.is_open:
        try:
            pending.reject(STOPPED)
        except TractError:  # somebody else just decides it
            return
