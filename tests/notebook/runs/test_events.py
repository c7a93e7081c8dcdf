"""The real events of a run, drawn as they arrive."""

import pytest

from tests.notebook.runs.examples import AFTER, BEFORE, ZERO, at, operation
from tract_jupyter.notebook.runs import NodeState, RunView
from tract_jupyter.runs import (
    CommitFinished,
    MainFinished,
    MainReply,
    MainStarted,
    OperationFinished,
    OperationProgress,
    OperationResult,
    OperationStarted,
    OperationWaiting,
    RunEvent,
    RunFinished,
    RunStarted,
    project,
)


def finished(key, hook, begin, end):
    result = OperationResult(operation_id=key, status="done")
    times = {"started_at": ZERO + begin, "finished_at": ZERO + end}
    return OperationFinished(operation_id=key, hook=hook, result=result, attempts=1, **times)


TOLD = (
    (
        0,
        RunStarted(
            trigger="generate",
            profile="p",
            operations=(operation("a"), operation("b"), operation("c", AFTER)),
        ),
    ),
    (1, OperationStarted(operation_id="b", hook=BEFORE, started_at=ZERO + 1)),
    (1, OperationProgress(operation_id="b", hook=BEFORE, data={"done": 1, "total": 2})),
    (1, OperationWaiting(operation_id="a", hook=BEFORE, pending_id="x")),
    (2, finished("b", BEFORE, 1, 2)),
    (2, finished("a", BEFORE, 1, 2)),
    (3, CommitFinished(hook=BEFORE, report={"hook": "before_main_llm", "order": ["b", "a"]})),
    (3, MainStarted(prompt=(), prompt_hash="0" * 64)),
    (5, MainFinished(reply=MainReply(text="The reply."))),
    (6, finished("c", AFTER, 5, 6)),
    (7, RunFinished(status="done", root_hash="c0ffee" * 10)),
)
EVENTS = [RunEvent("7f3a", number, at(seconds), data) for number, (seconds, data) in enumerate(TOLD, 1)]


def states(count):
    shown = RunView(project(EVENTS[:count]), EVENTS[:count]).picture
    return {node.id: node.state for node in shown.nodes}, shown.main


@pytest.mark.parametrize("count", range(1, len(EVENTS) + 1))
def test_a_run_can_be_drawn_after_each_event(count):
    view = RunView(project(EVENTS[:count]), EVENTS[:count])
    assert view.to_html().count('<span class="tract-when ') <= 4
    assert "tract-run-operations" in view.to_html()
    assert view.to_text().startswith("Run 7f3a: ")


def test_states_follow_the_events():
    assert states(1) == (dict.fromkeys("abc", NodeState.PLANNED), NodeState.PLANNED)
    assert states(3) == (
        {"a": NodeState.PLANNED, "b": NodeState.RUNNING, "c": NodeState.PLANNED},
        NodeState.PLANNED,
    )
    assert states(4)[0]["a"] is NodeState.WAITING
    assert states(8) == (
        {"a": NodeState.DONE, "b": NodeState.DONE, "c": NodeState.PLANNED},
        NodeState.RUNNING,
    )
    assert states(len(EVENTS)) == (dict.fromkeys("abc", NodeState.DONE), NodeState.DONE)


def test_the_report_tells_the_order_of_commits():
    """R60, E8: the view shows the actual effect of the commit, not the planned one."""
    assert "Committed before the main call: b → a" in RunView(project(EVENTS), EVENTS).to_text()
    assert "main call" in RunView(project(EVENTS), EVENTS).to_text()
