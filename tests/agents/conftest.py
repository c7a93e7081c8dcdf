"""A tract with tools that write down what they did, a cast of models, and a person made of code."""

from __future__ import annotations

import pytest

from tests.agents.cast import Cast, Person
from tract_jupyter import Tract


def furnish(tract, done):
    """Give a tract the tools `add`, which reads, and `write` and `erase`, which change something."""

    @tract.tool(read_only=True)
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        done.append(("add", a, b))
        return a + b

    @tract.tool
    def write(text: str) -> str:
        """Write a text."""
        done.append(("write", text))
        return "ok"

    @tract.tool(destructive=True)
    def erase(text: str) -> str:
        """Erase a text."""
        done.append(("erase", text))
        return "gone"

    tract.loop.tools = "agents"
    return tract


@pytest.fixture
def done():
    """What the tools did, in order."""
    return []


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    """An empty working directory, which is the workspace."""
    folder = tmp_path / "workspace"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def store(tmp_path, workspace):  # the folder in which a tract is opened is its workspace
    """Where a store is that can be opened again."""
    folder = tmp_path / "stores"
    folder.mkdir()
    return folder / "t.db"


@pytest.fixture
def reopened(store, done):
    """Open the same store again and again; each tract has the tools."""
    opened = []

    def give():
        opened.append(furnish(Tract.open(store), done))
        return opened[-1]

    yield give
    for tract in opened:
        tract.close()


@pytest.fixture
def stage(reopened):
    """A tract in a file, with tools."""
    return reopened()


@pytest.fixture
def cast(stage):
    """Have models play their parts."""

    def give(**parts):
        made = Cast(**parts)
        stage.models.use(made)
        return made

    return give


@pytest.fixture
def person(stage):
    """Have a person answer by a rule."""

    def give(rule=lambda pending: "approve"):
        stage.reviewer.channel = Person(rule)
        return stage.reviewer.channel

    return give


@pytest.fixture
def files(store):
    """List all files that agents have left below the store's folder."""
    return lambda: sorted(path for path in store.parent.glob("agents/**/*") if path.is_file())
