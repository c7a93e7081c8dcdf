"""The kinds of requests of a tract, their settings, and a client with these settings."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from tract_jupyter.exceptions import LLMConfigError
from tract_jupyter.llm.call import can_stream
from tract_jupyter.llm.failures import is_about_images, takes_no_attachments
from tract_jupyter.llm.recording import SentRequest
from tract_jupyter.llm.reply import WITHOUT_IMAGES
from tract_jupyter.models import brief_repr, check_choice, has_attached_results, repr_of_whole, with_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tract_jupyter.llm.connections import ModelConnection
    from tract_jupyter.llm.messages import Usage
    from tract_jupyter.llm.prices import Cost
    from tract_jupyter.llm.registry import Models
    from tract_jupyter.models import LLMClient

ModelOperation = Literal["chat", "compress", "merge", "tool_result", "consult", "orchestrate"]
MODEL_OPERATIONS: Final = get_args(ModelOperation)
"""The kinds of requests: replies, summaries, guidance for conflicts, shorter tool results, decisions about pending
requests, and replies of orchestrators."""
_TAKES_NONE: Final = "the model takes no images"
_REFUSED: Final = "the provider refused an image"


def settings_of(
    operation: str, model: str | None, temperature: float | None, max_tokens: int | None = None
) -> dict[str, Any]:
    """Return the options for these settings. None leaves the choice to the client."""
    check_choice(operation, MODEL_OPERATIONS, "operation")
    if model is not None and (not isinstance(model, str) or not model.strip()):
        raise LLMConfigError(f"model must be a model name that the client knows, not {brief_repr(model)}")
    if temperature is not None and not _is_temperature(temperature):
        raise LLMConfigError(f"temperature must be a number of at least 0, not {brief_repr(temperature)}")
    if max_tokens is not None and (
        not isinstance(max_tokens, int) or isinstance(max_tokens, bool) or max_tokens < 1
    ):
        raise LLMConfigError(f"max_tokens must be a whole number of at least 1, not {brief_repr(max_tokens)}")
    settings = {"model": model, "temperature": temperature, "max_tokens": max_tokens}
    return {name: value for name, value in settings.items() if value is not None}


def _is_temperature(value: object) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and math.isfinite(value) and value >= 0  # type: ignore[arg-type, operator]


class ConfiguredClient:
    """A client with the settings of its tract. Its requests count against the tract's budget and costs.

    Args:
        models: the models of the tract.
        connection: the model.
        operation: the kind of request.
        options: the options of each request. Options of a call take precedence.
        client: the client; by default the connection's client.
    """

    def __init__(
        self,
        models: Models,
        connection: ModelConnection,
        operation: str,
        options: Mapping[str, Any],
        client: LLMClient | None = None,
    ) -> None:
        self._models = models
        self._connection = connection
        self._operation = operation
        self._options = options
        self._client = connection.client or client

    def _current_client(self) -> LLMClient:
        return self._client or self._models.clients.of(self._connection)

    def chat(
        self, messages: list[dict[str, Any]], *, on_delta: Callable[..., object] | None = None, **options: Any
    ) -> dict[str, Any]:
        """Return the reply; see `models.LLMClient`.

        Raises:
            LLMBudgetError: the request could exceed the budget. It was not sent.
            AdminLimitError: the administrator's limits do not allow the request. It was not sent.
            LLMConfigError: the key is missing.
        """
        sent = {**self._options, **options}
        requested = self._connection.asked(sent.get("model"))

        def send(on_delta: Callable[..., object] | None) -> Any:
            client = self._current_client()
            streamed = {"on_delta": on_delta} if on_delta is not None and can_stream(client) else {}

            def ask(*, with_results: bool) -> Any:
                return self._models.spending.ask(
                    client,
                    with_parts(messages, self._models.read, with_results=with_results),
                    {**sent, **streamed},
                    asked=requested,
                    operation=self._operation,
                )

            return self._with_images(requested.shown, messages, ask)

        cassette = self._models.cassette
        if cassette is None:
            return send(on_delta)  # type: ignore[no-any-return] # as the client gave it
        described = partial(SentRequest.of, self._operation, requested.model, messages, sent)
        return cassette.request(described, send, on_delta)  # type: ignore[no-any-return]

    def _with_images(self, model: str, messages: list[dict[str, Any]], ask: Callable[..., Any]) -> Any:
        """Send a request with the images of tool results. If they are refused, send it once more without them.

        The user did not choose these images, and a refused image would make every later request fail. The response to
        a request without them says why under `WITHOUT_IMAGES`.
        """
        why = _TAKES_NONE
        if not has_attached_results(messages):
            return ask(with_results=True)
        if model not in self._models.without_images:
            try:
                return ask(with_results=True)
            except Exception as error:
                if not is_about_images(error):
                    raise
                if takes_no_attachments(error):
                    self._models.without_images.add(model)
                else:
                    why = _REFUSED
        response = ask(with_results=False)
        return {**response, WITHOUT_IMAGES: why} if isinstance(response, dict) else response

    def replies_with_blocks(self, messages: list[dict[str, Any]], **options: Any) -> tuple[int, ...] | None:
        """Return the numbers of the replies that a request would send back with their raw blocks.

        None if a user's client cannot say. Arguments and errors are the same as for `chat`. No request is sent.
        """
        ask = getattr(self._current_client(), "replies_with_blocks", None)
        merged = {**self._options, **options}
        return None if ask is None else tuple(ask(with_parts(messages, self._models.read), **merged))

    def price(self, usage: Usage) -> Cost | None:
        """Return the cost of a request with these tokens; None if the price is unknown."""
        return self._models.spending.account.prices.cost(
            self._connection.asked(self._options.get("model")), usage
        )

    @repr_of_whole
    def __repr__(self) -> str:
        return f"<{self._connection}>" if self._client is None else repr(self._client)

    def __reduce__(self) -> Any:
        raise LLMConfigError("models hold keys, so they cannot be pickled or copied")
