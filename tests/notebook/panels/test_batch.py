"""The panel of the inbox, without a front end: rows, decisions and the record."""

import secrets
import threading
from unittest.mock import Mock

import pytest

from tests.notebook.panels.test_render import outline
from tract_jupyter import Tract
from tract_jupyter.notebook import NotebookChannel
from tract_jupyter.notebook.panels import Inbox
from tract_jupyter.notebook.panels import inbox as batch_module
from tract_jupyter.notebook.panels import inbox as inbox_module
from tract_jupyter.operations import ActionDef, OperationSpec
from tract_jupyter.review import Ticket, process_text, this_process

KEEP = ActionDef("keep", "", {}, "pending.fields['text'] = 'kept'; pending.approve()")


class FrontEnd:
    """A front end that draws widgets and takes no input."""

    has_kernel = can_click = takes_input = True
    in_callback = is_headless = is_unattended = False
    loop = None


@pytest.fixture
def shown(monkeypatch):
    """The displays of the inbox: method and content."""
    outputs = []
    for name in ("CellOutput", "replace_widget"):  # panels of single requests
        monkeypatch.setattr(f"tract_jupyter.notebook.channels.{name}", Mock())
    for name in ("display", "update_display"):
        place = f"tract_jupyter.notebook.output.{name}"
        monkeypatch.setattr(place, lambda what, _how=name, **_: outputs.append((_how, what)))
    return outputs


@pytest.fixture
def waiting(tract, spec, shown):
    """A function that fires the example with each text and leaves the requests open."""
    tract.reviewer.channel = NotebookChannel(FrontEnd())
    fail = ActionDef("burst", "", {}, "1 / 0")
    tract.register_operation(
        OperationSpec(
            "note", "Note", {"text": {"type": "str"}}, {"burst": fail, "keep": KEEP}, unhandled="ask"
        )
    )

    def fire(*texts):
        return [tract.fire("note", {"text": text}) for text in texts]

    return fire


def open_inbox(tract, left=()):
    made = Inbox(tract, left)
    made.show()
    return made


def decide(inbox, action, *numbers, **more):
    rows = [inbox.batch.page[number] for number in numbers]
    rounds = {row.pending_id: row.ticket.round_id for row in rows}
    key = secrets.token_hex(8)  # a second message with the same key counts as a repetition of the first
    seen = [key for row in rows for key in row.ticket.needed]
    message = {"type": "decide", "key": key, "action": action, "rounds": rounds, "seen": seen}
    inbox._panel.take({**message, **more})


def texts(inbox):
    return [row.ticket.pending.fields.get("text") for row in inbox.batch.page]


def test_each_row_shows_the_action_its_values_and_the_reason(tract, waiting):
    waiting("<one>", "two")
    inbox = open_inbox(tract)
    first, _ = inbox._panel.view["rows"]
    assert first["title"] == "note"
    assert [(one["name"], one["text"]) for one in first["values"]] == [("text", "'<one>'")]
    assert "note asks the user" in first["why"]
    assert first["waits"] == "no cell waits for it"
    assert not first["must_be_opened"]
    assert "&lt;one&gt;" in inbox._panel.bodies[first["pending_id"]]
    assert "<one>" not in first["headline_html"] + first["record_html"]


def test_an_undecidable_request_is_listed_with_the_command_that_rejects_it(tract, waiting):
    waiting("one")
    spoilt = tract.fire("note", {"text": "two"}, review=True)
    spoilt.fields["text"] = 2
    waiting("three")
    inbox = open_inbox(tract)
    assert texts(inbox) == ["one", "three"]
    told = outline(inbox._panel.view["rest_html"]).text
    for text in (told, inbox.batch.record_text()):
        assert "'text' should be" in text
        assert "%tract decide ID reject REASON rejects such a request." in text


def test_the_panel_is_opened_with_the_first_page(tract, waiting):
    waiting("a", "b")
    inbox = Inbox(tract, ())
    assert len(inbox._panel.view["rows"]) == 2
    assert len(inbox._panel.bodies) == 1  # they differ only in a short value, so the code is read once
    assert not inbox.ready


