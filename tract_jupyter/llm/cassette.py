"""`Tract.cassette`: recording all traffic of a tract with models and tools, and serving it again.

Requests pass here where their clients are chosen, calls where the executor runs a tool, children where they are
spawned, commits where they get their time: each seam hands over what would be done, which is done, done and noted, or
not done but served.
"""

from __future__ import annotations

import atexit
import os
import re
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from tract_jupyter.exceptions import CassetteError, TractError
from tract_jupyter.llm.call import send_to
from tract_jupyter.llm.connections import ModelConnection
from tract_jupyter.llm.reading import read_place
from tract_jupyter.llm.recording import CassettePlace, RecordedModel, RecordedTrack, Recorder, SentRequest
from tract_jupyter.llm.redaction import Redaction
from tract_jupyter.llm.replay import PlayedTrack, Player
from tract_jupyter.models import brief_repr, counted, repr_of_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from types import TracebackType
    from typing import TypeVar

    from tract_jupyter.models import Delta, LLMClient

    Made = TypeVar("Made")

_SECRET_NAME: Final = re.compile(r"KEY|TOKEN|SECRET|PASS|_PWD|CREDENTIAL", re.IGNORECASE)
_SHORTEST: Final = 8  # characters of a variable's value that is taken for a secret


@dataclass(frozen=True, slots=True)
class CassetteChild:
    """A child on a cassette, or an agent.

    Attributes:
        name: what it goes by, such as `child 'Look for birds' (1a2b3c4d)`.
        head: its newest commit at the end.
        recorded_head: that of the recording.
    """

    name: str
    head: str | None
    recorded_head: str | None


@dataclass(frozen=True, slots=True)
class CassetteReport:
    """What was recorded or replayed, of the tract that the cassette was begun on and of all children on it.

    Attributes:
        path: of the cassette.
        requests: to models.
        calls: of tools.
        unused: what is on the cassette and was not asked for, in words.
        head: the newest commit at the end.
        recorded_head: that of the recording.
        is_recording: whether it was recorded.
        children: those that were spawned.
    """

    path: Path
    requests: int
    calls: int
    unused: tuple[str, ...] = ()
    head: str | None = None
    recorded_head: str | None = None
    is_recording: bool = False
    children: tuple[CassetteChild, ...] = ()

    @property
    def is_same(self) -> bool:
        """True if each context ends with the very commit that it ended with then, and nothing is left over."""
        return not self.unused and self.head == self.recorded_head and not self._others

    @property
    def _others(self) -> list[CassetteChild]:
        return [child for child in self.children if child.head != child.recorded_head]

    def __str__(self) -> str:
        done = "recorded" if self.is_recording else "replayed"
        told = f"{counted(self.requests, 'request')} and {counted(self.calls, 'tool call')} {done}"
        if self.children:
            told += f", with {len(self.children)} {'children' if len(self.children) > 1 else 'child'}"
        told += f": {self.path.name}"
        if self.unused:
            rest = ", ".join(self.unused[:3]) + (", …" if len(self.unused) > 3 else "")  # noqa: PLR2004 # a few
            told += f"; {len(self.unused)} on it were not asked for: {rest}"
        if self.is_recording:
            return f"{told}; root hash {self.head}"
        if self.is_same:
            return f"{told}; the same root hash, {self.head}"
        if self.head == self.recorded_head and self._others:
            other = self._others[0]
            return (
                f"{told}; the root hash of the {other.name} is {other.head}, and that of the recording "
                f"{other.recorded_head}"
            )
        return f"{told}; the root hash is {self.head}, and that of the recording {self.recorded_head}"


class Tracks:
    """Which tracts of a session are recorded or replayed now, by their names. Threads may share it."""

    def __init__(self) -> None:
        self._on: dict[str, RecordedTrack | PlayedTrack] = {}

    def of(self, name: str) -> RecordedTrack | PlayedTrack | None:
        """Return the track of a tract or agent; None if it has none."""
        return self._on.get(name)

    def put(self, name: str, track: RecordedTrack | PlayedTrack) -> None:
        """Have a tract or agent use a track from now on."""
        self._on[name] = track

    def take(self, name: str, track: RecordedTrack | PlayedTrack) -> None:
        """Let go of a track, of a child that was not made after all."""
        if self._on.get(name) is track:
            del self._on[name]

    def end(self, tape: Recorder | Player) -> None:
        """Let go of all tracks of a cassette."""
        for name, track in list(self._on.items()):
            if track.tape is tape:
                self.take(name, track)

    def nearest(self, names: Callable[[], Iterable[str]]) -> RecordedTrack | PlayedTrack | None:
        """Return the track of the first of these that has one."""
        found = map(self.of, names()) if self._on else ()
        return next((track for track in found if track is not None), None)


