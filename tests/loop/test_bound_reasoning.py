"""Stored reasoning is sent back as long as the provider accepts it, through every change of the context."""

from __future__ import annotations

import signal
import subprocess
import sys
import warnings

import pytest

from tests.loop.enforcing import Messages, Responses, enforcing
from tests.review.fakes import FakeChannel, click
from tract_jupyter import Session, Tract
from tract_jupyter.models import Priority
from tract_jupyter.runs import RewriteWarning

pytestmark = pytest.mark.filterwarnings("ignore::tract_jupyter.runs.RewriteWarning")


@pytest.fixture(params=[Messages, Responses], ids=["messages", "responses"])
def there(request):
    with enforcing(request.param) as there:
        yield there
        assert not sum(there.wrong)


@pytest.fixture
def talk(tract, there):
    """A tract with two user messages and two answers; the first reasoning was sent back once."""

    @tract.tool(read_only=True)
    def look(city: str) -> str:
        """Look outside."""
        return f"sunny in {city}"

    tract.loop.tools = "self"
    tract.configure_llm(there.client())
    tract.system("Be brief.")
    tract.chat("One?")
    tract.chat("Two?")
    assert there.kept == [0, 1]
    return tract


def users(tract):
    return [one.commit_hash for one in tract.compile().messages if one.role == "user"]


def test_reasoning_is_sent_back_complete_and_in_place_also_around_tool_calls(talk, there):
    assert talk.chat("call look").text.startswith("Answer")
    assert there.kept == [0, 1, 2, 3]
    talk.chat("Three?")
    assert there.kept[-1] == 4


def test_reasoning_of_streamed_replies_is_sent_back_too(talk, there):
    pieces = []
    talk.chat("call look", on_delta=pieces.append)
    talk.chat("Three?")
    talk.chat("Four?", on_delta=pieces.append)
    assert pieces
    assert there.kept == [0, 1, 2, 3, 4, 5]


def test_the_order_in_which_tools_were_defined_changes_nothing(tmp_path, there):
    def look(city: str) -> str:
        """Look outside."""
        return f"sunny in {city}"

    def smell(city: str) -> str:
        """Smell a city."""
        return "pizza"

    for tools in ((look, smell), (smell, look)):
        with Tract.open(tmp_path / "talk.db") as tract:
            for one in tools:
                tract.tool(one, read_only=True)
            tract.loop.tools = "self"
            tract.configure_llm(there.client())
            tract.chat("Well?")
    assert there.kept == [0, 1]


def test_an_edit_drops_older_reasoning_and_keeps_newer(talk, there):
    talk.user("One!", edit=users(talk)[0])
    talk.chat("Three?")
    talk.chat("Four?")
    assert there.kept[2:] == [0, 1]


def test_an_edit_of_the_latest_message_only_drops_reasoning_after_it(talk, there):
    talk.user("Two!", edit=users(talk)[1])
    talk.chat("Three?")
    assert there.kept[2:] == [1]


def test_an_edited_reply_is_sent_with_its_new_text(talk, there):
    reply = talk.compile().messages[-1]
    talk.assistant("Another answer.", edit=reply.commit_hash)
    talk.chat("Three?")
    assert there.kept[2:] == [1]
    assert "Another answer." in str(there.bodies[-1])
    assert reply.content not in str(there.bodies[-1])


def test_undo_of_an_edit_restores_the_reasoning(talk, there):
    talk.user("One!", edit=users(talk)[0])
    talk.undo()
    talk.chat("Three?")
    assert there.kept[2:] == [2]


@pytest.mark.slow
def test_reasoning_behind_an_edit_is_dropped_when_a_second_edit_reverts_it(talk, there):
    first = users(talk)[0]
    talk.user("One!", edit=first)
    talk.chat("Three?")
    talk.user("One?", edit=first)
    talk.chat("Four?")
    assert there.kept[2:] == [0, 2]  # the first two reasonings are valid again, the third is not


def test_a_compression_drops_the_reasoning_behind_it(talk, there):
    talk.chat("Three?")
    talk.compress(commits=users(talk)[1:2], content="They talked.")
    talk.chat("Four?")
    talk.chat("Five?")
    assert there.kept[2:] == [2, 1, 2]


def test_a_pin_changes_nothing_and_a_skip_does(talk, there):
    talk.annotate(users(talk)[0], Priority.PINNED)
    talk.chat("Three?")
    talk.annotate(users(talk)[0], Priority.SKIP)
    talk.chat("Four?")
    assert there.kept[2:] == [2, 0]


def test_each_branch_keeps_its_own_reasoning(talk, there):
    talk.branch("other", switch=False)
    talk.chat("Here?")
    talk.switch("other")
    talk.chat("There?")
    talk.switch("main")
    talk.chat("Here again?")
    assert there.kept[2:] == [2, 2, 3]


def test_a_merge_and_a_rebase_keep_the_reasoning_that_still_fits(talk, there):
    talk.branch("other", switch=False)
    talk.chat("Here?")
    talk.switch("other")
    talk.chat("There?")
    talk.merge("main")
    talk.chat("Both?")
    talk.branch("third", switch=False)
    talk.chat("More?")
    assert there.kept[2:] == [2, 2, 3, 4]  # all except the reasoning of the other branch
    talk.switch("third")
    talk.user("Else.")
    talk.rebase("other")
    talk.chat("All?")
    assert not sum(there.wrong)


