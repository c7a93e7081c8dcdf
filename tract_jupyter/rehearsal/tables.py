"""The difference between two tables: columns, types, rows and cells.

Rows are matched by position if both tables have the same number of rows, by the index if it has unique keys, and else
by their content, in order.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tract_jupyter.models import one_line
from tract_jupyter.rehearsal.describe import tell_apart
from tract_jupyter.rehearsal.effects import RowChange, TableChange

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import pandas as pd


Places = Any  # numpy's array of positions
Hashes = Any  # numpy's array of hashes
MOST_SAMPLES: Final = 24
_OF_A_KIND: Final = 6
_FIRST_ROWS: Final = 5
_MOST_COLUMNS: Final = 12
_MOST_LISTED: Final = 100
_LONGEST_CELL: Final = 60
_MOST_IN_GAP: Final = 400
_MOST_GAPS: Final = 2_000
_SORTED: Final = 0.3  # of the cells of each column differ if rows were sorted
_MOST_MOVED: Final = 200_000
_COMPARED: Final = frozenset(
    {str, int, float, bool, bytes, complex, type(None), dt.date, dt.datetime, dt.time, dt.timedelta, Decimal}
)


class Matching(NamedTuple):
    """The matching rows of two tables, by position.

    Attributes:
        before: Positions of rows before the change that have a row after it.
        after: The positions of these rows after the change.
        removed: Positions of the other rows before.
        added: Positions of the other rows after.
    """

    before: Places
    after: Places
    removed: Places
    added: Places


# ---- tables of text: files


class TextTable(NamedTuple):
    """A table as text: columns, and rows of cells."""

    columns: tuple[str, ...]
    rows: Sequence[Sequence[str]]


def compare_texts(before: TextTable | None, after: TextTable | None) -> TableChange:
    """Return the difference between two tables of text. None is a missing table."""
    if before is None or after is None:
        return _alone(before, after)
    import numpy as np

    common = [column for column in after.columns if column in before.columns]
    picks = [_picks(table, common) for table in (before, after)]
    keys = [
        [tuple(row[at] if at < len(row) else "" for at in pick) for row in table.rows]
        for table, pick in zip((before, after), picks, strict=True)
    ]
    hashes = [np.fromiter(map(hash, rows), np.int64, len(rows)).astype(np.uint64) for rows in keys]

    def equal(one: int, other: int) -> int:
        return sum(map(str.__eq__, keys[0][one], keys[1][other]))

    matching = match_rows(hashes[0], hashes[1], equal)
    counts = dict.fromkeys(common, 0)
    differing = [
        (old, new)
        for old, new in zip(matching.before.tolist(), matching.after.tolist(), strict=True)
        if keys[0][old] != keys[1][new]
    ]
    for old, new in differing:
        for column, cell, other in zip(common, keys[0][old], keys[1][new], strict=True):
            counts[column] += cell != other
    shown = _shown(common, counts)
    places = [common.index(column) for column in shown]

    def cells(which: int, row: int) -> list[Any]:
        return [keys[which][row][at] for at in places]

    sample = _sample(differing, matching, cells)
    return _change(
        len(before.rows),
        len(after.rows),
        (before.columns, after.columns),
        (),
        matching,
        counts,
        shown,
        sample,
    )


def _picks(table: TextTable, columns: Sequence[str]) -> list[int]:
    return [table.columns.index(column) for column in columns]


def _alone(before: TextTable | None, after: TextTable | None) -> TableChange:
    table = after or before
    if table is None:
        return TableChange()
    columns = table.columns[:_MOST_COLUMNS]
    kind: Any = "removed" if after is None else "added"
    rows = []
    for number, row in enumerate(table.rows[:_FIRST_ROWS]):
        cells = tuple(one_line(cell, _LONGEST_CELL) for cell in row[:_MOST_COLUMNS])
        rows.append(RowChange(kind, number, *((cells, ()) if after is None else ((), cells))))
    counts = (len(before.rows) if before else None, len(after.rows) if after else None)
    return TableChange(*counts, columns=_named(columns), sample=tuple(rows))


# ---- frames


def compare_frames(before: Any, after: Any) -> TableChange | None:
    """Return the difference between two frames of pandas, polars or pyarrow. None for other values."""
    old, new = as_pandas(before), as_pandas(after)
    if new is None:
        return None
    if old is None:
        return _first_rows(new)
    return _compare_pandas(old, new)


def same_cells(before: Any, after: Any) -> str:
    """Return the difference between two frames with the same cells."""
    old, new = as_pandas(before), as_pandas(after)
    if old is None or new is None:
        return "other formatting, the same cells"
    if not old.index.equals(new.index) or list(old.index.names) != list(new.index.names):
        return "another index, the same cells"
    if list(old.columns) != list(new.columns):
        return "another order of columns, the same cells"
    return "other formatting, the same cells"


def as_pandas(value: Any) -> pd.DataFrame | None:
    """Return a frame as pandas' frame. None for other values, and if pandas is missing."""
    import sys

    pandas = sys.modules.get("pandas")
    kind = type(value)
    library = kind.__module__.partition(".")[0]
    if (
        pandas is None
        or kind.__name__ not in {"DataFrame", "Table"}
        or library not in {"pandas", "polars", "pyarrow"}
    ):
        return None
    if library == "pandas":
        return value if kind is pandas.DataFrame else None
    try:
        frame: pd.DataFrame = value.to_pandas()
    except Exception:  # noqa: BLE001 # pyarrow is missing, or has no form for a type
        return None
    return frame


