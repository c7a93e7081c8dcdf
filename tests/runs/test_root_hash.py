"""The root hash covers everything that a replay must reproduce, and nothing else."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.runs.stories import AFTER, BEFORE, START, after, before, done, finished, numbered, whole
from tests.runs.virtual import operation
from tract_jupyter.runs import (
    MainReply,
    OperationProgress,
    OperationResult,
    ResultError,
    RunFinished,
    RunStatus,
    RunTrigger,
    Skip,
    differences,
    root_hash,
    sealed,
)

ROOT = root_hash(whole())


def replaced(told, index, **changes):
    return whole([*told[:index], told[index].model_copy(update=changes), *told[index + 1 :]])


def test_the_root_hash_does_not_depend_on_times_ids_attempts_or_usage():
    """R58: these differ between a run and its replay."""
    assert root_hash(whole(run_id="b" * 32, start=START + timedelta(days=9))) == ROOT
    told = [*before("d" * 64), *after("e" * 64)]
    assert root_hash(whole(told)) == ROOT
    assert (
        root_hash(replaced(told, 0, clock="2027-01-01T00:00:00+00:00", user_commit=None, turn_id="t")) == ROOT
    )
    assert (
        root_hash(replaced(told, 6, started_at=7.0, finished_at=9.0, attempts=5, outputs_summary={"n": 1}))
        == ROOT
    )
    assert root_hash(replaced(told, 16, reply=MainReply(text="In Rome", usage={"tokens": 4}))) == ROOT
    assert (
        root_hash(whole([*told[:3], OperationProgress(operation_id="world", hook=BEFORE), *told[3:]])) == ROOT
    )


def test_the_order_in_which_operations_ended_does_not_count():
    """R58, R60: execution is parallel, the commit order is fixed."""
    told = [*before(), *after()]
    swapped = [*told[:6], told[7], told[6], *told[8:]]
    assert root_hash(whole(swapped)) == ROOT


@pytest.mark.parametrize(
    ("index", "changes", "part"),
    [
        (0, {"trigger": RunTrigger.REGENERATE}, "trigger"),
        (0, {"operations": ()}, "operations"),
        (0, {"plain_prompt": ()}, "plainPrompt"),
        (6, {"result": done("world")}, "results.before_main_llm.world.effects"),
        (13, {"artifacts": {}}, "commits.before_main_llm.artifacts.world"),
        (13, {"report": {"entries": []}}, "commits.before_main_llm.entries"),
        (15, {"prompt": ()}, "prompt"),
        (16, {"reply": MainReply(text="In Pisa")}, "main.text"),
        (16, {"reply": MainReply(text="In Rome", finish_reason="deadline")}, "main.finishReason"),
    ],
)  # fmt: skip
def test_everything_that_a_replay_must_give_again_counts(index, changes, part):
    """R58: trigger, operations, prompts, results, commits, artifacts and reply."""
    other = replaced([*before(), *after()], index, **changes)
    assert root_hash(other) != ROOT
    assert part in differences(whole(), other)


def test_error_codes_count_and_their_texts_do_not():
    """R55: codes are stable."""
    other = whole([*before(), *after(code="provider_error")])
    assert differences(whole(), other) == ["results.after_main_llm.late.error"]
    told = [*before(), *after()]
    failed = told[20]
    error = failed.result.error.model_copy(update={"message": "it took 4 s"})
    assert root_hash(replaced(told, 20, result=failed.result.model_copy(update={"error": error}))) == ROOT


def test_how_it_ended_counts():
    """E12: the status, and the type of failure."""
    told = numbered([*before(), *after()])
    assert root_hash(told, RunFinished(status=RunStatus.DONE)) == ROOT
    failed = RunFinished(status=RunStatus.FAILED, failed_type="after_main_llm")
    assert sealed(told, failed).root_hash == root_hash([*told, whole()[-1]._replace(data=failed)]) != ROOT


def listed(*operations):
    """The root hash of a run of these operations."""
    told = [*before(), *after()]
    return root_hash(replaced(told, 0, operations=operations))


@given(st.permutations(["a", "b", "c"]), st.permutations(["a", "b"]), st.randoms())
def test_the_order_in_which_operations_are_listed_does_not_count(names, depends_on, random):
    """R24, R60: `order`, dependencies and ids define the order; the order within `dependsOn` does
    not count either."""
    conditions = [{"source": one, "output": key} for one in "ab" for key in ("yes", "no")]
    known = {
        name: {"dependsOn": ["a", "b"], "runConditions": conditions} if name == "c" else {} for name in "abc"
    }
    usual = listed(*(operation(name, **known[name]) for name in "abc"))
    random.shuffle(conditions)
    known["c"] = {"dependsOn": depends_on, "runConditions": conditions}
    assert listed(*(operation(name, **known[name]) for name in names)) == usual
    assert listed(operation("a"), operation("b", 2), operation("c", **known["c"])) != usual


def test_blockers_count():
    """R61: of an optional and of a required operation."""
    told = [*before(), *after()]

    def hash_with(result):
        return root_hash(whole([*told[:20], finished(AFTER, result), *told[20:]]))

    def blocked(*names):
        skip = Skip(reason="dependency_failed", dep="not_done", blocked_by=names)
        error = ResultError(code="dependency_failed", message="...", details=skip.to_dict())
        return (
            OperationResult(operation_id="x", status="skipped", skip=skip),
            OperationResult(operation_id="x", status="error", required=True, error=error),
        )

    for one, other in zip(blocked("a"), blocked("a", "b"), strict=True):
        assert hash_with(one) != hash_with(other)
        assert hash_with(one) == hash_with(one)


@given(st.text(max_size=20), st.text(max_size=20))
def test_different_artifacts_have_different_hashes(one, other):
    """R58: equal if and only if the written values are equal."""
    hashes = {root_hash(whole([*before(world=world), *after()])) for world in (one, other)}
    assert len(hashes) == len({one, other})


def test_a_second_end_of_an_operation_takes_the_place_of_the_first():
    """R59: the last end counts."""
    told = [*before()[:7], finished(BEFORE, done("world")), *before()[7:], *after()]
    assert root_hash(whole(told)) != ROOT
