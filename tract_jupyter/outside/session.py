"""A session with an outside agent: the handshake, the mode that asks, and requests to the agent."""

from __future__ import annotations

import os
import shlex
import time
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from tract_jupyter.concurrency import Stopped, StopSignal
from tract_jupyter.exceptions import OutsideAgentError
from tract_jupyter.models import one_line
from tract_jupyter.outside.calls import dicts
from tract_jupyter.outside.process import AgentLeft, AgentMessage, AgentProcess, MessageQueue, environment
from tract_jupyter.outside.traffic import ReplayedProcess, TurnStopped

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tract_jupyter.outside.agents import AgentSettings
    from tract_jupyter.outside.traffic import AgentTraffic

    Listener = Callable[[Any], object]

_VERSION: Final = 1
_START_SECONDS: Final = 90.0
_CALL_SECONDS: Final = 30.0
_HEARTBEAT: Final = 0.05
_BRIEF: Final = 300
_LONGEST_COMMAND: Final = 2_000
_MOST_METHODS: Final = 6
_NO_METHOD: Final = -32601
_NO_LOGIN: Final = -32000
_NEED_LOGIN: Final = frozenset({"session/new", "session/load", "session/prompt", "authenticate"})
_MOST_USD: Final = 1_000_000


class KernelServer(Protocol):
    """The MCP server of the kernel, which an agent gets."""

    @property
    def name(self) -> str:
        """The name of the server, new for each kernel."""
        ...

    @property
    def url(self) -> str:
        """Its address on this machine."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of each request."""
        ...