def test_each_row_says_whether_a_cell_waits(tract, waiting, monkeypatch):
    waiting("a", "b")
    looked = []
    monkeypatch.setattr(batch_module, "is_waited_for", looked.append)
    inbox = open_inbox(tract)
    inbox.batch.page[0].ticket.waiting += 1  # for longer than any lease
    inbox.refresh()
    waits = [row["waits"] for row in inbox._panel.view["rows"]]
    assert waits == ["a cell of this notebook waits", "no cell waits for it"]
    assert not looked  # this process does not need to read its own state from the store


def test_a_cell_of_another_process_waits(tmp_path, shown, monkeypatch):
    with Tract.open(tmp_path / "t.db") as asking, Tract.open(tmp_path / "t.db") as here:
        kept, waited_for = (asking.propose_operation(PROPOSED, actor=actor) for actor in ("user", "agent:1"))
        asking.reviewer.keep(kept)
        asking.reviewer.keep(waited_for)
        asking.reviewer.ledger.wait(waited_for.pending_id, 60)
        here.reviewer.channel = NotebookChannel(FrontEnd())
        monkeypatch.setattr(batch_module, "this_process", lambda: "another")
        looked = []
        is_waited_for = batch_module.is_waited_for
        monkeypatch.setattr(
            batch_module, "is_waited_for", lambda one: looked.append(one) or is_waited_for(one)
        )
        inbox = open_inbox(here)
        inbox.refresh()
        waits = [row["waits"] for row in inbox._panel.view["rows"]]
        assert waits == ["no cell waits for it", f"{process_text(this_process())} waits"]
        assert len(looked) == 2  # not at each redraw


@pytest.mark.slow
def test_some_are_approved_and_one_is_rejected(tract, waiting):
    pendings = waiting("a", "b", "c", "d")
    inbox = open_inbox(tract)
    decide(inbox, "approve", 0, 1)
    decide(inbox, "reject", 2, reason="not <b>this</b>")
    assert [p.status for p in pendings] == ["approved", "approved", "rejected", "pending"]
    assert pendings[2].rejection_reason == "not <b>this</b>"
    rows = inbox._panel.view["rows"]
    assert [row["is_open"] for row in rows] == [False, False, False, True]
    assert "approved by" in rows[0]["said"]
    decided = tract.reviewer.ledger.newest_decisions(10)
    assert {(d.action, d.channel) for d in decided} == {("approve", "panel"), ("reject", "panel")}


LEAVE = ActionDef("leave", "", {"n": "int"}, "pending.approve()", ["n"])
COUNT = ActionDef("count", "", {"n": "int"}, "pending.approve()", defaults={"n": 3})


@pytest.mark.parametrize(
    ("actions", "chosen", "verb", "runs_nothing"),
    [
        ([KEEP], "keep", "Run", False), ([COUNT], "count", "Run", False), ([], "approve", "Approve", False),
        ([LEAVE], "approve", "Approve", True), ([KEEP, COUNT], "approve", "Approve", True),
    ],
)  # fmt: skip
def test_several_are_run_at_once_by_their_only_action(tract, waiting, actions, chosen, verb, runs_nothing):
    named = {action.name: action for action in actions}
    tract.register_operation(OperationSpec("save", "", {"text": {"type": "str"}}, named, unhandled="ask"))
    pendings = [tract.fire("save", {"text": text}) for text in ("a", "b")]
    inbox = open_inbox(tract)
    rows = inbox._panel.view["rows"]
    assert [(row["verb"], row["runs_nothing"]) for row in rows] == [(verb, runs_nothing)] * 2
    decide(inbox, "approve", 0, 1)
    assert [p.status for p in pendings] == ["approved"] * 2
    assert {d.action for d in tract.reviewer.ledger.newest_decisions(10)} == {chosen}
    assert {p.fields["text"] for p in pendings} == ({"kept"} if chosen == "keep" else {"a", "b"})


