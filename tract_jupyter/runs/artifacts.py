"""Artifacts: the memory of operations, within a run or between runs (R50, R52, E24).

A template reads `art.<tag>.value` and `art.<tag>.history`. A `run_only` artifact hides a persisted one with the same
tag.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.models import digest, plain
from tract_jupyter.runs.model import ArtifactView
from tract_jupyter.runs.terms import Persistence

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tract_jupyter.runs.effect_types import ArtifactUpsert


def session_key(tract: str, branch: str | None, profile: str, session: str, *, owner: str = "") -> str:
    """Return the key of a profile's persisted artifacts, as 64 hex digits (E11).

    The key does not contain the version of the profile or of its blocks, so an edit loses no artifacts.
    """
    return digest([owner, tract, branch, profile, session])


def upserted(before: ArtifactView | None, effect: ArtifactUpsert) -> ArtifactView:
    """Return the artifact after a write. Both write modes replace the value and add to the history (X03).

    The newest value is the last one of the history. A write without a history empties it.
    """
    if before is None and type(effect.value) in _LEAVES:
        return effect.once("artifact", _written)
    return _written(effect, before)


def _written(effect: ArtifactUpsert, before: ArtifactView | None = None) -> ArtifactView:
    value = plain(effect.value)
    earlier = before.history if before is not None else ()
    history = (*earlier, value)[-effect.history.max_items :] if effect.history.enabled else ()
    return ArtifactView(
        tag=effect.tag,
        value=value,
        history=history,
        persistence=effect.persistence,
        format=effect.format,
        semantics=effect.semantics,
        usage=effect.usage,
        write_mode=effect.write_mode,
    )


def own(value: Any) -> Any:
    """Return a deep copy of a JSON value; immutable values are returned as they are."""
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


@dataclass(frozen=True, slots=True)
class Artifacts:
    """All artifacts that a run sees, by tag. Immutable."""

    persisted: Mapping[str, ArtifactView] = field(default_factory=dict)
    run_only: Mapping[str, ArtifactView] = field(default_factory=dict)

    @property
    def shown(self) -> dict[str, ArtifactView]:
        """The artifacts by tag, sorted; `run_only` ones hide persisted ones. Do not change them."""
        shown = {**self.persisted, **self.run_only}
        tags = sorted(shown)
        return shown if tags == list(shown) else {tag: shown[tag] for tag in tags}

    @property
    def view(self) -> dict[str, ArtifactView]:
        """Copies of `shown`, which the caller may change."""
        return {tag: _own(one) for tag, one in self.shown.items()}

    def upsert(self, effects: Iterable[ArtifactUpsert]) -> Artifacts:
        """Return these artifacts after writes, in order. Nothing is stored."""
        by_persistence = {
            Persistence.PERSISTED: dict(self.persisted),
            Persistence.RUN_ONLY: dict(self.run_only),
        }
        for effect in effects:
            artifacts = by_persistence[effect.persistence]
            artifacts[effect.tag] = upserted(artifacts.get(effect.tag), effect)
        return Artifacts(by_persistence[Persistence.PERSISTED], by_persistence[Persistence.RUN_ONLY])