def _first_rows(frame: pd.DataFrame) -> TableChange:
    columns = list(range(min(frame.shape[1], _MOST_COLUMNS)))
    rows = tuple(
        RowChange("added", row, (), _lines(_cells(frame, columns, row)))
        for row in range(min(len(frame), _FIRST_ROWS))
    )
    return TableChange(None, len(frame), columns=_named(frame.columns[columns]), sample=rows)


def _cells(frame: pd.DataFrame, columns: Sequence[int], row: int) -> list[Any]:
    return [frame.iloc[row, column] for column in columns]


def _lines(cells: Iterable[Any]) -> tuple[str, ...]:
    return tuple(one_line(cell_text(cell), _LONGEST_CELL) for cell in cells)


def _changed_lines(before: Any, after: Any) -> tuple[str, str]:
    """Return two cells as one line each. Different cells have different lines."""
    texts = cell_text(before), cell_text(after)
    if texts[0] == texts[1]:
        exact = cell_text(before, is_exact=True), cell_text(after, is_exact=True)
        texts = exact if exact[0] != exact[1] else texts
    return tell_apart(*texts, _LONGEST_CELL)


def cell_text(value: Any, *, is_exact: bool = False) -> str:
    """Return a cell as text, without running code of the value's class. A missing value is empty.

    The exact text tells `1` and `"1"` apart.
    """
    kind = type(value)
    if value is None or kind.__name__ in {"NaTType", "NAType"} or (kind is float and value != value):  # noqa: PLR0124 # NaN
        return ""
    if kind in _COMPARED or kind.__module__.partition(".")[0] in {"numpy", "pandas"}:
        text = repr(value) if is_exact else str(value)
        return "" if text == "nan" and kind is not str else text
    return f"<{kind.__name__}>"


