"""A user's script, right in every line: type checkers find nothing in it."""

from __future__ import annotations

from typing import assert_type

from tract_jupyter import (
    ActionDef,
    CommitInfo,
    CompiledContext,
    OperationProfile,
    OperationSpec,
    Session,
    Tract,
    TractError,
    run_operation,
)


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
    tract.fire("o", {"n": 1})
    for waiting in tract.inbox():
        print(waiting.title)
    profile = OperationProfile.of("guide", [run_operation("style", order=1, text="Be brief.", into="system")])
    tract.profiles.save(profile, activate=True)

    @tract.tool(read_only=True)
    def double(n: int) -> int:
        return 2 * n

    assert_type(double(2), int)
    return context.token_count


with Tract.open() as opened:
    assert_type(opened, Tract)
    try:
        use(opened)
    except TractError as error:
        print(error)

with Session.open() as session:
    assert_type(session, Session)
