"""The profiles of a tract, and the values that runs keep between turns.

A user's own saved profiles can be used; other profiles must be adopted first. The state of a turn names the artifacts
of each session and has the counters of each profile. An artifact names its value and its history. So unchanged data is
stored once, and undo, reset and branches find their state by choosing another commit.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from tract_jupyter.exceptions import (
    ProfileError,
    RunError,
    StoreCorruptError,
    StoreError,
    UnknownProfileError,
    nearest,
)
from tract_jupyter.models import brief_repr, canonical_json, check_text, check_words
from tract_jupyter.review import SignedStore
from tract_jupyter.runs.activation import Counters
from tract_jupyter.runs.model import ArtifactView
from tract_jupyter.runs.profile.model import OperationProfile
from tract_jupyter.runs.profile.validate import read_profile
from tract_jupyter.storage import StoredProfile, StoredRunCommit, name_of, now_text, read_dict, read_moment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from sqlalchemy import Connection

    from tract_jupyter.review import Signer
    from tract_jupyter.runs.events import RunStarted
    from tract_jupyter.runs.model import Operation
    from tract_jupyter.storage import Database, EventRows, RunCommitRows, RunObjectRows, RunProfileRows


class ProfileStore(SignedStore[StoredProfile]):
    """The stored profiles."""

    kind = "run_profile"
    signed_as = "run_profile"
    vouched = "saved"

    def content(self, row: StoredProfile) -> list[str]:
        """Return the signed parts: the name and the text."""
        return [row.name, row.profile_json]


@dataclass(frozen=True, slots=True)
class ProfileEntry:
    """A stored profile. `quarantined` says why it is not used; empty if it may be. `data` is its JSON form."""

    name: str
    data: Mapping[str, Any] = field(repr=False)
    is_active: bool
    saved_at: datetime
    quarantined: str = ""


class Profiles:
    """The profiles of one tract. At most one is active.

    Args:
        database: the database.
        rows: the profile rows of the tract.
        events: the event rows, which record changes of profiles.
        signer: signs saved profiles.
        check: returns missing models or credentials of operations, as problems.
    """

    def __init__(
        self, database: Database, rows: RunProfileRows, events: EventRows, signer: Signer,
        check: Callable[[Iterable[Operation]], list[tuple[str, str, str]]] = lambda _: [],
    ) -> None:  # fmt: skip
        self._database = database
        self._rows = rows
        self._stored = ProfileStore(database, rows, events, signer)
        self._check = check
        self._read: tuple[str, str, OperationProfile] | None = (
            None  # the last one: its name, its text, and it
        )

    def list(self) -> list[ProfileEntry]:
        """Return all profiles by name, including quarantined ones.

        Raises:
            TrustError: the signing secret cannot be read.
        """
        return [self._entry(row) for row in self._stored.all()]

    def get(self, name: str) -> OperationProfile:
        """Return a profile that may be used.

        Raises:
            UnknownProfileError: no such profile.
            RunError: another user saved it (see `adopt`), or a newer version did.
            StoreCorruptError: the stored text is not a JSON object.
        """
        with self._database.read() as connection:
            stored = self._require(connection, name)
        return self._profile(stored)

    @property
    def active(self) -> OperationProfile | None:
        """The active profile; None if there is none.

        Raises:
            RunError: another user saved it. Runs do not silently ignore its operations.
            StoreCorruptError: the stored text is not a JSON object.
        """
        with self._database.read() as connection:
            stored = self._rows.active(connection)
        return None if stored is None else self._profile(stored)

    def save(self, profile: OperationProfile, *, activate: bool = False) -> None:
        """Sign and store a profile. It replaces a profile of the same name.

        Raises:
            ProfileError: the profile is invalid; lists all problems.
            TrustError: it cannot be signed.
        """
        original, profile = profile, read_profile(profile)
        name = profile.name
        if missing := self._check(profile.all_operations):
            raise ProfileError(missing)
        if activate:
            profile.compile()
        text = canonical_json(profile.to_dict())
        signed = self._signed(name, text)
        with self._database.write() as connection:
            self._stored.put(connection, signed, "saved", {"name": name})
            if activate:
                self._rows.activate(connection, name)
        if isinstance(original, OperationProfile):  # its data cannot change, so the cache is safe
            self._read = (name, text, profile)

    def deactivate(self) -> None:
        """Make runs use no profile."""
        self.activate(None)

    def activate(self, name: str | None) -> None:
        """Make runs use a profile, or none.

        Raises:
            UnknownProfileError: no such profile.
            RunError: another user saved it, or a newer version did.
            ProfileError: its blocks conflict.
        """
        with self._database.write() as connection:
            if name is not None:
                self._profile(self._require(connection, name)).compile()
            self._rows.activate(connection, name)
            self._stored.note(connection, "activated", {"name": name})

    def adopt(self, entry: ProfileEntry) -> None:
        """Sign a profile that another user saved, after the user has read it. From then on it may be used.

        Args:
            entry: an entry of `list`; exactly its content is signed.

        Raises:
            UnknownProfileError: it was removed.
            RunError: it has changed since it was read.
            StoreCorruptError: it is not a JSON object.
            TrustError: it cannot be signed.
        """
        if not isinstance(entry, ProfileEntry):
            raise RunError(f"adopt takes an entry of profiles.list(), not {brief_repr(entry)}.")
        text = canonical_json(dict(entry.data))
        signed = self._signed(entry.name, text)
        with self._database.write() as connection:
            if canonical_json(_data(self._require(connection, entry.name))) != text:
                raise RunError(
                    f"The profile {entry.name!r} was not adopted because it has changed since you read it. "
                    "list() shows its current content."
                )
            self._stored.put(connection, signed, "adopted", {"name": entry.name})

    def remove(self, name: str) -> None:
        """Delete a profile.

        Raises:
            UnknownProfileError: no such profile.
        """
        with self._database.write() as connection:
            self._require(connection, name)
            self._rows.delete(connection, name)
            self._stored.note(connection, "removed", {"name": name})

    # ---

    def _signed(self, name: str, text: str) -> StoredProfile:
        return self._stored.sign(StoredProfile(name, text, "", is_active=False, created_at=now_text()))

    def _entry(self, row: StoredProfile) -> ProfileEntry:
        why = "" if self._stored.is_signed(row) else self._stored.foreign
        return ProfileEntry(
            row.name, read_dict(row.profile_json), bool(row.is_active), read_moment(row.created_at), why
        )

    def _check_trusted(self, row: StoredProfile) -> None:
        if not self._stored.is_signed(row):
            why = self._stored.foreign
            raise RunError(
                f"The profile {row.name!r} is not used: {why}. Read it, and adopt it if you trust it."
            )

    def _profile(self, row: StoredProfile) -> OperationProfile:
        self._check_trusted(row)
        if self._read is not None and self._read[:2] == (row.name, row.profile_json):
            return self._read[2]
        try:
            profile = read_profile(_data(row))
        except ProfileError as error:
            raise RunError(
                f"The profile {row.name!r} is not used because this tract_jupyter cannot read it: {error}. "
                "Save it again."
            ) from None
        self._read = (row.name, row.profile_json, profile)
        return profile

    def _require(self, connection: Connection, name: str) -> StoredProfile:
        check_words(check_text(name, "a profile's name", error=UnknownProfileError))
        stored = self._rows.get(connection, name)
        if stored is None:
            known = [row.name for row in self._rows.all(connection)]
            listed = ", ".join(map(repr, known)) or "none"
            raise UnknownProfileError(
                f"There is no profile {name!r}. Profiles: {listed}.{nearest(name, known)}"
            )
        return stored


def _data(row: StoredProfile) -> dict[str, Any]:
    try:
        data = json.loads(row.profile_json)
    except (ValueError, TypeError, RecursionError):
        data = None
    if not isinstance(data, dict):
        raise StoreCorruptError(
            f"The profile {row.name!r} is damaged in the store. Remove it and save it again."
        )
    return data


_OWN_KEYS = {"tag", "value", "history"}


@dataclass(frozen=True)
class TurnState:
    """The values that runs keep, at one commit.

    Attributes:
        artifacts: by session and tag, the names of the stored artifacts.
        counters: by profile and operation.
    """

    artifacts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    counters: Mapping[str, Mapping[str, Counters]] = field(default_factory=dict)

    def with_artifacts(self, session: str, names: Mapping[str, str]) -> TurnState:
        """Return the state with artifacts of a session; each replaces the artifact of the same tag."""
        artifacts = {**self.artifacts.get(session, {}), **names}
        return replace(self, artifacts={**self.artifacts, session: artifacts}) if artifacts else self

    def with_counters(self, profile: str, counters: Mapping[str, Counters]) -> TurnState:
        """Return the state with these counters of a profile, instead of the old ones."""
        return replace(self, counters={**self.counters, profile: dict(counters)}) if counters else self


class TurnStates:
    """The states of one tract. Writes are part of the thread's open transaction.

    Args:
        database: the database.
        rows: the object rows of the tract.
        head: returns the commit at the tip of the current branch.
    """

    def __init__(self, database: Database, rows: RunObjectRows, head: Callable[[], str | None]) -> None:
        self._database = database
        self._rows = rows
        self._head = head

    def at(self, commit_hash: str | None) -> TurnState:
        """Return the state at a commit; empty before the first one.

        Raises:
            StoreCorruptError: the state is damaged.
        """
        if commit_hash is None:
            return TurnState()
        with self._database.read() as connection:
            name = self._rows.state_at(connection, commit_hash)
            return TurnState() if name is None else read_state(self._rows, connection, name)

    def attach(self, state: TurnState) -> None:
        """Set the state of the commit at the tip of the current branch."""
        counters = {
            profile: {key: [one.turns, one.tokens] for key, one in of.items()}
            for profile, of in state.counters.items()
        }
        artifacts = {session: dict(names) for session, names in state.artifacts.items()}
        body = canonical_json({"artifacts": artifacts, "counters": counters})
        name = name_of(body)
        with self._database.write() as connection:  # opened first, because it makes a batch write its commits
            head = self._head()
            if head is not None:
                self._rows.add(connection, {name: body})
                self._rows.attach(connection, head, name)

    # --- artifacts of the commit that the current branch is at

    def load(self, session: str) -> Mapping[str, ArtifactView]:
        """Return all artifacts of a session at the tip of the current branch, by tag.

        Raises:
            StoreCorruptError: an artifact is damaged, or a newer version wrote it.
        """
        return self.load_from(self.at(self._head()), session)

    def load_from(self, state: TurnState, session: str) -> Mapping[str, ArtifactView]:
        """Return all artifacts of a session in a state, by tag; raises as `load` does."""
        names = state.artifacts.get(session, {})
        if not names:
            return {}
        with self._database.read() as connection:
            artifacts = read_artifacts(self._rows, connection, names.values())
        return {tag: artifacts[name] for tag, name in sorted(names.items())}

    def remember(
        self,
        session: str | None,
        artifacts: Sequence[ArtifactView],
        profile: str = "",
        counters: Mapping[str, Counters] | None = None,
    ) -> None:
        """Store artifacts of a session and counters of a profile at the current commit.

        Each artifact replaces the artifact of the same tag.

        Raises:
            StoreError: there is no session key, or they cannot be stored.
            ContentError: a value has no JSON form.
        """
        if artifacts and not session:
            raise StoreError(
                "An artifact cannot be persisted because this run has no profile, and so no session key. "
                "Use persistence run_only, or run with a profile."
            )
        if not artifacts and not counters:
            return
        with self._database.write() as connection:
            state = before = self.at(self._head())
            if artifacts:
                names = add_artifacts(self._rows, connection, artifacts)
                by_tag = {one.tag: name for one, name in zip(artifacts, names, strict=True)}
                state = state.with_artifacts(session or "", by_tag)
            state = state.with_counters(profile, counters or {})
            if state != before:
                self.attach(state)


# --- objects


def add_artifacts(
    rows: RunObjectRows, connection: Connection, artifacts: Iterable[ArtifactView]
) -> list[str]:
    """Store artifacts, and return their names.

    Raises:
        ContentError: a value has no JSON form.
    """
    objects: dict[str, str] = {}

    def add(data: object) -> str:
        body = canonical_json(data)
        name = name_of(body)
        objects[name] = body
        return name

    names = []
    for one in artifacts:
        settings = one.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude=_OWN_KEYS)
        value = add(one.value)
        history = [value if item is one.value else add(item) for item in one.history]
        names.append(add({"tag": one.tag, "settings": settings, "value": value, "history": history}))
    rows.add(connection, objects)
    return names


def read_state(rows: RunObjectRows, connection: Connection, name: str) -> TurnState:
    """Read a state by name.

    Raises:
        StoreCorruptError: it is damaged or missing, or a newer version wrote it.
    """
    body = read_objects(rows, connection, [name])[name]
    try:
        counters = {
            profile: {key: Counters(*map(int, count)) for key, count in of.items()}
            for profile, of in body["counters"].items()
        }
        return TurnState({session: dict(names) for session, names in body["artifacts"].items()}, counters)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StoreCorruptError(
            "The state of runs is damaged in the store, or a newer tract_jupyter wrote it "
            f"({type(error).__name__}). Upgrade, restore a backup, or reset to an earlier commit."
        ) from error


def damaged_states(rows: RunObjectRows, connection: Connection) -> Iterator[tuple[str, str]]:
    """Yield the commits whose state cannot be read, with the reason; one commit per state."""
    for name, commit_hash in rows.states(connection).items():
        try:
            for names in read_state(rows, connection, name).artifacts.values():
                read_artifacts(rows, connection, names.values())
        except StoreCorruptError as error:
            yield commit_hash, str(error)


def read_artifacts(
    rows: RunObjectRows, connection: Connection, names: Iterable[str]
) -> dict[str, ArtifactView]:
    """Read artifacts by name.

    Raises:
        StoreCorruptError: one is damaged or missing, or a newer version wrote it.
    """
    bodies = read_objects(rows, connection, names)
    try:
        wanted = {key for body in bodies.values() for key in (body["value"], *body["history"])}
        values = read_objects(rows, connection, wanted)
        return {
            name: ArtifactView.from_dict({
                **body["settings"], "tag": body["tag"], "value": values[body["value"]],
                "history": [values[key] for key in body["history"]],
            })
            for name, body in bodies.items()
        }  # fmt: skip
    except (ValidationError, KeyError, TypeError) as error:
        raise StoreCorruptError(
            "An artifact is damaged in the store, or a newer tract_jupyter wrote it "
            f"({type(error).__name__}). Upgrade, restore a backup, or reset to an earlier commit."
        ) from error


def read_objects(rows: RunObjectRows, connection: Connection, names: Iterable[str]) -> dict[str, Any]:
    """Read objects by name.

    Raises:
        StoreCorruptError: one is missing, or does not match its name.
    """
    wanted = list(dict.fromkeys(names))
    bodies = rows.get(connection, wanted) if wanted else {}
    for name in wanted:
        if name not in bodies or name_of(bodies[name]) != name:
            raise StoreCorruptError(
                f"The state of runs is damaged in the store: {str(name)[:32]} is missing or was changed. Restore a "
                "backup, or reset to an earlier commit."
            )
    return {name: json.loads(body) for name, body in bodies.items()}


class SqlCommitLog:
    """The commit reports of one tract's runs, as JSON."""

    def __init__(self, database: Database, rows: RunCommitRows) -> None:
        self._database = database
        self._rows = rows

    def find(self, run_id: str, hook: str) -> dict[str, Any] | None:
        """Return the report of a run's commit at a hook.

        Raises:
            StoreCorruptError: it is damaged.
        """
        with self._database.read() as connection:
            stored = self._rows.find_one(connection, run_id=run_id, hook=hook)
        return None if stored is None else _report(stored)

    def add(self, connection: Connection, run_id: str, hook: str, report: dict[str, Any]) -> None:
        """Store the report, in one transaction with the effects.

        Raises:
            StoreError: this run has a commit at this hook already. The transaction must be rolled back.
        """
        self._rows.add(connection, StoredRunCommit(run_id, hook, canonical_json(report)))


