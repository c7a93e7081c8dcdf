"""`%tract merge`: merges without conflicts, and conflicts that a panel or a command decides."""

import pytest

from tract_jupyter.notebook.panels import Panel, body_html, record_html
from tract_jupyter.review import Ticket, record_text, request_text

TALK = """
first = tract.user("Meet on Monday.\\nBring the papers.").commit_hash
second = tract.user("Room 4.").commit_hash
tract.branch("topic")
tract.user("Meet on Tuesday.\\nBring the papers.", edit=first)
tract.annotate(second, "skip")
tract.switch("main")
"""
COLLIDE = """
tract.user("Meet on Friday.\\nBring the papers.", edit=first)
tract.user("Room 5.", edit=second)
"""


@pytest.fixture
def merging(tract):
    """The request to merge `topic`, which has two conflicts with the current branch."""
    exec(TALK + COLLIDE, {"tract": tract})
    return tract.reviewer.show(tract.propose_merge("topic"))


def texts(tract):
    return [message["content"] for message in tract.compile().to_dicts()]


def decide(ticket, edits, seen=None):
    panel = Panel(ticket)
    seen = sorted(ticket.needed) if seen is None else seen
    content = {"type": "decide", "action": "approve", "arguments": {"edits": edits}, "seen": seen}
    panel._on_message(panel, {**content, "round_id": ticket.round_id}, [])
    return panel.view


def test_a_merge_without_conflicts_is_done_at_once(shell):
    shell.run(TALK)
    assert "Merged topic into main: fast-forward" in shell.run("%tract merge topic").text
    assert texts(shell.namespace["tract"]) == ["Meet on Tuesday.\nBring the papers."]


def test_conflicts_are_shown_and_the_merge_waits_for_decisions(shell):
    shell.run(TALK + COLLIDE)
    shown = shell.run("%tract merge topic")
    assert shown.ok
    assert "2 of 2 conflicts are not decided." in shown.text
    for line in ("ours, main:", "theirs, topic:", "    | Meet on Friday.", "    | Meet on Tuesday."):
        assert line in shown.text
    key = next(word for word in shown.text.split() if word.startswith("(both_edit:"))[1:-2]
    other = next(word for word in shown.text.split() if word.startswith("(skip_vs_edit:"))[1:-2]
    done = shell.run(f"%tract decide merge {key}=theirs {other}=ours")
    assert done.ok, done.error
    assert texts(shell.namespace["tract"]) == ["Meet on Tuesday.\nBring the papers.", "Room 5."]


@pytest.mark.parametrize("line", ["merge", "merge a b", "merge nowhere"])
def test_an_invalid_merge_command_gives_an_error(shell, line):
    shell.run(TALK)
    assert shell.run(f"%tract {line}").error


def test_both_sides_of_a_conflict_are_shown_with_differences_marked(merging):
    html = body_html(merging)
    assert html.count('class="choice"') == 2
    assert "<del>Friday</del>" in html
    assert "<ins>Tuesday</ins>" in html
    assert "theirs, topic leaves it out" in html
    assert "not decided" in html
    assert "Meet on Friday." in record_text(merging)
    assert "data-line" not in record_html(merging)


def test_one_is_taken_and_the_other_is_written(merging, tract):
    first, second = (choice.name for choice in merging.request.choices)
    decide(merging, {first: "Meet on Sunday.", second: "theirs"})
    assert merging.status == "approved"
    assert texts(tract) == ["Meet on Sunday."]


def test_a_line_equal_on_both_sides_must_be_on_display_once(merging):
    first = merging.request.choices[0]
    html = body_html(merging)
    (key,) = {
        part.partition('"')[0]
        for part in html.split('data-line="')[1:]
        if part.partition(">")[2].startswith("Bring the papers.")
    }
    assert key in merging.needed
    view = decide(merging, {first.name: "ours"}, seen=sorted(merging.needed - {key}))
    assert merging.status.is_open
    assert "have not been on display here" in view["late"]


def test_an_undecided_conflict_prevents_the_merge(merging, tract):
    before = texts(tract)
    decide(merging, {merging.request.choices[0].name: "ours"})
    assert merging.status == "failed"
    assert texts(tract) == before


def test_a_conflict_that_does_not_exist_is_refused(merging):
    decide(merging, {"both_edit:1": "ours"})
    assert merging.status == "pending"
    assert "Nothing was run" in merging.request.note


def test_an_earlier_decision_about_a_conflict_is_displayed(merging):
    pending = merging.pending
    first = merging.request.choices[0].name
    pending.set_resolution(first, "replace", "Meet some day.", "nobody knows")
    ticket = Ticket(pending, lambda _: None)
    assert "it becomes:\n    | Meet some day." in request_text(ticket.request, ticket.status)
    assert "Meet some day." in body_html(ticket)
    assert "1 of 2 conflicts is not decided." in ticket.request.summary
    assert len(ticket.needed) > len(merging.needed)