def test_reasoning_is_sent_only_to_its_own_model(talk, there):
    talk.configure_llm(there.client(there.dialect.models[1]))
    talk.chat("Three?")
    talk.chat("Four?")
    talk.configure_llm(there.client())
    talk.chat("Five?")
    assert there.kept[2:] == [0, 1, 2]  # for the other model, only the texts


def test_a_new_tool_changes_nothing(talk, there):
    @talk.tool(read_only=True)
    def smell(city: str) -> str:
        """Smell a city."""
        return "pizza"

    talk.chat("call smell")
    assert there.kept[2:] == [2, 3]


def test_in_code_mode_a_new_tool_changes_nothing(tract, there):
    tract.loop.tools = "code"
    tract.configure_llm(there.client())
    tract.chat("One?")

    @tract.tool(read_only=True)
    def smell(city: str) -> str:
        """Smell a city."""
        return "pizza"

    tract.chat("Two?")
    assert there.kept == [0, 1]


def test_a_reply_made_in_a_run_keeps_its_reasoning(talk, there):
    seen = []
    talk.chat("Three?", on_event=seen.append)
    talk.chat("call look", on_event=seen.append)
    talk.chat("Four?")
    assert seen
    assert there.kept[2:] == [2, 3, 4, 5]


@pytest.mark.parametrize("there", [Messages], indirect=True)  # the other dialect refuses nothing
def test_if_a_provider_refuses_reasoning_the_request_is_sent_again_without_it(talk, there):
    there.stricter = True
    assert talk.chat("Three?").text
    assert (there.wrong[2:], len(there.bodies)) == ([2, 0], 4)
    there.stricter = False
    talk.chat("Four?")
    assert there.kept[4:] == [1]  # only the reasoning made after the refusal; no second refusal
    there.wrong.clear()


def test_stored_reasoning_is_sent_back_from_another_process(tmp_path, there):
    path = tmp_path / "talk.db"
    for question in ("One?", "Two?", "Three?"):
        with Tract.open(path) as tract:
            tract.configure_llm(there.client())
            tract.chat(question)
            assert tract.verify() == []
    assert there.kept == [0, 1, 2]


CHILD = """
import os, signal, sys
from tract_jupyter import Tract, {client}

class Killed({client}):
    asked = 0
    def chat(self, messages, **options):
        self.asked += 1
        if self.asked == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().chat(messages, **options)

with Tract.open(sys.argv[1]) as tract:
    @tract.tool(read_only=True)
    def look(city: str) -> str:
        "Look outside."
        return "sunny in " + city
    tract.loop.tools = "self"
    tract.configure_llm(Killed({model!r}, base_url={url!r}, api_key="k"))
    tract.chat("call look")
"""


