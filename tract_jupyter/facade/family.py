"""Parents and children."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from tract_jupyter.context.spawn import Family
from tract_jupyter.facade.parts import Parts

if TYPE_CHECKING:
    from tract_jupyter.models.spawn import SpawnInfo


class Kinship(Parts):
    """The part of `Tract` that knows its parents and children. A `Session` makes them."""

    @cached_property
    def family(self) -> Family:
        """What a session works with."""
        return Family(
            self._database,
            self._rows,
            self._refs,
            self._ref_rows,
            self._writer,
            self._commits.counter,
            self._corrections,
        )

    def parent(self) -> SpawnInfo | None:
        """Where this tract, or this agent on a branch, came from; None if nobody spawned it."""
        return self.family.parent()

    def children(self) -> list[SpawnInfo]:
        """Who was spawned from this tract or deployed on it, oldest first."""
        return self.family.children()
