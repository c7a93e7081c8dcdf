"""The difference between two values in one line: the first changed parts of dicts, lists, sets, texts and arrays.

No code of the values' classes runs: only exact types of Python and numpy are compared by their parts, others by their
digests.
"""

from __future__ import annotations

import sys
from collections import Counter, OrderedDict, defaultdict, deque
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.models import counted, one_line
from tract_jupyter.rehearsal.baseline import digest
from tract_jupyter.rehearsal.describe import describe, first_difference
from tract_jupyter.rehearsal.tables import compare_frames, same_cells

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Part = tuple[str, str]
    Pair = tuple[str, Any, Any]

_SCALARS: Final = frozenset({str, int, float, bool, complex, bytes, type(None)})
_DICTS: Final = frozenset({dict, OrderedDict, defaultdict, Counter})
_LISTS: Final = frozenset({list, tuple, deque})
_SETS: Final = frozenset({set, frozenset})
_TEXTS: Final = frozenset({str, bytes})
_SHOWN: Final = 3
_LONGEST: Final = 40
_MOST: Final = 100_000  # compared parts
_MOST_NUMBERS: Final = 10_000_000  # of an array
_LONGEST_TEXT: Final = 1_000_000  # that is searched for secrets
_BEFORE: Final = 8  # equal characters before a changed one


def changed_parts(before: Any, after: Any, redact: Callable[[str], str] = str) -> str:
    """Return the first differences between two values in one line. Empty if their descriptions show all of it.

    `redact` returns a text without secrets. A secret that was cut could not be found later.
    """
    if type(before) is not type(after) or (_is_short(before) and _is_short(after)):
        return ""
    comparison = _Comparison(redact)
    comparison.compare(before, after)
    shown = [one_line(f"{path}: {text}" if path else text, 3 * _LONGEST) for path, text in comparison.found]
    more = comparison.count - len(shown)
    parts = [*shown, f"{more:,} more changes" if more > 1 else "1 more change" if more else ""]
    parts += [f"only the first {_MOST:,} parts were compared" if comparison.is_cut else ""]
    text = "; ".join(filter(None, parts))
    return text or ("another content" if describe(before) == describe(after) else "")


def _is_short(value: Any) -> bool:
    return type(value) in _SCALARS and not (type(value) in _TEXTS and len(value) >= _LONGEST)


