"""A model edits cells: the request, the click, the edits on the page, and their undo."""

from __future__ import annotations

import json
import threading

from tests.notebook.cells.page import FakePage, digest
from tests.review.fakes import FakeChannel, answering
from tests.review.scripted import ScriptedClient, call, reply
from tests.scripts.rehearsals import rehearse_in
from tract_jupyter.notebook.chat import stored_view


def ids(page):
    return [cell["id"] for cell in page.cells]


def test_a_cell_with_carriage_returns_is_not_changed_in_place(page, ask, read, decided):
    """An editor counts the two characters of its line breaks as one."""
    page.cell("a")["source"] = "x = 1\r\ny = 2"
    seen = read()
    user = decided(answering("approve"))
    edit = {"action": "replace", "cell": "a", "based_on": seen["a"], "source": "x = 1\ny = 3"}
    assert "Delete the cell, and insert its new source" in ask("notebook_edit", edits=[edit])
    assert not user.shown
    delete = {"action": "delete", "cell": "a", "based_on": seen["a"]}
    insert = {"action": "insert", "after": "b", "source": "x = 1\ny = 3"}
    made = json.loads(ask("notebook_edit", edits=[delete, insert]))["made"]
    assert ids(page) == ["b", made[1]["cell"], "c"]


def test_the_page_knows_the_request_also_without_marks(bare_shell, page, ask, read, decided):
    """It runs the cells that the user accepted with "Accept and run"."""
    bare_shell.run("%config TractJupyter.cell_marks = False")
    edit = {"action": "replace", "cell": "a", "based_on": read()["a"], "source": "x = 2"}
    user = decided(answering("approve"))
    ask("notebook_edit", edits=[edit])
    (request, _), *_ = user.shown
    sent = page.last("apply")
    assert (sent["mark"], sent["request"]) == (None, request.pending_id)


def test_five_edits_are_one_request_and_an_undo_takes_them_back(page, tract, ask, read, decided):
    seen = read()
    before, order = page.sources, ids(page)
    edits = [
        {"action": "replace", "cell": "b", "based_on": seen["b"], "source": "def f():\n    return x + 1\n"},
        {"action": "insert", "after": "a", "source": "import os\nos.remove('x')"},
        {"action": "insert", "after": "a", "source": "# Birds", "kind": "markdown"},
        {"action": "move", "cell": "c", "based_on": seen["c"], "after": None},
        {"action": "delete", "cell": "a", "based_on": seen["a"]},
    ]
    user = decided(answering("approve"))
    assert "'after' names cell a" in ask("notebook_edit", edits=edits)
    assert not user.shown
    edits[4] = {"action": "insert", "after": None, "source": "first"}
    made = json.loads(ask("notebook_edit", edits=edits))["made"]
    (request, _), *_ = user.shown
    assert request.title == "Edit the notebook: 5 edits"
    replaced, inserted, text, *_ = request.code
    assert replaced.code == "@@ -1 +1 @@\n def f():\n-    return x\n+    return x + 1\n "
    assert "TJ203" in [finding.code for finding in inserted.findings]
    assert (text.language, text.code) == ("text", "# Birds")
    assert [row.value for row in request.tables[0].rows] == ["Move cell 3 to the beginning: print(f())"]
    assert "edits" not in [row.name for table in request.tables for row in table.rows]
    new = [one["cell"] for one in made]
    assert ids(page) == [new[4], "c", "a", new[1], new[2], "b"]
    mark = page.cell("b")["tract"]
    turn = tract.loop.turns()[-1]
    assert mark == {
        "model": "scripted-1", "turn": turn.question, "commit": mark["commit"], "decision": "approve (fake)",
        "request": request.pending_id,
    }  # fmt: skip
    shown, hidden = page.last("show"), page.last("hide")
    assert (shown["digest"], hidden["outcome"]) == (request.fingerprint, "approved")
    assert shown["edits"][0]["hunks"] == [{"n": 0, "old": [1, 2], "new": [1, 2]}]
    assert {(one["severity"], one["line"]) for one in shown["edits"][1]["findings"]} == {
        ("low", 1),
        ("medium", 2),
    }
    preview = tract.preview_undo(turn)
    assert [(item.kind, item.state) for item in preview.items if item.kind == "call"] == [
        ("call", "restorable")
    ]
    assert {item.state for item in tract.undo(turn).items} == {"restorable"}
    assert (page.sources, ids(page), page.cell("b")["tract"]) == (before, order, None)


