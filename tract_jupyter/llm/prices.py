"""The cost of requests in US dollars: from the user's own prices, or from the tables of genai-prices, offline.

An unknown cost is None, never 0. Each request is priced alone, because long prompts may have a higher price.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from tract_jupyter.exceptions import LLMConfigError
from tract_jupyter.llm.messages import LARGEST_COUNT
from tract_jupyter.models import brief_repr, usd_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tract_jupyter.llm.messages import Usage

MILLION: Final = 1_000_000
# a name with this ending counts as the dated version of the model, at the same price
_DATED: Final = re.compile(r"[-@](\d{8}|\d{4}-\d{2}-\d{2}|latest)")
_BILLS: Final = "openrouter.ai"  # in US dollars, and says how much
_USUAL_TIERS: Final = frozenset({None, "auto", "default", "standard"})


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one request, or of several.

    Attributes:
        usd: in US dollars.
        is_estimate: whether tokens or price are a guess; shown with `≈` then.
    """

    usd: Decimal
    is_estimate: bool = False

    def __str__(self) -> str:
        return f"{'≈' if self.is_estimate else ''}{usd_text(self.usd)}"


@dataclass(frozen=True, slots=True)
class ModelPrice:
    """The price of a model in US dollars for a million tokens.

    Attributes:
        input: for the prompt.
        output: for the reply, with the reasoning.
        cached: for cache reads; None means `input`.
        cache_write: for cache writes; None means `input`.
    """

    input: Decimal
    output: Decimal
    cached: Decimal | None = None
    cache_write: Decimal | None = None

    def of(self, usage: Usage) -> Decimal:
        """Return the cost of a request with known tokens."""
        read, written = usage.cached_tokens or 0, usage.cache_write_tokens or 0
        fresh = max((usage.input_tokens or 0) - read - written, 0)
        cached = self.input if self.cached is None else self.cached
        cache_write = self.input if self.cache_write is None else self.cache_write
        total = fresh * self.input + read * cached + written * cache_write
        return (total + (usage.output_tokens or 0) * self.output) / MILLION


@dataclass(frozen=True, slots=True)
class AskedModel:
    """The model of a request, for its price.

    Attributes:
        shown: its name in texts.
        model: the provider's name for it; empty if the request names none.
        names: its names: registered, with the provider, without. The user's prices are looked up in this order.
        provider: the provider's name in the price tables; empty if the tables do not list it.
        base_url: its address, which identifies the provider if no name does.
    """

    shown: str
    model: str = ""
    names: tuple[str, ...] = ()
    provider: str = ""
    base_url: str | None = None

    def instead(self, model: str) -> AskedModel:
        """Return another model at the same place."""
        full = f"{self.provider}/{model}" if self.provider else model
        return replace(self, shown=full, model=model, names=tuple(dict.fromkeys((full, model))))


class Prices:
    """The prices of models: the user's own, else the tables of genai-prices."""

    def __init__(self) -> None:
        self.own: dict[str, ModelPrice] = {}

    def set(
        self, name: str, *, input: object, output: object, cached: object = None, cache_write: object = None  # noqa: A002 # the usual words
    ) -> ModelPrice:  # fmt: skip
        """Set the user's price for a model from now on.

        Raises:
            LLMConfigError: a price is not a number, or is negative.
        """
        if not isinstance(name, str) or not name.strip():
            raise LLMConfigError(f"a price needs the name of a model, not {brief_repr(name)}")
        price = ModelPrice(
            _price(input, "input"),
            _price(output, "output"),
            None if cached is None else _price(cached, "cached"),
            None if cache_write is None else _price(cache_write, "cache_write"),
        )
        self.own[name] = price
        return price

    def cost(
        self,
        asked: AskedModel,
        usage: Usage,
        *,
        replied: str | None = None,
        tier: object = None,
    ) -> Cost | None:
        """Return the cost of a request; None if its tokens or the price of its model are unknown.

        Args:
            asked: the requested model.
            usage: its tokens.
            replied: the model in the reply.
            tier: the `service_tier` in the reply. The tables have only the default tier.
        """
        is_known = usage.input_tokens is not None and usage.output_tokens is not None
        for name in (*asked.names, replied):
            if is_known and name is not None and name in self.own:
                return Cost(self.own[name].of(usage))
        stated = dollars(usage.raw.get("cost")) if _says_its_bill(asked) else None
        if stated is not None:
            return Cost(stated)
        if not is_known:
            return None
        cost = self._listed(asked, usage, replied)
        return Cost(cost.usd, cost.is_estimate or tier not in _USUAL_TIERS) if cost is not None else None

    def _listed(self, asked: AskedModel, usage: Usage, replied: str | None) -> Cost | None:
        """Return the cost from the tables: by the requested name, unless another model replied."""
        is_alias = bool(replied) and bool(asked.model) and str(replied).startswith(asked.model)
        names = [asked.model, replied] if is_alias or not replied else [replied, asked.model]
        costs = [_listed_cost(name, asked, usage) for name in names if name]
        known = [cost for cost in costs if cost is not None]
        return next((cost for cost in known if not cost.is_estimate), known[0] if known else None)


