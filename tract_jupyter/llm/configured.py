"""Who is asked for what: the model of a tract, another one for each kind of request, and their settings."""

from __future__ import annotations

import math
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from tract_jupyter.exceptions import LLMConfigError
from tract_jupyter.llm.connections import Clients, ConfiguredClient, ModelConnection
from tract_jupyter.llm.providers import HOW_TO_CHOOSE
from tract_jupyter.llm.spending import Spending
from tract_jupyter.models import brief_repr, check_choice, no_reader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tract_jupyter.llm.cassette import Cassette
    from tract_jupyter.llm.workers import RequestWorkers
    from tract_jupyter.models import LLMClient, Reader

ModelOperation = Literal["chat", "compress", "merge", "tool_result", "consult", "orchestrate"]
MODEL_OPERATIONS: Final = get_args(ModelOperation)
"""What a model is asked for: replies, summaries, guidance for conflicts, shorter answers of tools, decisions about
pendings, acting by itself (a name for callers of `client_for`), a look at calls before a person is asked."""
_FOR_CALLERS: Final = frozenset({"orchestrate"})


def purpose_text(operation: str) -> str:
    """Return a kind of request in words; one that only callers ask for says so."""
    return f"{operation} (by your own code alone)" if operation in _FOR_CALLERS else operation


def settings_of(
    operation: str, model: str | None, temperature: float | None, max_tokens: int | None = None
) -> dict[str, Any]:
    """Return the options for these settings. None leaves the choice to the client.

    Raises:
        ContentError: the operation is unknown.
        LLMConfigError: a value cannot be sent.
    """
    check_choice(operation, MODEL_OPERATIONS, "operation")
    if model is not None and (not isinstance(model, str) or not model.strip()):
        raise LLMConfigError(f"a model is the name that the client knows it by, not {brief_repr(model)}")
    if temperature is not None and not _is_temperature(temperature):
        raise LLMConfigError(f"a temperature is a number from 0 on, not {brief_repr(temperature)}")
    if max_tokens is not None and (
        not isinstance(max_tokens, int) or isinstance(max_tokens, bool) or max_tokens < 1
    ):
        raise LLMConfigError(f"max_tokens is a whole number from 1 on, not {brief_repr(max_tokens)}")
    given = {"model": model, "temperature": temperature, "max_tokens": max_tokens}
    return {name: value for name, value in given.items() if value is not None}


def _is_temperature(value: object) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and math.isfinite(value) and value >= 0  # type: ignore[arg-type, operator]


@dataclass(eq=False)
class _Choice:
    """Who is asked for what, with which options: see `ConfiguredLLM`."""

    default: ModelConnection | None
    chosen: dict[str, ModelConnection]
    settings: dict[str, dict[str, Any]]

    def copy(self) -> _Choice:
        """Return one that can be changed by itself."""
        settings = {operation: dict(options) for operation, options in self.settings.items()}
        return _Choice(self.default, dict(self.chosen), settings)


_APART: Final[ContextVar[Mapping[object, _Choice]]] = ContextVar("tract_models_apart", default={})  # noqa: B039 # never written to
"""What was chosen in this context alone, by the `ConfiguredLLM` that it is of."""


