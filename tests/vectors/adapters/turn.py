"""Vectors of the turn: rewriting the user's message in a tract."""

from __future__ import annotations

from typing import Any

from tests.runs.targets import target_of
from tests.vectors.adapters.artifacts import told_error
from tract_jupyter import Tract
from tract_jupyter.runs import CommitItem, CommitResult, Hook, Prompt, TractTarget, Turn, commit

Given = dict[str, Any]
_OWNER = "me"


def persist_user_rewrite(given: Given) -> Given:
    """The part is a commit, with its fields as metadata; its entry is the turn that it begins."""
    part, target = given.get("part"), given.get("target")
    with Tract.open(":memory:") as tract:
        tract.system("S")
        known = {} if part is None else {part["partId"]: _begun(tract, part)}
        if part is not None and target is not None and target["entryId"] != part["entryId"]:
            tract.user("another turn")
        wanted = None if target is None else known.get(target["mainPartId"], target["mainPartId"])
        before = tract.head
        turn, report = _rewritten(tract, target_of(tract), Hook.BEFORE, _turn(tract, wanted), given["text"])
        error = told_error(report.entries[0].error)
        if error is not None:
            return {"error": error, "created": None, "unchanged": tract.head == before}
        names = {commit_hash: name for name, commit_hash in known.items()}
        rewrite = report.rewrites[0]
        return {
            "created": {**_created(tract, turn.user_part or "", names), "tags": _tags(tract, turn, part)},
            "previousText": tract.get_content(rewrite.replaced or "")["text"],
            "replacedPartId": names[rewrite.replaced or ""],
        }


def two_phase_user_rewrite(given: Given) -> Given:
    """Parts are named in the order in which they are made, from the target's name on."""
    first = given["userTarget"]["mainPartId"]
    with Tract.open(":memory:") as tract:
        names = {tract.user("u").commit_hash: first}
        target, turn = target_of(tract), _turn(tract, next(iter(names)))
        calls = []
        for hook, text in ((Hook.BEFORE, given.get("before")), (Hook.AFTER, given.get("after"))):
            if text is None:
                continue
            turn, report = _rewritten(tract, target, hook, turn, text)
            for one in report.rewrites:
                calls.append({"mainPartId": names[one.replaced or ""], "text": one.after})
                names[one.part or ""] = f"{first.rstrip('0123456789')}{len(names)}"
        return {"persistCalls": calls, "text": tract.compile().messages[-1].content}


def _begun(tract: Tract, part: Given) -> str:
    """A part of another owner is in another tract."""
    if part.get("ownerId", _OWNER) != _OWNER:
        with Tract.open(":memory:") as other:
            return other.user(part["text"]).commit_hash
    return tract.user(part["text"], metadata=dict(part), tags=part.get("tags", ())).commit_hash


def _turn(tract: Tract, part: str | None) -> Turn:
    return Turn.of(Prompt.of(tract.compile().to_dicts()), user_part=part)


def _rewritten(tract: Tract, target: TractTarget, hook: Hook, turn: Turn, text: str) -> CommitResult:
    item = CommitItem("op", 10, effects=({"type": "turn.user.replace_text", "text": text},))
    return commit(hook, [item], turn, target)


def _created(tract: Tract, part: str, names: dict[str, str]) -> Given:
    info = tract.get_commit(part)
    kept = {
        name: info.metadata.get(name)
        for name in ("variantId", "channel", "order", "payloadFormat", "createdTurn")
    }
    return {
        **kept,
        "payload": tract.get_content(part)["text"],
        "source": info.metadata["source"],
        "replacesPartId": names[info.metadata["replaces"]],
    }


def _tags(tract: Tract, turn: Turn, part: Given) -> list[str]:
    """A commit's tags are a set: those of the part come first, in its order."""
    found = tract.get_commit(turn.user_part or "").tags
    kept = [tag for tag in part.get("tags", ()) if tag in found]
    return [*kept, *(tag for tag in found if tag not in kept)]
