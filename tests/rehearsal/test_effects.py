"""The effects as a value: headline, text, and the JSON form."""

from __future__ import annotations

import json

import pytest

from tract_jupyter.exceptions import RehearsalError
from tract_jupyter.rehearsal import (
    Effects,
    FileEffect,
    Output,
    RefusedAttempt,
    RehearsedCall,
    RowChange,
    SettingEffect,
    TableChange,
    VariableEffect,
    effects_from_data,
)  # fmt: skip

TABLE = TableChange(
    rows_before=432, rows_after=409, columns=("date", "name"), new_types=(("date", "object", "datetime64[ns]"),), removed_rows=23,
    changed_cells=(("name", 57),), sample=(RowChange("changed", 14, ("2026-03-04", "graet tit"), ("2026-03-04", "great tit")),),
)  # fmt: skip
CLEAN = VariableEffect("clean", "created", after="DataFrame, 409 × 4")
FILE = FileEffect(
    "data/sightings.csv", "changed", 20_000, 19_000, "23 rows removed; 57 values of name changed", table=TABLE
)
FIGURE = Output("figure", data={"image/png": b"\x89PNG", "text/plain": "<Figure>"})


@pytest.mark.parametrize(
    ("effects", "headline"),
    [
        (Effects(), "No effects."),
        (Effects(variables=(CLEAN,), files=(FILE,)),
         "Creates `clean` (409 × 4). Overwrites data/sightings.csv: 23 rows removed; 57 values of name changed."),
        (Effects(outputs=(FIGURE,), variables=(VariableEffect("top", "created", after="list of 5"),)), "Creates `top` (list of 5). Shows a figure."),
        (Effects(variables=(VariableEffect("df", "changed", detail=TABLE.summary), VariableEffect("x", "deleted"))),
         "Changes `df`: date becomes datetime64[ns]; 23 rows removed; 57 values of name changed. Deletes `x`."),
        (Effects(ending="raised", ending_note="ValueError: no such column (line 3)"), "Raises an error: ValueError: no such column (line 3)."),
        (Effects(refused=(RefusedAttempt("connect to api.example.com:443", line=4),)), "Was refused: connect to api.example.com:443."),
        (Effects(ending="asked", calls=(RehearsedCall("notify", is_answered=False),)), "Needs approval to call `notify`."),
        (Effects(files=tuple(FileEffect(f"out/{n}.txt", "created") for n in range(200))),
         "Creates out/0.txt, out/1.txt, out/2.txt, out/3.txt and 196 more."),
        (Effects(settings=(SettingEffect("os.environ['X']", "", "1"),)), "Changes os.environ['X']."),
    ],
)  # fmt: skip
def test_headline(effects, headline):
    assert effects.headline == headline


def test_looking_has_nothing_to_keep():
    assert Effects(outputs=(Output("text", "12\n"),), calls=(RehearsedCall("status"),)).is_empty
    for effects in (
        Effects(variables=(CLEAN,)),
        Effects(files=(FILE,)),
        Effects(ending="raised"),
        Effects(refused=(RefusedAttempt("x"),)),
        Effects(settings=(SettingEffect("working folder", "/a", "/b"),)),
        Effects(calls=(RehearsedCall("notify", is_answered=False),)),
    ):
        assert not effects.is_empty


def test_only_safe_and_complete_effects_can_be_kept():
    assert Effects(variables=(CLEAN,), files=(FILE,)).can_be_kept
    model = VariableEffect(
        "model", "created", after="LinearRegression", problem="a LinearRegression has no safe form"
    )
    effects = Effects(variables=(CLEAN, model))
    assert not effects.can_be_kept
    assert effects.problems == ("model: a LinearRegression has no safe form",)
    assert not Effects(variables=(CLEAN,), ending="limit").can_be_kept
    assert not Effects(variables=(CLEAN,), refused=(RefusedAttempt("x"),)).can_be_kept


def test_text_is_the_output_in_order():
    effects = Effects(
        outputs=(Output("text", "a"), Output("result", "b\n"), Output("figure", data={"image/png": b"12345"}))
    )
    assert effects.text(1000) == "a\nb\n[figure: image/png, 5 B]\n"
    assert effects.text(3) == "a\n…"


WHOLE = Effects(
    "basic", "worker", "raised", "ValueError", 1.5, (CLEAN, VariableEffect("df", "changed", "DataFrame", "DataFrame", "x", TABLE, "p", ("view",))),
    (FILE,), (FIGURE,), (RehearsedCall("a", "x=1", is_answered=False),), (RefusedAttempt("connect", 2, 3),), (SettingEffect("working folder", "a", "b"),), "0" * 64,
)  # fmt: skip


def test_json_form_is_read_back():
    data = json.loads(json.dumps(WHOLE.to_data()))
    assert effects_from_data(data) == WHOLE


@pytest.mark.parametrize(
    "damaged",
    [None, [], {"level": "else"}, {"seconds": "1"}, {"unknown": 1}, {"variables": [{"name": "x", "action": "moved"}]},
     {"outputs": [{"kind": "text", "data": {"image/png": {"base64": "!"}}}]}, {"files": {}}, {"digest": 3}],
)  # fmt: skip
def test_damaged_json_form_is_refused(damaged):
    with pytest.raises(RehearsalError, match="cannot be read"):
        effects_from_data(damaged)
