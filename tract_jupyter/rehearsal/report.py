"""The report of a copy: frames that it sends while the code runs, and their reading.

A frame is a length-prefixed JSON header and a payload. The code may write to the channel, so a report is data of
unknown origin: each byte is checked, nothing is unpickled, and `MalformedReportError` is the only error of the reader.
"""

from __future__ import annotations

import itertools
import json
import os
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast, get_args

from tract_jupyter.rehearsal.effects import Output, OutputKind, RefusedAttempt

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_PREFIX: Final = struct.Struct(">IQ")
_LONGEST_HEADER: Final = 4_000_000
_MOST_HEADERS: Final = 32_000_000  # bytes of all headers: as objects they take about ten times as much
_MOST_DEPTH: Final = 60
_MOST_FRAMES: Final = 100_000
_MOST_TEXT: Final = 2_000  # characters of a note or an action
_AT_ONCE: Final = 16  # buffers of one write, below IOV_MAX

ENDINGS: Final = ("finished", "raised", "failed")
_PLAIN: Final = "text/plain"
_OUTPUTS: Final = get_args(OutputKind)


class MalformedReportError(Exception):
    """The bytes are not a report."""


class ReportFrame(NamedTuple):
    """One message of the copy: a JSON object and bytes."""

    header: dict[str, Any]
    payload: bytearray


def frame_bytes(header: dict[str, Any], *buffers: bytes | bytearray | memoryview) -> list[bytes | memoryview]:
    """Return the buffers of a frame."""
    text = json.dumps(header, ensure_ascii=True, allow_nan=False).encode("ascii")
    views = [memoryview(one).cast("B") for one in buffers if memoryview(one).nbytes]
    return [_PREFIX.pack(len(text), sum(map(len, views))) + text, *views]


def write_frame(descriptor: int, header: dict[str, Any], *buffers: bytes | bytearray | memoryview) -> None:
    """Write a frame to a pipe."""
    waiting = frame_bytes(header, *buffers)
    while waiting:
        written = os.writev(descriptor, waiting[:_AT_ONCE])
        while waiting and written >= len(waiting[0]):
            written -= len(waiting.pop(0))
        if written:
            waiting[0] = memoryview(waiting[0])[written:]


class FrameReader:
    """Splits bytes into frames, with at most `most_bytes` of payloads."""

    def __init__(self, most_bytes: int) -> None:
        self._left = most_bytes
        self._headers_left = _MOST_HEADERS
        self._frames = 0
        self._buffer = bytearray()
        self._header: dict[str, Any] | None = None
        self._size = 0

    @property
    def is_between_frames(self) -> bool:
        """True if all bytes belong to complete frames."""
        return self._header is None and not self._buffer

    def feed(self, data: bytes | memoryview) -> Iterator[ReportFrame]:
        """Yield the frames that these bytes complete."""
        self._buffer += data
        while True:
            if self._header is None and not self._read_header():
                return
            if self._header is None or len(self._buffer) < self._size:
                return
            rest = self._buffer[self._size :]
            del self._buffer[self._size :]
            frame = ReportFrame(self._header, self._buffer)
            self._buffer, self._header = rest, None
            yield frame

    def _read_header(self) -> bool:
        if len(self._buffer) < _PREFIX.size:
            return False
        length, size = _PREFIX.unpack_from(self._buffer)
        is_too_long = length > min(_LONGEST_HEADER, self._headers_left)
        if is_too_long or size > self._left or self._frames >= _MOST_FRAMES:
            raise MalformedReportError("the report is too large")
        if len(self._buffer) < _PREFIX.size + length:
            return False
        self._left -= size
        self._headers_left -= length
        self._frames += 1
        self._header = read_json(self._buffer[_PREFIX.size : _PREFIX.size + length])
        self._size = size
        del self._buffer[: _PREFIX.size + length]
        return True


def read_json(data: bytes | bytearray) -> dict[str, Any]:
    """Return a JSON object with finite numbers and no deep nesting."""
    if data.count(b"[") + data.count(b"{") > _MOST_DEPTH and _depth(data) > _MOST_DEPTH:
        raise MalformedReportError("a header is nested too deeply")
    try:
        value = json.loads(data, parse_constant=_refuse_constant, parse_float=_finite)
    except (ValueError, RecursionError):
        raise MalformedReportError("a header is not JSON") from None
    if not isinstance(value, dict):
        raise MalformedReportError("a header is not an object")
    return value


def _finite(text: str) -> float:
    value = float(text)
    if value in {float("inf"), float("-inf")}:
        raise ValueError(text)
    return value


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