def test_a_decision_in_the_inbox_equals_a_decision_in_the_panel(tract, waiting):
    (own,) = waiting("same")
    ticket = tract.reviewer.show(own)
    assert tract.reviewer.answer(ticket, answer_of(ticket, "approve"), "panel")
    (listed,) = waiting("same")
    inbox = open_inbox(tract)
    decide(inbox, "approve", 0)
    one, other = (tract.reviewer.ledger.decisions(p.pending_id)[0] for p in (own, listed))
    for name in ("action", "arguments", "channel", "decided_by", "fingerprint", "reason"):
        assert getattr(one, name) == getattr(other, name)


def test_the_record_is_a_self_contained_table(tract, waiting, shown):
    waiting("<i>a</i>", "b")
    inbox = open_inbox(tract)
    decide(inbox, "approve", 0)
    decide(inbox, "reject", 1, reason="<b>no</b>")
    _, record = shown[-1]
    parsed = outline(record["text/html"])
    assert "tract-batch-record" in record["text/html"]
    assert "script" not in parsed.tags
    assert "<i>a</i>" not in record["text/html"]
    for text in (parsed.text, record["text/plain"]):
        assert "<b>no</b>" in text
        assert "approved by" in text
        assert "<i>a</i>" in text


def test_the_saved_output_is_updated_after_each_decision(tract, waiting, shown):
    waiting(*"abcd")
    inbox = open_inbox(tract)
    again = ("update_display", inbox._panel)
    assert shown == [("display", inbox._panel)]
    inbox.refresh()
    decide(inbox, "approve", 0)
    inbox.refresh()
    assert shown[1:] == [again]  # only once, because a redraw takes the focus from a typing user
    second = inbox.batch.page[1].ticket
    second.on_answer = lambda ticket: None
    decide(inbox, "approve", 1)
    decide(inbox, "approve", 2)
    assert shown[1:] == [again]  # not while an answer waits for execution
    tract.reviewer.carry_out(second)
    assert shown[1:] == [again, again]
    decide(inbox, "reject", 3)
    assert [how for how, _ in shown] == ["display", *["update_display"] * 3]
    assert "Inbox: 4 of 4 decided" in shown[-1][1]["text/plain"]


PROPOSED = OperationSpec("sweep", "", {}, {"go": ActionDef("go", "", {}, "pending.approve()")})
PROPOSALS = {
    "operation": lambda t: t.propose_operation(PROPOSED),
    "handler": lambda t: t.hooks.propose_handler("note", "all", "pending.approve()"),
}


@pytest.mark.parametrize("kind", PROPOSALS)
def test_unopened_code_cannot_be_approved(tract, waiting, kind):
    waiting("a")
    proposed = PROPOSALS[kind](tract)
    tract.reviewer.show(proposed)
    inbox = open_inbox(tract)
    assert [row["must_be_opened"] for row in inbox._panel.view["rows"]] == [False, True]
    decide(inbox, "approve", 0, 1)
    assert [row["is_open"] for row in inbox._panel.view["rows"]] == [False, True]
    assert "open the request first" in inbox._panel.view["rows"][1]["refused"]
    decide(inbox, "approve", 1, opened=[inbox.batch.page[1].pending_id])
    assert proposed.status == "approved"


def test_a_request_not_fully_on_display_is_not_approved_and_says_so(tract, waiting):
    first, second, third = waiting("a", "b", "c")
    inbox = open_inbox(tract)
    rows = inbox.batch.page
    assert {row["needed"] for row in inbox._panel.view["rows"]} == {6}  # two actions, the name and the value
    seen = sorted(rows[0].ticket.needed)  # the code of both, and the values of the first
    decide(inbox, "approve", 0, 1, seen=seen)
    assert (first.status, second.status) == ("approved", "pending")
    said = inbox._panel.view["rows"][1]["refused"]
    assert said.startswith("Nothing was decided: 2 of the 6 lines of this approval have not been on display")
    decide(inbox, "approve", 2, seen=None)
    assert third.status == "pending"
    decide(inbox, "reject", 1, 2, seen=[])
    assert (second.status, third.status) == ("rejected", "rejected")


