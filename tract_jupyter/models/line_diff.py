"""A unified diff of lines that ends in bounded time. Python's own takes minutes for some texts of 100 kB."""

from __future__ import annotations

from difflib import Match, SequenceMatcher
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_MOST_STEPS: Final = 5_000_000  # about half a second


class BoundedMatcher(SequenceMatcher[str]):
    """A comparison with a limit of steps. After it, all other lines count as replaced."""

    a: Sequence[str]
    b2j: dict[str, list[int]]

    def __init__(self, before: Sequence[str], after: Sequence[str], most_steps: int = _MOST_STEPS) -> None:
        super().__init__(None, before, after)
        self._steps_left = most_steps

    def find_longest_match(
        self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None
    ) -> Match:
        """Return the longest match in parts of the texts; an empty one after the limit."""
        self._steps_left -= sum(1 + len(self.b2j.get(line, ())) for line in self.a[alo:ahi])
        if self._steps_left < 0:
            return Match(alo, blo, 0)
        return super().find_longest_match(alo, ahi, blo, bhi)


def unified_diff(
    before: Sequence[str],
    after: Sequence[str],
    old: str = "",
    new: str = "",
    *,
    context: int = 3,
    end: str = "",
) -> Iterator[str]:
    """Yield the lines of a unified diff. It has all changes, but not always the fewest lines.

    `old` and `new` name the texts. `end` ends the lines that are not lines of the texts.
    """
    groups = list(BoundedMatcher(before, after).get_grouped_opcodes(context))
    if groups:
        yield f"--- {old}{end}"
        yield f"+++ {new}{end}"
    for group in groups:
        (_, i, _, j, _), (_, _, i_end, _, j_end) = group[0], group[-1]
        yield f"@@ -{_range(i, i_end)} +{_range(j, j_end)} @@{end}"
        for tag, i, i_end, j, j_end in group:
            if tag == "equal":
                yield from (f" {line}" for line in before[i:i_end])
            else:
                yield from (f"-{line}" for line in before[i:i_end])
                yield from (f"+{line}" for line in after[j:j_end])


def _range(start: int, stop: int) -> str:
    length = stop - start
    return f"{start + 1}" if length == 1 else f"{start + bool(length)},{length}"
