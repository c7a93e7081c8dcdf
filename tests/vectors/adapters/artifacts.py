"""Vectors of artifacts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tract_jupyter.runs import (
    Artifacts,
    ArtifactUpsert,
    ArtifactView,
    CommitItem,
    Hook,
    MemoryTarget,
    ResultError,
    Turn,
    commit,
)
from tract_jupyter.runs import session_key as key_of

Given = dict[str, Any]
PHRASES = ("session key", "target is required", "not found", "mismatch", "no reply")
_CONTEXT = {
    "owner": ("ownerId", "owner"),
    "tract": ("chatId", "tractId", "tract", "chat"),
    "branch": ("branchId", "branch"),
    "profile": ("profileId", "profile", "operationProfileId"),
    "session": ("operationProfileSessionId", "sessionId", "session"),
}
_STORES = {
    "persisted": ("persisted", "persistedArtifacts", "stored"),
    "run_only": ("runOnly", "run_only", "runOnlyArtifacts", "run"),
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


def told_error(error: ResultError | None) -> Given | None:
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
    *_, error = _written([given["write"]], given.get("sessionKey"))
    return {"error": told_error(error), "ok": error is None}


def persisted_artifact_upserts(given: Given) -> Given:
    session = given.get("sessionKey")
    turn, target, error = _written(given["writes"], session)
    view = turn.artifacts.view
    if given.get("reload") or any(name.endswith("SessionKey") for name in given):
        others = [value for name, value in given.items() if name.endswith("SessionKey")]
        asked = others[0] if others else session
        view = Artifacts(persisted=target.artifacts() if asked == session else {}).view
    return {"records": told_artifacts(view), "error": told_error(error)}


def artifact_view(given: Given) -> Given:
    """What is seen of persisted artifacts and of those of this run, which shadow them (c.4)."""
    persisted, own = (_views(given, names, one) for one, names in _STORES.items())
    view = Artifacts(persisted, own).view
    told = told_artifacts(view)
    names = ("records", "view", "artifacts", "art", "result")
    return {**dict.fromkeys(names, told), "values": {tag: one.value for tag, one in view.items()}}


def _views(given: Given, names: tuple[str, ...], persistence: str) -> dict[str, ArtifactView]:
    found = next((given[name] for name in names if given.get(name) is not None), {})
    fields = {tag: one if isinstance(one, dict) and "value" in one else {"value": one}
              for tag, one in found.items()}  # fmt: skip
    return {tag: ArtifactView(**{"persistence": persistence, **one, "tag": tag})
            for tag, one in fields.items()}  # fmt: skip


def session_key(given: Given) -> Given:
    keys = [_key(one) for one in _contexts(given)]
    is_same = len(set(keys)) == 1
    names = ("same", "sameKey", "equal", "isSame", "sameSession", "kept", "stable")
    others = ("different", "changed", "differs", "distinct")
    return {
        "key": keys[0],
        "sessionKey": keys[0],
        "keys": keys,
        **dict.fromkeys(names, is_same),
        **dict.fromkeys(others, not is_same),
    }


def _contexts(given: Given) -> list[Given]:
    """All contexts in what is given; one that is only a change is a change of the first."""
    inner = [one for one in given.values() if isinstance(one, dict)]
    listed = [
        one for value in given.values() if isinstance(value, list) for one in value if isinstance(one, dict)
    ]
    names = {name for spellings in _CONTEXT.values() for name in spellings}
    found = [*([given] if names & given.keys() else []), *inner, *listed] or [given]
    return [{**found[0], **one} for one in found]


def _key(context: Given) -> str:
    def part(spellings: tuple[str, ...]) -> str:
        found = next((context[one] for one in spellings if context.get(one) is not None), "")
        return str(found.get("profileId", found.get("id")) if isinstance(found, dict) else found)

    return key_of(**{name: part(spellings) for name, spellings in _CONTEXT.items()})


def _written(writes: list[Given], session: str | None) -> tuple[Turn, MemoryTarget, ResultError | None]:
    """The turn and the target after one operation for each write, and the first error."""
    target = MemoryTarget(session=session)
    queue = [
        CommitItem(f"w{place:04}", place, effects=({"type": "artifact.upsert", **one},))
        for place, one in enumerate(writes)
    ]
    turn, report = commit(Hook.BEFORE, queue, Turn(), target)
    return turn, target, next((one.error for one in report.entries if one.error is not None), None)
