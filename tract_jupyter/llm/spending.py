"""The usage and cost of a session's requests, and the budget that refuses requests."""

from __future__ import annotations

import math
import threading
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tract_jupyter.exceptions import ContentError, LLMBudgetError, LLMRequestError, LLMResponseError
from tract_jupyter.llm.call import CANCELLED
from tract_jupyter.llm.messages import CHARACTERS_PER_TOKEN, Usage, dicts, is_count
from tract_jupyter.llm.prices import AskedModel, Cost, Prices, dollars
from tract_jupyter.llm.providers import is_package_client
from tract_jupyter.llm.redaction import Redaction, redacted_body
from tract_jupyter.llm.reply import Reply
from tract_jupyter.llm.user_budget import reserving_user_budget
from tract_jupyter.models import (
    Allowance,
    admin_limits,
    canonical_json,
    counted,
    inline_media,
    is_media,
    media_tokens,
    safe_repr,
    usd_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from tract_jupyter.models import LLMClient

ASSUMED_OUTPUT: Final = 4_096
"""The tokens of a reply that a budget assumes if a request has no `max_tokens`."""
_PER_MESSAGE: Final = 4  # extra tokens for each message, as in the context's count
_LIMITS: Final = ("max_tokens", "max_completion_tokens", "max_output_tokens", "max_new_tokens", "num_predict")
_OWN: Final = frozenset({"cost", "cost_is_estimate", "failed_tries", "estimated_tokens"})
_REPLIES: Final = ("n", "best_of")
_LEAST_CUT: Final = 1_500  # tokens; counters differ, and the shortest context of Ollama has 2,048
_SURELY_CUT: Final = 0.7


_LISTED: Final = Prices()
"""List prices: the user's own prices do not count for the administrator's budgets."""


class PromptCutWarning(UserWarning):
    """A server read only a part of a prompt without reporting it."""


@dataclass(frozen=True, slots=True)
class CostLine:
    """The usage and cost of the requests to one model for one purpose.

    Attributes:
        model: the model, as `PROVIDER/NAME`, or its registered name.
        operation: the purpose: `chat`, `compress`, ...
        requests: the number of requests.
        input_tokens: the tokens of all prompts, including cached ones.
        cached_tokens: the part of them that was read from the cache.
        output_tokens: the tokens of all replies.
        cost: None if the price is unknown.
        is_estimate: True if some tokens are estimates, because the provider reported none.
    """

    model: str
    operation: str
    requests: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    cost: Cost | None = None
    is_estimate: bool = False

    @property
    def tokens(self) -> int:
        """Input and output together."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: CostLine) -> CostLine:
        return replace(
            self,
            requests=self.requests + other.requests,
            input_tokens=self.input_tokens + other.input_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cost=None if self.cost is None or other.cost is None else _sum((self.cost, other.cost)),
            is_estimate=self.is_estimate or other.is_estimate,
        )


@dataclass(frozen=True, slots=True)
class CostReport:
    """The usage and cost of requests, by model and purpose. Requests with an unknown price have their own lines.

    Attributes:
        lines: one for each model and purpose.
        budget: the budget; None if there is no limit.
    """

    lines: tuple[CostLine, ...] = ()
    budget: Allowance | None = None

    @classmethod
    def of(cls, lines: Iterable[CostLine], budget: Allowance | None = None) -> CostReport:
        """Merge the lines with the same model and purpose."""
        joined: dict[tuple[str, str, bool], CostLine] = {}
        for line in lines:
            key = (line.model, line.operation, line.cost is None)
            joined[key] = joined[key] + line if key in joined else line
        return cls(tuple(joined.values()), budget)

    @property
    def cost(self) -> Cost | None:
        """The total cost; None if a price is unknown."""
        return None if self.unknown else self.known

    @property
    def known(self) -> Cost:
        """The cost of the requests with a known price."""
        return _sum(line.cost for line in self.lines if line.cost is not None)

    @property
    def unknown(self) -> tuple[CostLine, ...]:
        """The lines whose price is unknown."""
        return tuple(line for line in self.lines if line.cost is None)

    @property
    def requests(self) -> int:
        """The number of requests."""
        return sum(line.requests for line in self.lines)

    @property
    def tokens(self) -> int:
        """Input and output of all requests together."""
        return sum(line.tokens for line in self.lines)

    @property
    def is_estimate(self) -> bool:
        """True if some tokens are estimates."""
        return any(line.is_estimate for line in self.lines)

    def __str__(self) -> str:
        if not self.lines:
            return "no requests yet"
        unpriced = sum(line.requests for line in self.unknown)
        parts = [] if unpriced == self.requests else [str(self.known)]
        if unpriced:
            parts.append(
                f"{counted(unpriced, 'request')} at an unknown price" if parts else "an unknown price"
            )
        about = "≈" if self.is_estimate else ""
        what = f"{counted(self.requests, 'request')} with {about}{counted(self.tokens, 'token')}"
        return f"{' and '.join(parts)} for {what}"


def _sum(costs: Iterable[Cost]) -> Cost:
    items = list(costs)
    total = sum((cost.usd for cost in items), Decimal(0))
    return Cost(total, is_estimate=any(cost.is_estimate for cost in items))


def reported_cost(model: str, usage: Mapping[str, Any]) -> float | None:  # noqa: ARG001 # as limits of money want it
    """Return the cost of a reply in US dollars, which `Spending.ask` adds to its usage; None if unknown."""
    cost = usage.get("cost")
    usd = None if cost is None else dollars(cost)
    return None if usd is None else float(usd)


_TOLD: Final[ContextVar[tuple[list[CostLine], ...]]] = ContextVar("tract_costs_told", default=())


@contextmanager
def costs_of_block() -> Iterator[list[CostLine]]:
    """Yield a list that collects the costs of all requests in this block and in copies of its context, a line each."""
    lines: list[CostLine] = []
    token = _TOLD.set((*_TOLD.get(), lines))
    try:
        yield lines
    finally:
        _TOLD.reset(token)


class Account:
    """The usage and cost of a session's requests, and its budget. Its tracts share it. This class is thread-safe.

    Attributes:
        prices: the prices of models.
        budget: the budget; None if there is no limit.
    """

    def __init__(self) -> None:
        self.prices = Prices()
        self.budget: Allowance | None = None
        self._lock = threading.Lock()
        self._lines: dict[tuple[str, str, bool], CostLine] = {}
        self._reserved: list[CostLine] = []

    def report(self) -> CostReport:
        """Return the usage and cost so far."""
        with self._lock:
            return CostReport(tuple(self._lines.values()), self.budget)

    def add(self, line: CostLine) -> None:
        """Count the usage of a request."""
        for told in _TOLD.get():
            told.append(line)
        key = (line.model, line.operation, line.cost is None)
        with self._lock:
            self._lines[key] = self._lines[key] + line if key in self._lines else line

    @contextmanager
    def reserving(self, line: CostLine, *, is_assumed: bool) -> Iterator[Callable[[CostLine], None]]:
        """Reserve the maximum cost of a request while it runs.

        Args:
            line: the maximum cost.
            is_assumed: True if the length of the reply is an assumption.

        Yields:
            A function to call before a retry, with the usage of the failed try. It raises the same error.

        Raises:
            LLMBudgetError: the request could exceed the budget, or its price is unknown and the budget is in US
                dollars.
        """
        failed: list[CostLine] = []

        def before_retry(used: CostLine) -> None:
            with self._lock:
                failed.append(used)
                self._reserved.remove(line)
                self._reserved.append(used)
                try:
                    self._check(line, is_assumed=is_assumed)
                finally:
                    self._reserved.append(line)

        with self._lock:
            self._check(line, is_assumed=is_assumed)
            self._reserved.append(line)
        try:
            yield before_retry
        finally:
            with self._lock:
                for reserved in (line, *failed):
                    self._reserved.remove(reserved)

    def _check(self, line: CostLine, *, is_assumed: bool) -> None:
        """Raise `LLMBudgetError` unless the budget allows a request."""
        budget = self.budget
        if budget is None:
            return
        so_far = CostReport.of([*self._lines.values(), *self._reserved])
        what = (
            f"{line.input_tokens:,} tokens of input and "
            + (
                f"{line.output_tokens:,} of output, because the request has no max_tokens"
                if is_assumed
                else f"at most {line.output_tokens:,} of output"
            )
        )  # fmt: skip
        if budget.tokens is not None and so_far.tokens + line.tokens > budget.tokens:
            raise LLMBudgetError(
                f"the request was not sent, because it could exceed the budget of {counted(budget.tokens, 'token')}: "
                f"this session has used {so_far.tokens:,}, and the request needs about {line.tokens:,} ({what}). Type "
                f"%tract budget {_rounded(so_far.tokens + 2 * line.tokens)} tokens to continue, or %tract budget off"
            )
        if budget.usd is None:
            return
        if line.cost is None:
            raise LLMBudgetError(
                f"the request was not sent, because the budget is in US dollars and the price of {line.model} is "
                f"unknown: set a budget in tokens, as in %tract budget 50000 tokens, or the price of a million tokens "
                f"in US dollars, as in tract.models.price({line.model!r}, input=1, output=5)"
            )
        most = Decimal(str(budget.usd))
        if so_far.known.usd + line.cost.usd > most:
            unknown = sum(unpriced.requests for unpriced in so_far.unknown)
            others = f" plus {counted(unknown, 'request')} at an unknown price" if unknown else ""
            more = so_far.known.usd + 2 * line.cost.usd
            raise LLMBudgetError(
                f"the request was not sent, because it could exceed the budget of {usd_text(most)}: this session has "
                f"spent {so_far.known}{others}, and the request could cost {usd_text(line.cost.usd)} ({what}). Type "
                f"%tract budget {max(more, most * 2):.2f} USD to continue, or %tract budget off"
            )


class _Request(NamedTuple):
    """One request: client, content, model and purpose. See the arguments of `Spending.ask`."""

    client: LLMClient
    messages: list[dict[str, Any]]
    options: Mapping[str, Any]
    asked: AskedModel
    operation: str
    is_budgeted: bool
    """True if the administrator's limits have a budget."""
    used: list[CostLine]
    """Gets the usage at list prices, for this budget."""

    def line(self, usage: Usage, cost: Cost | None, *, is_estimate: bool) -> CostLine:
        return CostLine(
            self.asked.shown, self.operation, 1, usage.input_tokens or 0, usage.cached_tokens or 0,
            usage.output_tokens or 0, cost, is_estimate,
        )  # fmt: skip

    def alternatives(self, body: Mapping[str, Any]) -> list[AskedModel]:
        """Return the other models that may reply: OpenRouter and gateways accept a list of `models`."""
        lists = [
            place["models"] for place in _option_places(body) if isinstance(place.get("models"), list | tuple)
        ]
        names = [name for models in lists for name in models if isinstance(name, str)]
        return [self.asked.instead(name) for name in names if name != self.asked.model]

    def as_sent(self) -> dict[str, Any]:
        """Return the request body if the client has `as_sent`. Otherwise return the client's arguments."""
        options = dict(self.options)
        for name in ("abort", "on_delta"):
            options.pop(name, None)
        if hasattr(self.client, "as_sent"):
            body: dict[str, Any] = self.client.as_sent(self.messages, **options)
            return body
        return {
            **options,
            "messages": [
                _with_blocks(message) if "provider_blocks" in message else message
                for message in self.messages
            ],
        }


class Spending:
    """Sends the requests of one tract, and charges its session's account. This class is thread-safe.

    Args:
        count: counts the tokens of a text.
        account: the session's account; by default a new one.
    """

    def __init__(self, count: Callable[[str], int] | None = None, account: Account | None = None) -> None:
        self._count = count or _rough_count
        self.account = account or Account()
        self._warned: set[str] = set()

    def ask(
        self,
        client: LLMClient,
        messages: list[dict[str, Any]],
        options: Mapping[str, Any],
        *,
        asked: AskedModel,
        operation: str,
    ) -> dict[str, Any]:
        """Send a request if the budget allows it, and count its usage. Each request of a tract uses this method.

        Before each try, the maximum cost is estimated: the messages and tools as they are sent, with the returned
        reasoning, plus the output limit (or `ASSUMED_OUTPUT`) for each requested reply. Together with the session's
        spending and the maximum cost of other running requests, it must be within the budget. Afterwards, the
        provider's report replaces the estimate. A request that was cancelled or broke off counts with an estimate; a
        refused one does not count. Failed tries count if the provider reported tokens.

        Args:
            client: the client.
            messages: the messages.
            options: options of the client; `on_delta` is called as always.
            asked: the model, for its price.
            operation: the purpose.

        Returns:
            The reply. Its usage has `cost` in US dollars, if known, and `failed_tries`, a list of the usage of failed
                tries.

        Raises:
            LLMBudgetError: the request could exceed the budget, or its price is unknown and the budget is in US
                dollars. It was not sent.
            AdminLimitError: the administrator's limits do not allow it. It was not sent.
        """
        limits = admin_limits()
        if (limits.redaction or limits.limits_requests) and not is_package_client(client):
            limits.check_own_object("your own object or function")
            if limits.redaction:
                messages, options = Redaction().of(messages), redacted_body(options)
        request = _Request(client, messages, options, asked, operation, limits.has_budget, [])
        if self.account.budget is None and not limits.has_budget:
            return self._send(request, options)
        line, is_assumed = self._most(request, self.account.prices)
        listed = self._most(request, _LISTED)[0] if limits.has_budget else line
        with (
            self.account.reserving(line, is_assumed=is_assumed) as before_retry,
            reserving_user_budget(limits, listed, request.used) as before_user_retry,
        ):
            if not hasattr(client, "as_sent"):  # it does not report its retries
                return self._send(request, options)

            def checked(failed: Mapping[str, Any]) -> None:
                usage = self._complete(request, Usage.of(failed))
                before_retry(request.line(usage, self._cost(request, usage, failed), is_estimate=True))
                before_user_retry(
                    request.line(usage, self._cost(request, usage, failed, _LISTED), is_estimate=True)
                )

            return self._send(request, {**options, "before_retry": checked})

    def _send(self, request: _Request, options: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request and record its usage."""
        received: list[str] = []
        try:
            reply = request.client.chat(request.messages, **_listened(options, received))
        except BaseException as error:
            for failed in getattr(error, "failed_tries", ()):
                self._note(request, self._complete(request, Usage.of(failed)), failed)
            reported = getattr(error, "reported", None) or {}
            if received or reported or _may_be_billed(error):
                self._note(request, self._usage(request, Usage.of(reported), "".join(received)), {})
            raise
        noted: dict[str, Any] = self._noted(request, reply)
        return noted

    # --- before

    def _most(self, request: _Request, prices: Prices) -> tuple[CostLine, bool]:
        """Return the maximum cost of a request, and whether its output is an assumption."""
        sent = request.as_sent()
        limit, default = output_limit(sent), getattr(request.client, "default_max_tokens", None)
        usage = Usage(
            self._count_sent(sent), output_tokens=_replies(sent) * (limit or default or ASSUMED_OUTPUT)
        )
        costs = [prices.cost(asked, usage) for asked in (request.asked, *request.alternatives(sent))]
        known = [cost for cost in costs if cost is not None]
        cost = max(known, key=lambda one: one.usd) if len(known) == len(costs) else None
        return request.line(usage, cost, is_estimate=True), output_limit(request.options) is None

    # --- afterwards

    def _noted(self, request: _Request, reply: Any) -> Any:
        """Record the reply, and return it with its cost."""
        response = reply if isinstance(reply, dict) else {}
        usage = Usage.of(response) if "usage" in response else Usage()
        tries = _failed_tries(response) if "failed_tries" in response else ()
        failed = [
            self._priced(
                failed_try, self._note(request, self._complete(request, Usage.of(failed_try)), failed_try)
            )
            for failed_try in tries
        ]
        if usage.input_tokens is None or usage.output_tokens is None:
            written = "" if usage.output_tokens is not None else _written(response)
            estimate = self._usage(request, usage, written)
            cost = self._note(request, estimate, response)
            return (
                {**response, "usage": _marked(response["usage"], usage, estimate, cost)}
                if usage.raw
                else reply
            )
        if _is_ollama(request.asked):
            self._warn_if_cut(request, usage.input_tokens)
        used = self._priced(response, self._note(request, usage, response))
        return {**response, "usage": {**used, "failed_tries": failed} if failed else used}

    def _warn_if_cut(self, request: _Request, read: int) -> None:
        """Warn, once for each model, if a server read much less than the whole prompt."""
        sent, model = self._tokens_of(request), request.asked.shown
        if model in self._warned or sent < _LEAST_CUT or read >= _SURELY_CUT * sent:
            return
        self._warned.add(model)
        from tract_jupyter.models import warn

        warn(
            f"{model} has read {read:,} tokens of a prompt of about {sent:,}: Ollama silently drops the beginning of a "
            "prompt that is longer than its context. Start it with a larger one, as in OLLAMA_CONTEXT_LENGTH=32768 "
            "ollama serve, or send less: compress the context",
            PromptCutWarning,
        )

    @staticmethod
    def _priced(response: Mapping[str, Any], cost: Cost | None) -> dict[str, Any]:
        """Return the usage of a response, with its cost."""
        return {**_without_own(response["usage"]), **_cost_fields(cost)}

    def _note(self, request: _Request, usage: Usage, response: Mapping[str, Any]) -> Cost | None:
        asked, cost = request.asked, None
        # otherwise the price is unknown
        if asked.provider or asked.base_url or usage.raw or self.account.prices.own:
            cost = self._cost(request, usage, response)
        self.account.add(request.line(usage, cost, is_estimate=not usage.raw))
        if request.is_budgeted:
            listed = self._cost(request, usage, response, _LISTED)
            request.used.append(request.line(usage, listed, is_estimate=not usage.raw))
        return cost

    def _cost(
        self, request: _Request, usage: Usage, response: Mapping[str, Any], prices: Prices | None = None
    ) -> Cost | None:
        replied = response.get("model")
        cost = (prices or self.account.prices).cost(
            request.asked,
            usage,
            replied=replied if isinstance(replied, str) else None,
            tier=response.get("service_tier"),
        )
        return replace(cost, is_estimate=True) if cost is not None and not usage.raw else cost

    def _complete(self, request: _Request, reported: Usage) -> Usage:
        """Return the reported usage. If the report is incomplete, return an estimate."""
        return (
            self._usage(request, reported, "")
            if None in (reported.input_tokens, reported.output_tokens)
            else reported
        )

    def _usage(self, request: _Request, reported: Usage, written: str) -> Usage:
        """Estimate the missing counts of a report. `written` is the known part of the reply's text."""
        output, prompt = reported.output_tokens, reported.input_tokens
        total = reported.raw.get("total_tokens")
        total = total if is_count(total) else 0
        if output is None and prompt is None and total:
            output = min(self._count(written), total)
        elif output is None or written:  # a broken stream has reported its first counts
            output = max(output or 0, self._count(written))
        if prompt is None:
            prompt = total - output if total > output else self._tokens_of(request)
        return Usage(prompt, reported.cached_tokens, reported.cache_write_tokens, output)

    def _tokens_of(self, request: _Request) -> int:
        """Estimate the tokens of a request."""
        return self._count_sent(request.as_sent())

    def _count_sent(self, sent: Mapping[str, Any]) -> int:
        return request_tokens(sent, self._count)


def request_tokens(sent: Mapping[str, Any], count: Callable[[str], int]) -> int:
    """Estimate the tokens of a request: instructions, messages with their raw blocks, and tools."""
    messages = sent.get("messages") or sent.get("input") or ()
    texts = [_text(sent[name]) for name in ("system", "instructions", "tools") if sent.get(name)]
    media = 0
    for message in messages:
        content = message.get("content") if isinstance(message, dict) and message.keys() == _PLAIN else None
        if isinstance(content, str):
            texts.append(content)
        else:
            text, media_of_message = _measured(message)
            texts.append(text)
            media += media_of_message
    return count("\n".join(texts)) + media + _PER_MESSAGE * len(messages)


def _measured(message: Any) -> tuple[str, int]:
    """Return the text of a message, and the tokens of its media. A reply can be nested too deeply to be read."""
    try:
        return _text(message), sum(map(media_tokens, inline_media(message)))
    except RecursionError:
        return safe_repr(message), 0


_PLAIN: Final = frozenset({"role", "content"})


def _is_ollama(asked: AskedModel) -> bool:
    return any(name.startswith("ollama/") for name in asked.names) or ":11434" in (asked.base_url or "")


def _without_own(usage: Mapping[str, Any]) -> dict[str, Any]:
    """Return a provider's usage report without our own fields for the cost. A provider must not set them."""
    return {name: value for name, value in usage.items() if name not in _OWN}


_COUNTS: Final = ("prompt_tokens", "input_tokens", "completion_tokens", "output_tokens", "total_tokens")


def _marked(usage: Mapping[str, Any], reported: Usage, estimate: Usage, cost: Cost | None) -> dict[str, Any]:
    """Return a usage that is partly unknown. Estimates replace zeros that are not counts."""
    fields = _without_own(usage)
    prompt, completion, total = reported.input_tokens, reported.output_tokens, usage.get("total_tokens")
    has_total = prompt is None and completion is None and bool(total)
    if has_total or not any(fields.get(name) == 0 for name in _COUNTS):
        return {name: value for name, value in fields.items() if value or name not in _COUNTS}
    known = {_COUNTS[:2]: prompt, _COUNTS[2:4]: completion, _COUNTS[4:]: None}
    unknown = {name for names, count in known.items() if count is None for name in names}
    tokens = (estimate.input_tokens or 0) + (estimate.output_tokens or 0) - (prompt or 0) - (completion or 0)
    fields = {name: value for name, value in fields.items() if name not in unknown}
    return {**fields, "estimated_tokens": tokens, **_cost_fields(cost)}


def _cost_fields(cost: Cost | None) -> dict[str, Any]:
    """Return the cost of a request as usage fields. Empty if the cost is unknown."""
    if cost is None:
        return {}
    return {"cost": float(cost.usd), **({"cost_is_estimate": True} if cost.is_estimate else {})}


def _failed_tries(response: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the usage of the tries that failed before a reply, each with `usage` as in a response."""
    tries = response.get("failed_tries")
    return [failed for failed in dicts(tries) if isinstance(failed.get("usage"), dict)]


def _listened(options: Mapping[str, Any], received: list[str]) -> dict[str, Any]:
    """Return the options with an `on_delta` that also collects the pieces."""
    on_delta = options.get("on_delta")
    if on_delta is None:
        return dict(options)

    def keep(delta: Any) -> None:
        received.append(str(getattr(delta, "text", delta)))
        on_delta(delta)

    return {**options, "on_delta": keep}


def _may_be_billed(error: BaseException) -> bool:
    """Return True if a failed request may be billed, because it was cancelled, timed out or interrupted."""
    if isinstance(error, LLMRequestError):
        return error.code == CANCELLED or (error.code == "timeout" and not error.is_transient)
    return not isinstance(error, Exception)  # an interrupt


def _written(response: Mapping[str, Any]) -> str:
    """Return the whole text of a reply. Empty if the reply is not readable."""
    try:
        reply = Reply.of(response)
    except LLMResponseError:
        return ""
    return reply.reasoning + reply.text + "".join(call.name + call.arguments for call in reply.raw_calls)


def output_limit(sent: Mapping[str, Any]) -> int | None:
    """Return the maximum number of tokens of a reply; None if the request has no limit."""
    return max(_numbers(sent, _LIMITS), default=None)


def _replies(sent: Mapping[str, Any]) -> int:
    return max(_numbers(sent, _REPLIES), default=1)


def _numbers(sent: Mapping[str, Any], names: Iterable[str]) -> list[int]:
    """Return the numbers above 0 under these names in a request."""
    places = _option_places(sent)
    numbers = [number for place in places for name in names if (number := dollars(place.get(name)))]
    return [math.ceil(number) for number in numbers]


def _option_places(sent: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return a request and the nested options of some servers."""
    places = (sent, sent.get("extra_body"), sent.get("options"))
    return [place for place in places if isinstance(place, dict)]


def _with_blocks(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return only the raw blocks of a message, to count its content once."""
    return {"role": message.get("role"), "provider_blocks": message["provider_blocks"]}


def _text(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    if is_media(value):
        return ""
    if isinstance(value, list | tuple):
        return "\n".join(map(_text, value))
    if isinstance(value, dict) and ("role" in value or set(value) == {"type", "text"}):
        parts = [part for name, part in value.items() if part and name not in {"role", "type"}]
        return "\n".join([part if isinstance(part, str) else _text(part) for part in parts])
    try:
        return canonical_json(value)
    except ContentError:
        return safe_repr(value)


def _rough_count(text: str) -> int:
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def _rounded(tokens: int) -> int:
    """Return a number of tokens, rounded up to a full thousand."""
    return -(-tokens // 1_000) * 1_000
