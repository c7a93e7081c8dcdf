"""A turn as it stands: its parts, and the foot that says what it is doing and what it took."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.llm import Usage, dollars
from tract_jupyter.models import TurnOutcome, counted, printable
from tract_jupyter.notebook.chat.parts import CallPart, Prose
from tract_jupyter.notebook.chat.rows import LONGEST_RESULT, tokens_text
from tract_jupyter.notebook.chat.view import Action, Foot, TurnBlock, grouped_html
from tract_jupyter.notebook.views import rows
from tract_jupyter.notebook.views.html import element, fragment, root_html
from tract_jupyter.notebook.views.rows import seconds_text
from tract_jupyter.notebook.views.styles import styled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from tract_jupyter.loop import TurnEnded
    from tract_jupyter.notebook.chat.parts import Part
    from tract_jupyter.notebook.views.html import Html, HtmlPart

STYLE: Final = "chat/chat.css"
_ALL_RESULTS: Final = 120_000  # characters of results that a saved turn keeps
_LEAST_RESULT: Final = 300
_UNTIL: Final = "chat(None)"
"""What the loop says in Python; in a cell another way goes on."""
GO_ON: Final = "%tract chat resume"
"""What goes on with a turn of chat."""
SHOW: Final = "%tract chat show"
"""What draws one again."""
STAYS: Final = "the answer from before stays; --retry asks again"
"""What is kept where a turn was asked again, and nothing came."""
_LEAST_WAIT: Final = 1.0  # seconds
_SMALLEST: Final = Decimal("0.001")


@dataclass(frozen=True)
class DrawnTurn:
    """A turn as it stands: `view.TurnView`.

    Attributes:
        turn_id: the hash of the commit with what the user said; empty until it is there.
        parts: in order.
        phase: what it is doing, in words; empty once it is over.
        waiting: how many questions are open here.
        ended: how it ended; None while it goes on.
        model: who replies.
        usages: of the replies so far.
        step: how many requests were made.
        most_steps: how many it may make; None for any number.
        seconds: since it began, or that it took; None if nobody knows.
        replayed: the cassette that it was replayed from; empty otherwise.
        is_undone: it was taken back.
        is_last: nothing was said after it.
        said: what is said besides, in the foot.
        waited: for how many of the seconds a person was waited for.
        go_on: what is typed to go on with it.
        named: what it is called.
        stays: it was asked again, and has its answer from before as long as nothing comes.
        continues: it is the first turn in this kernel, and the conversation is from before.
        asks_again: the user switched it off here that scripts run without a question.
    """

    turn_id: str = ""
    parts: tuple[Part, ...] = ()
    phase: str = ""
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

    @property
    def is_over(self) -> bool:
        """True if nothing more comes by itself."""
        return self.ended is not None

    def undone(self) -> DrawnTurn:
        """Return the turn as one that was taken back."""
        return replace(self, is_undone=True)

    def blocks(self) -> list[TurnBlock]:
        """Return the parts, in order."""
        return [block for part in self.parts for block in part.blocks(LONGEST_RESULT)]

    def foot(self) -> Foot:
        """Return the last line."""
        numbers = [text for text in self._numbers() if text]
        spans = [element("span", text) for text in numbers]
        took = element("span", spans, class_="took", title=" · ".join(numbers)) if spans else None
        return Foot(fragment(self._state_html(), took), self._actions())

    def html(self) -> Html:
        """Return static HTML that stands alone; long results are cut, the more there are."""
        calls = sum(isinstance(part, CallPart) for part in self.parts)
        limit = max(_LEAST_RESULT, min(LONGEST_RESULT - 1, _ALL_RESULTS // max(calls, 1)))
        blocks = [block for part in self.parts for block in part.blocks(limit)]
        return turn_page(blocks, self.foot(), self.turn_id, self.named.capitalize())

    def text(self) -> str:
        """Return the same as plain text."""
        parts = [part.text() for part in self.parts]
        return "\n\n".join([*filter(None, parts), self.foot_text()])

    def lines(self) -> Iterator[tuple[str, str, bool]]:
        """Yield what a terminal prints: the id of each part, its text so far, and whether that is all of it."""
        for part in self.parts:
            if isinstance(part, Prose):
                yield part.id, printable(part.source.lstrip()), not part.is_growing
            elif isinstance(part, CallPart):
                yield part.id, part.text() if part.ended is not None else "", part.ended is not None
            else:
                yield part.id, part.text(), True

    def foot_text(self) -> str:
        """Return the last line as text."""
        icon, title, more = self._state()
        state = " ".join(filter(None, [title, more]))
        mark = {"i-stop": "■ ", "i-no": "✗ "}.get(icon, "")
        return printable("  ".join(filter(None, [f"{mark}{state}" if state else "", *self._numbers()])))

    def _actions(self) -> tuple[Action, ...]:
        if self.ended is None:
            return ("stop", *self._new())
        if self.is_undone or not self.turn_id:
            return ()
        return ("undo", "fork", *self._new(), *self._ask()) if self.is_last else ("fork", *self._ask())

    def _new(self) -> tuple[Action, ...]:
        return ("new",) if self.continues else ()

    def _ask(self) -> tuple[Action, ...]:
        is_unasked = any(isinstance(part, CallPart) and part.is_unasked for part in self.parts)
        return ("ask",) if is_unasked and not self.asks_again else ()

    def _state_html(self) -> HtmlPart:
        if self.waiting and self.ended is None:
            waits = f"Waiting for you: {counted(self.waiting, 'question')}"
            return element("span", rows.icon("wait"), waits, class_="pill")
        icon, title, more = self._state()
        if not title:
            return None
        about = element("span", more, class_="wide-only") if more else None
        return element("span", element("i", class_=f"i {icon}"), element("b", title)), about

    def _state(self) -> tuple[str, str, str]:
        """Return the icon, what the turn is doing or how it ended, and what that means."""
        if self.is_undone:
            return "i-back", "Undone", "%tract undo --yes brings it back"
        ended = self.ended
        if ended is None:
            if self.waiting:
                return "i-wait", f"Waiting for you: {counted(self.waiting, 'question')}", ""
            is_in_row = any(isinstance(part, CallPart) and part.state == "running" for part in self.parts)
            return "i-run", "" if is_in_row else self.phase, ""
        if ended.outcome is TurnOutcome.ANSWER:
            return (
                ("i-tape", f"Replayed from {self.replayed}", "")
                if self.replayed
                else ("", "", self.told(ended.note))
            )
        icon, title, more = _ENDINGS.get(ended.outcome, _left)(ended, self)
        return icon, title, STAYS if self.stays and more else more

    def told(self, note: str) -> str:
        """Return what the loop says in Python, as it is said in a cell."""
        return note.replace(_UNTIL, self.go_on)

    def _numbers(self) -> list[str]:
        """Return who replied, and what it took. If the page is narrow, the last ones are hidden first."""
        usages = [Usage.of({"usage": dict(usage)}) for usage in self.usages]
        taken, cached = _sum(one.input_tokens for one in usages), _sum(one.cached_tokens for one in usages)
        made = _sum(one.output_tokens for one in usages)
        tokens = f"{tokens_text(taken)} in" if taken is not None else ""
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
            "" if made is None else f"{f'{made:,}' if tokens else tokens_text(made)} out",
            f"≈{counted(estimated, 'token')} estimated" if estimated else "",
        ]

    def _time(self) -> str:
        """Return how long the turn was at work, and for how long it waited for a person."""
        if self.seconds is None:
            return ""
        if (
            not _LEAST_WAIT <= self.waited <= self.seconds
        ):  # longer: it was asked before the turn was gone on with
            return seconds_text(self.seconds)
        if self.waiting and self.ended is None:  # the request counts that time
            return seconds_text(self.seconds - self.waited)
        return f"{seconds_text(self.seconds - self.waited)}, and {seconds_text(self.waited)} waiting for you"

    def _cost(self) -> str:
        """Return what the requests cost; that nobody knows it, if there is one of which that is so."""
        if not any(self.usages):
            return ""
        each = [
            dollars(one.get("cost"))
            for usage in self.usages
            for one in (usage, *usage.get("failed_tries", ()))
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
    """Return blocks and a foot as static HTML that stands alone."""
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
    return styled(page, STYLE)


def _money(usd: Decimal) -> str:
    if 0 < usd < _SMALLEST:
        return "less than $0.001"
    return f"${usd:.3f}" if usd < 1 else f"${usd:,.2f}"


def _sum(numbers: Iterable[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


def _stopped(ended: TurnEnded, turn: DrawnTurn) -> tuple[str, str, str]:
    has_cut = any(isinstance(part, Prose) and part.is_cut for part in turn.parts)
    kept = "what had come is kept, and not sent again; " if has_cut else ""
    title = "Paused" if ended.note.startswith("paused") else f"You stopped this {turn.named}"
    return "i-stop", title, f"{kept}{turn.go_on} goes on"


def _limited(ended: TurnEnded, turn: DrawnTurn) -> tuple[str, str, str]:
    return "i-stop", "Ended by a limit", turn.told(ended.note)


def _refused(ended: TurnEnded, turn: DrawnTurn) -> tuple[str, str, str]:
    return "i-no", "Refused", turn.told(ended.note)


def _repeated(ended: TurnEnded, turn: DrawnTurn) -> tuple[str, str, str]:
    return "i-stop", "Ended: the model repeated itself", turn.told(ended.note)


def _waits(ended: TurnEnded, turn: DrawnTurn) -> tuple[str, str, str]:
    return "i-wait", "Waits for decisions", turn.told(ended.note)


def _failed(ended: TurnEnded, turn: DrawnTurn) -> tuple[str, str, str]:  # noqa: ARG001 # a note above says why
    return "i-no", "Failed", ""


def _left(ended: TurnEnded, turn: DrawnTurn) -> tuple[str, str, str]:  # noqa: ARG001 # the same for each
    return "i-stop", "Was left before its end", f"{turn.go_on} goes on"


_ENDINGS: Final[dict[TurnOutcome | None, Callable[[TurnEnded, DrawnTurn], tuple[str, str, str]]]] = {
    TurnOutcome.STOPPED: _stopped,
    TurnOutcome.LIMIT: _limited,
    TurnOutcome.REPEAT: _repeated,
    TurnOutcome.REFUSED: _refused,
    TurnOutcome.WAITING: _waits,
    TurnOutcome.ERROR: _failed,
}
