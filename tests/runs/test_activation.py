"""Activation intervals of operations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tract_jupyter.runs import (
    Activation,
    CountedTurn,
    Counters,
    RunMessage,
    advance,
    context_tokens,
    replay,
    skip_details,
    steps_of,
)


def every(turns=None, tokens=None):
    return Activation(every_n_turns=turns, every_n_context_tokens=tokens)


def runs(activation, steps, start=None):
    counters, due = start or Counters(), []
    for step in steps:
        run, counters = advance(activation, counters, step)
        due.append(run)
    return due, counters


USER = CountedTurn("user_message", 100)


def test_every_third_turn():
    """X01: it is due when the interval is reached; then the count starts again."""
    assert runs(every(3), [USER] * 7) == ([False, False, True, False, False, True, False], Counters(1, 100))


def test_tokens_count_the_whole_context_each_time():
    """X01: not only the new tokens."""
    assert runs(every(None, 250), [USER] * 4)[0] == [False, False, True, False]


def test_either_interval_makes_it_due_and_resets_both():
    """X01: OR logic."""
    assert runs(every(2, 1_000), [USER, USER]) == ([False, True], Counters())
    assert runs(every(9, 150), [USER, USER]) == ([False, True], Counters())


@pytest.mark.parametrize("source", ["regenerate", "continue", "system", "something"])
def test_only_the_users_own_messages_count(source):
    """X01, R9: another reply to the same message is not a turn."""
    assert runs(every(2), [CountedTurn(source, 500)] * 5) == ([False] * 5, Counters())


def test_a_reached_interval_waits_for_a_supported_trigger():
    """X01, R23: it remains due, and the count continues."""
    unsupported = CountedTurn("user_message", 100, trigger_supported=False)
    due, counters = runs(every(2), [unsupported] * 3)
    assert (due, counters) == ([False] * 3, Counters(3, 300))
    assert advance(every(2), counters, CountedTurn("regenerate", 100)) == (True, Counters())


@pytest.mark.parametrize("activation", [None, every(), every(0), every(-1, 0.9), every(None, 0)])
def test_without_an_interval_it_is_always_due(activation):
    """X01: an interval below one counts as missing."""
    assert runs(activation, [USER, CountedTurn("regenerate")]) == ([True, True], Counters())


def test_fractions_are_cut_off():
    """X01: in intervals and in tokens."""
    assert runs(every(2.9), [CountedTurn("user_message", 1.9)] * 2) == ([False, True], Counters())
    assert advance(every(5), Counters(), CountedTurn("user_message", 1.9))[1] == Counters(1, 1)


def test_invalid_token_counts_are_counted_as_zero():
    """X01: negative, infinite and NaN."""
    for size in (-5, float("nan"), float("inf")):
        assert advance(every(5), Counters(), CountedTurn("user_message", size))[1] == Counters(1, 0)


def test_counters_are_rebuilt_from_a_history():
    """X01: each user message counts as a run; its context is all earlier messages of user and assistant."""
    history = [("system", 400), ("user", 40), ("assistant", 80), ("user", 41), ("assistant", 9), ("tool", 50)]
    messages = [RunMessage(role=role, content="x" * size) for role, size in history]
    assert steps_of(messages) == [CountedTurn("user_message", 10), CountedTurn("user_message", 40)]
    assert replay(every(5, 1_000), steps_of(messages)) == Counters(2, 50)
    assert replay(every(2), steps_of(messages)) == Counters()
    assert replay(every(2), steps_of(messages, trigger_supported=False)) == Counters(2, 50)
    assert context_tokens(messages) == (40 + 80 + 41 + 9) // 4


def test_a_skip_tells_how_far_it_is():
    """R38, X01: the intervals, and the counters."""
    assert skip_details(every(5, 0), Counters(3, 1200)) == {
        "everyNTurns": 5,
        "turnsCounter": 3,
        "tokensCounter": 1200,
    }


@given(
    st.builds(every, st.none() | st.floats(0, 9), st.none() | st.floats(0, 99)),
    st.lists(
        st.builds(
            CountedTurn, st.sampled_from(["user_message", "regenerate"]), st.floats(0, 50), st.booleans()
        )
    ),
    st.integers(0, 20),
)
def test_replaying_a_history_in_parts_is_replaying_it(activation, steps, cut):
    """X01: only the counters have to be stored."""
    start = replay(activation, steps[:cut])
    assert replay(activation, steps[cut:], start) == replay(activation, steps)
