"""Laws for any plan and any interleaving: operations end in an order drawn by a seeded generator."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.runs.virtual import Script, VirtualWorkers, operation, run_scripts, statuses
from tract_jupyter.concurrency import StopSignal
from tract_jupyter.runs import Hook, Limits, OperationAttempt, OperationStarted, RunTrigger, make_plan

HOWS = ["done", "done", "done", "error", "skip", "raise", "abort_error", "waiting"]


@st.composite
def plans(draw):
    """Operations without cycles, in any order, and the ending of each."""
    count = draw(st.integers(1, 10))
    names = draw(st.permutations([f"o{index}" for index in range(count)]))
    operations = []
    for index, name in enumerate(names):
        known = [*names[:index], *(["ghost"] if draw(st.integers(0, 9)) == 0 else [])]
        operations.append(
            operation(
                name,
                draw(st.integers(-2, 2)),
                dependsOn=draw(st.lists(st.sampled_from(known), max_size=3)) if known else [],
                required=draw(st.booleans()),
                enabled=draw(st.integers(0, 7)) > 0,
                provider=draw(st.sampled_from([None, "p", "q"])),
                retry={"maxAttempts": draw(st.integers(1, 2)), "retryOn": ["operation_error"]},
            )
        )
    return draw(st.permutations(operations)), {name: draw(st.sampled_from(HOWS)) for name in names}


def outcome(result):
    """A result with its blockers: independent of speed and concurrency."""
    skip = result.skip.to_dict() if result.skip else None
    return result.status, skip, (result.error.code, result.error.details) if result.error else None


class Watched:
    """Execute a plan, and check every event."""

    def __init__(
        self, operations, hows, seed=None, concurrency=None, limits=None, abort=None, abort_after=None
    ):
        self.plan = make_plan(operations, Hook.BEFORE, RunTrigger.GENERATE, concurrency=concurrency)
        self.scripts = {key: Script(10, how) for key, how in hows.items()}
        self.workers = VirtualWorkers(shuffle=None if seed is None else Random(seed))
        self.running, self.ended, self.begun = set(), {}, []
        self.most = {None: 0, "p": 0, "q": 0}
        self._abort, self._abort_after = abort, abort_after
        self.executed = run_scripts((), self.scripts, plan=self.plan, workers=self.workers, limits=limits,
                                    notify=self.see, abort=abort)  # fmt: skip

    def see(self, event):
        key = event.operation_id
        if isinstance(event, OperationStarted):
            results = [self.ended.get(one) for one in self.plan.by_id[key].config.depends_on]
            assert all(result is not None and result.is_done for result in results)
            self.begun.append(key)
            self.running.add(key)
            if self._abort_after == len(self.begun):
                self._abort.set()
        elif not isinstance(event, OperationAttempt):
            assert key not in self.ended
            self.ended[key] = getattr(event, "result", None)
            self.running.discard(key)
        for provider in self.most:
            busy = [one for one in self.running if provider in (None, self.plan.by_id[one].config.provider)]
            self.most[provider] = max(self.most[provider], len(busy))


@given(plans(), st.integers(0, 5), st.sampled_from([None, 1, 2, 3]))
def test_results_are_the_same_in_every_interleaving(plan, seed, concurrency):
    """R58, R61: the status of each operation, and the reasons of skips."""
    calm = Watched(*plan).executed
    other = Watched(*plan, seed=seed, concurrency=concurrency).executed
    assert {key: outcome(one) for key, one in calm.results.items()} == {
        key: outcome(one) for key, one in other.results.items()
    }
    assert (list(calm.results), calm.waiting) == (list(other.results), other.waiting)
    assert set(calm.start_order) == set(other.start_order)


@given(plans(), st.integers(0, 5), st.integers(1, 3), st.integers(1, 2))
def test_limits_and_dependencies_hold_in_every_interleaving(plan, seed, concurrency, of_p):
    """R10, G11: no operation starts before its dependencies are done; the limits hold; each
    operation ends once."""
    watched = Watched(*plan, seed=seed, concurrency=concurrency, limits=Limits({"p": of_p}))
    assert watched.most[None] <= concurrency
    assert watched.most["p"] <= of_p
    assert set(watched.ended) == set(watched.executed.results)
    left = set(watched.plan.by_id) - set(watched.ended)
    # only dependents of a waiting operation have no end
    assert bool(left) <= bool(watched.executed.waiting)
    ended = [key for key in watched.executed.results if key not in watched.executed.waiting]
    assert [run.operation_id for run in watched.executed.runs] == ended
    assert watched.executed.start_order == tuple(watched.begun)


@given(plans(), st.integers(0, 5))
def test_with_one_slot_the_ready_queue_decides(plan, seed):
    """G10, G9, E10: the smallest ready operation each time."""
    operations, hows = plan
    hows = {key: how if how != "waiting" else "done" for key, how in hows.items()}
    operations = [
        one.model_copy(update={"config": one.config.model_copy(update={"provider": None})})
        for one in operations
    ]
    watched = Watched(operations, hows, seed=seed, concurrency=1)
    done, left = set(), set(watched.executed.start_order)
    for key in watched.executed.start_order:
        of = {one.id: one.config for one in operations}
        ready = [one for one in left if set(of[one].depends_on) <= done]
        assert key == min(ready, key=lambda one: (of[one].order, one))
        left.discard(key)
        if watched.executed.results[key].is_done:
            done.add(key)


@given(plans(), st.integers(0, 5), st.integers(1, 5))
def test_after_an_abort_every_operation_has_an_end(plan, seed, after):
    """G27: in every interleaving; no operation starts after the abort."""
    watched = Watched(*plan, seed=seed, abort=StopSignal(), abort_after=after)
    assert len(watched.begun) <= after
    if len(watched.begun) == after:
        assert set(watched.executed.results) == set(watched.plan.by_id)
        assert watched.executed.waiting == ()
        reasons = {one.skip.reason for one in watched.executed.results.values() if one.skip}
        assert reasons <= {"disabled", "dependency_failed", "run_aborted", "condition_false"}


@pytest.mark.slow
@settings(max_examples=10)
@given(st.integers(0, 9))
def test_long_chains_and_wide_fans(seed):
    """R61: the consequences of one failure do not depend on the depth."""
    chain = [operation(f"c{n:04}", dependsOn=[f"c{n - 1:04}"] if n else []) for n in range(1_500)]
    fan = [operation(f"f{n:04}", dependsOn=["c0000"]) for n in range(300)]
    executed = run_scripts([*chain, *fan], {"c0000": Script(seed, "error")})
    assert executed.start_order == ("c0000",)
    assert set(list(statuses(executed).values())[1:]) == {"skipped"}
