"""The difference of two tables: columns, types, rows and cells."""

from __future__ import annotations

import sys

import pytest

from tests.cpu import cpu_seconds
from tract_jupyter.rehearsal import TextTable, compare_frames, compare_texts

np = pytest.importorskip("numpy")
pd = pytest.importorskip("pandas")

BIRDS = pd.DataFrame(
    {
        "name": [f"bird {number}" for number in range(60)],
        "day": [f"2026-03-{1 + number % 28:02}" for number in range(60)],
        "count": range(60),
    }
)


def test_cells_that_changed_are_counted_by_column():
    after = BIRDS.copy()
    after.loc[3:5, "name"] = "great tit"
    after.loc[4, "count"] = -1
    change = compare_frames(BIRDS, after)
    assert change.changed_cells == (("name", 3), ("count", 1))
    assert (change.rows_before, change.rows_after, change.added_rows, change.removed_rows) == (60, 60, 0, 0)
    assert change.summary == "3 values of name changed; 1 value of count changed"
    assert [(row.kind, row.row, row.before[0], row.after[0]) for row in change.sample[:1]] == [
        ("changed", 3, "bird 3", "great tit")
    ]


@pytest.mark.parametrize("is_reset", [False, True], ids=["by index", "by content"])
def test_removed_and_changed_rows_are_distinguished(is_reset):
    after = BIRDS.drop(index=range(10, 20))
    after.loc[[9, 20, 40], "name"] = "great tit"
    after = after.reset_index(drop=True) if is_reset else after
    change = compare_frames(BIRDS, after)
    assert (change.removed_rows, change.added_rows, change.changed_cells) == (10, 0, (("name", 3),))
    assert change.summary == "10 rows removed; 3 values of name changed"
    assert {row.kind for row in change.sample} == {"removed", "changed"}


def test_added_rows_and_columns():
    after = pd.concat([BIRDS, BIRDS.head(2)], ignore_index=True).assign(place="Lindau").drop(columns="day")
    change = compare_frames(BIRDS, after)
    assert (change.added_rows, change.removed_rows, change.added_columns, change.removed_columns) == (
        2,
        0,
        ("place",),
        ("day",),
    )


def test_new_column_types_are_not_reported_as_changed_cells():
    after = BIRDS.assign(day=pd.to_datetime(BIRDS.day), count=BIRDS["count"].astype(float))
    change = compare_frames(BIRDS, after)
    assert change.new_types == (("day", "text", "datetime"), ("count", "int64", "float64"))
    assert change.changed_cells == ()
    assert change.summary.startswith("day becomes datetime")


def test_rows_in_another_order():
    mixed = compare_frames(BIRDS, BIRDS.sample(frac=1, random_state=1))
    assert (mixed.changed_cells, mixed.removed_rows) == ((), 0)
    assert mixed.summary == "rows in another order"
    shuffled = compare_frames(BIRDS, BIRDS.iloc[::-1].reset_index(drop=True))
    assert shuffled.summary == "rows in another order"


def test_missing_values_are_equal():
    frame = pd.DataFrame(
        {
            "a": [1.5, np.nan],
            "b": pd.array([1, None], dtype="Int64"),
            "c": ["x", None],
            "d": pd.to_datetime(["2024-01-01", None]),
            "e": pd.Categorical(["x", None]),
        }
    )
    frame["o"] = pd.Series([None, float("nan")], dtype=object)
    assert compare_frames(frame, frame.copy()).changed_cells == ()
    after = frame.copy()
    after.loc[1, ["a", "b"]] = [2.5, 3]
    assert compare_frames(frame, after).changed_cells == (("a", 1), ("b", 1))


class Loud:
    def __eq__(self, other):
        raise AssertionError("it was compared")

    def __str__(self):
        raise AssertionError("it was shown")

    __hash__ = None
    __repr__ = __str__


def test_objects_of_other_classes_run_nothing():
    before = pd.DataFrame({"o": pd.Series([Loud(), 1], dtype=object)})
    after = pd.DataFrame({"o": pd.Series([Loud(), 1], dtype=object)})
    change = compare_frames(before, after)
    assert change.changed_cells == (("o", 1),)
    assert change.sample[0].before == ("<Loud>",)


def test_odd_columns():
    twice = pd.DataFrame([[1, 2]], columns=["a", "a"])
    assert compare_frames(twice, twice + 1).changed_cells == (("0", 1), ("1", 1))
    assert compare_frames(pd.DataFrame(), BIRDS).added_columns == ("name", "day", "count")
    assert compare_frames(BIRDS, BIRDS.head(0)).removed_rows == 60
    multi = pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("a", 1), ("b", 2)]))
    assert compare_frames(multi, multi + 1).changed_cells == (("('a', 1)", 1), ("('b', 2)", 1))


def test_a_new_frame_shows_its_first_rows():
    change = compare_frames(None, BIRDS)
    assert (change.rows_before, change.rows_after, len(change.sample)) == (None, 60, 5)
    assert change.sample[0] == ("added", 0, (), ("bird 0", "2026-03-01", "0"))
    assert compare_frames(None, [1]) is None


