"""The display of requests."""

import asyncio
import threading
from contextlib import suppress

import pytest

from tract_jupyter.exceptions import CodeDecisionError, FingerprintError
from tract_jupyter.notebook import NotebookChannel
from tract_jupyter.review import Answer, deciding


class FrontEnd:
    """A front end that draws widgets and takes no input."""

    has_kernel = takes_input = can_click = True
    in_callback = is_headless = is_unattended = False

    def __init__(self, loop=None):
        self.loop = loop


class Board:
    """A display for several requests."""

    ready = True

    def add(self, ticket):
        pass

    def refresh(self):
        pass


ASKS = "pending.tract.reviewer.show(pending.tract.fire('then', review=True))\npending.approve()"


@pytest.fixture
def shown(monkeypatch):
    """The titles of the requests with a separate output."""
    titles = []
    place = "tract_jupyter.notebook.output"
    monkeypatch.setattr(f"{place}.display", lambda panel, **_: titles.append(panel.view["title"]))
    monkeypatch.setattr(f"{place}.update_display", lambda content, **_: None)
    return titles


@pytest.fixture
def ask(tract, spec):
    def make(code="pending.approve()"):
        name = f"note_{len(tract.operations.registry.operation_names)}"
        tract.register_operation(spec(code, name=name, fields={}))
        return tract.fire(name, review=True)

    return make


def test_a_request_of_another_thread_is_not_gathered(tract, ask, shown):
    tract.reviewer.channel = channel = NotebookChannel(FrontEnd())
    gathered, other = ask(), ask()
    thread = threading.Thread(target=tract.reviewer.show, args=(other,))
    with channel.gathering(Board()):
        thread.start()
        thread.join()
        tract.reviewer.show(gathered)
    assert shown == [other.title]


def test_a_request_made_by_a_click_on_a_gathered_request_is_not_gathered(tract, spec, ask, shown):
    async def click():
        tract.reviewer.channel = channel = NotebookChannel(FrontEnd(asyncio.get_running_loop()))
        with channel.gathering(Board()):
            ticket = tract.reviewer.show(ask(ASKS))
        ticket.submit(Answer("verify", {}, ticket.round_id), "panel")
        assert await asyncio.to_thread(ticket.settled.wait, 10)

    tract.register_operation(spec(name="then", fields={}))
    asyncio.run(click())
    assert shown == ["then"]


# --- what code may approve


@pytest.fixture
def quarantined(tract, spec):
    """A stored operation without an approval."""
    tract.register_operation(spec(fields={}))
    tract.operations.revoke("citation_check")
    return tract.operations.review_quarantined("citation_check")


def test_code_can_approve_a_foreign_definition_only_after_naming_or_showing_it(
    tract, spec, quarantined, shown
):
    tract.reviewer.channel = NotebookChannel(FrontEnd())
    proposed = tract.propose_operation(spec(name="then", fields={}), actor="agent:a")
    for pending in (quarantined, proposed):
        with pytest.raises(CodeDecisionError, match=r"unseen.*named\(FINGERPRINT\)"):
            pending.approve()
        assert pending.status == "pending"
    for wrong in ("", quarantined.fingerprint[:7], "0" * 64):
        with pytest.raises(FingerprintError, match="8 digits"):
            quarantined.named(wrong)
    quarantined.named(quarantined.fingerprint[:8]).approve()
    tract.reviewer.show(proposed)
    proposed.approve()
    assert tract.status().operations == ("citation_check", "then")


@pytest.mark.parametrize("was_read", ["named", "shown"])
def test_code_approves_no_definition_that_has_changed_since_it_was_read(tract, spec, shown, was_read):
    tract.reviewer.channel = NotebookChannel(FrontEnd())
    harmless, other = (
        tract.propose_operation(spec(code, name="then", fields={}), actor="agent:a")
        for code in ("pending.approve()", "pending.approve()\nimport os")
    )
    if was_read == "named":
        harmless.named(harmless.fingerprint)
    else:
        tract.reviewer.show(harmless)
    harmless.fields = other.fields
    with pytest.raises(CodeDecisionError, match="unseen"):
        harmless.approve()
    assert tract.status().operations == ()


class Approving:
    """A model that approves every request."""

    def chat(self, messages, **_options):
        call = {"id": "1", "type": "function", "function": {"name": "approve", "arguments": "{}"}}
        return {"choices": [{"message": {"content": "", "tool_calls": [call]}}]}


def by_a_handler(tract, pending):
    tract.on("trigger", lambda _: pending.approve())
    tract.fire("trigger")


def by_an_audit(tract, pending):
    tract.on("*", lambda _: pending.approve())
    tract.fire("trigger")


def by_a_model(_tract, pending):
    pending.consult("Go on.", client=Approving(), max_turns=1)


def by_a_claim(_tract, pending):
    with deciding("panel"):
        pending.approve()


@pytest.mark.parametrize("is_unattended", [True, False])
@pytest.mark.parametrize("way", [by_a_handler, by_an_audit, by_a_model, by_a_claim])
def test_indirect_code_cannot_approve_an_unseen_definition(tract, spec, quarantined, way, is_unattended):
    tract.register_operation(spec(name="trigger", fields={}))
    front_end = FrontEnd()
    front_end.is_unattended = is_unattended
    tract.reviewer.channel = NotebookChannel(front_end)
    with suppress(CodeDecisionError):
        way(tract, quarantined)
    assert quarantined.status == "pending"
    assert tract.status().operations == ("trigger",)


def test_code_can_approve_its_own_definition_and_request(tract, spec):
    tract.reviewer.channel = NotebookChannel(FrontEnd())
    tract.propose_operation(spec(fields={})).approve()
    assert tract.fire("citation_check", review=True).approve() is None


def test_code_can_reject_a_foreign_definition(tract, quarantined):
    tract.reviewer.channel = NotebookChannel(FrontEnd())
    quarantined.reject("no")
    assert quarantined.status == "rejected"


def test_code_cannot_approve_a_stored_definition_if_no_user_is_available(tract, quarantined):
    front_end = FrontEnd()
    front_end.is_unattended = True
    tract.reviewer.channel = NotebookChannel(front_end)
    with pytest.raises(CodeDecisionError, match="comes from the store.*live notebook"):
        quarantined.named(quarantined.fingerprint).approve()
    assert tract.status().operations == ()


def test_code_cannot_approve_a_doubtful_request_if_no_user_is_available(tract, spec):
    tract.register_operation(spec(fields={}))
    front_end = FrontEnd()
    front_end.is_unattended = True
    tract.reviewer.channel = NotebookChannel(front_end)
    pending = tract.fire("citation_check", review=True)
    pending.doubt = "This was changed in the store since."
    with pytest.raises(CodeDecisionError, match="changed in the store"):
        pending.approve()
