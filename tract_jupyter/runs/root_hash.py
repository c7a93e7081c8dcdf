"""The root hash of a run: sha256 over all that a replay must give again, and nothing that differs by itself.

It covers the trigger, the compiled operations, the prompt without operations, every result (status, effects, reasons,
codes, blockers), commits, the prompt that was sent, the reply, the artifacts that were written, and how it ended. It
leaves out times, ids (of the run, commits, pendings, messages), texts of errors, usage and what is left for debugging.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.models.canonical import canonical_json, digest
from tract_jupyter.runs.history import History
from tract_jupyter.runs.terms import Hook

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tract_jupyter.runs.events import CommitFinished, OperationFinished, RunEvent, RunFinished
    from tract_jupyter.runs.model import MainReply, Operation, RunMessage

_VERSION: Final = 2
_LISTED: Final = 1
"""The version of stores before version 6: operations and their sets as they were listed, and no blockers."""
_SETS: Final = frozenset({"dependsOn", "hooks", "triggers", "runConditions"})
"""Of an operation's configuration: in which order they are listed means nothing."""


def root_hash(events: Iterable[RunEvent], end: RunFinished | None = None) -> str:
    """The root hash, as 64 hex digits.

    Args:
        events: of the run.
        end: how it ends, if the events do not tell yet.

    Raises:
        UnknownRunError: the beginning is missing.
        ContentError: something has no JSON form.
    """
    return digest(covered(events, end))


def is_root_of(root: str | None, events: Sequence[RunEvent]) -> bool:
    """Whether a root hash is that of a run, in the form of today or in that of older stores.

    Raises:
        UnknownRunError, ContentError: as of `root_hash`.
    """
    return any(root == digest(covered(events, version=version)) for version in (_VERSION, _LISTED))


def sealed(events: Iterable[RunEvent], end: RunFinished) -> RunFinished:
    """The end of a run with its root hash: the last event to add.

    Raises:
        ContentError: something has no JSON form.
    """
    return end.model_copy(update={"root_hash": root_hash(events, end)})


def differences(one: Iterable[RunEvent], other: Iterable[RunEvent]) -> list[str]:
    """In which parts two runs differ, such as `results.before_main_llm.world`; none if their root hashes are equal."""
    return list(_differing(covered(one), covered(other), ""))


def covered(
    events: Iterable[RunEvent], end: RunFinished | None = None, version: int = _VERSION
) -> dict[str, Any]:
    """What the hash is made of, as JSON."""
    history = History.of(events)
    is_listed = version == _LISTED
    end = end or history.end
    snapshot, sent, main = history.snapshot, history.main_started, history.main
    return {
        "version": version,
        "trigger": snapshot.trigger,
        "mode": snapshot.mode,
        "operations": [one.to_dict() for one in snapshot.operations]
        if is_listed
        else [_operation(one) for one in sorted(snapshot.operations, key=lambda one: one.id)],
        "plainPrompt": _messages(snapshot.plain_prompt),
        "results": {
            hook: {
                name: _result(ended) if is_listed else {**_result(ended), **_blockers(ended)}
                for (at, name), ended in history.ended.items()
                if at is hook
            }
            for hook in Hook
        },
        "commits": {hook: _commit(commit) for hook, commit in history.commits.items()},
        "prompt": None if sent is None else _messages(sent.prompt),
        "main": None if main is None else _main(main.reply),
        "reply": history.reply,
        "status": None if end is None else end.status,
        "failedType": None if end is None else end.failed_type,
    }


def _messages(messages: Sequence[RunMessage]) -> list[dict[str, Any]]:
    return [message.model_copy(update={"key": None}).to_dict() for message in messages]


def _operation(operation: Operation) -> dict[str, Any]:
    """An operation, however its sets were listed."""
    told = operation.to_dict()
    config = {
        name: sorted(value, key=canonical_json) if name in _SETS else value
        for name, value in told["config"].items()
    }
    return {**told, "config": config}


def _result(ended: OperationFinished) -> dict[str, Any]:
    result, skip = ended.result, ended.result.skip
    return {
        "status": result.status,
        "required": result.required,
        "effects": [effect.to_dict() for effect in result.effects],
        "error": None if result.error is None else result.error.code,
        "skip": None if skip is None else [skip.reason, skip.dep],
    }


def _blockers(ended: OperationFinished) -> dict[str, Any]:
    result, skip = ended.result, ended.result.skip
    details = skip.to_dict() if skip is not None else result.error.details if result.error is not None else {}
    blocked_by = (details or {}).get("blockedBy")
    return {"blockedBy": blocked_by} if blocked_by else {}


def _commit(commit: CommitFinished) -> dict[str, Any]:
    return {
        "entries": [_entry(entry) for entry in commit.report.get("entries", [])],
        "rewrites": [_rewrite(rewrite) for rewrite in commit.report.get("rewrites", [])],
        "artifacts": {tag: artifact.to_dict() for tag, artifact in commit.artifacts.items()},
    }


def _main(reply: MainReply) -> dict[str, Any]:
    error = None if reply.error is None else reply.error.code
    return {"text": reply.text, "finishReason": reply.finish_reason, "error": error}


def _entry(entry: dict[str, Any]) -> dict[str, Any]:
    told = {key: entry.get(key) for key in ("operationId", "effectIndex", "effectType", "status")}
    return {**told, "error": (entry.get("error") or {}).get("code")}


def _rewrite(rewrite: dict[str, Any]) -> dict[str, Any]:
    return {key: rewrite.get(key) for key in ("operationId", "target", "before", "after")}


def _differing(one: Any, other: Any, where: str) -> Iterable[str]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted({*one, *other}):
            yield from _differing(one.get(key), other.get(key), f"{where}.{key}" if where else str(key))
    elif one != other:
        yield where
