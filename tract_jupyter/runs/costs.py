"""What requests to models have used and cost: in this session, and for each turn of the branch; and the budget."""

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
"""Tokens of a prompt from which on providers cache it."""


@dataclass(frozen=True, slots=True)
class TurnCost:
    """What the replies of one turn have used and cost, as their commits say.

    Attributes:
        question: the commit of the user's message; empty for replies before the first one.
        text: what the user said.
        replies: the commits of the replies, oldest first.
        report: what they used and cost; a reply of which the provider said nothing beside others is an
            estimate. Without lines if it said nothing of all.
    """

    question: str
    text: str
    replies: tuple[str, ...]
    report: CostReport


@dataclass(frozen=True, slots=True)
class RewriteCost:
    """What a change of the context takes from the model: what it thought since, and what its provider has cached.

    Attributes:
        replies: how many replies are sent without their reasoning then.
        tokens: how many tokens that were sent before are sent anew; so many are in the provider's cache at most.
        cost: what it costs to send them anew, at most; None if the price is unknown, or there are none.
    """

    replies: int = 0
    tokens: int = 0
    cost: Cost | None = None

    def __bool__(self) -> bool:
        """Return True if it takes anything."""
        return bool(self.replies or self.tokens)

    def __str__(self) -> str:
        told = []
        if self.replies:
            replies = "1 reply" if self.replies == 1 else f"{self.replies:,} replies"
            told.append(f"the reasoning of {replies} is not sent any more")
        if self.tokens:
            price = "an unknown price" if self.cost is None else f"{self.cost} at most"
            told.append(f"{counted(self.tokens, 'cached token')} are sent anew, for {price}")
        return " and ".join(told) or "nothing that was sent before changes"


class RewriteWarning(UserWarning):
    """A change of the context takes reasoning from the model: told before it is made.

    `warnings.simplefilter("error", RewriteWarning)` has such changes refused.
    """


