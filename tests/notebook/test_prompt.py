"""A front end with input but without widgets: after a moment, `input()` replaces the panel."""

import pytest

pytestmark = pytest.mark.kernel
DEFINE = """%%tract_operation deploy --activate --ask
x: int = 1

def go(pending, n: int = 2):
    pending.fields['x'] = n

def stop(pending, why: str):
    pending.reject(why)
"""


@pytest.fixture(scope="module", autouse=True)
def _ready(kernel):
    kernel.run("from tract_jupyter.notebook import channels; channels.PROBE_SECONDS = 0")
    kernel.run(DEFINE)


@pytest.mark.parametrize("ask", ["await tract.fire('deploy', {'x': 3})", "tools.fire_deploy(x=3)"])
def test_code_that_waits_is_answered_by_typing(kernel, ask):
    result = kernel.run(ask, typed=("go", "7", "approve"))
    assert result.ok
    assert "x: int = 3" in result.text
    assert "x: int = 7" in result.text  # each round shows the current state
    assert "approved" in result.text


def test_a_typed_rejection_ends_the_call_with_its_reason(kernel):
    result = kernel.run("tools.fire_deploy(x=3)", typed=("stop", "too far"))
    assert not result.ok
    assert "too far" in result.error


def test_the_prompt_repeats_after_an_unreadable_answer(kernel):
    result = kernel.run("tools.fire_deploy(x=3)", typed=("fly", "go", "many", "9", "rej", ""))
    assert "Type one of the names" in result.text
    assert "should be a valid integer" in result.text


def test_an_activation_that_a_cell_awaits_can_be_rejected(kernel):
    result = kernel.run("%%tract_operation other --wait\nx: int = 1\n", typed=("reject", "no need"))
    assert result.error == "Activate operation other: rejected"
    assert "no need" in result.text
    assert "other" not in kernel.run("%tract ops").text


def test_values_are_changed_before_approving(kernel):
    result = kernel.run("print(tools.fire_deploy(x=3)['fields'])", typed=("edit", "many", "8"))
    assert result.ok
    assert "edit: change values, then approve" in result.text
    assert "should be a valid integer" in result.text
    assert "changed x: 3 → 8" in result.text
    assert "{'x': 8}" in result.text


def test_an_edit_without_a_change_is_not_shown_as_changed(kernel):
    result = kernel.run("print(tools.fire_deploy(x=3)['fields'])", typed=("edit", ""))
    assert "changed" not in result.text
    assert "{'x': 3}" in result.text


def test_approving_asks_for_nothing_more(kernel):
    assert kernel.run("print(tools.fire_deploy(x=3)['status'])", typed=("approve",)).text.endswith(
        "approved\n"
    )


@pytest.mark.parametrize("scope", ["session", "always"])
def test_an_approval_can_stand_for_these_values(kernel, scope):
    number = {"session": 41, "always": 42}[scope]
    result = kernel.run(f"tools.fire_deploy(x={number})", typed=(scope,))
    assert f"x = {number}" in result.text
    assert "%tract grants lists and revokes it" in result.text
    assert kernel.run(f"print(tools.fire_deploy(x={number})['status'])").text.endswith("approved\n")
    assert not kernel.run(f"tools.fire_deploy(x={number + 10})").ok  # headless: no user


def test_an_activation_offers_no_standing_approval(kernel):
    result = kernel.run("%%tract_operation third --wait\nx: int = 1\n", typed=("session", "reject", ""))
    assert "Type one of the names" in result.text
    assert "always:" not in result.text
