"""A turn of a model that acts: the loop executes the calls of each reply, until a reply has none.

Each reply is committed before its calls run, and each answer as soon as it arrives. The loop itself is
`StoredTurn.run` in `turn`.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import ContentError, UndecidedError
from tract_jupyter.llm import ReadableClient
from tract_jupyter.loop.answers import CallAnswer, shown_answer, size_for, with_images
from tract_jupyter.loop.calls import StepCalls
from tract_jupyter.loop.offered import OFFERED
from tract_jupyter.loop.turn import ACTS, RESUME_LIMITED, StoredTurn, TurnEnding
from tract_jupyter.models import TurnOutcome
from tract_jupyter.prompts import FAILED, REPEATED, REPEATED_AGAIN, WATCHED
from tract_jupyter.review.builtin import answer_fields

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tract_jupyter.context import Repository
    from tract_jupyter.loop.answers import ImageBudget
    from tract_jupyter.loop.calls import AfterStep, CallDependencies
    from tract_jupyter.loop.journal import CallJournal, KnownCall
    from tract_jupyter.models import CommitInfo, LLMClient, ToolCall
    from tract_jupyter.review import Firing
    from tract_jupyter.review.builtin import ToolResults

CALLS = "calls"
"""Metadata key of an answer: its number of calls, if that is not one. A script's calls count."""
_LIMIT_EVENT = "turn.limit"
_REPETITION = (
    "stopped because the model repeated the same calls with the same outcome; send other instructions, or continue "
    "with chat(None)"
)
_WAITING = (
    "calls wait for your decision: '%tract inbox' shows them, and chat(None) continues after the decisions"
)


_LONGEST_PATTERN: Final = 8


class RepetitionGuard:
    """Detects a third repetition of the same calls, after the same outcomes twice.

    The repeated pattern may have one to eight steps.
    """

    def __init__(self) -> None:
        self._steps: list[tuple[tuple[str, ...], tuple[str, ...]]] = []

    def expected_outcomes(self, keys: Sequence[str]) -> tuple[str, ...] | None:
        """Return the outcomes that these calls had both times before; None if the calls are no repetition."""
        steps, wanted = self._steps, tuple(sorted(keys))
        for period in range(1, _LONGEST_PATTERN + 1):
            last, before = steps[-period:], steps[-2 * period : -period]
            if len(before) == period and last == before and last[0][0] == wanted:
                return last[0][1]
        return None

    def note(self, keys: Sequence[str], outcomes: Sequence[str]) -> None:
        """Record a step, with the outcome of each of its calls."""
        pairs = sorted(zip(keys, outcomes, strict=True))
        self._add(tuple(key for key, _ in pairs), tuple(outcome for _, outcome in pairs))

    def note_repetition(self, keys: Sequence[str], outcomes: tuple[str, ...]) -> None:
        """Record a step that was refused as a repetition, with its expected outcomes."""
        self._add(tuple(sorted(keys)), outcomes)

    def _add(self, keys: tuple[str, ...], outcomes: tuple[str, ...]) -> None:
        self._steps.append((keys, outcomes))
        del self._steps[: -2 * _LONGEST_PATTERN]


