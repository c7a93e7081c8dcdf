"""A model acts until it has an answer. Each step is stored, and completed calls are not repeated."""

from __future__ import annotations

import asyncio
import copy
import json
import threading

import pytest

from tests.loop.conftest import told
from tests.review.fakes import FakeChannel, click
from tests.review.scripted import ScriptedClient, call, reply, said
from tract_jupyter import Tract
from tract_jupyter.exceptions import ContentError, LLMRequestError, LLMResponseError, UndecidedError
from tract_jupyter.llm import ModelCall
from tract_jupyter.models import Allowance, Delta
from tract_jupyter.runs.profile import OperationProfile, run_operation
from tract_jupyter.toolkit import Permission, ToolConfig, ToolProfile, ToolResult

LOOK = call("look", {"city": "Rome"}, "c1")


def test_calls_are_carried_out_until_there_is_an_answer(talk, script, done):
    client = script(reply("Let me see.", LOOK), reply(None, call("look", {"city": "Oslo"}, "c2")), "Sunny.")
    response = talk.chat("How is it?")
    assert (response.text, response.outcome, response.note) == ("Sunny.", "answer", "")
    assert (response.steps, response.calls, response.tool_calls) == (3, 2, ())
    assert response.usage == {"prompt_tokens": 30, "completion_tokens": 6, "total_tokens": 36}
    assert done == [("look", "Rome"), ("look", "Oslo")]
    assert said(talk) == [
        ("user", "How is it?"), ("assistant", "Let me see."), ("tool", "sunny in Rome"), ("assistant", None),
        ("tool", "sunny in Oslo"), ("assistant", "Sunny."),
    ]  # fmt: skip
    assert client.asked[0][1]["tools"] == client.asked[2][1]["tools"]
    assert client.asked[2][0][: len(client.asked[1][0])] == client.asked[1][0]


def test_a_turn_without_tools_is_one_step(tract, script, talk):
    talk.loop.tools = None
    client = script("Fine.")
    response = talk.chat("How is it?")
    assert (response.text, response.steps, response.outcome) == ("Fine.", 1, "answer")
    assert "tools" not in client.asked[0][1]


def test_schemas_alone_are_the_callers_to_answer(talk, script, done):
    schemas = talk.as_tools("self")
    script(reply(None, LOOK), "Sunny.")
    response = talk.chat("How is it?", tools=schemas)
    assert [call.name for call in response.tool_calls] == ["look"]
    assert not done
    talk.tool_result("c1", "look", "rain")
    assert talk.generate(tools=schemas).text == "Sunny."


def test_a_profile_shows_its_tools_and_how_to_read_on(talk, script):
    client = script("ok")
    talk.chat("?", tools=ToolProfile("one", {"look": ToolConfig()}))
    assert [tool["function"]["name"] for tool in client.asked[0][1]["tools"]] == ["read_result", "look"]


def test_async_is_the_same(talk, script, done):
    script(reply(None, LOOK), "Sunny.")
    response = asyncio.run(talk.achat("How is it?"))
    assert (response.text, response.steps, done) == ("Sunny.", 2, [("look", "Rome")])
    script("Still.")
    talk.user("And now?")
    assert asyncio.run(talk.agenerate()).text == "Still."


def test_a_turn_that_has_its_answer_is_over(talk, script):
    with pytest.raises(ContentError, match=r"chat\(text\) starts one"):
        script() and talk.chat(None)
    script("Fine.")
    talk.chat("How is it?")
    response = talk.chat(None)
    assert (response.text, response.steps) == ("Fine.", 0)


def test_a_fault_in_the_second_request_keeps_the_first_step(talk, script, done):
    script(reply(None, LOOK), LLMRequestError("HTTP 500"), "Sunny.")
    with pytest.raises(LLMRequestError) as raised:
        talk.chat("How is it?")
    assert "chat(None) continues" in raised.value.__notes__[0]
    assert talk.chat(None).text == "Sunny."
    assert done == [("look", "Rome")]