def test_a_row_shows_short_values_in_full(tract, waiting):
    waiting("a", "b" * 500)
    short, long = open_inbox(tract)._panel.view["rows"]
    (value,) = short["values"]
    assert (value["name"], value["text"], len(value["keys"].split())) == ("text", "'a'", 2)
    assert long["is_brief"]
    (value,) = long["values"]
    assert value["keys"] == ""  # a cut value was not on display
    assert len(value["text"]) == 60
    assert value["more"] == " … 442 more characters"


def test_requests_that_differ_only_in_short_values_are_of_one_kind(tract, waiting):
    waiting("a", "b", "c" * 150, "d" * 500)
    tract.reviewer.show(tract.propose_operation(PROPOSED))
    inbox = open_inbox(tract)
    kinds = [row["kind"] for row in inbox._panel.view["rows"]]
    assert kinds[0] == kinds[1] != ""
    assert kinds[2:] == ["", "", ""]
    assert len(inbox._panel.bodies) == 4
    decide(inbox, "approve", 0)
    first, second, *_ = inbox.batch.page
    assert first.pending_id not in inbox._panel.bodies
    assert second.pending_id in inbox._panel.bodies  # now it is the first of its kind


def test_unopened_code_can_be_rejected(tract, waiting):
    proposed = tract.propose_operation(PROPOSED)
    tract.reviewer.show(proposed)
    inbox = open_inbox(tract)
    decide(inbox, "reject", 0, seen=[])
    assert proposed.status == "rejected"


@pytest.mark.parametrize("kind", PROPOSALS)
def test_code_that_another_process_waits_for_is_opened_first(tmp_path, shown, kind):
    with Tract.open(tmp_path / "t.db") as asking, Tract.open(tmp_path / "t.db") as here:
        asking.register_operation(OperationSpec("note", "", {}, {}))
        proposed = PROPOSALS[kind](asking)
        asking.reviewer.keep(proposed)
        asking.reviewer.ledger.wait(proposed.pending_id, 60)
        here.reviewer.channel = NotebookChannel(FrontEnd())
        (row,) = open_inbox(here).batch.page
        assert row.ticket.pending.runs_elsewhere
        assert row.must_be_opened


@pytest.mark.parametrize("is_at_work", [False, True])
def test_a_row_is_busy_while_its_answer_is_executed(tract, waiting, is_at_work):
    waiting("a", "b")
    inbox = open_inbox(tract)
    ticket = inbox.batch.page[0].ticket
    ticket.on_answer = lambda _: ticket.take() if is_at_work else None
    decide(inbox, "approve", 0)
    assert [row["is_busy"] for row in inbox._panel.view["rows"]] == [True, False]
    ticket.new_round("it failed")
    inbox.refresh()
    assert [row["is_busy"] for row in inbox._panel.view["rows"]] == [False, False]


def test_a_body_is_made_once_for_each_showing(tract, waiting, monkeypatch):
    waiting("a", "b", "c")
    made = []
    body_html = batch_module.body_html
    monkeypatch.setattr(batch_module, "body_html", lambda t, **o: made.append(t) or body_html(t, **o))
    inbox = open_inbox(tract)
    first, second, third = (row.ticket for row in inbox.batch.page)
    assert made == [first]  # for rows of one kind, only the body of the first
    decide(inbox, "approve", 0)
    inbox.refresh()
    assert made == [first, second]
    rows = inbox._panel.view["rows"]
    assert "approved by" in rows[0]["record_html"]
    second.pending.reject("zebra")  # by code: its ticket is not notified
    inbox.refresh()
    assert made == [first, second, third]
    assert "zebra" in inbox._panel.view["rows"][1]["record_html"]
    third.on_answer = Ticket.take
    decide(inbox, "approve", 2)  # and its answer is being executed
    assert len(made) == 3


def test_code_was_faster(tract, waiting):
    first, _ = waiting("a", "b")
    inbox = open_inbox(tract)
    first.reject("too late for you")
    decide(inbox, "approve", 0)
    row = inbox._panel.view["rows"][0]
    assert first.status == "rejected"
    assert not row["is_open"]
    assert row["refused"] == ""
    assert "too late for you" in row["said"]
    assert "it is already decided; the first decision counts" in row["said"]


