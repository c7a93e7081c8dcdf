"""The process of an outside agent: newline-delimited JSON-RPC over its stdin and stdout, and a queue of messages."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import OutsideAgentError
from tract_jupyter.models import printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LONGEST_LINE: Final = 16_000_000
"""Maximum number of bytes of one message."""
_DEEPEST: Final = 100
"""Maximum number of nested levels of one message. The store takes a few more."""
_CHUNK: Final = 1 << 16
_TAIL: Final = 4_000
_QUOTED: Final = 600
_GRACE_SECONDS: Final = 0.7
_END_SECONDS: Final = 3.0
_GUARD: Final = str(Path(__file__).with_name("guard.py"))
_PASSED: Final = frozenset(
    {
        "PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LANGUAGE", "TZ", "TMPDIR", "HTTP_PROXY",
        "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR",
        "NODE_EXTRA_CA_CERTS", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME",
        "XDG_RUNTIME_DIR", "CODEX_HOME", "CLAUDE_CONFIG_DIR",
    }
)  # fmt: skip
"""The variables of this process that an agent gets. Keys and the tokens of Jupyter are not among them."""


@dataclass(frozen=True, slots=True)
class AgentMessage:
    """A message of the agent: a response, a request or a notification of JSON-RPC.

    Attributes:
        data: the JSON object.
    """

    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class AgentLeft:
    """The agent sends no more messages.

    Attributes:
        why: the reason, with the end of its stderr output.
    """

    why: str


def environment(extra: Mapping[str, str], names: Sequence[str] = ()) -> dict[str, str]:
    """Return the environment of an agent: the variables that programs need, the user's named ones, and more."""
    wanted = _PASSED.union(names)
    passed = {name: value for name, value in os.environ.items() if name in wanted or name.startswith("LC_")}
    return {**passed, **extra}


