"""A process killed during a write loses no acknowledged commit and damages nothing."""

from __future__ import annotations

import os

import pytest

from benchmarks import kill
from tract_jupyter import Tract

ROUNDS = 50

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="children are forked"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # the test runner has threads during a fork
]


@pytest.mark.slow
def test_killed_at_random_moments(tmp_path):
    path = tmp_path / "store.db"
    with Tract.open(path) as tract:
        tract.user("before")
    rounds = [kill.survives_round(path, seed) for seed in range(ROUNDS)]
    assert [(seed, seen.problems) for seed, seen in enumerate(rounds) if seen.problems] == []
    assert sum(seen.acknowledged for seen in rounds) > ROUNDS  # the children did work


@pytest.mark.slow
def test_the_gauge_table_counts_lost_commits(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(kill, "_LONGEST", 0)
    really_kill = kill._kill

    def and_claim_one_more(*given):
        acknowledged, killed = really_kill(*given)
        return [*acknowledged, "f" * 64], killed

    assert [row.verdict for row in kill.rows(1)] == ["", "ok"]
    monkeypatch.setattr(kill, "_kill", and_claim_one_more)
    acknowledged, wrong = kill.rows(2)
    assert (wrong.value, wrong.verdict) == (2, "over")
    assert acknowledged.value >= 4
    assert capsys.readouterr().err.count("ffff was acknowledged and is gone") == 2


def test_the_table_counts_a_store_that_cannot_be_opened(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kill.db").write_bytes(b"no database " * 1_000)
    _, wrong = kill.rows(1)
    assert (wrong.value, wrong.verdict) == (2, "over")
    told = capfd.readouterr().err
    assert "the child ended by itself" in told
    assert "StoreCorruptError" in told