def accept(page, *edits, **changes):
    def step(_ticket):
        shown = page.last("show")
        page.say("decide", **{"request": shown["request"], "digest": shown["digest"], "choice": "accept",
                              "edits": list(edits), **changes})  # fmt: skip

    return step


def test_a_click_at_a_cell_accepts_some_edits_and_hunks(page, tract, ask, read, decided):
    page.cells[0]["source"] = "\n".join("abcdefghij")
    seen = read()
    edits = [
        {"action": "replace", "cell": "a", "based_on": seen["a"], "source": "\n".join("AbcdefghiJ")},
        {"action": "delete", "cell": "b", "based_on": seen["b"]},
    ]
    user = decided(accept(page, {"edit": "e1", "hunks": [1]}))
    ask("notebook_edit", edits=edits)
    assert page.sources == {"a": "\n".join("abcdefghiJ"), "b": "def f():\n    return x\n", "c": "print(f())"}
    assert not [one for one in page.got if one["type"] == "refused"]
    assert user.shown[-1][1] == "approved"
    assert page.cell("a")["tract"]["decision"] == "approve (cell)"
    user = decided(accept(page, choice="reject", reason="Not the birds."))
    told = ask("notebook_edit", edits=[{"action": "insert", "source": "1"}])
    assert "Not the birds." in told


def test_the_edits_of_the_user_win(page, tract, ask, read, decided):
    seen = read()
    edit = {"action": "replace", "cell": "a", "based_on": seen["a"], "source": "x = 2"}
    user = decided(*[answering("approve")] * 3)
    page.before_apply = lambda: page.cells[0].update(source="x = 1  # mine")  # while the request waits
    told = ask("notebook_edit", edits=[edit, {"action": "insert", "source": "1"}])
    assert "nothing was changed, because cell a or another one was changed" in told
    assert page.sources == {"a": "x = 1  # mine", "b": "def f():\n    return x\n", "c": "print(f())"}
    assert len([one for one in user.shown if one[1] == "pending"]) == 1
    assert "the user changed cell a since you read it" in ask("notebook_edit", edits=[edit])
    page.cells.pop(0)
    assert "cell a does not exist any more" in ask("notebook_edit", edits=[edit])
    assert (
        len([one for one in user.shown if one[1] == "pending"]) == 1
    )  # both were refused before any request
    page.hello["read_only"] = True
    page.say("hello", notebook="birds.ipynb", client="c1", **page.hello)
    assert "read-only" in ask("notebook_edit", edits=[{"action": "insert", "source": "1"}])


def test_a_page_that_tells_its_changes_is_not_asked_again(page, ask, read, decided):
    page.hello["abilities"] = ["read", "edit", "watch"]
    page.greet()
    seen = read()
    user = decided(answering("reject"), answering("reject"))

    def edited(**changes):
        """Propose an edit; return the number of questions to the page, and the text for the model."""
        page.got.clear()
        edit = {"action": "replace", "cell": "a", "based_on": seen["a"], "source": "x = 2", **changes}
        told = ask("notebook_edit", edits=[edit])
        return len([one for one in page.got if one["type"] == "read"]), told

    assert edited()[0] == 0
    page.cells[0]["source"] = "x = 3"
    page.say("changed")
    count, told = edited()
    assert count == 1
    assert "the user changed cell a since you read it" in told
    assert edited()[0] == 0  # the answer to the last question is known
    assert len(user.shown) == 2  # the first request, and its end
    page.greet()  # another document may be open now
    assert edited()[0] == 1


