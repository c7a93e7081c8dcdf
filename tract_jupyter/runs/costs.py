"""The usage and costs of model requests, in this session and for each turn of the branch; and the budget."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import (
    CommitNotFoundError,
    ContentError,
    LLMConfigError,
    LLMError,
    TractError,
)
from tract_jupyter.llm import Cost, CostLine, CostReport, Usage, dollars, reported_cost, sent_of
from tract_jupyter.loop import CONTINUES
from tract_jupyter.models import (
    COMPRESSED_FROM,
    Allowance,
    brief_repr,
    check_limit,
    counted,
    repr_of_whole,
    warn,
)
from tract_jupyter.storage import APPEND

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tract_jupyter.context import Repository
    from tract_jupyter.llm import Models
    from tract_jupyter.models import CommitInfo, CompiledContext
    from tract_jupyter.storage import Entry

_LEAST_CACHED: Final = 1_024
"""The shortest prompt that providers cache, in tokens."""


@dataclass(frozen=True, slots=True)
class TurnCost:
    """The usage and costs of the replies of one turn, from their commits.

    Attributes:
        question: the commit of the user's message; empty for replies before the first message.
        text: the user's message.
        replies: the commits of the replies, oldest first.
        report: usage and costs. A reply without reported usage is estimated if others have one. Empty if none has.
    """

    question: str
    text: str
    replies: tuple[str, ...]
    report: CostReport


@dataclass(frozen=True, slots=True)
class RewriteCost:
    """The cost of a change of the context: lost reasoning, and tokens that the provider has cached.

    Attributes:
        replies: the number of replies that will be sent without their reasoning.
        tokens: the number of tokens that must be sent again; at most these are in the provider's cache.
        cost: the largest cost of sending them again; None if the price is unknown or there are none.
    """

    replies: int = 0
    tokens: int = 0
    cost: Cost | None = None

    def __bool__(self) -> bool:
        """Return True if the change has a cost."""
        return bool(self.replies or self.tokens)

    def __str__(self) -> str:
        effects = []
        if self.replies:
            replies = "1 reply" if self.replies == 1 else f"{self.replies:,} replies"
            effects.append(f"the reasoning of {replies} is no longer sent")
        if self.tokens:
            price = "an unknown price" if self.cost is None else f"{self.cost} at most"
            effects.append(f"{counted(self.tokens, 'cached token')} are sent again, for {price}")
        return " and ".join(effects) or "no sent message changes"


class RewriteWarning(UserWarning):
    """A warning before a change of the context that loses reasoning of the model.

    `warnings.simplefilter("error", RewriteWarning)` refuses such changes.
    """


class Costs:
    """The usage and costs of model requests. Call it to report on this session.

    The session begins when the tract or its `Session` is opened. All tracts of a session, with their children and
    agents,
    share one account and one budget.

    Args:
        repository: the history with the replies.
        models: the models of the tract, with the account of the session.
    """

    def __init__(self, repository: Repository, models: Models) -> None:
        self._repository = repository
        self._models = models

    def __call__(self) -> CostReport:
        """Return the usage and costs of this session, by model and purpose.

        Every request counts, including discarded replies and requests that failed after the provider began. A reply
        without reported usage is estimated and marked. Usage without a known price has its own lines.
        """
        return self._models.spending.account.report()

    def of(self, commit: str) -> CostReport:
        """Return the usage and costs of a reply, from its commit; a report without lines if the commit has none.

        Args:
            commit: a hash, prefix or branch.

        Raises:
            CommitNotFoundError: no such commit.
        """
        return CostReport.of(_lines(self._repository.commits.get(commit)))

    def turns(self, limit: int | None = 20) -> list[TurnCost]:
        """Return the usage and costs of the newest turns of the current branch, the newest first.

        A turn is a user message with its replies. Other requests, such as summaries, belong to no turn.

        Args:
            limit: the number of turns; None for all.

        Raises:
            ContentError: the limit is negative or not a number.
        """
        most = None if limit is None else check_limit(limit)
        turns: list[TurnCost] = []
        replies: list[CommitInfo] = []
        for info in self._repository.history.log(None):
            if most is not None and len(turns) >= most:
                return turns
            if info.content_type != "dialogue" or info.metadata.keys() & {COMPRESSED_FROM, CONTINUES}:
                continue
            content = self._repository.commits.entry(info.commit_hash).content
            if content.get("role") == "assistant":
                replies.append(info)
            elif content.get("role") == "user" and replies:
                turns.append(_turn(info.commit_hash, str(content.get("text") or ""), replies))
                replies = []
        if replies and (most is None or len(turns) < most):
            turns.append(_turn("", "", replies))
        return turns

    # --- before a change

    def of_rewrite(self, *commits: str) -> RewriteCost:
        """Return the cost of a change of messages: an edit, a compression, or leaving out or showing messages.

        The model's reasoning and the provider's cache depend on all earlier messages. Replies count only if their
        reasoning is still sent. The answer of a tool goes together with its call, so the calling reply counts as well.
        `undo` restores both.

        Args:
            *commits: the messages, each by hash, prefix or branch. All messages if left out, as for another model or
                other
                tools.

        Raises:
            CommitNotFoundError: no such commit, or it is not in the history of the current branch.
        """
        head = self._repository.refs.position.commit_hash
        if head is None:
            return RewriteCost()
        context = self._repository.compiler.of(head)
        roles = [message.role for message in context.messages]
        if "assistant" not in roles:
            return RewriteCost()
        place = self._place(commits, head, context) if commits else 0
        replied = len(roles) - 1 - roles[::-1].index("assistant")  # later messages were not sent yet
        sizes = [message.token_count for message in context.messages[:replied]]
        tokens = sum(sizes[place:]) if sum(sizes) >= _LEAST_CACHED else 0
        return RewriteCost(self._count_bound(context, place), tokens, self._priced(tokens))

    def warn_of_rewrite(self, *commits: str) -> None:
        """Warn if a change of these messages loses the reasoning of replies.

        `edit`, `annotate` and `compress` call this. Invalid changes cause no warning; the change itself refuses them.
        """
        cost = RewriteCost()
        with suppress(TractError):
            cost = self.of_rewrite(*commits)
        if cost.replies:
            warn(
                f"This change affects the model: {cost}. undo() reverses it, and "
                "tract.costs.of_rewrite(...) shows the effect without a change.",
                RewriteWarning,
            )

    def _place(self, commits: Sequence[str], head: str, context: CompiledContext) -> int:
        """Return the number of messages before the first one that these commits make, edit or annotate."""
        entries = [self._repository.commits.entry(commit) for commit in commits]
        with self._repository.timelines.lock:
            places = self._repository.timelines.at(head).place
            for entry in entries:
                if (entry.edit_target or entry.commit_hash) not in places:
                    raise CommitNotFoundError(
                        f"{entry.commit_hash[:8]} is not in the history of the current branch, so changing it has "
                        "no effect here. Switch to its branch first."
                    )
            before = [
                sum(
                    places[one] < places[entry.edit_target or entry.commit_hash]
                    for one in context.commit_hashes
                )
                for entry in entries
            ]
        return min(
            _place_of_call(entry, context, place) for entry, place in zip(entries, before, strict=True)
        )

    def _count_bound(self, context: CompiledContext, place: int) -> int:
        """Return the number of replies from a place on that would be sent with their reasoning."""
        replies = [index for index, message in enumerate(context.messages) if message.role == "assistant"]
        with_blocks = [
            index for index in replies if "provider_blocks" in context.messages[index].provider_fields
        ]
        if not with_blocks or with_blocks[-1] < place:
            return 0
        if self._models.connection("chat") is not None:
            tools = list(context.tools)
            with suppress(LLMError):  # for example, there is no key
                client = self._models.client_for("chat")
                sent = client.replies_with_blocks(sent_of(context), **({"tools": tools} if tools else {}))
                with_blocks = with_blocks if sent is None else [replies[number] for number in sent]
        return sum(index >= place for index in with_blocks)

    def _priced(self, tokens: int) -> Cost | None:
        if not tokens or self._models.connection("chat") is None:
            return None
        cost = self._models.client_for("chat").price(Usage(tokens, 0, tokens, 0))
        return None if cost is None else replace(cost, is_estimate=True)

    # --- the budget

    @property
    def budget(self) -> Allowance | None:
        """The budget of this session; None if there is no limit. `set_budget` sets it."""
        return self._models.spending.account.budget

    def set_budget(self, *, usd: Decimal | float | str | None = None, tokens: int | None = None) -> Allowance:
        """Set the budget of the session. Requests that could exceed it are refused before they are sent.

        Spending so far counts. Omit an argument to remove its limit.

        Args:
            usd: US dollars; models without a known price are then refused.
            tokens: input and output tokens together.

        Raises:
            LLMConfigError: a value is not a number above 0, or both are omitted.
        """
        if usd is None and tokens is None:
            raise LLMConfigError("A budget needs a limit: usd=2, or tokens=50_000.")
        amount = None if usd is None else dollars(usd)
        if usd is not None and not amount:  # not a number, or 0
            amount_text = str(usd) if isinstance(usd, Decimal) else brief_repr(usd)
            raise LLMConfigError(f"usd must be a number of US dollars above 0, not {amount_text}.")
        try:
            budget = Allowance(tokens=tokens, usd=None if amount is None else float(amount))
        except ContentError as error:
            raise LLMConfigError(str(error)) from None
        self._models.spending.account.budget = budget
        return budget

    def remove_budget(self) -> None:
        """Remove the limits of the session, if there are any."""
        self._models.spending.account.budget = None

    @repr_of_whole
    def __repr__(self) -> str:
        report = self()
        limit = "" if report.budget is None else f"; budget: {report.budget}"
        return f"<Costs of this session: {report}{limit}>"


def _place_of_call(entry: Entry, context: CompiledContext, place: int) -> int:
    """Return the place from which messages change; for a tool's answer, the place of the calling reply."""
    answered = entry.metadata.get("tool_call_id") if entry.operation == APPEND else None
    if answered is None:
        return place
    calls = (
        at
        for at in reversed(range(place))
        if any(one.id == answered for one in context.messages[at].tool_calls)
    )
    return next(calls, place)


