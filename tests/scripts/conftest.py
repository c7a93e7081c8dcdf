"""Tools of the user's own, as for the toolkit; a store that several processes have open."""

from __future__ import annotations

import pytest

from tests.scripts.desk import Desk
from tests.toolkit.conftest import add, search
from tract_jupyter import Tract

__all__ = ["add", "search"]


@pytest.fixture
def opened(own_store):
    """Opens the store as another process would; what the tools do is in one list."""
    tracts, made = [], []

    def open_store() -> Desk:
        tracts.append(Tract.open(url=own_store))
        return Desk(tracts[-1], made)

    yield open_store
    for tract in tracts:
        tract.close()


@pytest.fixture
def desk(opened):
    return opened()


@pytest.fixture
def shop(tract):
    """The tools of `tests.scripts.ordinary`."""

    def rows() -> list[dict[str, int | str]]:
        """Return the rows."""
        return [{"id": 1, "name": "ada", "n": 2}, {"id": 2, "name": "bob", "n": 1}]

    def find(q: str) -> str | None:
        """Find a text."""
        return {"a": "apple"}.get(q)

    def put(text: str, n: int = 0) -> str:
        """Put a text."""
        return f"put {text}"

    def add(a: str, b: str) -> str:
        """Add two texts."""
        return a + b

    def save(rows: list[dict[str, int | str]]) -> int:
        """Save rows."""
        return len(rows)

    def scale(x: float) -> float:
        """Double a number."""
        return 2.0 * x

    for function in (rows, find, put, add, save, scale):
        tract.tool(function, read_only=True)
    return tract
