"""What requests to models have used and cost: in this session, and for each turn of the branch; and the budget."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from tract_jupyter.llm import Cost, CostLine, CostReport, SpendingBudget, Usage, reported_cost
from tract_jupyter.models import check_limit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tract_jupyter.context import Repository
    from tract_jupyter.llm import Account
    from tract_jupyter.models import CommitInfo


@dataclass(frozen=True, slots=True)
class TurnCost:
    """What the replies of one turn have used and cost, as their commits say.

    Attributes:
        question: the commit of the user's message; empty for replies before the first one.
        text: what the user said.
        replies: the commits of the replies, oldest first.
        report: what they used and cost. Replies of which the provider said nothing are not in it.
    """

    question: str
    text: str
    replies: tuple[str, ...]
    report: CostReport


class Costs:
    """What requests to models have used and cost. Calling it reports on this session.

    The session begins when the tract is opened, or the `Session` that it belongs to: all tracts of that, with their
    children and agents, share one account and one budget.

    Args:
        repository: has the replies.
        account: of this session.
    """

    def __init__(self, repository: Repository, account: Account) -> None:
        self._repository = repository
        self._account = account

    def __call__(self) -> CostReport:
        """Return what was used and spent in this session, by model and purpose.

        Every request counts, also one whose reply was thrown away, or that failed after the provider had begun. A reply
        without reported usage is estimated, and marked so; what has no known price is in lines of its own.
        """
        return self._account.report()

    def of(self, commit: str) -> CostReport:
        """Return what a reply has used and cost, as its commit says; a report without lines if it says nothing.

        Args:
            commit: a hash, prefix or branch.

        Raises:
            CommitNotFoundError: it names nothing.
        """
        return CostReport.of(_lines(self._repository.commits.get(commit)))

    def turns(self, limit: int | None = 20) -> list[TurnCost]:
        """Return what the newest turns of the current branch have used and cost, the newest first.

        A turn is a message of the user with the replies to it. What was asked besides, such as a summary, is in no
        turn.

        Args:
            limit: how many; None for all.

        Raises:
            ContentError: the limit is not a number from 0 on.
        """
        most = None if limit is None else check_limit(limit)
        found: list[TurnCost] = []
        replies: list[CommitInfo] = []
        for info in self._repository.history.log(None):
            if most is not None and len(found) >= most:
                return found
            if info.content_type != "dialogue":
                continue
            content = self._repository.commits.entry(info.commit_hash).content
            if content.get("role") == "assistant":
                replies.append(info)
            elif content.get("role") == "user" and replies:
                found.append(_turn(info.commit_hash, str(content.get("text") or ""), replies))
                replies = []
        if replies and (most is None or len(found) < most):
            found.append(_turn("", "", replies))
        return found

    # --- the budget

    @property
    def budget(self) -> SpendingBudget | None:
        """What this session may spend; None if there is no limit. `set_budget` sets it."""
        return self._account.budget

    def set_budget(
        self, *, usd: Decimal | float | str | None = None, tokens: int | None = None
    ) -> SpendingBudget:
        """Refuse a request, before it is sent, that could exceed what the session may spend, from now on.

        What the session has spent already counts. What is left out has no limit any more.

        Args:
            usd: US dollars; a model whose price is unknown is not asked then.
            tokens: input and output together.

        Raises:
            LLMConfigError: it is not a number above 0, or both are left out.
        """
        made = SpendingBudget(usd, tokens)  # type: ignore[arg-type] # which makes a Decimal of it
        self._account.budget = made
        return made

    def remove_budget(self) -> None:
        """Let the session spend what it wants; nothing happens if there is no budget."""
        self._account.budget = None

    def __repr__(self) -> str:
        report = self()
        limit = "" if report.budget is None else f"; budget: {report.budget}"
        return f"<Costs of this session: {report}{limit}>"


def _turn(question: str, text: str, replies: list[CommitInfo]) -> TurnCost:
    lines = [line for info in reversed(replies) for line in _lines(info)]
    return TurnCost(
        question, text, tuple(info.commit_hash for info in reversed(replies)), CostReport.of(lines)
    )


def _lines(info: CommitInfo) -> list[CostLine]:
    """Return what a commit says that it used, with the tries that failed before it; nothing if it says nothing."""
    stored: Mapping[str, Any] | None = info.metadata.get("usage")
    if not isinstance(stored, dict):
        return []
    model = str(info.generation_config.get("model") or "a model without a name")
    failed = stored.get("failed_tries")
    tries = [one for one in failed if isinstance(one, dict)] if isinstance(failed, list) else []
    return [_line(model, used) for used in (stored, *tries)]


def _line(model: str, stored: Mapping[str, Any]) -> CostLine:
    usage, usd = Usage.of({"usage": stored}), reported_cost(model, stored)
    is_estimate = stored.get("cost_is_estimate") is True
    return CostLine(
        model, "chat", 1, usage.input_tokens or 0, usage.cached_tokens or 0, usage.output_tokens or 0,
        None if usd is None else Cost(Decimal(str(usd)), is_estimate),
    )  # fmt: skip
