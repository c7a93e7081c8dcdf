"""Calls through the bridge: plain results, errors with their cause, the log."""

from __future__ import annotations

import pytest

from tract_jupyter.exceptions import CommitNotFoundError, ToolDeniedError, ToolExecutionError
from tract_jupyter.toolkit import ToolBridge, ToolResult


@pytest.fixture
def bridge(tract):
    return ToolBridge(tract.executor)


@pytest.mark.parametrize("value", [None, 0, "", [], {}, {"error": None, "more": 1}, {"errors": 1}, object()])
def test_the_bare_result_comes_back(bridge, add, value):
    def f():
        return value

    add(f)
    assert bridge.call("f", {}) is value


def test_an_error_carries_tool_arguments_and_cause(bridge, add):
    cause = OSError("disk full")

    def save(path: str) -> None:
        raise cause

    add(save)
    with pytest.raises(ToolExecutionError) as caught:
        bridge.call("save", {"path": "/x"})
    error = caught.value
    assert (error.tool, error.arguments, error.reason) == ("save", {"path": "/x"}, "OSError: disk full")
    assert error.__cause__ is cause
    assert str(error) == "save(path='/x') failed: OSError: disk full"
    assert not isinstance(error, ToolDeniedError)


def test_an_error_without_words_has_its_name(bridge, add):
    def f():
        raise ValueError

    add(f)
    with pytest.raises(ToolExecutionError, match="ValueError: ValueError"):
        bridge.call("f", {})


@pytest.mark.parametrize("reason", ["no such file", {"code": 3}, None])
def test_an_error_dict_is_an_error(bridge, add, reason):
    def f():
        return {"error": reason}

    add(f)
    with pytest.raises(ToolExecutionError) as caught:
        bridge.call("f", {})
    assert caught.value.reason == str(reason)


def test_a_tool_result_returned_by_a_function_is_used_unchanged(bridge, add):
    results = iter(
        [ToolResult("f", success=True, output=3), ToolResult("f", success=False, error="no", denied=True)]
    )

    def f():
        return next(results)

    add(f)
    assert bridge.call("f", {}) == 3
    with pytest.raises(ToolDeniedError, match="no"):
        bridge.call("f", {})


def test_an_unknown_tool_is_answered_with_the_nearest(bridge):
    with pytest.raises(ToolExecutionError, match="no tool 'comit'. Did you mean 'commit'"):
        bridge.call("comit", {})


def test_a_script_can_catch_a_tool_error_and_continue(tract):
    tools = tract.tools
    tools.commit({"content_type": "dialogue", "role": "user", "text": "a"})
    found = []
    for name in ("HEAD", "0000ffff"):
        try:
            found.append(tools.get_commit(name)["content_type"])
        except ToolExecutionError as error:
            assert isinstance(error.__cause__, CommitNotFoundError)
            found.append(None)
    assert found == ["dialogue", None]


def test_interrupting_is_not_swallowed(bridge, add):
    def f():
        raise KeyboardInterrupt

    add(f)
    with pytest.raises(KeyboardInterrupt):
        bridge.call("f", {})


def test_the_log_has_every_call_with_its_duration(tract, bridge, add, monkeypatch):
    clock = iter([10.0, 10.25, 20.0, 20.5])
    monkeypatch.setattr("tract_jupyter.toolkit.stubs.perf_counter", lambda: next(clock))

    def f(x: int) -> str:
        return "abcd"

    add(f)
    bridge.call("f", {"x": 1})
    with pytest.raises(ToolExecutionError):
        bridge.call("f", {"x": "y"})
    good, bad = bridge.call_log
    assert (good.tool, good.arguments, good.actor, good.success, good.error) == (
        "f",
        {"x": 1},
        "user",
        True,
        "",
    )
    assert (bad.success, "valid integer" in bad.error) == (False, True)
    assert (good.seconds, bad.seconds) == (0.25, 0.5)


def test_each_bridge_has_its_own_call_log_of_limited_length(tract, bridge, add):
    def f():
        pass

    add(f)
    for _ in range(10_003):
        bridge.call("f", {})
    assert len(bridge.call_log) == 10_000
    assert list(tract.tools.call_log) == []


def test_refusals_before_the_call_name_the_tool_too(tract, add):
    def f(x: int) -> None:
        pass

    add(f)
    with pytest.raises(ToolExecutionError) as caught:
        tract.tools.f(1, x=2)
    assert caught.value.tool == "f"
