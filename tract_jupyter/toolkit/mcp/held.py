"""Calls of MCP clients that outlive their requests.

Each client ends a tool call after another time. A call that waits for the user is therefore answered before that time,
with an id. The client asks for the result with this id. The call itself continues in this process.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import anyio

from tract_jupyter.exceptions import ContentError, UndecidedError
from tract_jupyter.models import digest
from tract_jupyter.toolkit.ambient import CallNotes, OutsideCall

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tract_jupyter.toolkit.results import ToolResult

Clock = Callable[[], float]


class Hold(NamedTuple):
    """The time in seconds that a client may wait for one answer.

    Attributes:
        without_progress: the time if the client asked for no progress reports.
    """

    seconds: float
    without_progress: float


UNKNOWN_CLIENT: Final = Hold(50.0, 50.0)
"""Less than 60 seconds, the shortest limit of a known client."""
HOLDS: Final = MappingProxyType({
    "claude-code": Hold(240.0, 240.0),  # 300 s over HTTP; measured with 2.1.332
    "codex-mcp-client": Hold(240.0, 240.0),  # 300 s, also with progress; 0.171
    "gemini-cli-mcp-client": Hold(240.0, 240.0),  # 600 s; 0.61
    "opencode": Hold(240.0, 50.0),  # 60 s without progress, none with it; 1.18
})  # fmt: skip
"""By the name that a client gives."""
ABSENT_SECONDS: Final = 600.0
"""A client has left if it does not ask for a result for this time."""
KEPT_SECONDS: Final = 3_600.0
"""The time for which the result of a finished call is kept."""
CLOSED: Final = "tract_jupyter.closed"
"""Set in the scope of an HTTP request whose client has closed the connection."""
_MOST: Final = 256


def hold_of(client: str, *, has_progress: bool) -> float:
    """Return the seconds after which a call of a client is answered, even if it has no result."""
    hold = HOLDS.get(client, UNKNOWN_CLIENT)
    return hold.seconds if has_progress else hold.without_progress


@dataclass(eq=False)
class HeldCall:
    """A call, and the requests that wait for it.

    `key` is equal for identical calls of one client. `waiting` counts the client's requests that wait. `since` is the
    time at which the last of them ended, or the call itself. `was_left` is True if all of them were cancelled once.
    """

    actor: str
    tool: str
    arguments: dict[str, Any]
    key: str
    outside: OutsideCall
    call_id: str = field(default_factory=lambda: secrets.token_hex(8))
    notes: CallNotes = field(default_factory=CallNotes)
    ended: anyio.Event = field(default_factory=anyio.Event)
    result: ToolResult | None = None
    waiting: int = 0
    since: float = 0.0
    is_delivered: bool = False
    was_left: bool = False

    @property
    def is_undecided(self) -> bool:
        """True if the user has not decided its request."""
        return any(pending.status.is_open for pending in self.notes.asked)

    @property
    def has_left(self) -> bool:
        """True if its client no longer waits."""
        return self.outside.has_left.is_set()

    def leave(self) -> None:
        """Tell the call that its client no longer waits."""
        self.was_left = True
        self.outside.has_left.set()

    def join(self) -> bool:
        """Let a request wait for this call. False if the call is about to end without a decision."""
        if self.has_left and not self.ended.is_set() and self._is_first_open:
            return False
        self.outside.has_left.clear()
        return True

    @property
    def _is_first_open(self) -> bool:
        return bool(self.notes.asked) and self.notes.asked[0].status.is_open

    def check(self) -> None:
        """Check that the client still waits for the decision. An approved call is carried out in any case.

        Raises:
            UndecidedError: the client has left.
        """
        if self.has_left and self._is_first_open:
            raise UndecidedError("the client cancelled the call before a decision", self.notes.asked[0])


class HeldCalls:
    """The calls of all clients of one server."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._calls: dict[str, HeldCall] = {}

    def __iter__(self) -> Iterator[HeldCall]:
        return iter(tuple(self._calls.values()))

    @property
    def is_full(self) -> bool:
        """True if too many calls have no result yet."""
        return sum(not call.ended.is_set() for call in self) >= _MOST

    def add(self, call: HeldCall) -> None:
        """Add a call. Forget the oldest results if there are too many."""
        ended = [one for one in self if one.ended.is_set()]
        ended.sort(key=lambda one: (not one.is_delivered, one.since))
        for one in ended[: max(len(ended) - _MOST + 1, 0)]:
            self.forget(one)
        self._calls[call.call_id] = call

    def forget(self, call: HeldCall) -> None:
        """Forget a call and its result."""
        self._calls.pop(call.call_id, None)

    def find(self, call_id: object, actor: str) -> HeldCall | None:
        """Return the call of a client with an id."""
        call = self._calls.get(call_id) if isinstance(call_id, str) else None
        return call if call is not None and call.actor == actor else None

    def identical(self, key: str) -> HeldCall | None:
        """Return the identical call whose result the client does not have yet."""
        return next((call for call in self if call.key == key and not call.is_delivered), None)

    def wait(self, call: HeldCall) -> None:
        """Count a request that waits for a call."""
        call.waiting += 1

    def end_wait(self, call: HeldCall, *, is_cancelled: bool) -> None:
        """Count the end of that request. The client has left if it cancelled its last one."""
        call.waiting -= 1
        call.since = self._clock()
        if is_cancelled and not call.waiting:
            call.leave()

    def end(self, call: HeldCall, result: ToolResult) -> None:
        """Store the result of a call. Forget a call whose client left before a decision."""
        call.result, call.since = result, self._clock()
        if call.has_left and isinstance(result.cause, UndecidedError):
            self.forget(call)
        call.ended.set()

    def tidy(self) -> None:
        """Forget old results. Treat a client as gone if it did not ask for a result for a long time."""
        now = self._clock()
        for call in self:
            idle = 0.0 if call.waiting else now - call.since
            if call.ended.is_set() and idle > KEPT_SECONDS:
                self.forget(call)
            elif idle > ABSENT_SECONDS:
                call.leave()

    def leave(self) -> None:
        """Tell all calls that no client waits any more."""
        for call in self:
            call.leave()


def call_key(actor: str, tool: str, arguments: dict[str, Any]) -> str:
    """Return a key that identical calls of one client share."""
    try:
        return digest([actor, tool, arguments])
    except ContentError:  # such as NaN
        return secrets.token_hex(16)