def test_a_fault_in_the_first_request_sets_the_question_aside(talk, script):
    script(LLMRequestError("HTTP 500"), "Back.")
    with pytest.raises(LLMRequestError):
        talk.chat("First")
    assert talk.chat("Second").text == "Back."
    assert [text for _, text in said(talk)] == ["Second", "Back."]


@pytest.mark.parametrize(
    ("response", "words"),
    [
        (reply(""), "the reply is empty"),
        ({"choices": [{"message": {"content": None}, "finish_reason": "content_filter"}]}, "content filter"),
        ({"choices": [{"message": {"content": ""}, "finish_reason": "length"}]}, "max_tokens"),
    ],
)
def test_an_empty_reply_is_an_error(talk, script, response, words):
    script(response)
    with pytest.raises(LLMResponseError, match=words):
        talk.chat("?")


def test_a_step_limit_is_reported_and_the_turn_can_continue(talk, script, done):
    script(*(reply(None, call("look", {"city": f"c{n}"}, f"c{n}")) for n in range(3)), "Done.")
    response = talk.chat("Go.", limits=Allowance(steps=2))
    assert (response.outcome, response.steps) == ("limit", 2)
    assert "2 steps" in response.note
    assert "chat(None) continues" in response.note
    assert talk.chat(None, limits=Allowance(steps=2)).text == "Done."
    assert len(done) == 3


def test_a_limit_that_is_just_enough_ends_nothing(talk, script):
    script(reply(None, LOOK), "Done.")
    assert talk.chat("Go.", limits=Allowance(steps=2, calls=1)).outcome == "answer"


def test_calls_over_the_limit_are_answered_without_being_made(talk, script, done):
    client = script(reply(None, LOOK, call("look", {"city": "Oslo"}, "c2")), "Done.")
    response = talk.chat("Go.", limits=Allowance(calls=1))
    assert (response.outcome, done) == ("limit", [("look", "Rome")])
    assert talk.chat(None).text == "Done."
    assert told(client) == [
        "sunny in Rome", "not run: the limit of 1 tool call of this turn is reached"
    ]  # fmt: skip


def test_resuming_after_a_limit_starts_a_new_count(talk, script, done):
    """Even if the turn stops again later for another reason."""
    script(*(reply(None, call("look", {"city": f"c{n}"}, f"c{n}")) for n in range(9)))
    limits = Allowance(steps=3)
    assert talk.chat("Go.", limits=limits).steps == 3
    talk.loop.carry_out = lambda call, make: talk.loop.pause() or make()
    assert talk.chat(None, limits=limits).steps == 1
    talk.loop.carry_out = None
    response = talk.chat(None, limits=limits)
    assert (response.outcome, response.steps, len(done)) == ("limit", 3, 6)
    assert "chat(None) continues with the same limits" in response.note


def test_a_turn_resumed_after_a_decision_or_restart_keeps_its_usage(tmp_path, script, talk, done):
    """Earlier requests, calls, tokens and money count, also in another process."""

    def opened():
        again = Tract.open(tmp_path / "t.db")

        @again.tool(read_only=True)
        def look(city: str) -> str:
            """Look outside."""
            return city

        @again.tool
        def send(to: str) -> str:
            """Send a mail."""
            return to

        again.loop.tools = "self"
        again.loop.price = lambda model, usage: 0.5
        again.configure_llm(client)
        return again

    client = script(
        reply(None, call("look", {"city": "Rome"})), reply(None, call("send", {"to": "Ada"}, "c2")),
        reply(None, call("look", {"city": "Oslo"}, "c3")), "Done."
    )  # fmt: skip
    limits = Allowance(steps=9, usd=9, calls=9)
    with opened() as first:
        response = first.chat("Go.", limits=limits)
        assert (response.outcome, response.steps, response.calls) == ("waiting", 2, 1)
        tokens = response.usage["prompt_tokens"]
    with opened() as second:
        second.reviewer.channel = FakeChannel(lambda ticket: click(ticket, "approve"))
        response = second.chat(None, limits=Allowance(steps=3))
        assert (response.outcome, response.steps, response.calls) == ("limit", 3, 3)
        assert response.usage["prompt_tokens"] == tokens / 2 * 3
        assert second.chat(None, limits=Allowance(usd=1)).text == "Done."


