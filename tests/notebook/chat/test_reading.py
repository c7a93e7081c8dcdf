"""Scripts that only read in `%%tract_chat`: the switch, the row that says so, and the button that ends it."""

from __future__ import annotations

import json

import pytest

from tract_jupyter.notebook.chat import TractSource, TurnLog

TOLD = "ran without asking: no findings, touches no files"


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

    shell.run("rows = [1, 2]")
    shell.namespace["tract"].models.use(model)

    def run(code):
        codes.append(code)
        return shell.run("%%tract_chat\nLook").text

    return run


def waiting(shell):
    return [one.fields["code"] for one in shell.namespace["tract"].review.inbox()]


def test_the_row_says_that_it_ran_without_a_question(shell, ask):
    assert "On: Run code without findings" in shell.run("%tract grants reading on").text
    assert TOLD in ask("sum(rows)")
    assert waiting(shell) == []
    assert TOLD in shell.run("%tract chat show").text  # from the store alone
    assert "Run code without findings that touches no files" in shell.run("%tract grants").text


def test_it_is_off_until_the_user_switches_it_on(shell, ask):
    assert TOLD not in ask("sum(rows)")
    assert waiting(shell) == ["sum(rows)"]


@pytest.mark.slow
@pytest.mark.parametrize("end", ["%tract grants reading off", "%reset -f", "%tract grants revoke {id}"])
def test_it_ends(shell, ask, end):
    shell.run("%tract grants reading on")
    (grant,) = shell.namespace["tract"].review.grants.all()
    shell.run(end.format(id=grant.grant_id[:8]))
    shell.run("rows = [1, 2]")
    ask("sum(rows)")
    assert waiting(shell) == ["sum(rows)"]


def test_switched_off_twice_is_no_error(shell):
    assert "off already" in shell.run("%tract grants reading off").text
    assert "reading on" in shell.run("%tract grants reading").error
    assert {"on", "off"} <= {one.strip() for one in shell.complete("%tract grants reading ")}


def test_the_foot_of_the_turn_has_a_button_that_ends_it(shell, ask):
    shell.run("%tract grants reading on")
    ask("sum(rows)")
    tract = shell.namespace["tract"]
    log = TurnLog(TractSource(tract))
    tract.chat("Look", on_turn=log.add, tools="code")
    assert "ask" in log.view().foot().actions
    log.asks_again = True
    assert "ask" not in log.view().foot().actions


def test_a_change_to_a_variable_is_asked_about(shell, ask):
    shell.run("%tract grants reading on")
    assert TOLD not in ask("rows.append(3)")
    assert waiting(shell) == ["rows.append(3)"]
    assert shell.namespace["rows"] == [1, 2]
