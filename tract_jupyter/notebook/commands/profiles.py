"""The commands of `%tract` about profiles, and the view of a profile.

Adopting a profile requires the start of the fingerprint in its view, so the user adopts exactly that version.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tract_jupyter.exceptions import OperationError, ProfileError, UnknownProfileError, nearest
from tract_jupyter.models import digest, one_line, printable
from tract_jupyter.notebook.commands.command import Command, no_arguments, option, option_value
from tract_jupyter.notebook.runs.pictures import (
    NodeState,
    facts_html,
    head_html,
    mark,
    reason_html,
    reasons_html,
    run_page,
    section,
)
from tract_jupyter.notebook.views.html import Grid, GridView, View, element
from tract_jupyter.notebook.views.styles import styled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tract_jupyter.notebook.session import NotebookSession
    from tract_jupyter.notebook.views.html import Html
    from tract_jupyter.runs import Operation, ProfileEntry
    from tract_jupyter.runs.profile import BlockRef, OperationProfile, ProfileWarning
    from tract_jupyter.tract import Tract


_SHORT_NAME = 40
_SHORT_ABOUT = 60
_HASH = 8
_LEAST = 8


_USAGE = "profile [NAME] [--activate | --adopt FINGERPRINT], profile --off"


def _profiles(notebook: NotebookSession, words: list[str]) -> GridView:
    no_arguments("profiles", words)
    rows = tuple(map(_listed_row, notebook.tract.profiles.list()))
    heads = ("", "Profile", "Operations", "State", "For")
    hint = "None yet. %%tract_profile NAME saves one; see %%tract_profile?"
    notes = () if rows else (hint,)
    return GridView("Profiles", notes, (Grid(heads, rows, right=frozenset({"Operations"})),))


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


def _profile(notebook: NotebookSession, words: list[str]) -> GridView | ProfileView:
    fingerprint, rest = option_value(words, "--adopt")
    is_activated, rest = option(rest, "--activate")
    is_off, rest = option(rest, "--off")
    name, ways = " ".join(rest), is_activated + is_off + (fingerprint is not None)
    has_more = fingerprint is not None and "--adopt" not in words[-2:]  # after the fingerprint
    if ways > 1 or has_more or (ways and is_off == bool(name)):
        raise OperationError(f"usage: %tract {_USAGE}; got profile {' '.join(words)}")
    tract = notebook.tract
    if is_off:
        tract.profiles.deactivate()
        return GridView("No profile is active: the context is sent without changes")
    entry = _entry(tract, name)
    if fingerprint is not None:
        return _adopt(tract, entry, fingerprint)
    if is_activated:
        tract.profiles.activate(entry.name)
        return _view_of(_entry(tract, entry.name), "Runs use it from now on.")
    return _view_of(entry)


def _entry(tract: Tract, name: str) -> ProfileEntry:
    """Return a stored profile by its name, or the active one if the name is empty."""
    entries = tract.profiles.list()
    matches = [entry for entry in entries if (entry.name == name if name else entry.is_active)]
    if matches:
        return matches[0]
    if not name:
        raise OperationError("no profile is active; give the name of a profile. %tract profiles lists them")
    raise UnknownProfileError(
        f"there is no profile {name!r}; %tract profiles lists them.{nearest(name, [entry.name for entry in entries])}"
    )


def _adopt(tract: Tract, entry: ProfileEntry, fingerprint: str) -> ProfileView:
    if not entry.quarantined:
        return _view_of(entry, "It is already yours. Nothing was changed.")
    known = digest(dict(entry.data))
    if not fingerprint:
        return _view_of(entry)
    if len(fingerprint) < _LEAST or not known.startswith(fingerprint.lower()):
        raise OperationError(
            f"the profile {entry.name!r} has another fingerprint and was not adopted. Read the current version: "
            f"%tract profile {entry.name}"
        )
    if _read(entry) is None:
        raise OperationError(f"the profile {entry.name!r} cannot be read, so it cannot be adopted")
    tract.profiles.adopt(entry)
    return _view_of(_entry(tract, entry.name), "It is now yours, and runs may use it.")


def _view_of(entry: ProfileEntry, note: str = "") -> ProfileView:

    profile = _read(entry)
    known = digest(dict(entry.data))
    if profile is None:
        raise OperationError(
            f"the profile {entry.name!r} is damaged in the store, or belongs to another version of tract_jupyter. "
            "Save it again"
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
        note = (
            f"It is not used: {entry.quarantined}. Read its operations. "
            f"%tract profile {entry.name} --adopt {known[:_LEAST]} adopts exactly this version."
        )
    return ProfileView(
        entry.name,
        profile.compile().operations,
        profile.lint(),
        entry.is_active and not entry.quarantined,
        tuple((label, value) for label, value in facts if value),
        note,
        "not used" if entry.quarantined else "",
        to_be_read=bool(entry.quarantined),
    )


def saved_view(tract: Tract, name: str, note: str) -> ProfileView:
    """Return the view of a stored profile."""
    return _view_of(_entry(tract, name), note)


def unsaved_view(profile: OperationProfile, note: str) -> ProfileView:
    """Return the view of a profile that is not stored."""
    return ProfileView(
        profile.name, profile.compile().operations, profile.lint(), said=note, standing="not saved"
    )


def _about_block(ref: BlockRef) -> str:
    block = ref.block
    name = block.block_id if block.name == block.block_id else f"{block.block_id} ({block.name})"
    off = "" if ref.enabled and block.enabled else ", switched off"
    return f"{name}, version {block.version}{off}{f': {block.description}' if block.description else ''}"


def _read(entry: ProfileEntry) -> OperationProfile | None:
    """Read a profile without running it; None if it is damaged. Any author may have saved it."""
    from tract_jupyter.runs.profile import read_profile

    try:
        return read_profile(dict(entry.data))
    except ProfileError:
        return None


def profile_words(notebook: NotebookSession, typed: list[str]) -> list[tuple[str, str]]:
    """Return the names of profiles, for completion."""
    if any(not word.startswith("-") for word in typed):
        return []
    return [(profile.name, "profile") for profile in notebook.tract.profiles.list()]


_NAME = 60
_ABOUT = ("description", "capabilities")
_MORE = ("runConditions", "artifact", "activation", "provider", "timeoutMs", "retry", "debug")


@dataclass(frozen=True)
class ProfileView(View):
    """The view of a profile.

    Attributes:
        standing: a word about the use of the profile, instead of `active` or `not active`.
        to_be_read: the user has to read the parameters of the operations. They are unfolded, and part of the text.
    """

    name: str
    operations: Sequence[Operation]
    warnings: Sequence[ProfileWarning] = ()
    is_active: bool = False
    facts: tuple[tuple[str, str], ...] = ()
    said: str = ""
    standing: str = ""
    to_be_read: bool = False

    def to_html(self) -> Html:
        """Return the profile as self-contained HTML."""
        grid = styled(element("div", self._grid().to_html(), class_="tract"))
        operations = element("div", grid, class_="tract-canvas")
        count = f"{len(self.operations):,}"
        body = (
            head_html(
                f"Profile {one_line(self.name, _NAME)}",
                self._standing,
                "tract-done" if self.is_active else "",
            ),
            facts_html(self.facts),
            element("p", self.said) if self.said else None,
            self._warnings_html(),
            section("Operations", count, operations, "tract-profile-operations", is_open=True)
            if self.operations
            else element("p", "It has no operations.", class_="tract-dim"),
            self._parameters_html(),
        )
        return run_page(body, "Profile", "tract-profile")

    def to_text(self) -> str:
        """Return a line for each operation and warning."""
        facts = ", ".join(f"{name} {value}" for name, value in self.facts)
        lines = [f"Profile {one_line(self.name, _NAME)}: {self._standing}{f' ({facts})' if facts else ''}"]
        lines += [self.said] if self.said else []
        lines += [self._grid().to_text()] if self.operations else ["It has no operations."]
        lines += [f"! {one_line(w.where, _NAME)}: {one_line(w.message, 400)}" for w in self.warnings]
        if self.to_be_read:
            lines += [
                f"{one_line(operation.id, _NAME)}: {_parameters_text(operation)}"
                for operation in self.operations
            ]
        return printable("\n".join(lines))

    @property
    def _standing(self) -> str:
        return self.standing or ("active" if self.is_active else "not active")

    def _warnings_html(self) -> Html | None:
        sign = mark(NodeState.WAITING, "!")
        items = [reason_html(sign, warning.where, warning.message) for warning in self.warnings]
        return reasons_html(items, "tract-profile-warnings") if items else None

    def _parameters_html(self) -> Html | None:
        if not self.operations:
            return None
        items = (
            (
                element("dt", one_line(operation.id, _NAME)),
                element("dd", element("pre", _parameters_text(operation))),
            )
            for operation in self.operations
        )
        title, name = "Parameters", "tract-profile-given"
        return section(title, "", element("dl", items), name, is_open=self.to_be_read)

    def _grid(self) -> Grid:
        heads = ("Operation", "Kind", "Hooks", "Triggers", "Order", "After", "Artifact", "")
        return Grid(
            heads,
            tuple(map(_operation_row, self.operations)),
            code=frozenset({"Artifact"}),
            right=frozenset({"Order"}),
        )


def _parameters_text(operation: Operation) -> str:
    """Return the parameters of an operation, its conditions and its target as lines of JSON."""
    fields = operation.to_dict()
    config = fields["config"]
    more = [
        (name, of[name])
        for of, names in [(fields["definition"], _ABOUT), (config, _MORE)]
        for name in names
        if name in of
    ]
    lines = [*config.get("params", {}).items(), *more]
    return "\n".join(
        f"{one_line(name, _NAME)}: {json.dumps(value, ensure_ascii=False)}" for name, value in lines
    )


def _operation_row(operation: Operation) -> tuple[str, ...]:
    config = operation.config
    marks = [word for word, holds in (("required", config.required), ("off", not config.enabled)) if holds]
    return (
        one_line(operation.id, _NAME),
        one_line(operation.definition.kind, _NAME),
        ", ".join(hook.value for hook in config.hooks),
        ", ".join(trigger.value for trigger in config.triggers),
        f"{config.order:g}",
        one_line(", ".join(config.depends_on), _NAME),
        f"art.{config.artifact.tag}" if config.artifact else "",
        ", ".join(marks),
    )


COMMANDS = (
    Command("profiles", "list profiles: the operations that runs use", _profiles),
    Command(
        _USAGE,
        "show the operations of a profile; activate it, or none; adopt a profile of another user",
        _profile,
        (profile_words, "--activate", "--off", "--adopt"),
    ),
)