def test_the_token_limit_uses_the_tokens_reported_by_the_provider(talk, script):
    usage = {"prompt_tokens": 20_000, "completion_tokens": 5}
    script(*(reply(None, call("look", {"city": f"c{n}"}, f"c{n}"), usage=usage) for n in range(5)))
    assert talk.chat("Go.", limits=Allowance(tokens=30_000)).steps == 2


def test_a_money_limit_needs_known_prices(talk, script):
    script(*(reply(None, call("look", {"city": f"c{n}"}, f"c{n}")) for n in range(5)))
    talk.loop.price = None
    with pytest.raises(ContentError, match="needs prices"):
        talk.chat("Go.", limits=Allowance(usd=1))
    talk.loop.price = lambda model, usage: 0.6
    response = talk.chat("Go.", limits=Allowance(usd=1))
    assert (response.outcome, response.steps) == ("limit", 2)
    talk.loop.price = lambda model, usage: None
    response = talk.chat(None, limits=Allowance(usd=1))
    assert "the price of 'scripted-1' is unknown" in response.note


@pytest.mark.parametrize("wrong", [{"steps": 0}, {"tokens": 1.5}, {"usd": float("nan")}, {"seconds": True}])
def test_a_limit_is_a_number_above_0(wrong):
    with pytest.raises(ContentError, match="above 0"):
        Allowance(**wrong)


def test_the_same_call_with_the_same_outcome_is_made_twice(talk, script, done):
    client = script(*(reply(None, call("look", {"city": "Rome"}, f"c{n}")) for n in range(9)))
    response = talk.chat("Go.")
    assert (response.outcome, response.steps, len(done)) == ("repeat", 4, 2)
    assert "same outcome" in response.note
    assert "twice in a row" in told(client)[2]
    client.replies = ["I see."]
    assert talk.chat("Say something.").text == "I see."


def test_two_alternating_calls_are_detected_as_a_repetition(talk, script, done):
    cities = ["Rome", "Oslo"] * 5
    script(*(reply(None, call("look", {"city": city}, f"c{n}")) for n, city in enumerate(cities)))
    response = talk.chat("Go.")
    assert (response.outcome, response.steps, len(done)) == ("repeat", 6, 4)


def test_the_same_call_with_different_outcomes_is_not_a_repetition(talk, script):
    states = iter(["5 %", "20 %", "60 %", "100 %"])

    @talk.tool(read_only=True)
    def state() -> str:
        """Tell how far it is."""
        return next(states)

    script(*(reply(None, call("state", {}, f"c{n}")) for n in range(4)), "Done.")
    assert talk.chat("Go.").outcome == "answer"


def test_repeated_or_missing_call_ids_are_made_unique(talk, script):
    client = script(
        reply(None, LOOK),
        reply(None, call("look", {"city": "Oslo"}, "c1"), call("look", {"city": "Kyiv"}, "c1")),
        reply(None, {"function": {"name": "look", "arguments": '{"city": "Bern"}'}}),
        "ok",
    )
    talk.chat("Go.")
    assert told(client) == ["sunny in Rome", "sunny in Oslo", "sunny in Kyiv", "sunny in Bern"]
    calls = [call for one in client.last_messages for call in one.get("tool_calls", ())]
    assert len({call["id"] for call in calls}) == 4


