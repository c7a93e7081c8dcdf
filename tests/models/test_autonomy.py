"""Levels of autonomy."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tract_jupyter.exceptions import ContentError
from tract_jupyter.models import AutonomyLevel, effective_autonomy

LEVELS = st.sampled_from(AutonomyLevel)


@given(LEVELS, LEVELS)
def test_the_lower_level_counts(ceiling, own):
    found = effective_autonomy(ceiling, own)
    assert found in {ceiling, own}
    assert found.rank == min(ceiling.rank, own.rank)
    assert found == effective_autonomy(own, ceiling)


def test_a_level_is_its_name():
    assert AutonomyLevel("manual") is AutonomyLevel.MANUAL
    assert AutonomyLevel(AutonomyLevel.AUTONOMOUS) is AutonomyLevel.AUTONOMOUS


def test_an_unknown_level_is_refused_with_the_names():
    with pytest.raises(ContentError, match="manual, collaborative, autonomous"):
        AutonomyLevel("colaborative")
