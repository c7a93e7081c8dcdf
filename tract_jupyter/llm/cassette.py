"""`Tract.cassette`: recording all traffic of a tract with models and tools, and serving it again.

Requests pass here where their clients are chosen, calls where the executor runs a tool, commits where they get their
time: each seam hands over what would be done, which is done, done and noted, or not done but served.
"""

from __future__ import annotations

import atexit
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from tract_jupyter.exceptions import CassetteError, TractError
from tract_jupyter.llm.call import can_stream
from tract_jupyter.llm.connections import ModelConnection
from tract_jupyter.llm.recording import CassettePlace, RecordedModel, Recorder, SentRequest
from tract_jupyter.llm.redaction import Redaction
from tract_jupyter.llm.replay import Player, read_place
from tract_jupyter.models import brief_repr, counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import TracebackType
    from typing import TypeVar

    from tract_jupyter.models import Delta, LLMClient

    Made = TypeVar("Made")

_SECRET_NAME: Final = re.compile(r"KEY|TOKEN|SECRET|PASS|_PWD|CREDENTIAL", re.IGNORECASE)
_SHORTEST: Final = 8  # characters of a variable's value that is taken for a secret


@dataclass(frozen=True, slots=True)
class CassetteReport:
    """What was recorded or replayed.

    Attributes:
        path: of the cassette.
        requests: to models.
        calls: of tools.
        unused: what is on the cassette and was not asked for, in words.
        head: the newest commit at the end.
        recorded_head: that of the recording.
        is_recording: whether it was recorded.
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
        """True if the context ends with the very commit that the recording ended with, and nothing is left over."""
        return not self.unused and self.head == self.recorded_head

    def __str__(self) -> str:
        done = "recorded" if self.is_recording else "replayed"
        told = f"{counted(self.requests, 'request')} and {counted(self.calls, 'tool call')} {done}: {self.path.name}"
        if self.unused:
            rest = ", ".join(self.unused[:3]) + (", …" if len(self.unused) > 3 else "")  # noqa: PLR2004 # a few
            told += f"; {len(self.unused)} on it were not asked for: {rest}"
        if self.is_recording:
            return f"{told}; root hash {self.head}"
        if self.is_same:
            return f"{told}; the same root hash, {self.head}"
        return f"{told}; the root hash is {self.head}, and that of the recording {self.recorded_head}"


class Cassette:
    """What passes between a tract and its models and tools: recorded to a file, served from one, or neither.

    Args:
        place: tells where the tract stands.
        secrets: gives the keys that are in use.
        now: gives the present, as the store keeps it.
        timing: has commits be made at the times that a function gives, which is `time_of`; None for now.
        by: what a recording says it was written by.

    Attributes:
        tape: what is recorded to, or served from; None while neither goes on, and nobody need ask it anything.
    """

    def __init__(
        self,
        place: Callable[[], CassettePlace],
        secrets: Callable[[], Iterable[str]],
        now: Callable[[], str],
        timing: Callable[[Callable[[str | None, Callable[[str], str]], str] | None], None] = lambda _: None,
        by: str = "tract_jupyter",
    ) -> None:
        self._place = place
        self._secrets = secrets
        self._now = now
        self._timing = timing
        self._by = by
        self.tape: Recorder | Player | None = None
        self._redaction = Redaction()

    # --- for a person

    def record(self, path: str | Path, *, replace: bool = False) -> Self:
        """Record all requests to models and all calls of tools from now on, until `stop` or the tract is closed.

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
        self.tape = Recorder(
            found, self._place(), self._current_redaction, by=self._by, at=self._now(), replace=replace
        )
        self._timing(self.time_of)
        atexit.register(self._end_at_exit)
        return self

    def replay(self, path: str | Path) -> Self:
        """Serve all requests and calls from a cassette from now on, until `stop` or the tract is closed.

        No model is asked, and no function of yours and no MCP server is called. The tract's own tools, operations and
        scripts run again, as what they do is the history; with the same decisions, which are asked for as ever. What
        is not asked in the same order and words is refused, from then on.

        Args:
            path: of the cassette.

        Returns:
            This, for `with t.cassette.replay(path):`, whose end also refuses what is left over.

        Raises:
            CassetteError: the file is no whole cassette of this version, it is recording or replaying already, or the
                tract stands elsewhere than when it was recorded.
        """
        self._check_idle()
        player = Player(_path(path), self._current_redaction)
        began, here = player.content.place, self._place()
        if began.tract_id == here.tract_id and began.head != here.head:
            where = f"commit {began.head[:8]}" if began.head else "an empty context"
            stands = f"at commit {here.head[:8]}" if here.head else "empty"
            raise CassetteError(
                f"{player.path} was recorded from {where} on, and the context is {stands}. Make a branch there, or "
                "replay it in another store: Tract.open(replay=...)"
            )
        self.tape = player
        self._timing(self.time_of)
        return self

    def stop(self) -> CassetteReport | None:
        """End recording or replaying, and return what came of it; None if neither goes on.

        Raises:
            CassetteError: a recording cannot be put into its place.
        """
        tape = self.tape
        if tape is None:
            return None
        here = self._place()
        self.tape = None
        self._timing(None)
        if isinstance(tape, Recorder):
            atexit.unregister(self._end_at_exit)
            tape.end(here)
        return _report(tape, here)

    @property
    def report(self) -> CassetteReport | None:
        """What was recorded or replayed so far; None if neither goes on."""
        return None if self.tape is None else _report(self.tape, self._place())

    @property
    def is_recording(self) -> bool:
        """True while it records."""
        return isinstance(self.tape, Recorder)

    @property
    def is_replaying(self) -> bool:
        """True while requests and calls are served."""
        return isinstance(self.tape, Player)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        report = self.stop()
        if kind is None and report is not None and report.unused:
            raise CassetteError(f"{report}. What comes after the replay belongs behind its end")

    def __repr__(self) -> str:
        if self.tape is None:
            return "<Cassette: neither recording nor replaying>"
        return f"<Cassette: {'recording' if self.is_recording else 'replaying'} {self.tape.path}>"

    def close(self) -> None:
        """End it with the tract; warn of what a replay has left over."""
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
        tape = self.tape
        if isinstance(tape, Player):
            return tape.request(sent(), on_delta)
        return send(on_delta) if tape is None else tape.request(sent(), send, on_delta)

    def asking(self, ask: Callable[..., Any]) -> LLMClient:
        """Return a client whose requests for a reply a function answers, or the cassette in its place."""
        return _Function(ask) if self.tape is None else _TapedFunction(self, ask)

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
        tape = self.tape
        if isinstance(tape, Player):
            return tape.call(tool, arguments, actor, make, write, read, again=again)
        return make() if tape is None else tape.call(tool, arguments, actor, make, write, again=again)

    def time_of(self, parent: str | None, hash_at: Callable[[str], str]) -> str:
        """Return when a commit is made: now, or when it was made.

        Args:
            parent: the commit before it.
            hash_at: its hash, if it is made then.
        """
        tape = self.tape
        return self._now() if tape is None else tape.time_of(parent, hash_at, self._now)

    def drawn(self, kind: str, make: Callable[[], Any]) -> Any:
        """Return what `make` gives, JSON data that is never the same; of a replay, what it gave then."""
        tape = self.tape
        return make() if tape is None else tape.drawn(kind, make)

    def stand_in(self, operation: str) -> ModelConnection | None:
        """Return a model for a replay where none is configured; None where none was asked for this."""
        if not isinstance(self.tape, Player) or not self.tape.has_requests(operation):
            return None
        return ModelConnection("", client=RecordedModel())

    # ---

    def _check_idle(self) -> None:
        if self.tape is not None:
            does = "recorded" if self.is_recording else "replayed"
            raise CassetteError(
                f"{self.tape.path} is being {does}, and only one can be; t.cassette.stop() ends it"
            )

    def _current_redaction(self) -> Redaction:
        """Return what takes out the secrets that are known now, or were before: a key that was changed stays one."""
        known = self._redaction.known.union(
            text.strip() for text in [*self._secrets(), *_secrets_of_environment()]
        )
        if known != self._redaction.known:
            self._redaction = Redaction(known)
        return self._redaction

    def _end_at_exit(self) -> None:
        tape, self.tape = self.tape, None
        if isinstance(tape, Recorder):
            with suppress(TractError):  # its partial file stays
                tape.end(self._place())


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
            streamed = {"on_delta": on_delta} if on_delta is not None and can_stream(self._client) else {}
            return self._client.chat(messages, **streamed, **options)

        def sent() -> SentRequest:
            kept = {name: value for name, value in options.items() if name not in {"abort", "model"}}
            return SentRequest("chat", "", messages, kept)

        return self._cassette.request(sent, send, on_delta)


def _report(tape: Recorder | Player, here: CassettePlace) -> CassetteReport:
    counts = (tape.path, tape.requests, tape.calls)
    if isinstance(tape, Recorder):
        return CassetteReport(*counts, (), here.head, here.head, is_recording=True)
    return CassetteReport(*counts, tuple(map(str, tape.unused)), here.head, tape.content.head)


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