def test_another_panel_was_faster(tract, waiting):
    first, _ = waiting("a", "b")
    inbox = open_inbox(tract)
    ticket = inbox.batch.page[0].ticket
    rounds = {first.pending_id: ticket.round_id}
    assert ticket.submit(answer_of(ticket, "reject"), "panel")
    inbox._panel.take({"key": "1", "action": "approve", "rounds": rounds})
    row = inbox._panel.view["rows"][0]
    assert first.status == "rejected"
    assert row["refused"].startswith("Not taken: the request was decided elsewhere")
    assert "rejected by" in row["said"]


def test_a_failed_request_says_so_and_can_be_decided_again(tract, waiting, monkeypatch):
    pending, _ = waiting("a", "b")
    inbox = open_inbox(tract)
    ran = []
    pending._execute_fn = lambda p: ran.append(p) or 1 / (len(ran) - 1)
    decide(inbox, "approve", 0)
    row = inbox._panel.view["rows"][0]
    assert row["status"] == "failed"
    assert row["failed"]
    assert "ZeroDivisionError" in row["said"]
    decide(inbox, "approve", 0)
    assert inbox._panel.view["rows"][0]["status"] == "approved"


@pytest.mark.parametrize("by_answer", [False, True])
def test_an_older_state_does_not_overwrite_a_newer(tract, waiting, by_answer):
    waiting("a", "b")
    inbox = open_inbox(tract)
    panel, row, view = inbox._panel, inbox.batch.page[0], inbox.batch.view
    has_old, has_newer = threading.Event(), threading.Event()

    def slow_view():
        made = view()
        if threading.current_thread() is slow:
            has_old.set()
            has_newer.wait(0.2)
        return made

    def be_slow():
        panel.take({"key": "1", "action": "approve", "rounds": {}}) if by_answer else panel.refresh()

    inbox.batch.view = slow_view
    slow = threading.Thread(target=be_slow)
    slow.start()
    assert has_old.wait(10)
    row.refuse("newer")
    panel.refresh()
    has_newer.set()
    slow.join()
    assert panel.view["rows"][0]["refused"] == "newer"


def test_a_refusal_is_of_one_showing(tract, waiting):
    waiting("a", "b")
    inbox = open_inbox(tract)
    row = inbox.batch.page[0]
    inbox._panel.take({"key": "1", "action": "approve", "rounds": {row.pending_id: "an earlier one"}})
    assert inbox._panel.view["rows"][0]["refused"].startswith("Not taken")
    row.ticket.new_round("it is as it was")
    inbox.refresh()
    assert inbox._panel.view["rows"][0]["refused"] == ""


def test_pages(tract, waiting, monkeypatch):
    monkeypatch.setattr(inbox_module, "PAGE", 2)
    waiting(*"abcde")
    inbox = open_inbox(tract)
    view = inbox._panel.view
    assert (texts(inbox), view["place"]) == (["a", "b"], "1 to 2 of 5")
    assert view["has_next"]
    assert not view["has_previous"]
    turn(inbox, 1)
    decide(inbox, "approve", 0)
    turn(inbox, 1)
    assert (texts(inbox), inbox._panel.view["place"]) == (["e"], "5 to 5 of 5")
    assert not inbox._panel.view["has_next"]
    turn(inbox, -1)
    assert [row["is_open"] for row in inbox._panel.view["rows"]] == [False, True]
    assert "text = 'c'" in inbox.batch.record_text()


def test_a_turn_that_is_sent_again_turns_once(tract, waiting, monkeypatch):
    monkeypatch.setattr(inbox_module, "PAGE", 1)
    waiting(*"abc")
    inbox = open_inbox(tract)
    for key, by in (("k1", 1), ("k2", -1), ("k1", 1)):
        inbox._panel.take({"key": key, "page": by})
    assert inbox.batch.shown == 0


