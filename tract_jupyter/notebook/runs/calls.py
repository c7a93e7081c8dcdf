"""What the notebook asks the facade about runs. All such calls are here, and nothing else is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tract_jupyter.engine.tokens import default_counter
from tract_jupyter.exceptions import UnknownRunError
from tract_jupyter.models.text import one_line
from tract_jupyter.notebook.runs.prompt_parts import inspect_prompt
from tract_jupyter.runs.terms import Trigger

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tract_jupyter.notebook.runs.prompt_parts import Inspection
    from tract_jupyter.runs.model import Operation, Run

RECENT = 20
_SEARCHED = 1_000
_MOST_NAMED = 5


@dataclass(frozen=True)
class RunOptions:
    """How a cell's run is to be made. None is what the tract says: its active profile, its model."""

    profile: str | None = None
    regenerate: bool = False
    model: str | None = None


def ask(tract: Any, text: str, options: RunOptions, on_event: Callable[[Any], object]) -> Any:
    """Say something and have it answered; with an empty text, have the context answered as it stands.

    Returns:
        The `ChatResponse`; its `run` is the run.

    Raises:
        RunFailedError: the run failed or was aborted.
    """
    given: dict[str, Any] = {"on_event": on_event}
    given |= {"profile": options.profile} if options.profile is not None else {}
    given |= {"model": options.model} if options.model is not None else {}
    if text:
        return tract.chat(text, **given)
    trigger = Trigger.REGENERATE if options.regenerate else Trigger.GENERATE
    return tract.generate(trigger=trigger, **given)


def project(events: Sequence[Any]) -> Run:
    """The run that events tell of, so far."""
    from tract_jupyter.runs.projection import project as of_events

    return of_events(events)


def recent(tract: Any, number: int = RECENT) -> list[Run]:
    """The newest runs, the newest first."""
    return list(tract.runs(limit=number))


def find(tract: Any, prefix: str) -> Run:
    """The run whose id begins so.

    Raises:
        UnknownRunError: there is none, or there are several.
    """
    found = [run for run in recent(tract, _SEARCHED) if run.run_id.startswith(prefix)]
    exact = next((run for run in found if run.run_id == prefix), None)
    if exact is not None or len(found) == 1:
        return exact or found[0]
    if not found:
        run: Run = tract.run(prefix)
        return run
    named = ", ".join(run.run_id[:12] for run in found[:_MOST_NAMED])
    raise UnknownRunError(
        f"{len(found):,} runs begin with {one_line(prefix, 60)!r}: {named}; type more of the id"
    )


def profiles(tract: Any) -> list[Any]:
    """All profiles that are kept."""
    return list(tract.profiles.list())


def active_name(tract: Any) -> str | None:
    """The name of the profile that runs use; None if there is none."""
    active = tract.profiles.active
    return active if active is None or isinstance(active, str) else str(active.name)


def profile(tract: Any, name: str) -> Any:
    """A profile by its name.

    Raises:
        UnknownRunError: there is none.
    """
    return tract.profiles.get(name)


def activate(tract: Any, name: str | None) -> None:
    """Have runs use a profile from now on, or none."""
    if name is None:
        tract.profiles.deactivate()
    else:
        tract.profiles.activate(name)


def operations_of(profile: Any) -> Sequence[Operation]:
    """The operations of a profile with those of its blocks, as they would be run."""
    operations: Sequence[Operation] = profile.compile().operations
    return operations


def inspected(run: Run) -> Inspection:
    """The prompt of a run against the one without operations, with its tokens."""
    counter = default_counter()
    return inspect_prompt(run, counter.count_text, counter.name)
