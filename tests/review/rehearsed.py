"""Effects of rehearsals, made by hand, and a pending that shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
)
from tract_jupyter.review import Pending, action

if TYPE_CHECKING:
    from collections.abc import Mapping

COLUMNS = ("date", "species", "place", "count")
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c63606060f80f0001"
    "04010073d0b0440000000049454e44ae426082"
)
NEW_ROWS = tuple(
    RowChange("added", at, (), (f"2026-03-0{at + 1}", "great tit", "Lindau", str(at))) for at in range(3)
)
CLEANED = TableChange(
    432,
    409,
    COLUMNS,
    new_types=(("date", "text", "datetime"),),
    removed_rows=23,
    changed_cells=(("species", 57),),
    sample=(
        RowChange(
            "changed",
            14,
            ("2026-03-04", "graet tit", "Lindau", "2"),
            ("2026-03-04", "great tit", "Lindau", "2"),
        ),
        RowChange("removed", 15, ("", "magpie", "Wasserburg", "1"), ()),
    ),
)
CLEANING = Effects(
    seconds=0.3,
    digest="c" * 64,
    variables=(
        VariableEffect(
            "clean",
            "created",
            "",
            "DataFrame, 409 × 4",
            table=TableChange(None, 409, COLUMNS, added_rows=409, sample=NEW_ROWS),
        ),
    ),
    files=(
        FileEffect(
            "data/sightings.csv",
            "changed",
            12_000,
            11_400,
            "23 rows removed; 57 values of species changed",
            table=CLEANED,
        ),
    ),
    outputs=(Output("text", "57 names corrected\n"), Output("figure", "", {"image/png": PIXEL})),
)
"""A table is cleaned and saved: a variable, a file that is overwritten, output and a figure."""
LOOK = Effects(
    seconds=0.1,
    digest="a" * 64,
    outputs=(Output("text", "12 spellings\n"), Output("result", "12")),
)
"""A script that only looked."""
REFUSED = Effects(
    ending="raised",
    ending_note="ConnectionError: refused",
    seconds=0.2,
    digest="b" * 64,
    variables=(VariableEffect("days", "created", "", "DataFrame, 153 × 1"),),
    refused=(RefusedAttempt("connect to api.weather.example:443", 2, 4),),
)
"""A script that tried to reach the network."""
FAILED = Effects(
    ending="raised",
    ending_note="KeyError: 'mont'",
    seconds=0.1,
    digest="f" * 64,
    outputs=(Output("text", "before\n"), Output("error", "Traceback\nKeyError: 'mont'\n")),
)
"""A script that raised an error."""
MANY = Effects(
    seconds=0.4,
    digest="e" * 64,
    files=(
        FileEffect("old.txt", "deleted", 9, None),
        *(FileEffect(f"out/part_{number:03}.csv", "created", None, 1_024) for number in range(199)),
    ),
    settings=(SettingEffect("os.environ['MODE']", "", "fast"),),
    calls=(RehearsedCall("read_table", "path='data.csv'"),),
)
"""200 changed files."""


class Rehearsed(Pending):
    """A request with effects."""

    labels: Mapping[str, str] = {"keep": "Keep", "approve": "Run in the kernel", "reject": "Reject"}
    leading = "keep"

    def __init__(self, effects: Effects, **options: Any) -> None:
        super().__init__("script", fields={"code": "x = 1"}, **options)
        self._effects = effects

    def shown_effects(self) -> Effects:
        return self._effects

    @action
    def keep(self) -> None:
        """Keep exactly these effects."""
        self.run_approved()