def test_a_page_is_asked_about_a_cell_that_it_has_not_reported(page, ask, read, decided):
    page.hello["abilities"] = ["read", "edit", "watch"]
    page.greet()
    read()
    decided(answering("reject"))
    page.got.clear()
    assert "'after' names cell d" in ask(
        "notebook_edit", edits=[{"action": "insert", "after": "d", "source": "1"}]
    )
    assert [one["type"] for one in page.got if one["type"] == "read"] == ["read"]


def test_a_change_of_another_page_does_not_move_an_accepted_edit_there(page, comms, ask, read, decided):
    other = FakePage({"a": "x = 1", "b": "mine = 1"}, abilities=["read", "edit", "watch"]).connect(comms)
    seen = read()  # the other page was used last

    def step(ticket):
        accept(page, {"edit": "e1"})(ticket)
        other.say("changed")

    decided(step)
    ask("notebook_edit", edits=[{"action": "replace", "cell": "a", "based_on": seen["a"], "source": "x = 2"}])
    assert (page.sources["a"], other.sources["a"]) == ("x = 2", "x = 1")


def test_a_tab_that_was_closed_is_passed_over(page, comms, ask, read, decided, monkeypatch):
    """A closed tab does not tell that it is gone."""
    monkeypatch.setattr("tract_jupyter.notebook.cells.pages.READ_SECONDS", 0.01)
    monkeypatch.setattr("tract_jupyter.notebook.cells.pages.FRESH_SECONDS", 0.0)
    page.cells[0]["source"] = "x = 1  # not saved"
    tab = FakePage(page.sources, abilities=["read", "edit", "watch"]).connect(comms)
    seen = read()
    tab.is_silent = True
    decided(answering("approve"))  # below the chat
    edit = {"action": "replace", "cell": "a", "based_on": seen["a"], "source": "x = 2"}
    assert "made" in json.loads(ask("notebook_edit", edits=[edit]))
    assert (page.sources["a"], tab.sources["a"]) == ("x = 2", "x = 1  # not saved")
    FakePage({}, abilities=["read", "edit"]).connect(comms).is_silent = True
    assert read()["a"] == digest("x = 2")[:16]  # of the page, and not of the file


def test_an_undo_leaves_a_cell_that_the_user_changed(page, tract, ask, read, decided):
    seen = read()
    decided(answering("approve"))
    ask("notebook_edit", edits=[{"action": "replace", "cell": "a", "based_on": seen["a"], "source": "x = 2"}])
    page.cells[0]["source"] = "x = 3"
    turn = tract.loop.turns()[-1]
    tried = tract.undo(turn)
    assert "failed" in {item.state for item in tried.items}
    assert str(tried).startswith("Not undone: Do it.")
    assert page.sources["a"] == "x = 3"
    page.cells[0]["source"] = "x = 2"
    assert {item.state for item in tract.undo(turn).items} == {"restorable"}
    assert page.sources["a"] == "x = 1"


IMPOSSIBLE = [
    ({"action": "replace", "cell": "a", "based_on": "0" * 16, "source": "1"}, "was not read with this hash"),
    ({"action": "delete", "cell": "zz", "based_on": digest("x = 1")[:16]}, "was not read with this hash"),
    ({"action": "replace", "cell": "a", "based_on": digest("x = 1")[:8], "source": "1"}, "was not read"),
    ({"action": "replace", "cell": "a", "source": "1"}, "needs 'based_on'"),
    (
        {"action": "replace", "cell": "a", "based_on": digest("x = 1"), "source": "x = 1"},
        "the same as the old",
    ),
    ({"action": "delete", "cell": "a", "based_on": digest("x = 1"), "after": "b"}, "no 'after' is allowed"),
    ({"action": "insert", "after": "zz", "source": "1"}, "'after' names cell zz"),
    ({"action": "insert", "after": "z" * 99 + "<b>", "source": "1"}, "which does not exist"),
    ({"action": "insert", "source": "x\ros.remove('y')"}, "a line break other than"),
    ({"action": "insert", "source": "x" * 100_001}, "at most"),
    ({"action": "insert", "source": "1", "metadata": {"tract": {}}}, "metadata"),
    ({"action": "run", "cell": "a"}, "action"),
]


