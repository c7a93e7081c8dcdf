"""The order of operations, for starting and for committing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tract_jupyter.runs import ready_order


def test_whoever_is_smaller_overtakes():
    """G9, R60: a dependent that is free now goes before those that were ready long ago."""
    nodes = [("a", 10, ()), ("b", 20, ()), ("c", 5, ("a",))]
    assert ready_order(nodes) == (["a", "c", "b"], [])


def test_dependencies_come_first_whatever_their_order():
    """R60: and unknown ones do not count."""
    nodes = [("first", 99, ()), ("second", 1, ("first", "first", "ghost"))]
    assert ready_order(nodes) == (["first", "second"], [])
    assert ready_order(iter(nodes)) == (["first", "second"], [])
    assert ready_order([]) == ([], [])


def test_what_is_on_a_circle_or_behind_one_is_named():
    """G6: and the others are ordered."""
    nodes = [("z", 1, ("a",)), ("a", 1, ("a",)), ("ok", 1, ())]
    assert ready_order(nodes) == (["ok"], ["a", "z"])


def test_what_is_ready_comes_by_order_and_then_by_code_point():
    """G8: each time the smallest."""
    nodes = [("op2", 1, ()), ("op10", 1, ()), ("z", 0.5, ()), ("B", 1, ()), ("a", 1, ())]
    assert ready_order(nodes) == (["z", "B", "a", "op10", "op2"], [])


@st.composite
def graphs(draw):
    """Nodes without circles, in any order."""
    count = draw(st.integers(0, 12))
    names = draw(st.permutations([f"n{index}" for index in range(count)]))
    nodes = [
        (
            name,
            draw(st.integers(-2, 2)),
            tuple(draw(st.sets(st.sampled_from(names[:index])))) if index else (),
        )
        for index, name in enumerate(names)
    ]
    return draw(st.permutations(nodes))


@given(graphs(), st.randoms())
def test_the_order_does_not_depend_on_how_nodes_came_in(nodes, random):
    """R58, R60: the smallest ready one each time, as looked up the slow way."""
    found, stuck = ready_order(nodes)
    assert not stuck
    left, expected = list(nodes), []
    while left:
        ready = [node for node in left if set(node[2]) <= set(expected)]
        smallest = min(ready, key=lambda node: (node[1], node[0]))
        expected.append(smallest[0])
        left.remove(smallest)
    assert found == expected
    random.shuffle(nodes)
    assert ready_order(nodes)[0] == found