def _report(stored: StoredRunCommit) -> dict[str, Any]:
    try:
        report = json.loads(stored.report_json)
    except (ValueError, TypeError, RecursionError):
        report = None
    if not isinstance(report, dict):
        raise StoreCorruptError(
            f"The commit of run {stored.run_id} at {stored.hook} is damaged in the store. Restore a backup, or it "
            "could be committed twice."
        )
    return report


_SNAPSHOT_TRUST_KIND: Final = "run_snapshot"


def signed(signer: Signer, run_id: str, snapshot: RunStarted) -> RunStarted:
    """Return the snapshot with this user's signature, which is valid for this run only.

    Raises:
        TrustError: it cannot be signed.
        ContentError: it has no JSON form.
    """
    unsigned = snapshot.form()
    signature = signer.sign(_SNAPSHOT_TRUST_KIND, [run_id, unsigned])
    signed_snapshot = snapshot.model_copy(update={"signature": signature})
    signed_snapshot.remember("form", {**unsigned, "signature": signature})
    return signed_snapshot


def is_signed(signer: Signer, run_id: str, snapshot: RunStarted) -> bool:
    """Return True if this user began the run with exactly this snapshot.

    Raises:
        TrustError: the signing secret cannot be read.
    """
    return signer.verify(_SNAPSHOT_TRUST_KIND, _signed(run_id, snapshot), snapshot.signature)


def _signed(run_id: str, snapshot: RunStarted) -> list[Any]:
    return [run_id, snapshot.model_copy(update={"signature": ""}).to_dict()]