class Cassette:
    """What passes between a tract and its models and tools: recorded to a file, served from one, or neither.

    What is spawned from the tract meanwhile is on the same cassette, and so are its own children.

    Args:
        name: of the tract or agent, within its session.
        place: tells where the tract stands.
        secrets: gives the keys that are in use.
        now: gives the present, as the store keeps it.
        timing: has commits be made at the times that a function gives, which is `time_of`; None for now.
        ancestors: gives the names of the tracts that this one comes from, its parent first.
        tracks: which tracts of its session are on cassettes.
        by: what a recording says it was written by.
    """

    def __init__(
        self,
        name: str,
        place: Callable[[], CassettePlace],
        secrets: Callable[[], Iterable[str]],
        now: Callable[[], str],
        timing: Callable[[Callable[[str | None, Callable[[str], str]], str] | None], None] = lambda _: None,
        ancestors: Callable[[], Iterable[str]] = tuple,
        tracks: Tracks | None = None,
        by: str = "tract_jupyter",
    ) -> None:
        self.name = name
        self.place = place
        self.secrets = secrets
        self._now = now
        self._timing = timing
        self._ancestors = ancestors
        self.tracks = tracks or Tracks()
        self._by = by
        self._redaction = Redaction()

    @property
    def track(self) -> RecordedTrack | PlayedTrack | None:
        """What is recorded to, or served from; None while neither goes on."""
        return self.tracks.of(self.name)

    # --- for a person

    def record(self, path: str | Path, *, replace: bool = False) -> Self:
        """Record all requests to models and all calls of tools from now on, until `stop` or the tract is closed.

        What is spawned from the tract meanwhile is recorded with it: its requests, calls, ids and times.

        Args:
            path: of the cassette, such as `talk.cassette.jsonl`. Keys are left out of it.
            replace: take the place of a cassette that is there, once this one is complete; and of a recording whose
                process ended before it did.

        Returns:
            This, for `with t.cassette.record(path):`.

        Raises:
            CassetteError: it is recording or replaying already, there is a file, or it cannot be written.
        """
        self._check_idle()
        found = _path(path)
        if found.exists() and not replace:
            raise CassetteError(
                f"{found} is there already, and nothing is recorded; replay() plays it, record(..., replace=True) "
                "records it anew"
            )
        tape = Recorder(found, self, self._current_redaction, by=self._by, at=self._now(), replace=replace)
        self._begin(tape.root)
        atexit.register(self._end_at_exit)
        return self

    def replay(self, path: str | Path) -> Self:
        """Serve all requests and calls from a cassette from now on, until `stop` or the tract is closed.

        No model is asked, and no function of yours and no MCP server is called. The tract's own tools, operations and
        scripts run again, as what they do is the history; with the same decisions, which are asked for as ever. What
        is not asked in the same order and words is refused, from then on. Children that are spawned again get their
        recorded ids, and each is served in its own order.

        Args:
            path: of the cassette.

        Returns:
            This, for `with t.cassette.replay(path):`, whose end also refuses what is left over.

        Raises:
            CassetteError: the file is no whole cassette of this version, it is recording or replaying already, or the
                tract stands elsewhere than when it was recorded.
        """
        self._check_idle()
        player = Player(_path(path), self, self._current_redaction)
        began, here = player.content.place, self.place()
        if began.tract_id == here.tract_id and began.head != here.head:
            where = f"commit {began.head[:8]}" if began.head else "an empty context"
            stands = f"at commit {here.head[:8]}" if here.head else "empty"
            raise CassetteError(
                f"{player.path} was recorded from {where} on, and the context is {stands}. Make a branch there, or "
                "replay it in another store: Tract.open(replay=...)"
            )
        self._begin(player.root)
        return self

    def stop(self) -> CassetteReport | None:
        """End recording or replaying, and return what came of it; None if neither goes on.

        Raises:
            CassetteError: a recording cannot be put into its place, or the cassette was begun on a tract that this one
                was spawned from.
        """
        track = self.track
        if track is None:
            return None
        if not track.is_root:
            raise CassetteError(
                f"{track.tape.path} was begun on the tract that this one was spawned from, so it goes on; "
                "tract.cassette.stop() of that one ends it for both"
            )
        self.tracks.end(track.tape)
        self._timing(None)
        told = _report(track.tape)
        if isinstance(track, RecordedTrack):
            atexit.unregister(self._end_at_exit)
            track.tape.end()
        return told

    @property
    def report(self) -> CassetteReport | None:
        """What was recorded or replayed so far, with all children; None if neither goes on."""
        return None if self.track is None else _report(self.track.tape)

    @property
    def is_recording(self) -> bool:
        """True while it records."""
        return isinstance(self.track, RecordedTrack)

    @property
    def is_replaying(self) -> bool:
        """True while requests and calls are served."""
        return isinstance(self.track, PlayedTrack)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        report = self.stop()
        if kind is None and report is not None and report.unused:
            raise CassetteError(f"{report}. What comes after the replay belongs behind its end")

    @repr_of_whole
    def __repr__(self) -> str:
        track = self.track
        if track is None:
            return "<Cassette: neither recording nor replaying>"
        does = "recording" if isinstance(track, RecordedTrack) else "replaying"
        return f"<Cassette: {does} {track.tape.path}>"

    def close(self) -> None:
        """End it with the tract that it was begun on; warn of what a replay has left over."""
        track = self.track
        if (
            track is not None and not track.is_root
        ):  # which goes on; and so does this one, if it is opened again
            track.tape.redaction()  # knows its keys from now on
            track.head_now()
            track.member = None
            return
        report = self.stop()
        if report is not None and report.unused:
            from tract_jupyter.models import warn

            warn(str(report), UserWarning)

    # --- seams

    def request(
        self,
        sent: Callable[[], SentRequest],
        send: Callable[[Callable[[Delta], object] | None], Any],
        on_delta: Callable[[Delta], object] | None,
    ) -> Any:
        """Return the reply to a request: as it is sent, or as it is on the cassette.

        Args:
            sent: describes the request.
            send: sends it; takes what is given each piece of the reply.
            on_delta: is given each piece.
        """
        track = self._covered()
        if isinstance(track, PlayedTrack):
            return track.request(sent(), on_delta)
        return send(on_delta) if track is None else track.request(sent(), send, on_delta)

    def asking(self, ask: Callable[..., Any]) -> LLMClient:
        """Return a client whose requests for a reply a function answers, or the cassette in its place."""
        return _Function(ask) if self._covered() is None else _TapedFunction(self, ask)

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
        """Return the result of a tool call: as it is made, or as it is on the cassette.

        Args:
            tool: its name.
            arguments: the ones that were checked, and approved where that is needed.
            actor: who calls.
            make: makes it; all that goes wrong is in its result.
            write: makes JSON data of a result.
            read: makes a result of that.
            again: whether a replay makes it again.
        """
        track = self.track if again else self._covered()
        if isinstance(track, PlayedTrack):
            return track.call(tool, arguments, actor, make, write, read, again=again)
        return make() if track is None else track.call(tool, arguments, actor, make, write, again=again)

    @contextmanager
    def spawn(
        self,
        way: str,
        arguments: Mapping[str, Any],
        make_id: Callable[[], str],
    ) -> Iterator[str]:
        """Have a child made on the cassette of this tract, if it has one, with the id that it has there.

        Args:
            way: `spawn` or `deploy`.
            arguments: what it is made with.
            make_id: makes its id.

        Yields:
            The id.

        Raises:
            CassetteError: a cassette is replayed, and this is not the spawn that comes next.
        """
        parent = self._covered()
        if parent is None:
            yield make_id()
            return
        with parent.spawn(way, arguments, make_id) as (child, track):
            self.tracks.put(child, track)
            try:
                yield child
            except BaseException:
                self.tracks.take(child, track)
                raise

    def join(self) -> None:
        """Go on with the cassette that this tract, a child, is on; it was opened just now."""
        track = self.track
        if track is not None:
            track.member = self
            self._timing(self.time_of)

    def time_of(self, parent: str | None, hash_at: Callable[[str], str]) -> str:
        """Return when a commit is made: now, or when it was made.

        Args:
            parent: the commit before it.
            hash_at: its hash, if it is made then.
        """
        track = self.track
        return self._now() if track is None else track.time_of(parent, hash_at, self._now)

    def drawn(self, kind: str, make: Callable[[], Any]) -> Any:
        """Return what `make` gives, JSON data that is never the same; of a replay, what it gave then."""
        track = self.track
        return make() if track is None else track.drawn(kind, make)

    def stand_in(self, operation: str) -> ModelConnection | None:
        """Return a model for a replay where none is configured; None where none was asked, and none is needed."""
        track = self.track
        if not isinstance(track, PlayedTrack) or not (operation == "chat" or track.has_requests(operation)):
            return None
        return ModelConnection("", client=RecordedModel())

    # ---

    def _check_idle(self) -> None:
        track = self.track
        if track is not None:
            does = "recorded" if isinstance(track, RecordedTrack) else "replayed"
            whose = "" if track.is_root else " of the tract that it was begun on"
            raise CassetteError(
                f"{track.tape.path} is being {does}, and only one can be; tract.cassette.stop(){whose} ends it"
            )

    def _begin(self, track: RecordedTrack | PlayedTrack) -> None:
        self.tracks.put(self.name, track)
        self._timing(self.time_of)

    def _covered(self) -> RecordedTrack | PlayedTrack | None:
        """Return the track of this tract.

        Raises:
            CassetteError: it has none, while a tract that it comes from has one.
        """
        track = self.track
        if track is not None:
            return track
        beside = self.tracks.nearest(self._ancestors)
        if beside is not None:
            raise CassetteError(
                f"the tract {self.name} was spawned before {beside.tape.path.name} was begun on the one that it comes "
                "from, so it is not on that cassette, and nothing was asked or called. Begin the cassette before the "
                "spawn, or give this one a cassette of its own"
            )
        return None

    def _current_redaction(self) -> Redaction:
        """Return what takes out the secrets that are known now, or were before: a key that was changed stays one."""
        track = self.track
        members = [] if track is None else [one.member for one in list(track.tape.tracks.values())]
        own = (text for member in (self, *members) if member is not None for text in member.secrets())
        known = self._redaction.known.union(text.strip() for text in [*own, *_secrets_of_environment()])
        if known != self._redaction.known:
            self._redaction = Redaction(known)
        return self._redaction

    def _end_at_exit(self) -> None:
        track = self.track
        if isinstance(track, RecordedTrack) and track.is_root:
            self.tracks.end(track.tape)
            with suppress(TractError):  # its partial file stays
                track.tape.end()