def _compare_pandas(before: pd.DataFrame, after: pd.DataFrame) -> TableChange:
    names = [list(before.columns), list(after.columns)]
    if not (before.columns.is_unique and after.columns.is_unique):
        names = [list(range(before.shape[1])), list(range(after.shape[1]))]
    places = {name: number for number, name in enumerate(names[0])}
    pairs = [(name, places[name], number) for number, name in enumerate(names[1]) if name in places]
    matching = _match_frames(before, after, pairs)
    changed, counts, types = _changed_cells(before, after, pairs, matching)
    if counts and len(after) > 1 and all(number > _SORTED * len(after) for number in counts.values()):
        matching = _match_content(before, after, pairs)  # rows have another order, perhaps
        changed, counts, types = _changed_cells(before, after, pairs, matching)
    differing = [] if changed is None else _pairs(matching, changed)
    shown = _shown([name for name, *_ in pairs], counts)
    columns = [[number for name, *number in pairs if name in shown], shown]
    selected = [[pair[side] for pair in columns[0]] for side in (0, 1)]

    def cells(which: int, row: int) -> list[Any]:
        return _cells((before, after)[which], selected[which], row)

    sample = _sample(differing, matching, cells)
    labels = [[str(name) for name in names[side]] for side in (0, 1)]
    named = {str(name): number for name, number in counts.items()}
    shown_names = [str(name) for name, *_ in pairs if name in shown]
    return _change(len(before), len(after), labels, types, matching, named, shown_names, sample)


def _changed_cells(
    before: pd.DataFrame, after: pd.DataFrame, pairs: Sequence[tuple[Any, int, int]], matching: Matching
) -> tuple[Any, dict[Any, int], list[tuple[str, str, str]]]:
    """Return a mask of the changed rows, the number of changed cells by column, and the columns with another type."""
    is_whole = (
        len(matching.before) == len(before) == len(after) and not (matching.before != matching.after).any()
    )
    changed, counts, types = None, {}, []
    for name, one, other in pairs:
        old, new = before.iloc[:, one], after.iloc[:, other]
        if old.dtype != new.dtype:
            types.append((str(name), type_text(old.dtype), type_text(new.dtype)))
            continue
        if not is_whole:
            old, new = old.iloc[matching.before], new.iloc[matching.after]
        differs = _differs(old, new)
        counts[name] = int(differs.sum())
        if counts[name]:
            changed = differs if changed is None else changed | differs
    return changed, counts, types


def _pairs(matching: Matching, changed: Any) -> list[tuple[int, int]]:
    at = changed.nonzero()[0][: MOST_SAMPLES * 2]
    return list(zip(matching.before[at].tolist(), matching.after[at].tolist(), strict=True))


def _match_frames(
    before: pd.DataFrame, after: pd.DataFrame, pairs: Sequence[tuple[Any, int, int]]
) -> Matching:
    import numpy as np
    import pandas as pd

    ranges = isinstance(before.index, pd.RangeIndex) and isinstance(after.index, pd.RangeIndex)
    if before.index is after.index or (
        len(before) == len(after) and (ranges or before.index.equals(after.index))
    ):
        every = np.arange(len(after))
        return Matching(every, every, every[:0], every[:0])
    if (
        not ranges
        and before.index.is_unique
        and after.index.is_unique
        and before.index.dtype == after.index.dtype
    ):
        places = before.index.get_indexer(after.index)
        if (places >= 0).any() or not len(after) or not len(before):
            found = np.flatnonzero(places >= 0)
            is_kept = np.zeros(len(before), bool)
            is_kept[places[found]] = True
            return Matching(places[found], found, np.flatnonzero(~is_kept), np.flatnonzero(places < 0))
    return _match_content(before, after, pairs)


def _match_content(
    before: pd.DataFrame, after: pd.DataFrame, pairs: Sequence[tuple[Any, int, int]]
) -> Matching:
    same = [(one, other) for _, one, other in pairs if before.dtypes.iloc[one] == after.dtypes.iloc[other]]
    hashes = [_row_hashes(frame, [pair[side] for pair in same]) for side, frame in enumerate((before, after))]

    def equal(one: int, other: int) -> int:
        return sum(_is_same(before.iloc[one, old], after.iloc[other, new]) for old, new in same)

    return match_rows(hashes[0], hashes[1], equal)


def _is_same(one: Any, other: Any) -> bool:
    if one is other:
        return True
    if type(one) is not type(other) or not (
        type(one) in _COMPARED or type(one).__module__.partition(".")[0] in {"numpy", "pandas"}
    ):
        return False
    return bool(one == other) or bool(one != one and other != other)  # noqa: PLR0124 # NaN


