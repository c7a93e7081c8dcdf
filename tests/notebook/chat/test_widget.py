"""The widget of a turn without a browser: its messages, its answers, and its final state."""

import json
from types import SimpleNamespace

import pytest

from tests.notebook.chat.stubs import StubView, prose, row
from tract_jupyter.exceptions import TractError
from tract_jupyter.notebook.chat import LiveTurn, TurnBlock, TurnBoard


class Page:
    """A model of the page that applies the messages."""

    def __init__(self, live):
        self.widget = live._widget
        self.blocks, self.rest, self.number = {}, {}, -1
        self.patches = []
        self.widget.send = self.take
        self.widget.send_state = lambda key: self.take_all() if key == "whole" else None

    def answer(self):
        self.widget._on_message(self.widget, {"type": "ready", "page": "1"}, [])
        self.take_all()

    def say(self, **content):
        self.widget._on_message(self.widget, content, [])

    def take_all(self):
        state = json.loads(json.dumps(self.widget.get_state()["whole"]))
        self.number = state.pop("n")
        self.blocks = {block["id"]: block for block in state.pop("blocks")}
        self.rest = state

    def take(self, patch):
        patch, sent = json.loads(json.dumps(patch)), json.loads(json.dumps(patch))
        self.patches.append(sent)
        assert patch["n"] == self.number + 1
        self.number = patch["n"]
        for block in patch["blocks"]:
            keep = block.pop("keep", 0)
            if keep:
                before = self.blocks[block["id"]]["html"].encode("utf-16-le")[: 2 * keep]
                block["html"] = before.decode("utf-16-le") + block["html"]
            self.blocks[block["id"]] = block
        for key in patch.get("order", []):
            self.blocks[key] = self.blocks.pop(key)
        self.blocks = {key: self.blocks[key] for key in patch.get("order", self.blocks)}
        self.rest |= {name: patch[name] for name in self.rest if name in patch}

    @property
    def html(self):
        return [block.get("html") for block in self.blocks.values()]


