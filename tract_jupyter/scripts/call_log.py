"""The calls of one run of a script, so that the next run is answered with them if this one does not complete.

The log begins as that of the run before. As long as the script makes the same calls, it goes along it and is answered;
at the first other one the rest of it is dropped, and what is called from there on is added.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import TractError
from tract_jupyter.scripts.logged_call import (
    MOST_BYTES,
    FrozenCall,
    LoggedCall,
    frozen_arguments,
    frozen_output,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tract_jupyter.hooks.builtin.tool_question import Choice
    from tract_jupyter.scripts.stored_log import StoredLog
    from tract_jupyter.toolkit.definitions import ToolDefinition
    from tract_jupyter.toolkit.executor import ToolExecutor
    from tract_jupyter.toolkit.profiles import ToolProfile
    from tract_jupyter.toolkit.results import ToolResult

    Tool = ToolDefinition | str  # the name, where there is no such tool

_MOST_CALLS: Final = 10_000
_MOST_BYTES: Final = 8_000_000


class CallLog:
    """The log of one run.

    Args:
        stored: its rows.
        earlier: the calls of the run before, without those at its end that did not succeed.

    Attributes:
        replayed: how many calls were answered from the run before.
        closed: why no further calls are kept; nothing as long as they are.
    """

    def __init__(self, stored: StoredLog, earlier: Iterable[LoggedCall] = ()) -> None:
        self.replayed = 0
        self.closed = ""
        self._stored = stored
        self._calls: list[LoggedCall | FrozenCall] = list(earlier)
        self._size = sum(call.size for call in self._calls)
        self._place = 0  # how far the script has come along the calls of the run before
        # something was written that the run before did not write: what it read is old
        self._has_moved = False
        self._written = 0  # calls that this run has stored; 0 where all have to be stored anew
        self._has_news = False
        self._lock = stored.lock

    def call(
        self,
        executor: ToolExecutor,
        name: str,
        arguments: Mapping[str, Any],
        *,
        actor: str,
        profile: ToolProfile | None,
        is_approved: bool | Choice,
    ) -> ToolResult:
        """Answer a call from the run before, or have it made, and keep what came of it. As `ToolExecutor.execute`."""
        tool: Tool = (executor.get(name) if isinstance(name, str) else None) or str(name)
        place = None
        if self._place < len(self._calls):
            is_barred = not isinstance(tool, str) and executor.is_barred(tool, actor, profile)
            place, answer = self._earlier(tool, arguments, is_barred=is_barred)
            if answer is not None:
                return answer.result()
        frozen = None if self.closed else frozen_arguments(arguments)  # now: the handler may change them
        result = executor.execute(name, arguments, actor=actor, profile=profile, is_approved=is_approved)
        if not self.closed:
            self._keep(place, tool, frozen, result)
        return result

    def save(self) -> None:
        """Store what is new, but for what an open transaction may undo. A failure is no error of the script."""
        with self._lock:
            if self._has_news and not self._stored.in_transaction:
                self._save()

    def end(self, *, completed: bool) -> None:
        """Forget the log of a run that completed; store that of any other."""
        with self._lock:
            if completed:
                self._stored.remove()
                return
            if self._has_news:
                self._save()
            self._stored.release()

    def _earlier(
        self, tool: Tool, arguments: Mapping[str, Any], *, is_barred: bool
    ) -> tuple[int | None, LoggedCall | None]:
        """The place of a call in the run before, and the answer; None for each where there is none."""
        with self._lock:
            place = self._place
            call = self._calls[place] if place < len(self._calls) else None
            if not isinstance(call, LoggedCall):  # another thread came to the end of it
                return None, None
            if not call.is_of(tool, arguments):
                self._cut(place)
                return None, None
            self._place += 1
            if is_barred or not call.is_answer or (self._has_moved and _only_reads(tool)):
                return place, None
            self.replayed += 1
            return place, call

    def _keep(self, place: int | None, tool: Tool, arguments: bytes | None, result: ToolResult) -> None:
        reads = _only_reads(tool)
        output = frozen_output(result.output)
        if arguments is None or (output is None and not reads):
            self._close(tool)
            return
        call = FrozenCall(tool, arguments, result.success, output, result.error, result.denied)
        with self._lock:
            if place is not None and (not result.success or (reads and not self._has_moved)):
                return  # what is known of it stays
            if self._put(place, call, reads=reads) and result.success:
                self._has_news = True
                if not reads:
                    self._has_moved = True
                    self._secure(len(self._calls) - 1 if place is None else place)

    def _put(self, place: int | None, call: FrozenCall, *, reads: bool) -> bool:
        """Put a call where it belongs; whether there is room."""
        size = self._size + call.size
        if size > _MOST_BYTES and reads:
            call = call._replace(output=None)
            size = self._size + call.size
        if size > _MOST_BYTES or len(self._calls) >= _MOST_CALLS:
            self.closed = f"a log has up to {_MOST_CALLS:,} calls and {_MOST_BYTES:,} bytes"
            return False
        self._size = size
        if place is None or place >= len(self._calls):
            self._calls.append(call)
            self._place = len(self._calls)
        else:
            self._calls[place] = call
            self._written = 0
        return True

    def _secure(self, place: int) -> None:
        """Store what was written, or forget it if it is undone."""
        if self._stored.in_transaction:
            self._stored.if_rolled_back(partial(self._undo, place))
        else:
            self._save()

    def _undo(self, place: int) -> None:
        with self._lock:
            self._cut(place)
            self._has_news = True

    def _cut(self, place: int) -> None:
        """Drop the calls from a place on. What is stored of them stays until there is something new."""
        del self._calls[place:]
        self._place = min(self._place, place)
        self._size = sum(call.size for call in self._calls)
        if self._written > place:
            self._written = 0

    def _save(self) -> None:
        calls = list(self._logged())
        try:
            self._stored.write(self._written, calls[self._written :])
        except TractError as error:
            self.closed = str(error).rstrip(".")
        else:
            self._written, self._has_news = len(calls), False

    def _logged(self) -> Iterator[LoggedCall]:
        """The calls in the form that is stored; those from the first one on that has none are dropped."""
        for place, call in enumerate(self._calls):
            logged = call if isinstance(call, LoggedCall) else call.logged()
            if logged is None or (logged.output is None and not _only_reads(getattr(call, "tool", ""))):
                self._close(call.tool)
                self._cut(place)
                return
            self._calls[place] = logged
            yield logged

    def _close(self, tool: Tool) -> None:
        name = tool if isinstance(tool, str) else tool.name
        self.closed = f"a call of {name} has no plain JSON, or more than {MOST_BYTES:,} bytes of it"


def _only_reads(tool: Tool) -> bool:
    """Whether making the call again changes nothing; a name is that of no tool."""
    return isinstance(tool, str) or tool.traits.read_only
