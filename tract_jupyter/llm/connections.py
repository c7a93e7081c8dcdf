"""Language models by name: where each one is, and where its key comes from.

A profile is data and may come from anywhere, so it names a model and a credential and nothing else; a person says what
the names stand for, in `t.models`. The registry lives as long as its tract is open: neither it nor a key is stored.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import LLMConfigError, nearest
from tract_jupyter.llm.configured import ConfiguredClient
from tract_jupyter.llm.openai import KEY_VARIABLE, OPENAI, OpenAIClient
from tract_jupyter.models.text import brief_repr

if TYPE_CHECKING:
    from tract_jupyter.protocols import LLMClient


_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/-]{0,99}")
# capitals alone: hardly any key looks like this, so one that was given by mistake is refused rather than kept
_VARIABLE: Final = re.compile(r"(?!AKIA)[A-Z_][A-Z0-9_]{0,63}")


@dataclass(frozen=True, slots=True)
class KeySource:
    """Where a key comes from, and never the key.

    Attributes:
        variable: of the environment; None if it is in the keyring.
        service, user: the entry of the system's keyring.
    """

    variable: str | None = None
    service: str = ""
    user: str = ""

    @classmethod
    def of(cls, key_env: object, key_ring: object) -> KeySource | None:
        """Read where a key is, as `add` is told; None if it is told nothing.

        Raises:
            LLMConfigError: it cannot be that. What was given is not repeated, since it may be the key itself.
        """
        if key_env is not None and key_ring is not None:
            raise LLMConfigError("a key comes from one place: give key_env or key_ring, not both")
        if key_env is not None:
            if not isinstance(key_env, str) or not _VARIABLE.fullmatch(key_env):
                raise LLMConfigError(
                    "key_env is the name of an environment variable in capitals, such as 'OPENAI_API_KEY', and never "
                    "the key; nothing was kept"
                )
            return cls(variable=key_env)
        if key_ring is None:
            return None
        service, slash, user = key_ring.partition("/") if isinstance(key_ring, str) else ("", "", "")
        if not (service and slash and user):
            raise LLMConfigError(
                "key_ring is an entry of the system's keyring as 'service/user', such as 'openai/me', and never the "
                "key; nothing was kept"
            )
        return cls(service=service, user=user)

    @property
    def is_set(self) -> bool:
        """Whether there is a key."""
        return bool(self._found())

    def read(self, name: str) -> str:
        """Return the key of the model or credential `name`.

        Raises:
            LLMConfigError: there is none; with the line to type.
        """
        key = self._found()
        if key:
            return key
        if self.variable is not None:
            raise LLMConfigError(
                f"the key of {name!r} comes from the environment variable {self.variable}, which is not set; type "
                f"import getpass, os; os.environ[{self.variable!r}] = getpass.getpass()"
            )
        if _keyring() is None:
            raise LLMConfigError(
                f"the key of {name!r} comes from the system's keyring, and the package keyring is not installed; "
                "type %pip install keyring"
            )
        raise LLMConfigError(
            f"the system's keyring has no entry {self.service!r} of {self.user!r} for the key of {name!r}; type "
            f"import getpass, keyring; keyring.set_password({self.service!r}, {self.user!r}, getpass.getpass())"
        )

    def _found(self) -> str:
        if self.variable is not None:
            return os.environ.get(self.variable, "").strip()
        keyring = _keyring()
        try:
            return "" if keyring is None else str(keyring.get_password(self.service, self.user) or "").strip()
        except Exception:  # noqa: BLE001 # a locked or absent keyring raises errors of its own
            return ""

    @property
    def told(self) -> str:
        """Where the key comes from, within a sentence."""
        if self.variable is not None:
            return f"the environment variable {self.variable}"
        return f"the entry {self.service}/{self.user} of the system's keyring"

    def __str__(self) -> str:
        return self.variable or f"keyring {self.service}/{self.user}"


def _keyring() -> Any:
    try:
        return import_module("keyring")
    except ImportError:
        return None


@dataclass(frozen=True, slots=True)
class ModelConnection:
    """What the name of a model stands for.

    Attributes:
        base_url: where it is; None for an object of the user's.
        model: what the provider calls it, unless a request names another one.
        key: where its key comes from; None if it needs none, or is an object.
        client: the user's own object; None for one that is made of the rest.
        options: more for one that is made.
    """

    name: str
    base_url: str | None = None
    model: str | None = None
    key: KeySource | None = None
    client: LLMClient | None = field(default=None, repr=False)
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def place(self) -> str:
        """Where it is, in words."""
        what = "function" if isinstance(self.client, _Function) else type(self.client).__name__
        return self.base_url or f"your {what}"

    def __str__(self) -> str:
        return f"{self.name}: {self.model or 'no model named'} at {self.place}, {key_text(self.key)}"


@dataclass(frozen=True, slots=True)
class Credential:
    """Another key of one model. It is bound to it, so that no profile can have a key sent to somebody else."""

    name: str
    connection: str
    key: KeySource


def key_text(key: KeySource | None) -> str:
    """Where a key comes from, and whether it is there."""
    return "no key" if key is None else f"key from {key} ({'set' if key.is_set else 'not set'})"


class Models(Mapping[str, ModelConnection]):
    """Models by the name that profiles give as `providerRef`, and credentials that they give as `credentialRef`."""

    def __init__(self) -> None:
        self._connections: dict[str, ModelConnection] = {}
        self._credentials: dict[str, Credential] = {}
        # made when first used, and again when the key has changed
        self._clients: dict[tuple[str, str | None], tuple[str, LLMClient]] = {}

    def __getitem__(self, name: str) -> ModelConnection:
        return self._connections[name]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._connections))

    def __len__(self) -> int:
        return len(self._connections)

    @property
    def credentials(self) -> tuple[Credential, ...]:
        """All credentials, by name."""
        return tuple(self._credentials[name] for name in sorted(self._credentials))

    def add(
        self, name: str, client: LLMClient | Callable[..., Any] | None = None, *, base_url: str | None = None,
        model: str | None = None, key_env: str | None = None, key_ring: str | None = None, replace: bool = False,
        **options: Any,
    ) -> ModelConnection:  # fmt: skip
        """Say what a name stands for: `t.models.add("local", base_url="http://localhost:11434/v1", model="qwen3")`.

        Args:
            name: what profiles call it.
            client: an object with `chat(messages, **options)`, or a function `f(messages, **options)` that returns a
                text or a response in OpenAI's shape, instead of an address.
            base_url: of a provider that speaks OpenAI's chat completions; OpenAI's own if left out.
            model: what the provider calls it.
            key_env: the environment variable that has the key. Without one, no key is sent; to OpenAI that of
                `OPENAI_API_KEY`.
            key_ring: the entry of the system's keyring that has it, as `service/user`; needs the package keyring.
            replace: let it take the place of another one. If its address is another, the credentials of that one go.
            options: more for `OpenAIClient`: `timeout`, `max_retries`, ...

        Raises:
            LLMConfigError: the name is taken or none, or an argument cannot be used.
        """
        _check_name(name, "model")
        if name in self._connections and not replace:
            raise LLMConfigError(
                f"there is a model {name!r} already, at {self[name].place}; give another name, or replace=True"
            )
        made = (
            _of_object(name, client, model, [base_url, key_env, key_ring, *options.values()])
            if client is not None
            else _of_address(name, base_url, model, KeySource.of(key_env, key_ring), options)
        )
        self._forget(name)
        if name in self and self[name].base_url != made.base_url:
            self._forget_credentials(name)
        self._connections[name] = made
        return made

    def add_credential(
        self, name: str, *, of: str, key_env: str | None = None, key_ring: str | None = None, replace: bool = False
    ) -> Credential:  # fmt: skip
        """Say where another key of a model comes from; an operation names it as `credentialRef`.

        Args:
            name: what profiles call it.
            of: the model that it is a key of. It is sent nowhere else.
            key_env: as of `add`.
            key_ring: as of `add`.
            replace: let it take the place of another one.

        Raises:
            LLMConfigError: the name is taken or none, there is no such model, or it has no address to send a key to.
        """
        _check_name(name, "credential")
        if name in self._credentials and not replace:
            raise LLMConfigError(
                f"there is a credential {name!r} already; give another name, or replace=True"
            )
        if self._known(of).base_url is None:
            raise LLMConfigError(
                f"{of!r} is an object of yours, which has its key itself: add one with another key"
            )
        key = KeySource.of(key_env, key_ring)
        if key is None:
            raise LLMConfigError(f"the credential {name!r} comes from nowhere: give key_env or key_ring")
        self._clients.pop((of, name), None)
        made = self._credentials[name] = Credential(name, of, key)
        return made

    def remove(self, name: str) -> None:
        """Forget a model with its credentials, or a credential.

        Raises:
            LLMConfigError: there is neither.
        """
        if name not in self._connections and name in self._credentials:
            credential = self._credentials.pop(name)
            self._clients.pop((credential.connection, name), None)
            return
        self._known(name)
        self._forget(name)
        self._forget_credentials(name)
        del self._connections[name]

    def resolve(
        self, name: str | None, credential: str | None = None
    ) -> tuple[ModelConnection, Credential | None]:
        """Return what names stand for. A credential alone stands for the model that it is a key of.

        Raises:
            LLMConfigError: one of them names nothing, or they do not belong together; with the line to type.
        """
        if credential is None:
            return self._known(name), None
        found = self._credentials.get(credential)
        if found is None:
            raise LLMConfigError(
                f"there is no credential {credential!r}, and nobody was asked.{nearest(credential, self._credentials)} "
                f"Type t.models.add_credential({credential!r}, of={name or 'NAME'!r}, key_env='VARIABLE')"
            )
        if name is not None and found.connection != name:
            self._known(name)
            raise LLMConfigError(
                f"the credential {credential!r} is a key of {found.connection!r}, and is not sent to {name!r}; "
                f"name one of {name!r}, or none"
            )
        return self._known(found.connection), found

    def client(self, name: str | None, credential: str | None = None) -> LLMClient:
        """Return what asks a model, with its key at hand; nothing is asked yet.

        Raises:
            LLMConfigError: as of `resolve`, or a key is not there.
        """
        connection, other = self.resolve(name, credential)
        if connection.client is not None:
            settings = {} if connection.model is None else {"model": connection.model}
            return ConfiguredClient(connection.client, settings)
        source = connection.key if other is None else other.key
        key = "" if source is None else source.read(connection.name if other is None else other.name)
        kept = self._clients.get((connection.name, credential))
        if kept is None or kept[0] != key:
            client: LLMClient = _http_client(connection, key, other)
            kept = self._clients[connection.name, credential] = (key, client)
        return kept[1]

    def _known(self, name: object) -> ModelConnection:
        found = self._connections.get(name) if isinstance(name, str) else None
        if found is None:
            there = ", ".join(map(repr, self)) or "none"
            raise LLMConfigError(
                f"there is no model {name!r}, and nobody was asked; there are: {there}.{nearest(str(name), self)} "
                f"Type t.models.add({name!r}, base_url='https://...', model='...', key_env='VARIABLE')"
            )
        return found

    def _forget(self, name: str) -> None:
        for key in [key for key in self._clients if key[0] == name]:
            del self._clients[key]

    def _forget_credentials(self, name: str) -> None:
        for one in self.credentials:
            if one.connection == name:
                del self._credentials[one.name]

    def __repr__(self) -> str:
        lines = [str(self[name]) for name in self]
        lines += [
            f"{one.name}: another key of {one.connection}, {key_text(one.key)}" for one in self.credentials
        ]
        return "\n".join(["Models:", *(f"  {line}" for line in lines)]) if lines else (
            "No models yet: t.models.add('local', base_url='http://localhost:11434/v1', model='...')"
        )  # fmt: skip

    def __reduce__(self) -> Any:
        raise LLMConfigError("models hold keys while they are in use, and cannot be pickled or copied")


@dataclass(frozen=True, slots=True)
class _Function:
    """A function as a client."""

    function: Callable[..., Any]

    def chat(self, messages: list[dict[str, Any]], **options: Any) -> dict[str, Any]:
        """Call it; a text is a whole reply."""
        reply: Any = self.function(messages, **options)
        return (
            {"choices": [{"message": {"role": "assistant", "content": reply}}]}
            if isinstance(reply, str)
            else reply
        )


def _of_object(name: str, client: object, model: str | None, others: list[object]) -> ModelConnection:
    if any(one is not None for one in others):
        raise LLMConfigError(
            f"{name!r} is an object of yours, which knows its address and key itself: give either that or base_url"
        )
    is_client = callable(getattr(client, "chat", None)) and not isinstance(client, type)
    if not is_client and (isinstance(client, type) or not callable(client)):
        raise LLMConfigError(
            f"a model is an object with chat(messages, **options), or a function, not {type(client).__name__}; "
            "an address is given as base_url="
        )
    given: Any = client
    asked = given if is_client else _Function(given)
    return ModelConnection(name, model=model, client=asked)


def _of_address(
    name: str, base_url: str | None, model: str | None, key: KeySource | None, options: Mapping[str, Any]
) -> ModelConnection:
    place = OPENAI if base_url is None else base_url
    if key is None and str(place).rstrip("/") == OPENAI:
        key = KeySource(variable=KEY_VARIABLE)
    made = ModelConnection(name, place, model, key, options=dict(options))
    if "api_key" in options:
        raise LLMConfigError(
            "a key is not given here, so that it can be stored nowhere: give key_env or key_ring"
        )
    if model is not None and (not isinstance(model, str) or not model.strip()):
        raise LLMConfigError(f"a model is the name that the provider knows it by, not {brief_repr(model)}")
    try:
        _http_client(made, "")  # what is wrong with the address is told now
    except TypeError:
        given = ", ".join(options)
        raise LLMConfigError(
            f"OpenAIClient does not take all of these options: {given}; see its help"
        ) from None
    return made


def _http_client(connection: ModelConnection, key: str, credential: Credential | None = None) -> OpenAIClient:
    name = connection.name
    source = connection.key if credential is None else credential.key
    if source is None:
        about_key = (
            f"Model {name!r} sends no key: t.models.add({name!r}, ..., key_env='VARIABLE', replace=True) says where "
            "one comes from"
        )
    else:
        whose = f"model {name!r}" if credential is None else f"credential {credential.name!r}"
        about_key = f"Check the key of {whose}, which comes from {source.told}"
    about_model = (
        f"name one in the request, or for all as t.models.add({name!r}, ..., model='...', replace=True)"
    )
    told = {"about_key": about_key, "about_model": about_model}
    # an empty key, not None: that of OpenAI must not go to another address
    return OpenAIClient(
        connection.model,
        base_url=connection.base_url or OPENAI,
        api_key=key,
        **{**told, **connection.options},
    )


def _check_name(name: object, what: str) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise LLMConfigError(
            f"the name of a {what} has letters, digits, '.', '_', ':', '/' and '-', at most 100"
        )
