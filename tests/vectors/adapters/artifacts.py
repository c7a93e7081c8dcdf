"""Vectors of artifacts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tract_jupyter.runs.artifacts import Artifacts, MemoryArtifacts
from tract_jupyter.runs.artifacts import session_key as key_of
from tract_jupyter.runs.commit import CommitItem, commit
from tract_jupyter.runs.effect_types import ArtifactUpsert
from tract_jupyter.runs.memory_target import MemoryTarget
from tract_jupyter.runs.model import ArtifactView, OperationError
from tract_jupyter.runs.terms import Hook
from tract_jupyter.runs.turn import Turn

Given = dict[str, Any]
PHRASES = ("session key", "target is required", "not found", "mismatch", "no reply")
_CONTEXT = {
    "owner": ("ownerId", "owner"),
    "tract": ("chatId", "tractId", "tract", "chat"),
    "branch": ("branchId", "branch"),
    "profile": ("profileId", "profile", "operationProfileId"),
    "session": ("operationProfileSessionId", "sessionId", "session"),
}


def told_artifacts(view: Mapping[str, ArtifactView]) -> Given:
    return {
        tag: {
            "value": one.value,
            "history": list(one.history),
            "persistence": one.persistence,
            "semantics": one.semantics,
            "format": one.format,
            "writeMode": one.write_mode,
            "usage": one.usage,
        }
        for tag, one in view.items()
    }


def told_error(error: OperationError | None) -> Given | None:
    """An error, with the phrase that its message holds."""
    if error is None:
        return None
    phrase = next((one for one in PHRASES if one in error.message), None)
    return {"code": error.code, "message": error.message, "messageContains": phrase}


def artifact_upserts(given: Given) -> Given:
    writes = [ArtifactUpsert.from_dict(one) for one in given["writes"]]
    before = {tag: ArtifactView(tag=tag, **one) for tag, one in given.get("initial", {}).items()}
    view = Artifacts(run_only=before).upsert(writes).view
    return {"records": told_artifacts(view)}


def artifact_write_error(given: Given) -> Given:
    _, error = _written([given["write"]], given["sessionKey"], MemoryArtifacts())
    return {"error": told_error(error), "ok": error is None}


def persisted_artifact_upserts(given: Given) -> Given:
    store, session = MemoryArtifacts(), given["sessionKey"]
    turn, error = _written(given["writes"], session, store)
    view = turn.artifacts.view
    if given.get("reload"):
        asked = given.get("reloadSessionKey", given.get("readSessionKey", session))
        view = Artifacts(persisted=store.load(asked)).view
    return {"records": told_artifacts(view), "error": told_error(error)}


def session_key(given: Given) -> Given:
    contexts = [one for one in _contexts(given) if isinstance(one, dict)]
    keys = [_key(one) for one in contexts]
    is_same = len(set(keys)) == 1
    names = ("same", "sameKey", "equal", "isSame", "sameSession", "kept")
    others = ("different", "changed", "differs")
    return {
        "key": keys[0],
        "keys": keys,
        **dict.fromkeys(names, is_same),
        **dict.fromkeys(others, not is_same),
    }


def _contexts(given: Given) -> Iterable[Any]:
    inner = [one for one in given.values() if isinstance(one, dict)]
    listed = [one for value in given.values() if isinstance(value, list) for one in value]
    names = {name for spellings in _CONTEXT.values() for name in spellings}
    return [given] if names & given.keys() else inner or listed or [given]


def _key(context: Given) -> str:
    found = {
        name: next((str(context[one]) for one in spellings if context.get(one) is not None), "")
        for name, spellings in _CONTEXT.items()
    }
    return key_of(**found)


def _written(
    writes: list[Given], session: str | None, store: MemoryArtifacts
) -> tuple[Turn, OperationError | None]:
    """The turn after one operation for each write, and the first error."""
    target = MemoryTarget(session=session, artifacts=store)
    queue = [
        CommitItem(f"w{place:04}", place, effects=({"type": "artifact.upsert", **one},))
        for place, one in enumerate(writes)
    ]
    turn, report = commit(Hook.BEFORE, queue, Turn(), target)
    return turn, next((one.error for one in report.entries if one.error is not None), None)
