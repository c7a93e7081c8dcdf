"""What runs remember between them: artifacts and counters, at each commit its own (R50, E11, X01).

A state is an object that names the artifacts of each session and holds the counters of each profile; an artifact is an
object that names its value and those before it. So what stays the same is stored once, and undo, reset and branches,
which only choose another commit, find what belongs to it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from tract_jupyter.exceptions import StoreCorruptError, StoreError
from tract_jupyter.models.canonical import canonical_json
from tract_jupyter.runs.activation import Counters
from tract_jupyter.runs.model import ArtifactView
from tract_jupyter.storage.run_objects import name_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from sqlalchemy import Connection

    from tract_jupyter.storage.database import Database
    from tract_jupyter.storage.run_objects import RunObjectRows

_OWN_KEYS = {"tag", "value", "history"}


@dataclass(frozen=True)
class TurnState:
    """What runs remember at one commit.

    Attributes:
        artifacts: by session and tag, the names of the stored artifacts.
        counters: by profile and operation.
    """

    artifacts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    counters: Mapping[str, Mapping[str, Counters]] = field(default_factory=dict)

    def with_artifacts(self, session: str, names: Mapping[str, str]) -> TurnState:
        """The state with artifacts of a session in the place of those of the same tags."""
        kept = {**self.artifacts.get(session, {}), **names}
        return replace(self, artifacts={**self.artifacts, session: kept}) if kept else self

    def with_counters(self, profile: str, counters: Mapping[str, Counters]) -> TurnState:
        """The state with all counters of a profile; operations that are not among them are forgotten."""
        return replace(self, counters={**self.counters, profile: dict(counters)}) if counters else self


class TurnStates:
    """The states of one tract. What is written belongs to the transaction of the thread, if one is open.

    Args:
        database: where they are.
        rows: of the tract.
        head: tells the commit that the current branch is at.
    """

    def __init__(self, database: Database, rows: RunObjectRows, head: Callable[[], str | None]) -> None:
        self._database = database
        self._rows = rows
        self._head = head

    def at(self, commit_hash: str | None) -> TurnState:
        """The state at a commit; before the first one it is empty.

        Raises:
            StoreCorruptError: it is damaged.
        """
        if commit_hash is None:
            return TurnState()
        with self._database.read() as connection:
            name = self._rows.state_at(connection, commit_hash)
            return TurnState() if name is None else read_state(self._rows, connection, name)

    def attach(self, state: TurnState) -> None:
        """Give the commit that the current branch is at another state."""
        counters = {
            profile: {key: [one.turns, one.tokens] for key, one in of.items()}
            for profile, of in state.counters.items()
        }
        artifacts = {session: dict(names) for session, names in state.artifacts.items()}
        body = canonical_json({"artifacts": artifacts, "counters": counters})
        name = name_of(body)
        with self._database.write() as connection:  # first of all, as it has a batch write its commits
            head = self._head()
            if head is not None:
                self._rows.add(connection, {name: body})
                self._rows.attach(connection, head, name)

    # --- artifacts of the commit that the current branch is at

    def load(self, session: str) -> Mapping[str, ArtifactView]:
        """All artifacts of a session, by tag.

        Raises:
            StoreCorruptError: one is damaged, or a newer version wrote it.
        """
        names = self.at(self._head()).artifacts.get(session, {})
        with self._database.read() as connection:
            found = read_artifacts(self._rows, connection, names.values())
        return {tag: found[name] for tag, name in sorted(names.items())}

    def put(self, session: str, artifacts: Sequence[ArtifactView]) -> None:
        """Keep artifacts, each in the place of that of the same tag; of two with one tag the last.

        Raises:
            StoreError: there is no session key, or they cannot be stored.
            ContentError: a value has no JSON form.
        """
        self.remember(session, artifacts)

    def remember(
        self,
        session: str | None,
        artifacts: Sequence[ArtifactView],
        profile: str = "",
        counters: Mapping[str, Counters] | None = None,
    ) -> None:
        """Keep artifacts of a session, and counters of a profile, from the current commit on."""
        if artifacts and not session:
            raise StoreError(
                "an artifact cannot be persisted without a session key, and this run has no profile to take one from; "
                "use persistence run_only, or run it with a profile"
            )
        with self._database.write() as connection:
            state = before = self.at(self._head())
            if artifacts:
                names = add_artifacts(self._rows, connection, artifacts)
                kept = {one.tag: name for one, name in zip(artifacts, names, strict=True)}
                state = state.with_artifacts(session or "", kept)
            state = state.with_counters(profile, counters or {})
            if state != before:
                self.attach(state)


class RunArtifacts:
    """The persisted artifacts of one run: until its reply is there its own, and from then on those of the branch.

    Args:
        states: of the tract.
        base: the artifacts that the run began with.
        is_answered: tells whether the reply is there.
    """

    def __init__(
        self, states: TurnStates, base: Mapping[str, ArtifactView], is_answered: Callable[[], bool]
    ) -> None:
        self._states = states
        self._own = dict(base)
        self._is_answered = is_answered

    def load(self, session: str) -> Mapping[str, ArtifactView]:
        """All artifacts of a session key, by tag."""
        return self._states.load(session) if self._is_answered() else dict(self._own)

    def put(self, session: str, artifacts: Sequence[ArtifactView]) -> None:
        """Keep artifacts in the place of those of the same tags."""
        if self._is_answered():
            self._states.put(session, artifacts)
        else:
            self._own |= {one.tag: one for one in artifacts}


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
        history = [add(value) for value in one.history]
        names.append(add({"tag": one.tag, "settings": settings, "value": add(one.value), "history": history}))
    rows.add(connection, objects)
    return names


def read_state(rows: RunObjectRows, connection: Connection, name: str) -> TurnState:
    """The state of this name.

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
            "what runs remember is damaged in the store, or a newer tract_jupyter wrote it "
            f"({type(error).__name__}); upgrade, restore a backup, or go back to an earlier commit"
        ) from error


