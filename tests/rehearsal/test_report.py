"""The reader of reports: any bytes give a report or `MalformedReportError`, and execute nothing."""

import os
import pickle
import random
import struct

import pytest

from tract_jupyter.rehearsal import (
    FrameReader,
    MalformedReportError,
    Output,
    RefusedAttempt,
    Report,
    ReportFrame,
    frame_bytes,
)

TOUCHED = []


class Bomb:
    """An object whose unpickling leaves a trace."""

    def __reduce__(self):
        return TOUCHED.append, ("executed",)


def output(kind, **data):
    parts, buffers = [], []
    for mime, value in data.items():
        buffers.append(value.encode() if isinstance(value, str) else value)
        parts.append([mime.replace("_", "/"), isinstance(value, str), len(buffers[-1])])
    return frame_bytes({"kind": kind, "parts": parts}, *buffers)


VALID = b"".join(
    part
    for frame in [
        output("text", text_plain="hello\n"),
        output("figure", text_plain="<Figure>", image_png=b"\x89PNG" + bytes(40)),
        frame_bytes({"kind": "refused", "action": "connect to example.com:443", "line": 3}),
        frame_bytes({"kind": "call", "id": 1, "tool": "search", "arguments": {"query": "owls", "limit": 5}}),
        frame_bytes({"kind": "effect", "effect": {"what": "variable", "name": "df", "sizes": [8]}}, bytes(8)),
        output("text", text_plain="more"),
        frame_bytes({"kind": "end", "ending": "finished", "note": ""}),
    ]
    for part in frame
)


def read(data, *, most_bytes=1_000_000, pieces=1):
    """Return the report in the given bytes, and its tool calls."""
    reader, report, calls = FrameReader(most_bytes), Report(10_000), []
    size = max(1, len(data) // pieces)
    for start in range(0, len(data), size):
        for frame in reader.feed(data[start : start + size]):
            calls.append(report.add(frame))
    return reader, report, [call for call in calls if call is not None]


@pytest.mark.parametrize("pieces", [1, 3, 1_000])
def test_a_report_in_pieces_is_the_same(pieces):
    reader, report, calls = read(VALID, pieces=pieces)
    assert reader.is_between_frames
    assert [one.kind for one in report.outputs] == ["text", "figure", "text"]
    assert report.outputs[1].data["image/png"].startswith(b"\x89PNG")
    assert report.refused == [RefusedAttempt("connect to example.com:443", line=3)]
    assert calls == [(1, "search", {"query": "owls", "limit": 5})]
    assert report.effects == [ReportFrame({"what": "variable", "name": "df", "sizes": [8]}, bytearray(8))]
    assert report.ending == "finished"


def test_adjacent_texts_are_one_output():
    _, report, _ = read(b"".join(part for text in "abc" for part in output("text", text_plain=text)))
    assert report.outputs == [Output("text", "abc")]


def test_text_beyond_the_limit_is_cut():
    _, report, _ = read(b"".join(part for _ in range(5) for part in output("text", text_plain="x" * 4_000)))
    assert report.outputs[0].text == "x" * 10_000 + "\n[The rest of the output was cut.]\n"


@pytest.mark.parametrize(
    "header",
    [
        {},
        {"kind": "unknown"},
        {"kind": ["text"]},
        {"kind": "text"},
        {"kind": "text", "parts": [["text/plain", True]]},
        {"kind": "text", "parts": [["text/plain", True, -1]]},
        {"kind": "text", "parts": [["text/plain", True, 10**30]]},
        {"kind": "text", "parts": [["text/plain", 1, 0]]},
        {"kind": "effect", "effect": []},
        {"kind": "call", "id": "1", "tool": "x", "arguments": {}},
        {"kind": "call", "id": True, "tool": "x", "arguments": {}},
        {"kind": "call", "id": 1, "tool": "x", "arguments": []},
        {"kind": "refused", "action": None},
        {"kind": "end", "ending": "kept", "note": ""},
    ],
)
def test_frames_of_another_form_are_refused(header):
    with pytest.raises(MalformedReportError):
        Report(1_000).add(ReportFrame(header, bytearray()))


def test_nothing_may_follow_the_end():
    report = Report(1_000)
    report.add(ReportFrame({"kind": "end", "ending": "finished", "note": ""}, bytearray()))
    with pytest.raises(MalformedReportError, match="follows the end"):
        report.add(ReportFrame({"kind": "end", "ending": "finished", "note": ""}, bytearray()))


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">IQ", 2**32 - 1, 0),
        struct.pack(">IQ", 2, 2**64 - 1) + b"{}",
        struct.pack(">IQ", 2, 2_000_000) + b"{}",
        struct.pack(">IQ", 2, 0) + b"[]",
        struct.pack(">IQ", 3, 0) + b"NaN",
        struct.pack(">IQ", 9, 0) + b'{"a":NaN}',
        struct.pack(">IQ", 100_000, 0) + b"[" * 100_000,
        struct.pack(">IQ", 200_006, 0) + b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        struct.pack(">IQ", 10_001, 0) + b'{"a":' + b"9" * 9_995 + b"}",
        struct.pack(">IQ", 2, 0) + b"\xff\xfe",
        pickle.dumps(Bomb()) * 100,
        os.urandom(64),
    ],
    ids=[
        "header",
        "payload",
        "sum",
        "list",
        "nan",
        "nan inside",
        "brackets",
        "deep",
        "digits",
        "utf-8",
        "pickle",
        "noise",
    ],
)
def test_bytes_that_are_not_a_report_are_refused(data):
    with pytest.raises(MalformedReportError):
        read(data)
    assert not TOUCHED


def test_a_large_claim_allocates_nothing():
    reader = FrameReader(2**40)
    assert list(reader.feed(struct.pack(">IQ", 2, 2**39) + b"{}")) == []
    assert not reader.is_between_frames


def test_ten_thousand_mutated_reports_raise_nothing_else():
    chance = random.Random(7)
    bomb = pickle.dumps(Bomb())
    endings = set()
    for _ in range(10_000):
        data = bytearray(VALID)
        for _ in range(chance.randint(1, 6)):
            mutate(data, chance, bomb)
        try:
            reader, report, _ = read(bytes(data), pieces=chance.choice([1, 1, 7]))
            endings.add(report.ending if reader.is_between_frames else "incomplete")
        except MalformedReportError:
            endings.add("malformed")
    assert endings >= {"malformed", "incomplete"}
    assert not TOUCHED


def mutate(data, chance, bomb):
    """Change some bytes of a report."""
    place = chance.randrange(len(data) + 1)
    match chance.randrange(7):
        case 0 if place < len(data):
            data[place] = chance.randrange(256)
        case 1:
            del data[place : place + chance.randint(1, 30)]
        case 2:
            data[place:place] = chance.randbytes(chance.randint(1, 30))
        case 3:
            data[place:place] = bomb
        case 4:
            other = chance.randrange(len(data) + 1)
            data[place:place] = data[other : other + 40]
        case 5:
            data[place:place] = chance.choice(
                [b"null", b"{}", b"[", b'"', b"1e999", b"-1", b"\\ud800", b"true"]
            )
        case _ if place + 12 < len(data):
            data[place : place + 12] = struct.pack(
                ">IQ", chance.choice([0, 1, 2**31]), chance.choice([0, 1, 2**63])
            )
    if not data:
        data += b"x"
