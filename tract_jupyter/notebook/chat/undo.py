"""The plan of the undo of a turn, in the turn itself and below `%tract chat undo`, with its buttons."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from tract_jupyter.exceptions import CommitNotFoundError, OperationError
from tract_jupyter.models import exact_time, one_line, printable, size_text
from tract_jupyter.notebook.chat.turn import STYLES
from tract_jupyter.notebook.chat.view import Foot, TurnBlock
from tract_jupyter.notebook.panels import differences_html
from tract_jupyter.notebook.views import rows
from tract_jupyter.notebook.views.html import View, ago, element, fragment, root_html
from tract_jupyter.notebook.views.styles import styled

if TYPE_CHECKING:
    from collections.abc import Callable

    from tract_jupyter.loop import TurnItem, TurnUndo
    from tract_jupyter.notebook.chat.view import Action
    from tract_jupyter.notebook.session import NotebookSession
    from tract_jupyter.notebook.views.html import Html
    from tract_jupyter.tract import Tract

_MARKS: Final = {"restorable": "↶", "changed since": "!", "impossible": "×", "failed": "×"}
_LOOKS: Final = {"restorable": "ok", "changed since": "wait", "impossible": "no", "failed": "no"}
_NAMED_ONLY: Final = "A script ran in the kernel, so only variables and files that its code names were saved."
_CANCELLED: Final = "Nothing has changed."
_DETAIL: Final = 300
_NAME: Final = 80


@dataclass(frozen=True)
class UndoCard:
    """The plan or the result of the undo or redo of a turn.

    Attributes:
        plan: the items.
        forced: the places of items that are restored although they changed since.
        is_cancelled: the user chose to change nothing.
    """

    plan: TurnUndo
    forced: frozenset[int] = frozenset()
    is_cancelled: bool = False

    @property
    def force(self) -> list[tuple[str, str]]:
        """The keys of the forced items."""
        return [self.plan.items[at].key for at in sorted(self.forced)]

    @property
    def title(self) -> str:
        """The title, with the beginning of the message."""
        return f"{self.plan.verb} “{printable(self.plan.text)}”"

    @property
    def actions(self) -> tuple[Action, ...]:
        """The buttons: for the items that changed since, and for all."""
        if self.is_cancelled:
            return ()
        if self.plan.is_done:
            return ("undo_again",) if self.plan.items_in("failed") and not self.plan.is_redo else ()
        items = tuple(
            f"{'keep' if at in self.forced else 'force'}:{at}"
            for at, item in enumerate(self.plan.items)
            if item.state == "changed since"
        )
        if self.plan.is_redo:
            return (*items, "redo_all", "cancel")
        has_conversation = any(
            item.kind == "conversation" and item.state == "restorable" for item in self.plan.items
        )
        return (*items, "undo_all", *(("undo_chat",) if has_conversation else ()), "cancel")

    def after(self, action: Action) -> UndoCard:
        """Return the card after a choice about one item."""
        kind, _, at = action.partition(":")
        chosen = frozenset({int(at)})
        return replace(self, forced=self.forced | chosen if kind == "force" else self.forced - chosen)

    def html(self) -> Html:
        """Return the card as HTML, with places for its buttons."""
        plan = self.plan
        lines = (
            [rows.dim(_CANCELLED)]
            if self.is_cancelled
            else [self._line(at, item) for at, item in enumerate(plan.items)]
        )
        when = element("span", ago(plan.at, datetime.now(UTC)), class_="cut dim", title=exact_time(plan.at))
        head = element("div", rows.icon("back"), element("b", self.title), when, class_="what")
        slots = " ".join(action for action in self.actions if ":" not in action)
        buttons = element("div", class_="do", data_slot=slots) if slots else None
        notes = [rows.dim(note) for note in self._notes]
        is_over = plan.is_done or self.is_cancelled
        return element("div", head, lines, notes, buttons, class_=("undo-card", "over" if is_over else ""))

    def _line(self, at: int, item: TurnItem) -> Html:
        is_forced = at in self.forced
        look = "ok" if is_forced else _LOOKS[item.state]
        slot = f"force:{at} keep:{at}" if item.state == "changed since" and not self.plan.is_done else None
        return element(
            "div",
            element(
                "span", "↶" if is_forced else _MARKS[item.state], class_=("mark", look), aria_hidden="true"
            ),
            element("code", one_line(printable(item.name), _NAME)),
            element("span", self._detail(at, item)),
            element("span", data_slot=slot),
            None if self.plan.is_done else differences_html(item.differences),
            class_="undo-line",
        )

    def _detail(self, at: int, item: TurnItem) -> str:
        detail = one_line(printable(item.detail), _DETAIL)
        if at in self.forced:
            return f"{detail}; it is restored anyway"
        is_left = item.state == "changed since" and item.kind != "conversation"
        return f"{detail}; it stays as it is" if is_left else detail

    @property
    def _notes(self) -> list[str]:
        plan = self.plan
        if plan.is_done or self.is_cancelled:
            return []
        used, budget = size_text(plan.memory_used), size_text(plan.memory_budget)
        memory = (
            f"Earlier values of variables use {used} of {budget} of memory (tract.effects.memory_budget)."
        )
        return [*([] if plan.is_exact else [_NAMED_ONLY]), *([memory] if plan.memory_used else [])]

    def text(self, again: str = "") -> str:
        """Return the card as text. `again` is the command that shows it."""
        if self.is_cancelled:
            return f"{self.title}\n{_CANCELLED}"
        lines = [
            f"{_MARKS[item.state]} {printable(item.name)}  {self._detail(at, item)}".rstrip()
            for at, item in enumerate(self.plan.items)
        ]
        options = self._options(again) if again and not self.plan.is_done else []
        return "\n".join(filter(None, [self.title, *lines, *self._notes, *options]))

    def _options(self, again: str) -> list[str]:
        options = [f"Nothing has changed yet: {again} --yes does all of this."]
        if "undo_chat" in self.actions:
            options.append(f"{again} --conversation removes only the messages.")
        if self.plan.items_in("changed since"):
            options.append(f"{again} --yes --force NAME also restores an item that changed since.")
        return options


@dataclass(frozen=True)
class UndoPage(View):
    """The card as a separate output."""

    card: UndoCard
    again: str
    go_on: str = "%tract chat undo"
    is_over: bool = True

    @property
    def turn_id(self) -> str:
        """The name of this output for its buttons.

        Empty if it has none: with a name, it would get the buttons of a later list of the same turn.
        """
        return f"{self.card.plan.verb}:{self.card.plan.question}" if self.card.actions else ""

    def blocks(self) -> list[TurnBlock]:
        """Return the card."""
        return [TurnBlock("undo", self.card.html())]

    def foot(self) -> Foot:
        """Return the buttons."""
        return Foot(fragment(), self.card.actions)

    def to_html(self) -> Html:
        """Return self-contained static HTML."""
        foot = element("div", element("span", class_="end"), class_="foot")
        page = root_html(
            self.card.html(), foot, look="tract turn", role="group", data_turn=self.turn_id or None
        )
        return styled(page, *STYLES)

    def to_text(self) -> str:
        """Return the card as text."""
        return self.card.text(self.again)


def plan_undo(tract: Tract, turn_id: str, *, redo: bool = False) -> UndoCard:
    """Return the plan of the undo of a turn."""
    plan = tract.preview_undo(turn_id, redo=redo)
    if not any(item.state != "impossible" for item in plan.items):
        raise OperationError(_why_nothing(plan))
    return UndoCard(plan)


def _why_nothing(plan: TurnUndo) -> str:
    if not plan.items:
        return "the turn is undone already, so there is nothing left to undo"
    if plan.items[0].kind == "conversation":
        return f"the turn cannot be undone: {plan.items[0].detail}"
    return f"nothing of the turn can be undone. {plan}"


def carry_out(tract: Tract, card: UndoCard, action: Action) -> UndoCard:
    """Undo or redo a turn as a button says, and return the result."""
    question = card.plan.question
    if card.plan.is_redo:
        return UndoCard(tract.redo(question))
    return UndoCard(tract.undo(question, force=card.force, only_conversation=action == "undo_chat"))


def last_undone(tract: Tract) -> str:
    """Return the turn that was undone last at this position of the branch; empty if there is none."""
    for turn in reversed(tract.effects.undone()):
        with suppress(CommitNotFoundError):  # gc removed it
            if (
                turn.branch == tract.current_branch
                and tract.get_commit(turn.question).parent_hash == tract.head
            ):
                return turn.question
    return ""


def undo_conversation(tract: Tract, turn_id: str) -> None:
    """Remove the messages of the last turn, and leave its effects."""
    done = tract.undo(turn_id, only_conversation=True)
    if not done.items_in("restorable"):
        raise OperationError(_why_nothing(done))


def show_card(notebook: NotebookSession, card: UndoCard, again: str) -> UndoPage | None:
    """Show a card with buttons on a live page. Elsewhere, return its static page."""
    page = UndoPage(card, again)
    if not (notebook.front_end.has_kernel and notebook.front_end.can_click):
        return page
    from tract_jupyter.notebook.chat.widget import LiveTurn

    acts = _CardActions(notebook, page)
    live = LiveTurn(acts, _soon(notebook), (again, again))
    live.put_up()
    live.close(page)
    return None


def _soon(notebook: NotebookSession) -> Callable[..., None]:
    channel = notebook.tract.reviewer.channel
    soon: Callable[..., None] = channel.soon  # type: ignore[attr-defined] # a notebook's
    return soon


@dataclass(eq=False)
class _CardActions:
    """The buttons of a card below `%tract chat undo`. Runs in the main thread of the kernel."""

    notebook: NotebookSession
    page: UndoPage

    def __call__(self, action: Action) -> UndoPage:
        """Perform the action of a button."""
        card = self.page.card
        if ":" in action:
            card = card.after(action)
        elif action == "cancel":
            card = replace(card, is_cancelled=True)
        else:
            card = carry_out(self.notebook.tract, card, action)
            self.notebook.turns.refresh()
        self.page = replace(self.page, card=card)
        return self.page
