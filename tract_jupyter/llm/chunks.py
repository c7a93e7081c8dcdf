"""A reply that comes in pieces: server-sent events, and what they add up to.

Sources: https://html.spec.whatwg.org/multipage/server-sent-events.html,
https://platform.openai.com/docs/api-reference/chat-streaming.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

_DONE: Final = b"[DONE]"
_SAID_ONCE: Final = frozenset({"role", "id", "type", "name"})


def events(parts: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of a stream up to its `[DONE]`, that one as `{"done": True}`; skips what is none."""
    for line in _lines(parts):
        if not line.startswith(b"data:"):
            continue  # comments keep the connection open; other fields mean nothing here
        data = line[len(b"data:") :].strip()
        if data == _DONE:
            yield {"done": True}
            return
        try:
            event = json.loads(data)
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict):
            yield event


def _lines(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Lines end with LF; a JSON text may hold whatever else Unicode breaks lines at."""
    rest: list[bytes] = []
    for part in parts:
        *lines, last = part.split(b"\n")
        for line in lines:
            yield b"".join([*rest, line])
            rest = []
        rest.append(last)
    yield b"".join(rest)


class Assembly:
    """The reply that the chunks so far add up to; that of the first choice is what it says."""

    def __init__(self) -> None:
        self._outer: dict[str, Any] = {}
        self._message = _Pieces()
        self._calls: dict[int, tuple[_Pieces, _Pieces]] = {}
        self._finish_reason: str | None = None
        self.is_complete = False
        """Whether the provider said that nothing follows."""

    def add(self, chunk: dict[str, Any]) -> Iterator[str]:
        """Take one more chunk, and yield the text in it, if there is one."""
        if chunk.get("done") is True:
            self.is_complete = True
            return
        self._outer |= {key: value for key, value in chunk.items() if key != "choices" and value is not None}
        first = _first_choice(chunk)
        if first.get("finish_reason"):
            self._finish_reason, self.is_complete = first["finish_reason"], True
        delta = first.get("delta")
        if isinstance(delta, dict):
            self._message.add(delta, but={"tool_calls"})
            calls = delta.get("tool_calls")
            for call in calls if isinstance(calls, list) else ():
                self._add_call(call)
            text = delta.get("content")
            if text and isinstance(text, str):
                yield text

    def _add_call(self, part: Any) -> None:
        if not isinstance(part, dict):
            return
        last = max(self._calls, default=-1)
        place = part.get("index")
        if not isinstance(place, int):  # some providers count none, and give each call at once
            place = last + 1 if part.get("id") or last < 0 else last
        call, function = self._calls.setdefault(place, (_Pieces(), _Pieces()))
        call.add(part, but={"index", "function"})
        if isinstance(part.get("function"), dict):
            function.add(part["function"])

    def reply(self) -> dict[str, Any]:
        """The whole, in the shape of a reply that was not streamed."""
        message = {"role": "assistant", "content": None, **self._message.whole()}
        calls = [pieces for _, pieces in sorted(self._calls.items())]
        if calls:
            message["tool_calls"] = [
                {"id": "", "type": "function", **call.whole(), "function": function.whole()}
                for call, function in calls
            ]
        choice = {"index": 0, "message": message, "finish_reason": self._finish_reason}
        return {**self._outer, "object": "chat.completion", "choices": [choice]}


class _Pieces:
    """The parts of an object that grows: texts and lists do (`content`, `reasoning_content`, ...)."""

    def __init__(self) -> None:
        self._pieces: dict[str, list[Any]] = {}

    def add(self, part: dict[str, Any], *, but: Collection[str] = ()) -> None:
        for key, value in part.items():
            if key not in but and value is not None:
                self._pieces.setdefault(key, []).append(value)

    def whole(self) -> dict[str, Any]:
        return {key: _joined(key, pieces) for key, pieces in self._pieces.items()}


def _joined(key: str, pieces: list[Any]) -> Any:
    if key in _SAID_ONCE:
        return pieces[0]
    if all(isinstance(piece, str) for piece in pieces):
        return "".join(pieces)
    if all(isinstance(piece, list) for piece in pieces):
        return [one for piece in pieces for one in piece]
    return pieces[-1]


def _first_choice(chunk: dict[str, Any]) -> dict[str, Any]:
    choices = chunk.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return first if isinstance(first, dict) else {}


def text_of(reply: dict[str, Any]) -> str:
    """The text of a reply that came at once; empty if it has none."""
    message = _first_choice(reply).get("message")
    content = message.get("content") if isinstance(message, dict) else None
    return content if isinstance(content, str) else ""
