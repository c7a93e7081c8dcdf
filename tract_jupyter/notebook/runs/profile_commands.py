"""The subcommands of `%tract` about profiles: look at them, use one, take over one that somebody else has saved.

Taking over is bound to what was shown: it wants the beginning of the fingerprint that stands there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tract_jupyter.exceptions import OperationError, ProfileError, UnknownRunError, nearest
from tract_jupyter.models.canonical import digest
from tract_jupyter.notebook.command import Command, no_arguments
from tract_jupyter.notebook.display import Grid, View
from tract_jupyter.notebook.excerpts import one_line

if TYPE_CHECKING:
    from tract_jupyter.notebook.runs.profile_view import ProfileView
    from tract_jupyter.notebook.session import Session
    from tract_jupyter.runs.profile.model import BlockRef, Profile
    from tract_jupyter.runs.store.profiles import ProfileEntry
    from tract_jupyter.tract import Tract

_NAME = 40
_ABOUT = 60
_HASH = 16
_LEAST = 8
_WAYS = ("--activate", "--off", "--adopt")
_USAGE = "profile [NAME] [--activate | --adopt FINGERPRINT], profile --off"


def _profiles(session: Session, words: list[str]) -> View:
    no_arguments("profiles", words)
    rows = tuple(map(_row, session.tract.profiles.list()))
    heads = ("", "Profile", "Operations", "State", "For")
    told = (
        () if rows else ("None yet: tract.profiles.save(Profile.of(NAME, [operation(...), ...])) keeps one.",)
    )
    return View("Profiles", told, (Grid(heads, rows, right=frozenset({"Operations"})),))


def _row(entry: ProfileEntry) -> tuple[str, ...]:
    profile = _read(entry)
    count = "" if profile is None else f"{len(profile.compile().operations):,}"
    about = "" if profile is None else one_line(profile.description or "", _ABOUT)
    return ("→" if entry.is_active else "", one_line(entry.name, _NAME), count, _state(entry, profile), about)


def _state(entry: ProfileEntry, profile: Profile | None) -> str:
    if profile is None:
        return "cannot be read"
    if entry.quarantined:
        return f"not used: {entry.quarantined}"
    return "" if profile.enabled else "switched off"


@dataclass(frozen=True)
class _Asked:
    """What `%tract profile` is to do. `adopt` is a fingerprint, empty if none was given."""

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
        raise OperationError(f"%tract {_USAGE} is how it is used; got profile {' '.join(words)}")
    return asked


def _profile(session: Session, words: list[str]) -> View | ProfileView:
    asked, profiles = _parsed(words), session.tract.profiles
    if asked.off:
        profiles.deactivate()
        return View("No profile is active: the context is sent as it stands")
    entry = _entry(session.tract, asked.name)
    if asked.adopt is not None:
        return _adopted(session.tract, entry, asked.adopt)
    if asked.activate:
        profiles.activate(entry.name)
        return _shown(_entry(session.tract, entry.name), "Runs use it from now on.")
    return _shown(entry)


def _entry(tract: Tract, name: str) -> ProfileEntry:
    """The stored profile of a name, or the active one, used or not."""
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
    from tract_jupyter.notebook.runs.profile_view import ProfileView

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
        ("session", one_line(profile.session_id, _NAME)),
        ("fingerprint", known[:_HASH]),
        ("for", one_line(profile.description or "", _ABOUT)),
        *(("block", one_line(_about_block(ref), _ABOUT)) for ref in profile.blocks),
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


def _read(entry: ProfileEntry) -> Profile | None:
    """The profile, whoever has saved it; nothing of it is carried out by reading. None if it is none."""
    from tract_jupyter.runs.profile.validate import read_profile

    try:
        return read_profile(dict(entry.data))
    except ProfileError:
        return None


def profile_words(tract: Tract, given: list[str]) -> list[tuple[str, str]]:
    """What Tab offers for a profile's name."""
    if any(not word.startswith("-") for word in given):
        return []
    return [(one.name, "profile") for one in tract.profiles.list()]


PROFILES = {
    "profiles": Command("profiles", "profiles: the operations that runs use", _profiles),
    "profile": Command(
        _USAGE,
        "the operations of a profile; use it, or none; take one over",
        _profile,
        ("profile", *_WAYS),
    ),
}