def test_a_users_function_takes_the_place_of_a_step(talk, script, done):
    script()
    replies = [reply(None, LOOK), reply("Rain.")]
    talk.loop.ask = lambda messages, **options: replies.pop(0)
    talk.loop.carry_out = lambda call, make: ToolResult(call.name, success=True, output="rain")
    assert talk.chat("How is it?").text == "Rain."
    assert not done
    replies += [reply(None, call("look", {"city": "Oslo"}, "c2")), reply("Sun.")]
    talk.loop.carry_out = lambda call, make: make()
    talk.chat("And there?")
    assert done == [("look", "Oslo")]


@pytest.mark.parametrize("where", ["model", "loop"])
def test_a_model_function_may_modify_the_messages_it_receives(talk, where):
    asked, replies = [], [reply(None, LOOK), reply(None, call("look", {"city": "Oslo"}, "c2")), "Done."]

    def model(messages, **options):
        asked.append(copy.deepcopy(messages))
        for message in messages:
            for one in message.get("tool_calls", ()):
                one["function"]["arguments"] = json.loads(one["function"]["arguments"])
            message["content"] = "changed"
        del messages[0]
        said = replies.pop(0)
        return said if isinstance(said, dict) else reply(said)

    if where == "model":
        talk.models.use(model)
    else:
        talk.models.use(lambda messages, **options: None)
        talk.loop.ask = model
    assert talk.chat("Go.").text == "Done."
    assert asked[1] == asked[2][: len(asked[1])]
    assert [one["content"] for one in asked[2]] == ["Go.", None, "sunny in Rome", None, "sunny in Oslo"]


def test_each_step_may_have_operations_around_it(talk, script, done):
    profile = OperationProfile.of(
        "p", [run_operation("shout", order=1, text="{{ lastUserMessage }}!", into="message")]
    )
    client = script(reply(None, LOOK), "Sunny.")
    response = talk.chat("How is it?", profile=profile)
    assert (response.text, response.steps, done) == ("Sunny.", 2, [("look", "Rome")])
    assert len(talk.runs()) == 2
    assert response.run.status == "done"
    assert len(client.asked) == 2


def test_stop_ends_the_model_request_and_keeps_the_partial_reply(talk):
    came = threading.Event()

    class Slow:
        def chat(self, messages, *, on_delta=None, **options):
            on_delta(Delta("text", "Once upon "))
            on_delta(Delta("text", "a time"))
            came.set()
            assert signal_of(talk).wait(10)
            raise LLMRequestError("ended", code="cancelled")

    talk.configure_llm(Slow())
    threading.Thread(target=lambda: came.wait(10) and talk.loop.stop(), daemon=True).start()
    response = talk.chat("Tell.", on_delta=lambda piece: None)
    assert (response.outcome, response.text) == ("stopped", "Once upon a time")
    assert talk.get_commit(response.commit_info.commit_hash).metadata["cut"] == "stopped by the user"


def signal_of(talk):
    return talk.loop._running[0]


def test_a_stop_before_the_first_chunk_leaves_the_question_open(talk, script):
    class Silent:
        def chat(self, messages, **options):
            talk.loop.stop()
            raise LLMRequestError("ended", code="cancelled")

    talk.configure_llm(Silent())
    response = talk.chat("Tell.")
    assert (response.outcome, response.text, response.steps) == ("stopped", "", 0)
    script("Once.")
    assert talk.chat("Tell.").text == "Once."
    assert [text for _, text in said(talk)] == ["Tell.", "Once."]


def test_pause_ends_the_turn_before_the_next_request(talk, script, done):
    script(reply(None, LOOK), "Sunny.")
    talk.loop.carry_out = lambda call, make: (talk.loop.pause(), make())[1]
    response = talk.chat("How is it?")
    assert (response.outcome, done) == ("stopped", [("look", "Rome")])
    assert "paused" in response.note
    assert talk.chat(None).text == "Sunny."