def test_frames_of_polars():
    pl = pytest.importorskip("polars")
    pytest.importorskip("pyarrow")
    before = pl.DataFrame({"a": [1, 2, 3], "s": ["x", "y", None]})
    assert compare_frames(before, before.with_columns(s=pl.lit("z"))).changed_cells == (("s", 3),)
    assert compare_frames(before, before.filter(pl.col("a") > 1)).removed_rows == 1


def texts(rows):
    return TextTable(("name", "day"), rows)


def test_text_tables_are_matched_by_content():
    rows = [[f"bird {number}", str(number % 7)] for number in range(100)]
    after = [list(row) for row in rows]
    for number in range(0, 30, 3):
        after[number][0] = "great tit"
    del after[1::9]
    change = compare_texts(texts(rows), texts(after))
    assert (change.removed_rows, change.added_rows, change.changed_cells) == (11, 0, (("name", 10),))
    assert compare_texts(None, texts(rows)).rows_after == 100
    assert compare_texts(texts(rows), None).rows_before == 100


@pytest.mark.parametrize("change", ["cells", "filter", "reset"])
def test_a_million_rows_take_less_than_a_few_copies(change):
    rows = 1_000_000
    before = pd.DataFrame(
        {
            "a": np.arange(rows),
            "b": np.random.default_rng(1).random(rows),
            "c": pd.Categorical.from_codes(np.arange(rows) % 3, list("xyz")),
        }
    )
    if change == "cells":
        after = before.assign(b=before.b.where(before.a % 1000 != 0, -1.0))
    else:
        after = before[before.b > 0.01]
        after = after.reset_index(drop=True) if change == "reset" else after
    with cpu_seconds() as seconds:
        found = compare_frames(before, after)
    assert found.removed_rows == rows - len(after)
    assert seconds[0] < 2  # 0.1 to 0.5 s on an idle machine


def test_a_row_that_becomes_equal_to_another_one_is_a_changed_row():
    columns = ("day", "bird", "place")
    before = [
        ("1", "Robin", "W"),
        ("1", "robin", "L"),
        ("1", "Great Tit", "W"),
        ("1", "robin", "W"),
        ("2", "wren", "B"),
    ]
    after = [(day, bird.lower(), place) for day, bird, place in before]
    change = compare_texts(TextTable(columns, before), TextTable(columns, after))
    assert (change.added_rows, change.removed_rows) == (0, 0)
    assert change.changed_cells == (("bird", 2),)
    change = compare_texts(TextTable(columns, [*before, ("", "owl", "L")]), TextTable(columns, after))
    assert (change.added_rows, change.removed_rows) == (0, 1)


def test_parquet_files_are_compared_by_rows(rehearse, workspace):
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"name": ["owl", "cat", "fox"], "n": [1, 2, 3]})
    frame.to_parquet(workspace / "a.parquet")
    frame.to_parquet(workspace / "same.parquet")
    frame.to_parquet(workspace / "order.parquet")
    frame.set_index("name").to_parquet(workspace / "index.parquet")
    (workspace / "odd.parquet").write_bytes(b"PAR\0")
    code = """
data = pd.read_parquet("a.parquet")
data.assign(n=[1, 5, 3])[:2].to_parquet("a.parquet")
data.to_parquet("same.parquet", compression="gzip")
data.to_parquet("new.parquet")
data[["n", "name"]].to_parquet("order.parquet")
pd.read_parquet("index.parquet").reset_index(drop=True).to_parquet("index.parquet")
open("bad.parquet", "wb").write(b"PAR1 not a table PAR1")
open("odd.parquet", "wb").write(b"PAR\\0PAR1")
"""
    effects = rehearse(code, {"pd": pd})
    assert effects.ending == "finished", effects.ending_note
    assert {one.path: one.detail for one in effects.files} == {
        "a.parquet": "1 row removed; 1 value of n changed", "same.parquet": "other formatting, the same cells",
        "new.parquet": "3 rows × 2 columns", "bad.parquet": "21 B", "odd.parquet": "4 B → 8 B",
        "order.parquet": "another order of columns, the same cells", "index.parquet": "another index, the same cells",
    }  # fmt: skip
    tables = {one.path: one.table for one in effects.files}
    assert tables["a.parquet"].changed_cells == (("n", 1),)
    assert tables["bad.parquet"] is None
    assert {one.name for one in effects.variables} == {"data"}


def test_without_pyarrow_parquet_files_have_sizes(rehearse, workspace, monkeypatch):
    monkeypatch.delitem(sys.modules, "pyarrow", raising=False)
    (workspace / "a.parquet").write_bytes(b"PAR\0")
    (effect,) = rehearse("open('a.parquet', 'wb').write(b'PAR\\0PAR1')").files
    assert (effect.detail, effect.table) == ("4 B → 8 B", None)