def _says_its_bill(asked: AskedModel) -> bool:
    """Return True if the cost in the reply is the billed cost: for OpenRouter and for a user's client."""
    if asked.base_url is None:
        return not asked.provider
    host = urlsplit(asked.base_url).hostname or ""
    return host == _BILLS or host.endswith(f".{_BILLS}")


def _listed_cost(model: str, asked: AskedModel, usage: Usage) -> Cost | None:
    if not asked.provider and asked.base_url is None:
        return None
    try:
        return _priced(model, asked, usage)
    except Exception:  # noqa: BLE001 # unknown model, invalid tokens, ...: a missing price must not lose the reply
        return None


def _priced(model: str, asked: AskedModel, usage: Usage) -> Cost | None:
    from genai_prices import Usage as Counts
    from genai_prices import calc_price

    read, written = usage.cached_tokens or 0, usage.cache_write_tokens or 0
    long_lived = _long_lived(usage)
    counts = Counts(
        input_tokens=max(usage.input_tokens or 0, read + written),
        output_tokens=usage.output_tokens,
        **({"cache_read_tokens": read} if read else {}),
        **({"cache_write_tokens": written} if written else {}),
        **({"cache_write_1h_tokens": long_lived} if 0 < long_lived <= written else {}),
    )
    where: dict[str, Any] = (
        {"provider_id": asked.provider} if asked.provider else {"provider_api_url": asked.base_url}
    )
    priced = calc_price(counts, model, **where)
    is_exact = _is_named(priced.model, model)
    return None if is_exact is None else Cost(priced.total_price, is_estimate=not is_exact)


def _long_lived(usage: Usage) -> int:
    """Return how many tokens were written to Anthropic's cache for an hour, which costs more."""
    creation = usage.raw.get("cache_creation")
    number = creation.get("ephemeral_1h_input_tokens") if isinstance(creation, dict) else 0
    return number if isinstance(number, int) else 0


def _is_named(entry: Any, name: str) -> bool | None:
    """Return True if the tables name the model, and False if they name the undated version of it.

    None if they only have other names with the same beginning: these may be other models at other prices.
    """
    known = {entry.id, *_texts(entry.match)}
    if name in known:
        return True
    return (
        False
        if any(name.startswith(other) and _DATED.fullmatch(name[len(other) :]) for other in known)
        else None
    )


def _texts(match: Any) -> Iterator[str]:
    """Yield the names, and the beginnings of names, that a rule of the tables matches."""
    for attribute in ("equals", "starts_with"):
        text = getattr(match, attribute, None)
        if isinstance(text, str):
            yield text
    for attribute in ("or_", "and_"):
        for part in getattr(match, attribute, None) or ():
            yield from _texts(part)


def dollars(value: object) -> Decimal | None:
    """Return an amount of US dollars; None if it is not a number from 0 to `LARGEST_COUNT`."""
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        return None
    try:
        number = Decimal(str(value))
    except ArithmeticError:
        return None
    return number if number.is_finite() and 0 <= number <= LARGEST_COUNT else None


def _price(value: object, what: str) -> Decimal:
    amount = dollars(value)
    if amount is None:
        raise LLMConfigError(
            f"{what} must be the price of a million tokens in US dollars, at least 0, not {brief_repr(value)}"
        )
    return amount
