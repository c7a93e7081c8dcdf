"""What happens in a run, taken as it comes, and given as the run stands."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from tract_jupyter.models import AutonomyLevel
from tract_jupyter.notebook.chat.log import TurnLog
from tract_jupyter.notebook.chat.parts import NotePart
from tract_jupyter.notebook.orchestration.page import DrawnRun
from tract_jupyter.notebook.orchestration.parts import MEANS, AssessmentPart, HeadPart, StepPart
from tract_jupyter.orchestrator import parted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tract_jupyter.loop import CallAsked, CallEnded, RequestBegan, TurnEnded
    from tract_jupyter.models import Attachment, ToolCall
    from tract_jupyter.notebook.chat.parts import CallPart
    from tract_jupyter.tract import Tract

GO_ON = "%tract_orchestrate --resume"


@dataclass(eq=False)
class OrchestrationLog(TurnLog):
    """Takes what happens in a run.

    Args:
        tract: the context that is looked after; needed.
        reason: why it was started.
        level: the level that it acts at, when it begins.
        now: gives the level that counts now; None for a run that is over.
        tokens_before: of the context before; None if it is not known.
        head: of the context before.
        branch: of the context.
        named_tract: the variable that has it.
    """

    named: ClassVar[str] = "run"

    go_on: str = GO_ON
    show_again: str = "%tract orchestrator show"
    tract: Tract | None = None
    reason: str = ""
    level: AutonomyLevel = AutonomyLevel.COLLABORATIVE
    now: Callable[[], AutonomyLevel] | None = None
    tokens_before: int | None = None
    tokens_now: int | None = None
    head: str | None = None
    branch: str = ""
    named_tract: str = "tract"

    def begin(self, text: str, attachments: Sequence[Attachment] = ()) -> None:  # noqa: ARG002 # it has none
        """Show what the model is told; and count the time from now on."""
        with self._lock:
            self._began = self.clock()
            if self._parts:
                return
            tract = self._looked_after
            of = " of ".join(filter(None, [self.branch, f"tract {tract.family.agent_id[:12]}"]))
            self._parts.append(HeadPart("head", of, self.level, self.reason))
            self._parts.append(AssessmentPart("told", text, self.source.count(text)))

    def view(self) -> DrawnRun:
        """Return the run as it stands."""
        with self._lock:
            return DrawnRun.of(
                super().view(), tokens_before=self.tokens_before, tokens_now=self.tokens_now,
                most_tokens=self._most_tokens, undo=self._undo() if self.has_ended else "",
            )  # fmt: skip

    # ---

    @property
    def _looked_after(self) -> Tract:
        if self.tract is None:
            raise TypeError("a run looks after a tract")
        return self.tract

    @property
    def _most_tokens(self) -> int | None:
        budget = self._looked_after.budget
        return None if budget is None else budget.max_tokens

    def _made(self, part_id: str, call: ToolCall) -> CallPart:
        tool = self._looked_after.executor.get(call.name)
        arguments, reasoning, alternatives = parted(tool, call.arguments)
        return StepPart(
            part_id, replace(call, arguments=arguments), reasoning=reasoning, alternatives=alternatives,
            only_reads=self._only_reads,
        )  # fmt: skip

    def _only_reads(self, name: str) -> bool:
        tool = self._looked_after.executor.get(name)
        return tool is not None and bool(tool.traits.read_only)

    def _measure(self) -> None:
        if self.now is not None:
            self.tokens_now = self._looked_after.status().token_count

    def _look_at_level(self) -> None:
        """Say it where the level is another one than before."""
        level = self.level if self.now is None else self.now()
        if level is not self.level:
            raised = level.rank > self.level.rank
            self.level = level
            title = f"Autonomy was {'raised' if raised else 'lowered'}: {level} from here on."
            self._parts.append(NotePart(f"n{len(self._parts)}", title, f"{MEANS[level].capitalize()}."))

    def _take_request(self, event: RequestBegan) -> None:
        self._look_at_level()
        super()._take_request(event)

    def _take_asked(self, event: CallAsked) -> None:
        self._look_at_level()
        super()._take_asked(event)

    def _take_answer(self, event: CallEnded) -> None:
        super()._take_answer(event)
        self._look_at_level()
        self._measure()

    def _take_end(self, event: TurnEnded) -> None:
        super()._take_end(event)
        self._measure()
        tokens = event.about.get("tokens")
        if isinstance(tokens, int):  # it is drawn from the store
            self.tokens_now = tokens

    def _undo(self) -> str:
        """Return what takes back what the run changed."""
        tract = self._looked_after
        changes = sum(isinstance(part, StepPart) and part.is_change for part in self._parts)
        is_elsewhere = self.now is None or tract.current_branch != self.branch or tract.head == self.head
        if not changes or is_elsewhere:
            return ""
        if changes == 1 or self.head is None:
            return "%tract undo --yes takes it back" if changes == 1 else ""
        return f"{self.named_tract}.reset({self.head[:8]!r}) takes them back"
