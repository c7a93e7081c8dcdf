"""A process that is killed while it writes loses nothing that it acknowledged, and damages nothing."""

from __future__ import annotations

import os
import warnings

import pytest

from benchmarks.kill import survives_round
from tract_jupyter import Tract

ROUNDS = 50


@pytest.mark.skipif(not hasattr(os, "fork"), reason="children are forked")
def test_killed_at_random_moments(tmp_path):
    path = tmp_path / "store.db"
    with Tract.open(path) as tract:
        tract.user("before")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads of the test runner about
        acknowledged = [survives_round(path, seed) for seed in range(ROUNDS)]
    assert len(acknowledged) == ROUNDS
    assert sum(acknowledged) > ROUNDS  # the children did work
