"""The log of a script's calls. If a run does not complete, the next run gets its answers from the log.

A log starts as a copy of the previous run's log. While the script makes the same calls, the log answers them. At the
first different call, the log drops the rest and records all further calls.

During a run, the log keeps calls as `marshal` bytes. The script cannot change this copy, and it takes a tenth of the
time of JSON. The bytes never leave the process. The store gets JSON.

Each row holds some calls of one run. Its signature covers the run and the position of the calls. An attacker who can
write to the store can remove the last rows, and then the next run makes these calls again. The attacker cannot change
or mix calls.
"""

from __future__ import annotations

import json
import marshal
import secrets
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tract_jupyter.exceptions import ContentError, TractError
from tract_jupyter.models import counted, digest, frozen
from tract_jupyter.review import is_running, this_process
from tract_jupyter.storage import StoredCalls, now_text, read_moment
from tract_jupyter.toolkit import ToolResult

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from datetime import datetime

    from tract_jupyter.review import Signer
    from tract_jupyter.storage import Database, ScriptCallRows
    from tract_jupyter.toolkit import Approval, ToolDefinition, ToolExecutor, ToolProfile

    Tool = ToolDefinition | str  # the name of a tool that does not exist


MOST_BYTES = 256_000
"""The maximum size of one result, approximately."""


class LoggedCall(NamedTuple):
    """A finished call. `output` is JSON; None if the result has no JSON form or is too large."""

    tool: str
    code_hash: str
    arguments_hash: str
    success: bool
    output: str | None
    error: str
    denied: bool

    @property
    def is_answer(self) -> bool:
        """True if the log can answer the same call. After a refusal, the user decides again."""
        return self.output is not None and not self.denied

    @property
    def size(self) -> int:
        """The approximate size in characters."""
        return len(self.output or "") + len(self.error)

    def result(self) -> ToolResult:
        """Return the result for the caller."""
        output = json.loads(self.output or "null")
        return ToolResult(self.tool, self.success, output, self.error, replayed=True)

    def is_of(self, tool: ToolDefinition | str, arguments: Any) -> bool:
        """Return True if this is a call of the tool's current version with these arguments."""
        if (self.tool, self.code_hash) != _names(tool):
            return False
        try:
            return self.arguments_hash == digest(arguments)
        except ContentError:
            return False


class FrozenCall(NamedTuple):
    """A call of the current run. `tool` is a name if no such tool exists."""

    tool: ToolDefinition | str
    arguments: bytes
    success: bool
    output: bytes | None
    error: str
    denied: bool

    @property
    def size(self) -> int:
        """The approximate size in bytes."""
        return len(self.arguments) + len(self.output or b"") + len(self.error)

    def logged(self) -> LoggedCall | None:
        """Return the call in its stored form; None if the arguments have no JSON form."""
        try:
            arguments_hash = digest(marshal.loads(self.arguments))  # noqa: S302 # of this process
        except ContentError:
            return None
        output = None if self.output is None else _json(self.output)
        return LoggedCall(*_names(self.tool), arguments_hash, self.success, output, self.error, self.denied)


def copy_output(output: Any) -> bytes | None:
    """Copy a call's output; return None if it cannot be serialized or is too large."""
    try:
        copied = marshal.dumps(output)
    except ValueError:
        return None
    return copied if len(copied) <= MOST_BYTES else None


def _json(copied: bytes) -> str | None:
    """Return JSON that restores the same value, with key order and without tuples; None if there is none."""
    value = marshal.loads(copied)  # noqa: S302 # of this process
    try:
        text = json.dumps(value, allow_nan=False)
        return text if json.loads(text) == value else None
    except (TypeError, ValueError, RecursionError):
        return None


def _names(tool: ToolDefinition | str) -> tuple[str, str]:
    return (tool, "") if isinstance(tool, str) else (tool.name, tool.code_hash)


_KIND: Final = "script_calls"
_HERE: Final[set[str]] = set()
"""The active runs of this process."""


class EarlierRun(NamedTuple):
    """The earlier incomplete runs of a script.

    `calls` are the calls of the newest run, without failed calls at its end. `doubtful` counts rows without a valid
    signature of this user.
    """

    calls: Sequence[LoggedCall] = ()
    ran_at: datetime | None = None
    doubtful: int = 0


