"""The commands of `%tract` about profiles.

Adopting a profile is bound to what was shown: it takes the beginning of the fingerprint that stands there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tract_jupyter.exceptions import OperationError, ProfileError, UnknownRunError, nearest
from tract_jupyter.models.canonical import digest
from tract_jupyter.models.text import one_line
from tract_jupyter.notebook.commands.command import Command, no_arguments
from tract_jupyter.notebook.views.html import Grid, GridView

if TYPE_CHECKING:
    from tract_jupyter.notebook.session import NotebookSession
    from tract_jupyter.runs.profile.model import BlockRef, OperationProfile
    from tract_jupyter.runs.store import ProfileEntry
    from tract_jupyter.tract import Tract

from tract_jupyter.notebook.runs.profiles import ProfileView

_SHORT_NAME = 40
_SHORT_ABOUT = 60
_HASH = 8
_LEAST = 8


_WAYS = ("--activate", "--off", "--adopt")


_USAGE = "profile [NAME] [--activate | --adopt FINGERPRINT], profile --off"


def _profiles(notebook: NotebookSession, words: list[str]) -> GridView:
    no_arguments("profiles", words)
    rows = tuple(map(_listed_row, notebook.tract.profiles.list()))
    heads = ("", "Profile", "Operations", "State", "For")
    hint = "None yet: tract.profiles.save(OperationProfile.of(NAME, [run_operation(...), ...])) keeps one."
    told = () if rows else (hint,)
    return GridView("Profiles", told, (Grid(heads, rows, right=frozenset({"Operations"})),))


def _listed_row(entry: ProfileEntry) -> tuple[str, ...]:
    profile = _read(entry)
    count = "" if profile is None else f"{len(profile.compile().operations):,}"
    about = "" if profile is None else one_line(profile.description or "", _SHORT_ABOUT)
    return (
        "→" if entry.is_active else "",
        one_line(entry.name, _SHORT_NAME),
        count,
        _state(entry, profile),
        about,
    )


def _state(entry: ProfileEntry, profile: OperationProfile | None) -> str:
    if profile is None:
        return "cannot be read"
    if entry.quarantined:
        return f"not used: {entry.quarantined}"
    return "" if profile.enabled else "switched off"


@dataclass(frozen=True)
class _Asked:
    """The request of a `%tract profile` line. `adopt` is a fingerprint, empty if none was given."""

    name: str
    activate: bool = False
    off: bool = False
    adopt: str | None = None


def _parsed(words: list[str]) -> _Asked:
    place = words.index("--adopt") if "--adopt" in words else len(words)
    before, after = words[:place], words[place:]
    ways = [word for word in words if word in _WAYS]
    names = [word for word in before if word not in _WAYS]
    adopt = "".join(after[1:2]) if after else None
    asked = _Asked(" ".join(names), "--activate" in ways, "--off" in ways, adopt)
    is_wrong = len(ways) > 1 or len(after) > 2 or asked.name.startswith("-")  # noqa: PLR2004 # it and a fingerprint
    if is_wrong or bool(names) < (asked.activate or adopt is not None) or (asked.off and names):
        raise OperationError(f"usage: %tract {_USAGE}; got profile {' '.join(words)}")
    return asked


def _profile(notebook: NotebookSession, words: list[str]) -> GridView | ProfileView:
    asked, profiles = _parsed(words), notebook.tract.profiles
    if asked.off:
        profiles.deactivate()
        return GridView("No profile is active: the context is sent as it stands")
    entry = _entry(notebook.tract, asked.name)
    if asked.adopt is not None:
        return _adopted(notebook.tract, entry, asked.adopt)
    if asked.activate:
        profiles.activate(entry.name)
        return _shown(_entry(notebook.tract, entry.name), "Runs use it from now on.")
    return _shown(entry)


def _entry(tract: Tract, name: str) -> ProfileEntry:
    """Return the stored profile of a name, or the active one, used or not."""
    entries = tract.profiles.list()
    found = [one for one in entries if (one.name == name if name else one.is_active)]
    if found:
        return found[0]
    if not name:
        raise OperationError("no profile is active; name one: %tract profiles lists them")
    raise UnknownRunError(
        f"there is no profile {name!r}; %tract profiles lists them.{nearest(name, [one.name for one in entries])}"
    )


def _adopted(tract: Tract, entry: ProfileEntry, fingerprint: str) -> ProfileView:
    if not entry.quarantined:
        return _shown(entry, "It is yours already: nothing was changed.")
    known = digest(dict(entry.data))
    if not fingerprint:
        return _shown(entry)
    if len(fingerprint) < _LEAST or not known.startswith(fingerprint.lower()):
        raise OperationError(
            f"the profile {entry.name!r} has another fingerprint, and was not taken over; look at it as it is now: "
            f"%tract profile {entry.name}"
        )
    if _read(entry) is None:
        raise OperationError(f"the profile {entry.name!r} cannot be read, so there is nothing to take over")
    tract.profiles.adopt(entry)
    return _shown(_entry(tract, entry.name), "It is yours from now on, and may be used.")


def _shown(entry: ProfileEntry, said: str = "") -> ProfileView:

    profile = _read(entry)
    known = digest(dict(entry.data))
    if profile is None:
        raise OperationError(
            f"the profile {entry.name!r} is damaged in the store, or of another version of tract_jupyter; "
            "save it anew"
        )
    facts = [
        ("runs", profile.execution_mode.value),
        ("version", f"{profile.version}"),
        ("session", one_line(profile.session_id, _SHORT_NAME)),
        ("fingerprint", known[:_HASH]),
        ("for", one_line(profile.description or "", _SHORT_ABOUT)),
        *(("block", one_line(_about_block(ref), _SHORT_ABOUT)) for ref in profile.blocks),
        ("", "" if profile.enabled else "switched off"),
    ]
    if entry.quarantined:
        said = (
            f"It is not used: {entry.quarantined}. Read what it does; "
            f"%tract profile {entry.name} --adopt {known[:_LEAST]} takes over exactly this."
        )
    return ProfileView(
        entry.name,
        profile.compile().operations,
        profile.lint(),
        entry.is_active and not entry.quarantined,
        tuple((label, value) for label, value in facts if value),
        said,
        "not used" if entry.quarantined else "",
        to_be_read=bool(entry.quarantined),
    )


def _about_block(ref: BlockRef) -> str:
    block = ref.block
    name = block.block_id if block.name == block.block_id else f"{block.block_id} ({block.name})"
    off = "" if ref.enabled and block.enabled else ", switched off"
    return f"{name}, version {block.version}{off}{f': {block.description}' if block.description else ''}"


def _read(entry: ProfileEntry) -> OperationProfile | None:
    """Return the profile, whoever has saved it; nothing of it is carried out by reading. None if it is none."""
    from tract_jupyter.runs.profile.validate import read_profile

    try:
        return read_profile(dict(entry.data))
    except ProfileError:
        return None


def profile_words(notebook: NotebookSession, given: list[str]) -> list[tuple[str, str]]:
    """Return the names of profiles, to complete with."""
    if any(not word.startswith("-") for word in given):
        return []
    return [(one.name, "profile") for one in notebook.tract.profiles.list()]


COMMANDS = (
    Command("profiles", "list profiles: the operations that runs use", _profiles),
    Command(
        _USAGE,
        "show the operations of a profile; use it, or none; adopt one that somebody else saved",
        _profile,
        (profile_words, *_WAYS),
    ),
)
