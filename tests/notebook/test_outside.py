"""`%tract agent` and `%%tract_chat --agent` in a shell without a kernel."""

import json
import sys

import pytest

from tests.outside.conftest import FAKE, writing


@pytest.fixture
def agent(tmp_path):
    """A function that writes a scripted agent program and returns its path."""

    def make(name="bird-agent", **script):
        (tmp_path / f"{name}.json").write_text(json.dumps(script))
        path = tmp_path / name
        path.write_text(
            f"#!{sys.executable}\nimport sys, runpy\nsys.argv[1:] = [open({str(path) + '.json'!r}).read()]\n"
            f"runpy.run_path({str(FAKE)!r}, run_name='__main__')\n"
        )
        path.chmod(0o755)
        return str(path)

    return make


def test_a_missing_program_or_variable_of_an_agent_is_reported_at_once(shell, monkeypatch):
    monkeypatch.setenv("PATH", "/no/such")
    told = shell.run("%tract agent use claude --env NO_SUCH_KEY").text
    assert "'claude-agent-acp' was not found. Install it: npm install" in told
    assert "NO_SUCH_KEY is not set in this kernel" in told


def test_an_agent_works_on_the_messages_until_stop(shell, agent):
    path = agent(prompts=[[["text", "Hello **you**."]], [["text", "Again."]]])
    assert "sends messages to bird-agent until" in shell.run(f"%tract agent use {path}").text
    shown = shell.run("%%tract_chat\nHi.").text
    assert "This agent decides by itself when to ask." in shown
    assert "Hello **you**." in shown
    again = shell.run(f"%%tract_chat --agent {path} --out r\nHi again.")
    assert "Again." in again.text
    assert shell.namespace["r"].text == "Again."
    assert "Again." in shell.run("%tract chat show").text
    assert "Ended:" in shell.run("%tract agent stop").text
    assert "no language model is configured" in shell.run("%%tract_chat\nHi.").error
    assert "sends messages to the model" in shell.run("%tract agent").text


def test_without_a_user_a_request_is_rejected_and_nothing_changes(shell, agent, tmp_path):
    path = agent(prompts=[writing("new.py"), [["text", "Then not."]]])
    shown = shell.run(f"%%tract_chat --agent {path}\nWrite a file.")
    assert "Rejected edit “no user was available to decide”  tract_jupyter" in shown.text
    assert "Then not." in shown.text
    assert not list(tmp_path.rglob("new.py"))


@pytest.mark.parametrize(
    ("cell", "why"),
    [
        ("%%tract_chat --agent claude --model gpt\nHi.", "so --model has no effect"),
        ("%%tract_chat --agent claude --plan\nHi.", "so --plan has no effect"),
        ("%%tract_chat --agent claude --retry\n", "--retry repeats a message for a model"),
        ("%%tract_chat --agent cloude\nHi.", "Unknown agent 'cloude'"),
        ("%tract agent use", "usage: %tract agent"),
        ("%tract agent use claude --env", "usage: %tract agent"),
        ("%tract agent use cloude", "Unknown agent 'cloude'"),
    ],
)
def test_mistakes(shell, cell, why):
    result = shell.run(cell)
    assert not result.ok
    assert why in result.error


def test_completions(shell):
    assert "claude" in shell.complete("%tract agent use ")
    assert shell.complete("%tract agent ") == ["use", "stop"]
    assert "opencode" in shell.complete("%%tract_chat --agent ")
