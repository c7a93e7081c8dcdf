"""A shell that believes to be in a kernel, with a page."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from tests.notebook.cells.page import FakePage
from tests.notebook.conftest import LOAD
from tests.review.fakes import FakeChannel
from tests.review.scripted import StreamingClient, call, reply
from tract_jupyter.review import KEEP
from tract_jupyter.scripts import looking

if TYPE_CHECKING:
    from tract_jupyter.review import Ticket


class FakeComms:
    """The comm manager of a kernel."""

    def __init__(self) -> None:
        self.targets: dict[str, Any] = {}

    def register_target(self, name: str, callback: Any) -> None:
        self.targets[name] = callback

    def unregister_target(self, name: str, callback: Any) -> None:
        assert self.targets.pop(name) == callback


@pytest.fixture
def comms(bare_shell):
    comms = FakeComms()
    header = {"header": {"msg_type": "execute_request"}, "content": {"allow_stdin": True}}
    bare_shell.ip.kernel = SimpleNamespace(comm_manager=comms, get_parent=lambda: header, io_loop=None)
    bare_shell.run(LOAD)
    yield comms
    del bare_shell.ip.kernel


@pytest.fixture
def tract(bare_shell, comms):
    """The tract of the notebook, whose model may look without asking."""
    tract = bare_shell.namespace["tract"]
    tract.review.grants.begin_rule(looking(), KEEP)
    return tract


@pytest.fixture
def page(comms):
    """A page with three cells."""
    return FakePage({"a": "x = 1", "b": "def f():\n    return x\n", "c": "print(f())"}).connect(comms)


@pytest.fixture
def model(tract):
    """A model with scripted replies."""
    model = StreamingClient(usual="done")
    tract.configure_llm(model)
    return model


class CellChannel(FakeChannel):
    """Shows requests at the cells first, as the notebook's channel does."""

    def __init__(self, notebook: Any, *steps: Any) -> None:
        super().__init__(*steps)
        self._notebook = notebook

    def show(self, ticket: Ticket) -> None:
        self._notebook.cells.show(ticket)
        super().show(ticket)


@pytest.fixture
def decided(bare_shell, tract):
    """Let these steps decide the next requests, and return the channel."""

    def by(*steps: Any) -> CellChannel:
        notebook = bare_shell.ip._tract_jupyter.notebook  # the state of the extension
        tract.reviewer.channel = CellChannel(notebook, *steps)
        return tract.reviewer.channel

    return by


@pytest.fixture
def ask(tract, model):
    """Let the model call a tool in a turn, and return the text of the result."""

    def turn(tool: str, *, on_turn: Any = None, **arguments: Any) -> str:
        model.replies = [reply(None, call(tool, arguments)), "Done."]
        tract.chat("Do it.", tools="self", on_turn=on_turn)
        return next(m["content"] for m in reversed(model.asked[-1][0]) if m["role"] == "tool")

    return turn


@pytest.fixture
def read(ask):
    """Let the model read all cells, and return the hashes by id."""

    def hashes(**arguments: Any) -> dict[str, str]:
        return {
            cell["id"]: cell["source_hash"] for cell in json.loads(ask("notebook_read", **arguments))["cells"]
        }

    return hashes
