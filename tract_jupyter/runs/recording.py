"""Record and replay: a run that has ended gives what its operations and its main call gave, and nothing runs anew.

A replay goes by the recorded snapshot, feeds these results, commits them, and must end with the same root hash.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tract_jupyter.exceptions import RunError
from tract_jupyter.runs.history import History
from tract_jupyter.runs.root_hash import differences

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tract_jupyter.runs.events import RunEvent, RunStarted
    from tract_jupyter.runs.history import Key
    from tract_jupyter.runs.model import MainReply, Operation, OperationResult
    from tract_jupyter.runs.terms import Hook


@dataclass(frozen=True, slots=True)
class Recording:
    """What a run was given, and what came of it.

    Attributes:
        snapshot: what it went by: prompt, operations, artifacts, seed, clock.
        results: how each operation ended, by hook and id.
        main: how the main call ended; None if there was none.
        root_hash: what a replay must end with.
    """

    run_id: str
    snapshot: RunStarted
    results: Mapping[Key, OperationResult]
    main: MainReply | None
    root_hash: str | None

    def begin(self, hook: Hook) -> Callable[[Operation, object], OperationResult]:
        """What takes the place of running the operations of a hook: gives the recorded result of each.

        Raises:
            RunError: when it is called: nothing was recorded of that operation.
        """

        def begin(operation: Operation, _: object = None) -> OperationResult:
            result = self.results.get((hook, operation.id))
            if result is None:
                raise RunError(
                    f"run {self.run_id} has no result of operation {operation.id!r} at {hook}, so it cannot be "
                    "replayed; run it anew instead"
                )
            return result

        return begin

    def reply(self) -> MainReply:
        """What takes the place of the main call.

        Raises:
            RunError: there was none.
        """
        if self.main is None:
            raise RunError(f"run {self.run_id} made no main call, so there is no reply to replay")
        return self.main


def recorded_results(events: Iterable[RunEvent]) -> Recording:
    """What a replay feeds.

    Raises:
        RunError: the run has not ended; resume it first.
        UnknownRunError: the beginning is missing.
    """
    history = History.of(events)
    if history.end is None:
        raise RunError(f"run {history.run_id} has not ended, so it cannot be replayed; resume it first")
    results = {key: ended.result for key, ended in history.ended.items()}
    main = None if history.main is None else history.main.reply
    return Recording(history.run_id, history.snapshot, results, main, history.end.root_hash)


def check_replay(recorded: Iterable[RunEvent], replayed: Iterable[RunEvent]) -> None:
    """Check that a replay gave what was recorded.

    Raises:
        RunError: it did not; names the parts that differ.
    """
    parts = differences(recorded, replayed)
    if parts:
        raise RunError(
            f"the replay differs from the run in {', '.join(parts[:10])}; the recording was changed, or another "
            "version of tract_jupyter made it"
        )
