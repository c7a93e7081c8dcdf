"""A model reads and runs cells, with a page and with the saved file alone."""

from __future__ import annotations

import base64
import json

import pytest

from tests.attachments import png
from tests.notebook.cells.page import FakePage, digest
from tests.review.fakes import answering
from tests.review.scripted import StreamingClient, call, reply

IMAGE = png(3, 2)


def test_a_range_and_outputs(page, tract, ask, model, bare_shell):
    page.cells[1].update(
        execution_count=3,
        outputs=[
            {"output_type": "stream", "name": "stdout", "text": "\x1b[31mtwo\x1b[0m\n"},
            {"output_type": "execute_result", "data": {"text/plain": ["4", "2"]}, "metadata": {}, "execution_count": 3},
            {"output_type": "display_data", "data": {"image/png": base64.b64encode(IMAGE).decode()}, "metadata": {}},
            {"output_type": "error", "ename": "ValueError", "evalue": "no", "traceback": ["line 1"]},
            {"output_type": "stream", "name": "stdout", "text": "token = 'sk-ant-api03-" + "aB3" * 30 + "AA'"},
        ],
    )  # fmt: skip
    told = json.loads(ask("notebook_read", first=2, count=1, outputs=True).partition("\n[")[0])
    (cell,) = told["cells"]
    assert (told["total"], cell["id"], cell["number"], cell["execution_count"]) == (3, "b", 2, 3)
    *outputs, secret = cell["outputs"]
    assert outputs == ["two\n", "42", "[also as image/png]", "line 1\nValueError: no"]
    assert secret.startswith("[not shown, because it")
    (image,) = (
        tract.tools.notebook_read(cells=["b"], outputs=True)
        and tract.executor.execute("notebook_read", {"cells": ["b"], "outputs": True}, actor="user").images
    )
    assert image.data == IMAGE
    told = json.loads(ask("notebook_read", cells=["c", "zz"]))
    assert [one["id"] for one in told["cells"]] == ["c"]
    assert "There are no cells with the other ids" in told["note"]
    model.replies = [reply(None, call("notebook_read", {"cells": ["b"], "outputs": True})), "Done."]
    bare_shell.run("y = 42")
    assert bare_shell.run("%%tract_chat --vars y --schema-only\nRead b.").ok
    hidden = next(
        m["content"] for m in model.asked[-1][0] if m["role"] == "tool" and "not shown in" in m["content"]
    )
    assert not json.loads(hidden)["cells"][0].get("outputs")
    page.cells = [{**page.cells[0], "id": f"n{n}", "source": "y" * 1_000} for n in range(40)]
    told = json.loads(ask("notebook_read"))
    assert 5 < len(told["cells"]) < 15
    assert "Read the rest with another call" in told["note"]


def test_reading_needs_an_approval_unless_the_user_allowed_it(page, tract, ask, decided):
    tract.review.grants.end_rules()
    user = decided(answering("reject"), answering("reject"), answering("approve"))
    assert "the user refused it" in ask("notebook_read")
    page.say("ask", cell="b", kind="fix")
    assert [one["id"] for one in json.loads(ask("notebook_read", cells=["b"], outputs=True))["cells"]] == [
        "b"
    ]
    assert "the user refused it" in ask("notebook_read", cells=["a", "b"])
    assert len(json.loads(ask("notebook_read"))["cells"]) == 3
    asked = [request for request, status in user.shown if status == "pending"]
    assert len(asked) == 3
    assert "the tool reads data of the user" in asked[0].why


@pytest.fixture
def saved(bare_shell, tmp_path, monkeypatch):
    """The notebook's file, which the front end reports."""
    path = tmp_path / "birds.ipynb"
    cells = [
        {
            "cell_type": "code",
            "id": "a",
            "source": ["x = 1\n", "y = 2"],
            "outputs": [7],
            "execution_count": 1,
        },
        {"cell_type": "markdown", "id": "<b>", "source": "# Birds"},
        {"cell_type": "evil", "source": [], "execution_count": True},
    ]
    path.write_text(json.dumps({"cells": cells, "nbformat": 4, "nbformat_minor": 4}))
    monkeypatch.setenv("JPY_SESSION_NAME", str(path))
    return path


def test_without_a_page_the_file_is_read_and_code_is_proposed(saved, bare_shell, tract, ask, decided):
    told = json.loads(ask("notebook_read", outputs=True))
    assert told["cells"] == [
        {"id": "a", "number": 1, "kind": "code", "execution_count": 1, "source": "x = 1\ny = 2",
         "source_hash": digest("x = 1\ny = 2")[:16]},
        {"id": "", "number": 2, "kind": "markdown", "source": "# Birds"},
        {"id": "", "number": 3, "kind": "raw", "source": ""},
    ]  # fmt: skip
    assert "unsaved changes are not seen" in told["note"]
    user = decided(answering("approve"))
    edit = {"action": "delete", "cell": "a", "based_on": digest("x = 1\ny = 2")}
    assert "only code can be inserted now" in ask("notebook_edit", edits=[edit])
    assert not user.shown
    code = [{"action": "insert", "source": "z = 3\n"}, {"action": "insert", "source": "w = 4"}]
    assert "in a new cell below the running one" in ask("notebook_edit", edits=code)
    assert bare_shell.ip.rl_next_input == "z = 3\n\nw = 4"
    assert len(user.shown[0][0].code) == 3
    turn = tract.loop.turns()[-1]
    assert "delete the cell to take it back" in str(tract.undo(turn))
    saved.write_text("[" * 5_000)
    assert "cannot be read as a notebook" in ask("notebook_read")
    saved.unlink()
    assert "Save the notebook" in ask("notebook_read")


