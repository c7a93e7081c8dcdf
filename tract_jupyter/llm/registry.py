"""The models of a tract: the model of each kind of request, and models by name.

A profile is data and may come from anywhere, so it only names a model and a credential. The user registers these names
in `t.models`. They last as long as the tract is open: neither a registered model nor a key is stored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import LLMConfigError, nearest
from tract_jupyter.llm.configured import MODEL_OPERATIONS, ConfiguredClient, settings_of
from tract_jupyter.llm.connections import (
    Clients,
    Credential,
    ModelConnection,
    checked_name,
    http_client,
    key_text,
)
from tract_jupyter.llm.keys import KeySource, hidden_address, masked
from tract_jupyter.llm.providers import (
    EXAMPLE,
    HOW_TO_CHOOSE,
    OPENAI,
    OPENAI_KEY,
    PROVIDERS,
    provider_of,
    unknown_model,
)
from tract_jupyter.llm.spending import Spending
from tract_jupyter.models import brief_repr, check_choice, no_reader, repr_of_whole

if TYPE_CHECKING:
    from tract_jupyter.llm.cassette import Cassette
    from tract_jupyter.llm.configured import ModelOperation
    from tract_jupyter.llm.prices import ModelPrice
    from tract_jupyter.models import LLMClient, Reader

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/-]{0,99}")


@dataclass(eq=False)
class _Choice:
    """The chosen model and the options of each kind of request. The model under None is for all other kinds."""

    purposes: dict[ModelOperation | None, ModelConnection]
    settings: dict[str, dict[str, Any]]

    def copy(self) -> _Choice:
        settings = {operation: dict(options) for operation, options in self.settings.items()}
        return _Choice(dict(self.purposes), settings)

    def choose(self, connection: ModelConnection | None, operation: ModelOperation | None) -> None:
        if operation is not None:
            check_choice(operation, MODEL_OPERATIONS, "operation")
            # the name of another client's model is meaningless for this client
            self.settings.get(operation, {}).pop("model", None)
        if connection is None:
            self.purposes.pop(operation, None)
        else:
            self.purposes[operation] = connection


_LENT: Final[ContextVar[Mapping[object, _Choice]]] = ContextVar("tract_models_lent", default={})  # noqa: B039 # never written to
"""Choices for this context only, by the `_key` of their `Models`."""


class Models(Mapping[str, ModelConnection]):
    """The models of a tract: the model of each kind of request, and models by name.

    Profiles name a registered model as `providerRef`, and a credential as `credentialRef`.

    Args:
        spending: sends the requests.
        cassette: records requests, or replays them.
        read: returns the bytes of attachments.

    Attributes:
        clients: the clients of models with an address.
        replies: the kind of request of replies; another kind if the conversation is not a user's chat.
        follows: returns the models of the parent tract. The parent's choice applies until a choice is made here. If it
            returns None, the parent's last choice applies.
        without_images: models that refused images. They get no images of tool results.
    """

    def __init__(
        self,
        spending: Spending | None = None,
        cassette: Cassette | None = None,
        read: Reader = no_reader,
    ) -> None:
        self.spending = spending or Spending()
        self.cassette = cassette
        self.read = read
        self.clients = Clients(cassette)
        self.replies: ModelOperation = "chat"
        self.follows: Callable[[], Models | None] | None = None
        self.without_images: set[str] = set()
        self._own = _Choice({}, {})
        self._key = object()
        self._connections: dict[str, ModelConnection] = {}
        self._credentials: dict[str, Credential] = {}

    def __getitem__(self, name: str) -> ModelConnection:
        if name not in self._connections:
            raise KeyError(
                f"no model is registered as {name!r}; add it with add(NAME, MODEL). The attribute "
                "`asked` lists the models in use"
            )
        return self._connections[name]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._connections))

    def __len__(self) -> int:
        return len(self._connections)

    # --- the model of each kind of request

    def use(
        self,
        model: str | LLMClient | Callable[..., Any] | ModelConnection | None,
        *,
        operation: ModelOperation | None = None,
        api_key: str | None = None,
        base_url: str | None = None,
    ) -> ModelConnection | None:
        """Choose the model for later requests: `t.models.use("openai/gpt-6-luna")`. No request is sent yet.

        The key comes from `api_key`, the environment (`OPENAI_API_KEY`, ...) or the system's keyring, in this order. It
        is read again for each request. It is never stored or displayed.

        Args:
            model: one of these values. None removes the choice.

                * `PROVIDER/NAME` (openai, anthropic, ollama, openrouter, gemini);
                * the name of a registered model, or `NAME` with `base_url`;
                * an object with `chat(messages, **options)`;
                * a function `f(messages, **options)` that returns a text or a response in OpenAI's shape;
                * a connection.
            operation: the kind of request: `chat`, `compress`, `merge`, `tool_result`, `consult` or `orchestrate`. By
                default, the model serves all kinds without their own choice.
            api_key: the key. It is kept as long as this tract is open.
            base_url: the address, with its version. With a plain `NAME`, only `api_key` is sent to this address.

        Returns:
            The new model, or None.

        Raises:
            ContentError: the kind of request is unknown.
            LLMConfigError: the model is unknown, or an argument is invalid. The earlier choice stays.
        """
        # before anything can fail: a traceback may show variables
        api_key, base_url = masked(api_key), hidden_address(base_url)
        if model is None and (api_key is not None or base_url is not None):
            raise LLMConfigError(f"api_key and base_url need a model: pass one, such as model={EXAMPLE!r}")
        connection = None if model is None else self._written(model, api_key, base_url)
        self._to_change().choose(connection, operation)
        return connection

    @contextmanager
    def lent(
        self, model: str | LLMClient | Callable[..., Any] | None = None, operation: ModelOperation = "chat"
    ) -> Iterator[None]:
        """Use another model for one kind of request in the block. Choices in the block end with it.

        Args:
            model: as for `use`, or the name of another model of the same client. None: the same model.
            operation: the kind of request.

        Raises:
            LLMConfigError: the model is unknown.
        """
        choice = self._now.copy()
        if isinstance(model, str) and self.named(model, operation) is None:
            choice.settings.setdefault(operation, {})["model"] = checked_name(model)
        elif model is not None:
            choice.choose(self._written(model, None, None), operation)
        token = _LENT.set({**_LENT.get(), self._key: choice})
        try:
            yield
        finally:
            _LENT.reset(token)

    def named(self, name: str, operation: ModelOperation = "chat") -> ModelConnection | None:
        """Return the registered or `PROVIDER/NAME` model with this name. None for another model of the same client.

        A name with a slash can mean the same client only if the client's own model has a slash: openrouter's models are
        called `vendor/model`.

        Args:
            name: the name as typed by the user.
            operation: the kind of request whose client is used; see `use`.

        Raises:
            LLMConfigError: the model is unknown.
        """
        if name in self or provider_of(name.strip()) is not None:
            return self._written(name, None, None)
        here = self.connection(operation)
        has_slash = here is not None and "/" in (here.model or "")
        if "/" in name and not (has_slash and all(name.strip().partition("/"))):
            raise unknown_model(name, self)
        return None

    def _written(self, model: object, api_key: object, base_url: str | None) -> ModelConnection:
        """Return the connection for the arguments of `use`."""
        key = None if api_key is None else KeySource.of_given(api_key)
        if isinstance(model, ModelConnection):
            return model
        if not isinstance(model, str):
            return _of_object("", model, None, [base_url, key])
        if base_url is None and key is None and model in self:
            return self[model]
        if key is not None and base_url is None and "/" not in model:
            return _checked(ModelConnection.of_provider(PROVIDERS["openai"], checked_name(model), key=key))
        return _checked(self._of_text(model, base_url, key))

    def _of_text(self, model: str, base_url: str | None, key: KeySource | None) -> ModelConnection:
        """Return the connection to `PROVIDER/NAME`, or to `NAME` at an address."""
        provider = provider_of(model.strip())
        if provider is not None:
            return ModelConnection.of_provider(*provider, base_url=base_url, key=key)
        name = checked_name(model)
        if base_url is None:
            raise unknown_model(name, self)
        return ModelConnection(name, base_url, name, key)

    def choose_like(self, other: Models, *, if_lent: bool = False) -> None:
        """Use the current models and settings of another tract.

        Args:
            other: the models of the other tract.
            if_lent: only if they were chosen for this context alone. Otherwise the tract follows them.
        """
        if not if_lent or other._key in _LENT.get():
            self.follows, self._own = None, other._now.copy()

    def take_over(self, other: Models) -> None:
        """Use another tract's models, keys, budget and costs from now on. The other tract is no longer used."""
        self._connections, self._credentials = dict(other._connections), dict(other._credentials)
        self.choose_like(other)
        self.spending.account = other.spending.account

    def configure(
        self,
        model: str | None = None,
        *,
        operation: ModelOperation = "chat",
        temperature: float | None = None,
        max_tokens: int | None = None,
    ) -> dict[str, Any]:
        """Set the options of one kind of request, from now on. The client chooses omitted options.

        Args:
            model: another model of the same client, by the client's name for it. For another client, use `use`.
            operation: `chat` for replies, `compress` for summaries, `merge` for guidance on conflicts, `tool_result`
                for shorter tool results, `consult` for a model that decides about a request, `orchestrate` for
                orchestrators.
            temperature: the variation of the replies, 0 or greater.
            max_tokens: the maximum length of a reply, 1 or greater.

        Returns:
            The current options of such requests. Options of a call, as in `generate(model=...)`, take precedence.

        Raises:
            ContentError: the kind of request is unknown.
            LLMConfigError: a value cannot be sent.
        """
        now = self._to_change()
        settings = now.settings[operation] = settings_of(operation, model, temperature, max_tokens)
        return dict(settings)

    @property
    def _now(self) -> _Choice:
        """The choice for this context."""
        lent = _LENT.get().get(self._key)
        if lent is not None:
            return lent
        other = None if self.follows is None else self.follows()
        if other is not None:
            self._own = other._now  # noqa: SLF001 # its own class
        return self._own

    def _to_change(self) -> _Choice:
        """Return the choice for this context for a change. After that, the tract follows no other tract."""
        now = self._now
        if self.follows is not None and now is self._own:
            self.follows, now = None, now.copy()
            self._own = now
        return now

    @property
    def purposes(self) -> dict[ModelOperation | None, ModelConnection]:
        """The chosen models by kind of request. The model under None serves all other kinds."""
        return dict(self._now.purposes)

    @property
    def asked(self) -> tuple[str, ...]:
        """The chosen models with their kinds of requests, a line each."""
        purposes = self.purposes
        usual = purposes.pop(None, None)
        lines = [] if usual is None else [f"In use: {usual}"]
        return (
            *lines,
            *(f"In use for {name}: {connection}" for name, connection in purposes.items()),
        )

    def secrets(self) -> list[str]:
        """Return the keys in use, for masking. The method does not read a parent tract's store."""
        lent = _LENT.get().get(self._key, self._own)
        chosen = [*self._own.purposes.values(), *lent.purposes.values()]
        entered = [
            str(connection.key.given)
            for connection in chosen
            if connection.key is not None and connection.key.given is not None
        ]
        client_secrets = [
            text
            for connection in (*chosen, *self.values())
            for text in getattr(connection.client, "secrets", ())
        ]
        return [*entered, *client_secrets, *self.clients.keys()]

    # --- clients

    def connection(self, operation: ModelOperation) -> ModelConnection | None:
        """Return the model for one kind of request, or None."""
        operation, purposes = self._kind(operation), self._now.purposes
        connection = purposes.get(operation) or purposes.get(None)
        return (
            connection
            if connection is not None or self.cassette is None
            else self.cassette.stand_in(operation)
        )

    def check(self, operation: ModelOperation = "chat") -> None:
        """Check that one kind of request has a model with a key.

        Raises:
            LLMConfigError: the model or the key is missing. The message has the line to type.
        """
        self.clients.of(self._required(operation))

    def available(self, operation: ModelOperation) -> LLMClient | None:
        """Return the client for one kind of request; None if no model is configured."""
        connection = self.connection(operation)
        return None if connection is None else self._metered(connection, operation)

    def client_for(self, operation: ModelOperation, client: LLMClient | None = None) -> ConfiguredClient:
        """Return the client for one kind of request, with its settings. It respects the budget and records costs.

        Args:
            operation: see `use`.
            client: the client to use; by default the configured one.

        Raises:
            ContentError: the kind of request is unknown.
            LLMConfigError: no model is configured. The message has the line to type.
        """
        check_choice(operation, MODEL_OPERATIONS, "operation")
        connection = self._required(operation) if client is None else ModelConnection("", client=client)
        return self._metered(connection, operation)

    def options(self, operation: ModelOperation) -> dict[str, Any]:
        """Return the options of one kind of request."""
        return self._now.settings.get(self._kind(operation), {})

    def _metered(
        self, connection: ModelConnection, operation: ModelOperation, client: LLMClient | None = None
    ) -> ConfiguredClient:
        """Return a client of this tract for a connection. The client respects the budget and records costs."""
        settings = {} if client is not None else self.options(operation)
        if connection.client is not None and connection.model is not None:
            settings = {"model": connection.model, **settings}
        return ConfiguredClient(self, connection, self._kind(operation), settings, client)

    def _kind(self, operation: ModelOperation) -> ModelOperation:
        return self.replies if operation == "chat" else operation

    def _required(self, operation: ModelOperation) -> ModelConnection:
        connection = self.connection(operation)
        if connection is None:
            raise LLMConfigError(
                f"no language model is configured; {HOW_TO_CHOOSE}. tract.configure_llm(client) uses your own "
                "object with chat(messages, **options)"
            )
        return connection

    def price(
        self, name: str, *, input: float, output: float, cached: float | None = None, cache_write: float | None = None  # noqa: A002 # the usual words
    ) -> ModelPrice:  # fmt: skip
        """Set the price of a model, in US dollars per million tokens. It overrides the price tables from now on.

        Args:
            name: the registered name, `PROVIDER/NAME`, or the provider's name.
            input: for the prompt.
            output: for the reply, with the reasoning.
            cached: for cache reads; by default as `input`.
            cache_write: for cache writes; by default as `input`.

        Raises:
            LLMConfigError: a price is not a number, or is negative.
        """
        return self.spending.account.prices.set(
            name, input=input, output=output, cached=cached, cache_write=cache_write
        )

    # --- models by name

    @property
    def credentials(self) -> tuple[Credential, ...]:
        """All credentials, by name."""
        return tuple(self._credentials[name] for name in sorted(self._credentials))

    def add(
        self, name: str, client: str | LLMClient | Callable[..., Any] | None = None, *, base_url: str | None = None,
        model: str | None = None, key_env: str | None = None, key_ring: str | None = None, dialect: str | None = None,
        replace: bool = False, **options: Any,
    ) -> ModelConnection:  # fmt: skip
        """Register a model under a name: `t.models.add("clever", "anthropic/claude-sonnet-5-5")`.

        Args:
            name: the name for profiles.
            client: the model, as for `use`: `PROVIDER/NAME`, with the provider's dialect, address and key; `NAME` with
                `base_url`; or an object with `chat(messages, **options)`, or a function `f(messages, **options)` that
                returns a text or a response in OpenAI's shape.
            base_url: the address; by default the provider's.
            model: the provider's name for the model, if `client` does not name it. With a `base_url` it is sent
                unchanged.
            key_env: the environment variable with the key. Without it, no key is sent, except `OPENAI_API_KEY` to
                OpenAI.
            key_ring: the entry of the system's keyring with the key, as `service/user`. Needs the package keyring.
            dialect: the dialect of the address: `chat`, `responses` or `anthropic`. The default is the provider's
                dialect, or `chat` at another address.
            replace: replace an existing model. If the address changes, its credentials are removed.
            options: more options for the client: `timeout`, `max_retries`, ...

        Raises:
            LLMConfigError: the name exists or is invalid, or an argument is invalid.
        """
        base_url = hidden_address(base_url)
        _check_name(name, "model")
        if name in self._connections and not replace:
            raise LLMConfigError(
                f"the model {name!r} exists already, at {self[name].place}; use another name, or replace=True"
            )
        if client is None and not any([base_url, model, key_env, key_ring, dialect, options]):
            raise LLMConfigError(
                f"the model {name!r} is not defined: pass its client, its base_url, or a model such as "
                f"{EXAMPLE!r}"
            )
        key = KeySource.of(key_env, key_ring)
        if client is not None and not isinstance(client, str):
            others = [base_url, key_env, key_ring, dialect, *options.values()]
            connection = _of_object(name, client, model, others)
        else:
            if "api_key" in options:
                raise LLMConfigError(
                    "do not pass a key as a value, because it could be stored: use key_env or key_ring"
                )
            address = self._of_address(client, base_url, model, key)
            connection = _checked(address, name=name, options=options, dialect=dialect or address.dialect)
        self.clients.forget(name)
        if name in self and self[name].base_url != connection.base_url:
            self._forget_credentials(name)
        self._connections[name] = connection
        return connection

    def _of_address(
        self, written: str | None, base_url: str | None, model: str | None, key: KeySource | None
    ) -> ModelConnection:
        """Return the connection for the arguments of `add`, without its name."""
        if written is not None and model is not None:
            raise LLMConfigError(
                f"both {brief_repr(written)} and model={brief_repr(model)} name the model; pass only one"
            )
        if written is None and base_url is None and isinstance(model, str) and provider_of(model):
            written = model
        if written is not None and (base_url is None or provider_of(written.strip())):
            return self._of_text(written, base_url, key)
        address, name = OPENAI if base_url is None else base_url, model if written is None else written
        if key is None and str(address).rstrip("/") == OPENAI:
            key = KeySource((OPENAI_KEY,))
        return ModelConnection("", address, None if name is None else checked_name(name), key)

    def add_credential(
        self, name: str, *, of: str, key_env: str | None = None, key_ring: str | None = None, replace: bool = False
    ) -> Credential:  # fmt: skip
        """Register another key for a model. An operation names it as `credentialRef`.

        Args:
            name: the name for profiles.
            of: the model of the key. The key is sent only to this model.
            key_env: see `add`.
            key_ring: see `add`.
            replace: replace an existing credential.

        Raises:
            LLMConfigError: the name exists or is invalid, the model is unknown, or it has no address to send a key to.
        """
        _check_name(name, "credential")
        if name in self._credentials and not replace:
            raise LLMConfigError(f"the credential {name!r} exists already; use another name, or replace=True")
        if self._known(of).base_url is None:
            raise LLMConfigError(
                f"{of!r} is your own object, which has its own key: add another object with the other key"
            )
        key = KeySource.of(key_env, key_ring)
        if key is None:
            raise LLMConfigError(f"the credential {name!r} has no key: pass key_env or key_ring")
        self.clients.forget(of, name)
        credential = self._credentials[name] = Credential(name, of, key)
        return credential

    def remove(self, name: str) -> None:
        """Remove a model with its credentials, or a credential.

        Raises:
            LLMConfigError: no model or credential has this name.
        """
        if name not in self._connections and name in self._credentials:
            credential = self._credentials.pop(name)
            self.clients.forget(credential.connection, name)
            return
        if name not in self._connections:
            there = [*self, *sorted(self._credentials)]
            raise LLMConfigError(
                f"no model or credential is registered as {name!r}, so nothing was removed.{nearest(str(name), there)} "
                f"Registered: {', '.join(map(repr, there)) or 'none'}"
            )
        self.clients.forget(name)
        self._forget_credentials(name)
        del self._connections[name]

    def resolve(
        self, name: str | None, credential: str | None = None
    ) -> tuple[ModelConnection, Credential | None]:
        """Return the connection and credential with these names. A credential alone implies its model.

        Raises:
            LLMConfigError: a name is unknown, or they do not belong together. The message has the line to type.
        """
        if credential is None:
            return self._known(name), None
        selected = self._credentials.get(credential)
        if selected is None:
            raise LLMConfigError(
                f"the credential {credential!r} is unknown, so no request was sent."
                f"{nearest(credential, self._credentials)} "
                f"Type tract.models.add_credential({credential!r}, of={name or 'NAME'!r}, key_env='VARIABLE')"
            )
        if name is not None and selected.connection != name:
            self._known(name)
            raise LLMConfigError(
                f"the credential {credential!r} is a key of {selected.connection!r}, and is not sent to {name!r}; "
                f"use a credential of {name!r}, or none"
            )
        return self._known(selected.connection), selected

    def client(self, name: str | None, credential: str | None = None) -> LLMClient:
        """Return the client of a model, with its key. No request is sent yet.

        Raises:
            LLMConfigError: see `resolve`; or a key is missing.
        """
        connection, other = self.resolve(name, credential)
        return self._metered(connection, "chat", self.clients.of(connection, other))

    def _known(self, name: object) -> ModelConnection:
        connection = self._connections.get(name) if isinstance(name, str) else None
        if connection is None:
            there = ", ".join(map(repr, self)) or "none"
            raise LLMConfigError(
                f"the model {name!r} is unknown, so no request was sent; known models: {there}."
                f"{nearest(str(name), self)} "
                f"Type tract.models.add({name!r}, base_url='https://...', model='...', key_env='VARIABLE')"
            )
        return connection

    def _forget_credentials(self, name: str) -> None:
        for credential in self.credentials:
            if credential.connection == name:
                del self._credentials[credential.name]

    @repr_of_whole
    def __repr__(self) -> str:
        lines = [*self.asked, *(str(self[name]) for name in self)]
        lines += [
            f"{credential.name}: another key of {credential.connection}, {key_text(credential.key)}"
            for credential in self.credentials
        ]
        if not lines:
            return (
                f"No models yet: tract.models.use({EXAMPLE!r}); "
                "tract.models.add('local', base_url='http://localhost:11434/v1', model='...')"
            )
        return "\n".join(["Models:", *(f"  {line}" for line in lines)])

    def __reduce__(self) -> Any:
        raise LLMConfigError("models hold keys, so they cannot be pickled or copied")


def _of_object(name: str, client: object, model: str | None, others: list[object]) -> ModelConnection:
    if any(value is not None for value in others):
        raise LLMConfigError(
            f"{repr(name) if name else 'the model'} is your own object, with its own address and key; pass "
            "either the object or base_url"
        )
    return ModelConnection.of_client(name, client, model)


def _checked(connection: ModelConnection, **changes: Any) -> ModelConnection:
    """Return a changed connection to an address, if a client can be created for it."""
    connection = replace(connection, **changes)
    try:
        http_client(connection, "")
    except TypeError:
        names = ", ".join(connection.options)
        raise LLMConfigError(
            f"a client of the dialect {connection.dialect!r} does not accept all of these options: {names}; it has "
            "timeout, max_retries, backoff, headers and transport"
        ) from None
    return connection


def _check_name(name: object, what: str) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise LLMConfigError(
            f"the name of a {what} must have 1 to 100 letters, digits, '.', '_', ':', '/' and '-'"
        )
