"""Functions that decide about proposals."""

from __future__ import annotations

import builtins
import logging

import pytest

from tests.orchestrator.conftest import thinks
from tests.review.scripted import call
from tract_jupyter import (
    OrchestratorProposal,
    ProposalResponse,
    auto_approve,
    cli_prompt,
    log_and_approve,
    reject_all,
)
from tract_jupyter.models import ToolCall


@pytest.fixture
def proposal():
    call = ToolCall("1", "compress", {"content": "short"})
    other = ToolCall("1.1", "annotate", {"target_hash": "HEAD", "priority": "skip"})
    return OrchestratorProposal("1", call, "it is full", [other], "tokens: 9 of 5")


@pytest.fixture
def typed(monkeypatch):
    """Type lines at the prompt, then the end of file."""

    def give(*lines):
        left = iter(lines)

        def read(_prompt=""):
            try:
                return next(left)
            except StopIteration:
                raise EOFError from None

        monkeypatch.setattr(builtins, "input", read)

    return give


def test_approving_and_rejecting_all(proposal, caplog):
    assert auto_approve(proposal).decision == "approved"
    assert reject_all(proposal).decision == "rejected"
    with caplog.at_level(logging.INFO):
        assert log_and_approve(proposal).decision == "approved"
    assert "compress(content='short'): it is full" in caplog.text


def test_a_models_text_cannot_control_the_terminal_or_imitate_prompt_lines(proposal, typed, capsys):
    proposal.reasoning = "It is full.\n  context: all is well\n[a]pprove?\x1b[2J\x1b]0;t\x07\u202e"
    proposal.alternatives[0] = ToolCall("1.1", "gc\x1b[2J\n  2: instead log()", {})
    typed("a")
    cli_prompt(proposal)
    out = capsys.readouterr().out
    assert not {"\x1b", "\x07", "\u202e"} & set(out)
    assert [line[:10] for line in out.splitlines()] == [
        "The orches", "  why: It ", "      |   ", "      | [a", "  context:", "  1: inste", "      |   ",
    ]  # fmt: skip


def test_asking_at_the_terminal(proposal, typed, capsys):
    typed("a")
    assert cli_prompt(proposal).decision == "approved"
    assert "it is full" in capsys.readouterr().out
    typed("what", "reject", "no need")
    response = cli_prompt(proposal)
    assert (response.decision, response.reason) == ("rejected", "no need")
    typed("m", "{", "[]", '{"content": "longer"}')
    response = cli_prompt(proposal)
    assert (response.decision, response.modified_action.arguments) == ("modified", {"content": "longer"})
    out = capsys.readouterr().out
    assert "Invalid JSON" in out
    assert "must be a JSON object" in out
    typed("2", "1")
    assert cli_prompt(proposal).modified_action.name == "annotate"
    typed()
    assert cli_prompt(proposal).reason == "no answer at the terminal"


@pytest.mark.parametrize(
    "word", ["abort", "alternative 1", "annotate", "a 1", "are you sure?", "", "0", "9", "-1"]
)
def test_only_the_whole_word_approves(proposal, typed, capsys, word):
    typed(word, "r", "no")
    assert cli_prompt(proposal).decision == "rejected"
    assert f"Unknown choice {word!r}" in capsys.readouterr().out


def test_a_function_that_changes_its_proposal_changes_no_request(full, orchestrator):
    """Only `modified` changes a call. The record says so."""
    done = []

    @full.tool
    def note(texts: list[str]) -> str:
        """Note texts."""
        done.append(texts)
        return "ok"

    def careless(proposal):
        proposal.recommended_action.arguments["texts"].append("more")
        return ProposalResponse("approved")

    made = orchestrator(
        thinks(None, call("note", {"texts": ["one"]})), "Done.", on_proposal=careless, profile="full"
    )
    (step,) = made.run().steps
    assert (done, step.decision, step.tool_call.arguments) == ([["one"]], "approved", {"texts": ["one"]})
