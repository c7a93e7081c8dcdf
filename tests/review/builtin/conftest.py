"""A model that says what a test wants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.review.scripted import ScriptedClient

if TYPE_CHECKING:
    from collections.abc import Callable

    from tract_jupyter import Tract


@pytest.fixture
def ask(tract: Tract) -> Callable[..., tuple[Tract, ScriptedClient]]:
    """A tract with a question, and a client that gives these replies."""

    def make(*replies: Any) -> tuple[Tract, ScriptedClient]:
        tract.user("How tall is Ben Nevis?")
        client = ScriptedClient(*replies)
        tract.configure_llm(client)
        return tract, client

    return make