@dataclass(frozen=True, kw_only=True)
class AnswerStore:
    """Stores the answers of calls: in the history, and in the journal until they are committed."""

    repository: Repository
    firing: Firing
    results: ToolResults
    journal: CallJournal

    def under_way(self) -> Iterator[CommitInfo]:
        """Yield the replies and answers of the unfinished turn at the end of the context, newest first.

        If a limit ended a turn, the turn that resumes it starts a new count.
        """
        here = self.repository.refs.position.commit_hash
        messages = () if here is None else self.repository.compiler.of(here).messages
        if not messages or messages[-1].role == "user":
            return
        with self.repository.database.read() as connection:
            ended = self.repository.events.newest(connection, _LIMIT_EVENT, 1)
        limited = {event.data["commit"] for event in ended}
        answers: list[CommitInfo] = []
        for message in reversed(messages):
            if message.role == "user" or message.commit_hash is None or message.commit_hash in limited:
                return
            info = self.repository.commits.get(message.commit_hash)
            if message.role == "tool":
                answers.append(info)
            elif message.role == "assistant":
                if ACTS not in info.metadata or not message.tool_calls:
                    return
                yield from [*answers, info]
                answers.clear()

    def note_limit(self) -> None:
        """Record that a limit ended the turn at this commit."""
        here = self.repository.refs.position.commit_hash
        with self.repository.database.write() as connection:
            self.repository.events.append(connection, _LIMIT_EVENT, "user", {"commit": here})

    def answer(
        self, answers: Iterable[tuple[ToolCall, CallAnswer]], size: int, over: str = ""
    ) -> list[CommitInfo]:
        """Commit answers, in one transaction unless a handler decides about them first.

        Args:
            answers: pairs of a call and its answer.
            size: the number of characters of each answer that the model sees.
            over: the message that has all its answers now, so the journal forgets its calls; empty if some are open.
        """
        is_watched = self.firing.bus.listens("tool_result")
        commits: list[CommitInfo] = []
        with nullcontext() if is_watched else self.repository.writer.batch():
            for call, full in answers:
                answer = with_images(full, (), WATCHED) if is_watched else full
                shown = shown_answer(answer, call.id, size)
                metadata: dict[str, Any] = {} if shown.whole is None else {"original_content": shown.whole}
                if answer.made != 1:
                    metadata[CALLS] = answer.made
                fields = answer_fields(
                    call.id, call.name, shown.text, is_error=shown.is_error, metadata=metadata
                )
                if answer.images:
                    fields["options"]["attachments"] = answer.images
                commits.append(self.results.commit(fields))
            if over:
                self.journal.forget(over)
        return commits


