"""What the notebook asks the facade about runs: has a cell answered, and finds what there is to show of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tract_jupyter.engine.tokens import default_counter
from tract_jupyter.facade.conducting import RunOptions
from tract_jupyter.notebook.runs.prompt_parts import inspect_prompt
from tract_jupyter.notebook.runs.run_view import RunView
from tract_jupyter.runs.projection import project
from tract_jupyter.runs.terms import RunStatus, Trigger

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tract_jupyter.models.generation import ChatResponse
    from tract_jupyter.notebook.runs.prompt_parts import Inspection
    from tract_jupyter.runs.abort import Abort
    from tract_jupyter.runs.events import RunEvent
    from tract_jupyter.runs.model import Run
    from tract_jupyter.tract import Tract


@dataclass(frozen=True)
class CellOptions:
    """How a cell's run is to be made. None is what the tract says: its active profile, its model."""

    profile: str | None = None
    regenerate: bool = False
    model: str | None = None


def ask(
    tract: Tract, text: str, options: CellOptions, on_event: Callable[[RunEvent], object], abort: Abort
) -> ChatResponse:
    """Say something and have it answered; with an empty text, have the context answered as it stands.

    Raises:
        RunFailedError: the run failed or was aborted.
        UndecidedError: it waits for a person.
        RunError: there is no such profile, or it is not used; nothing is said then.
    """
    profiles = tract.profiles
    profile = profiles.active if options.profile is None else profiles.get(options.profile)
    given: dict[str, Any] = {"profile": profile, "on_event": on_event, "run": RunOptions(abort=abort)}
    given |= {} if options.model is None else {"model": options.model}
    if text:
        return tract.chat(text, **given)
    trigger = Trigger.REGENERATE if options.regenerate else Trigger.GENERATE
    return tract.generate(trigger=trigger, **given)


def view_of(tract: Tract, events: Sequence[RunEvent]) -> RunView:
    """A run of this tract with all that is known of it, and how to go on where it did not end."""
    run = project(events)
    said = ""
    if run.status is RunStatus.RUNNING and not tract.is_run_going_on(run.run_id):
        said = (
            "It did not end, and nothing works on it: its process has ended. What was done is kept, and is not done "
            f"again: %tract run {run.run_id[:8]} --resume goes on with it."
        )
    return RunView(run, tuple(events), inspected(run, tract), said=said)


def inspected(run: Run, tract: Tract | None = None) -> Inspection:
    """The prompt of a run against the one without operations, with its tokens."""
    if tract is None:
        counter = default_counter()
        return inspect_prompt(run, counter.count_text, counter.name)
    count = tract.tokenizer.count_text
    return inspect_prompt(run, lambda text: tract.corrected(count(text)), tract.tokenizer.name)
