"""What a model thought is sent back as long as the provider takes it, through every change of the context."""

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
    """A tract that has said two things and was answered, and was sent one thought back."""

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


def test_thoughts_go_back_whole_and_in_their_place_also_around_calls(talk, there):
    assert talk.chat("call look").text.startswith("Answer")
    assert there.kept == [0, 1, 2, 3]
    talk.chat("Three?")
    assert there.kept[-1] == 4


def test_those_of_streamed_replies_are_the_same(talk, there):
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


def test_behind_an_edit_they_are_left_out_and_those_made_since_are_sent(talk, there):
    talk.user("One!", edit=users(talk)[0])
    talk.chat("Three?")
    talk.chat("Four?")
    assert there.kept[2:] == [0, 1]


def test_an_edit_of_the_latest_message_costs_only_what_came_after_it(talk, there):
    talk.user("Two!", edit=users(talk)[1])
    talk.chat("Three?")
    assert there.kept[2:] == [1]


def test_an_edited_reply_is_sent_as_it_reads(talk, there):
    reply = talk.compile().messages[-1]
    talk.assistant("Another answer.", edit=reply.commit_hash)
    talk.chat("Three?")
    assert there.kept[2:] == [1]
    assert "Another answer." in str(there.bodies[-1])
    assert reply.content not in str(there.bodies[-1])


def test_undo_brings_them_back(talk, there):
    talk.user("One!", edit=users(talk)[0])
    talk.undo()
    talk.chat("Three?")
    assert there.kept[2:] == [2]


@pytest.mark.slow
def test_what_was_made_behind_an_edit_is_dropped_when_the_edit_is_taken_back_by_another_one(talk, there):
    first = users(talk)[0]
    talk.user("One!", edit=first)
    talk.chat("Three?")
    talk.user("One?", edit=first)
    talk.chat("Four?")
    assert there.kept[2:] == [0, 2]  # those of the first two are good again, that of the third is not


def test_a_compression_drops_what_stands_behind_it(talk, there):
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


def test_each_branch_keeps_its_own(talk, there):
    talk.branch("other", switch=False)
    talk.chat("Here?")
    talk.switch("other")
    talk.chat("There?")
    talk.switch("main")
    talk.chat("Here again?")
    assert there.kept[2:] == [2, 2, 3]


def test_a_merge_and_a_rebase_go_on_with_what_still_fits(talk, there):
    talk.branch("other", switch=False)
    talk.chat("Here?")
    talk.switch("other")
    talk.chat("There?")
    talk.merge("main")
    talk.chat("Both?")
    talk.branch("third", switch=False)
    talk.chat("More?")
    assert there.kept[2:] == [2, 2, 3, 4]  # all but that of the other side
    talk.switch("third")
    talk.user("Else.")
    talk.rebase("other")
    talk.chat("All?")
    assert not sum(there.wrong)


def test_another_model_gets_none_and_the_first_one_its_own_again(talk, there):
    talk.configure_llm(there.client(there.dialect.models[1]))
    talk.chat("Three?")
    talk.chat("Four?")
    talk.configure_llm(there.client())
    talk.chat("Five?")
    assert there.kept[2:] == [0, 1, 2]  # of the other model, the texts


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


def test_operations_around_a_reply_leave_it_its_thoughts(talk, there):
    seen = []
    talk.chat("Three?", on_event=seen.append)
    talk.chat("call look", on_event=seen.append)
    talk.chat("Four?")
    assert seen
    assert there.kept[2:] == [2, 3, 4, 5]


@pytest.mark.parametrize("there", [Messages], indirect=True)  # the other one refuses nothing
def test_a_provider_that_refuses_them_all_the_same_is_asked_once_more_without(talk, there):
    there.stricter = True
    assert talk.chat("Three?").text
    assert (there.wrong[2:], len(there.bodies)) == ([2, 0], 4)
    there.stricter = False
    talk.chat("Four?")
    assert there.kept[4:] == [1]  # only what was thought after the refusal, without another one
    there.wrong.clear()


def test_what_was_stored_goes_back_in_another_process(tmp_path, there):
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
def test_they_survive_the_end_of_the_process_between_a_call_and_its_answer(tmp_path, there):
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


def test_a_child_and_another_variant_keep_them(tmp_path, there):
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


def test_a_reply_that_waited_in_the_inbox_keeps_them_unless_it_was_rewritten(talk, there):
    talk.user("Three?")
    talk.propose_generate().approve()
    talk.user("Four?")
    pending = talk.propose_generate()
    pending.response_text = "Something else."
    pending.approve()
    talk.chat("Five?")
    assert there.kept[2:] == [2, 3, 3]


def test_a_model_that_decides_keeps_its_own_between_two_steps(talk, there):
    pending = talk.propose_compress(commits=users(talk)[:1], content="They talked.")
    assert not pending.consult("Is it short?", max_turns=2).decided
    assert there.kept[2:] == [0, 1]


# --- what a change would take


def test_a_change_says_before_what_it_takes(talk, there):
    talk.models.price(there.dialect.models[0], input=2, output=10, cached=1)
    first, second = users(talk)
    assert [talk.costs.of_rewrite(one).replies for one in (first, second)] == [2, 1]
    assert talk.costs.of_rewrite().replies == 2
    assert str(talk.costs.of_rewrite(second)) == "the reasoning of 1 reply is no longer sent"
    assert not talk.costs.of_rewrite(talk.user("Three?").commit_hash)
    talk.user("One! " * 3_000, edit=first)
    assert talk.costs.of_rewrite(second).replies == 0  # that is lost already
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
def test_a_change_in_python_warns_before_it_is_made_and_can_be_refused(talk, change, lost):
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
def test_what_takes_nothing_warns_of_nothing(talk, tract):
    talk.annotate(users(talk)[0], Priority.PINNED)
    talk.annotate(users(talk)[0], Priority.NORMAL)
    talk.user("Three!", edit=talk.user("Three?").commit_hash)
    tract.user("Here no model thought.")
    tract.assistant("No?")
    tract.user("None.", edit=users(tract)[0])


def test_leaving_out_an_answer_takes_the_reply_that_called_too(talk, there):
    talk.chat("call look")
    talk.chat("Three?")
    answer = next(one.commit_hash for one in talk.compile().messages if one.role == "tool")
    kept, told = there.kept[-1] + 1, talk.costs.of_rewrite(answer).replies
    talk.annotate(answer, Priority.SKIP)
    talk.chat("Four?")
    assert (kept - there.kept[-1], told) == (3, 3)


def test_what_waits_for_approval_says_it_too(talk, there):
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


def test_a_question_about_a_models_own_change_says_it_too(talk, there):
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


def test_a_price_that_is_unknown_is_said_to_be(talk):
    talk.user("One! " * 3_000, edit=users(talk)[0])
    assert str(talk.costs.of_rewrite(users(talk)[0])).endswith("for an unknown price")
