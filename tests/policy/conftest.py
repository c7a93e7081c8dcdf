"""A tract with policies whose clock stands still until a test moves it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest


class Clock:
    """Gives the present, and how long after that a test wants it to be."""

    def __init__(self):
        self.ahead = timedelta()

    def __call__(self):
        return datetime.now(UTC) + self.ahead

    def forward(self, **much):
        """Let time pass."""
        self.ahead += timedelta(**much)


@pytest.fixture
def clock():
    """A clock to be moved."""
    return Clock()


@pytest.fixture
def t(tract, clock):
    """A tract with a message, under that clock, where anything may act by itself."""
    tract.user("first")
    tract.policies.evaluator.watch.clock = clock
    tract.autonomy.ceiling = "autonomous"
    return tract
