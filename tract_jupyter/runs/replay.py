"""Goes through a recorded run again: the same loop, with recorded results in the place of work, and nothing stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tract_jupyter.runs.artifacts import MemoryArtifacts
from tract_jupyter.runs.conductor import Conductor, Equipment
from tract_jupyter.runs.events import MainFinished, OperationFinished, RunFinished
from tract_jupyter.runs.kinds.base import Services
from tract_jupyter.runs.log import MemoryLog
from tract_jupyter.runs.memory_target import MemoryTarget
from tract_jupyter.runs.projection import Unfinished, project
from tract_jupyter.runs.recording import check_replay, recorded_results
from tract_jupyter.runs.root_hash import sealed
from tract_jupyter.runs.run import Loop
from tract_jupyter.runs.terms import Hook
from tract_jupyter.runs.workers import ThreadWorkers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tract_jupyter.runs.events import RunEvent, RunStarted
    from tract_jupyter.runs.kinds.registry import KindRegistry
    from tract_jupyter.runs.model import Run
    from tract_jupyter.runs.recording import Recording


def replayed(events: Sequence[RunEvent], kinds: KindRegistry) -> Run:
    """The run as it comes out again.

    Args:
        events: of a run that has ended.
        kinds: which operations can be planned.

    Raises:
        RunError: it has not ended, or comes out differently.
    """
    recording = recorded_results(events)
    log = MemoryLog(recording.run_id)
    log.add(recording.snapshot)
    for event in events:
        if isinstance(event.data, OperationFinished | MainFinished):
            log.add(event.data)
    workers = ThreadWorkers()
    equipment = Equipment(kinds=kinds, services=Services(), workers=workers, ask=lambda _: recording.reply())
    target = _target(recording.snapshot)
    try:
        ending = Loop(Conductor(recording.snapshot, log, target, equipment, _so_far(recording))).run()
    finally:
        workers.close()
    log.add(sealed(log.events, RunFinished.of(ending)))
    check_replay(events, log.events)
    return project(log.events)
