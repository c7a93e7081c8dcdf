"""What a template may cost. The limits count work rather than seconds, so that a replay ends as the first time did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from tract_jupyter.exceptions import TemplateError
from tract_jupyter.runs.terms import MAX_TEXT

MAX_SOURCE: Final = 200_000
"""Characters of a text that has placeholders."""

MAX_DEPTH: Final = 30
"""Blocks within blocks, and brackets within brackets."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one rendering.

    Attributes:
        steps: nodes, look-ups, filters and rounds of loops; a million take about a second.
        work: characters that filters and comparisons look at or make, all together.
        output: characters of the result.
    """

    steps: int = 200_000
    work: int = 20_000_000
    output: int = MAX_TEXT


class Budget:
    """What is left of the limits."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._steps, self._work = limits.steps, limits.work

    def step(self, count: int = 1) -> None:
        """Take steps.

        Raises:
            TemplateError: there are none left.
        """
        self._steps -= count
        if self._steps < 0:
            raise TemplateError(f"the template takes more than {self.limits.steps} steps; let it loop less")

    def charge(self, characters: int) -> None:
        """Take characters that are looked at or made.

        Raises:
            TemplateError: there are none left.
        """
        self._work -= characters
        if self._work < 0:
            raise TemplateError(
                f"the template handles more than {self.limits.work} characters; let it use less of its data"
            )

    def weigh(self, value: Any) -> None:
        """Take what a value weighs: its characters, and some for each element."""
        waiting = [value]
        while waiting:
            one = waiting.pop()
            self.charge(len(one) if isinstance(one, str) else 8)
            if isinstance(one, dict):
                waiting.extend(one.values())
                self.charge(sum(len(str(key)) for key in one))
            elif isinstance(one, list | tuple):
                waiting.extend(one)
