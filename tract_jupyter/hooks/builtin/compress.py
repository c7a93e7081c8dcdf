"""A compression that awaits a decision: its summaries can be read, changed and written again first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from tract_jupyter.exceptions import CompressionError
from tract_jupyter.hooks.actions import action
from tract_jupyter.hooks.builtin.base import PLACE, Field, Guided, ValidationResult
from tract_jupyter.hooks.marks import reading
from tract_jupyter.review.request import ValueRow, ValueTable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tract_jupyter.history.compress import Compressor
    from tract_jupyter.history.summaries import Source

_SHORTEST = 10  # characters
Index = Annotated[int, "Of the summary, from 0."]


class PendingCompress(Guided):
    """Put summaries in the places of messages.

    Args:
        compressor: does it.
        source: writes summaries again; after a restart the tract's own model does, if there is one.
        options: see `BuiltinPending`.
    """

    name = "compress"
    label = "Compress the context"
    about: ClassVar[Mapping[str, str]] = {
        "summaries": "The summaries, in the order of what they stand for.",
        "source_commits": "Hashes of the commits that each summary stands for.",
        "preserved_commits": "Hashes of the commits that stay, as they are pinned or to be preserved.",
        "original_tokens": "How many tokens the messages have that the summaries stand for.",
        "estimated_tokens": "How many tokens the summaries have together.",
        "target_tokens": "How many tokens a summary should have; any number if null.",
        "most_tokens": "How many tokens each summary may have; any number if null.",
        "price": "What it costs and saves.",
        "instructions": "What the summarizer is told besides the guidance.",
        "message": "A line for the log; the beginning of the summary if null.",
        **Guided.about,
        **PLACE,
    }
    in_view = frozenset({"summaries"})
    summaries = Field()
    source_commits = Field()
    preserved_commits = Field()
    original_tokens = Field()
    estimated_tokens = Field()

    def __init__(
        self, fields: dict[str, Any], *, compressor: Compressor, source: Source, **options: Any
    ) -> None:
        super().__init__(fields, run=self._run, **options)
        self._compressor = compressor
        self._source = source

    @property
    def compression_ratio(self) -> float:
        """The size of the summaries, as a part of that of the messages."""
        return self.estimated_tokens / max(self.original_tokens, 1)  # type: ignore[no-any-return] # fields

    @action
    def edit_summary(self, index: Index, text: str) -> None:
        """Write a summary yourself."""
        self._change(index, text)

    @action
    def retry(
        self,
        index: Index,
        guidance: Annotated[
            str | None, "What to look after this time; that of the whole if left out."
        ] = None,
    ) -> str:
        """Have one summary written again, and return it."""
        _, selection = self._compressor.selected(self.fields)
        text = self._source.write(selection.groups[self._index(index)], guidance or self.guidance)
        self._change(index, text)
        return text

    @reading
    def validate(self) -> ValidationResult:
        """Whether every summary is good: long enough, short enough, with all that must be kept."""
        _, selection = self._compressor.selected(self.fields)
        for index, (text, group) in enumerate(zip(self.summaries, selection.groups, strict=True)):
            found = self._source.problem(text, group)
            problem = self._length_problem(index, text) if found is None else found.text
            if problem is not None:
                return ValidationResult(passed=False, diagnosis=problem, index=index)
        return ValidationResult(passed=True)

    @reading
    def list_summaries(self) -> list[str]:
        """All summaries, in order."""
        return list(self.summaries)

    @reading
    def get_summary(self, index: Index) -> str:
        """One summary."""
        return str(self.summaries[self._index(index)])

    def summary(self) -> str:
        """What would happen."""
        count = sum(len(group) for group in self.source_commits)
        many = "1 summary" if len(self.summaries) == 1 else f"{len(self.summaries)} summaries"
        return (
            f"{count:,} messages of {self.fields['branch']!r} ({self.original_tokens:,} tokens) become {many} "
            f"({self.estimated_tokens:,} tokens). That {self.fields['price']}. expand() and undo() bring the originals "
            "back."
        )

    def tables(self) -> tuple[ValueTable, ...]:
        """The summaries with what they stand for."""
        rows = tuple(
            ValueRow.of(str(index), f"{len(group)} messages from {group[0][:8]}", text)
            for index, (group, text) in enumerate(zip(self.source_commits, self.summaries, strict=True))
        )
        return (ValueTable("Summaries", rows),)

    def check_touched(self) -> None:
        """Check that the messages that the summaries stand for are there, and read as they did."""
        self._compressor.selected(self.fields)

    def _run(self, fields: dict[str, Any]) -> Any:
        return self._compressor.carry_out(fields, self._source, fields["message"])

    def _change(self, index: int, text: str) -> None:
        summaries = list(self.summaries)
        summaries[self._index(index)] = text
        self.estimated_tokens = self._compressor.tokens(summaries)  # refuses what is no text
        self.summaries = summaries

    def _index(self, index: int) -> int:
        if not 0 <= index < len(self.summaries):
            raise CompressionError(f"there is no summary {index}; they are 0 to {len(self.summaries) - 1}")
        return index

    def _length_problem(self, index: int, text: str) -> str | None:
        if len(text.strip()) < _SHORTEST:
            return f"{text!r} is too short for a summary ({_SHORTEST} characters at least)"
        most = [self.fields["most_tokens"][index]]
        try:
            self._compressor.check_lengths({**self.fields, "summaries": [text], "most_tokens": most})
        except CompressionError as error:
            return str(error)
        return None
