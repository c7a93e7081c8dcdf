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
