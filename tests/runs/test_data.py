"""Run data for the user: one line in a terminal, and the names offered by completion."""

from __future__ import annotations

import pytest

from tests.review.scripted import ScriptedClient
from tract_jupyter.exceptions import RunFailedError
from tract_jupyter.runs import Hook, OperationDefinition, Retry
from tract_jupyter.runs.profile import OperationProfile, run_operation


@pytest.fixture
def asked(tract):
    """A tract with a question, and a model that answers."""
    tract.configure_llm(ScriptedClient("On the mat."))
    tract.user("Where is it?")
    return tract


def test_defaults_are_not_shown():
    """Only fields with other values are visible."""
    assert repr(Retry(max_attempts=3)) == str(Retry(max_attempts=3)) == "Retry(max_attempts=3)"
    definition = OperationDefinition(operation_id="a", name="A", kind="template")
    assert repr(definition) == "OperationDefinition(operation_id='a', name='A', kind='template')"


def test_an_operation_is_a_line():
    """Its id, kind, order and hooks; order as it was written."""
    one = run_operation("words", "compute", order=1_234_567, function="count", when="both")
    assert (
        repr(one) == f"<Operation 'words': compute, order 1234567, {Hook.BEFORE.value}, {Hook.AFTER.value}>"
    )


def test_a_run_is_a_line(asked):
    """With its outcome: the output of a cell that ends with `t.generate()` shows no prompt."""
    sign = run_operation("sign", order=1, text="!", into="tail")
    later = run_operation(
        "later", order=2, text="{{ no }}", into="tail", after="gone", triggers=["regenerate"]
    )
    gone = run_operation("gone", order=1, text="x", enabled=False)
    reply = asked.generate(profile=OperationProfile.of("p", [sign, later, gone]))
    run = reply.run
    assert repr(run) == f"<Run {run.run_id[:8]}: done, generate, profile 'p', 1 of 3 operations done>"
    assert repr(run) in repr(reply)
    assert len(repr(reply)) < 400
    shown = {one.operation_id: repr(one) for one in run.operations}
    assert shown["sign"].startswith("<OperationRun 'sign': done, template, before_main_llm, ")
    assert "<OperationRun 'gone': skipped (disabled), " in shown["gone"]


def test_the_line_of_a_failed_run_shows_the_failure(asked):
    """The line of the run has the type of failure, the line of the operation its error code."""
    bad = run_operation("bad", "compute", order=1, function="nobody", required=True)
    with pytest.raises(RunFailedError) as failed:
        asked.generate(profile=OperationProfile.of("p", [bad]))
    assert ": failed (before_barrier), generate, profile 'p', 0 of 1 operations done>" in repr(
        failed.value.run
    )
    assert "'bad': error (validation_error), compute, " in repr(failed.value.run.operations[0])


def test_completion_offers_only_names_of_this_package(asked):
    """Fields and methods of runs, and none of pydantic."""
    run = asked.generate(profile=OperationProfile.of("p")).run
    offered = {name for name in dir(run) if not name.startswith("_")}
    assert {"operations", "status", "to_dict"} <= offered
    assert not {name for name in offered if name.startswith(("model_", "parse_"))} | (
        offered & {"copy", "json"}
    )