class ConfiguredLLM:
    """Which model a tract asks for each kind of request, and with which options, as long as the tract is open.

    Args:
        spending: sends the requests.
        cassette: records them, or serves what was recorded.
        read: gives the bytes of attachments.

    Attributes:
        clients: the clients of models with an address.
        replies: the kind of request that replies are; another one where a conversation is not a person's chat.
        follows: gives the one that says what is asked here, until something is said here; None for none, and where it
            gives None, what it said last counts.
        workers: make the requests; None for this process.
    """

    def __init__(
        self,
        spending: Spending | None = None,
        cassette: Cassette | None = None,
        read: Reader = no_reader,
    ) -> None:
        self._read = read
        self.spending = spending or Spending()
        self.cassette = cassette
        self.clients = Clients(cassette)
        self.replies: ModelOperation = "chat"
        self.workers: RequestWorkers | None = None
        self.follows: Callable[[], ConfiguredLLM | None] | None = None
        self._without_images: set[str] = set()
        self._own = _Choice(None, {}, {})

    @property
    def default(self) -> ModelConnection | None:
        """The model that is asked where no other one is chosen; None if none is configured."""
        return self._now.default

    @property
    def chosen(self) -> dict[str, ModelConnection]:
        """Other models, by kind of request."""
        return self._now.chosen

    @property
    def settings(self) -> dict[str, dict[str, Any]]:
        """The options by kind of request."""
        return self._now.settings

    @property
    def _now(self) -> _Choice:
        """What counts in this context."""
        apart = _APART.get().get(self)
        if apart is not None:
            return apart
        other = None if self.follows is None else self.follows()
        if other is not None:
            self._own = other._now  # noqa: SLF001 # its own class
        return self._own

    def _to_change(self) -> _Choice:
        """Return what counts in this context, which is about to be changed: no other one is followed then."""
        now = self._now
        if self.follows is not None and now is self._own:
            self.follows, now = None, now.copy()
            self._own = now
        return now

    def _kind(self, operation: ModelOperation) -> ModelOperation:
        return self.replies if operation == "chat" else operation

    @contextmanager
    def apart(self, model: str | None = None) -> Iterator[None]:
        """Have what is chosen meanwhile, in this context and in copies of it, count there alone.

        Args:
            model: another model of the same client, for replies.
        """
        choice = self._now.copy()
        if model is not None:
            choice.settings.setdefault("chat", {})["model"] = model
        token = _APART.set({**_APART.get(), self: choice})
        try:
            yield
        finally:
            _APART.reset(token)

    @property
    def client(self) -> LLMClient | None:
        """The client that is asked; None if none is configured."""
        now = self._now
        if now.default is None:
            return None
        return now.default.client or self.metered(now.default, "chat")

    def use(self, client: LLMClient | None) -> None:
        """Ask this client from now on; None removes it.

        Raises:
            LLMConfigError: it has no method `chat`.
        """
        if client is not None and not callable(getattr(client, "chat", None)):
            raise LLMConfigError(
                f"a client has a method chat(messages, **options) that returns a dict in OpenAI's shape; "
                f"{brief_repr(client)} has none"
            )
        now = self._to_change()
        now.default = None if client is None else ModelConnection("", client=client)

    def choose(self, connection: ModelConnection | None, operation: ModelOperation | None = None) -> None:
        """Have a model asked from now on: for one kind of request, or where none is chosen. None takes it away.

        Raises:
            ContentError: there is no such kind of request.
        """
        now = self._to_change()
        if operation is None:
            now.default = connection
            return
        check_choice(operation, MODEL_OPERATIONS, "operation")
        # what was the name of another client's model means nothing to this one
        now.settings.get(operation, {}).pop("model", None)
        if connection is None:
            now.chosen.pop(operation, None)
        else:
            now.chosen[operation] = connection

    def set_model(
        self,
        operation: ModelOperation,
        model: str | None,
        temperature: float | None,
        max_tokens: int | None = None,
    ) -> dict[str, Any]:
        """Choose the model for one kind of request, and return the options that such requests have now.

        Raises:
            ContentError: the kind of request is unknown.
            LLMConfigError: a value cannot be sent.
        """
        now = self._to_change()
        settings = now.settings[operation] = settings_of(operation, model, temperature, max_tokens)
        return dict(settings)

    def take_over(self, other: ConfiguredLLM) -> None:
        """Ask the models that another tract asks now, with the same settings, from now on."""
        self.follows, self._own = None, other._now.copy()

    def take_over_apart(self, other: ConfiguredLLM) -> None:
        """Do so where what the other asks was chosen for this context alone: elsewhere it is followed."""
        if other in _APART.get():
            self.take_over(other)

    def connection(self, operation: ModelOperation) -> ModelConnection | None:
        """Return the model that is asked for one kind of request; None if none is configured."""
        operation = self._kind(operation)
        now = self._now
        found = now.chosen.get(operation, now.default)
        return found if found is not None or self.cassette is None else self.cassette.stand_in(operation)

    def draw(self, kind: str, make: Callable[[], Any]) -> Any:
        """Return a value that another run would not repeat; in a replay, the recorded one."""
        return make() if self.cassette is None else self.cassette.draw(kind, make)

    def secrets(self) -> list[str]:
        """Return the keys that are in use, for what must not show them. The store is not asked for whom it follows."""
        usual = self._own
        now = _APART.get().get(self, usual)
        every = (usual.default, *usual.chosen.values(), now.default, *now.chosen.values())
        connections = [one for one in every if one is not None]
        given = [
            str(one.key.given) for one in connections if one.key is not None and one.key.given is not None
        ]
        own = [text for one in connections for text in getattr(one.client, "secrets", ())]
        return [*given, *own, *self.clients.keys()]

    def check(self, operation: ModelOperation = "chat") -> None:
        """Check that a model is configured for one kind of request, and has a key.

        Raises:
            LLMConfigError: none is, or it has none; with the line to type.
        """
        self.clients.of(self._required(operation))

    def available(self, operation: ModelOperation) -> LLMClient | None:
        """Return the client for one kind of request, with its options; None if none is configured."""
        return None if self.connection(operation) is None else self.for_operation(operation)

    def for_operation(self, operation: ModelOperation) -> ConfiguredClient:
        """Return the client for one kind of request, with its options.

        Raises:
            LLMConfigError: no model is configured.
        """
        return self.metered(self._required(operation), operation)

    def _required(self, operation: ModelOperation) -> ModelConnection:
        operation = self._kind(operation)
        now = self._now
        found = now.chosen.get(operation, now.default) or self.connection(operation)
        if found is None:
            raise LLMConfigError(
                f"no language model is configured; {HOW_TO_CHOOSE}. tract.configure_llm(client) takes an object of "
                "your own that has chat(messages, **options)"
            )
        return found

    def options(self, operation: ModelOperation) -> dict[str, Any]:
        """Return the options that one kind of request has now."""
        now = self._now
        return now.settings.get(self._kind(operation), {})

    def metered(
        self, connection: ModelConnection, operation: ModelOperation, client: LLMClient | None = None
    ) -> ConfiguredClient:
        """Return the client of a connection as this tract asks it: within the budget, and on the bill.

        Args:
            connection: the model.
            operation: what it is asked for.
            client: the client, if it is made already; it is sent no settings of this kind of request then.
        """
        operation = self._kind(operation)
        now = self._now
        settings = {} if client is not None else now.settings.get(operation, {})
        if connection.client is not None and connection.model is not None:
            settings = {"model": connection.model, **settings}
        return ConfiguredClient(
            connection,
            client or self.clients,
            settings,
            self.spending,
            operation,
            self.cassette,
            self._read,
            self.workers,
            without_images=self._without_images,
        )