class Costs:
    """What requests to models have used and cost. Calling it reports on this session.

    The session begins when the tract is opened, or the `Session` that it belongs to: all tracts of that, with their
    children and agents, share one account and one budget.

    Args:
        repository: has the replies.
        models: the models of the tract, with the account of the session.
    """

    def __init__(self, repository: Repository, models: Models) -> None:
        self._repository = repository
        self._models = models

    def __call__(self) -> CostReport:
        """Return what was used and spent in this session, by model and purpose.

        Every request counts, also one whose reply was thrown away, or that failed after the provider had begun. A reply
        without reported usage is estimated, and marked so; what has no known price is in lines of its own.
        """
        return self._models.spending.account.report()

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
            if info.content_type != "dialogue" or info.metadata.keys() & {COMPRESSED_FROM, CONTINUES}:
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

    # --- before a change

    def of_rewrite(self, *commits: str) -> RewriteCost:
        """Return what it takes from the model if messages change: are edited, compressed, left out, or shown again.

        What a model thought is bound to all that was sent before it, and so is the provider's cache. Replies whose
        reasoning is not sent as it is do not count. The answer of a tool is taken to be left out, and its call with it:
        the reply that called counts, too. `undo` brings both back.

        Args:
            *commits: the messages, each by hash, prefix or branch; all of them if left out, as where another model is
                asked or other tools are offered.

        Raises:
            CommitNotFoundError: one names nothing, or is not in the history of the current branch.
            StoreError: the store cannot be read.
        """
        head = self._repository.refs.position.commit_hash
        if head is None:
            return RewriteCost()
        context = self._repository.compiler.of(head)
        roles = [message.role for message in context.messages]
        if "assistant" not in roles:
            return RewriteCost()
        place = self._place(commits, head, context) if commits else 0
        replied = len(roles) - 1 - roles[::-1].index("assistant")  # what came after that was not sent yet
        sizes = [message.token_count for message in context.messages[:replied]]
        tokens = sum(sizes[place:]) if sum(sizes) >= _LEAST_CACHED else 0
        return RewriteCost(self._bound(context, place), tokens, self._priced(tokens))

    def warn_of_rewrite(self, *commits: str) -> None:
        """Warn if replies lose their reasoning with a change of these messages, as `edit`, `annotate`, `compress` do.

        Nothing is told of what cannot be changed, which the change itself refuses.
        """
        cost = RewriteCost()
        with suppress(TractError):
            cost = self.of_rewrite(*commits)
        if cost.replies:
            warn(
                f"this change takes something from the model: {cost}. undo() brings it back, and "
                "tract.costs.of_rewrite(...) tells it without a change",
                RewriteWarning,
            )

    def _place(self, commits: Sequence[str], head: str, context: CompiledContext) -> int:
        """Return how many messages come before the first one that these commits make, edit or annotate."""
        entries = [self._repository.commits.entry(commit) for commit in commits]
        with self._repository.timelines.lock:
            places = self._repository.timelines.at(head).place
            for entry in entries:
                if (entry.edit_target or entry.commit_hash) not in places:
                    raise CommitNotFoundError(
                        f"{entry.commit_hash[:8]} is not in the history of the current branch, so nothing that is "
                        "sent changes with it; switch to its branch first"
                    )
            before = [
                sum(
                    places[one] < places[entry.edit_target or entry.commit_hash]
                    for one in context.commit_hashes
                )
                for entry in entries
            ]
        return min(_called(entry, context, place) for entry, place in zip(entries, before, strict=True))

    def _bound(self, context: CompiledContext, place: int) -> int:
        """Return how many replies from a place on would be sent with their blocks."""
        replies = [index for index, message in enumerate(context.messages) if message.role == "assistant"]
        kept = [index for index in replies if "provider_blocks" in context.messages[index].provider_fields]
        if not kept or kept[-1] < place:
            return 0
        if self._models.connection("chat") is not None:
            tools = list(self._repository.toolsets.offered) or list(context.tools)
            with suppress(LLMError):  # without a key, say, it is not known which ones
                client = self._models.client_for("chat")
                sent = client.replies_with_blocks(sent_of(context), **({"tools": tools} if tools else {}))
                kept = kept if sent is None else [replies[number] for number in sent]
        return sum(index >= place for index in kept)

    def _priced(self, tokens: int) -> Cost | None:
        if not tokens or self._models.connection("chat") is None:
            return None
        cost = self._models.client_for("chat").price(Usage(tokens, 0, tokens, 0))
        return None if cost is None else replace(cost, is_estimate=True)

    # --- the budget

    @property
    def budget(self) -> Allowance | None:
        """What this session may spend; None if there is no limit. `set_budget` sets it."""
        return self._models.spending.account.budget

    def set_budget(self, *, usd: Decimal | float | str | None = None, tokens: int | None = None) -> Allowance:
        """Refuse a request, before it is sent, that could exceed what the session may spend, from now on.

        What the session has spent already counts. What is left out has no limit any more.

        Args:
            usd: US dollars; a model whose price is unknown is not asked then.
            tokens: input and output together.

        Raises:
            LLMConfigError: it is not a number above 0, or both are left out.
        """
        if usd is None and tokens is None:
            raise LLMConfigError("a budget has a limit: usd=2, or tokens=50_000")
        amount = None if usd is None else dollars(usd)
        if usd is not None and not amount:  # not a number, or 0
            shown = str(usd) if isinstance(usd, Decimal) else brief_repr(usd)
            raise LLMConfigError(f"usd is a number of US dollars above 0, not {shown}")
        try:
            made = Allowance(tokens=tokens, usd=None if amount is None else float(amount))
        except ContentError as error:
            raise LLMConfigError(str(error)) from None
        self._models.spending.account.budget = made
        return made

    def remove_budget(self) -> None:
        """Let the session spend what it wants; nothing happens if there is no budget."""
        self._models.spending.account.budget = None

    @repr_of_whole
    def __repr__(self) -> str:
        report = self()
        limit = "" if report.budget is None else f"; budget: {report.budget}"
        return f"<Costs of this session: {report}{limit}>"


def _called(entry: Entry, context: CompiledContext, place: int) -> int:
    """Return the place from which all is sent in another way: of a tool's answer, that of the reply that called."""
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
    if lines:  # else nothing is known of the turn
        lines += [_estimated(info) for info in reversed(replies) if not _lines(info)]
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


def _estimated(info: CommitInfo) -> CostLine:
    """Return the line of a reply of which the provider said nothing: its own length is all that is known."""
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