class AgentProcess:
    """A running agent, with all processes that it starts. The inbox gets its messages, in order."""

    def __init__(
        self, command: Sequence[str], folder: Path, env: Mapping[str, str], inbox: MessageQueue
    ) -> None:
        self._inbox = inbox
        self._tail = b""
        self._problem = ""
        self._outgoing: SimpleQueue[bytes | None] = SimpleQueue()
        guard = [sys.executable, "-I", "-S", _GUARD, str(os.getpid()), *command]
        try:
            self._process = subprocess.Popen(  # noqa: S603 # the user chose the command
                guard, cwd=folder, env=dict(env), bufsize=0, start_new_session=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )  # fmt: skip
        except OSError as error:
            raise OutsideAgentError(
                f"The agent cannot be started: {error.strerror or error}. Check its command."
            ) from None
        self._errors = self._thread(self._read_errors, "errors")
        self._thread(self._read, "messages")
        self._thread(self._write, "requests")

    def _thread(self, work: Any, name: str) -> threading.Thread:
        thread = threading.Thread(target=work, name=f"tract-agent-{name}", daemon=True)
        thread.start()
        return thread

    @property
    def pid(self) -> int:
        """The process that guards the agent. It is the first one of the agent's process group."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """True until all its processes have ended."""
        return self._process.poll() is None

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message soon. A message to an agent that has left is dropped."""
        text = json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=True)
        self._outgoing.put(text.encode() + b"\n")

    def close(self) -> None:
        """End the agent: close its stdin, then SIGTERM, then SIGKILL to all its processes. Takes 4 seconds at most."""
        self._inbox.close()
        self._outgoing.put(None)
        if not self._ends_within(0 if self._problem else _GRACE_SECONDS):
            with contextlib.suppress(OSError):
                self._process.terminate()  # the guard ends all
        if (
            not self._ends_within(_END_SECONDS) or self._process.returncode < 0
        ):  # such as a guard that the agent ended
            with contextlib.suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._ends_within(1.0)

    def _ends_within(self, seconds: float) -> bool:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return not self.is_running

    # --- threads

    def _write(self) -> None:
        stdin = self._process.stdin
        with contextlib.suppress(OSError, ValueError):
            while stdin is not None and (data := self._outgoing.get()) is not None:
                view = memoryview(data)
                while view:
                    view = view[stdin.write(view) :]
        with contextlib.suppress(OSError):
            if stdin is not None:
                stdin.close()

    def _read_errors(self) -> None:
        stderr = self._process.stderr
        with contextlib.suppress(OSError, ValueError):
            while stderr is not None and (data := stderr.read(_CHUNK)):
                self._tail = (self._tail + data)[-_TAIL:]
        if stderr is not None:
            stderr.close()

    def _read(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._read_lines()
        self._errors.join(0.2)  # its last words
        self._inbox.post(AgentLeft(self._exit_reason()))
        stdout = self._process.stdout
        with contextlib.suppress(OSError, ValueError):
            while stdout is not None and stdout.read(_CHUNK):
                pass  # a blocked write would keep it from ending
        if stdout is not None:
            stdout.close()

    def _read_lines(self) -> None:
        """Put each line into the inbox. Stop at the end, or at a line that is too long or too deep."""
        stdout = self._process.stdout
        parts: list[bytes] = []
        size = 0
        while stdout is not None and (chunk := stdout.read(_CHUNK)):
            *lines, rest = chunk.split(b"\n")
            for line in lines:
                self._take(b"".join([*parts, line]))
                parts, size = [], 0
                if self._problem:
                    return
            parts.append(rest)
            size += len(rest)
            if size > LONGEST_LINE:
                self._problem = f"it sent a message of more than {LONGEST_LINE:,} bytes"
                return

    def _take(self, line: bytes) -> None:
        """Put the message of a line into the inbox. Another line, such as a forgotten print, is kept for errors."""
        if not line.strip():
            return
        try:
            data = json.loads(line)
            is_deep = _is_deep(data)
        except ValueError:
            data, is_deep = None, False
        except RecursionError:
            data, is_deep = None, True
        if is_deep:
            self._problem = f"it sent a message with more than {_DEEPEST} nested levels"
        elif isinstance(data, dict):
            self._inbox.put(AgentMessage(data), len(line))
        else:
            self._tail = (self._tail + line[:200] + b"\n")[-_TAIL:]

    def _exit_reason(self) -> str:
        text = printable(self._tail.decode(errors="replace")).strip()
        quoted = f" It wrote: {text if len(text) <= _QUOTED else '…' + text[-_QUOTED:]}" if text else ""
        return f"{self._problem or 'its process ended'}.{quoted}"


def _is_deep(data: Any) -> bool:
    level = [data]
    for _ in range(_DEEPEST):
        level = [
            part
            for one in level
            if isinstance(one, dict | list)
            for part in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return False
    return True


_MOST_BYTES: Final = 64_000_000


class MessageQueue:
    """A queue for one reader. A sender of messages waits while too many bytes are in it.

    Attributes:
        is_closed: True if later items are dropped.
    """

    def __init__(self) -> None:
        self._items: deque[tuple[Any, int]] = deque()
        self._size = 0
        self._changed = threading.Condition()
        self.is_closed = False

    def put(self, item: object, size: int) -> None:
        """Append a message of `size` bytes. Wait until there is room for it."""
        with self._changed:
            self._changed.wait_for(
                lambda: self.is_closed or not self._items or self._size + size <= _MOST_BYTES
            )
            self._append(item, size)

    def post(self, item: object) -> None:
        """Append a note of this process at once."""
        with self._changed:
            self._append(item, 0)

    def insert(self, items: Sequence[object]) -> None:
        """Put items before all others, in their order."""
        with self._changed:
            self._items.extendleft((item, 0) for item in reversed(items))
            self._changed.notify_all()

    def _append(self, item: object, size: int) -> None:
        if not self.is_closed:
            self._items.append((item, size))
            self._size += size
            self._changed.notify_all()

    def take(self, seconds: float) -> Any:
        """Return the next item. Return None if there is none within `seconds`."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._items, seconds):
                return None
            item, size = self._items.popleft()
            self._size -= size
            self._changed.notify_all()
            return item

    def close(self) -> None:
        """Drop all later items, and release a waiting sender."""
        with self._changed:
            self.is_closed = True
            self._changed.notify_all()
