"""The order of operations, for start and commit."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tract_jupyter.runs import ready_order


def test_a_newly_ready_operation_with_a_smaller_order_comes_first():
    """G9, R60: it comes before operations that were ready earlier."""
    nodes = [("a", 10, ()), ("b", 20, ()), ("c", 5, ("a",))]
    assert ready_order(nodes) == (["a", "c", "b"], [])


def test_dependencies_come_first_whatever_their_order():
    """R60: unknown dependencies do not count."""
    nodes = [("first", 99, ()), ("second", 1, ("first", "first", "ghost"))]
    assert ready_order(nodes) == (["first", "second"], [])
    assert ready_order(iter(nodes)) == (["first", "second"], [])
    assert ready_order([]) == ([], [])


def test_operations_on_or_behind_a_cycle_are_named():
    """G6: the others are ordered."""
    nodes = [("z", 1, ("a",)), ("a", 1, ("a",)), ("ok", 1, ())]
    assert ready_order(nodes) == (["ok"], ["a", "z"])


def test_ready_operations_are_sorted_by_order_then_by_code_point():
    """G8: the smallest at each step."""
    nodes = [("op2", 1, ()), ("op10", 1, ()), ("z", 0.5, ()), ("B", 1, ()), ("a", 1, ())]
    assert ready_order(nodes) == (["z", "B", "a", "op10", "op2"], [])


@st.composite
def graphs(draw):
    """Nodes without cycles, in any order."""
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
    """R58, R60: the smallest ready node at each step, compared with a slow search."""
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
