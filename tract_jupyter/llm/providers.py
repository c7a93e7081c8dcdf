"""The providers that a model's name may begin with, as in `openai/NAME`: their addresses, keys and dialects."""

from __future__ import annotations

import json
import os
import re
import time
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import LLMConfigError, nearest
from tract_jupyter.llm.blocks import DIALECTS
from tract_jupyter.llm.keys import KEYRING_SERVICE, KeySource, Secret
from tract_jupyter.models import brief_repr

if TYPE_CHECKING:
    from collections.abc import Mapping

CHAT: Final = "chat"
"""The dialect that most providers speak."""
OPENAI: Final = "https://api.openai.com/v1"
OPENAI_KEY: Final = "OPENAI_API_KEY"
"""The environment variable of OpenAI's key."""


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider whose models are written as `NAME/MODEL`.

    Attributes:
        name: the prefix of such a name.
        base_url: its address, with the version.
        dialect: its dialect.
        own_dialect: the dialect at its own address, if it differs.
        key_variables: the environment variables for its key.
        url_variables: the environment variables for another address.
        needs_key: True if requests need a key.
        prices: its name in the price tables; empty if its models have no prices.
        example: a model with a long lifetime, for examples.
    """

    name: str
    base_url: str
    dialect: str = CHAT
    own_dialect: str = ""
    key_variables: tuple[str, ...] = ()
    url_variables: tuple[str, ...] = ()
    needs_key: bool = True
    prices: str = ""
    example: str = ""

    def address(self) -> str:
        """Return the address from the environment, or else the default address."""
        for variable in self.url_variables:
            value = os.environ.get(variable, "").strip()
            if value:
                return _ollama_url(value) if variable == "OLLAMA_HOST" else value
        return self.base_url

    def key_source(self) -> KeySource:
        """Return the source of its key: the environment, then the system's keyring."""
        return KeySource(
            self.key_variables, KEYRING_SERVICE if self.needs_key else "", self.name, needed=self.needs_key
        )

    def dialect_at(self, base_url: str) -> str:
        """Return its dialect at an address."""
        return self.own_dialect if self.own_dialect and base_url == self.base_url else self.dialect

    @property
    def example_model(self) -> str:
        """A model name with its prefix, for examples."""
        return f"{self.name}/{self.example}"


PROVIDERS: Final = {
    one.name: one
    for one in (
        Provider(
            "openai", OPENAI, own_dialect="responses", key_variables=(OPENAI_KEY,),
            url_variables=("OPENAI_BASE_URL",), prices="openai", example="gpt-6-luna",
        ),
        Provider(
            "anthropic", "https://api.anthropic.com", "anthropic",
            key_variables=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"), url_variables=("ANTHROPIC_BASE_URL",),
            prices="anthropic", example="claude-sonnet-5-5",
        ),
        Provider(
            "ollama", "http://127.0.0.1:11434/v1", key_variables=("OLLAMA_API_KEY",), url_variables=("OLLAMA_HOST",),
            needs_key=False, example="qwen3",
        ),
        Provider(
            "openrouter", "https://openrouter.ai/api/v1", key_variables=("OPENROUTER_API_KEY",), prices="openrouter",
            example="anthropic/claude-sonnet-5.5",
        ),
        Provider(
            "gemini", "https://generativelanguage.googleapis.com/v1beta/openai",
            key_variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"), prices="google", example="gemini-3.8-flash",
        ),
    )
}  # fmt: skip
"""The providers by name, in display order. Documentation uses the model names in `example`."""

EXAMPLE: Final = PROVIDERS["openai"].example_model
"""The example model in messages that ask the user to choose one."""
HOW_TO_CHOOSE: Final = f"type %tract model {EXAMPLE}, or tract.models.use({EXAMPLE!r})"
"""The line that chooses a model, within a sentence."""


def provider_of(model: str) -> tuple[Provider, str] | None:
    """Return the provider that a model's name begins with, and the rest of the name; None if it begins with none."""
    name, slash, rest = model.partition("/")
    provider = PROVIDERS.get(name)
    return (provider, rest) if provider is not None and slash and rest.strip() else None


def unknown_model(model: str, registered: Mapping[str, object]) -> LLMConfigError:
    """Return the error for a name that is neither a provider's model nor registered."""
    prefixes = ", ".join(f"{name}/" for name in PROVIDERS)
    close = nearest(model.partition("/")[0], PROVIDERS) if "/" in model else nearest(model, registered)
    known = f"; registered here: {', '.join(map(repr, registered))}" if registered else ""
    close = "" if model.partition("/")[0] in PROVIDERS else close
    return LLMConfigError(
        f"{brief_repr(model)} does not name a model, so no request was sent: write PROVIDER/NAME with one of "
        f"{prefixes}, such as {EXAMPLE}, or a plain NAME with base_url (%tract model NAME --base-url URL)"
        f"{known}.{close}"
    )


def make_client(dialect: str, model: str | None, *, base_url: str, api_key: str, **options: Any) -> Any:
    """Return a client of a dialect."""
    if dialect not in DIALECTS:
        raise LLMConfigError(f"dialect must be {' or '.join(map(repr, DIALECTS))}, not {brief_repr(dialect)}")
    module, name = _CLIENTS[dialect]
    client = getattr(import_module(f"tract_jupyter.llm.{module}"), name)
    return client(model, base_url=base_url, api_key=Secret(api_key), **options)


def is_package_client(client: object) -> bool:
    """Return True if a client is of a class of this package, not of a subclass."""
    classes = (getattr(import_module(f"{__package__}.{module}"), name) for module, name in _CLIENTS.values())
    return any(type(client) is each for each in classes)


_CLIENTS: Final = {
    "chat": ("openai", "OpenAIClient"),
    "responses": ("responses", "ResponsesClient"),
    "anthropic": ("anthropic", "AnthropicClient"),
}
_HAS_SCHEME: Final = re.compile(r"[a-z]+://")
_OLLAMA_PORT: Final = 11434


def _ollama_url(host: str) -> str:
    """Return the address for `OLLAMA_HOST`, the listening address of a server: `0.0.0.0`, `host:port`, or a URL."""
    url = host if _HAS_SCHEME.match(host) else f"http://{host}"
    scheme, _, place = url.rstrip("/").partition("://")
    name, colon, port = place.partition(":")
    name = "127.0.0.1" if name in {"", "0.0.0.0"} else name  # noqa: S104 # a server that listens on all addresses is also local
    if not colon and scheme == "http":
        port = str(_OLLAMA_PORT)
    place = f"{name}:{port}" if port else name
    return f"{scheme}://{place}" if place.endswith("/v1") else f"{scheme}://{place}/v1"


_LOOK: Final = 2.0  # seconds
_LONGEST_LIST: Final = 1_000_000  # bytes


def served_models(base_url: str) -> list[str] | None:
    """Return the models of a server with OpenAI's dialect, such as a local Ollama; None if it does not answer."""
    import httpx

    body, until = b"", time.monotonic() + _LOOK
    plain = {"Accept-Encoding": "identity"}
    try:
        with httpx.stream("GET", f"{base_url}/models", headers=plain, timeout=_LOOK) as response:
            for part in response.iter_raw():
                body += part
                if len(body) > _LONGEST_LIST or time.monotonic() > until:
                    return None
        return [str(entry["id"]) for entry in json.loads(body)["data"]]
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError, RecursionError):
        return None
