"""Streamed replies: server-sent events, and the reply that a dialect assembles from them.

Reference: https://html.spec.whatwg.org/multipage/server-sent-events.html.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from tract_jupyter.exceptions import LLMRequestError
from tract_jupyter.llm.keys import masked_in
from tract_jupyter.llm.messages import sound
from tract_jupyter.models import Delta

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


def events(parts: Iterable[bytes]) -> Iterator[tuple[str, bytes]]:
    """Yield the events of a stream: the name, empty if it has none, and the data.

    Lines end with LF, CR LF or CR; comments and other fields are skipped. Data after the last empty line is yielded as
    well, because some servers omit that line.
    """
    name, data = "", list[bytes]()
    for line in _lines(parts):
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if not line:
            if data:
                yield name, b"\n".join(data)
            name, data = "", []
        elif field == b"data":
            data.append(value)
        elif field == b"event":
            name = value.decode("utf-8", "replace")
    if data:
        yield name, b"\n".join(data)


_LINE_END: Final = re.compile(rb"\r\n|\n|\r")


def _lines(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Split a stream at the line ends of the standard alone: JSON texts may contain other ones of Unicode."""
    rest: list[bytes] = []
    after_cr = False
    for part in parts:
        # the CR of a split CR LF already ended the line
        text = part[1:] if after_cr and part.startswith(b"\n") else part
        after_cr = part.endswith(b"\r") if part else after_cr
        *lines, last = _LINE_END.split(text)
        for line in lines:
            yield b"".join([*rest, line])
            rest = []
        rest.append(last)
    yield b"".join(rest)


class Assembly(Protocol):
    """A reply that is put together from the events of a stream."""

    is_complete: bool
    """True once the provider said why the reply ended."""
    is_over: bool
    """True once nothing more can follow."""

    def add(self, event: dict[str, Any]) -> Iterable[Delta]:
        """Add an event, and return the new pieces of the reply."""
        ...

    def reply(self) -> dict[str, Any]:
        """Return the whole reply, in the shape of one that was not streamed."""
        ...

    def usage(self) -> object:
        """Return the provider's usage report so far, in the provider's terms; None without a report."""
        ...

    def partial(self) -> dict[str, Any] | None:
        """Return the received part of the reply, without `finish_reason`; None if nothing arrived."""
        ...


class WholeCharacters:
    """Deltas with whole characters and masked secrets. The beginning of either is held back until the rest arrives."""

    def __init__(self, secrets: Sequence[str] = ()) -> None:
        self._secrets = secrets
        self._held: dict[tuple[str, int], Delta] = {}

    def of(self, delta: Delta) -> Delta:
        """Return the delta with whole characters."""
        place = (delta.kind, delta.index)
        waiting = self._held.pop(place, None)
        text = masked_in((waiting.text if waiting else "") + delta.text, self._secrets)
        cut = self._begins(text)
        if cut < len(text):
            self._held[place] = replace(delta, text=text[cut:])
        text = sound(text[:cut])
        return delta if text == delta.text else replace(delta, text=text)

    def rest(self) -> Iterator[Delta]:
        """Yield the text that is held back at the end of the stream."""
        for delta in self._held.values():
            yield replace(delta, text=sound(delta.text))

    def _begins(self, text: str) -> int:
        """Return the place of an unfinished character or secret at the end of a text; the length without one."""
        if text and "\ud800" <= text[-1] <= "\udbff":
            return len(text) - 1
        longest = max(map(len, self._secrets), default=1) - 1
        places = range(max(0, len(text) - longest), len(text))
        return next(
            (start for start in places if any(key.startswith(text[start:]) for key in self._secrets)),
            len(text),
        )


def deltas_of(reply: dict[str, Any]) -> Iterator[Delta]:
    """Yield the pieces that a stream of this complete reply would have."""
    message = reply["choices"][0]["message"]
    if message.get("reasoning"):
        yield Delta("reasoning", message["reasoning"])
    for text in filter(None, (message["content"], message.get("refusal"))):
        yield Delta("text", text)
    for place, call in enumerate(message.get("tool_calls", ())):
        yield Delta("tool_call", call["function"]["arguments"], place, call["function"]["name"])


class ReplyStream:
    """The pieces of one reply, to be read once; the whole reply is in `reply` after the last one."""

    def __init__(self, pieces: Iterator[Delta | dict[str, Any]]) -> None:
        self._pieces = pieces
        self._reply: dict[str, Any] | None = None

    def __iter__(self) -> Iterator[Delta]:
        for piece in self._pieces:
            if isinstance(piece, Delta):
                yield piece
            else:
                self._reply = piece

    @property
    def reply(self) -> dict[str, Any]:
        """The complete reply, as `chat` returns it. Reads the rest of the stream."""
        for _ in self:
            pass
        if self._reply is None:
            raise LLMRequestError("the stream was not read to its end, so the reply is incomplete; try again")
        return self._reply

    def close(self) -> None:
        """Stop reading, and end the request."""
        close = getattr(self._pieces, "close", None)
        if close is not None:
            close()
