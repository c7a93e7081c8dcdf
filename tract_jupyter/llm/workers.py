"""Requests from other processes or machines: the workers of an executor.

A worker gets the address of the model, but never the key: it reads the key from the same place as this process, the
environment or the keyring. (A user's own client is sent as a copy, with its attributes.) Budget, costs, cassette and
Stop stay in this process. If a request cannot be sent to a worker, this process sends it, with a warning.
"""

from __future__ import annotations

import pickle
import threading
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from tract_jupyter.exceptions import LLMConfigError, LLMRequestError
from tract_jupyter.llm.call import ModelCall
from tract_jupyter.llm.connections import http_client
from tract_jupyter.llm.http import Tries, with_retries
from tract_jupyter.models import one_line, warn

if TYPE_CHECKING:
    from collections.abc import Mapping
    from concurrent.futures import Executor, Future

    from tract_jupyter.concurrency import StopSignal
    from tract_jupyter.llm.connections import ModelConnection
    from tract_jupyter.llm.http import BeforeRetry
    from tract_jupyter.models import LLMClient

_LONGEST_REASON: Final = 300
_HEADERS: Final = "headers"


class AskedHereWarning(UserWarning):
    """This process made a request that a worker was supposed to make."""


class _NotSentError(Exception):
    """A worker cannot make the request; nothing was sent."""


@dataclass(frozen=True)
class Sealed:
    """Data to or from a worker, as bytes, because clusters log the arguments of failed tasks."""

    data: bytes

    def __repr__(self) -> str:
        return "<a request to a model>"


@dataclass(frozen=True)
class _Sent:
    """A request in the form for a worker."""

    connection: ModelConnection
    messages: list[dict[str, Any]]
    options: Mapping[str, Any]


def ask_from_worker(_number: str, request: Sealed) -> Sealed:
    """Make a request in a worker. It raises nothing, because clusters log exceptions with their context."""
    try:
        sent: _Sent = pickle.loads(request.data)  # noqa: S301 # as the executor itself does
        client = _client_of(sent.connection)
    except Exception as error:  # noqa: BLE001 # for example a class that only the notebook has, or a missing key
        return _sealed("not asked", _words(error))
    try:
        reply = client.chat(sent.messages, **sent.options)
    except LLMConfigError as error:
        return _sealed("not asked", _words(error))
    except Exception as error:  # noqa: BLE001 # a client may raise any error
        return _sealed_error(error)
    try:
        return _sealed("reply", reply)
    except Exception as error:  # noqa: BLE001 # its values may raise any error
        return _sealed_error(LLMRequestError(f"the worker cannot send the reply back: {_words(error)}"))


def _client_of(connection: ModelConnection) -> LLMClient:
    if connection.client is not None:
        return connection.client
    key = "" if connection.key is None else connection.key.read(connection.name)
    # the sender retries, because it must check the budget first
    return http_client(replace(connection, options={**connection.options, "max_retries": 0}), key)


def _sealed(kind: str, value: object) -> Sealed:
    return Sealed(pickle.dumps((kind, value)))


def _sealed_error(error: Exception) -> Sealed:
    try:
        sealed = _sealed("error", error.with_traceback(None))
        pickle.loads(sealed.data)  # noqa: S301 # our own bytes: some errors can be written, and not read
    except Exception:  # noqa: BLE001 # any error counts
        return _sealed("error", LLMRequestError(f"a client raised {_words(error)}"))
    return sealed


def _words(error: BaseException) -> str:
    return one_line(f"{type(error).__name__}: {error}", _LONGEST_REASON)


