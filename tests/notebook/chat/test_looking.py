"""Read-only scripts in `%%tract_chat` ("looking"): the switch, the row, and the button that ends it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.review.rehearsed import CLEANING, LOOK
from tests.scripts.rehearsals import rehearse_in
from tract_jupyter.notebook.chat import TractSource, TurnLog
from tract_jupyter.rehearsal import VariableEffect

TOLD = "Looked, no effects"


@pytest.fixture
def ask(shell):
    """A chat whose model runs a script with the notebook's variables, and then answers."""
    codes = []

    def model(messages, **_):
        if messages[-1]["role"] == "tool":
            return "Done."
        arguments = json.dumps({"code": codes[-1], "backend": "kernel", "notebook_id": "user"})
        made = {
            "id": "c1",
            "type": "function",
            "function": {"name": "notebook_execute", "arguments": arguments},
        }
        message = {"role": "assistant", "content": None, "tool_calls": [made]}
        return {"choices": [{"message": message, "finish_reason": "tool_calls"}]}

    tract = shell.namespace["tract"]
    tract.models.use(model)
    rehearse_in(tract).effects |= {"look(rows)": LOOK, "clean(rows)": CLEANING}

    def run(code):
        codes.append(code)
        return shell.run("%%tract_chat\nLook").text

    return run


def waiting(shell):
    return [one.fields["code"] for one in shell.namespace["tract"].review.inbox()]


def test_the_row_says_that_it_only_looked(shell, ask):
    assert "On: Let the model look without asking" in shell.run("%tract looking on").text
    assert TOLD in ask("look(rows)")
    assert waiting(shell) == []
    assert TOLD in shell.run("%tract chat show").text  # only from the store
    assert "Let the model look without asking" in shell.run("%tract grants").text


def test_a_script_that_only_draws_needs_no_request(shell, ask):
    figure = VariableEffect("fig", "created", "", "Figure", is_left_out=True)
    number = VariableEffect("n", "created", "", "int 3")
    rehearse_in(shell.namespace["tract"]).effects |= {
        "draw(rows)": replace(LOOK, variables=(figure,)),
        "draw_and_count(rows)": replace(LOOK, variables=(figure, number)),
    }
    shell.run("%tract looking on")
    assert TOLD in ask("draw(rows)")
    assert waiting(shell) == []
    assert TOLD not in ask("draw_and_count(rows)")
    assert waiting(shell) == ["draw_and_count(rows)"]


def test_read_only_scripts_need_approval_until_the_user_allows_looking(shell, ask):
    assert TOLD not in ask("look(rows)")
    assert waiting(shell) == ["look(rows)"]


@pytest.mark.slow
@pytest.mark.parametrize("end", ["%tract looking off", "%reset -f", "%tract grants revoke {id}"])
def test_looking_ends_with_off_reset_or_a_revoked_grant(shell, ask, end):
    shell.run("%tract looking on")
    (grant,) = shell.namespace["tract"].review.grants.all()
    shell.run(end.format(id=grant.grant_id[:8]))
    ask("look(rows)")
    assert waiting(shell) == ["look(rows)"]


def test_the_state_of_looking_is_shown_and_off_twice_is_allowed(shell):
    assert shell.run("%tract looking").text.startswith("Off: ")
    assert "off already" in shell.run("%tract looking off").text
    assert "%tract looking on or %tract looking off" in shell.run("%tract looking maybe").error
    assert {"on", "off"} <= {one.strip() for one in shell.complete("%tract looking ")}


def test_the_foot_of_the_turn_has_a_button_that_ends_it(shell, ask):
    shell.run("%tract looking on")
    ask("look(rows)")
    tract = shell.namespace["tract"]
    log = TurnLog(TractSource(tract))
    tract.chat("Look", on_turn=log.add, tools="code")
    assert "ask" in log.view().foot().actions
    log.set(asks_again=True)
    assert "ask" not in log.view().foot().actions


def test_effects_are_asked_about_and_the_waiting_row_has_the_sentence(shell, ask):
    shell.run("%tract looking on")
    text = ask("clean(rows)")
    assert TOLD not in text
    assert "Overwrites data/sigh" in text
    assert waiting(shell) == ["clean(rows)"]