class StoredLog:
    """The stored rows of one run of a script. They replace the rows of earlier runs."""

    def __init__(
        self, database: Database, rows: ScriptCallRows, signer: Signer, script_hash: str, notebook_id: str
    ) -> None:
        self._database = database
        self._rows = rows
        self._signer = signer
        self._script = (script_hash, notebook_id)
        self._run_id = secrets.token_hex(16)
        self._outdated: Collection[str] = ()
        self._has_rows = False
        _HERE.add(self._run_id)

    @property
    def lock(self) -> threading.RLock:
        """The database's lock. The log uses it instead of another lock."""
        return self._database.lock

    @property
    def in_transaction(self) -> bool:
        """True if this thread has an open transaction."""
        return self._database.in_transaction

    def if_rolled_back(self, call: Callable[[], None]) -> None:
        """Call `call` if this transaction is rolled back."""
        self._database.if_rolled_back(call)

    def earlier(self) -> EarlierRun:
        """Return the earlier runs."""
        with self._database.read() as connection:
            stored = self._rows.of(connection, *self._script)
        ended = [row for row in stored if not _is_active(row)]
        signed = [row for row in ended if self._verifies(row)]
        self._outdated = {row.run_id for row in ended}
        doubtful = len(ended) - len(signed)
        if not signed:
            return EarlierRun(doubtful=doubtful)
        newest = max(signed, key=lambda row: (row.created_at, row.run_id)).run_id
        rows = sorted((row for row in signed if row.run_id == newest), key=lambda row: row.position)
        return EarlierRun(_without_failed_end(list(_calls(rows))), read_moment(rows[0].created_at), doubtful)

    def write(self, position: int, calls: Sequence[LoggedCall]) -> None:
        """Store calls from a position on. From position 0 on, replace all stored calls."""
        stored = StoredCalls(self._run_id, position, json.dumps(calls), "", this_process(), now_text())
        stored = stored._replace(signature=self._signer.sign(_KIND, self._signed(stored)))
        with self._database.write() as connection:
            if position == 0:
                self._rows.remove(connection, [self._run_id, *self._outdated])
            self._rows.add(connection, *self._script, stored)
        self._outdated, self._has_rows = (), True

    def remove(self) -> None:
        """Remove this run and earlier runs."""
        _HERE.discard(self._run_id)
        if self._has_rows or self._outdated:
            with self._database.write() as connection:
                self._rows.remove(connection, [self._run_id, *self._outdated])

    def release(self) -> None:
        """Let the next run continue this run's log."""
        _HERE.discard(self._run_id)
        if self._has_rows:
            with self._database.write() as connection:
                self._rows.release(connection, self._run_id)

    def _verifies(self, row: StoredCalls) -> bool:
        return self._signer.verify(_KIND, self._signed(row), row.signature)

    def _signed(self, row: StoredCalls) -> list[Any]:
        return [*self._script, row.run_id, row.position, row.created_at, row.calls_json]


def _is_active(row: StoredCalls) -> bool:
    """Return True if the run is active. Always False for processes on other hosts."""
    if row.running == this_process():
        return row.run_id in _HERE
    return isinstance(row.running, str) and is_running(row.running)


def _calls(rows: Sequence[StoredCalls]) -> Iterator[LoggedCall]:
    """Yield the calls of a run up to the first missing one."""
    count = 0
    for row in rows:
        if row.position != count:
            return
        for call in json.loads(row.calls_json):
            count += 1
            yield LoggedCall(*call)


def _without_failed_end(calls: list[LoggedCall]) -> list[LoggedCall]:
    """Drop the failed calls at the end. The next run tries them again."""
    while calls and not calls[-1].success:
        calls.pop()
    return calls


_MOST_CALLS: Final = 10_000
_MOST_BYTES: Final = 8_000_000


