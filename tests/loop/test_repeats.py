"""Steps that only repeat earlier steps are detected, also in cycles. Other steps are not."""

from __future__ import annotations

import pytest

from tests.review.scripted import call, reply
from tract_jupyter.loop import RepetitionGuard

LONGEST = 8


def looks(period, rounds):
    cities = [f"city {number % period}" for number in range(period * rounds)]
    return [reply(None, call("look", {"city": city}, f"c{number}")) for number, city in enumerate(cities)]


@pytest.mark.parametrize("period", range(1, LONGEST + 1))
def test_steps_in_turn_are_not_made_a_third_time(talk, script, done, period):
    client = script(*looks(period, 3), "ok")
    response = talk.chat("Go.")
    expected = "answer" if period == 1 else "repeat"  # with period 1, the skipped step is the last one
    assert (response.outcome, len(done)) == (expected, 2 * period)
    assert len(client.asked) == (4 if period == 1 else 2 * period + 2)


def test_more_steps_in_turn_are_work(talk, script, done):
    script(*looks(LONGEST + 1, 3), "ok")
    assert talk.chat("Go.").text == "ok"
    assert len(done) == 3 * (LONGEST + 1)


@pytest.mark.parametrize("period", range(1, LONGEST + 1))
def test_one_different_outcome_is_not_a_repetition(period):
    guard = RepetitionGuard()
    for number in range(2 * period):
        guard.note([f"key {number % period}"], ["new" if number == 2 * period - 1 else "same"])
    assert guard.expected_outcomes(["key 0"]) is None