class RequestWorkers:
    """Sends requests from the workers of an executor. This class is thread-safe.

    A lost worker counts as a lost connection, and the client's retries apply. Stop does not reach a worker. It
    withdraws a queued request and does not wait for a running one.

    Args:
        executor: a `ProcessPoolExecutor`, Dask's `client.get_executor()`, ipyparallel's `view.executor`. It belongs to
            the caller, who shuts it down.
        undo: the code that turns workers off again, for messages.
    """

    def __init__(self, executor: Executor, undo: str) -> None:
        self.executor = executor
        self._undo = undo
        self._lock = threading.Lock()
        self._warned: set[tuple[str, str]] = set()

    def client(self, connection: ModelConnection, here: LLMClient) -> LLMClient:
        """Return a client whose requests are sent from workers.

        Args:
            connection: the model's connection.
            here: its client in this process.
        """
        return _FromWorkers(self, connection, here)

    def send(self, request: Sealed) -> Future[Sealed]:
        """Make a request in a worker.

        Raises:
            _NotSentError: the executor does not accept it.
        """
        try:
            with self._lock:  # not every executor may be used by several threads
                # the same request twice is two requests: Dask would have one result for both
                return self.executor.submit(ask_from_worker, uuid4().hex, request)
        except Exception as error:
            raise _NotSentError(
                f"{type(self.executor).__name__} does not accept it ({_words(error)})"
            ) from error

    def lost(self, name: str, error: BaseException) -> LLMRequestError:
        """Return the error for a worker that was lost."""
        return LLMRequestError(
            f"the worker with the request to {name} was lost ({_words(error)}), so there is no reply. Try again; with "
            f"{self._undo}, this process sends the requests",
            is_transient=True,
        )

    def warn_not_sent(self, name: str, why: str) -> None:
        """Warn that this process makes a request, once for each model and reason."""
        with self._lock:
            if (name, why) in self._warned:
                return
            self._warned.add((name, why))
        warn(
            f"this process sends the request to {name}, not a worker: {why}. {self._undo} makes this the default",
            AskedHereWarning,
        )


class _FromWorkers:
    """A client whose requests are sent from workers. The arguments are as for `RequestWorkers.client`."""

    def __init__(self, workers: RequestWorkers, connection: ModelConnection, here: LLMClient) -> None:
        self._workers = workers
        self._connection = connection
        self._here = here
        if hasattr(here, "as_sent"):  # it says how a request goes out, and takes `before_retry`
            self.as_sent = here.as_sent

    def chat(
        self,
        messages: list[dict[str, Any]],
        *,
        abort: StopSignal | None = None,
        before_retry: BeforeRetry | None = None,
        **options: Any,
    ) -> dict[str, Any]:
        """Return the whole reply; see `llm.HTTPClient.chat`."""
        name = self._connection.asked(options.get("model")).shown
        try:
            request = self._sealed(messages, options)
            with ModelCall(abort) as call, Tries(before_retry) as tries:
                reply: dict[str, Any] = with_retries(
                    tries.noting(partial(self._ask, call, name, request)),
                    call,
                    max_retries=getattr(self._here, "max_retries", 0),
                    backoff=getattr(self._here, "backoff", 0),
                )
                return tries.with_failed(reply)
        except _NotSentError as error:
            self._workers.warn_not_sent(name, str(error))
        extra = {"abort": abort, "before_retry": before_retry}
        return self._here.chat(
            messages, **options, **{key: value for key, value in extra.items() if value is not None}
        )

    def _sealed(self, messages: list[dict[str, Any]], options: Mapping[str, Any]) -> Sealed:
        """Return the request in its sent form.

        Raises:
            _NotSentError: a part of it cannot be sent, or must not be sent.
        """
        connection = self._connection
        if connection.key is not None and connection.key.given is not None:
            raise _NotSentError("its key was entered in this session, and no key leaves this process")
        if connection.options.get(_HEADERS) or getattr(connection.client, "secrets", ()):
            raise _NotSentError("it has its own headers or key, which do not leave this process")
        try:
            return Sealed(pickle.dumps(_Sent(connection, messages, options)))
        except Exception as error:
            raise _NotSentError(f"it cannot be pickled ({_words(error)})") from error

    def _ask(self, call: ModelCall, name: str, request: Sealed) -> dict[str, Any]:
        call.check()
        future = self._workers.send(request)
        try:
            answer = call.result_of(future)
        except LLMRequestError:
            raise
        except Exception as error:
            if "ModuleNotFoundError" in {
                type(error).__name__,
                getattr(error, "ename", ""),
            }:  # as ipyparallel says it
                raise _NotSentError(f"a worker lacks a needed module ({_words(error)})") from error
            raise self._workers.lost(name, error) from error
        kind, value = pickle.loads(answer.data)  # noqa: S301 # as the executor itself has done
        if kind == "not asked":
            raise _NotSentError(f"a worker could not use it ({value})")
        if kind == "error":
            raise value
        return value  # type: ignore[no-any-return] # as the client gave it
