"""The subcommands of `%tract` about runs and profiles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import OperationError
from tract_jupyter.notebook.command import Command, limit, no_arguments, option, when
from tract_jupyter.notebook.display import Grid, View
from tract_jupyter.notebook.excerpts import one_line
from tract_jupyter.runs.terms import OperationStatus

if TYPE_CHECKING:
    from tract_jupyter.notebook.runs.profile_view import ProfileView
    from tract_jupyter.notebook.session import Session
    from tract_jupyter.runs.model import Run
    from tract_jupyter.tract import Tract

_NAME = 40
_REPLY = 60
_HASH = 16


def _runs(session: Session, words: list[str]) -> View:
    from tract_jupyter.notebook.runs.calls import recent

    rows = tuple(map(_run_row, recent(session.tract, limit("runs", words))))
    heads = ("Run", "Started", "Trigger", "Status", "Profile", "Done", "Time", "Reply")
    grid = Grid(heads, rows, code=frozenset({"Run"}), right=frozenset({"Done", "Time"}))
    told = "%tract run ID shows one of them." if rows else "None yet. %%tract_run makes one."
    return View("Runs", (told,), (grid,))


def _run_row(run: Run) -> tuple[str, ...]:
    from tract_jupyter.notebook.runs.words import duration

    done = sum(one.status is OperationStatus.DONE for one in run.operations)
    took = (run.finished_at - run.started_at).total_seconds() if run.started_at and run.finished_at else None
    return (
        run.run_id[:8],
        when(run.started_at) if run.started_at else "",
        run.trigger.value,
        run.status.value + (f": {run.failed_type.value}" if run.failed_type else ""),
        one_line(run.profile or "", _NAME),
        f"{done:,} of {len(run.operations):,}" if run.operations else "",
        "" if took is None else duration(took * 1000),
        one_line(run.reply or "", _REPLY),
    )


def _run(session: Session, words: list[str]) -> Any:
    from tract_jupyter.notebook.runs.calls import find, inspected, recent
    from tract_jupyter.notebook.runs.prompt_view import PromptView
    from tract_jupyter.notebook.runs.run_view import RunView

    only_prompt, names = option(words, "--prompt")
    if len(names) > 1 or any(name.startswith("-") for name in names):
        raise OperationError(f"%tract {_RUN} is how it is used; got run {' '.join(words)}")
    newest = [] if names else recent(session.tract, 1)
    if not names and not newest:
        raise OperationError("there are no runs yet; %%tract_run makes one")
    run = find(session.tract, names[0]) if names else newest[0]
    return PromptView(inspected(run)) if only_prompt else RunView(run, inspection=inspected(run))


def _profiles(session: Session, words: list[str]) -> View:
    from tract_jupyter.notebook.runs.calls import active_name, operations_of, profiles

    no_arguments("profiles", words)
    active = active_name(session.tract)
    rows = tuple(
        (
            "→" if one.name == active else "",
            one_line(one.name, _NAME),
            f"{len(operations_of(one)):,}",
            "" if one.enabled else "switched off",
            one_line(one.description or "", _REPLY),
        )
        for one in profiles(session.tract)
    )
    heads = ("", "Profile", "Operations", "State", "For")
    told = () if rows else ("None yet.",)
    return View("Profiles", told, (Grid(heads, rows, right=frozenset({"Operations"})),))


def _profile(session: Session, words: list[str]) -> Any:
    from tract_jupyter.notebook.runs.calls import activate, active_name

    is_on, rest = option(words, "--activate")
    is_off, names = option(rest, "--off")
    name = " ".join(names)
    if (is_on and is_off) or name.startswith("-") or (is_on and not name) or (is_off and name):
        raise OperationError(f"%tract {_PROFILE} is how it is used; got profile {' '.join(words)}")
    tract = session.tract
    if is_off:
        activate(tract, None)
        return View("No profile is active: the context is sent as it stands")
    chosen = name or active_name(tract)
    if chosen is None:
        raise OperationError("no profile is active; name one: %tract profiles lists them")
    shown = _shown(session, chosen, is_activated=is_on)
    if is_on:
        activate(tract, chosen)
    return shown


def _shown(session: Session, name: str, *, is_activated: bool) -> ProfileView:
    from tract_jupyter.notebook.runs.calls import active_name, operations_of, profile
    from tract_jupyter.notebook.runs.profile_view import ProfileView

    found = profile(session.tract, name)
    facts = [
        ("runs", found.execution_mode.value),
        ("version", f"{found.version}"),
        ("session", one_line(found.session_id, _NAME)),
        ("fingerprint", found.fingerprint[:_HASH]),
        ("", "" if found.enabled else "switched off"),
    ]
    is_active = is_activated or active_name(session.tract) == found.name
    return ProfileView(
        found.name,
        operations_of(found),
        found.lint(),
        is_active,
        tuple((label, value) for label, value in facts if value),
        "Runs use it from now on." if is_activated else "",
    )


def run_words(tract: Tract, given: list[str]) -> list[tuple[str, str]]:
    """What Tab offers for a run's id."""
    from tract_jupyter.notebook.runs.calls import recent

    if any(not word.startswith("-") for word in given):
        return []
    return [(run.run_id[:8], "run") for run in recent(tract)]


def profile_words(tract: Tract, given: list[str]) -> list[tuple[str, str]]:
    """What Tab offers for a profile's name."""
    from tract_jupyter.notebook.runs.calls import profiles

    if any(not word.startswith("-") for word in given):
        return []
    return [(one.name, "profile") for one in profiles(tract)]


_RUN = "run [ID] [--prompt]"
_PROFILE = "profile [NAME] [--activate], profile --off"

RUNS = {
    "runs": Command("runs [N]", "the newest runs: a model's call with the operations around it", _runs),
    "run": Command(
        _RUN, "one run as a graph, the newest if left out; or its prompt", _run, ("run", "--prompt")
    ),
    "profiles": Command("profiles", "profiles: the operations that runs use", _profiles),
    "profile": Command(
        _PROFILE, "the operations of a profile; use it, or none", _profile, ("profile", "--activate", "--off")
    ),
}