def test_a_silent_page_is_replaced_until_it_speaks(saved, page, comms, ask, monkeypatch):
    monkeypatch.setattr("tract_jupyter.notebook.cells.pages.READ_SECONDS", 0.01)
    page.cells.append({**page.cells[0], "id": "d"})
    other = FakePage({"o": "1"}).connect(comms)
    other.say("hello", notebook="RTC:other.ipynb", client="c2", **other.hello)
    assert len(json.loads(ask("notebook_read"))["cells"]) == 4  # of the page that shows this notebook
    page.is_silent = True
    assert len(json.loads(ask("notebook_read"))["cells"]) == 3
    asked = len(page.got)
    ask("notebook_read")
    assert len(page.got) == asked
    page.is_silent = False
    page.say("ask", cell="a", kind="explain")
    assert len(json.loads(ask("notebook_read"))["cells"]) == 4
    page.leave()
    other.leave()
    assert len(json.loads(ask("notebook_read"))["cells"]) == 3


def test_a_notebook_with_the_same_name_in_a_folder_above_is_another_one(
    saved, page, comms, ask, read, decided
):
    """Two notebooks can use one kernel, and a copy has the same cells."""
    page.say("hello", notebook=f"{saved.parent.name}/{saved.name}", client="c1", **page.hello)
    seen = read()
    other = FakePage(page.sources).connect(comms)
    other.say("hello", notebook=saved.name, client="c2", **other.hello)
    other.say("ask", cell="a", kind="explain")  # so it was used last
    decided(answering("approve"))
    ask("notebook_edit", edits=[{"action": "replace", "cell": "a", "based_on": seen["a"], "source": "x = 7"}])
    assert (page.sources["a"], other.sources["a"]) == ("x = 7", "x = 1")
    assert "show" not in {one["type"] for one in other.got}


def test_a_page_that_was_reloaded_starts_no_second_turn_about_an_error(page, comms, bare_shell, model):
    """Without collaboration, the page has lost the cell of the turn."""
    page.say("ask", cell="a", kind="fix")
    source = page.last("compose")["source"]

    class Reloading(StreamingClient):
        def chat(self, messages, on_delta=None, **options):
            page.leave()
            again = FakePage(page.sources).connect(comms)
            for cell, kind in (("a", "fix"), ("a", "explain"), ("b", "fix")):
                again.say("ask", cell=cell, kind=kind)
            pages.append(again)
            return super().chat(messages, on_delta, **options)

    pages = []
    bare_shell.namespace["tract"].configure_llm(Reloading(usual="done"))
    bare_shell.run(source)
    (again,) = pages
    refused = [one for one in again.got if one["type"] == "refused"]
    assert [(one["of"], one["reason"]) for one in refused] == [
        ("ask", "a turn about this error is running")
    ] * 2
    assert [one["cell"] for one in again.got if one["type"] == "compose"] == ["b"]
    again.say("ask", cell="a", kind="fix")  # the turn has ended
    assert again.last("compose")["source"] == source


def test_a_page_that_was_reloaded_gets_the_open_requests(page, comms, ask, read, decided):
    read()

    def reload(ticket):
        page.leave()
        again = FakePage(page.sources).connect(comms)
        assert [one["type"] for one in again.got[:2]] == [
            "welcome",
            "show",
        ]  # the count of requests may follow
        assert again.got[1]["digest"] == ticket.request.fingerprint
        answering("no")(ticket)

    decided(reload)
    ask("notebook_edit", edits=[{"action": "insert", "source": "1"}])


def test_a_cell_runs_after_the_approval_of_its_text(page, bare_shell, tract, ask, read, decided):
    seen = read()
    bare_shell.namespace["y"] = 40
    page.cells[0]["source"] = "x = y + 2\nprint(x)\nx"
    run = {"cell": "a", "based_on": seen["a"]}
    user = decided(answering("no"), answering("approve"))
    assert "the user changed or deleted cell a" in ask("notebook_run_cell", **run)
    assert "was not read as code" in ask("notebook_run_cell", cell="a", based_on=digest("evil")[:16])
    assert not user.shown
    run["based_on"] = read()["a"]
    assert "no" in ask("notebook_run_cell", **run)
    assert "x" not in bare_shell.namespace
    told = ask("notebook_run_cell", **run)
    assert user.shown[-1][0].code[0].code == "x = y + 2\nprint(x)\nx"
    assert (bare_shell.namespace["x"], told.splitlines()[0]) == (42, "42")
    assert not [one for one in page.got if one["type"] in {"apply", "show"}]


def test_the_tools_are_offered_in_a_kernel_alone(tract, comms, page, bare_shell, model):
    tract.chat("Hello", tools="code")
    offered = [one["function"]["name"] for one in model.asked[-1][1]["tools"]]
    assert {"notebook_read", "notebook_edit", "notebook_run_cell"} <= set(offered)
    bare_shell.run("%unload_ext tract_jupyter")
    assert page.is_closed
    assert not comms.targets
    del bare_shell.ip.kernel
    bare_shell.run("%load_ext tract_jupyter")
    assert "notebook_edit" not in bare_shell.namespace["tract"].executor.tools()
    bare_shell.ip.kernel = None
