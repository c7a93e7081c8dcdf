"""A connection to a model: an address with a key, or an object of the user's; and its client."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from inspect import iscoroutinefunction, signature
from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import LLMConfigError, LLMResponseError
from tract_jupyter.llm.keys import KeySource, Secret, hidden_address
from tract_jupyter.llm.prices import AskedModel
from tract_jupyter.llm.providers import CHAT, PROVIDERS, Provider, make_client
from tract_jupyter.llm.recording import RecordedModel
from tract_jupyter.models import admin_limits, brief_repr

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tract_jupyter.llm.cassette import Cassette
    from tract_jupyter.models import LLMClient


@dataclass(frozen=True, slots=True)
class ModelConnection:
    """The connection of a model name.

    Attributes:
        name: the registered name, or `PROVIDER/NAME`; empty for an object without a name.
        base_url: the address; None for a user's object.
        model: the provider's name of the model, unless a request names another one.
        key: the source of the key; None if it needs none, or is an object.
        client: the user's own object; None if the client is created from the other attributes.
        options: further options of a created client.
        provider: the provider, if the name has one; else empty.
        dialect: the dialect of the address.
    """

    name: str
    base_url: str | None = None
    model: str | None = None
    key: KeySource | None = None
    client: LLMClient | None = field(default=None, repr=False)
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    provider: str = ""
    dialect: str = CHAT

    @classmethod
    def of_client(cls, name: str, client: object, model: str | None = None) -> ModelConnection:
        """Return the connection to an object with `chat`, or to a function."""
        is_client = callable(getattr(client, "chat", None)) and not isinstance(client, type)
        if not is_client and (isinstance(client, type) or not callable(client)):
            raise LLMConfigError(
                f"a model must be an object with chat(messages, **options) or a function, not {type(client).__name__}; "
                "pass an address as base_url="
            )
        if not is_client:
            _check_function(client)
        target: Any = client
        return cls(name, model=model, client=target if is_client else _Function(target))

    @classmethod
    def of_provider(
        cls, provider: Provider, model: str, *, base_url: str | None = None, key: KeySource | None = None
    ) -> ModelConnection:
        """Return the connection to a provider's model. The default address and key are the provider's."""
        place = hidden_address(provider.address() if base_url is None else base_url).rstrip("/")
        return cls(
            f"{provider.name}/{model}", place, model, key or provider.key_source(), provider=provider.name,
            dialect=provider.dialect_at(place),
        )  # fmt: skip

    @property
    def place(self) -> str:
        """The address or object, in words."""
        what = "function" if isinstance(self.client, _Function) else type(self.client).__name__
        return self.base_url or f"your {what}"

    def check_allowed(self) -> None:
        """Check the address and the model, without a key. Each request checks the user's own objects."""
        if self.base_url is not None:
            client = make_client(self.dialect, self.model, base_url=self.base_url, api_key="")
            url = f"{client.base_url}{client.path}"
            admin_limits().check_request(url, client.path, {"model": self.model})

    def asked(self, model: object = None) -> AskedModel:
        """Return the model of a request, for its price.

        Args:
            model: the model that the request names, if any.
        """
        default = getattr(self.client, "model", None)
        requested = next(
            (
                candidate
                for candidate in (model, self.model, default)
                if isinstance(candidate, str) and candidate
            ),
            "",
        )
        base_url = self.base_url or getattr(self.client, "base_url", None)
        provider = PROVIDERS.get(self.provider)
        full = f"{self.provider}/{requested}" if self.provider else requested
        is_own = model is None or model == self.model
        label = (self.name if is_own else "") or full or self.place
        names = tuple(dict.fromkeys(filter(None, [label, full, requested])))
        return AskedModel(
            label,
            requested,
            names,
            provider.prices if provider is not None else "",
            None if provider is not None or not isinstance(base_url, str) else base_url,
        )

    def __str__(self) -> str:
        text = f"{self.model or 'no model named'} at {self.place}, {key_text(self.key)}"
        return text if self.provider or self.name in {"", self.model} else f"{self.name}: {text}"


@dataclass(frozen=True, slots=True)
class Credential:
    """Another key for one model. It is bound to that model, so no profile can send it elsewhere."""

    name: str
    connection: str
    key: KeySource


