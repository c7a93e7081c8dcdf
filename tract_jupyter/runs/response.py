"""What came of a main call that was made with operations around it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tract_jupyter.models.generation import ChatResponse

if TYPE_CHECKING:
    from tract_jupyter.runs.model import Run


@dataclass(frozen=True)
class RunResponse(ChatResponse):
    """A reply, committed, and the run that it came of. Its text and commit are as operations left them.

    Attributes:
        run: what happened; its status tells whether an operation after the reply failed.
    """

    run: Run = None  # type: ignore[assignment] # dataclasses want a default after defaults

    def __str__(self) -> str:
        return self.text
