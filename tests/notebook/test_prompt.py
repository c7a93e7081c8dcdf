"""A front end that takes input and draws no widgets: after a moment the panel gives way to `input()`."""

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
    assert "x: int = 7" in result.text  # each round shows how things stand
    assert "approved" in result.text


def test_a_typed_rejection_ends_the_call_with_its_reason(kernel):
    result = kernel.run("tools.fire_deploy(x=3)", typed=("stop", "too far"))
    assert not result.ok
    assert "too far" in result.error


def test_what_cannot_be_read_is_asked_again(kernel):
    result = kernel.run("tools.fire_deploy(x=3)", typed=("fly", "go", "many", "9", "rej", ""))
    assert "Type one of the names" in result.text
    assert "should be a valid integer" in result.text


def test_waiting_for_an_activation_can_be_turned_down(kernel):
    result = kernel.run("%%tract_operation other --wait\nx: int = 1\n", typed=("reject", "no need"))
    assert "no need" in result.error
    assert "other" not in kernel.run("%tract ops").text
