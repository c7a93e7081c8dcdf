"""What is told while operations run: to whoever shows it or writes it down."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tract_jupyter.runs.model import OperationResult, OperationRun


class Stage(StrEnum):
    """What happened to an operation. Each one ends with exactly one of `skipped`, `finished` and `waiting`."""

    STARTED = "started"
    ATTEMPT = "attempt"
    PROGRESS = "progress"
    SKIPPED = "skipped"
    FINISHED = "finished"
    WAITING = "waiting"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an operation has come; never an effect.

    Attributes:
        percent: 0 to 100, if it can be told.
        tokens: how many a model has written so far.
        text: a part of what comes, cut to 2,000 characters.
    """

    percent: float | None = None
    tokens: int | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class OperationEvent:
    """Something that happened to an operation.

    Attributes:
        at: seconds since the epoch, on the clock of the workers.
        attempt: the number of the attempt that it is about, from 1; 0 if there was none.
        result: how it ended, or how the attempt did that another one follows.
        run: its record, once it has ended.
        retry_at: when the next attempt begins, of `attempt`.
        progress: of `progress`.
    """

    stage: Stage
    operation_id: str
    at: float
    attempt: int = 0
    result: OperationResult | None = None
    run: OperationRun | None = None
    retry_at: float | None = None
    progress: Progress | None = None