@dataclass(eq=False, kw_only=True)
class ActingTurn(StoredTurn):
    """One turn of a model whose calls the loop executes.

    Args:
        dependencies: the dependencies of the calls.
        answers: stores their answers.
        sizes: the number of characters that the model sees of one answer, and of all answers of a step.
        images: the images that the answers of the turn may send.
        after_step: gets the calls of each finished step. If it returns a text, the turn ends with this reason.
    """

    dependencies: CallDependencies
    answers: AnswerStore
    sizes: tuple[int, int]
    images: ImageBudget
    after_step: AfterStep | None = None
    _step: StepCalls | None = None
    _guard: RepetitionGuard = field(default_factory=RepetitionGuard)
    _was_refused: bool = False
    """True if the last step was refused as a repetition."""
    _known: Mapping[str, KnownCall] = field(default_factory=dict)
    _is_signed: bool = True

    def _run_steps(self) -> TurnEnding:
        if not self.meter.is_of_agent:
            self._count_earlier_use()
        ending = super()._run_steps()
        if ending.outcome is TurnOutcome.LIMIT:
            self._note_limit()
        return ending

    def _note_limit(self) -> None:
        self.answers.note_limit()

    def _count_earlier_use(self) -> None:
        """Count the use of this turn before a crash, Stop or a wait for a decision."""
        for info in self.answers.under_way():
            if info.content_type == "tool_io":
                self.meter.add_calls(info.metadata.get(CALLS, 1))
                continue
            usage = info.metadata.get("usage")
            model = str(info.generation_config.get("model") or "")
            self.meter.add_request(
                model, usage, info.token_count, retries=info.metadata.get("retry_count", 0)
            )

    # --- the steps of `StoredTurn._run_steps`

    def _unanswered_calls(self) -> Sequence[ToolCall]:
        self._last_message, calls = self.store.open_step()
        if self._last_message is not None and calls:
            journal, commit = self.answers.journal, self._last_message.commit_hash
            self._known, self._is_signed = journal.of(commit), journal.is_signed(commit, calls)
        return calls

    def _ask(self) -> Sequence[ToolCall]:
        toolset = self.dependencies.toolset
        request = self.request
        acts = {ACTS: toolset.actor, OFFERED: toolset.profile.name}
        self._known, self._is_signed = {}, True
        response = self._make_request(
            replace(
                request, options={**request.options, "tools": self.dependencies.offered.schemas},
                metadata={**(request.metadata or {}), **acts}, through=self._readable, on_delta=self._on_delta,
            )
        )  # fmt: skip
        return response.tool_calls

    def _carry_out(self, calls: Sequence[ToolCall]) -> TurnEnding | None:
        """Execute the calls of a step and commit their answers. Refuse a step that only repeats earlier ones.

        Returns:
            The end of the turn if calls wait for the user, a limit was reached or the model repeats itself; else None.
        """
        toolset = self.dependencies.toolset
        keys = [toolset.key_of(call.name, call.arguments) for call in calls]
        expected = self._guard.expected_outcomes(keys)
        if expected is None:
            self._was_refused = False
            return self._execute_step(calls, keys)
        self._refuse(calls, REPEATED_AGAIN if self._was_refused else REPEATED)
        if self._was_refused:
            return TurnEnding(TurnOutcome.REPEAT, _REPETITION)
        self._guard.note_repetition(keys, expected)
        self._was_refused = True
        return None

    def _execute_step(self, calls: Sequence[ToolCall], keys: Sequence[str]) -> TurnEnding | None:
        """Execute the calls of a step. The result is as for `_carry_out`."""
        if self._last_message is None:
            raise ContentError("There is no message with calls to execute.")
        commit = self._last_message.commit_hash
        model = str(self._last_message.generation_config.get("model") or "")
        self._step = step = StepCalls(commit, calls, self._known, self.dependencies, self._is_signed, model)
        size = size_for(len(calls), *self.sizes)
        outcomes: dict[str, str] = {}
        try:
            for answers in step.answers():
                self._answer(answers, size, commit if step.is_over else "")
                outcomes |= {call.id: answer.outcome for call, answer in answers}
        except UndecidedError:  # a handler of an answer left it open
            return TurnEnding(TurnOutcome.WAITING, _WAITING)
        if self.observer is not None:
            self.observer.step_over(commit)
        if step.waits:
            return TurnEnding(TurnOutcome.WAITING, _WAITING)
        self._guard.note(keys, [outcomes[call.id] for call in calls])
        why = "" if self.after_step is None else self.after_step([step.ended_call(call) for call in calls])
        if step.limit:
            return TurnEnding(TurnOutcome.LIMIT, f"{step.limit}; {RESUME_LIMITED}")
        return TurnEnding(TurnOutcome.REPEAT, why) if why else None

    def _refuse(self, calls: Sequence[ToolCall], why: str) -> None:
        """Commit `why` as the answer of each call."""
        refusal = CallAnswer(why, is_error=True, made=0)
        over = "" if self._last_message is None else self._last_message.commit_hash
        self._answer([(call, refusal) for call in calls], len(why), over)

    def _answer(self, answers: Sequence[tuple[ToolCall, CallAnswer]], size: int, over: str) -> None:
        answers = [(call, self.images.fit(answer)) for call, answer in answers]
        infos = self.answers.answer(answers, size, over)
        if self.observer is not None:
            for (call, answer), info in zip(answers, infos, strict=True):
                self.observer.answered(call.id, answer, info)

    # ---

    def _readable(self, client: LLMClient) -> LLMClient:
        return ReadableClient(self._counted(client), self.dependencies.offered.names)

    @property
    def _carries_out(self) -> bool:
        return True

    def _close(self, why: str = "") -> None:
        """Answer the open calls, and withdraw the requests about them."""
        message, calls = self.store.open_step()
        if message is None or not calls:
            return
        why = why or FAILED
        step = self._step
        if step is None or step.commit != message.commit_hash:
            known = self.answers.journal.of(message.commit_hash)
            step = StepCalls(message.commit_hash, calls, known, self.dependencies)
        closed = {call.id: answer for call, answer in step.close(why)}
        known = self.answers.journal.of(message.commit_hash)
        answers = [(call, _known(known, call) or closed[call.id]) for call in calls]
        self._answer(answers, 20_000, message.commit_hash)
        if self.observer is not None:
            self.observer.step_over(message.commit_hash)

    def _open_calls(self, ending: TurnEnding) -> tuple[ToolCall, ...]:
        if ending.outcome is not TurnOutcome.WAITING:
            return ()
        return tuple(self.store.open_step()[1])


def _known(known: Any, call: ToolCall) -> CallAnswer | None:
    entry = known.get(call.id)
    return None if entry is None else entry.answer
