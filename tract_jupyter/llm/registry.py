"""Language models by name: their addresses, where their keys come from, and which one is asked for what.

A profile is data and may come from anywhere, so it only names a model and a credential; a person registers these names
in `t.models`. The registry lives as long as its tract is open: neither it nor a key is stored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import LLMConfigError, nearest
from tract_jupyter.llm.configured import MODEL_OPERATIONS, ConfiguredLLM, purpose_text
from tract_jupyter.llm.connections import Credential, ModelConnection, checked_name, http_client, key_text
from tract_jupyter.llm.keys import KeySource, hidden_address, masked
from tract_jupyter.llm.openai import KEY_VARIABLE, OPENAI
from tract_jupyter.llm.providers import CHAT, EXAMPLE, PROVIDERS, provider_of, unknown_model
from tract_jupyter.models import brief_repr, check_choice, repr_of_whole

if TYPE_CHECKING:
    from tract_jupyter.llm.configured import ModelOperation
    from tract_jupyter.llm.prices import ModelPrice
    from tract_jupyter.models import LLMClient

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/-]{0,99}")


class Models(Mapping[str, ModelConnection]):
    """Which models a tract asks; models by the name that profiles use as `providerRef`, credentials by `credentialRef`.

    Attributes:
        default: who is asked where no name is given: what `use`, `configure` and `Tract.configure_llm` set.
    """

    def __init__(self, default: ConfiguredLLM | None = None) -> None:
        self.default = default or ConfiguredLLM()
        self._connections: dict[str, ModelConnection] = {}
        self._credentials: dict[str, Credential] = {}

    def __getitem__(self, name: str) -> ModelConnection:
        if name not in self._connections:
            raise KeyError(
                f"no model is registered as {name!r}; add(NAME, MODEL) does, and `asked` says who is asked"
            )
        return self._connections[name]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._connections))

    def __len__(self) -> int:
        return len(self._connections)

    # --- who is asked

    def use(
        self,
        model: str | LLMClient | Callable[..., Any] | None,
        *,
        operation: ModelOperation | None = None,
        api_key: str | None = None,
        base_url: str | None = None,
    ) -> ModelConnection | None:
        """Choose the model that is asked from now on: `t.models.use("openai/gpt-6-luna")`. Nothing is asked yet.

        A key comes from `api_key`, or else from the environment (`OPENAI_API_KEY`, ...), or else from the system's
        keyring, each time that a request is sent. It is never stored or shown.

        Args:
            model: `PROVIDER/NAME` (openai, anthropic, ollama, openrouter, gemini), the name of a registered model, or
                `NAME` with `base_url`; or an object with `chat(messages, **options)`, or a function `f(messages,
                **options)` that returns a text or a response in OpenAI's shape. None: none is asked any more.
            operation: ask it for this kind of request only: `chat`, `compress`, `merge`, `tool_result`, `consult` or
                `review`; for all that have no other one if left out. `orchestrate` is a name for callers of
                `client_for`: nothing in this package asks for it by itself.
            api_key: the key, kept as long as this tract is open.
            base_url: the address, with its version. To one that is given with a plain `NAME`, no other key is sent.

        Returns:
            What is asked now; None if nothing is.

        Raises:
            ContentError: there is no such kind of request.
            LLMConfigError: it names no model, or an argument cannot be used; what was asked before still is.
        """
        # before anything can fail: a traceback may show variables
        api_key, base_url = masked(api_key), hidden_address(base_url)
        if model is None and (api_key is not None or base_url is not None):
            raise LLMConfigError(
                f"api_key and base_url belong to a model: give one, too, such as model={EXAMPLE!r}"
            )
        made = None if model is None else self._connection(model, api_key, base_url)
        self.default.choose(made, operation)
        return made

    @contextmanager
    def lent(
        self, model: str | LLMClient | Callable[..., Any], operation: ModelOperation = "chat"
    ) -> Iterator[ModelConnection]:
        """Have a model asked for one kind of request meanwhile, in this context alone; see `use`."""
        made = self._connection(model, None, None)
        with self.default.apart():
            self.default.choose(made, operation)
            yield made

    def named(self, name: str, operation: ModelOperation = "chat") -> ModelConnection | None:
        """Return the model of a name: a registered one, or `PROVIDER/NAME`; None for another one of the same client.

        With a slash that is so only where the client's own model has one: openrouter's are called `vendor/model`.

        Args:
            name: as somebody has typed it.
            operation: whose client is meant; see `use`.

        Raises:
            LLMConfigError: it names no model.
        """
        if name in self or provider_of(name.strip()) is not None:
            return self._connection(name, None, None)
        here = self.default.connection(operation)
        has_slash = here is not None and "/" in (here.model or "")
        if "/" in name and not (has_slash and all(name.strip().partition("/"))):
            raise unknown_model(name, self)
        return None

    def _connection(self, model: object, api_key: object, base_url: str | None) -> ModelConnection:
        """Return what `use` is given, as a connection."""
        key = None if api_key is None else KeySource.of_given(api_key)
        if not isinstance(model, str):
            return _of_object("", model, None, [base_url, key])
        if base_url is None and key is None and model in self:
            return self[model]
        found = provider_of(model.strip())
        if found is not None:
            return _checked(ModelConnection.of_provider(*found, base_url=base_url, key=key))
        name = checked_name(model)
        if base_url is not None:
            return _checked(ModelConnection(name, base_url, name, key))
        if key is None or "/" in name:
            raise unknown_model(name, self)
        return _checked(ModelConnection.of_provider(PROVIDERS["openai"], name, key=key))

    def take_over(self, other: Models) -> None:
        """Use another tract's models, keys, budget and bill from now on. The other tract is not used any more."""
        self._connections, self._credentials = dict(other._connections), dict(other._credentials)
        self.default.take_over(other.default)
        self.default.spending.account = other.default.spending.account

    def configure(
        self,
        model: str | None = None,
        *,
        operation: ModelOperation = "chat",
        temperature: float | None = None,
        max_tokens: int | None = None,
    ) -> dict[str, Any]:
        """Choose what one kind of request is sent with, from now on; what is left out is the client's own choice.

        Args:
            model: another model of the same client, by the name that the client knows it by; for another client, `use`.
            operation: `chat` for replies, `compress` for summaries, `merge` for guidance on conflicts, `tool_result`
                for shorter answers of tools, `consult` where a model decides about a pending; `review` for a
                look at calls before a person is asked; `orchestrate` for callers of `client_for`.
            temperature: from 0 on; how much the replies vary.
            max_tokens: how long a reply may be, from 1 on.

        Returns:
            The options that such requests have now. Those of a call, as in `generate(model=...)`, come first.

        Raises:
            ContentError: there is no such kind of request.
            LLMConfigError: a value cannot be sent.
        """
        return self.default.set_model(operation, model, temperature, max_tokens)

    def secrets(self) -> list[str]:
        """Return the keys that are in use, for what must not show them."""
        own = [text for one in self.values() for text in getattr(one.client, "secrets", ())]
        return [*self.default.secrets(), *own]

    @property
    def asked(self) -> tuple[str, ...]:
        """Who is asked for what, a line each; empty if nobody is."""
        usual, chosen = self.default.default, self.default.chosen.items()
        told = [] if usual is None else [f"Asked: {usual}"]
        return (*told, *(f"Asked for {purpose_text(operation)}: {one}" for operation, one in chosen))

    def client_for(self, operation: ModelOperation, client: LLMClient | None = None) -> LLMClient:
        """Return who is asked for one kind of request, with its settings, within the budget, and on the bill.

        Args:
            operation: see `use`.
            client: a client that is to be asked instead of the one that is configured.

        Raises:
            ContentError: there is no such kind of request.
            LLMConfigError: no model is configured; with the line to type.
        """
        check_choice(operation, MODEL_OPERATIONS, "operation")
        if client is None:
            return self.default.for_operation(operation)
        return self.default.metered(ModelConnection("", client=client), operation)

    def price(
        self, name: str, *, input: float, output: float, cached: float | None = None, cache_write: float | None = None  # noqa: A002 # the usual words
    ) -> ModelPrice:  # fmt: skip
        """Say what a model costs, in US dollars for a million tokens; it counts from now on, before any table.

        Args:
            name: as it is registered, as `PROVIDER/NAME`, or as the provider calls it.
            input: of the prompt.
            output: of the reply, with the reasoning.
            cached: of what the provider reads from its cache; as `input` if left out.
            cache_write: of what it writes to its cache; as `input` if left out.

        Raises:
            LLMConfigError: a price is not a number from 0 on.
        """
        return self.default.spending.account.prices.set(
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
            name: what profiles call it.
            client: what is asked, as of `use`: `PROVIDER/NAME`, with the provider's dialect, address and key; `NAME`
                with `base_url`; or an object with `chat(messages, **options)`, or a function `f(messages, **options)`
                that returns a text or a response in OpenAI's shape.
            base_url: its address; the provider's own if left out.
            model: what the provider calls it, where that is not in `client`. With a `base_url` it is sent as it is.
            key_env: the environment variable that has the key. Without one, no key is sent; to OpenAI that of
                `OPENAI_API_KEY`.
            key_ring: the entry of the system's keyring that has it, as `service/user`; needs the package keyring.
            dialect: how the address is talked to: `chat`, `responses` or `anthropic`; the provider's own if left out,
                at another address `chat`.
            replace: let it take the place of another one. If its address is another, the credentials of that one go.
            options: more for the client: `timeout`, `max_retries`, ...

        Raises:
            LLMConfigError: the name is taken or invalid, or an argument cannot be used.
        """
        base_url = hidden_address(base_url)
        _check_name(name, "model")
        if name in self._connections and not replace:
            raise LLMConfigError(
                f"the model {name!r} exists already, at {self[name].place}; give another name, or replace=True"
            )
        if client is None and not any([base_url, model, key_env, key_ring, dialect, options]):
            raise LLMConfigError(
                f"nothing says what the model {name!r} is: give its client, its base_url, or a model such as "
                f"{EXAMPLE!r}"
            )
        key = KeySource.of(key_env, key_ring)
        made = (
            _of_written(name, client, base_url, model, key, dialect, options)
            if isinstance(client, str)
            else _of_object(name, client, model, [base_url, key_env, key_ring, dialect, *options.values()])
            if client is not None
            else _of_address(name, base_url, model, key, dialect, options)
        )
        self.default.clients.forget(name)
        if name in self and self[name].base_url != made.base_url:
            self._forget_credentials(name)
        self._connections[name] = made
        return made

    def add_credential(
        self, name: str, *, of: str, key_env: str | None = None, key_ring: str | None = None, replace: bool = False
    ) -> Credential:  # fmt: skip
        """Register another key of a model; an operation names it as `credentialRef`.

        Args:
            name: what profiles call it.
            of: the model that it is a key of. It is sent nowhere else.
            key_env: as of `add`.
            key_ring: as of `add`.
            replace: let it take the place of another one.

        Raises:
            LLMConfigError: the name is taken or invalid, the model is unknown, or it has no address to send a key to.
        """
        _check_name(name, "credential")
        if name in self._credentials and not replace:
            raise LLMConfigError(
                f"the credential {name!r} exists already; give another name, or replace=True"
            )
        if self._known(of).base_url is None:
            raise LLMConfigError(
                f"{of!r} is an object of yours, which has its own key: add another object with the other key"
            )
        key = KeySource.of(key_env, key_ring)
        if key is None:
            raise LLMConfigError(f"the credential {name!r} has no key: give key_env or key_ring")
        self.default.clients.forget(of, name)
        made = self._credentials[name] = Credential(name, of, key)
        return made

    def remove(self, name: str) -> None:
        """Forget a model with its credentials, or a credential.

        Raises:
            LLMConfigError: neither has this name.
        """
        if name not in self._connections and name in self._credentials:
            credential = self._credentials.pop(name)
            self.default.clients.forget(credential.connection, name)
            return
        if name not in self._connections:
            there = [*self, *sorted(self._credentials)]
            raise LLMConfigError(
                f"no model or credential is registered as {name!r}, so nothing was removed.{nearest(str(name), there)} "
                f"There are: {', '.join(map(repr, there)) or 'none'}"
            )
        self.default.clients.forget(name)
        self._forget_credentials(name)
        del self._connections[name]

    def resolve(
        self, name: str | None, credential: str | None = None
    ) -> tuple[ModelConnection, Credential | None]:
        """Return the connection and credential of these names. A credential alone implies its model.

        Raises:
            LLMConfigError: a name is unknown, or they do not belong together; with the line to type.
        """
        if credential is None:
            return self._known(name), None
        found = self._credentials.get(credential)
        if found is None:
            raise LLMConfigError(
                f"the credential {credential!r} is unknown, and no request was sent."
                f"{nearest(credential, self._credentials)} "
                f"Type tract.models.add_credential({credential!r}, of={name or 'NAME'!r}, key_env='VARIABLE')"
            )
        if name is not None and found.connection != name:
            self._known(name)
            raise LLMConfigError(
                f"the credential {credential!r} is a key of {found.connection!r}, and is not sent to {name!r}; "
                f"name one of {name!r}, or none"
            )
        return self._known(found.connection), found

    def client(self, name: str | None, credential: str | None = None) -> LLMClient:
        """Return the client of a model, with its key. Nothing is asked yet.

        Raises:
            LLMConfigError: as of `resolve`, or a key is not there.
        """
        connection, other = self.resolve(name, credential)
        return self.default.metered(connection, "chat", self.default.clients.of(connection, other))

    def _known(self, name: object) -> ModelConnection:
        found = self._connections.get(name) if isinstance(name, str) else None
        if found is None:
            there = ", ".join(map(repr, self)) or "none"
            raise LLMConfigError(
                f"the model {name!r} is unknown, and no request was sent; known models: {there}."
                f"{nearest(str(name), self)} "
                f"Type tract.models.add({name!r}, base_url='https://...', model='...', key_env='VARIABLE')"
            )
        return found

    def _forget_credentials(self, name: str) -> None:
        for one in self.credentials:
            if one.connection == name:
                del self._credentials[one.name]

    @repr_of_whole
    def __repr__(self) -> str:
        lines = [*self.asked, *(str(self[name]) for name in self)]
        lines += [
            f"{one.name}: another key of {one.connection}, {key_text(one.key)}" for one in self.credentials
        ]
        if not lines:
            return (
                f"No models yet: tract.models.use({EXAMPLE!r}); "
                "tract.models.add('local', base_url='http://localhost:11434/v1', model='...')"
            )
        return "\n".join(["Models:", *(f"  {line}" for line in lines)])

    def __reduce__(self) -> Any:
        raise LLMConfigError("models hold keys while they are in use, and cannot be pickled or copied")


def _of_object(name: str, client: object, model: str | None, others: list[object]) -> ModelConnection:
    if any(one is not None for one in others):
        raise LLMConfigError(
            f"{repr(name) if name else 'it'} is an object of yours, which knows its address and key itself: give "
            "either that or base_url"
        )
    return ModelConnection.of_client(name, client, model)


def _of_written(
    name: str,
    written: str,
    base_url: str | None,
    model: str | None,
    key: KeySource | None,
    dialect: str | None,
    options: Mapping[str, Any],
) -> ModelConnection:
    """Return the connection to a model that is written as `use` takes it."""
    if model is not None:
        raise LLMConfigError(
            f"both {brief_repr(written)} and model={brief_repr(model)} say which model it is; give one"
        )
    found = provider_of(written.strip())
    if found is None:
        if base_url is None:
            raise unknown_model(checked_name(written), {})
        return _of_address(name, base_url, written, key, dialect, options)
    made = ModelConnection.of_provider(*found, base_url=base_url, key=key)
    return _checked(replace(made, name=name, options=dict(options), dialect=dialect or made.dialect))


def _of_address(
    name: str,
    base_url: str | None,
    model: str | None,
    key: KeySource | None,
    dialect: str | None,
    options: Mapping[str, Any],
) -> ModelConnection:
    found = provider_of(model) if base_url is None and isinstance(model, str) else None
    if found is not None:
        of_provider = ModelConnection.of_provider(*found, key=key)
        return _checked(
            replace(of_provider, name=name, options=dict(options), dialect=dialect or of_provider.dialect)
        )
    place = OPENAI if base_url is None else base_url
    if key is None and str(place).rstrip("/") == OPENAI:
        key = KeySource((KEY_VARIABLE,))
    if "api_key" in options:
        raise LLMConfigError(
            "a key is never passed as a value, so that it cannot be stored: give key_env or key_ring"
        )
    named = None if model is None else checked_name(model)
    return _checked(ModelConnection(name, place, named, key, options=dict(options), dialect=dialect or CHAT))


def _checked(made: ModelConnection) -> ModelConnection:
    """Return a connection to an address, after what is wrong with it was told.

    Raises:
        LLMConfigError: the address or an option cannot be used.
    """
    try:
        http_client(made, "")
    except TypeError:
        given = ", ".join(made.options)
        raise LLMConfigError(
            f"a client of the dialect {made.dialect!r} does not take all of these options: {given}; it takes timeout, "
            "max_retries, backoff, headers and transport"
        ) from None
    return made


def _check_name(name: object, what: str) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise LLMConfigError(
            f"the name of a {what} has letters, digits, '.', '_', ':', '/' and '-', at most 100"
        )
