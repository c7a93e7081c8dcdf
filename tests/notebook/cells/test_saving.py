"""Saves of the open notebook during a turn of an outside agent, and changes of the file by the agent."""

from __future__ import annotations

import json

import pytest

from tests.notebook.cells.page import PATH, FakePage
from tests.outside.conftest import command
from tract_jupyter.loop import TurnNoted

CELLS = {"a": "x = 1", "b": "x + 1", "c": "y = 2"}


def written(*cells, output=""):
    """Return the text of a notebook with cells: (id, source)."""
    outputs = [{"output_type": "stream", "name": "stdout", "text": output}] if output else []
    made = [{"id": i, "cell_type": "code", "source": s, "outputs": outputs, "metadata": {}} for i, s in cells]
    return json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def before():
    """Return the text of the notebook before the turn."""
    return written(*CELLS.items())


@pytest.fixture
def turn(tmp_path, monkeypatch, comms, bare_shell):
    """A function: an agent writes the notebook's file. Returns the row titles and the undone files."""
    path = tmp_path / PATH
    path.write_text(written(*CELLS.items()))
    monkeypatch.setenv("JPY_SESSION_NAME", str(path))
    bare_shell.run("%reload_ext tract_jupyter")
    tract = bare_shell.namespace["tract"]
    tract.outside.watch_saves = bare_shell.ip._tract_jupyter.notebook.watch_saves

    def run(text, page=None):
        path.write_text(before())
        if page is not None:
            FakePage(page).connect(comms)
        events = []
        agent = command(prompts=[[["write", str(path), text]]])
        tract.chat("Go.", agent=agent, on_turn=events.append)
        tract.outside.stop()
        titles = [one.title for one in events if isinstance(one, TurnNoted) and PATH in one.text]
        undone = tract.undo(turn=tract.loop.turns()[-1])
        return titles, [item.name for item in undone.items if item.kind == "file"]

    return run


SAVED = (["The open notebook was saved."], [])
WARNED = (["Files changed without a request."], [PATH])


def test_a_save_by_the_page_gives_no_warning_and_is_not_undone(turn):
    mine = {**CELLS, "b": "x + 2", "d": "new"}
    assert turn(written(*mine.items()), mine) == SAVED
    typed = {**mine, "a": "x = 10"}  # after the save
    assert turn(written(*mine.items()), typed) == SAVED
    moved = {name: mine[name] for name in ("c", "a", "b", "d")}
    assert turn(written(*moved.items()), moved) == SAVED
    assert turn(written(("a", "x = 1")), {"a": "x = 1"}) == SAVED  # the user deleted the others


def test_a_change_by_the_agent_is_a_warning(turn):
    other = {**CELLS, "b": "import os"}
    for text in (
        written(*other.items()),
        written(*CELLS.items(), ("d", "import os")),
        written(("a", "x = 1"), ("c", "y = 2")),
        written(*[*CELLS.items()][::-1]),
        "nonsense",
    ):
        assert turn(text, CELLS) == WARNED


def test_a_file_above_the_size_limit_is_never_a_save(turn, tmp_path, monkeypatch):
    monkeypatch.setitem(CELLS, "a", "x" * 300)
    monkeypatch.setattr("tract_jupyter.notebook.cells.notebook_file._LARGEST", 200)
    assert turn(written(("a", "import os"), *[(f"n{n}", "y" * 50) for n in range(9)]), CELLS) == WARNED


def test_cells_without_ids_keep_their_order(turn, monkeypatch):
    monkeypatch.setattr(f"{__name__}.CELLS", {})
    cells = [("", "x = 1"), ("", "del x")]
    monkeypatch.setattr(f"{__name__}.before", lambda: written(*cells))
    assert turn(written(*cells, output="2")) == SAVED
    assert turn(written(*cells[::-1])) == WARNED


def test_without_a_page_only_outputs_may_change(turn):
    assert turn(written(*CELLS.items(), output="2")) == SAVED
    assert turn(written(*{**CELLS, "a": "x = 3"}.items())) == WARNED
    assert turn(written(*[*CELLS.items()][::-1])) == WARNED
    assert turn(written(("a", "x = 1"))) == WARNED
