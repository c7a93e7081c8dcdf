"""A prompt accepts every word that it offers, and the label of each button."""

from __future__ import annotations

import pytest

from tract_jupyter import ActionDef, OperationSpec, Tract
from tract_jupyter.scripts import PendingScript

GO = {"go": ActionDef("go", "", {}, "pending.approve()")}
TWO = {**GO, "stop": ActionDef("stop", "", {}, "pending.reject('no')")}


@pytest.fixture
def t():
    with Tract.open() as tract:
        yield tract


def operation(actions):
    def make(t):
        t.register_operation(
            OperationSpec("deploy", "Deploy it.", {"n": {"type": "int", "default": 1}}, actions)
        )
        return t.fire("deploy", {"n": 1}, review=True)

    return make


def tool_call(t):
    def send(to: str) -> None:
        """Send."""

    t.tool(send)
    return t.executor.prepare("send", {"to": "Bo"}, actor="agent:1").question


def script(t):
    return PendingScript("1", notebook_id="main", tract=t, actor="agent:1", execute_fn=lambda _: None)


def decide(pending, *typed):
    """Type lines, then an empty one; return the prompts."""
    asked, lines = [], iter(typed)

    def read(question):
        asked.append(question)
        return next(lines, "")

    pending.review(read)
    return asked


@pytest.mark.parametrize("make", [operation(GO), operation(TWO), tool_call, script])
def test_every_offered_word_is_taken(t, make, capsys):
    offered = decide(make(t))[0].partition("?")[0].split(" / ")
    assert "reject" in offered
    for word in offered:
        with Tract.open() as other:
            pending = make(other)
            decide(pending, word, *([""] if word == "reject" else []))
            assert "Type one of the names" not in capsys.readouterr().out
            assert pending.status == ("rejected" if word in {"reject", "stop"} else "approved")


@pytest.mark.parametrize(
    ("make", "typed", "action"),
    [
        (operation(GO), "run", "go"),
        (operation(GO), "Run go", "go"),
        (operation(GO), "approve without running", "approve"),
        (operation(TWO), "run stop", "stop"),
        (tool_call, "run", "approve"),
        (tool_call, "Run send", "approve"),
        (script, "Run", "approve"),
    ],
)
def test_the_label_of_a_button_is_taken(t, make, typed, action):
    pending = make(t)
    decide(pending, typed)
    assert pending.decision.action == action


def test_the_beginning_of_several_labels_is_asked_again(t, capsys):
    pending = operation(TWO)(t)
    decide(pending, "run")
    assert "Type one of the names" in capsys.readouterr().out
    assert pending.status == "pending"