class AgentSession:
    """One agent process with one session.

    Args:
        settings: the agent.
        folder: the working folder.
        names: the variables of this process that the user named for the agent.
        server: the MCP server of the kernel; None for none.
        traffic: passes its messages through the cassette. A replay starts no program.

    Attributes:
        inbox: the agent's messages, and our notes.
        session_id: the agent's id of the session.
        mode: the current mode, as the agent reports it.
        is_prompting: True while a prompt has no response.
        has_left: True if the agent has ended by itself.
        stop: ends the wait for a response.

    Raises:
        OutsideAgentError: its program is not installed or cannot be started, or the folder makes it run programs.
    """

    def __init__(
        self,
        settings: AgentSettings,
        folder: Path,
        names: Sequence[str],
        server: KernelServer | None,
        traffic: AgentTraffic,
    ) -> None:
        self.settings = settings if server is None else settings.with_kernel(server.name)
        self.traffic = traffic
        self.folder = folder
        self.server = server
        self.inbox = MessageQueue()
        self.session_id = ""
        self.mode = ""
        self.is_prompting = False
        self.has_left = False
        self.stop = StopSignal()
        self._names = tuple(names)
        self._ids = count(1)
        self._capabilities: Mapping[str, Any] = {}
        self._modes: tuple[str, ...] = ()
        self._mode_option = ""
        self._spent = 0.0
        self._last = 0
        self._methods: list[dict[str, Any]] = []
        command = self.settings.command if self.traffic.is_replay else _found(self.settings)
        self._env = environment({**self.settings.environment, **self._inner(command)}, self._names)
        self.process = self._start(command)

    def _start(self, command: Sequence[str]) -> AgentProcess | ReplayedProcess:
        if self.traffic.is_replay:
            return ReplayedProcess(self.traffic, self.inbox)
        _check_folder(self.settings, self.folder)
        return AgentProcess(command, self.folder, self._env, self.inbox)

    def _inner(self, command: Sequence[str]) -> dict[str, str]:
        """Return the variables for the program that the agent's program starts. The user's own choice is stronger."""
        inner = self.settings.inner
        is_ours = inner is not None and inner.variable not in self._names
        return inner.variables(Path(command[0])) if inner is not None and is_ours else {}

    # --- the session

    def open(self, listen: Listener, earlier: str = "") -> bool:
        """Start a session in the mode that asks. Load the session `earlier` if the agent can.

        Returns:
            True if the earlier session was loaded.

        Raises:
            OutsideAgentError: the agent does not start, is not logged in, or cannot be made to ask.
        """
        self._initialize(listen)
        self._authenticate(listen)
        if self.server is not None and not _get(self._capabilities, "mcpCapabilities", "http"):
            self.server = None
        is_loaded = bool(earlier) and self._load(earlier)
        if not is_loaded:
            params = {**self._session_params(), **self._meta()}
            result = self.call("session/new", params, listen, _START_SECONDS)
            self.session_id = str(result.get("sessionId") or "")
            self._note_modes(result)
        self.ensure_asking(listen)
        return is_loaded

    def _initialize(self, listen: Listener) -> None:
        from tract_jupyter import __version__

        params = {
            "protocolVersion": _VERSION,
            "clientCapabilities": {
                "fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False, "auth": {"terminal": True},
            },
            "clientInfo": {"name": "tract_jupyter", "version": __version__},
        }  # fmt: skip
        result = self.call("initialize", params, listen, _START_SECONDS)
        if result.get("protocolVersion") != _VERSION:
            raise OutsideAgentError(
                f"{self.settings.title} speaks version {result.get('protocolVersion')!r} of ACP, and version "
                f"{_VERSION} is supported. Install another version of the agent."
            )
        self._capabilities = _get(result, "agentCapabilities") or {}
        self._methods = list(dicts(result.get("authMethods")))

    def _authenticate(self, listen: Listener) -> None:
        method_of_key = next(
            (id_ for name, id_ in self.settings.authenticates_with.items() if self._env.get(name)), None
        )
        method = self.traffic.draw("login", lambda: method_of_key or "")
        if method:
            self.call("authenticate", {"methodId": method}, listen, _CALL_SECONDS)

    def _session_params(self) -> dict[str, Any]:
        servers = []
        if self.server is not None:
            headers = [{"name": name, "value": value} for name, value in self.server.headers.items()]
            servers = [{"type": "http", "name": self.server.name, "url": self.server.url, "headers": headers}]
        return {"cwd": str(self.folder), "mcpServers": servers}

    def _meta(self) -> dict[str, Any]:
        meta = self.settings.meta("kernel" if self.server is None else self.server.name)
        return {"_meta": meta} if meta else {}

    def _load(self, earlier: str) -> bool:
        if not self._capabilities.get("loadSession"):
            return False
        params = {"sessionId": earlier, **self._session_params(), **self._meta()}
        try:
            result = self.call("session/load", params, lambda _replayed: None, _START_SECONDS)
        except OutsideAgentError:
            if not self.process.is_running:
                raise
            return False
        self.session_id = earlier
        self._note_modes(result)
        return True

    def ensure_asking(self, listen: Listener) -> None:
        """Set the mode that asks, and verify it."""
        wanted = self.settings.mode
        if not wanted:
            return
        self.mode = ""
        if wanted in self._modes:
            params = {"sessionId": self.session_id, "modeId": wanted}
            self.call("session/set_mode", params, listen, _CALL_SECONDS)
            self.mode = self.mode or wanted  # an update that came meanwhile counts
        elif self._mode_option:
            params = {"sessionId": self.session_id, "configId": self._mode_option, "value": wanted}
            self._note_modes(self.call("session/set_config_option", params, listen, _CALL_SECONDS))
        if not self.is_asking:
            raise OutsideAgentError(
                f"{self.settings.title} cannot be set to its mode {wanted!r}, in which it asks before it acts, so "
                "nothing was sent. Use the verified version, or another agent."
            )

    @property
    def is_asking(self) -> bool:
        """True if the agent is in the mode that asks, as far as it has one."""
        return not self.settings.mode or self.mode == self.settings.mode

    def takes(self, kind: str) -> bool:
        """Return True if a prompt may have content of a kind: `image` or `embeddedContext`."""
        return bool(_get(self._capabilities, "promptCapabilities", kind))

    # --- messages

    def call(
        self, method: str, params: Mapping[str, Any], listen: Listener, seconds: float | None = None
    ) -> Mapping[str, Any]:
        """Send a request, and return its result. `listen` gets all other items of the inbox meanwhile.

        Raises:
            OutsideAgentError: the agent answers with an error, leaves, or does not answer in time.
        """
        number = self._last = self.send(method, params)
        until = None if seconds is None else time.monotonic() + seconds
        while until is None or time.monotonic() < until:
            item = self._take()
            if isinstance(item, AgentMessage) and _answers(item.data, number):
                return self._result(method, item.data)
            if isinstance(item, AgentLeft):
                self.has_left = True
                raise OutsideAgentError(f"{self.settings.title} left: {item.why}")
            if item is not None:
                self.note(item)
                listen(item)
            if item is None and self.inbox.is_closed:
                raise OutsideAgentError(f"{self.settings.title} was stopped.")
        raise OutsideAgentError(f"{self.settings.title} did not answer {method} within {seconds:g} seconds.")

    def _take(self) -> Any:
        """Return the next item of the inbox; None if there is none yet."""
        if self.stop.is_set():
            self.traffic.took(TurnStopped(self.stop.reason))
            raise Stopped
        item = self.inbox.take(_HEARTBEAT)
        self.traffic.took(item)
        if isinstance(item, TurnStopped):
            self.stop.set(item.why)
            raise Stopped
        return item

    def settle(self, seconds: float) -> None:
        """Wait for the response to a cancelled prompt, and answer requests. Without a response, end the agent."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self.inbox.is_closed:
            item = self._take()
            self.note(item)
            if isinstance(item, AgentLeft):
                break
            if isinstance(item, AgentMessage) and _answers(item.data, self._last):
                self.is_prompting = False
                return
            self.decline(item)
        self.close()

    def decline(self, item: object) -> None:
        """Answer a request that belongs to no turn. Ignore any other item."""
        data = item.data if isinstance(item, AgentMessage) else {}
        method, request = data.get("method"), data.get("id")
        if method == "session/request_permission" and request is not None:
            self.answer(request, {"outcome": {"outcome": "cancelled"}})
        elif method and request is not None:
            self.refuse(request, str(method))

    def send(self, method: str, params: Mapping[str, Any]) -> int:
        """Send a request without waiting. Return its number."""
        number = next(self._ids)
        self._send({"id": number, "method": method, "params": params})
        return number

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification."""
        self._send({"method": method, "params": params})

    def answer(self, request: Any, result: Mapping[str, Any]) -> None:
        """Answer a request of the agent."""
        self._send({"id": request, "result": result})

    def refuse(self, request: Any, method: str) -> None:
        """Answer a request that is not supported."""
        error = {"code": _NO_METHOD, "message": f"{method} is not supported"}
        self._send({"id": request, "error": error})

    def _send(self, message: Mapping[str, Any]) -> None:
        self.traffic.sent(message)
        self.process.send(message)

    def note(self, item: object) -> None:
        """Take over the mode that a message reports."""
        update = update_of(item, self.session_id)
        kind = update.get("sessionUpdate")
        if kind == "current_mode_update":
            self.mode = str(update.get("currentModeId"))
        elif kind == "config_option_update":
            self._note_modes(update)

    def spend(self, cost: Any) -> float:
        """Take the total cost that the agent claims for the session. Return the part that is new, in US dollars."""
        amount = cost.get("amount") if isinstance(cost, dict) and cost.get("currency") == "USD" else None
        if isinstance(amount, bool) or not isinstance(amount, int | float) or not 0 <= amount < _MOST_USD:
            return 0.0
        new, self._spent = max(0.0, amount - self._spent), float(amount)
        return new

    def close(self) -> None:
        """End the process. Takes 4 seconds at most."""
        self.traffic.flush()
        self.process.close()

    def _note_modes(self, result: Mapping[str, Any]) -> None:
        modes = _get(result, "modes")
        if isinstance(modes, dict):
            self._modes = tuple(str(one.get("id")) for one in dicts(modes.get("availableModes")))
            self.mode = str(modes.get("currentModeId"))
        for one in dicts(result.get("configOptions")):
            if one.get("category") == "mode" and one.get("id"):
                self._mode_option = str(one["id"])
                self.mode = str(one.get("currentValue"))

    def _result(self, method: str, data: Mapping[str, Any]) -> Mapping[str, Any]:
        error = data.get("error")
        if error is None:
            result = data.get("result")
            return result if isinstance(result, dict) else {}
        code, message = (error.get("code"), error.get("message")) if isinstance(error, dict) else (0, error)
        is_about_login = method != "session/prompt" or "auth" in str(message).lower()
        if code == _NO_LOGIN and method in _NEED_LOGIN and is_about_login:
            raise OutsideAgentError(self._how_to_log_in())
        detail = error.get("data") if isinstance(error, dict) else None
        text = one_line(f"{message}{f': {detail}' if detail else ''}", _BRIEF)
        raise OutsideAgentError(f"{self.settings.title} refused {method}: {text.rstrip('.')}.")

    def _how_to_log_in(self) -> str:
        methods = self._methods[:_MOST_METHODS]
        commands = [one for one in methods if one.get("type") == "terminal"]
        names = ", ".join(map(_name_of, (one for one in methods if one not in commands)))
        offers = f" It offers: {names}." if names else ""
        name_key = f"name the variable of its key: %tract agent use {self.settings.name} --env NAME.{offers}"
        if commands:
            lines = "; ".join(f"{self._login_command(one)} ({_name_of(one)})" for one in commands)
            return (
                f"{self.settings.title} is not logged in. Run its command in a terminal, and send the message again: "
                f"{lines}. Or {name_key}"
            )
        program = self.settings.login or self.settings.command[0].rpartition("/")[2]
        return (
            f"{self.settings.title} is not logged in. Log in with its own program in a terminal ({program}), and send "
            f"the message again. Or {name_key}"
        )

    def _login_command(self, method: Mapping[str, Any]) -> str:
        """Return the command line of a login. The program is ours to choose, and its arguments are the agent's."""
        given, variables = method.get("args"), method.get("env")
        args = [str(one) for one in given] if isinstance(given, list) else []
        env = [f"{name}={value}" for name, value in variables.items()] if isinstance(variables, dict) else []
        words = [*(["env", *env] if env else []), *self.settings.command, *args]
        return one_line(shlex.join(words), _LONGEST_COMMAND)


