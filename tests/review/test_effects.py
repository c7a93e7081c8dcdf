"""Requests that show rehearsal effects: as text, as JSON, and the parts that must be on display."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.review.rehearsed import CLEANING, FAILED, LOOK, MANY, REFUSED, Rehearsed
from tract_jupyter.analysis import RiskLevel
from tract_jupyter.exceptions import RehearsalError
from tract_jupyter.rehearsal import FileEffect, RefusedAttempt, RehearsedCall, SettingEffect, VariableEffect
from tract_jupyter.review import (
    Answer,
    Ticket,
    list_effects,
    record_text,
    request_from_dict,
    request_text,
    request_to_dict,
    view_request,
)
from tract_jupyter.scripts import PendingScript


@pytest.fixture
def ticket(tract):
    def make(effects):
        return Ticket(Rehearsed(effects, tract=tract), lambda _: None)

    return make


def marks(effects):
    return [(line.mark, line.name) for line in list_effects(effects).lines]


def test_effects_are_listed_by_risk():
    assert marks(CLEANING) == [("~", "data/sightings.csv"), ("+", "clean")]
    assert marks(REFUSED) == [("!", "connect to api.weather.example:443"), ("+", "days")]
    assert marks(LOOK) == []


def test_the_size_of_a_file_is_said_once():
    files = (
        FileEffect("a.png", "created", None, 18_200, "18.2 kB"),
        FileEffect("b.png", "changed", 18_200, 20_100, "18.2 kB → 20.1 kB, mode 644 → 600"),
        FileEffect("c.bin", "changed", 1_000, 1_000, "1.0 kB → 1.0 kB"),
        FileEffect("d.csv", "created", None, 2_100, "2 rows × 2 columns"),
    )
    assert [line.text for line in list_effects(replace(LOOK, files=files)).lines] == [
        "18.2 kB → 20.1 kB, mode 644 → 600",
        "1.0 kB → 1.0 kB",
        "18.2 kB",
        "2.1 kB; 2 rows × 2 columns",
    ]


def test_a_line_of_the_effects_describes_the_change():
    changed, created = list_effects(CLEANING).lines
    assert changed.text == "432 → 409 rows; 23 rows removed; 57 values of species changed"
    assert created.text == "DataFrame, 409 × 4"
    refused, _ = list_effects(REFUSED).lines
    assert refused.text == "refused, 2 times, line 4"
    call = replace(LOOK, ending="asked", calls=(RehearsedCall("notify", "'x'", is_answered=False),))
    assert [line.text for line in list_effects(call).lines] == [
        "needs approval to be called with 'x'; the rehearsal ended here"
    ]
    model = VariableEffect(
        "fit", "changed", "int 1", "Model", problem="a Model has no safe form", aliases=("m",)
    )
    (line,) = list_effects(replace(LOOK, variables=(model,))).lines
    assert line.text == "int 1 → Model; m would keep the old object; cannot be kept: a Model has no safe form"
    drawing = VariableEffect("fig", "created", "", "Figure", is_left_out=True)
    (line,) = list_effects(replace(LOOK, variables=(drawing,))).lines
    assert line.text == "Figure; shown as a picture, not kept"


def test_two_hundred_files_are_few_lines_and_each_is_named():
    shown = list_effects(MANY)
    assert shown.total == 202
    assert len(shown.lines) == 12
    assert len(shown.more) < 45
    assert shown.lines[0].name == "old.txt"
    names = ", ".join(line.name for line in (*shown.lines, *shown.more))
    assert all(effect.path in names for effect in MANY.files)


def test_doubtful_names_are_explained_in_lines_of_their_own():
    variable = VariableEffect("d\u0430ys", "created", "", "int 1")
    file = FileEffect(
        "d\u0430ta.csv", "created", None, 1, "1 B, hidden or unusual characters: column 2 U+0430"
    )
    shown = list_effects(replace(MANY, variables=(variable,), files=(*MANY.files, file)))
    lines = [line for line in (*shown.lines, *shown.more) if "\u0430" in line.name]
    assert [line.name for line in lines] == [file.path, variable.name]
    assert all(line.text.endswith("hidden or unusual characters: column 2 U+0430") for line in lines)


def test_details_stay_on_display_beside_many_lines():
    """Values of settings and variables, arguments of calls, and permissions of files."""
    effects = replace(
        MANY,
        settings=tuple(SettingEffect(f"os.environ['{name}']", "", name.lower()) for name in ("URL", "MODE")),
        variables=tuple(VariableEffect(name, "changed", "int 1", "int 2") for name in ("a", "b")),
        calls=(RehearsedCall("read", '{"x": 1}'), RehearsedCall("read", '{"x": 2}')),
        files=(*MANY.files, *(FileEffect(f"run{n}", "created", None, 1, "1 B, executable") for n in (1, 2))),
    )
    shown = list_effects(effects)
    texts = [line.text for line in (*shown.lines, *shown.more)]
    assert {"url", "mode", 'was called with {"x": 1}', 'was called with {"x": 2}'} <= set(texts)
    assert texts.count("int 1 → int 2") == 2
    assert texts.count("1 B, executable") == 2


@pytest.mark.parametrize(
    ("effects", "level", "label"),
    [
        (CLEANING, RiskLevel.MEDIUM, "overwrites a file"),
        (REFUSED, RiskLevel.HIGH, "uses the network"),
        (
            replace(LOOK, refused=(RefusedAttempt("write /etc/x"),)),
            RiskLevel.HIGH,
            "writes outside the workspace",
        ),
        (
            replace(LOOK, refused=(RefusedAttempt("write /w/x, because its owner or group is not yours"),)),
            RiskLevel.HIGH,
            "changes a file of another owner or group",
        ),
        (MANY, RiskLevel.HIGH, "deletes a file"),
        (LOOK, None, "no effects"),
        (FAILED, None, "no file changed"),
        (replace(LOOK, ending="limit"), RiskLevel.MEDIUM, "was not rehearsed to its end"),
    ],
    ids=["overwrites", "network", "outside", "foreign", "deletes", "looks", "fails", "limit"],
)
def test_the_label_comes_from_the_effects(ticket, effects, level, label):
    risk = view_request(ticket(effects)).risk
    assert (risk.level, risk.number) == (level, label)


def test_the_text_begins_with_the_sentence_and_has_all_details(ticket):
    text = request_text(ticket(CLEANING).request)
    sentence = "Creates `clean` (409 × 4). Overwrites data/sightings.csv: 23 rows removed; 57 values"
    places = [
        text.index(part)
        for part in (sentence, "~ data/sightings.csv", "graet tit", "+ clean", "57 names corrected")
    ]
    assert places == sorted(places)


def test_a_record_has_the_effects_without_samples(ticket):
    text = record_text(ticket(CLEANING))
    assert "~ data/sightings.csv" in text
    assert "graet tit" not in text


@pytest.mark.parametrize("effects", [CLEANING, LOOK, REFUSED, MANY])
def test_a_stored_request_has_the_same_effects(ticket, effects):
    request = ticket(effects).request
    stored = json.loads(json.dumps(request_to_dict(request)))
    restored = request_from_dict(stored)
    assert restored.effects == effects
    assert request_to_dict(restored) == stored


def test_damaged_effects_are_refused(ticket):
    stored = request_to_dict(ticket(LOOK).request)
    with pytest.raises(RehearsalError, match="cannot be read"):
        request_from_dict({**stored, "effects": {**stored["effects"], "level": "all"}})


def test_keep_needs_the_effects_on_display_and_nothing_else(ticket):
    shown = ticket(CLEANING)
    effects, rest = shown.needed_effects, shown.needed
    assert effects
    assert rest
    assert not effects & rest
    keep = Answer("keep", {}, shown.round_id, rest)
    assert shown.not_seen(keep).startswith("Nothing was decided: 2 of the 2 lines")
    assert not shown.not_seen(replace(keep, seen=effects))
    assert shown.not_seen(Answer("approve", {}, shown.round_id, effects))


def test_a_kept_function_needs_its_code_on_display(ticket):
    function = VariableEffect("clean", "created", "", "function clean")
    shown = ticket(replace(CLEANING, variables=(function,)))
    effects, rest = shown.needed_effects, shown.needed
    assert shown.keeps_code
    assert shown.not_seen(Answer("keep", {}, shown.round_id, effects)).startswith("Nothing was decided: ")
    assert not shown.not_seen(Answer("keep", {}, shown.round_id, effects | rest))
    imported = replace(function, is_import=True)
    assert not ticket(replace(CLEANING, variables=(imported,))).keeps_code


def test_changed_code_needs_nothing_on_display_because_it_is_rehearsed_again(tract):
    asked = Ticket(PendingScript("x = 1", notebook_id="user", tract=tract), lambda _: None)
    asked.request = replace(asked.request, effects=LOOK)
    changed = Answer("approve", {"edits": {"code": "x = 2"}}, asked.round_id, frozenset())
    assert not asked.not_seen(changed)
    assert asked.not_seen(replace(changed, arguments={"edits": {"code": "x = 1"}}))
    assert asked.not_seen(replace(changed, arguments={"edits": {"other": "x"}}))
    asked.request = replace(asked.request, effects=None)
    assert asked.not_seen(changed)


def test_the_keys_belong_to_one_request_and_to_these_effects(ticket):
    first, second = ticket(CLEANING), ticket(CLEANING)
    assert not first.needed_effects & second.needed_effects
    other = ticket(replace(CLEANING, digest="d" * 64))
    other.pending.pending_id = first.pending.pending_id
    other.new_round()
    assert not first.needed_effects & other.needed_effects


def test_keep_is_the_first_button(ticket):
    actions = [(action.name, action.label, action.style) for action in ticket(CLEANING).request.actions]
    assert actions == [
        ("keep", "Keep", "approve"),
        ("approve", "Run in the kernel", "neutral"),
        ("reject", "Reject", "reject"),
    ]


@pytest.mark.parametrize(
    ("effects", "words"),
    [(CLEANING, "Kept: Creates clean "), (LOOK, "Looked, no effects"), (FAILED, "Raises an error")],
)
def test_the_outcome_line_of_a_decided_request_names_the_kept_effects(ticket, effects, words):
    shown = ticket(effects)
    shown.pending.keep()
    shown.new_round()
    outcome = view_request(shown).outcome
    assert f"{outcome.verb} {outcome.name}".strip().startswith(words)
