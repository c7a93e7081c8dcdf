"""Kind `tool`: calls through the executor, and calls that need approval."""

from __future__ import annotations

import pytest

from tests.runs.kinds.operations import context, inbox, made_by, operation, performed, rules
from tract_jupyter.runs.kinds import OperationFailed, RunDecisions, Services, ToolKind, Waits
from tract_jupyter.toolkit import Permission

KIND = ToolKind()


def services(tract):
    return Services(call_tool=tract.executor.execute, decisions=RunDecisions(tract))


def call(tract, tool, arguments=None, **given):
    return made_by(KIND, {"tool": tool, "arguments": arguments or {}}, services(tract), **given)


def failed(tract, tool, arguments=None):
    with pytest.raises(OperationFailed) as caught:
        call(tract, tool, arguments)
    return caught.value


@pytest.fixture
def calls(tract):
    """The calls of two tools: `add` writes, `look` only reads."""
    made = []

    def add(x: int, y: int = 1) -> int:
        """Add."""
        made.append((x, y))
        return x + y

    def look(what: str) -> dict:
        """Look."""
        return {"seen": what}

    def odd(what: str) -> object:
        """Return a value without a JSON form, or raise."""
        if what == "raise":
            raise KeyError(what)
        return {"error": "no such thing"} if what == "error" else object()

    tract.tool(add)
    tract.tool(look, read_only=True)
    tract.tool(odd, read_only=True)
    return made


def test_the_result_is_the_value_and_arguments_keep_their_types(tract, calls):
    tract.executor.permission = lambda tool, actor: Permission.ALLOW
    made = call(tract, "add", {"x": "{{ art.n.value }}", "y": 2}, art={"n": 40})
    assert (made.value, calls) == (42, [(40, 2)])


def test_a_read_only_call_needs_no_approval(tract, calls):
    assert call(tract, "look", {"what": "{{ art.n.value }}!"}, art={"n": "x"}).value == {"seen": "x!"}


def test_the_actor_is_the_operation(tract, calls):
    asked = []
    tract.executor.permission = lambda tool, actor: asked.append(actor) or Permission.DENY
    error = failed(tract, "add", {"x": 1})
    assert (asked[0], error.code, calls) == ("operation:op", "policy_error", [])


def test_a_writing_call_waits_for_approval_and_runs_once(tract, calls):
    ready, params = services(tract), {"tool": "add", "arguments": {"x": 1}}
    runner = KIND.prepare(operation("tool", params), ready)
    waits = runner(context())
    assert isinstance(waits, Waits)
    assert calls == []
    assert runner.resume(context(), waits.pending_id) == waits
    (pending,) = inbox(tract)
    assert pending.pending_id == waits.pending_id
    pending.approve(edits={"y": 5})
    assert runner.resume(context(), waits.pending_id).value == 6
    assert calls == [(1, 5)]
    assert isinstance(runner.resume(context(), waits.pending_id), Waits), "an approval is for one call"
    assert calls == [(1, 5)]


def test_a_call_that_a_person_rejects_is_a_policy_error(tract, calls):
    runner = KIND.prepare(operation("tool", {"tool": "add", "arguments": {"x": 1}}), services(tract))
    waits = runner(context())
    inbox(tract)[0].reject("not now")
    with pytest.raises(OperationFailed, match="not now") as caught:
        runner.resume(context(), waits.pending_id)
    assert (caught.value.code, calls) == ("policy_error", [])


def test_an_approved_call_does_not_run_if_the_tool_was_locked(tract, calls):
    runner = KIND.prepare(operation("tool", {"tool": "add", "arguments": {"x": 1}}), services(tract))
    waits = runner(context())
    inbox(tract)[0].approve()
    tract.executor.lock_tool("add", "broken")
    with pytest.raises(OperationFailed, match="broken"):
        runner.resume(context(), waits.pending_id)
    assert calls == []


def test_resuming_with_an_unknown_pending_asks_again(tract, calls):
    runner = KIND.prepare(operation("tool", {"tool": "add", "arguments": {"x": 1}}), services(tract))
    assert isinstance(runner.resume(context(), "nosuch"), Waits)


def test_a_writing_call_is_refused_if_decisions_cannot_be_stored(tract, calls):
    with pytest.raises(OperationFailed) as caught:
        made_by(KIND, {"tool": "add", "arguments": {"x": 1}}, Services(call_tool=tract.executor.execute))
    assert caught.value.code == "policy_error"


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("looc", {}, "Did you mean 'look'"), ("look", {}, "what"), ("look", {"what": 1}, "what"),
        ("look", {"what": "a", "more": 1}, "more"), ("odd", {"what": "raise"}, "KeyError"),
        ("odd", {"what": "error"}, "no such thing"), ("odd", {"what": "x"}, "no JSON form"),
    ],
)  # fmt: skip
def test_a_call_that_fails(tract, calls, tool, arguments, words):
    """R54, R55: an error with a code."""
    error = failed(tract, tool, arguments)
    assert words in error.message
    assert error.code in {"operation_error", "validation_error"}


@pytest.mark.parametrize(
    "params", [{}, {"tool": ""}, {"tool": 1}, {"tool": "x", "arguments": [1]}, {"tool": "x", "args": {}}]
)
def test_wrong_parameters(tract, params):
    assert rules(KIND, params)
    with pytest.raises(OperationFailed) as caught:
        made_by(KIND, params, services(tract))
    assert caught.value.code == "validation_error"


def test_templates_are_checked_and_rendered_first(tract, calls):
    assert rules(KIND, {"tool": "x", "arguments": {"a": "{% if"}}) == ["template_syntax"]
    result = performed("tool", {"tool": "look", "arguments": {"what": "{{ nosuch() }}"}}, services(tract))
    assert (result.status, result.error.code) == ("error", "template_render_error")


def test_a_host_without_tools():
    with pytest.raises(OperationFailed, match="Tools are not available"):
        made_by(KIND, {"tool": "x"})