def update_of(item: object, session_id: str) -> Mapping[str, Any]:
    """Return the update of a session that a message reports; empty for any other item."""
    if not isinstance(item, AgentMessage) or item.data.get("method") != "session/update":
        return {}
    params = item.data.get("params")
    if not isinstance(params, dict) or params.get("sessionId") != session_id:
        return {}
    update = params.get("update")
    return update if isinstance(update, dict) else {}


def _name_of(method: Mapping[str, Any]) -> str:
    return one_line(str(method.get("name") or method.get("id")), 60)


def _answers(data: Mapping[str, Any], number: int) -> bool:
    return "method" not in data and data.get("id") == number


def _found(settings: AgentSettings) -> tuple[str, ...]:
    if settings.why_no_program:
        raise OutsideAgentError(settings.why_no_program)
    return (settings.program, *settings.command[1:])


def _check_folder(settings: AgentSettings, folder: Path) -> None:
    """Refuse a project whose file makes the agent run programs. The agent looks for it in the parents too."""
    own = Path.home() / settings.project_file
    for place in (folder, *folder.parents) if settings.project_file else ():
        file = place / settings.project_file
        if file != own and os.path.lexists(file):
            raise OutsideAgentError(
                f"{settings.title} would run programs of {one_line(str(file), _BRIEF)} without a question, so it was "
                "not started. Move this file away, or copy what you need to your own settings of the agent."
            )


def _get(data: Mapping[str, Any], *names: str) -> Any:
    value: Any = data
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value
