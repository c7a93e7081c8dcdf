"""`Tract.cassette`: recording all traffic of a session with models and tools, and replaying it.

Requests pass through here in `ConfiguredClient`, and calls in `ToolExecutor`. Values that another run would not repeat
are drawn here: the times of commits, the ids of children, and the seed and clock of a run.
"""

from __future__ import annotations

import atexit
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, Self

from tract_jupyter.exceptions import CassetteError, TractError
from tract_jupyter.llm.call import send_to
from tract_jupyter.llm.connections import ModelConnection
from tract_jupyter.llm.reading import damaged, read_place
from tract_jupyter.llm.recording import RecordedModel, Recorder, SentRequest, json_data
from tract_jupyter.llm.redaction import Redaction
from tract_jupyter.llm.replay import Player
from tract_jupyter.models import AGENT_MARK, brief_repr, counted, digest, repr_of_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import TracebackType
    from typing import TypeVar

    from tract_jupyter.llm.recording import CassettePlace
    from tract_jupyter.models import Delta, LLMClient

    Made = TypeVar("Made")

_SECRET_NAME: Final = re.compile(r"KEY|TOKEN|SECRET|PASS|_PWD|CREDENTIAL", re.IGNORECASE)
_SHORTEST: Final = 8  # characters of a variable's value that counts as a secret


@dataclass(frozen=True, slots=True)
class CassetteReport:
    """The progress of a recording or a replay, with all children and agents of the session.

    Attributes:
        path: the cassette.
        requests: the number of requests to models.
        calls: the number of tool calls.
        unused: unused entries of the cassette, in words.
        head: the newest commit of the tract that began it.
        recorded_head: the newest commit at the end of the recording.
        is_recording: True for a recording.
    """

    path: Path
    requests: int
    calls: int
    unused: tuple[str, ...] = ()
    head: str | None = None
    recorded_head: str | None = None
    is_recording: bool = False

    @property
    def is_same(self) -> bool:
        """True if the context ends with the recorded commit, and no entry is unused."""
        return not self.unused and self.head == self.recorded_head

    def __str__(self) -> str:
        done = "recorded" if self.is_recording else "replayed"
        text = f"{counted(self.requests, 'request')} and {counted(self.calls, 'tool call')} {done}: {self.path.name}"
        if self.unused:
            rest = ", ".join(self.unused[:3]) + (", …" if len(self.unused) > 3 else "")  # noqa: PLR2004 # a few
            text += f"; {len(self.unused)} not used: {rest}"
        if self.is_recording:
            return f"{text}; root hash {self.head}"
        if self.head == self.recorded_head:
            return f"{text}; the same root hash, {self.head}"
        return f"{text}; the root hash is {self.head}, and the recording has {self.recorded_head}"


class CassetteDeck:
    """The cassette that all tracts of a session use. This class is thread-safe.

    Attributes:
        tape: the recording or the replay; None if neither is active.
        owner: the tract's cassette that began it.
    """

    def __init__(self) -> None:
        self.tape: Recorder | Player | None = None
        self.owner: Cassette | None = None
        self._members: list[Cassette] = []
        self._redaction = Redaction()

    def join(self, member: Cassette) -> None:
        """Add a tract. Its keys are secrets from now on."""
        self._members.append(member)

    def leave(self, member: Cassette) -> None:
        """Remove a tract. Its keys stay secrets."""
        self.redaction()
        if member in self._members:
            self._members.remove(member)

    def redaction(self) -> Redaction:
        """Return the filter for all secrets that are known now, or were known before."""
        secrets = [text.strip() for member in list(self._members) for text in member.secrets()]
        known = self._redaction.known.union(secrets, _secrets_of_environment())
        if known != self._redaction.known:
            self._redaction = Redaction(known)
        return self._redaction