@pytest.fixture
def outputs(monkeypatch):
    """The displayed content: (type, data or None)."""
    made = []
    place = "tract_jupyter.notebook"
    monkeypatch.setattr(f"{place}.chat.widget.display", lambda content, **_: made.append(("live", content)))
    monkeypatch.setattr(f"{place}.output.update_display", lambda data, **_: made.append(("static", data)))
    return made


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test sets, and timers that the test fires."""

    class Clock:
        now = 100.0
        timers = []

    class Timer:
        def __init__(self, seconds, run, _arguments):
            self.seconds, self.run, self.is_cancelled = seconds, run, False

        def start(self):
            Clock.timers.append(self)

        def cancel(self):
            self.is_cancelled = True

    Clock.timers = []
    place = "tract_jupyter.notebook.chat.widget"
    monkeypatch.setattr(f"{place}.time.monotonic", lambda: Clock.now)
    monkeypatch.setattr(f"{place}.threading.Timer", Timer)
    return Clock


@pytest.fixture
def done():
    return []


@pytest.fixture
def live(done, outputs, clock):
    def act(action):
        done.append(action)
        if action == "fork":
            raise TractError("There is nothing to fork from. Ask something first.")
        return (
            StubView(prose("Undone."), "<span>undone</span>", (), is_over=True) if action == "undo" else None
        )

    made = LiveTurn(act, lambda run, _context: run())
    made.put_up()
    return made


@pytest.fixture
def page(live):
    made = Page(live)
    made.answer()
    return made


def test_a_turn_that_no_event_drew_appears_when_it_closes(outputs):
    live = LiveTurn(lambda action: None, lambda run, context: run())
    view = StubView(prose("All of it."), is_over=True)
    TurnBoard(SimpleNamespace(view=lambda: view), live).close()
    assert [kind for kind, _ in outputs] == ["live", "static"]
    assert "All of it." in outputs[-1][1]["text/plain"]


def test_the_page_shows_the_content_of_the_view(live, page, clock):
    views = [
        StubView([]),
        StubView(prose("One.")),
        StubView([*prose("One.\n\nTwo 🐦 and **th"), row("c1", "read", state="i-run")]),
        StubView([*prose("One.\n\nTwo 🐦🐦 and **three**"), row("c1", "read"), row("c2", "write")]),
        StubView([row("c2", "write"), row("c1", "read")], "<span>b</span>", ("undo", "fork"), turn_id="t2"),
    ]
    for view in views:
        live.draw(view, at_once=True)
        assert page.html == [block.html for block in view.blocks()]
        assert page.rest["foot"] == view.foot().html
        assert [name for name, _ in page.rest["actions"]] == list(view.foot().actions)
        assert page.rest["turn"] == view.turn_id
    before = page.blocks
    page.take_all()
    assert page.blocks == before


def test_only_changed_blocks_are_sent_and_only_the_new_end_of_a_text(live, page):
    text = "word " * 400
    live.draw(StubView([*prose("First."), *prose(text, "q")]), at_once=True)
    live.draw(StubView([*prose("First."), *prose(text + "end", "q")]), at_once=True)
    (block,) = page.patches[-1]["blocks"]
    assert block["id"] == "q0"
    assert len(block["html"]) < 20
    sent = len(page.patches)
    live.draw(StubView([*prose("First."), *prose(text + "end", "q")]), at_once=True)
    assert len(page.patches) == sent


def test_a_page_whose_script_does_not_run_yet_gets_the_whole_state(live, clock):
    page = Page(live)
    live.draw(StubView(prose("One.")), at_once=True)
    assert page.html == ["<p>One.</p>"]
    assert page.patches == []
    clock.now += 5
    live.draw(StubView(prose("One. Two.")), at_once=True)
    assert len(page.patches) == 1


def test_a_page_knows_the_command_that_continues_it_in_a_new_kernel(live, page):
    live.draw(StubView([]), at_once=True)
    assert page.rest["go_on"] == "%tract chat resume"
    view = StubView([])
    view.go_on = "%tract_orchestrate --resume"
    live.draw(view, at_once=True)
    assert page.rest["go_on"] == view.go_on


def test_a_page_that_missed_something_asks_for_all(live, page):
    live.draw(StubView(prose("One.")), at_once=True)
    page.blocks, page.number = {}, -1
    page.say(type="all")
    assert page.html == ["<p>One.</p>"]


def test_a_burst_is_one_patch_at_once_and_one_at_the_end(live, page, clock):
    views = [StubView(prose("a" * number)) for number in range(1, 30)]
    for view in views:
        live.draw(view)
    (timer,) = clock.timers
    assert [len(page.patches), 0 < timer.seconds <= 0.05] == [1, True]
    assert [view.made for view in views[:-1]] == [1] + [0] * 27
    timer.run()
    assert page.html == ["<p>" + "a" * 29 + "</p>"]
    clock.now += 1
    live.draw(StubView(prose("b")))
    assert len(page.patches) == 3


def test_the_end_is_a_static_page_and_the_live_one_knows_it(live, page, outputs):
    view = StubView(prose("The **end**."), "<span>took 1 s</span>", ("undo",), is_over=True)
    live.draw(StubView(prose("The")))
    live.close(view)
    assert page.rest["over"]
    assert outputs[-1] == ("static", {"text/html": view.to_html(), "text/plain": view.to_text()})
    assert [kind for kind, _ in outputs] == ["live", "static"]


def test_a_turn_saved_while_it_runs_names_the_command_that_continues_it(live):
    data, _ = live._widget._repr_mimebundle_()
    assert "%tract chat resume continues it" in data["text/plain"]
    assert data["text/plain"] in data["text/html"]


def test_a_static_page_is_put_up_once_until_it_changes(live, page, outputs):
    view = StubView(prose("The end."), is_over=True)
    live.close(view)
    live.draw(view)
    live.draw(StubView(prose("The end."), is_over=True), at_once=True)
    assert [kind for kind, _ in outputs] == ["live", "static"]
    live.draw(StubView(prose("Another end."), is_over=True))
    assert [kind for kind, _ in outputs] == ["live", "static", "static"]


def test_whatever_cannot_show_a_live_page_has_the_static_one(live):
    live.draw(StubView(prose("Hello.")))
    data, _ = live._widget._repr_mimebundle_()
    assert "<p>Hello.</p>" in data["text/html"]
    assert "text/markdown" not in data


def test_the_foot_acts_once_for_each_click(live, page, done, outputs):
    live.close(StubView(prose("x"), is_over=True))
    for _ in range(2):
        page.say(type="act", action="undo", key="k1")
    assert (done, live._widget.heard) == (["undo"], "k1")
    assert outputs[-1][1]["text/plain"] == "<p>Undone.</p>"
    assert page.rest["foot"] == "<span>undone</span>"


def test_the_foot_shows_why_an_action_failed(live, page):
    live.draw(StubView(prose("x")))
    page.say(type="act", action="fork", key="k1")
    assert page.rest["told"] == "There is nothing to fork from. Ask something first."
    page.say(type="act", action="stop", key="k2")
    assert page.rest["told"] == ""


@pytest.mark.parametrize("content", [{}, {"action": "rm"}, {"action": ["undo"]}, {"action": {}}])
def test_invalid_actions_of_a_page_are_ignored(page, done, content):
    page.say(type="act", key="k", **content)
    page.widget._on_message(page.widget, "act", [])
    assert done == []


# --- questions


@pytest.fixture
def ticket(tract, spec):
    tract.register_operation(spec())
    return tract.reviewer.show(tract.fire("citation_check", {"urls": ["a"]}, review=True))


def asking(ticket):
    is_open = ticket.status.is_open
    html = "" if is_open else f"<details>{ticket.status.value}</details>"
    return StubView(
        [*prose("May I?"), TurnBlock("q", html, ticket, kind="question" if is_open else "row")],
        is_over=not is_open,
    )


def decide(page, ticket, action="approve", seen=None, round_id=None, arguments="{}"):
    seen = sorted(ticket.needed) if seen is None else seen
    round_id = round_id or ticket.round_id
    page.say(
        type="decide", pending_id=ticket.pending.pending_id, round_id=round_id, action=action, arguments=arguments, seen=seen
    )  # fmt: skip
    return round_id


def test_a_question_is_answered_in_its_place(live, page, ticket):
    live.draw(asking(ticket), at_once=True)
    assert page.blocks["q"]["view"]["is_open"]
    round_id = decide(page, ticket)
    assert (ticket.status, live._widget.heard) == ("approved", round_id)
    live.draw(asking(ticket), at_once=True)
    assert page.blocks["q"]["html"] == "<details>approved</details>"


def test_a_request_that_was_not_on_display_is_not_approved(live, page, ticket):
    live.draw(asking(ticket), at_once=True)
    decide(page, ticket, seen=[])
    assert ticket.status.is_open
    assert "have not been on display here" in page.blocks["q"]["view"]["late"]


def test_a_late_answer_shows_that_another_decision_came_first(live, page, ticket):
    live.draw(asking(ticket), at_once=True)
    elsewhere = LiveTurn(lambda _action: None, lambda run, _context: run())
    elsewhere.draw(asking(ticket))
    round_id = decide(Page(elsewhere), ticket)
    decide(page, ticket, "reject", round_id=round_id)
    assert page.blocks["q"]["view"]["late"].startswith("Another decision came first")


def test_a_question_is_drawn_once_until_it_changes(live, page, ticket, monkeypatch):
    made = []
    place = "tract_jupyter.notebook.panels.panel.panel_data"
    monkeypatch.setattr(
        place, lambda one, **_: made.append(1) or {"pending_id": one.pending.pending_id, "made": len(made)}
    )
    for _ in range(5):
        live.draw(asking(ticket), at_once=True)
    assert made == [1]
    ticket.new_round("changed")
    live.refresh()
    assert page.blocks["q"]["view"]["made"] == 2


@pytest.mark.parametrize(
    "content", [{}, {"round_id": 1}, {"pending_id": "x", "round_id": "y", "action": "approve"}]
)
def test_invalid_answers_are_ignored(live, page, ticket, content):
    live.draw(asking(ticket), at_once=True)
    page.say(type="decide", **content)
    assert ticket.status.is_open


def test_the_live_page_is_kept_until_all_requests_are_decided(live, page, ticket, outputs):
    live.draw(asking(ticket))
    live.close(asking(ticket))
    assert [kind for kind, _ in outputs] == ["live"]
    ticket.pending.reject("no")
    live.draw(asking(ticket))
    assert [kind for kind, _ in outputs] == ["live", "static"]