def key_text(key: KeySource | None) -> str:
    """Describe the source of a key, and whether the key is set."""
    if key is None:
        return "no key"
    if key.given is not None:
        return "key entered in this session"
    state = "set" if key.is_set else "not set" if key.needed else "none needed"
    return f"key from {key} ({state})"


def _check_function(function: Any) -> None:
    """Check that a function can replace a client."""
    if iscoroutinefunction(function):
        raise LLMConfigError(
            "an async function cannot be a client: pass a plain one, such as lambda messages, **options: "
            "asyncio.run(ask(messages))"
        )
    with suppress(TypeError, ValueError):  # a function in C may have no signature
        parameters = signature(function)
        try:
            parameters.bind([])
        except TypeError as error:
            raise LLMConfigError(
                f"a client function must accept (messages, **options), but this one does not: {error}"
            ) from None


@dataclass(frozen=True, slots=True)
class _Function:
    """A function used as a client."""

    function: Callable[..., Any]

    def chat(self, messages: list[dict[str, Any]], **options: Any) -> dict[str, Any]:
        """Call the function. A returned string is a whole reply."""
        reply: Any = self.function(messages, **options)
        if isinstance(reply, dict):
            return reply
        if not isinstance(reply, str):
            raise LLMResponseError(
                f"your function returned {brief_repr(reply)}, so nothing was committed. Return the text of the "
                "reply, or a response in OpenAI's shape, {'choices': [{'message': {'content': 'Hello.'}}]}"
            )
        return {"choices": [{"message": {"role": "assistant", "content": reply}}]}


class Clients:
    """The clients of connections. Each is created on first use, and again after its key changes."""

    def __init__(self, cassette: Cassette | None = None) -> None:
        self._cassette = cassette
        self._cached: dict[tuple[str, str | None], tuple[ModelConnection, str, LLMClient]] = {}

    def keys(self) -> list[str]:
        """Return the keys of the clients."""
        return [key for _, key, _ in self._cached.values() if key]

    def of(self, connection: ModelConnection, credential: Credential | None = None) -> LLMClient:
        """Return the client of a connection, with its key. No request is sent yet. A replay needs no real client."""
        if self._cassette is not None and self._cassette.is_replaying:
            return RecordedModel()
        if connection.client is not None:
            return connection.client
        source = connection.key if credential is None else credential.key
        key = (
            "" if source is None else source.read(connection.name if credential is None else credential.name)
        )
        place = (connection.name, None if credential is None else credential.name)
        cached = self._cached.get(place)
        if cached is None or cached[0] is not connection or cached[1] != key:
            cached = self._cached[place] = (connection, key, http_client(connection, key, credential))
        return cached[2]

    def forget(self, name: str, credential: str | None = None) -> None:
        """Remove the clients of a model, or the client of one of its credentials."""
        for place in [place for place in self._cached if place[0] == name and credential in {None, place[1]}]:
            del self._cached[place]


def http_client(connection: ModelConnection, key: str, credential: Credential | None = None) -> LLMClient:
    """Return a client for an address. Its errors name the source of the key and the model."""
    name = connection.name
    source = connection.key if credential is None else credential.key
    typed = name if connection.provider else f"{connection.model or name} --base-url URL"
    if source is None:
        about_key = (
            f"Model {name!r} sends no key: enter one with %tract model {typed} --key, or set one with "
            f"tract.models.add({name!r}, ..., key_env='VARIABLE', replace=True)"
        )
    else:
        whose = f"model {name!r}" if credential is None else f"credential {credential.name!r}"
        about_key = f"Check the key of {whose}, which comes from {source.location()}"
        if credential is None:
            about_key += f"; enter another key with %tract model {typed} --key"
    about_model = (
        f"name one in the request, or for all in tract.models.add({name!r}, ..., model='...', replace=True)"
    )
    advice = {"about_key": about_key, "about_model": about_model}
    # an empty key, not None: OpenAI's key must not go to another address
    client: LLMClient = make_client(
        connection.dialect, connection.model, base_url=connection.base_url or "", api_key=Secret(key),
        **{**advice, **connection.options},
    )  # fmt: skip
    return client


def checked_name(model: object) -> str:
    """Return the name of a model."""
    if not isinstance(model, str) or not model.strip():
        raise LLMConfigError(f"model must be a model name that the provider knows, not {brief_repr(model)}")
    return model.strip()