class CallLog:
    """The calls of one run. It answers calls from the previous run, and stores calls for the next run.

    With `anew`, all calls are made, and none is answered from the previous run.
    """

    def __init__(self, stored: StoredLog, *, anew: bool) -> None:
        self._stored = stored
        self._errors: list[str] = []
        self._replayed = 0
        self._closed = ""  # the reason why no further calls are stored
        try:
            self._previous = stored.earlier()
        except TractError as error:
            self._previous = EarlierRun()
            self._errors.append(f"The calls of an earlier run cannot be read: {_words(error)}.")
        self._calls: list[LoggedCall | FrozenCall] = [] if anew else list(self._previous.calls)
        self._size = sum(call.size for call in self._calls)
        self._place = 0  # the position of the script in the calls of the previous run
        # the script wrote something new, so reads of the previous run are out of date
        self._has_moved = False
        self._written = 0  # the number of stored calls of this run; 0 to store all of them again
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
        approval: Approval | None,
    ) -> ToolResult:
        """Answer a call from the previous run, or make it and log its result. See `ToolExecutor.execute`."""
        tool: Tool = (executor.get(name) if isinstance(name, str) else None) or str(name)
        place = None
        if self._place < len(self._calls):
            is_barred = not isinstance(tool, str) and executor.is_barred(tool, actor, profile)
            place, answer = self._find_answer(tool, arguments, is_barred=is_barred)
            if answer is not None:
                return answer.result()
        copied = None if self._closed else frozen(arguments)  # now: the handler may change them
        result = executor.execute(name, arguments, actor=actor, profile=profile, approval=approval)
        if not self._closed:
            self._keep(place, tool, copied, result)
        return result

    def save(self) -> None:
        """Store new calls, except calls of an open transaction. A failure is not an error of the script."""
        with self._lock:
            if self._has_news and not self._stored.in_transaction:
                self._save()

    def end(self, *, completed: bool) -> None:
        """Remove the log of a completed run. Store the log of any other run."""
        try:
            with self._lock:
                self._end(completed=completed)
        except TractError as error:
            self._errors.append(f"The calls of this run cannot be stored: {_words(error)}.")
        if self._closed and not completed:
            self._errors.append(
                f"Not all of its calls were stored, so the next run makes the rest a second time: {self._closed}."
            )

    def _end(self, *, completed: bool) -> None:
        if completed:
            self._stored.remove()
            return
        if self._has_news:
            self._save()
        self._stored.release()

    def notes(self) -> tuple[str, ...]:
        """Return sentences for the user: answers from the previous run, and errors of the log."""
        notes, ran_at = [], self._previous.ran_at
        if self._replayed and ran_at is not None:
            were = "was" if self._replayed == 1 else "were"
            notes.append(
                f"{counted(self._replayed, 'call')} {were} answered from the run of "
                f"{ran_at.astimezone():%Y-%m-%d %H:%M:%S}, which did not complete; nothing was called again."
            )
        if self._previous.doubtful:
            notes.append(
                "The store holds calls of an earlier run that you did not sign, or that changed; they were not used."
            )
        return (*notes, *self._errors)

    def _find_answer(
        self, tool: Tool, arguments: Mapping[str, Any], *, is_barred: bool
    ) -> tuple[int | None, LoggedCall | None]:
        """Return the position of a call in the previous run, and the answer; None for a missing one."""
        with self._lock:
            place = self._place
            call = self._calls[place] if place < len(self._calls) else None
            if not isinstance(call, LoggedCall):  # another thread reached the end of the log
                return None, None
            if not call.is_of(tool, arguments):
                self._cut(place)
                return None, None
            self._place += 1
            if is_barred or not call.is_answer or (self._has_moved and _only_reads(tool)):
                return place, None
            self._replayed += 1
            return place, call

    def _keep(self, place: int | None, tool: Tool, arguments: bytes | None, result: ToolResult) -> None:
        reads = _only_reads(tool)
        output = copy_output(result.output)
        if arguments is None or (output is None and not reads):
            self._close(tool)
            return
        call = FrozenCall(tool, arguments, result.success, output, result.error, result.denied)
        with self._lock:
            if place is not None and (not result.success or (reads and not self._has_moved)):
                return  # the earlier answer stays
            if self._put(place, call, reads=reads) and result.success:
                self._has_news = True
                if not reads:
                    self._has_moved = True
                    self._secure(len(self._calls) - 1 if place is None else place)

    def _put(self, place: int | None, call: FrozenCall, *, reads: bool) -> bool:
        """Add or replace a call; return False if the log is full."""
        size = self._size + call.size
        if size > _MOST_BYTES and reads:
            call = call._replace(output=None)
            size = self._size + call.size
        if size > _MOST_BYTES or len(self._calls) >= _MOST_CALLS:
            self._closed = f"a log has up to {_MOST_CALLS:,} calls and {_MOST_BYTES:,} bytes"
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
        """Store a call that wrote something, or drop it if its transaction is rolled back."""
        if self._stored.in_transaction:
            self._stored.if_rolled_back(partial(self._undo, place))
        else:
            self._save()

    def _undo(self, place: int) -> None:
        with self._lock:
            self._cut(place)
            self._has_news = True

    def _cut(self, place: int) -> None:
        """Drop the calls from a position on. Stored calls stay until the next save."""
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
            self._closed = _words(error)
        else:
            self._written, self._has_news = len(calls), False

    def _logged(self) -> Iterator[LoggedCall]:
        """Yield the calls in their stored form. Drop the first call without one, and all calls after it."""
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
        self._closed = f"a call of {name} has no plain JSON, or more than {MOST_BYTES:,} bytes of it"


def _only_reads(tool: Tool) -> bool:
    """Return True if repeating the call changes nothing. A text is the name of a tool that does not exist."""
    return isinstance(tool, str) or tool.traits.read_only


def _words(error: Exception) -> str:
    return str(error).rstrip(".")