class Cassette:
    """Records the traffic of a tract with its models and tools to a file, or replays it from one.

    All tracts of a session use one cassette, including children and agents.

    Args:
        name: the id of the tract or agent.
        deck: the cassette of its session.
        place: returns the tract's position.
        secrets: returns the keys in use.
        now: returns the current time, in the precision of the store.
        set_clock: sets the function that returns the time of a commit, by its hash without a time; None for `now`.
        by: the program that records.
    """

    def __init__(
        self,
        name: str,
        deck: CassetteDeck,
        place: Callable[[], CassettePlace],
        secrets: Callable[[], Iterable[str]],
        now: Callable[[], str],
        set_clock: Callable[[Callable[[str], str] | None], None],
        by: str = "tract_jupyter",
    ) -> None:
        self.name = name
        self.deck = deck
        self.place = place
        self.secrets = secrets
        self._now = now
        self._set_clock = set_clock
        self._by = by
        deck.join(self)

    # --- for the user

    def record(self, path: str | Path, *, replace: bool = False) -> Self:
        """Record all requests to models and all tool calls of the session until `stop`, or until this tract is closed.

        Args:
            path: the cassette, such as `talk.cassette.jsonl`. It is written at the end, without keys.
            replace: overwrite an existing cassette, once this one is complete.

        Returns:
            This, for `with t.cassette.record(path):`.

        Raises:
            CassetteError: a recording or replay is active, the file exists, or it cannot be written.
        """
        self._check_idle()
        file = _path(path)
        if file.exists() and not replace:
            raise CassetteError(
                f"{file} exists, so nothing is recorded; use replay() to replay it, or record(..., replace=True)"
            )
        self._begin(
            Recorder(file, self.place(), self.deck.redaction, by=self._by, at=self._now(), replace=replace)
        )
        atexit.register(self._end_at_exit)
        return self

    def replay(self, path: str | Path) -> Self:
        """Serve all requests and tool calls of the session from a cassette until `stop`, or until this tract is closed.

        No model, MCP server or function of yours is called. The tract's own tools, operations and scripts run again,
        because they change the tract. They need the same approvals. A request or call that differs from the recorded
        ones is refused, and so are all later ones.

        Args:
            path: the cassette.

        Returns:
            This, for `with t.cassette.replay(path):`, which refuses unused entries at its end.

        Raises:
            CassetteError: the file is not a complete cassette of this version, a recording or replay is active, or the
                tract is not at the commit where the recording began.
        """
        self._check_idle()
        player = Player(_path(path), self.deck.redaction)
        began, here = player.content.place, self.place()
        if began.tract_id == here.tract_id and began.head != here.head:
            where = f"commit {began.head[:8]}" if began.head else "an empty context"
            position = f"at commit {here.head[:8]}" if here.head else "empty"
            go = (
                f"Go there (t.branch('again', source={began.head[:8]!r})), or replay it"
                if began.head
                else "Replay it"
            )
            raise CassetteError(
                f"{player.path} starts at {where}, but the context is {position}. {go} in an empty store: "
                "Tract.open(replay=...), or, in a new kernel, %config TractJupyter.store = ':memory:' before the replay"
            )
        self._begin(player)
        return self

    def stop(self) -> CassetteReport | None:
        """End recording or replaying, and return the report; None if neither is active.

        Raises:
            CassetteError: a recording cannot be written.
        """
        tape, report = self.deck.tape, self.report
        if tape is None or report is None:
            return None
        owner = self.deck.owner or self
        self.deck.tape = self.deck.owner = None
        self._set_clock(None)
        atexit.unregister(owner._end_at_exit)  # noqa: SLF001 # its own class
        if isinstance(tape, Recorder):
            tape.end(report.head)
        return report

    @property
    def report(self) -> CassetteReport | None:
        """The progress so far; None if neither recording nor replaying is active."""
        tape, owner = self.deck.tape, self.deck.owner or self
        if tape is None:
            return None
        head = None
        with suppress(TractError):  # its branch was deleted
            head = owner.place().head
        counts = (tape.path, tape.requests, tape.calls)
        if isinstance(tape, Recorder):
            return CassetteReport(*counts, (), head, head, is_recording=True)
        return CassetteReport(*counts, tape.unused, head, tape.content.head)

    @property
    def tape(self) -> Recorder | Player | None:
        """The recording or replay that this thread uses now."""
        tape = self.deck.tape
        return None if tape is None or tape.is_paused else tape

    @property
    def is_recording(self) -> bool:
        """True while traffic is recorded."""
        return isinstance(self.deck.tape, Recorder)

    @property
    def is_replaying(self) -> bool:
        """True while traffic is served from a cassette."""
        return isinstance(self.deck.tape, Player)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        report = self.stop()
        if kind is None and report is not None and report.unused:
            raise CassetteError(f"{report}. Use them within the `with` block, or record again")

    @repr_of_whole
    def __repr__(self) -> str:
        tape = self.deck.tape
        if tape is None:
            return "<Cassette: neither recording nor replaying>"
        return f"<Cassette: {'recording' if self.is_recording else 'replaying'} {tape.path}>"

    def close(self) -> None:
        """End a recording or replay that this tract began, and warn of unused entries."""
        report = self.stop() if self.deck.owner is self else None
        self.deck.leave(self)
        if report is not None and report.unused:
            from tract_jupyter.models import warn

            warn(str(report), UserWarning)

    # --- for clients, tools and the store

    def request(
        self,
        sent: Callable[[], SentRequest],
        send: Callable[[Callable[[Delta], object] | None], Any],
        on_delta: Callable[[Delta], object] | None,
    ) -> Any:
        """Return the reply to a request.

        Args:
            sent: describes the request.
            send: sends the request. It receives a function for the pieces of the reply.
            on_delta: called with each piece.
        """
        tape = self.tape
        if isinstance(tape, Player):
            return tape.request(sent(), self._asker, on_delta)
        return send(on_delta) if tape is None else tape.request(sent(), self._asker, send, on_delta)

    def asking(self, ask: Callable[..., Any]) -> LLMClient:
        """Return a client for a function that replies instead of a model."""
        client: LLMClient = SimpleNamespace(chat=ask)
        return client if self.tape is None else _RecordedClient(self, client)

    def call(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        actor: str,
        make: Callable[[], Made],
        *,
        write: Callable[[Made], Any],
        read: Callable[[Any], Made],
        again: bool,
    ) -> Made:
        """Return the result of a tool call.

        Args:
            tool: its name.
            arguments: the checked and approved arguments.
            actor: the caller.
            make: makes the call. An error is a result.
            write: converts a result to JSON data.
            read: converts such data to a result.
            again: a replay makes the call again.
        """
        tape = self.tape
        if tape is None:
            return make()
        fields: dict[str, Any] = {"tool": tool, "actor": actor, "arguments": json_data(dict(arguments))}
        if self._asker:
            fields["tract"] = self._asker
        if isinstance(tape, Player):
            return tape.call(fields, make, write, read, again=again)
        return tape.call(fields, make, write, again=again)

    def draw(self, kind: str, make: Callable[[], Any]) -> Any:
        """Return a value that another run would not repeat: from `make`, or the recorded one in a replay.

        Args:
            kind: names the value. Values of one kind are served in their order, so parallel work needs several kinds.
            make: makes it, as JSON data.
        """
        tape = self.tape
        return make() if tape is None else tape.draw(kind, make)

    def draw_id(self, options: Mapping[str, Any], make: Callable[[], str]) -> str:
        """Return the id of a child of this tract that is made with some options."""
        return str(self.draw(f"child {digest([self._asker, json_data(options)])}", make))

    def stand_in(self, operation: str) -> ModelConnection | None:
        """Return a model for a replay without a configured model. None without a replay or without such a request."""
        tape = self.tape
        if not isinstance(tape, Player) or not (operation == "chat" or tape.has_requests(operation)):
            return None
        return ModelConnection("", client=RecordedModel())

    # ---

    @property
    def _asker(self) -> str:
        """The name of the tract on the cassette: empty for the one that began it, which may have another id later."""
        owner = self.deck.owner or self
        if self.name == owner.name:
            return ""
        tract_id, mark, branch = self.name.partition(AGENT_MARK)
        return ("" if tract_id == owner.name else tract_id) + mark + branch

    def _check_idle(self) -> None:
        tape = self.deck.tape
        if tape is not None:
            does = "recorded" if isinstance(tape, Recorder) else "replayed"
            raise CassetteError(
                f"{tape.path} is being {does}, and a session has only one cassette; end it with tract.cassette.stop()"
            )

    def _begin(self, tape: Recorder | Player) -> None:
        self.deck.tape, self.deck.owner = tape, self
        self._set_clock(self._time_of)

    def _time_of(self, commit: str) -> str:
        """Return the time of a commit."""
        at = str(self.draw(f"time of {commit}", self._now))
        with suppress(ValueError):
            written = datetime.fromisoformat(at)
            if written.tzinfo == UTC and written.isoformat(timespec="microseconds") == at:
                return at
        raise damaged(self.deck.tape.path if self.deck.tape else Path(), f"the time {brief_repr(at)}")

    def _end_at_exit(self) -> None:
        with suppress(TractError):
            self.stop()