def test_an_interrupt_leaves_no_call_without_an_answer(talk, script):
    def interrupted(call, make):
        raise KeyboardInterrupt

    client = script(reply(None, call("fire_nothing", {}, "c1"), call("send", {"to": "a"}, "c2")), "Well.")
    talk.reviewer.channel = type(talk.reviewer.channel)()
    talk.executor.permission = lambda tool, actor: Permission.ALLOW
    talk.loop.carry_out = interrupted
    with pytest.raises(KeyboardInterrupt):
        talk.chat("Go.")
    talk.loop.carry_out = None
    assert talk.chat("And?").text == "Well."
    assert "stopped by the user while it ran" in told(client)[1]


def test_code_mode_sends_the_script_instructions_once(talk, script, done):
    code = "print(tools.look(city='Rome'))\ntools.look(city='Oslo')"
    client = script(reply(None, call("notebook_execute", {"code": code})), "Sunny.", "Still.")
    talk.chat("How is it?", tools="code")
    talk.chat("And now?", tools="code")
    systems = [[one["content"] for one in sent if one["role"] == "system"] for sent, _ in client.asked]
    assert len(systems[0]) == 1
    assert systems == [systems[0]] * 3
    assert "notebook_execute" in systems[0][0]
    assert done == [("look", "Rome"), ("look", "Oslo")]
    assert told(client)[0].startswith("sunny in Rome\n")


def test_the_session_budget_ends_a_running_turn(talk, script, done):
    client = script(*(reply(None, call("look", {"city": f"c{n}"}, f"c{n}")) for n in range(9)))
    talk.costs.set_budget(tokens=60_000)
    client.replies[1]["usage"] = {"prompt_tokens": 59_990, "completion_tokens": 2}
    response = talk.chat("Go.")
    assert (response.outcome, response.steps) == ("limit", 2)
    assert "could exceed the budget" in response.note
    talk.costs.remove_budget()
    client.replies = ["Done."]
    assert talk.chat(None).text == "Done."


def test_a_question_that_was_set_aside_can_be_resumed(talk, script):
    script("Hello.", LLMRequestError("HTTP 500"), "Fine.")
    talk.chat("Hi")
    with pytest.raises(LLMRequestError):
        talk.chat("How are you?")
    assert talk.chat(None).text == "Fine."
    assert [text for _, text in said(talk)] == ["Hi", "Hello.", "How are you?", "Fine."]
    assert talk.chat(None).steps == 0


@pytest.mark.parametrize(("pieces", "kept"), [((), ""), (("Once upon ",), "Once upon ")])
def test_a_silent_model_is_not_waited_for_when_the_seconds_are_over(talk, pieces, kept):
    class Silent:
        def chat(self, messages, *, on_delta=None, **options):
            for piece in pieces:
                on_delta(Delta("text", piece))
            with ModelCall() as call:
                call.pause(20)
            raise AssertionError("nothing has ended the call")

    talk.configure_llm(Silent())
    response = talk.chat("Tell.", limits=Allowance(seconds=0.3), on_delta=lambda piece: None)
    assert (response.outcome, response.text) == ("limit", kept)
    assert response.note.startswith("the limit of 0.3 seconds is over; chat(None) continues")
    talk.configure_llm(ScriptedClient("The end."))
    assert talk.chat(None, limits=Allowance(steps=1)).text == "The end."
    assert [text for _, text in said(talk)] == ["Tell.", "The end."]


@pytest.fixture
def checked(talk, spec):
    """A profile with an operation before each request that needs the user's approval."""
    talk.register_operation(spec(unhandled="ask"))
    check = run_operation("check", "dynamic", operation="citation_check", fields={"urls": ["a"]}, order=1)
    return OperationProfile.of("p", [check])


def approve(talk):
    (waiting,) = talk.review.inbox()
    talk.reviewer.asked_here(waiting.pending_id).approve()