def _row_hashes(frame: pd.DataFrame, columns: Sequence[int]) -> Hashes:
    import numpy as np
    import pandas as pd

    total = np.zeros(len(frame), np.uint64)
    for column in columns:
        data = frame.iloc[:, column]
        if data.dtype == object:
            hashed = np.fromiter((_hash(value) for value in data), np.int64, len(data)).astype(np.uint64)
        else:
            hashed = pd.util.hash_pandas_object(data, index=False).to_numpy()
        total = total * np.uint64(1_000_003) + hashed
    return total


def _hash(value: Any) -> int:
    return hash(value) if type(value) in _COMPARED and value == value else 0  # noqa: PLR0124 # NaN has any hash


def _differs(before: pd.Series[Any], after: pd.Series[Any]) -> Any:
    """Return a mask of the cells that differ. Two missing values are equal."""
    import numpy as np

    if before.dtype == object:
        pairs = zip(before.to_numpy(), after.to_numpy(), strict=True)
        return np.fromiter((not _is_same(*pair) for pair in pairs), bool, len(before))
    old, new = before.array, after.array
    if isinstance(before.dtype, np.dtype):
        old, new = before.to_numpy(), after.to_numpy()
        differs = old != new
        return differs & ~((old != old) & (new != new)) if old.dtype.kind in "fcmM" else differs  # noqa: PLR0124
    missing = [np.asarray(one.isna()) for one in (old, new)]
    if before.dtype.name == "category":
        old, new = (one.codes for one in (old, new))
    result = old != new
    if hasattr(result, "fillna"):
        result = result.fillna(False)  # noqa: FBT003 # the value
    differs = np.asarray(result, dtype=bool)
    return (differs | (missing[0] != missing[1])) & ~(missing[0] & missing[1])


def type_text(dtype: Any) -> str:
    """Return a short name of a column's type: `datetime`, `text`, `int64`."""
    name = str(dtype)
    for start, text in (("datetime64", "datetime"), ("timedelta64", "duration"), ("string", "text")):
        if name.startswith(start):
            return text
    return {"str": "text", "bool": "truth value", "boolean": "truth value"}.get(
        name, one_line(name, _LONGEST_CELL)
    )


# ---- matching


def match_rows(before: Hashes, after: Hashes, equal: Callable[[int, int], int]) -> Matching:
    """Match rows by their hashes, in order. `equal` returns the number of equal cells of two rows."""
    import numpy as np

    if len(before) == len(after) and np.count_nonzero(before != after) * 2 <= len(before):
        every = np.arange(len(before))
        return Matching(every, every, every[:0], every[:0])
    old, new = _common(before, after)
    if len(new) > 1 and (np.diff(new) < 0).any():
        longest = _longest_increase(new)
        if longest is None or len(longest) * 2 < len(new):  # sorted again: the same rows in another order
            return _with_rest(old, new, len(before), len(after))
        old, new = old[longest], new[longest]
    kept = _worth_keeping(_with_rest(old, new, len(before), len(after)), equal)
    old, new = old[kept], new[kept]
    more_old, more_new = _match_gaps(_with_rest(old, new, len(before), len(after)), equal)
    order = np.argsort(all_old := np.concatenate([old, more_old]), kind="stable")
    return _with_rest(all_old[order], np.concatenate([new, more_new])[order], len(before), len(after))


def _with_rest(old: Places, new: Places, before: int, after: int) -> Matching:
    import numpy as np

    rest = []
    for places, length in ((old, before), (new, after)):
        is_free = np.ones(length, bool)
        is_free[places] = False
        rest.append(np.flatnonzero(is_free))
    return Matching(old, new, *rest)


