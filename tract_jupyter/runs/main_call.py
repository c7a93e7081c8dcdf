"""The main call of a run. It is made once, and its reply is stored together with its commit."""

from __future__ import annotations

from asyncio import CancelledError
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from threading import TIMEOUT_MAX, Timer
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from tract_jupyter.concurrency import StopSignal, stopped_by
from tract_jupyter.exceptions import (
    CommitNotFoundError,
    LLMError,
    RejectedError,
    StoreCorruptError,
    StoreError,
    TractError,
    UndecidedError,
)
from tract_jupyter.runs.activation import Counters
from tract_jupyter.runs.events import MainFinished
from tract_jupyter.runs.model import MainReply, ResultError
from tract_jupyter.runs.reading import message_of
from tract_jupyter.runs.terms import ErrorCode, RunPhase

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tract_jupyter.context import Repository, VersionedContext
    from tract_jupyter.loop import Generation, ReplyRequest
    from tract_jupyter.models import CommitInfo, CompiledContext, Delta
    from tract_jupyter.runs.events import RunStarted
    from tract_jupyter.runs.log import RunLog
    from tract_jupyter.runs.store import SqlCommitLog, TurnStates
    from tract_jupyter.runs.turn import Turn


_MAIN: Final = RunPhase.MAIN_LLM
"""The key of the reply among the commit reports."""

INTERRUPTS: Final = (KeyboardInterrupt, CancelledError)
"""The exceptions of the stop button. A cell with an `await` gets the latter."""


@dataclass
class MainCall:
    """The main call of one run: the request, its exception, and the event and the commit of its reply.

    Attributes:
        context_at: the branch and its context at the start of the run, in the process that began it.
    """

    request: ReplyRequest
    context_at: tuple[str, CompiledContext] | None = None
    raised: BaseException | None = None
    finished: MainFinished | None = None
    reply: CommitInfo | None = None