def test_a_waiting_run_in_a_turn_can_be_resumed_and_the_turn_continues(talk, script, checked, done):
    client = script(reply(None, LOOK), "Sunny.")
    with pytest.raises(UndecidedError, match=r"runs\.resume"):
        talk.chat("How is it?", profile=checked)
    approve(talk)
    talk.runs.resume(talk.runs()[0].run_id)
    assert (len(client.asked), done) == (1, [])
    response = talk.chat(None)
    assert (response.text, response.steps, done) == ("Sunny.", 2, [("look", "Rome")])


def test_going_on_takes_up_the_run_that_waits_at_each_step(talk, script, checked, done):
    client = script(reply(None, call("look", {"city": "Rome"}, "a b/c")), "Sunny.")
    with pytest.raises(UndecidedError):
        talk.chat("How is it?", profile=checked)
    with pytest.raises(UndecidedError):  # the run still waits, without a second request
        talk.chat(None, profile=checked)
    assert (len(talk.runs()), len(client.asked)) == (1, 0)
    approve(talk)
    with pytest.raises(UndecidedError):  # the next step has its own run
        talk.chat(None, profile=checked)
    assert (len(talk.runs()), len(client.asked), done) == (2, 1, [("look", "Rome")])
    assert talk.runs()[0].status == "waiting"
    approve(talk)
    response = talk.chat(None, profile=checked)
    (sent,) = [one["tool_calls"][0]["id"] for one in client.last_messages if "tool_calls" in one]
    assert sent.startswith("call")  # as for every reply in a turn; the model's id does not matter
    assert (response.text, response.steps, done) == ("Sunny.", 2, [("look", "Rome")])
    assert [run.status for run in talk.runs()] == ["done", "done"]
    assert not talk.review.inbox()


def test_another_turn_does_not_take_up_the_run_that_waits(talk, script, checked):
    script("Hello.")
    with pytest.raises(UndecidedError):
        talk.chat("How is it?", profile=checked)
    first = talk.runs()[0].run_id
    with pytest.raises(UndecidedError):
        talk.chat(None, profile=checked, temperature=0.5)
    assert talk.runs()[0].run_id != first


def test_a_script_that_only_takes_another_time_repeats_itself(talk, script, done):
    code = {"code": "import time\nprint(tools.look(city='Rome'))"}
    script(*(reply(None, call("notebook_execute", code, f"c{n}")) for n in range(9)))
    response = talk.chat("Go.", tools="code")
    assert (response.outcome, response.steps, len(done)) == ("repeat", 4, 2)


def test_a_resumed_turn_keeps_its_tools(talk, script, done):
    talk.loop.tools = None
    script(reply(None, LOOK), reply(None, call("look", {"city": "Oslo"}, "c2")), "Sunny.")
    assert talk.chat("How?", tools="full", limits=Allowance(steps=1)).outcome == "limit"
    response = talk.chat(None)
    assert (response.text, response.outcome, response.tool_calls) == ("Sunny.", "answer", ())
    assert done == [("look", "Rome"), ("look", "Oslo")]


def test_resuming_with_a_profile_unknown_to_this_process_needs_the_tools_argument(tmp_path):
    mine = ToolProfile("mine", {"status": ToolConfig()})
    client = ScriptedClient(reply(None, call("status", {}, "c1")), "Quiet.")
    store = tmp_path / "tract.db"
    with Tract.open(store, model=client) as t:
        assert t.chat("How?", tools=mine, limits=Allowance(steps=1)).outcome == "limit"
    with Tract.open(store, model=client) as t:
        with pytest.raises(
            ContentError, match=r"profile 'mine', which is not known here, so nothing was sent; .*tools="
        ):
            t.chat(None)
        assert len(client.asked) == 1
        assert t.chat(None, tools=mine).text == "Quiet."


def test_a_limit_of_seconds_has_an_end():
    with pytest.raises(ContentError, match=r"the limit of seconds must be at most 31,622,400 \(a year\)"):
        Allowance(seconds=1e300)