def _occurrences(hashes: Hashes) -> Any:
    """Return a key for each row: of the hash, and of the number of rows with this hash before it."""
    import numpy as np

    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    if len(hashes) < 2 or not (ordered[1:] == ordered[:-1]).any():  # noqa: PLR2004 # no two rows
        return hashes
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    number = np.arange(len(hashes)) - np.repeat(starts, np.diff(np.append(starts, len(hashes))))
    keys = np.empty(len(hashes), np.uint64)
    keys[order] = ordered + number.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return keys


def _common(before: Hashes, after: Hashes) -> tuple[Places, Places]:
    """Return the positions of matching rows, in the order of `before`."""
    import sys

    import numpy as np

    pandas = sys.modules.get("pandas")
    if pandas is None:
        _, old, new = np.intersect1d(_occurrences(before), _occurrences(after), return_indices=True)
    else:
        index, other = pandas.Index(before), pandas.Index(after)
        if not (index.is_unique and other.is_unique):
            index, other = pandas.Index(_occurrences(before)), pandas.Index(_occurrences(after))
        if not index.is_unique:  # two hashes are equal by chance
            return np.arange(0), np.arange(0)
        places = index.get_indexer(other)
        new = np.flatnonzero(places >= 0)
        old = places[new]
    if (old[1:] > old[:-1]).all():
        return old, new
    order = np.argsort(old)
    return old[order], new[order]


def _longest_increase(values: Places) -> Places | None:
    """Return the positions of the longest increasing subsequence. None if there are too many values."""
    from bisect import bisect_left

    import numpy as np

    if len(values) > _MOST_MOVED:
        return None
    tails: list[int] = []
    ends: list[int] = []
    links = []
    for place, value in enumerate(values.tolist()):
        at = bisect_left(tails, value)
        tails[at : at + 1] = [value]
        ends[at : at + 1] = [place]
        links.append(ends[at - 1] if at else -1)
    chain, place = [], ends[-1] if ends else -1
    while place >= 0:
        chain.append(place)
        place = links[place]
    return np.array(chain[::-1], dtype=np.intp)


def _worth_keeping(matching: Matching, equal: Callable[[int, int], int]) -> Any:
    """Return a mask of the matches without those that keep several changed rows apart.

    If the rows B, C, A become A, D, A, the old A equals the changed B. Without this match, three similar pairs remain.
    """
    import numpy as np

    kept = np.ones(len(matching.before), bool)
    removed, added = (
        _by_gap(places, rows)
        for places, rows in ((matching.before, matching.removed), (matching.after, matching.added))
    )
    for place in [one for one in removed if one in added or one - 1 in added or one + 1 in added][
        :_MOST_GAPS
    ]:
        for at in (place - 1, place):  # the matches around the removed rows
            if not 0 <= at < len(kept) or not kept[at]:
                continue
            pair = int(matching.before[at]), int(matching.after[at])
            old = sorted([pair[0], *removed.get(at, ()), *removed.get(at + 1, ())])
            new = sorted([pair[1], *added.get(at, ()), *added.get(at + 1, ())])
            if len(old) > 1 < len(new) and len(old) * len(new) <= _MOST_IN_GAP:
                apart = [
                    _best_pairs(list(removed.get(gap, ())), list(added.get(gap, ())), equal)
                    for gap in (at, at + 1)
                ]
                here = _score([pair, *apart[0], *apart[1]], equal)
                kept[at] = _score(_best_pairs(old, new, equal), equal) <= here
    return kept


def _by_gap(matched: Places, rows: Places) -> dict[int, list[int]]:
    """Return the unmatched rows by the number of matched rows before them."""
    import numpy as np

    gaps: dict[int, list[int]] = {}
    for gap, row in zip(np.searchsorted(matched, rows).tolist(), rows.tolist(), strict=True):
        gaps.setdefault(gap, []).append(row)
    return gaps


def _score(pairs: list[tuple[int, int]], equal: Callable[[int, int], int]) -> int:
    return sum(equal(old, new) + 1 for old, new in pairs)


