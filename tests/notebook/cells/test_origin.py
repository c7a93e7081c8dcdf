"""Why a cell is there: the store answers, and not the metadata of the cell."""

from __future__ import annotations

import json

import pytest

from tests.notebook.cells.page import FakePage
from tests.review.fakes import answering
from tract_jupyter.exceptions import OperationError
from tract_jupyter.notebook.cells import describe_origin


@pytest.fixture
def why(bare_shell, page, tract, monkeypatch):
    """Describe the origin of a cell, with its mark as the page reports it."""
    pages = bare_shell.ip._tract_jupyter.notebook.cells.pages  # the state of the extension
    say = FakePage.say

    def with_marks(self, kind, /, **content):
        for cell in content.get("cells", ()):
            cell["metadata_tract"] = self.cell(cell["id"]).get("tract")
        say(self, kind, **content)

    monkeypatch.setattr(FakePage, "say", with_marks)
    return lambda name: "\n".join(describe_origin(tract, pages, name))


def test_the_store_says_why_a_cell_is_there(page, ask, read, decided, why):
    seen = read()
    edits = [
        {"action": "replace", "cell": "a", "based_on": seen["a"], "source": "x = 2"},
        {"action": "insert", "after": "b", "source": "new = 1"},
    ]
    decided(answering("approve"))
    new = json.loads(ask("notebook_edit", edits=edits))["made"][1]["cell"]
    told = why("a")
    assert told.startswith("Asked for by: Do it.\nModel: scripted-1\n")
    assert "approved request" in told
    assert told.endswith("Its text is the approved one.")
    assert why(new) == why("3") == told
    page.cell("a")["source"] = "x = 3"
    assert why("1").endswith("Its text was changed after the approved edit.")


def test_forged_metadata_proves_nothing(page, ask, read, decided, why):
    seen = read()
    assert why("a") == "Its metadata names no request: you wrote it, or the mark was left out or removed."
    edit = {"action": "replace", "cell": "a", "based_on": seen["a"], "source": "x = 2"}
    decided(answering("reject"), answering("approve"))
    ask("notebook_edit", edits=[edit])
    ask("notebook_edit", edits=[edit])
    mark = page.cell("a")["tract"]
    page.cell("b")["tract"] = mark  # copied from another cell
    assert "It proves nothing" in why("b")
    decided(answering("approve"))
    made = json.loads(ask("notebook_edit", edits=[{"action": "insert", "after": "b", "source": "new = 1"}]))[
        "made"
    ]
    new = page.cell(made[0]["cell"])
    assert why(new["id"]).endswith("Its text is the approved one.")
    page.cell("b").update(tract=new["tract"], source="new = 1")  # also if the request inserted such a text
    assert "It proves nothing" in why("b")
    for request in ("0" * 16, "<b>", 7, ""):
        page.cell("a")["tract"] = {**mark, "model": "<script>", "request": request}
        assert "script" not in why("a")
        assert "approved request" not in why("a")
    with pytest.raises(OperationError, match="there is no cell zz"):
        why("zz")


def test_a_user_can_leave_the_mark_out(bare_shell, page, ask, read, decided, why):
    bare_shell.run("%config TractJupyter.cell_marks = False")
    edit = {"action": "replace", "cell": "a", "based_on": read()["a"], "source": "x = 2"}
    decided(answering("approve"))
    ask("notebook_edit", edits=[edit])
    assert page.cell("a")["tract"] is None
    assert "names no request" in why("a")


def test_a_command_describes_a_cell(bare_shell, page, tract):
    assert "names no request" in bare_shell.run("%tract log --cell b").text
