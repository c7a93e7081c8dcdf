"""Two processes of one person on a store, and a reviewer that does not let a test wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.review.fakes import FakeChannel
from tract_jupyter import Tract
from tract_jupyter.operations import ActionDef
from tract_jupyter.review import reviewer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import MakeSpec


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits looks again at once, at the store too."""
    monkeypatch.setattr(reviewer, "HEARTBEAT", 0.001)
    monkeypatch.setattr(reviewer, "_STORE_POLL_SECONDS", -1)


@pytest.fixture
def ran() -> list[Any]:
    """What was run, and with which values."""
    return []


@pytest.fixture
def first(own_store: str, spec: MakeSpec) -> Iterator[Tract]:
    """The process that asks."""
    with Tract.open(url=own_store) as t:
        bump = ActionDef("bump", "", {}, "pending.fields['n'] += 1")
        t.register_operation(spec(fields={"n": {"type": "int", "default": 0}}, actions={"bump": bump}))
        t.reviewer.channel = FakeChannel()
        yield t


@pytest.fixture
def second(first: Tract, own_store: str) -> Iterator[Tract]:  # the first has made the store
    """Another process of the same person."""
    with Tract.open(url=own_store) as t:
        t.reviewer.channel = FakeChannel()
        yield t