def _match_gaps(matching: Matching, equal: Callable[[int, int], int]) -> tuple[Places, Places]:
    """Match changed rows: rows without a partner that stand between the same matched rows."""
    import numpy as np

    gaps_old = np.searchsorted(matching.before, matching.removed)
    gaps_new = np.searchsorted(matching.after, matching.added)
    shared = np.intersect1d(gaps_old, gaps_new)
    pairs: list[tuple[int, int]] = []
    for gap in shared[:_MOST_GAPS].tolist():
        old = matching.removed[slice(*np.searchsorted(gaps_old, [gap, gap + 1]))].tolist()
        new = matching.added[slice(*np.searchsorted(gaps_new, [gap, gap + 1]))].tolist()
        if len(old) * len(new) > _MOST_IN_GAP:
            pairs += zip(old, new, strict=False)
        else:
            pairs += _best_pairs(old, new, equal)
    found = np.array(pairs, dtype=np.intp).reshape(-1, 2)
    return found[:, 0], found[:, 1]


def _best_pairs(old: list[int], new: list[int], equal: Callable[[int, int], int]) -> list[tuple[int, int]]:
    """Return pairs in order with the most equal cells."""
    best: dict[tuple[int, int], tuple[int, list[tuple[int, int]]]] = {}
    for one in range(len(old) + 1):
        for other in range(len(new) + 1):
            if not one or not other:
                best[one, other] = (0, [])
                continue
            score, chain = best[one - 1, other - 1]
            here = (score + equal(old[one - 1], new[other - 1]) + 1, [*chain, (old[one - 1], new[other - 1])])
            best[one, other] = max(
                best[one - 1, other], best[one, other - 1], here, key=lambda found: found[0]
            )
    return best[len(old), len(new)][1]


# ---- the result


def _shown(columns: Sequence[Any], counts: dict[Any, int]) -> list[Any]:
    """Return the columns of the sample: the changed ones, and the first others."""
    first = [column for column in columns if counts.get(column)][:_MOST_COLUMNS]
    others = [column for column in columns if column not in first][: _MOST_COLUMNS - len(first)]
    chosen = {*first, *others}
    return [column for column in columns if column in chosen]


def _sample(
    differing: Sequence[tuple[int, int]], matching: Matching, cells: Callable[[int, int], list[Any]]
) -> tuple[RowChange, ...]:
    removed, added = (rows[:_OF_A_KIND].tolist() for rows in (matching.removed, matching.added))
    rows = [RowChange("removed", row, _lines(cells(0, row)), ()) for row in removed]
    rows += [RowChange("added", row, (), _lines(cells(1, row))) for row in added]
    for old, new in differing[: MOST_SAMPLES - len(rows)]:
        pairs = list(map(_changed_lines, cells(0, old), cells(1, new)))
        rows.append(RowChange("changed", new, *(tuple(pair[side] for pair in pairs) for side in (0, 1))))
    return tuple(sorted(rows, key=lambda row: row.row or 0))


def _change(
    before: int,
    after: int,
    columns: Sequence[Sequence[str]],
    types: Sequence[tuple[str, str, str]],
    matching: Matching,
    counts: dict[str, int],
    shown: Sequence[str],
    sample: tuple[RowChange, ...],
) -> TableChange:
    old, new = columns
    changed = [(column, number) for column, number in counts.items() if number][:_MOST_LISTED]
    known_old, known_new = set(old), set(new)
    return TableChange(
        before,
        after,
        _named(shown),
        _named([column for column in new if column not in known_old][:_MOST_LISTED]),
        _named([column for column in old if column not in known_new][:_MOST_LISTED]),
        tuple((_name(name), one, other) for name, one, other in types[:_MOST_LISTED]),
        len(matching.added),
        len(matching.removed),
        tuple((_name(column), number) for column, number in changed),
        sample,
        is_reordered=any(bool((one[1:] < one[:-1]).any()) for one in matching[:2]),
    )


def _name(column: Any) -> str:
    return one_line(str(column), _LONGEST_CELL)


def _named(columns: Sequence[Any]) -> tuple[str, ...]:
    return tuple(map(_name, columns))