class _RecordedClient:
    """A client whose requests pass through a cassette."""

    def __init__(self, cassette: Cassette, client: LLMClient) -> None:
        self._cassette = cassette
        self._client = client

    def chat(
        self,
        messages: list[dict[str, Any]],
        *,
        on_delta: Callable[[Delta], object] | None = None,
        **options: Any,
    ) -> Any:
        """Return the reply; see `models.LLMClient`."""
        sent = partial(SentRequest.of, "chat", "", messages, options)
        return self._cassette.request(sent, partial(send_to, self._client, messages, options), on_delta)


def recorded_tract_id(replay: str | Path, tract_id: str | None, record: str | Path | None) -> str:
    """Return the id of the recorded tract, for a store that is opened for a replay."""
    if record is not None:
        raise CassetteError("a tract cannot record and replay at once; pass record or replay")
    recorded = read_place(_path(replay)).tract_id
    if tract_id not in {None, recorded}:
        raise CassetteError(
            f"{replay} is a recording of the tract {recorded!r}, not of {tract_id!r}; leave tract_id out"
        )
    return recorded


def _secrets_of_environment() -> list[str]:
    return [
        value.strip()
        for name, value in os.environ.items()
        if len(value.strip()) >= _SHORTEST and _SECRET_NAME.search(name)
    ]


def _path(path: object) -> Path:
    if not isinstance(path, str | Path) or not str(path).strip():
        raise CassetteError(
            f"a cassette must be a file, such as 'talk.cassette.jsonl', not {brief_repr(path)}"
        )
    return Path(path).expanduser().absolute()