def test_an_impossible_edit_is_refused_without_a_request(page, ask, read, decided):
    read()
    user = decided()
    for edit, why in IMPOSSIBLE:
        assert why in ask("notebook_edit", edits=[edit])
    assert "two edits change cell a" in ask(
        "notebook_edit", edits=[IMPOSSIBLE[0][0] | {"based_on": digest("x = 1")}] * 2
    )
    assert not user.shown
    assert page.sources == {"a": "x = 1", "b": "def f():\n    return x\n", "c": "print(f())"}


def test_only_the_read_text_of_a_cell_can_be_edited(page, ask, read, decided):
    user = decided()
    edit = {"action": "replace", "cell": "a", "based_on": digest("x = 1"), "source": "1"}
    assert "was not read with this hash" in ask("notebook_edit", edits=[edit])
    page.cells[0]["source"] = "x" * 100_001
    page.cells[1]["source"] = "key = 'sk-ant-api03-" + "aB3" * 30 + "AA'"
    shown = {cell["id"]: cell for cell in json.loads(ask("notebook_read"))["cells"]}
    assert "source_hash" not in shown["a"]
    assert shown["a"]["note"] == "too long to edit here"
    assert "source" not in shown["b"]
    assert not user.shown


def test_a_script_of_the_model_asks_with_the_same_diff(page, tract, ask, read, decided):
    seen = read()
    edit = {"action": "replace", "cell": "a", "based_on": seen["a"], "source": "x = 2"}
    user = decided(answering("approve"))
    told = ask("notebook_execute", code=f"print(tools.notebook_edit(edits=[{edit!r}]))")
    request = user.shown[0][0]
    assert request.title == "Change cell 1: x = 1"
    assert request.code[0].code == "@@ -1 +1 @@\n-x = 1\n+x = 2"
    assert "values" not in [table.binds for table in request.tables]
    assert page.sources["a"] == "x = 2", told
    assert {item.state for item in tract.undo(tract.loop.turns()[-1]).items} == {"restorable"}
    assert page.sources["a"] == "x = 1"


def test_a_cassette_replays_edits_without_a_page(bare_shell, page):
    calls = [("notebook_read", {}), ("notebook_edit", {"edits": [{
        "action": "replace", "cell": "a", "based_on": digest("x = 1")[:16], "source": "x = 2"}]})]  # fmt: skip

    def talk(cassette):
        bare_shell.run("%config TractJupyter.store = ':memory:'")
        bare_shell.run("%reload_ext tract_jupyter")
        bare_shell.run(f"%tract cassette {cassette} talk.jsonl")
        tract = bare_shell.namespace["tract"]
        if cassette == "record":
            page.connect(bare_shell.ip.kernel.comm_manager)
            tract.configure_llm(ScriptedClient(*[reply(None, call(*one)) for one in calls], "Done."))
        tract.reviewer.channel = FakeChannel(answering("approve"), answering("approve"))
        assert tract.chat("Make x larger.", tools="self").text == "Done."
        return bare_shell.run("%tract cassette stop").text

    assert "root hash" in talk("record")
    assert page.sources["a"] == "x = 2"
    page.cells[0]["source"] = "x = 3"
    assert "the same root hash" in talk("replay")
    assert page.sources["a"] == "x = 3"


