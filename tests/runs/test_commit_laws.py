"""Laws for any queue: the result does not depend on the order in which operations end."""

from __future__ import annotations

from copy import deepcopy

from hypothesis import given
from hypothesis import strategies as st

from tract_jupyter.runs import (
    CommitItem,
    Hook,
    MemoryTarget,
    OperationStatus,
    Prompt,
    Turn,
    commit,
    commit_order,
)

TEXT = st.sampled_from(["", "x", "y", "\u00e4"])
ROLE = st.sampled_from(["system", "user", "assistant", "developer", "tool"])
EFFECTS = st.one_of(
    st.fixed_dictionaries({"type": st.just("prompt.append_after_last_user"), "role": ROLE, "content": TEXT}),
    st.fixed_dictionaries({
        "type": st.just("prompt.insert_at_depth"), "role": ROLE, "content": TEXT, "depthFromEnd": st.integers(-3, 3),
    }),
    st.fixed_dictionaries({
        "type": st.just("prompt.system_update"), "mode": st.sampled_from(["prepend", "append", "replace", "?"]), "payload": TEXT,
    }),
    st.fixed_dictionaries({"type": st.sampled_from(["turn.user.replace_text", "turn.assistant.replace_text"]), "text": TEXT}),
    st.fixed_dictionaries({
        "type": st.just("artifact.upsert"), "tag": st.sampled_from(["a", "b", ""]),
        "value": st.sampled_from([None, [1], {"k": [1]}, float("nan")]),
        "persistence": st.sampled_from(["persisted", "run_only"]),
    }),
    st.sampled_from([None, 3, {"type": "nothing"}]),
)  # fmt: skip
NAMES = [f"op{n}" for n in range(8)]


@st.composite
def queues(draw):
    """Operations that depend on earlier ones in a hidden order, given in another order."""
    names = draw(st.permutations(NAMES))[: draw(st.integers(0, len(NAMES)))]
    items = [
        CommitItem(
            name,
            draw(st.integers(0, 3)),
            draw(st.lists(st.sampled_from([*names[:place], "gone"]), max_size=3, unique=True)),
            draw(st.booleans()),
            draw(st.sampled_from([OperationStatus.DONE] * 4 + [OperationStatus.SKIPPED])),
            draw(st.lists(EFFECTS, max_size=4)),
        )
        for place, name in enumerate(names)
    ]
    return draw(st.permutations(items))


HOOKS = st.sampled_from(list(Hook))
MESSAGES = st.lists(st.sampled_from(["system", "user", "assistant"]), max_size=3)


def turn_of(roles):
    prompt = Prompt.of([{"role": role, "content": role[0]} for role in roles])
    return Turn(prompt, "u", "part", "reply")


@given(queues(), st.data(), HOOKS, MESSAGES)
def test_the_input_order_changes_nothing(queue, data, hook, roles):
    """R58, R60: the report, the prompt, the texts and the artifacts are the same."""
    shuffled = data.draw(st.permutations(queue))
    one, other = (
        commit(hook, given_, turn_of(roles), MemoryTarget(session="s")) for given_ in (queue, shuffled)
    )
    assert one == other
    assert one.turn.artifacts.view == other.turn.artifacts.view


@given(queues(), HOOKS, MESSAGES)
def test_commit_does_not_modify_its_arguments(queue, hook, roles):
    """R29, R62: neither the effects nor the turn change."""
    turn = turn_of(roles)
    copies = [repr(one) for one in queue], deepcopy(turn)
    commit(hook, queue, turn, MemoryTarget(session="s"))
    assert ([repr(one) for one in queue], turn) == copies


@given(queues())
def test_the_commit_order_takes_the_smallest_ready_operation_after_its_dependencies(queue):
    """R60, G9: each step selects the smallest ready operation."""
    done = {one.operation_id: one for one in queue if one.status is OperationStatus.DONE}
    order = commit_order(queue)
    assert sorted(order) == sorted(done)
    for place, name in enumerate(order):
        before = set(order[:place])
        ready = [
            (one.order, one.operation_id)
            for one in done.values()
            if one.operation_id not in before
            and before >= {other for other in one.depends_on if other in done}
        ]
        assert min(ready) == (done[name].order, name)


@given(queues(), HOOKS, MESSAGES)
def test_each_effect_of_a_done_operation_has_one_report_entry(queue, hook, roles):
    """R59, E8: applied, or an error with a reason; an error of a required operation fails the commit."""
    report = commit(hook, queue, turn_of(roles), MemoryTarget(session="s")).report
    done = {one.operation_id: one for one in queue if one.status is OperationStatus.DONE}
    assert [(one.operation_id, one.effect_index) for one in report.entries] == [
        (name, place) for name in report.order for place in range(len(done[name].effects))
    ]
    assert all((one.error is None) == (one.status == "applied") for one in report.entries)
    assert report.required_error == any(
        done[one.operation_id].required for one in report.entries if one.error
    )


@given(queues(), HOOKS, MESSAGES)
def test_committing_again_changes_nothing(queue, hook, roles):
    """R58: the same turn and report, and nothing is written."""
    target = MemoryTarget(session="s")
    first = commit(hook, queue, turn_of(roles), target)
    kept = dict(target.parts), target.artifacts()
    assert commit(hook, queue, turn_of(roles), target) == first
    assert (dict(target.parts), target.artifacts()) == kept


def test_a_long_chain_is_committed_in_order():
    """R60: recursion does not limit the number of operations."""
    names = [f"op{n}" for n in range(3_000)]
    queue = [
        CommitItem(name, 0, names[max(place - 1, 0) : place], effects=({"type": "nothing"},))
        for place, name in enumerate(names)
    ]
    assert commit(Hook.AFTER, queue[::-1], Turn(), MemoryTarget()).report.order == tuple(names)
