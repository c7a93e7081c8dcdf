"""An overview of a tract: its state, open requests, budgets, branches and operations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tract_jupyter.models import APPROXIMATE, counted, one_line, printable, show_tokens
from tract_jupyter.notebook.views import rows
from tract_jupyter.notebook.views.html import View, element, fragment, join_names, table
from tract_jupyter.notebook.views.styles import styled

if TYPE_CHECKING:
    from tract_jupyter.llm import CostReport
    from tract_jupyter.models import BranchInfo, StatusInfo
    from tract_jupyter.notebook.views.html import Html, HtmlPart
    from tract_jupyter.tract import Tract

_NAME = 60
_NAMED = 8
_LISTED = 50
_HASH = 8


@dataclass(frozen=True)
class TractView(View):
    """The overview of a tract. The texts are empty without a model or scripts."""

    status: StatusInfo
    branches: tuple[BranchInfo, ...]
    model: str
    cost: CostReport
    scripts: str = ""

    @classmethod
    def of(cls, tract: Tract) -> TractView:
        """Read the state of a tract. This changes nothing and asks no model."""
        purposes = tract.models.asked
        return cls(
            tract.status(),
            tuple(tract.list_branches()),
            "; ".join(purpose.removeprefix("In use").lstrip(": ") for purpose in purposes),
            tract.costs(),
            _scripts(tract),
        )

    def to_html(self) -> str:
        """Return the overview as self-contained HTML."""
        lines: list[HtmlPart] = [self._place(), self._waiting()]
        lines += [rows.line(rows.icon("no"), rows.cut(line)) for line in self._unapproved()]
        lines.append(self._model())
        lines += [rows.line(rows.said("Scripts"), rows.cut(self.scripts)) if self.scripts else None]
        lines += [self._operations(), self._branches()]
        label = f"tract in {self.status.location}"
        return styled(rows.page(rows.rows(lines), label=label, name="tract-overview"))

    def side_html(self, agents: str = "") -> Html:
        """Return a line for each part, for a narrow panel."""
        status, budget = self.status, self.cost.budget
        share = status.token_count / status.max_tokens if status.max_tokens else None
        spent = float(self.cost.known.usd) / budget.usd if budget is not None and budget.usd else None
        others = len(self.branches) - 1
        branch = f"{one_line(status.branch, _NAME)}{f', and {others:,} more' if others else ''}"
        return fragment(
            _fact(
                "Context",
                f"{show_tokens(status.token_count, status.token_source)} tokens",
                share,
                self._tokens,
            ),
            _fact("Cost", self._spent or "nothing yet", spent),
            _fact("Model", self._asked, title=self._asked),
            _fact("Branch", branch),
            _fact("Agents", agents) if agents else None,
        )

    def to_text(self) -> str:
        """Return a line for each part."""
        status = self.status
        lines = [f"tract in {status.location}", f"Branch {self._at}: {self._size}, {self._tokens}"]
        lines += [f"Operations: {_some(status.operations) or 'none'}"]
        if status.waiting:
            lines.append(f"Waiting for a decision: {status.waiting} (%tract inbox)")
        lines += self._unapproved()
        lines += [f"Scripts: {self.scripts}"] if self.scripts else []
        lines += [f"Model: {self._asked}"] + ([f"This session: {self._spent}"] if self._spent else [])
        others = [branch.name for branch in self.branches if not branch.is_current]
        lines += [f"Other branches: {_some(others)}"] if others else []
        return printable("\n".join(lines))

    @property
    def _at(self) -> str:
        status = self.status
        head = f" at {status.head[:_HASH]}" if status.head else ", empty"
        return f"{one_line(status.branch, _NAME)}{head}"

    @property
    def _size(self) -> str:
        status = self.status
        return f"{counted(status.commit_count, 'commit')}, {counted(status.message_count, 'message')}"

    @property
    def _tokens(self) -> str:
        status = self.status
        source = "" if status.token_source == APPROXIMATE else f" ({status.token_source})"  # ≈ says it
        return f"{status.tokens_phrase}{source}"

    @property
    def _asked(self) -> str:
        return one_line(self.model, 2 * _NAME) if self.model else "none yet: %tract model openai/gpt-6-luna"

    @property
    def _spent(self) -> str:
        """The usage of this session, with its budget; empty if there is neither."""
        cost = self.cost
        cost_text = str(cost) if cost.lines else ""
        return f"{cost_text or 'nothing'} of {cost.budget}" if cost.budget is not None else cost_text

    def _place(self) -> Html:
        status = self.status
        cells = [
            rows.said(self._at),
            rows.cut(f"{self._size}, in {status.location}"),
            rows.number(self._tokens),
        ]
        if status.max_tokens:
            share = status.token_count / status.max_tokens
            cells.append(rows.share_bar(share, f"{100 * share:.0f} % of the token budget"))
            cells.append(rows.number(f"{100 * share:.0f} %"))
        return rows.line(*cells)

    def _waiting(self) -> Html | None:
        count = self.status.waiting
        if not count:
            return None
        what = f"{counted(count, 'request')} {'wait' if count > 1 else 'waits'} for you"
        return rows.line(rows.icon("wait"), rows.badge(what, "wait"), element("code", "%tract inbox"))

    def _unapproved(self) -> list[str]:
        status, lines = self.status, []
        if status.quarantined:
            lines.append(f"Stored but not approved here: {_some(status.quarantined)} (%tract review NAME)")
        if status.quarantined_handlers:
            lines.append(
                f"Saved handlers not approved here: {_some(status.quarantined_handlers)} (%tract review NAME). "
                "Until then, their requests come to you"
            )
        return lines

    def _model(self) -> Html:
        cells = [rows.said("Model"), rows.cut(self._asked), rows.number(self._spent)]
        budget = self.cost.budget
        if budget is not None and budget.usd:
            share = float(self.cost.known.usd) / budget.usd
            cells.append(rows.share_bar(share, f"{100 * share:.0f} % of the spending budget"))
        return rows.line(*cells)

    def _branches(self) -> Html:
        names = [branch.name for branch in sorted(self.branches, key=lambda branch: not branch.is_current)]
        items = [
            (
                "→" if branch.is_current else "",
                element("code", branch.name),
                element("code", branch.commit_hash[:_HASH] if branch.commit_hash else "no commits yet"),
            )
            for branch in self.branches[:_LISTED]
        ]
        more = len(names) - _LISTED
        command = element("code", "%tract branch")
        rest = element("p", element("small", f"{more:,} more: ", command)) if more > 0 else None
        cells = (rows.said("Branches"), rows.cut(_some(names)), rows.number(f"{len(names):,}"))
        return rows.row(cells, (table(items, ("", "Name", "Commit")), rest))

    def _operations(self) -> Html | None:
        names = self.status.operations
        cells = (rows.said("Operations"), rows.cut(_some(names)), rows.number(f"{len(names):,}"))
        return rows.line(*cells) if names else None


def _fact(name: str, text: str, share: float | None = None, title: str = "") -> Html:
    bar = None if share is None else rows.share_bar(share, f"{100 * share:.0f} % of the budget")
    return element(
        "div", rows.dim(name), element("span", text, bar, class_="v", title=title or None), class_="fact"
    )


def _some(names: tuple[str, ...] | list[str]) -> str:
    return join_names([one_line(name, _NAME) for name in names], _NAMED)


def _scripts(tract: Tract) -> str:
    scripts = tract.scripts
    if not scripts.runs:
        return ""
    saved = scripts.savings
    return f"{scripts.runs:,}" + (f"; {saved.verdict}: {saved.arithmetic}" if saved.in_code else "")
