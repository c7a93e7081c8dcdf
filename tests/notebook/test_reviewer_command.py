"""`%tract reviewer`: on, off, what it decided; and the row of a call that was cleared."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.hooks.reviewing import Reviewing, decided, make_ready
from tests.review.fakes import FakeChannel
from tract_jupyter.hooks import ModelReviewer
from tract_jupyter.notebook.chat import decided_brief
from tract_jupyter.review import Decision


def tag(tract, names, label):
    return tract.executor.execute("tag", {"commit_hash": names["$USER"], "tag": label}, actor="agent:chat")


def test_it_is_off_and_says_how_to_switch_it_on(shell):
    assert "Off: you are asked about each call" in shell.run("%tract reviewer").text


def test_without_a_model_it_is_not_switched_on(shell):
    assert "no language model is configured" in shell.run("%tract reviewer on").error
    assert shell.namespace["tract"].review.model_reviewer is None


def test_on_log_and_off(shell):
    shell.run("%tract status")
    tract = shell.namespace["tract"]
    names = make_ready(tract)
    tract.models.use(Reviewing("clear"), operation="review")
    assert "A model reviews calls before you are asked" in shell.run("%tract reviewer on").text
    assert tag(tract, names, "birds").success
    tract.review.model_reviewer = ModelReviewer(Reviewing(lambda _: decided("ask", "<b>odd</b>")))
    tract.reviewer.channel = FakeChannel(reachable=False)
    tag(tract, names, "spring")
    tag(tract, names, "delete-all-of-it")
    shown = shell.run("%tract reviewer log")
    for words in ("cleared", "passed on", "kept", "it is what was asked for", "scripted-1"):
        assert words in shown.text
    assert "<b>odd</b>" not in shown.html
    assert "1 cleared, 0 refused, 1 passed on, 1 kept" in shell.run("%tract reviewer").text
    assert "No model reviews calls" in shell.run("%tract reviewer off").text
    assert tract.review.model_reviewer is None


@pytest.mark.parametrize(
    ("action", "short"),
    [("approve", "cleared by small-1: it fits"), ("reject", "small-1, ")],
)
def test_a_row_says_who_cleared_it_and_why(action, short):
    at = datetime(2026, 11, 3, 12, 0, tzinfo=UTC)
    decision = Decision(action, {"reason": "it fits"}, "model-reviewer", "f", "model:small-1", at)
    said, full = decided_brief(decision)
    assert said.startswith(short)
    assert "model:small-1 (model-reviewer)" in full
