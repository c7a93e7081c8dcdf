"""The list of the requests of one step, without a front end: its answers and its final output."""

import pytest

from tract_jupyter.notebook import NotebookChannel
from tract_jupyter.notebook.panels import QuestionPanel


class Clicking:
    """A front end that can show panels."""

    can_click = has_kernel = takes_input = True
    in_callback = is_headless = is_unattended = False
    loop = None


@pytest.fixture
def ask(tract, spec):
    tract.register_operation(spec())
    return lambda url: tract.fire("citation_check", {"urls": [url]}, review=True)


@pytest.fixture
def tickets(tract, ask):
    return [tract.reviewer.show(ask(url)) for url in ("a", "b", "c")]


def click(panel, place, action="approve", arguments="{}", seen=None, round_id=None):
    row = panel.view["rows"][place]
    seen = sorted(panel._tickets[place].needed) if seen is None else seen
    content = {"pending_id": row["pending_id"], "round_id": round_id or row["round_id"], "action": action}
    panel._on_message(panel, {"type": "decide", "arguments": arguments, "seen": seen, **content}, [])
    return content["round_id"]


def test_each_row_takes_its_own_answer(tickets):
    panel = QuestionPanel(tickets)
    assert panel.view["title"] == "3 calls wait for your decision"
    click(panel, 1, arguments='{"edits":{"urls":["z"]}}')
    click(panel, 2, "reject", '{"reason":"zebra"}')
    panel.refresh()
    assert [row["status"] for row in panel.view["rows"]] == ["pending", "approved", "rejected"]
    assert tickets[1].pending.fields["urls"] == ["z"]
    assert panel.view["title"] == "1 call waits for your decision"
    assert "zebra" in panel.fallback()["text/plain"]


def test_a_request_not_fully_on_display_is_not_approved(tickets):
    panel = QuestionPanel(tickets)
    round_id = click(panel, 0, seen=sorted(tickets[1].needed))
    assert tickets[0].status.is_open
    assert panel.view["rows"][0]["late"]
    assert panel.view["rows"][1]["late"] == ""
    click(panel, 0, round_id=round_id)
    assert tickets[0].status == "approved"


def test_a_repeated_click_is_not_late_but_another_click_is(tickets):
    first, second = QuestionPanel(tickets), QuestionPanel(tickets)
    round_id = click(first, 0)
    click(first, 0, round_id=round_id)
    assert first.heard == round_id
    assert first.view["rows"][0]["late"] == ""
    click(second, 0, "reject", round_id=round_id)
    assert second.view["rows"][0]["late"].startswith("Another decision came first: approved by ")


@pytest.mark.parametrize("content", [{}, {"round_id": 1}, {"pending_id": "x", "round_id": "y"}])
def test_invalid_answers_are_ignored(tickets, content):
    panel = QuestionPanel(tickets)
    panel._on_message(panel, {"type": "decide", **content}, [])
    assert all(ticket.status.is_open for ticket in tickets)


@pytest.mark.parametrize("count", [1, 3])
def test_requests_made_together_have_one_output(tract, ask, monkeypatch, count):
    shown, updated = [], []
    place = "tract_jupyter.notebook.output"
    monkeypatch.setattr(f"{place}.display", lambda content, **_: shown.append(content))
    monkeypatch.setattr(f"{place}.update_display", lambda content, **_: updated.append(content))
    tract.reviewer.channel = channel = NotebookChannel(Clicking())
    with channel.together():
        tickets = [tract.reviewer.show(ask(f"u{n}")) for n in range(count)]
    (panel,) = shown
    assert isinstance(panel, QuestionPanel) == (count > 1)
    assert not channel.panel_may_answer(tickets[0], 100)
    panel.ready = True
    assert channel.panel_may_answer(tickets[0], 100)
    for place in range(count):
        tickets[place].pending.approve()
        channel.show(tickets[place])
    assert "approved" in updated[-1]["text/html"]
    assert len(shown) == 1