def damaged_states(rows: RunObjectRows, connection: Connection) -> Iterator[tuple[str, str]]:
    """The commits at which what runs remember cannot be read, and why; one of each state."""
    for name, commit_hash in rows.states(connection).items():
        try:
            for names in read_state(rows, connection, name).artifacts.values():
                read_artifacts(rows, connection, names.values())
        except StoreCorruptError as error:
            yield commit_hash, str(error)


def read_artifacts(
    rows: RunObjectRows, connection: Connection, names: Iterable[str]
) -> dict[str, ArtifactView]:
    """Artifacts by name.

    Raises:
        StoreCorruptError: one is damaged or missing, or a newer version wrote it.
    """
    found = read_objects(rows, connection, names)
    try:
        wanted = {key for body in found.values() for key in (body["value"], *body["history"])}
        values = read_objects(rows, connection, wanted)
        return {
            name: ArtifactView.from_dict({
                **body["settings"], "tag": body["tag"], "value": values[body["value"]],
                "history": [values[key] for key in body["history"]],
            })
            for name, body in found.items()
        }  # fmt: skip
    except (ValidationError, KeyError, TypeError) as error:
        raise StoreCorruptError(
            "an artifact is damaged in the store, or a newer tract_jupyter wrote it "
            f"({type(error).__name__}); upgrade, restore a backup, or go back to an earlier commit"
        ) from error


def read_objects(rows: RunObjectRows, connection: Connection, names: Iterable[str]) -> dict[str, Any]:
    """Objects by name.

    Raises:
        StoreCorruptError: one is missing, or is not what its name says.
    """
    wanted = list(dict.fromkeys(names))
    found = rows.get(connection, wanted) if wanted else {}
    for name in wanted:
        if name not in found or name_of(found[name]) != name:
            raise StoreCorruptError(
                f"what runs remember is damaged in the store: {str(name)[:32]} is missing or was changed; restore a "
                "backup, or go back to an earlier commit"
            )
    return {name: json.loads(body) for name, body in found.items()}
