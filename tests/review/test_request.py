"""The request that a user sees."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tract_jupyter.models import show_value
from tract_jupyter.models.schema import Parameters
from tract_jupyter.review import (
    CodeBlock,
    ReviewAction,
    ReviewRequest,
    ValueRow,
    ValueTable,
    fingerprint,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a", "'a'"), ([1, 2], "[1, 2]"), ("x" * 1_000, "'" + "x" * 299 + "… (1,000 characters)"), (None, "None"),
        ([0] * 1_000, "[" + "0, " * 99 + "0,… (1,000 entries)"),
    ],
)  # fmt: skip
def test_show_value(value, text):
    assert show_value(value) == text


def test_show_value_of_an_unprintable_value():
    assert show_value(10**5000) == "<int that cannot be shown>"


def test_a_fired_operation_shows_code_findings_and_values(tract, spec):
    tract.register_operation(spec("import subprocess\nsubprocess.run('ls', shell=True)\npending.approve()"))
    request = tract.fire(
        "citation_check", {"urls": ["u"]}, review=True, triggered_by="a model"
    ).review_request("note")
    assert (request.title, request.note) == ("citation_check", "note")
    assert "(a model). Its code has 2 findings, the worst of level critical" in request.why
    block, asking = request.code
    line = asking.code.splitlines()[asking.marked - asking.first_line]
    assert asking.title.startswith("Asked by test_request.py, line ")
    assert "citation_check" in line or "tract.fire" in line
    assert block.code.startswith("import subprocess\n")
    assert block.header == "def verify(pending, strict: bool = None):"
    assert block.findings
    assert [(row.name, row.type, row.value, row.description) for row in request.tables[0].rows] == [
        ("urls", "list[str]", "['u']", "URLs to verify"),
        ("verified", "bool", "False", ""),
    ]
    assert request.action("verify").label == "Run verify"
    assert request.action("nothing") is None


def test_one_changed_character_gives_another_fingerprint():
    base = fingerprint("operation", "a", "h", {"x": 1, "y": 2})
    assert fingerprint("operation", "a", "h", {"y": 2, "x": 1}) == base
    others = [
        fingerprint("tool", "a", "h", {"x": 1, "y": 2}), fingerprint("operation", "b", "h", {"x": 1, "y": 2}),
        fingerprint("operation", "a", "i", {"x": 1, "y": 2}), fingerprint("operation", "a", "h", {"x": 1, "y": 3}),
        fingerprint("operation", "a", "h", {"x": "1", "y": 2}), fingerprint("operation", "a", "h", {"x": True, "y": 2}),
    ]  # fmt: skip
    assert len({base, *others}) == 7


def test_no_text_hides_or_turns_around_a_part_of_itself():
    hostile, shown = "a\u202eb\x1b[2Kc", "a\ufffdb\ufffd[2Kc"
    row = ValueRow(hostile, hostile, hostile, hostile)
    assert (row.name, row.type, row.value, row.description) == (shown,) * 4
    action = ReviewAction("go", hostile, Parameters("go", []), description=hostile)
    assert (action.label, action.description) == (shown, shown)
    block = CodeBlock(hostile, hostile, description=hostile)
    assert (block.title, block.description, block.code) == (shown, shown, hostile)  # its findings have places
    request = ReviewRequest(
        "", hostile, hostile, hostile, "", (), tables=(ValueTable(hostile, ()),), note=hostile
    )
    assert (request.title, request.summary, request.why, request.note) == (shown,) * 4
    assert request.tables[0].title == shown
    assert replace(request, note=hostile).note == shown
