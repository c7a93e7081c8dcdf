"""An MCP server over streamable HTTP, on 127.0.0.1 and in a thread. Only a client with the token is served."""

from __future__ import annotations

import asyncio
import hmac
import logging
import socket
import threading
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tract_jupyter.exceptions import McpStartError
from tract_jupyter.toolkit.mcp.client import needing_sdk
from tract_jupyter.toolkit.mcp.held import CLOSED

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from tract_jupyter.toolkit.mcp.server import McpService

    Scope = dict[str, Any]
    Receive = Callable[[], Awaitable[dict[str, Any]]]
    Send = Callable[[dict[str, Any]], Awaitable[None]]
    App = Callable[[Scope, Receive, Send], Awaitable[None]]

PATH: Final = "/mcp"
MOST_BYTES: Final = 4 * 1024 * 1024
"""The maximum size of a request. Code has at most 1,000,000 characters."""
_HOST: Final = "127.0.0.1"
_MOST_SESSIONS: Final = 256
_MOST_CONNECTIONS: Final = 512
_IDLE_SECONDS: Final = 1_800.0
_KEEP_ALIVE_SECONDS: Final = 120
"""Longer than a model thinks between two calls: a client may send on a connection that is just being closed."""
_START_SECONDS: Final = 60.0
_END_SECONDS: Final = 3.0
_BEAT: Final = 0.02

# these loggers report bytes of other programs; without a handler, Python prints the reports into a cell
for _name in ("mcp", "uvicorn"):
    logging.getLogger(_name).addHandler(logging.NullHandler())

_tokens: set[str] = set()


def server_tokens() -> frozenset[str]:
    """Return the tokens of the servers in this process. A rehearsal removes them from its copy."""
    return frozenset(_tokens)


class Guard:
    """Refuses each request without the token, or from a web page, before its body is read."""

    def __init__(self, app: App, token: str, port: int) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()
        names = (_HOST, "localhost")
        self._hosts = frozenset(f"{name}:{port}".encode() for name in names)
        self._origins = frozenset(b"http://" + host for host in self._hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or refuse it."""
        if scope["type"] != "http":
            return
        refusal = self._refusal(scope)
        if refusal is None:
            await self._app(scope, _noting(scope, receive), send)
        else:
            await _refuse(send, refusal)

    def _refusal(self, scope: Scope) -> HTTPStatus | None:
        headers = scope["headers"]
        if not _is_one_of(_values(headers, b"host"), self._hosts):
            return HTTPStatus.MISDIRECTED_REQUEST
        origins = _values(headers, b"origin")
        if origins and not _is_one_of(origins, self._origins):
            return HTTPStatus.FORBIDDEN
        tokens = _values(headers, b"authorization")
        if len(tokens) != 1 or not hmac.compare_digest(tokens[0], self._expected):
            return HTTPStatus.UNAUTHORIZED
        return None if scope["path"] == PATH else HTTPStatus.NOT_FOUND


def _noting(scope: Scope, receive: Receive) -> Receive:
    """Return `receive`. It also notes in the scope that the client has closed the connection."""

    async def take() -> dict[str, Any]:
        message = await receive()
        if message["type"] == "http.disconnect":
            scope[CLOSED] = True
        return message

    return take


def _values(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> list[bytes]:
    return [value for key, value in headers if key == name]


def _is_one_of(values: list[bytes], allowed: frozenset[bytes]) -> bool:
    return len(values) == 1 and values[0] in allowed


async def _refuse(send: Send, status: HTTPStatus) -> None:
    headers = [(b"content-type", b"text/plain"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": int(status), "headers": headers})
    await send({"type": "http.response.body", "body": status.phrase.encode()})


class ServerAddress(NamedTuple):
    """The address of a server for one MCP client.

    Attributes:
        url: the URL, on 127.0.0.1.
        headers: the HTTP headers with the token.
        name: the name of the server for the client. It is random, so no other server of the user has it.
    """

    url: str
    headers: dict[str, str]
    name: str


class HttpServer:
    """A server in a thread, which also imports the SDK.

    `make` makes the service, in that thread. `port` is 0 before the start.
    """

    def __init__(self, make: Callable[[], McpService], token: str) -> None:
        self._make = make
        self._token = token
        _tokens.add(token)
        self.port = 0
        self._server: Any = None
        self._error: BaseException | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tract-mcp-http", daemon=True)

    @property
    def url(self) -> str:
        """The URL for clients."""
        return f"http://{_HOST}:{self.port}{PATH}"

    def address(self, name: str) -> ServerAddress:
        """Return the address for a client that knows the server by a name."""
        return ServerAddress(self.url, {"Authorization": f"Bearer {self._token}"}, name)

    @property
    def is_running(self) -> bool:
        """True from the start until the end of the thread."""
        return self._ready.is_set() and self._thread.is_alive()

    def start(self) -> None:
        """Start the thread, and wait until it serves."""
        self._thread.start()
        waited = 0.0
        while not self._ready.wait(_BEAT):  # many short waits, which an interrupt can end
            waited += _BEAT
            if self._error is not None:
                break
            if waited > _START_SECONDS:
                raise McpStartError(f"the server did not start within {_START_SECONDS:g} s; try again")
        if self._error is not None:
            if isinstance(self._error, McpStartError):
                raise self._error
            raise McpStartError(f"the server did not start: {self._error}") from self._error

    def stop(self) -> None:
        """End the server. Open calls of clients end without an answer."""
        _tokens.discard(self._token)
        if self._server is not None:
            self._server.should_exit = True
            self._server.force_exit = True
        if self._thread.is_alive():
            self._thread.join(_END_SECONDS)

    def _run(self) -> None:
        try:
            with needing_sdk():
                import uvicorn  # noqa: F401 # a part of the SDK's installation
                from mcp.server.streamable_http_manager import StreamableHTTPSessionManager  # noqa: F401
            # asyncio sends small pieces at once only if the protocol is named
            with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening:
                listening.bind((_HOST, 0))
                self.port = listening.getsockname()[1]
                asyncio.run(self._serve(listening))
        except BaseException as error:  # noqa: BLE001 # `start` raises it in the caller's thread
            self._error = error

    async def _serve(self, listening: socket.socket) -> None:
        import uvicorn
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        from tract_jupyter.toolkit.mcp.connections import HttpConnection

        service = self._make()
        manager = StreamableHTTPSessionManager(
            service.server,
            max_request_body_size=MOST_BYTES,
            max_sessions=_MOST_SESSIONS,
            session_idle_timeout=_IDLE_SECONDS,
        )
        app: Any = Guard(manager.handle_request, self._token, self.port)  # type: ignore[arg-type] # starlette's types
        config = uvicorn.Config(
            app, http=HttpConnection, log_config=None, access_log=False, lifespan="off", ws="none", interface="asgi3",
            proxy_headers=False, server_header=False, limit_concurrency=_MOST_CONNECTIONS,
            timeout_graceful_shutdown=1, timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        async with manager.run():
            starting = asyncio.create_task(self._tell_ready())
            await self._server.serve(sockets=[listening])
            starting.cancel()
        with suppress(asyncio.CancelledError):
            await starting

    async def _tell_ready(self) -> None:
        while not self._server.started:  # noqa: ASYNC110 # uvicorn has no event for it
            await asyncio.sleep(_BEAT / 2)
        self._ready.set()
