"""Artifacts: what operations remember, within a run or between runs (R50, R52, E24).

A template reads `art.<tag>.value` and `art.<tag>.history`; a `run_only` artifact hides a persisted one of the same tag.
"""

from __future__ import annotations

from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from tract_jupyter.models import digest, plain
from tract_jupyter.runs.model import ArtifactView
from tract_jupyter.runs.terms import Persistence

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tract_jupyter.runs.effect_types import ArtifactUpsert


def session_key(tract: str, branch: str | None, profile: str, session: str, *, owner: str = "") -> str:
    """Return the key that the persisted artifacts of a profile are kept under, as 64 hex digits (E11).

    It holds no version of the profile or of its blocks: editing one loses no artifacts.
    """
    return digest([owner, tract, branch, profile, session])


def upserted(before: ArtifactView | None, effect: ArtifactUpsert) -> ArtifactView:
    """Return the artifact after a write. Both modes replace the old value and add to the history (X03).

    The history holds the current value too, the newest last, and is emptied by a write that keeps none.
    """
    if before is None and type(effect.value) in _LEAVES:
        return effect.once("artifact", _written)
    return _written(effect, before)


def _written(effect: ArtifactUpsert, before: ArtifactView | None = None) -> ArtifactView:
    value = plain(effect.value)
    earlier = before.history if before is not None else ()
    kept = (*earlier, value)[-effect.history.max_items :] if effect.history.enabled else ()
    return ArtifactView(
        tag=effect.tag,
        value=value,
        history=kept,
        persistence=effect.persistence,
        format=effect.format,
        semantics=effect.semantics,
        usage=effect.usage,
        write_mode=effect.write_mode,
    )


def own(value: Any) -> Any:
    """Return a copy of a JSON value that nobody else can change; what cannot be changed is itself."""
    if type(value) in _LEAVES:
        return value
    if type(value) is dict:
        return {key: own(one) for key, one in value.items()}
    return [own(one) for one in value] if type(value) is list else deepcopy(value)


_LEAVES: Final = frozenset({str, int, float, bool, type(None)})


def _own(artifact: ArtifactView) -> ArtifactView:
    if _LEAVES.issuperset(map(type, (artifact.value, *artifact.history))):
        return artifact
    return artifact.model_copy(
        update={"value": own(artifact.value), "history": tuple(map(own, artifact.history))}
    )


class ArtifactStore(Protocol):
    """A store of persisted artifacts between runs. What is put is part of the thread's open transaction."""

    def load(self, session: str) -> Mapping[str, ArtifactView]:
        """Return all artifacts of a session key, by tag."""

    def put(self, session: str, artifacts: Sequence[ArtifactView]) -> None:
        """Keep artifacts in the place of those of the same tags."""


@dataclass(frozen=True, slots=True)
class Artifacts:
    """All artifacts that a run sees, by tag. Immutable."""

    persisted: Mapping[str, ArtifactView] = field(default_factory=dict)
    run_only: Mapping[str, ArtifactView] = field(default_factory=dict)

    @property
    def shown(self) -> dict[str, ArtifactView]:
        """By tag, sorted; a `run_only` one hides a persisted one. For whoever changes none of them."""
        return dict(sorted({**self.persisted, **self.run_only}.items()))

    @property
    def view(self) -> dict[str, ArtifactView]:
        """The same as copies: whoever changes one changes nothing here."""
        return {tag: _own(one) for tag, one in self.shown.items()}

    def upsert(self, effects: Iterable[ArtifactUpsert]) -> Artifacts:
        """Return these artifacts after writes in this order. Nothing is stored."""
        found = {
            Persistence.PERSISTED: dict(self.persisted),
            Persistence.RUN_ONLY: dict(self.run_only),
        }
        for effect in effects:
            kept = found[effect.persistence]
            kept[effect.tag] = upserted(kept.get(effect.tag), effect)
        return Artifacts(found[Persistence.PERSISTED], found[Persistence.RUN_ONLY])


class MemoryArtifacts:
    """Persisted artifacts of this process alone."""

    def __init__(self) -> None:
        self._sessions: dict[str, dict[str, ArtifactView]] = {}

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Keep all that is put meanwhile, or nothing."""
        before = self._sessions
        try:
            yield
        except BaseException:
            self._sessions = before
            raise

    def load(self, session: str) -> Mapping[str, ArtifactView]:
        """Return all artifacts of a session key, by tag."""
        return dict(self._sessions.get(session, {}))

    def put(self, session: str, artifacts: Sequence[ArtifactView]) -> None:
        """Keep artifacts in the place of those of the same tags."""
        kept = {**self._sessions.get(session, {}), **{one.tag: one for one in artifacts}}
        self._sessions = {**self._sessions, session: kept}