class _Function:
    """A user's function in the place of a client."""

    def __init__(self, ask: Callable[..., Any]) -> None:
        self.chat = ask


class _TapedFunction:
    """The same, recorded or served."""

    def __init__(self, cassette: Cassette, ask: Callable[..., Any]) -> None:
        self._cassette = cassette
        self._client = _Function(ask)

    def chat(
        self,
        messages: list[dict[str, Any]],
        *,
        on_delta: Callable[[Delta], object] | None = None,
        **options: Any,
    ) -> Any:
        """Ask; see `models.LLMClient`."""

        def send(on_delta: Callable[[Delta], object] | None) -> Any:
            return send_to(self._client, messages, options, on_delta)

        def sent() -> SentRequest:
            kept = {name: value for name, value in options.items() if name not in {"abort", "model"}}
            return SentRequest("chat", "", messages, kept)

        return self._cassette.request(sent, send, on_delta)


def _report(tape: Recorder | Player) -> CassetteReport:
    head, counts = tape.root.head_now(), (tape.path, tape.requests, tape.calls)
    if isinstance(tape, Recorder):
        grown = [track for number, track in sorted(tape.tracks.items()) if number]
        made = tuple(CassetteChild(track.name, track.head_now(), track.head) for track in grown)
        return CassetteReport(*counts, (), head, head, is_recording=True, children=made)
    played = [track for number, track in sorted(tape.tracks.items()) if number and track.is_made]
    made = tuple(CassetteChild(track.name, track.head_now(), track.content.head) for track in played)
    return CassetteReport(*counts, tuple(map(str, tape.unused)), head, tape.root.content.head, children=made)


def recorded_tract_id(replay: str | Path, tract_id: str | None, record: str | Path | None) -> str:
    """Return the id of the tract that was recorded, for a store that is opened to replay it.

    Args:
        replay: the cassette.
        tract_id: another id that was asked for.
        record: a cassette that is to be recorded.

    Raises:
        CassetteError: it is no cassette, or something else is asked for besides.
    """
    if record is not None:
        raise CassetteError("a tract records or replays, not both; give record or replay")
    found = read_place(_path(replay)).tract_id
    if tract_id not in {None, found}:
        raise CassetteError(
            f"{replay} was recorded of the tract {found!r}, not of {tract_id!r}; leave tract_id out"
        )
    return found


def _secrets_of_environment() -> list[str]:
    return [
        value
        for name, value in os.environ.items()
        if len(value.strip()) >= _SHORTEST and _SECRET_NAME.search(name)
    ]


def _path(path: object) -> Path:
    if not isinstance(path, str | Path) or not str(path).strip():
        raise CassetteError(f"a cassette is a file, such as 'talk.cassette.jsonl', not {brief_repr(path)}")
    return Path(path).expanduser().absolute()