def _depth(data: bytes | bytearray) -> int:
    """Return the deepest nesting of brackets, with the brackets in texts."""
    deepest = depth = 0
    for byte in data:
        if byte in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif byte in b"]}":
            depth -= 1
    return deepest


class ReceivedCall(NamedTuple):
    """A tool call that the copy asks for."""

    call_id: int
    tool: str
    arguments: dict[str, Any]


@dataclass(slots=True)
class Report:
    """The frames of a copy that `add` has read so far.

    Attributes:
        output_limit: Characters of printed text that may still follow.
        effects: Frames of variables and settings. Their headers and payloads are not checked here.
        refused: Refused attempts, each with the number 1.
        ending: `finished`, `raised`, or `failed` if the containment failed; empty if the code has not ended.
        note: The error in one line.
        is_ready: True if the copy was contained. Its code runs from then on, so it cannot report a failure of that.
    """

    output_limit: int
    _outputs: list[Output] = field(default_factory=list)
    effects: list[ReportFrame] = field(default_factory=list)
    refused: list[RefusedAttempt] = field(default_factory=list)
    ending: str = ""
    note: str = ""
    is_ready: bool = False

    @property
    def outputs(self) -> list[Output]:
        """The outputs in order. Adjacent texts are one output."""
        outputs: list[Output] = []
        for is_text, group in itertools.groupby(self._outputs, lambda output: output.kind == "text"):
            if is_text:
                outputs.append(Output("text", "".join(one.text for one in group)))
            else:
                outputs += group
        return outputs

    def add(self, frame: ReportFrame) -> ReceivedCall | None:
        """Add a frame. Return a tool call if it asks for one."""
        header, payload = frame
        kind = header.get("kind")
        if self.ending:
            raise MalformedReportError("a frame follows the end")
        if kind in _OUTPUTS:
            self._add_output(cast("OutputKind", kind), header, payload)
        elif kind == "effect":
            self.effects.append(ReportFrame(_checked(header, "effect", dict), payload))
        elif kind == "refused":
            self.refused.append(RefusedAttempt(_text(header, "action"), line=_line(header)))
        elif kind == "call":
            return ReceivedCall(
                _checked(header, "id", int), _text(header, "tool"), _checked(header, "arguments", dict)
            )
        elif kind == "ready" and not self.is_ready:
            self.is_ready = True
        elif kind == "end":
            self._end(_text(header, "ending"), _text(header, "note"))
        else:
            raise MalformedReportError("a frame has an unknown kind")
        return None

    def _add_output(self, kind: OutputKind, header: dict[str, Any], payload: bytearray) -> None:
        data: dict[str, str | bytes] = {}
        start = 0
        for mime, is_text, size in _parts(header):
            part = bytes(payload[start : start + size])
            data[mime] = part.decode("utf-8", "replace") if is_text else part
            start += size
        if start != len(payload):
            raise MalformedReportError("an output has another size than its parts")
        plain = data.pop(_PLAIN, "")
        text = plain if isinstance(plain, str) else ""
        if kind == "text":
            self._add_text(text)
            return
        self._outputs.append(Output(kind, text, data))

    def _add_text(self, text: str) -> None:
        left, self.output_limit = self.output_limit, self.output_limit - len(text)
        if self.output_limit < 0 <= left:
            text = f"{text[:left]}\n[The rest of the output was cut.]\n"
        if left >= 0:
            self._outputs.append(Output("text", text))

    def _end(self, ending: str, note: str) -> None:
        if ending not in ENDINGS or (ending == "failed" and self.is_ready):
            raise MalformedReportError("an ending has an unknown name")
        self.ending, self.note = ending, note


def _parts(header: dict[str, Any]) -> Iterable[tuple[str, bool, int]]:
    for part in _checked(header, "parts", list):
        match part:
            case [str(mime), bool(is_text), int(size)] if (
                size >= 0 and type(size) is int and len(mime) <= _MOST_TEXT
            ):
                yield mime, is_text, size
            case _:
                raise MalformedReportError("an output has an invalid part")


def _checked(header: dict[str, Any], name: str, kind: type) -> Any:
    value = header.get(name)
    if type(value) is not kind:
        raise MalformedReportError(f"a frame has no valid {name!r}")
    return value


def _text(header: dict[str, Any], name: str) -> str:
    text: str = _checked(header, name, str)[:_MOST_TEXT]
    return text.encode("utf-8", "replace").decode()


def _line(header: dict[str, Any]) -> int | None:
    line = header.get("line")
    return line if type(line) is int and 0 < line < 1 << 31 else None
