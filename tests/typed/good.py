"""A user's script, right in every line: type checkers find nothing in it."""

from __future__ import annotations

from typing import assert_type

from tract_jupyter import (
    ActionDef,
    CommitInfo,
    CompiledContext,
    OperationProfile,
    OperationSpec,
    PendingStatus,
    RejectedError,
    Session,
    Tract,
    TractError,
    UndecidedError,
    run_operation,
)
from tract_jupyter.runs import Run, RunResponse
from tract_jupyter.storage import StoredPending


def use(tract: Tract) -> int:
    """Use what the root offers."""
    info = tract.user("Hello.", tags=["first"])
    assert_type(info, CommitInfo)
    context = tract.compile()
    assert_type(context, CompiledContext)
    spec = OperationSpec(
        "o", "An operation.", {"n": {"type": "int"}}, {"a": ActionDef("a", "", {}, "pending.approve()")}
    )
    tract.register_operation(spec)
    fired = tract.fire("o", {"n": 1}, review=True)
    fired.a()
    assert_type(fired.status, PendingStatus)
    done = tract.fire("o", {"n": 1}, execute_fn=lambda pending: len(pending.fields))
    if isinstance(done, int):
        assert_type(done, int)
    tract.propose_merge("topic", strategy="strict").approve()
    tract.tags.add(info.commit_hash, "seen")
    for waiting in tract.review.inbox():
        assert_type(waiting, StoredPending)
        print(waiting.title)
    profile = OperationProfile.of("guide", [run_operation("style", order=1, text="Be brief.", into="system")])
    tract.profiles.save(profile, activate=True)

    reply = tract.chat("Where are we?", profile=profile)
    assert_type(reply, RunResponse)
    assert_type(reply.run, Run | None)
    if reply.run:
        assert_type(tract.generate(trigger="regenerate"), RunResponse)
        assert_type(tract.runs.resume(reply.run.run_id), RunResponse)

    @tract.tool(read_only=True)
    def double(n: int) -> int:
        return 2 * n

    assert_type(double(2), int)
    assert_type(tract.tool(double, name="twice", read_only=True)(2), int)
    return context.token_count


with Tract.open() as opened:
    assert_type(opened, Tract)
    try:
        use(opened)
    except (RejectedError, UndecidedError) as refused:
        print(refused)
    except TractError as error:
        print(error)

with Session.open() as session:
    assert_type(session, Session)
