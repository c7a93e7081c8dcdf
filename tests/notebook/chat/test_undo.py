"""`%tract chat undo` and `redo` in a shell, and the list of items as HTML."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.notebook.conftest import MODEL
from tract_jupyter.loop import TurnItem, TurnUndo
from tract_jupyter.notebook.chat import UndoCard
from tract_jupyter.rehearsal import Backups

TOOLS = """
from tract_jupyter.toolkit import Permission
rooms, breaks = [], []

def cancel(room: str) -> None:
    '''Cancel a booking.'''
    if breaks:
        raise ConnectionError("the hotel does not answer")
    rooms.remove(room)

@tract.tool(revert=cancel)
def book(room: str) -> None:
    '''Book a room.'''
    rooms.append(room)

@tract.tool
def notify(channel: str) -> None:
    '''Send a message.'''

tract.executor.permission = lambda tool, actor: Permission.ALLOW
replies.append(reply(None, call("book", {"room": "A"}, "c1"), call("notify", {"channel": "#birds"}, "c2")))
"""
PLAN = """
Undo “Book a room, please.”
↶ conversation  5 messages leave the context
× notify("#birds")  called at TIME; cannot be undone
↶ book("A")  called at TIME; cancel takes it back
Nothing has changed yet: %tract chat undo --yes does all of this.
%tract chat undo --conversation removes only the messages.
"""


@pytest.fixture
def chat(shell):
    """A shell with one turn that booked a room and sent a message."""
    assert shell.run(MODEL).ok
    result = shell.run(TOOLS)
    assert result.ok, result.error
    shell.run("%%tract_chat --direct\nBook a room, please.")
    assert shell.namespace["rooms"] == ["A"]
    return shell


def timeless(text):
    return re.sub(r"\d\d:\d\d", "TIME", text)


def test_a_script_that_ran_in_the_kernel_lists_the_users_variables_only(shell, monkeypatch):
    """Earlier turns have values of variables, so `tract` refers to them."""
    tract, names = shell.namespace["tract"], shell.ip.user_ns
    shell.run("import pandas as pd\nrows = pd.DataFrame({'n': [1, 2]})")
    run = SimpleNamespace(script=SimpleNamespace(code="rows['m'] = 3"))
    rehearser = SimpleNamespace(workspace=Path.cwd(), backups=Backups(Path.cwd() / "backups"))
    rehearsing = tract.scripts.rehearsing
    monkeypatch.setattr(rehearsing, "_rehearser", lambda: rehearser)
    monkeypatch.setattr(rehearsing, "is_on", True)
    monkeypatch.setattr(rehearsing, "held", [names["rows"]], raising=False)
    watched = rehearsing.watch(run, names)
    shell.run("rows['m'] = 3")
    tract.user("Meanwhile, the context changed.")
    change = watched.finish()
    assert {"tract", "tools", "rows"} <= set(names)
    assert [item.name for item in change.preview()] == ["rows"]


def test_undo_lists_its_items_before_anything_changes(chat):
    assert timeless(chat.run("%tract chat undo").text).strip() == PLAN.strip()
    assert chat.namespace["rooms"] == ["A"]


def test_a_whole_turn_is_undone_and_redone(chat):
    result = chat.run("%tract chat undo --yes")
    assert "Undone “Book a room, please.”\n↶ conversation  5 messages left the context" in result.text
    assert '↶ book("A")  reverted' in result.text
    assert chat.namespace["rooms"] == []
    assert chat.namespace["tract"].loop.turns() == []
    assert "Redo “Book a room, please.”" in chat.run("%tract chat redo").text
    assert 'book("A")  called again' in chat.run("%tract chat redo --yes").text
    assert chat.namespace["rooms"] == ["A"]
    assert "there is no undone turn here" in chat.run("%tract chat redo").error


def test_only_the_conversation_is_undone(chat):
    result = chat.run("%tract chat undo --conversation")
    assert "Effects outside the conversation stay. %tract chat redo puts the turn back." in result.text
    assert chat.namespace["rooms"] == ["A"]
    assert chat.namespace["tract"].loop.turns() == []


def test_a_failed_revert_is_reported_and_tried_again(chat):
    chat.run("breaks.append(1)")
    result = chat.run("%tract chat undo --yes")
    assert '× book("A")  its revert failed: ConnectionError: the hotel does not answer' in result.text
    assert "! conversation  its messages stay until every step is done" in result.text
    chat.run("breaks.clear()")
    assert "reverted" in chat.run("%tract chat undo --yes").text
    assert chat.namespace["rooms"] == []


def test_an_earlier_turn_keeps_its_messages(chat):
    chat.run("%%tract_chat\nThanks")
    result = chat.run("%tract chat undo 2")
    assert "× conversation  1 later turn builds on it, so its messages stay" in result.text
    assert "%tract chat undo 2 --yes" in result.text
    assert "--conversation" not in result.text
    chat.run("%tract chat undo 2 --yes")
    assert chat.namespace["rooms"] == []
    assert len(chat.namespace["tract"].loop.turns()) == 2


def test_the_options_are_completed(chat):
    assert {"--yes", "--conversation", "--force"} <= set(chat.complete("%tract chat undo --"))


def card(*items, **more):
    return UndoCard(TurnUndo("q" * 64, "Clean <b>it</b>", datetime.now(UTC), items, **more))


CHANGED = TurnItem("variable", "sightings", "changed since", "its value changed since")
INERT = "<img src=x onerror=alert(1)>"


def test_an_item_that_changed_since_has_a_choice_of_its_own():
    first = card(TurnItem("conversation", "conversation", "restorable", "leaves"), CHANGED)
    assert first.actions == ("force:1", "undo_all", "undo_chat", "cancel")
    assert 'data-slot="force:1 keep:1"' in first.html()
    assert first.force == []
    forced = first.after("force:1")
    assert forced.force == [("variable", "sightings")]
    assert "it is restored anyway" in forced.text()
    assert forced.actions[0] == "keep:1"
    assert forced.after("keep:1") == first


def test_a_result_has_no_buttons_except_for_another_try():
    assert card(CHANGED, is_done=True).actions == ()
    assert "data-slot" not in card(CHANGED, is_done=True).html()
    failed = TurnItem("call", "book()", "failed", "its revert failed")
    assert card(failed, is_done=True).actions == ("undo_again",)


def test_names_and_reasons_are_inert():
    page = card(TurnItem("file", INERT, "impossible", INERT)).html()
    assert "<img" not in page
    assert "Clean &lt;b&gt;" in page


def test_the_card_says_which_values_of_a_kernel_run_were_saved():
    text = "only variables and files that its code names were saved"
    assert text in card(CHANGED, is_exact=False).text()
    assert text in card(CHANGED, is_exact=False).html()
    assert text not in card(CHANGED).text()
    assert "its value changed since; it stays as it is" in card(CHANGED).text()


def test_the_memory_for_earlier_values_is_visible():
    assert "use 12.0 MB of 1.1 GB" in card(CHANGED, memory_used=12_000_000, memory_budget=2**30).text()


def test_a_result_gets_no_buttons_of_a_later_list(chat):
    undone = chat.run("%tract chat undo --yes").html
    assert "Undone" in undone
    assert "data-turn=" not in undone
    assert 'data-turn="Redo:' in chat.run("%tract chat redo").html