def _turn(question: str, text: str, replies: list[CommitInfo]) -> TurnCost:
    lines = [line for info in reversed(replies) for line in _lines(info)]
    if lines:  # otherwise nothing is known about the turn
        lines += [_estimated(info) for info in reversed(replies) if not _lines(info)]
    return TurnCost(
        question, text, tuple(info.commit_hash for info in reversed(replies)), CostReport.of(lines)
    )


def _lines(info: CommitInfo) -> list[CostLine]:
    """Return the usage in a commit, with failed earlier tries; empty if the commit has none."""
    stored: Mapping[str, Any] | None = info.metadata.get("usage")
    if not isinstance(stored, dict):
        return []
    model = str(info.generation_config.get("model") or "a model without a name")
    failed = stored.get("failed_tries")
    tries = [one for one in failed if isinstance(one, dict)] if isinstance(failed, list) else []
    return [_line(model, used) for used in (stored, *tries)]


def _estimated(info: CommitInfo) -> CostLine:
    """Return the line of a reply without reported usage: its length is all that is known."""
    model = str(info.generation_config.get("model") or "a model without a name")
    return CostLine(model, "chat", 1, output_tokens=info.token_count, is_estimate=True)


def _line(model: str, stored: Mapping[str, Any]) -> CostLine:
    usage, usd = Usage.of({"usage": stored}), reported_cost(model, stored)
    is_estimate, more = stored.get("cost_is_estimate") is True, stored.get("estimated_tokens")
    estimated = more if isinstance(more, int) else 0
    return CostLine(
        model, "chat", 1, (usage.input_tokens or 0) + estimated, usage.cached_tokens or 0, usage.output_tokens or 0,
        None if usd is None else Cost(Decimal(str(usd)), is_estimate), is_estimate=bool(estimated),
    )  # fmt: skip