class _Comparison:
    """Collects the differences between two values."""

    def __init__(self, redact: Callable[[str], str]) -> None:
        self._redact = redact
        self.found: list[Part] = []
        self.count = 0
        self.is_cut = False

    def compare(self, before: Any, after: Any) -> None:
        waiting: deque[Pair] = deque([("", before, after)])
        seen: set[tuple[int, int]] = set()
        left = _MOST
        while waiting:
            path, old, new = waiting.popleft()
            if old is new or (id(old), id(new)) in seen:
                continue
            left -= 1
            if left < 0:
                self.is_cut = True
                return
            kind = type(old)
            if kind in _SCALARS or kind is not type(new):
                if not _is_same_scalar(old, new):
                    self._add(path, self._states(old, new))
                continue
            seen.add((id(old), id(new)))
            waiting.extend(self._parts(path, old, new))

    def _parts(self, path: str, old: Any, new: Any) -> Iterator[Pair]:
        kind = type(old)
        if kind in _DICTS and _are_scalars(old) and _are_scalars(new):
            yield from self._of_dicts(path, old, new)
        elif kind in _LISTS:
            self.is_cut |= len(old) > _MOST
            pairs = islice(zip(old, new, strict=False), _MOST)
            yield from ((f"{path}[{at}]", *pair) for at, pair in enumerate(pairs))
            self._add_number(path, len(new) - len(old), "item")
        elif kind in _SETS and _are_scalars(old) and _are_scalars(new):
            for members, verb in ((new - old, "added"), (old - new, "removed")):
                for one in islice(members, _SHOWN):
                    self._add(path, f"{_shown(one)} {verb}")
                self.count += max(0, len(members) - _SHOWN)
        elif digest(old) != digest(new) and not self._of_arrays(path, old, new):
            self._add(path, _table_difference(old, new) or self._states(old, new))

    def _of_dicts(self, path: str, old: dict[Any, Any], new: dict[Any, Any]) -> Iterator[Pair]:
        self.is_cut |= len(new) > _MOST
        for key, value in islice(new.items(), _MOST):
            if key in old:
                yield f"{path}[{_shown(key)}]", old[key], value
            else:
                self._add(f"{path}[{_shown(key)}]", f"{_shown(value)} added")
        for key in old:
            if key not in new:
                self._add(f"{path}[{_shown(key)}]", "removed")
        if len(old) == len(new) and old.keys() == new.keys() and list(old) != list(new):
            self._add(path, "another order of keys")

    def _of_arrays(self, path: str, old: Any, new: Any) -> bool:
        """Compare two arrays of numpy. Return False for other values, and for arrays of objects or another shape."""
        numpy = sys.modules.get("numpy")
        if (
            numpy is None
            or type(old) is not numpy.ndarray
            or (old.shape, old.dtype) != (new.shape, new.dtype)
        ):
            return False
        if old.dtype.hasobject or old.dtype.names or not old.shape or old.size > _MOST_NUMBERS:
            return False
        places = numpy.argwhere((old != new) & ((old == old) | (new == new)))  # noqa: PLR0124 # NaN
        for place in places[:_SHOWN].tolist():
            at = tuple(place)
            self._add(f"{path}[{', '.join(map(str, at))}]", f"{old[at]!s} → {new[at]!s}")
        self.count += max(0, len(places) - _SHOWN)
        return len(places) > 0

    def _states(self, old: Any, new: Any) -> str:
        if type(old) is str and type(new) is str and max(len(old), len(new)) < _LONGEST_TEXT:
            old, new = self._redact(old), self._redact(new)
            first = first_difference(old, new)
            start = max(0, first - _BEFORE) if max(len(old), len(new)) > _LONGEST else 0
            before, after = _excerpt(old, start), _excerpt(new, start)
        elif type(old) in _TEXTS and type(old) is type(new):
            noun = "character" if type(old) is str else "byte"
            return f"changed from {noun} {first_difference(old, new):,} on"
        else:
            before, after = _shown(old), _shown(new)
        return f"{before} → {after}" if before != after else f"another {after}"

    def _add(self, path: str, text: str) -> None:
        self.count += 1
        if len(self.found) < _SHOWN:
            self.found.append((self._redact(path), self._redact(text)))

    def _add_number(self, path: str, number: int, noun: str) -> None:
        if number:
            self._add(path, f"{counted(abs(number), noun)} {'added' if number > 0 else 'removed'}")


def _are_scalars(values: Any) -> bool:
    return set(map(type, values)) <= _SCALARS


def _is_same_scalar(one: Any, other: Any) -> bool:
    return type(one) is type(other) and (one == other or (one != one and other != other))  # noqa: PLR0124 # NaN


def _table_difference(old: Any, new: Any) -> str:
    """Return the difference between two frames or series. Empty for other values."""
    frames = [_framed(value) for value in (old, new)]
    table = compare_frames(*frames)
    if table is None:
        return ""
    return table.summary or same_cells(*frames).replace("formatting", "attributes")


def _framed(value: Any) -> Any:
    pandas = sys.modules.get("pandas")
    is_series = pandas is not None and type(value) is pandas.Series
    return value.to_frame("values" if value.name is None else value.name) if is_series else value


def _excerpt(text: str, start: int) -> str:
    end = start + _LONGEST - _BEFORE
    return f"{'…' if start else ''}{text[start:end]!r}{'…' if end < len(text) else ''}"


def _shown(value: Any) -> str:
    """Return a short value as in code, and the description of another one."""
    is_long = type(value) is int and value.bit_length() > 4 * _LONGEST
    return repr(value) if _is_short(value) and not is_long else describe(value)
