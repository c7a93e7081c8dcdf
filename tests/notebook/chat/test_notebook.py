"""A turn of `%%tract_chat` and the notebook: variables and undo."""

from __future__ import annotations

import json

import pytest


@pytest.fixture
def tract(shell):
    """The notebook's tract with a model that reads a variable once and then answers."""

    def model(messages, **_):
        if messages[-1]["role"] == "tool":
            return f"I was told: {messages[-1]['content']}"
        arguments = json.dumps({"code": "len(rows)", "backend": "kernel", "notebook_id": "user"})
        call = {
            "id": "c1",
            "type": "function",
            "function": {"name": "notebook_execute", "arguments": arguments},
        }
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        return {"choices": [{"message": message, "finish_reason": "tool_calls"}]}

    shell.run("rows = [1, 2]")
    tract = shell.namespace["tract"]
    tract.models.use(model)
    return tract


def test_its_model_may_ask_for_the_variables_of_the_notebook(shell, tract):
    assert shell.run("%%tract_chat\nHow many rows are there?").ok
    (waiting,) = tract.review.inbox()
    assert waiting.fields == {"code": "len(rows)", "notebook_id": "user"}


def test_the_reason_of_a_rejection_is_not_a_turn(shell, tract):
    shell.run("%%tract_chat\nHow many rows are there?")
    tract.commit(
        {"content_type": "dialogue", "role": "user", "text": "I rejected 'x': no"},
        metadata={"rejected": "p1"},
    )
    (turn,) = tract.loop.turns()
    assert turn.text == "How many rows are there?"


def test_the_last_turn_is_taken_back_and_put_back(shell, tract):
    shell.run("%%tract_chat\nHow many rows are there?")
    first = tract.head
    shell.run("%%tract_chat\nAre you sure?")
    result = shell.run("%tract chat undo")
    assert "Undone: Are you sure?" in result.text
    assert tract.head == first
    shell.run("%tract undo --yes")
    assert [turn.text for turn in tract.loop.turns()] == ["How many rows are there?", "Are you sure?"]
    shell.run("%tract chat undo")
    assert "Undone: How many rows" in shell.run("%tract chat undo").text
    assert len(tract.loop.turns()) == 0


def test_undo_without_a_turn_changes_nothing(shell, tract):
    result = shell.run("%tract chat undo")
    assert "there is no turn to undo" in result.text + result.error
    assert tract.head is None


def test_undo_takes_nothing_more(shell, tract):
    result = shell.run("%tract chat undo everything")
    assert "there is no commit 'everything'" in result.text + result.error
    result = shell.run("%tract chat undo 1 2")
    assert "chat undo [N|COMMIT] [--yes] [--conversation] [--force NAME]" in result.text + result.error


def test_undo_is_completed(shell):
    assert "undo" in shell.complete("%tract chat u")
