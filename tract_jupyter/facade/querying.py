"""Finding commits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from tract_jupyter.context.log import checked_conditions, fits
from tract_jupyter.facade.parts import Parts
from tract_jupyter.models.content import Priority

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from tract_jupyter.models.commit import CommitInfo


class Querying(Parts):
    """The part of `Tract` that finds commits of the current branch."""

    def pinned(self, limit: int = 100) -> list[CommitInfo]:
        """The newest pinned commits of the current branch.

        Raises:
            ContentError: the limit is no whole number.
        """
        return self._history.with_priority(Priority.PINNED, limit)

    def skipped(self, limit: int = 100) -> list[CommitInfo]:
        """The newest skipped commits of the current branch.

        Raises:
            ContentError: the limit is no whole number.
        """
        return self._history.with_priority(Priority.SKIP, limit)

    def annotation_counts(self) -> dict[str, int]:
        """How many messages of the current branch have each priority, by its name."""
        return self._history.priority_counts()

    def query_by_tags(
        self, tags: Collection[str], *, match: Literal["any", "all"] = "any", limit: int = 100
    ) -> list[CommitInfo]:
        """The newest commits of the current branch with any, or all, of these tags.

        Raises:
            ContentError: the tags are no texts, or another argument is not valid.
        """
        return self._history.with_tags(tags, match, limit)

    def query_by_text(self, text: str, *, limit: int = 100) -> list[CommitInfo]:
        """The newest messages of the current branch that contain a text, in any case.

        Raises:
            ContentError: the text is none, or the limit no whole number.
        """
        return self._history.with_text(text, limit)

    def query_by_config(
        self,
        field: str = "",
        op: str = "=",
        value: Any = None,
        *,
        conditions: Sequence[tuple[str, str, Any]] = (),
        limit: int = 100,
    ) -> list[CommitInfo]:
        """The newest commits of the current branch whose generation config fits.

        Args:
            field: such as `model` or `temperature`.
            op: `=`, `!=`, `>`, `<`, `>=`, `<=`, `in`, `not in`, `between` or `not between`.
            value: what to compare with; a list for `in`, a pair for `between`.
            conditions: several (field, op, value), all of which must hold, instead.
            limit: how many.

        Raises:
            ContentError: a condition is none, its operator is unknown, or its value is of the wrong form; or the limit
                is no whole number.
        """
        wanted = checked_conditions(conditions) or checked_conditions([(field, op, value)])
        return self._history.picked(
            limit, lambda entry: all(fits(entry.generation_config, c) for c in wanted)
        )
