"""The cost of policies that do not fire: commits with all built-in policies, compared with commits without any."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from benchmarks.places import tract_on_disk
from benchmarks.timing import Growth, Row, time_call
from tract_jupyter import ActionDef, OperationSpec
from tract_jupyter.models import TokenBudget
from tract_jupyter.operations import FiringCondition
from tract_jupyter.policy import policy_types

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tract_jupyter import Tract

SIZES = (1_000, 10_000)
_AT_ONCE = 100
_ROUNDS = 20
_RATIO = 1.5
_GROWTH = 1.5


def rows(sizes: tuple[int, ...] = SIZES) -> Iterator[Row]:
    """The ratio on each branch and for each size, and how it grows."""
    for branch in ("main", "topic"):
        growth = Growth()
        for size in sizes:
            ratio, seconds = _measured(size, branch)
            name = f"commits with all policies on, on {branch}, after {size:,}"
            yield Row(f"{name}, against without", ratio, "x", _RATIO)
            yield Row(name, seconds, "µs", None, growth.of(branch, seconds), _GROWTH)


def _measured(size: int, branch: str) -> tuple[float, float]:
    """Return how many times as long a commit takes, and how long, in seconds."""
    with tract_on_disk() as plain, tract_on_disk() as tract:
        for one in (plain, tract):
            _fill(one, size, branch)
            one.budget = TokenBudget(10**9, "reject")
        for kind in policy_types():
            if kind not in {"orchestrate", "operation"}:  # which need settings, and are below
                tract.policies.add(kind)
        tract.policies.add("orchestrate", commits=10**9, tokens=10**9)
        go = ActionDef("go", "Do nothing.", {}, "pending.approve()")
        when = FiringCondition(tokens=10**9)
        tract.register_operation(OperationSpec("quiet", "Never fires.", {}, {"go": go}, fires_on=when))
        tract.user("the first look at all that is there")
        best = [1e9, 1e9]
        for _ in range(_ROUNDS):
            for number, one in enumerate((plain, tract)):  # in turns, as a machine has slow minutes
                best[number] = min(time_call(partial(_commit, one)), best[number])
        if tract.policies.log():
            raise AssertionError(f"a policy fired: {tract.policies.log()[0]}")
    return best[1] / best[0], best[1] / _AT_ONCE


def _fill(tract: Tract, size: int, branch: str) -> None:
    with tract.batch():
        for number in range(size):
            tract.user(f"message {number}")
    if branch != "main":
        tract.branch(branch)


def _commit(tract: Tract) -> None:
    for number in range(_AT_ONCE):
        tract.user(f"another message {number}")
