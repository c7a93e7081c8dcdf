"""Vectors of a commit."""

from __future__ import annotations

from itertools import islice, permutations
from typing import Any

from tests.vectors.adapters.artifacts import told_artifacts
from tests.vectors.adapters.prompt import plain_messages
from tract_jupyter.exceptions import PlanError, RunError
from tract_jupyter.runs import CommitItem, Hook, MemoryTarget, OperationStatus, Prompt, Turn, commit

Given = dict[str, Any]


class _Target(MemoryTarget):
    """Notes each write of the user's message; it names parts as the vectors do."""

    def __init__(self, given: Given) -> None:
        super().__init__(session=given.get("sessionKey"))
        self._fails = given.get("persistFails", False)
        self._first = (given.get("userTarget") or {}).get("mainPartId")
        self.calls: list[Given] = []

    def rewrite(self, target: str, part: str | None, text: str, operation_id: str) -> str:
        if target == "reply":
            return super().rewrite(target, part, text, operation_id)
        if part is None:
            raise RunError("a user target is required")
        if self._fails:
            raise RunError("persisting failed")
        super().rewrite(target, part, text, operation_id)
        self.calls.append({"mainPartId": part, "text": text})
        return f"{self._first.rstrip('0123456789')}{len(self.calls)}"


def commit_phase(given: Given) -> Given:
    orders = list(islice(permutations(given["ops"]), 720)) if given.get("permuteInput") else [given["ops"]]
    found = [_committed(given, list(ops)) for ops in orders]
    assert all(one == found[0] for one in found), "the result depends on the input's order"
    return found[0]


def _committed(given: Given, ops: list[Given]) -> Given:
    target = _Target(given)
    part = (given.get("userTarget") or {}).get("mainPartId")
    turn = Turn(
        prompt := Prompt.of(given.get("messages") or ()),
        prompt.user.content if prompt.user else "",
        part,
        given.get("assistantText", "") if given["hook"] == Hook.AFTER else given.get("assistantText"),
    )
    try:
        turn, report = commit(Hook(given["hook"]), [_item(one) for one in ops], turn, target)
    except PlanError as error:
        return {"planError": error.code, "error": {"code": error.code}}
    told = [(one.operation_id, one.effect_type, one.status) for one in report.entries]
    return {
        "requiredError": report.required_error,
        "reportStatus": report.status,
        "commitOrder": list(report.order),
        "report": [list(one) for one in told],
        "codes": [one.error.code if one.error else None for one in report.entries],
        "errors": [one.error.code for one in report.entries if one.error],
        "events": [f"{status}:{name}:{kind}" for name, kind, status in told],
        "messages": plain_messages(turn.prompt),
        "assistantText": turn.reply,
        "userText": turn.user_text,
        "persistCalls": target.calls,
        "history": [
            {
                "id": one.operation_id,
                "before": one.before,
                "after": one.after,
                "replacedPartId": one.replaced,
                "canonicalPartId": one.part,
            }
            for one in report.rewrites
            if one.target == "user"
        ],
        "artifacts": told_artifacts(turn.artifacts.view),
    }


def _item(op: Given) -> CommitItem:
    return CommitItem(
        op["id"],
        op["order"],
        op.get("dependsOn") or (),
        op.get("required") or False,
        OperationStatus(op.get("status", "done")),
        op.get("effects") or (),
    )
