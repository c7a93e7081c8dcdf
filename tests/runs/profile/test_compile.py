"""Profiles as one list of operations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tract_jupyter.exceptions import ProfileError
from tract_jupyter.runs.profile import BlockRef, OperationBlock, OperationProfile, run_operation


def op(name, order=1.0, **more):
    return run_operation(name, order=order, text="x", **more)


def priority(profile):
    compiled = profile.compile().operations
    return [one.id for one in sorted(compiled, key=lambda one: (one.config.order, one.id))]


def test_own_operations_keep_their_ids_and_come_first():
    """R24, E19: the ids of a profile's own operations have no prefix."""
    profile = OperationProfile.of(
        "p", [op("late", 9_000_000)], [OperationBlock.of("b", [op("early", -5)])], version=3
    )
    compiled = profile.compile()
    assert [one.id for one in compiled.operations] == ["late", "b:early"]
    assert priority(profile) == ["late", "b:early"]
    assert compiled.fingerprint == "p:3|b:1"
    assert (compiled.profile_id, compiled.version, compiled.session_id) == ("p", 3, "default")


def test_ids_get_the_prefix_of_their_block_also_in_references():
    """R25, E23, X11: in dependencies and in conditions."""
    these = [
        run_operation("g", "guard", order=1, outputs=["yes"], text="?"),
        op("a", 2, only_if={"g.yes": True}),
    ]
    compiled = OperationProfile.of("p", blocks=[OperationBlock.of("b", these)]).compile().operations
    assert compiled[1].config.depends_on == ("b:g",)
    assert compiled[1].config.run_conditions[0].source == "b:g"
    assert compiled[1].definition.name == "a"


def test_disabled_blocks_and_profiles_are_left_out():
    """R18, E9, X11: references, blocks, and whole profiles. A disabled operation remains, so that
    the run can record it (G2)."""
    block = OperationBlock.of("b", [op("a", enabled=False)])
    assert [one.id for one in OperationProfile.of("p", blocks=[block]).compile().operations] == ["b:a"]
    refs = [BlockRef(block=block, enabled=False)]
    off = OperationBlock.of("off", [op("a")], enabled=False)
    for profile in (
        OperationProfile.of("p", [op("a")], enabled=False),
        OperationProfile.of("p", blocks=[*refs, off]),
        OperationProfile.of("p"),
    ):
        compiled = profile.compile()
        assert (compiled.operations, compiled.fingerprint) == ((), "")


def test_tags_have_one_writer_over_all_blocks():
    """E16, X11: disabled operations do not count as writers."""
    one, other = (OperationBlock.of(name, [op("a", tag="same")]) for name in "xy")
    with pytest.raises(ProfileError, match="art.same is written by x:a, y:a") as caught:
        OperationProfile.of("p", blocks=[one, other]).compile()
    assert caught.value.problems[0][0] == "duplicate_tag"
    assert OperationProfile.of("p", blocks=[one, BlockRef(block=other, enabled=False)]).compile().operations


def test_ids_are_unique_over_all_blocks():
    """E19, X11: block `a:b` with `c`, and block `a` with `b:c`, would get the same id."""
    with pytest.raises(ProfileError, match="have this id"):
        OperationProfile.of(
            "p", blocks=[OperationBlock.of("a:b", [op("c")]), OperationBlock.of("a", [op("b:c")])]
        ).compile()


orders = st.one_of(
    st.integers(-3, 3), st.floats(-2e6, 2e6), st.sampled_from([1e300, -1e300, 999_999, 1e6, 0.2, 0.7])
)


@given(st.lists(st.lists(orders, max_size=5), max_size=4), st.lists(orders, min_size=4, max_size=4))
def test_operations_are_sorted_by_block_order_then_by_their_own_order(blocks, places):
    """R24, R60, X11: for any numbers, without overflow and without loss of order."""
    refs = [
        BlockRef(
            block=OperationBlock.of(f"b{place}", [op(f"{i}", order) for i, order in enumerate(block)]),
            order=places[place],
        )
        for place, block in enumerate(blocks)
    ]
    profile = OperationProfile.of("p", blocks=refs)
    wanted = [
        (ref.order, ref.block.block_id, one.config.order, f"{ref.block.block_id}:{one.id}")
        for ref in refs
        for one in ref.block.operations
    ]
    assert priority(profile) == [name for *_, name in sorted(wanted)]