def test_an_answer_that_is_sent_again_was_not_refused(tract, waiting):
    waiting("a", "b")
    inbox = open_inbox(tract)
    a, b = ({row.pending_id: row.ticket.round_id} for row in inbox.batch.page)
    seen = [key for row in inbox.batch.page for key in row.ticket.needed]
    for key, rounds in (("k1", a), ("k2", b), ("k1", a)):
        inbox._panel.take({"key": key, "action": "approve", "rounds": rounds, "seen": seen})
    assert [(row.ticket.status, row.refused) for row in inbox.batch.page] == [("approved", "")] * 2


def test_a_request_that_cannot_be_shown_is_listed_with_the_reason(tract, waiting, monkeypatch):
    waiting("a", "b", "c")
    stored = tract.review.inbox()[1]
    rebuild = tract.operations.rebuild

    def broken(one):
        if one.pending_id == stored.pending_id:
            from tract_jupyter.exceptions import PendingError

            raise PendingError("its <request> is unreadable")
        return rebuild(one)

    monkeypatch.setattr(tract.operations, "rebuild", broken)
    monkeypatch.setattr(tract.reviewer, "asked_here", lambda _: None)  # as if from another process
    inbox = open_inbox(tract, (("old", "you have not approved it here", "%look at old"),))
    assert texts(inbox) == ["a", "c"]
    text = outline(inbox._panel.view["rest_html"]).text
    for words in (stored.pending_id[:8], "its <request> is unreadable", "%look at old"):
        assert words in text
        assert words in inbox.batch.record_text()


@pytest.mark.parametrize(
    "content",
    [
        {}, {"key": 1}, {"key": "1"}, {"key": "2", "action": "ship", "rounds": {}}, {"key": "3", "action": "approve"},
        {"key": "4", "action": "approve", "rounds": {"nothing": "x"}}, {"key": "5", "page": 7},
        {"key": "6", "action": "reject", "rounds": {"nothing": None}, "reason": 7, "opened": None},
    ],
)  # fmt: skip
def test_other_messages_do_nothing(tract, waiting, monkeypatch, content):
    monkeypatch.setattr(inbox_module, "PAGE", 1)
    pendings = waiting("a", "b")
    inbox = open_inbox(tract)
    turn(inbox, 1)
    turn(inbox, -1)  # both pages are known now, so any page turn would be visible
    inbox._panel._on_message(None, {"type": "decide", **content}, [])
    assert [p.status for p in pendings] == ["pending", "pending"]
    assert inbox.batch.shown == 0


def answer_of(ticket: Ticket, action):
    from tract_jupyter.review import Answer

    return Answer(action, {}, ticket.round_id)


def turn(inbox, by):
    inbox._panel.take({"key": f"{by} from {inbox.batch.shown}", "page": by})


def test_counts_are_right_after_each_decision(tract, waiting):
    waiting("a", "b", "c")
    inbox = open_inbox(tract)
    titles = [inbox._panel.view["title"]]
    for number, action in enumerate(("approve", "reject", "approve")):
        decide(inbox, action, number)
        titles.append(inbox._panel.view["title"])
    assert titles == [
        "Inbox: 3 waiting",
        "Inbox: 2 waiting, 1 decided",
        "Inbox: 1 waiting, 2 decided",
        "Inbox: 0 waiting, 3 decided",
    ]


def test_a_request_of_another_notebook_names_its_file(tmp_path, shown, monkeypatch):
    asked_by = this_process().rpartition(":")[0] + ":june_report.ipynb"
    with Tract.open(tmp_path / "t.db") as asking, Tract.open(tmp_path / "t.db") as here:
        with monkeypatch.context() as patch:
            patch.setattr("tract_jupyter.review.ledger.this_process", lambda: asked_by)
            asking.reviewer.keep(asking.propose_operation(PROPOSED))
        here.reviewer.channel = NotebookChannel(FrontEnd())
        (row,) = open_inbox(here)._panel.view["rows"]
    assert (row["asked_in"], row["waits"]) == ("june_report.ipynb", "no cell waits for it")


def test_the_text_of_the_inbox_names_the_line_that_decides(tract, waiting):
    pendings = waiting("a", "b")
    text = open_inbox(tract).batch.record_text()
    assert all(f"%tract decide {pending.pending_id[:8]} decides it" in text for pending in pendings)