@pytest.mark.slow
def test_reasoning_survives_a_kill_between_a_tool_call_and_its_result(tmp_path, there):
    path = tmp_path / "talk.db"
    dialect = there.dialect
    code = CHILD.format(
        client=dialect.client.__name__, model=dialect.models[0], url=dialect.address(there.root)
    )
    ended = subprocess.run([sys.executable, "-c", code, str(path)], check=False, capture_output=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    with Tract.open(path) as tract:

        @tract.tool(read_only=True)
        def look(city: str) -> str:
            """Look outside."""
            raise AssertionError("it was made already")

        tract.loop.tools = "self"
        tract.configure_llm(there.client())
        assert tract.chat(None).text == "Answer 2."
    assert there.kept == [0, 1]


def test_a_tool_may_change_the_context_in_the_middle_of_a_turn(talk, there):
    @talk.tool(read_only=True)
    def forget(city: str) -> str:
        """Forget what was said first."""
        talk.annotate(users(talk)[0], Priority.SKIP)
        return "forgotten"

    talk.chat("Three?")
    talk.chat("call forget")
    talk.chat("Four?")
    assert there.kept[2:] == [2, 3, 0, 1]


def test_a_child_and_a_regenerated_reply_keep_the_reasoning(tmp_path, there):
    with Session.open(tmp_path / "talk.db") as session:
        tract = session.create_tract()
        tract.configure_llm(there.client())
        tract.chat("One?")
        tract.chat("Two?")
        tract.generate(trigger="regenerate")
        child = session.spawn(tract, purpose="look", inheritance="full_clone")
        child.configure_llm(there.client())
        child.chat("Three?")
    assert there.kept == [0, 1, 1, 2]


def test_an_approved_reply_from_the_inbox_keeps_its_reasoning_unless_edited(talk, there):
    talk.user("Three?")
    talk.propose_generate().approve()
    talk.user("Four?")
    pending = talk.propose_generate()
    pending.response_text = "Something else."
    pending.approve()
    talk.chat("Five?")
    assert there.kept[2:] == [2, 3, 3]


def test_an_orchestrator_keeps_its_reasoning_between_steps(talk, there):
    pending = talk.propose_compress(commits=users(talk)[:1], content="They talked.")
    assert not pending.consult("Is it short?", max_turns=2).decided
    assert there.kept[2:] == [0, 1]


# --- the cost of a change


def test_the_cost_of_a_rewrite_is_shown_in_advance(talk, there):
    talk.models.price(there.dialect.models[0], input=2, output=10, cached=1)
    first, second = users(talk)
    assert [talk.costs.of_rewrite(one).replies for one in (first, second)] == [2, 1]
    assert talk.costs.of_rewrite().replies == 2
    assert str(talk.costs.of_rewrite(second)) == "the reasoning of 1 reply is no longer sent"
    assert not talk.costs.of_rewrite(talk.user("Three?").commit_hash)
    talk.user("One! " * 3_000, edit=first)
    assert talk.costs.of_rewrite(second).replies == 0  # this reasoning is lost already
    found = talk.costs.of_rewrite(first)
    assert found.tokens > 3_000
    assert found.cost.usd * 1_000_000 == found.tokens * 2
    assert str(found).startswith(f"{found.tokens:,} cached tokens are sent again, for ≈0.0")
    talk.undo()
    assert talk.costs.of_rewrite(first).replies == 2


@pytest.mark.parametrize(
    ("change", "lost"),
    [
        (lambda talk: talk.user("One!", edit=users(talk)[0]), "2 replies"),
        (lambda talk: talk.commit(
            {"content_type": "dialogue", "role": "user", "text": "Two!"}, operation="edit", edit_target=users(talk)[1]
        ), "1 reply"),
        (lambda talk: talk.annotate(users(talk)[0], Priority.SKIP), "2 replies"),
        (lambda talk: talk.compress(commits=users(talk)[1:2], content="They talked."), "1 reply"),
    ],
)  # fmt: skip
def test_a_rewrite_in_python_warns_first_and_the_warning_can_stop_it(talk, change, lost):
    head = talk.head
    with warnings.catch_warnings():
        warnings.simplefilter("error", RewriteWarning)
        with pytest.raises(RewriteWarning, match=f"the reasoning of {lost} is no longer sent"):
            change(talk)
    assert talk.head == head
    with pytest.warns(RewriteWarning) as warned:
        change(talk)
    assert talk.head != head
    assert [one.filename for one in warned] == [__file__]


@pytest.mark.filterwarnings("error::tract_jupyter.runs.RewriteWarning")
def test_a_rewrite_that_loses_nothing_does_not_warn(talk, tract):
    talk.annotate(users(talk)[0], Priority.PINNED)
    talk.annotate(users(talk)[0], Priority.NORMAL)
    talk.user("Three!", edit=talk.user("Three?").commit_hash)
    tract.user("Here no model thought.")
    tract.assistant("No?")
    tract.user("None.", edit=users(tract)[0])


def test_skipping_a_tool_result_drops_the_reasoning_from_its_call_on(talk, there):
    talk.chat("call look")
    talk.chat("Three?")
    answer = next(one.commit_hash for one in talk.compile().messages if one.role == "tool")
    kept, told = there.kept[-1] + 1, talk.costs.of_rewrite(answer).replies
    talk.annotate(answer, Priority.SKIP)
    talk.chat("Four?")
    assert (kept - there.kept[-1], told) == (3, 3)


def test_a_pending_rewrite_shows_the_lost_reasoning(talk, there):
    first, _ = users(talk)
    told = "The reasoning of 2 replies is no longer sent."
    assert told in talk.propose_compress(commits=[first], content="They talked.").summary()
    talk.branch("other", switch=False)
    talk.user("One!", edit=first)
    talk.switch("other")
    talk.user("One.", edit=first)
    talk.chat("Three?")
    assert "The reasoning of 1 reply is no longer" in talk.propose_merge("main").summary()
    new = talk.user("Something long and new. " * 20)
    assert "reasoning" not in talk.propose_compress(commits=[new], content="They talked.").summary()


def test_a_request_for_a_models_rewrite_shows_the_lost_reasoning(talk, there):
    first, second = users(talk)
    told = []

    def refuse(ticket):
        told.append(ticket.request.why)
        click(ticket, "reject", reason="no")

    talk.reviewer.channel = FakeChannel(*[refuse] * 4)
    acting = talk.loop.toolset("full")
    for name, arguments in {
        "annotate": {"target_hash": first, "priority": "skip"},
        "commit": {"content": {"content_type": "dialogue", "role": "user", "text": "No."}, "operation": "edit",
                   "edit_target": second},
        "compress": {"content": "They talked."},
        "tag": {"commit": first, "tag": "start"},
    }.items():  # fmt: skip
        acting.execute(name, arguments)
    assert ["reasoning of 2" in told[0], "reasoning of 1" in told[1], "reasoning of 2" in told[2]] == [
        True
    ] * 3
    assert "reasoning" not in "".join(told[3:])


def test_an_unknown_price_is_shown_as_unknown(talk):
    talk.user("One! " * 3_000, edit=users(talk)[0])
    assert str(talk.costs.of_rewrite(users(talk)[0])).endswith("for an unknown price")