def test_the_effects_of_new_code_follow_the_diffs(page, tract, ask, read, decided, monkeypatch):
    monkeypatch.setattr("tract_jupyter.notebook.cells.review.DELAY", 0)
    rehearser = rehearse_in(tract)
    rehearser.values["y = 2\n\nz = 3"] = {"y": 2, "z": 3}
    seen, told = read(), threading.Event()
    send = page.send

    def hear(data):
        send(data)
        if data["type"] == "effects":
            told.set()

    monkeypatch.setattr(page, "send", hear)

    def wait_and_accept(ticket):
        assert told.wait(20)
        page.greet()  # a reload shows them again
        answering("approve")(ticket)

    decided(wait_and_accept)
    edits = [
        {"action": "replace", "cell": "a", "based_on": seen["a"], "source": "y = 2"},
        {"action": "insert", "after": "b", "source": "# Birds", "kind": "markdown"},
        {"action": "insert", "after": "b", "source": "z = 3"},
    ]
    ask("notebook_edit", edits=edits)
    kinds = [one["type"] for one in page.got]
    assert kinds.index("show") < kinds.index("effects")
    assert kinds.count("effects") == 2
    lines = page.last("effects")["lines"]
    assert lines[0].startswith("The new code of 2 cells on a copy of the kernel: ")
    assert "`" not in lines[0]
    assert {line.split()[1] for line in lines[1:]} == {"y", "z"}
    assert all(one.is_discarded for one in rehearser.made)  # they are never kept
    told.clear()
    rehearser.why_not = "this machine has no copies"
    decided(wait_and_accept)
    ask("notebook_edit", edits=[{"action": "insert", "source": "w = 1"}])
    assert page.last("effects")["lines"] == ["Not rehearsed: this machine has no copies"]
    told.clear()
    decided(wait_and_accept)
    ask("notebook_edit", edits=[{"action": "insert", "source": "%pip install birds"}])
    assert page.last("effects")["lines"][0].startswith("Not rehearsed: ")


def test_the_row_and_the_undo_show_edits_as_the_request_did(page, tract, ask, read, decided):
    seen = read()
    decided(answering("approve"))
    edits = [
        {"action": "replace", "cell": "b", "based_on": seen["b"], "source": "def f():\n    return x + 1\n"},
        {"action": "insert", "after": "a", "source": "import os"},
        {"action": "move", "cell": "c", "based_on": seen["c"], "after": None},
    ]
    ask("notebook_edit", edits=edits, on_turn=bool)
    view = stored_view(tract)
    titles = (
        "Change cell 2: def f():; Insert a code cell after cell 1; Move cell 3 to the beginning: print(f())"
    )
    assert f"Edited the notebook: 3 edits ({titles})" in view.to_text()
    html = view.to_html()
    assert all(word in html for word in ("Before", "After", " + 1"))
    assert "based_on" not in html
    (item,) = [one for one in tract.preview_undo(tract.loop.turns()[-1]).items if one.kind == "call"]
    assert item.name == "Edit the notebook: 3 edits"
    assert item.detail.startswith("called at ")
    assert "take_back_edits" not in item.detail


def test_the_row_shows_the_edits_that_the_user_accepted(page, tract, ask, read, decided):
    seen = read()
    decided(accept(page, {"edit": "e1"}), answering("approve"))
    edits = [
        {"action": "replace", "cell": "a", "based_on": seen["a"], "source": "x = 7"},
        {"action": "delete", "cell": "b", "based_on": seen["b"]},
    ]
    ask("notebook_edit", edits=edits, on_turn=bool)
    assert "Edited the notebook: 1 edit (as you changed it)" in stored_view(tract).to_text()
    ask("notebook_edit", edits=[{"action": "insert", "after": "b", "source": "x = 1"}])
    assert "Edited the notebook: 1 edit (Insert after cell b)" in stored_view(tract).to_text()
