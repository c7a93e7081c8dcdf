"""The state of a turn: its parts, and a footer with its progress, time and cost."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.llm import Usage, dollars
from tract_jupyter.models import TurnOutcome, counted, printable
from tract_jupyter.notebook.chat.parts import CallPart, NotePart, Prose
from tract_jupyter.notebook.chat.rows import LONGEST_RESULT, tokens_text
from tract_jupyter.notebook.chat.view import Action, Foot, TurnBlock, grouped_html
from tract_jupyter.notebook.views import rows
from tract_jupyter.notebook.views.html import View, element, fragment, root_html
from tract_jupyter.notebook.views.rows import seconds_text
from tract_jupyter.notebook.views.styles import styled

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tract_jupyter.loop import TurnEnded
    from tract_jupyter.notebook.chat.parts import Part
    from tract_jupyter.notebook.chat.undo import UndoCard
    from tract_jupyter.notebook.views.html import Html, HtmlPart

STYLES: Final = ("chat/chat.css", "panels/effects.css")
_ALL_RESULTS: Final = 120_000  # characters of results that a saved turn keeps
_LEAST_RESULT: Final = 300
_UNTIL: Final = "chat(None)"
"""The Python call that resumes a turn, in messages of the loop."""
GO_ON: Final = "%tract chat resume"
"""The command that resumes a turn."""
SHOW: Final = "%tract chat show"
"""The command that shows a turn."""
STAYS: Final = "the earlier answer stays; --retry repeats the message"
"""Note on a repeated turn without a new reply."""
WORK_STAYS: Final = "Completed work stays. "
"""Part of the note of a failed turn. A space separates it from the remedy."""
_LEAST_WAIT: Final = 1.0  # seconds
_SMALLEST: Final = Decimal("0.001")


@dataclass(frozen=True)
class DrawnTurn(View):
    """The state of a turn at one moment.

    Attributes:
        turn_id: the hash of the commit with the user's message; empty until that commit exists.
        parts: in order.
        phase: the current activity, in words.
        waiting: number of open requests.
        ended: the end of the turn; None while it runs.
        model: the model that replies.
        usages: the usage of each reply so far.
        step: number of requests to the model so far.
        most_steps: the limit of requests; None for no limit.
        seconds: time since the start, or in total; None if unknown.
        replayed: the replayed cassette; empty if none.
        is_undone: the user has undone the turn.
        is_last: no message follows.
        said: an additional note in the footer.
        waited: the part of `seconds` that the turn waited for the user.
        go_on: the command that resumes the turn.
        named: the user's word for the turn.
        stays: the message was repeated, and the earlier answer stays valid until a new one arrives.
        continues: the first turn in this kernel of an earlier conversation.
        asks_again: the user no longer lets the model look without asking.
        can_insert: the page can insert the reply as cells.
        undo_card: the plan or the result of an undo of this turn; None if the user asked for none.
    """

    turn_id: str = ""
    parts: tuple[Part, ...] = ()
    phase: str = "Asking the model"
    waiting: int = 0
    ended: TurnEnded | None = None
    model: str = ""
    usages: tuple[Mapping[str, Any], ...] = ()
    step: int = 0
    most_steps: int | None = None
    seconds: float | None = None
    replayed: str = ""
    is_undone: bool = False
    is_last: bool = True
    said: str = ""
    waited: float = 0.0
    go_on: str = GO_ON
    named: str = "turn"
    stays: bool = False
    continues: bool = False
    asks_again: bool = False
    can_insert: bool = False
    undo_card: UndoCard | None = None

    @property
    def is_over(self) -> bool:
        """True if the turn has ended."""
        return self.ended is not None

    def undone(self) -> DrawnTurn:
        """Return the turn marked as undone."""
        return replace(self, is_undone=True)

    def blocks(self) -> list[TurnBlock]:
        """Return the parts, in order."""
        return self._blocks(LONGEST_RESULT)

    def _blocks(self, limit: int) -> list[TurnBlock]:
        blocks = [block for part in self._current_parts() for block in part.blocks(limit)]
        return blocks if self.undo_card is None else [*blocks, TurnBlock("undo", self.undo_card.html())]

    def _current_parts(self) -> tuple[Part, ...]:
        """Return the parts. Nothing continues an undone turn, so its notes do not say so."""
        return tuple(
            replace(part, said=part.said.removesuffix(self.remedy).removesuffix(WORK_STAYS))
            if self.is_undone and isinstance(part, NotePart)
            else part
            for part in self.parts
        )

    @property
    def remedy(self) -> str:
        """The end of the note of a failed turn."""
        return f"{self.go_on} continues the {self.named}."

    def foot(self) -> Foot:
        """Return the footer."""
        numbers = [text for text in self._numbers() if text]
        spans = [element("span", text) for text in numbers]
        took = element("span", spans, class_="took", title=" · ".join(numbers)) if spans else None
        return Foot(fragment(self._state_html(), took), self._actions())

    def to_html(self) -> Html:
        """Return self-contained static HTML. The more results there are, the shorter each is cut."""
        calls = sum(isinstance(part, CallPart) for part in self.parts)
        limit = max(_LEAST_RESULT, min(LONGEST_RESULT - 1, _ALL_RESULTS // max(calls, 1)))
        return turn_page(self._blocks(limit), self.foot(), self.turn_id, self.named.capitalize())

    def to_text(self) -> str:
        """Return the turn as plain text."""
        parts = [part.text() for part in self._current_parts()]
        if self.undo_card is not None:
            parts.append(self.undo_card.text())
        return "\n\n".join([*filter(None, parts), self.foot_text()])

    def lines(self) -> Iterator[tuple[str, str, bool]]:
        """Yield the id, the text so far and the completeness of each part, for a terminal."""
        for part in self.parts:
            if isinstance(part, Prose):
                yield part.id, printable(part.source.lstrip()), not part.is_growing
            elif isinstance(part, CallPart):
                yield part.id, part.text() if part.ended is not None else "", part.ended is not None
            else:
                yield part.id, part.text(), True

    def foot_text(self) -> str:
        """Return the footer as text."""
        icon, title, more = self._state()
        state = " ".join(filter(None, [title, more]))
        mark = {"i-stop": "■ ", "i-no": "✗ "}.get(icon, "")
        return printable("  ".join(filter(None, [f"{mark}{state}" if state else "", *self._numbers()])))

    def _actions(self) -> tuple[Action, ...]:
        if self.ended is None:
            return ("stop", *self._new())
        if self.undo_card is not None and self.undo_card.actions:
            return self.undo_card.actions
        if self.is_undone or not self.turn_id:
            return ()
        if not self.is_last:
            return ("fork", *self._cells(), *self._ask())
        return ("undo", "fork", *self._cells(), *self._new(), *self._ask())

    @property
    def reply(self) -> str:
        """The text of the answer; empty without one."""
        last = self.parts[-1] if self.parts else None
        has_answer = self.ended is not None and self.ended.outcome is TurnOutcome.ANSWER
        return last.source.strip() if has_answer and isinstance(last, Prose) else ""

    def _cells(self) -> tuple[Action, ...]:
        return ("cells",) if self.can_insert and self.reply else ()

    def _new(self) -> tuple[Action, ...]:
        return ("new",) if self.continues else ()

    def _ask(self) -> tuple[Action, ...]:
        is_unasked = any(isinstance(part, CallPart) and part.is_unasked for part in self.parts)
        return ("ask",) if is_unasked and not self.asks_again else ()

    def _state_html(self) -> HtmlPart:
        if self.waiting and self.ended is None:
            waits = f"Waiting for you: {counted(self.waiting, 'request')}"
            return element("span", rows.icon("wait"), waits, class_="pill")
        icon, title, more = self._state()
        if not title:
            return None
        about = element("span", more, class_="wide-only") if more else None
        return element("span", element("i", class_=f"i {icon}"), element("b", title)), about

    def _state(self) -> tuple[str, str, str]:
        """Return the icon, the activity or outcome, and an explanation."""
        if self.is_undone:
            return "i-back", "Undone", "%tract chat redo brings it back"
        ended = self.ended
        if ended is None:
            if self.waiting:
                return "i-wait", f"Waiting for you: {counted(self.waiting, 'request')}", ""
            is_in_row = any(isinstance(part, CallPart) and part.state == "running" for part in self.parts)
            return "i-run", "" if is_in_row else self.phase, ""
        if ended.outcome is TurnOutcome.ANSWER:
            return (
                ("i-tape", f"Replayed from {self.replayed}", "")
                if self.replayed
                else ("", "", self.told(ended.note))
            )
        icon, title, more = self._ending(ended)
        return icon, title, STAYS if self.stays and more else more

    def _ending(self, ended: TurnEnded) -> tuple[str, str, str]:
        if ended.outcome is TurnOutcome.ERROR:
            return "i-no", "Failed", ""  # a note above says why
        if ended.outcome in _ENDINGS:
            return *_ENDINGS[ended.outcome], self.told(ended.note)
        if ended.outcome is not TurnOutcome.STOPPED:
            return "i-stop", "Did not finish", f"{self.go_on} continues it"
        has_cut = any(isinstance(part, Prose) and part.is_cut for part in self.parts)
        partial = "the partial reply stays here but is not sent again; " if has_cut else ""
        title = "Paused" if ended.note.startswith("paused") else f"You stopped this {self.named}"
        return "i-stop", title, f"{partial}{self.go_on} continues it"

    def told(self, note: str) -> str:
        """Return a note of the loop with the command of the cell instead of the Python call."""
        return note.replace(_UNTIL, self.go_on)

    def _numbers(self) -> list[str]:
        """Return the model, cost, time and tokens. A narrow page hides the last ones first."""
        usages = [Usage.of({"usage": dict(usage)}) for usage in self.usages]
        sent, cached = (
            _sum(use.input_tokens for use in usages),
            _sum(use.cached_tokens for use in usages),
        )
        received = _sum(use.output_tokens for use in usages)
        tokens = f"{tokens_text(sent)} in" if sent is not None else ""
        if tokens and cached:
            tokens += f", {cached:,} cached"
        estimated = sum(int(usage.get("estimated_tokens") or 0) for usage in self.usages)
        is_failed = self.ended is not None and self.ended.outcome is TurnOutcome.ERROR
        of_all = f" of {self.most_steps:,}" if self.most_steps else ""
        step = f"step {self.step:,}{of_all}" if self.ended is None and self.step > 1 else ""
        return [
            self.model,
            self.said,
            f"failed at step {self.step:,}" if is_failed and self.step > 1 else step,
            self._cost(),
            self._time(),
            tokens,
            "" if received is None else f"{f'{received:,}' if tokens else tokens_text(received)} out",
            f"≈{counted(estimated, 'token')} estimated" if estimated else "",
        ]

    def _time(self) -> str:
        """Return the working time and the time that the turn waited for the user."""
        if self.seconds is None:
            return ""
        if (
            not _LEAST_WAIT <= self.waited <= self.seconds
        ):  # longer: the request is older than the resumed turn
            return seconds_text(self.seconds)
        if self.waiting and self.ended is None:  # the request counts that time
            return seconds_text(self.seconds - self.waited)
        return f"{seconds_text(self.seconds - self.waited)}, and {seconds_text(self.waited)} waiting for you"

    def _cost(self) -> str:
        """Return the total cost, or "price unknown" if any price is unknown."""
        if not any(self.usages):
            return ""
        claims = [usage["claimed_usd"] for usage in self.usages if "claimed_usd" in usage]
        if claims:
            total = sum(filter(None, map(dollars, claims)), Decimal(0))
            return f"{_money(total)} by the agent's count" if total else ""
        each = [
            dollars(request.get("cost"))
            for usage in self.usages
            for request in (usage, *usage.get("failed_tries", ()))
        ]
        known = [usd for usd in each if usd is not None]
        if len(known) < len(each):
            return "price unknown"
        cost = sum(known, Decimal(0))
        about = "≈" if any(usage.get("cost_is_estimate") for usage in self.usages) else ""
        if self.replayed:
            return f"$0 now, {about}{_money(cost)} then"
        return f"{about}{_money(cost)}"


def turn_page(
    blocks: Iterable[TurnBlock], foot: Foot, turn_id: str, label: str, name: str | None = None
) -> Html:
    """Return blocks and a footer as self-contained static HTML."""
    end = element("div", foot.html, element("span", class_="end"), class_="foot")
    page = root_html(
        grouped_html(blocks),
        end,
        look="tract turn",
        role="group",
        aria_label=label,
        data_testid=name,
        data_turn=turn_id,
    )
    return styled(page, *STYLES)


def _money(usd: Decimal) -> str:
    if 0 < usd < _SMALLEST:
        return "less than $0.001"
    return f"${usd:.3f}" if usd < 1 else f"${usd:,.2f}"


def _sum(numbers: Iterable[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


_ENDINGS: Final = {
    TurnOutcome.LIMIT: ("i-stop", "Ended by a limit"),
    TurnOutcome.REPEAT: ("i-stop", "Ended: the model repeated itself"),
    TurnOutcome.REFUSED: ("i-no", "Refused"),
    TurnOutcome.WAITING: ("i-wait", "Waits for decisions"),
}
"""The icon and the title of endings that the note of the loop explains."""