class MainCaller:
    """Makes the main calls of the runs of a tract.

    Args:
        tract: the context of the conversation.
        repository: its history.
        generation: sends the requests.
        reports: the commits of runs, including replies.
        artifacts: the values that operations keep between turns.
    """

    def __init__(
        self,
        tract: VersionedContext,
        repository: Repository,
        generation: Generation,
        reports: SqlCommitLog,
        artifacts: TurnStates,
    ) -> None:
        self._tract = tract
        self._repository = repository
        self._generation = generation
        self._reports = reports
        self._artifacts = artifacts

    def make(
        self,
        turn: Turn,
        snapshot: RunStarted,
        log: RunLog,
        call: MainCall,
        abort: StopSignal,
        now: Callable[[], float],
        *,
        is_new: bool,
    ) -> MainFinished:
        """Send the prompt to the model, and commit the reply. This happens once, even if the run is interrupted.

        Args:
            turn: the turn after the operations of the first hook.
            snapshot: the start of the run.
            log: the log of the run.
            call: the request; its outcome is added to it.
            abort: the signal of the run, with its deadline.
            now: the clock of the deadline.
            is_new: False if the run is resumed.
        """
        ended = None if is_new else self.find(log.run_id)
        if ended is None:
            with stopped_by(abort), nullcontext() if abort.deadline is None else _in_time(abort, now):
                outcome = self._request(turn, snapshot, log, call)
            # a committed reply counts, also if an exception came after the commit
            ended = call.finished or self.find(log.run_id)
            if ended is None:
                ended = _aborted(outcome.reply.text) if abort.is_set() else outcome
        if isinstance(call.raised, INTERRUPTS):
            abort.set()
        log.add(ended)  # stored before the next wait; until then the commit has the same facts
        return ended

    def is_answered(self, run_id: str) -> bool:
        """Return True if a run has committed its reply."""
        return self._reports.find(run_id, _MAIN) is not None

    def _remember(self, snapshot: RunStarted, turn: Turn) -> None:
        """Store the artifacts of the turn with the reply: a turn without a reply changes none."""
        changed = [one for tag, one in turn.artifacts.persisted.items() if one != snapshot.artifacts.get(tag)]
        counters = {name: Counters(*count) for name, count in snapshot.counters.items()}
        self._artifacts.remember(snapshot.session_key, changed, snapshot.profile_id or "", counters)

    def _restore_original(self, snapshot: RunStarted, turn: Turn) -> None:
        """Restore the version of the user's message that the model received."""
        if snapshot.turn_id is None or turn.user_part != snapshot.user_commit:
            return
        head = self._repository.writer.position.commit_hash
        if head == snapshot.turn_id:
            return
        tract, history = self._tract, self._repository.history
        if not history.is_edited(snapshot.turn_id, head):
            return
        newest = history.versions(snapshot.turn_id)[-1]
        if newest.metadata.get("run_id") and newest.commit_hash != turn.user_part:
            content = tract.get_content(newest.commit_hash)
            if content["text"] != turn.user_text:
                tract.commit(
                    {**content, "text": turn.user_text}, operation="edit", edit_target=snapshot.turn_id
                )

    def find(self, run_id: str) -> MainFinished | None:
        """Return the event of the reply that a run has committed, if any.

        Raises:
            StoreCorruptError: the event is damaged, or its commit is missing.
        """
        stored = self._reports.find(run_id, _MAIN)
        if stored is None:
            return None
        try:
            ended = MainFinished.from_dict(stored)
            self._tract.get_commit(ended.reply_commit or "")
        except (ValidationError, CommitNotFoundError):
            raise StoreCorruptError(
                f"The reply of run {run_id} is damaged in the store, or its commit is missing. "
                "Nothing was requested or committed. Restore a backup, or call generate() again."
            ) from None
        return ended

    def _request(self, turn: Turn, snapshot: RunStarted, log: RunLog, call: MainCall) -> MainFinished:
        """Send the request, and store the reply with its commit. Return its event, or the event of the failure."""
        pieces: list[str] = []

        def collect(delta: Delta) -> None:
            if delta.kind == "text":
                pieces.append(delta.text)

        def keep(fields: dict[str, Any]) -> Any:
            with self._repository.writer.batch() as connection:
                call.finished = None
                self._restore_original(snapshot, turn)
                response = self._generation.commit_in_batch(fields)
                reply = MainReply(text=response.text, usage=response.usage)
                ended = MainFinished(reply=reply, reply_commit=response.commit_info.commit_hash)
                self._remember(snapshot, turn)
                self._reports.add(connection, log.run_id, _MAIN, ended.form())
            call.finished, call.reply = ended, response.commit_info
            return response

        known = self._repository.writer.known
        if known is None or known.commit_hash != snapshot.base_commit:
            call.context_at = None  # it may be outdated
        try:
            self._generation.carry_out(
                call.request, keep=keep, prompt=turn.prompt.provider_messages(), replaces=snapshot.replaces,
                on_delta=collect, context_at=call.context_at, before=log.store,
            )  # fmt: skip
        except StoreError as error:
            if not log.is_stored:  # nothing was requested, and the run can be resumed
                raise
            call.raised = error
            return _failed(error, "".join(pieces))
        except INTERRUPTS as error:
            call.raised = error
            return _aborted("".join(pieces))
        except Exception as error:  # noqa: BLE001 # a client may raise anything
            call.raised = error
            return _failed(error, "".join(pieces))
        return call.finished or _failed(
            RejectedError("The reply was not committed because it was not approved.")
        )


@contextmanager
def _in_time(abort: StopSignal, now: Callable[[], float]) -> Iterator[None]:
    """Abort the run at its deadline while it waits for a reply."""
    left = min(max((abort.deadline or 0) - now(), 0), TIMEOUT_MAX)
    timer = Timer(left, abort.set)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _aborted(text: str) -> MainFinished:
    return MainFinished(reply=MainReply(text=text, finish_reason="user_abort"))


def _failed(error: Exception, text: str = "") -> MainFinished:
    code = _code(error)
    failed = ResultError(code=code, message=message_of(error))
    return MainFinished(reply=MainReply(text=text, finish_reason=code, error=failed))


def _code(error: Exception) -> str:
    code = getattr(error, "code", None)
    if isinstance(error, LLMError) and isinstance(code, str):
        return code
    if isinstance(error, RejectedError | UndecidedError):
        return ErrorCode.POLICY
    return ErrorCode.OPERATION if isinstance(error, TractError) else ErrorCode.PROVIDER
