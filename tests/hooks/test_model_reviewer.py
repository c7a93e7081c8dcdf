"""What a model that reviews first is sent, and that whatever goes wrong leaves the call to a person."""

from __future__ import annotations

import json

import pytest

from tests.hooks.fakes import ScriptedClient, call, reply
from tests.hooks.reviewing import Reviewing, decided, make_ready
from tests.llm.providers import Answer, provider
from tests.review.fakes import FakeChannel, click
from tract_jupyter.exceptions import ContentError
from tract_jupyter.hooks import ModelReviewer
from tract_jupyter.models import SentContext, message_with

CLEAR = {"decision": "clear", "reason": "fine"}


@pytest.fixture
def names(tract):
    tract.reviewer.channel = FakeChannel(reachable=False)
    return make_ready(tract)


def tag(tract, names, label="birds"):
    return tract.executor.execute("tag", {"commit_hash": names["$USER"], "tag": label}, actor="agent:chat")


def look_of(tract, names, client, **options):
    tract.review.model_reviewer = ModelReviewer(client, **options)
    result = tag(tract, names)
    (look,) = tract.review.first_looks
    assert result.success is (look.outcome == "cleared")
    return look


def test_an_answer_in_the_one_form_counts(tract, names):
    look = look_of(tract, names, Reviewing("clear"))
    assert (look.outcome, look.model) == ("cleared", "scripted-1")


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("clear", "no decision"),
        ('{"decision": "clear", "reason": "fine"}', "no decision"),
        ("I cannot help with that.", "no decision"),
        (reply(None, call("decide", CLEAR), call("decide", CLEAR, "c2")), "2 decisions"),
        (reply(None, call("decide", CLEAR), call("decide", {**CLEAR, "decision": "refuse"}, "c2")), "2 decisions"),
        (reply("refuse", call("decide", CLEAR)), "text beside"),
        (reply(None, call("approve", CLEAR)), "'approve'"),
        (reply(None, call("decide", {**CLEAR, "scope": "always"})), "another form"),
        (reply(None, call("decide", {**CLEAR, "edits": {"tag": "x"}})), "another form"),
        (reply(None, call("decide", {"decision": "clear"})), "another form"),
        (reply(None, call("decide", {"decision": "CLEAR", "reason": "x"})), "another form"),
        (reply(None, call("decide", {"decision": "approve", "reason": "x"})), "another form"),
        (reply(None, call("decide", {"decision": ["clear"], "reason": "x"})), "another form"),
        (reply(None, call("decide", {"decision": True, "reason": "x"})), "another form"),
        (reply(None, call("decide", {"decision": "clear", "reason": " "})), "usable reason"),
        (reply(None, call("decide", {"decision": "clear", "reason": "x" * 501})), "usable reason"),
        (reply(None, call("decide", {"decision": "clear", "reason": 1})), "another form"),
        (reply(None, call("decide", '{"decision": "refuse", "decision": "clear", "reason": "x"}')), "twice"),
        (reply(None, call("decide", '{"decision": "clear", "rea')), ""),
        (reply(None, call("decide", "[]")), "another form"),
        (reply(None, call("decide", '"clear"')), "another form"),
        ({}, ""), ({"choices": []}, ""), (None, ""), (7, ""), ({"choices": [{"message": {"tool_calls": 3}}]}, ""),
        (ValueError("odd"), "ValueError: odd"), (SystemExit(1), "SystemExit"),
    ],
)  # fmt: skip
def test_every_other_answer_leaves_it_to_a_person(tract, names, answer, why):
    client = Reviewing(lambda _: answer)
    if isinstance(answer, str):
        client = ScriptedClient(answer)
    if isinstance(answer, BaseException):
        client.says = lambda _: (_ for _ in ()).throw(answer)
    look = look_of(tract, names, client)
    assert look.outcome == "passed on"
    assert why in look.reason


@pytest.mark.parametrize("finish", ["length", "content_filter", "refusal", "pause"])
def test_an_answer_that_was_cut_leaves_it_to_a_person(tract, names, finish):
    cut = decided("clear")
    cut["choices"][0]["finish_reason"] = finish
    look = look_of(tract, names, Reviewing(lambda _: cut))
    assert (look.outcome, look.reason) == ("passed on", f"its answer ended early ({finish})")


def answer_of(decision):
    body = decided(decision)
    body["choices"][0] |= {"index": 0, "finish_reason": "tool_calls"}
    return Answer({"id": "r1", "object": "chat.completion", **body})


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (answer_of("clear"), "cleared"), (answer_of("refuse"), "refused"), (answer_of("ask"), "passed on"),
        (Answer(status=500), "passed on"), (Answer({"error": {"message": "no"}}, status=401), "passed on"),
        (Answer(b"garbage"), "passed on"), (Answer(b"", hangs=True), "passed on"),
    ],
)  # fmt: skip
def test_over_the_network(tract, names, answer, outcome):
    with provider(answer) as there:
        tract.models.add("reviewing", base_url=there.url, model="m-1", max_retries=0)
        tract.models.use("reviewing", operation="review")
        look = look_of(tract, names, None, timeout=0.5 if answer.hangs else 20)
    assert look.outcome == outcome
    assert not answer.hangs or look.reason.endswith("it did not answer within 0.5 s")


def test_without_a_model_a_person_is_asked(tract, names):
    look = look_of(tract, names, None)
    assert look.outcome == "passed on"
    assert "no language model is configured" in look.reason


def test_without_budget_a_person_is_asked(tract, names):
    tract.costs.set_budget(tokens=10)
    look = look_of(tract, names, Reviewing("clear"))
    assert (look.outcome, look.reason) == ("passed on", "the budget leaves nothing for it")


def test_it_is_on_the_bill_under_a_purpose_of_its_own(tract, names):
    look_of(tract, names, Reviewing("clear"))
    assert [line.operation for line in tract.costs().lines] == ["review"]


def test_what_is_sent_beside_a_message_stays_out(tract, names):
    client = Reviewing("clear")
    text = message_with([SentContext("df", "rows", "SECRET-OF-A-TABLE")], "Tag the question.")
    tract.user(text)
    look_of(tract, names, client)
    assert "Tag the question." in client.texts
    assert "SECRET-OF-A-TABLE" not in client.texts


def test_what_was_said_on_another_branch_stays_out(tract, names):
    client = Reviewing("clear")
    tract.switch("other")
    tract.user("Only said here.")
    tract.switch("main")
    look_of(tract, names, client)
    assert "Only said here." not in client.texts


def test_keys_stay_out_and_long_words_are_shortened(tract, names):
    client = Reviewing("clear")
    tract.user("The key is sk-abcdefghijklmnop1234567890abcd.")
    tract.user("a long story " * 1_000)
    tract.user("." * 990 + " sk-abcdefghijklmnop1234567890abcd " + "." * 2_000)
    look_of(tract, names, client)
    assert "sk-abc" not in client.texts
    assert "[redacted]" in client.texts
    assert len(client.texts) < 12_000


def test_what_tools_and_models_said_never_reaches_its_requests(tract, names):
    """A turn over the network: the chat's requests have all of it, those of the reviewer nothing."""
    tract.loop.tools = "self"

    @tract.tool(read_only=True)
    def look(city: str) -> str:
        """Look outside."""
        return f"WHAT-A-TOOL-SAID about {city}"

    content = {"content_type": "dialogue", "role": "assistant", "text": "There are 12 birds."}
    tract.configure_llm(
        ScriptedClient(
            reply("WHAT-A-MODEL-SAID", call("look", {"city": "Oslo"})),
            reply("AND-MORE-OF-IT", call("commit", {"content": content}, "c2")),
            "done",
        )
    )
    with provider(answer_of("clear")) as there:
        tract.models.add("reviewing", base_url=there.url, model="m-1")
        tract.models.use("reviewing", operation="review")
        tract.review.model_reviewer = ModelReviewer()
        tract.chat("Count the birds of Oslo.")
        (body,) = there.bodies
    sent = json.dumps(body)
    for word in ("WHAT-A-TOOL-SAID", "WHAT-A-MODEL-SAID", "AND-MORE-OF-IT", "OF-A-TOOL", "412 rows"):
        assert word not in sent
    assert "Count the birds of Oslo." in sent
    assert "There are 12 birds." in sent


def test_of_a_step_only_what_was_not_cleared_is_asked(tract, names):
    tract.loop.tools = "self"
    content = {"content_type": "dialogue", "role": "assistant", "text": "There are 12 birds."}
    client = ScriptedClient(
        reply(
            None,
            call("commit", {"content": content}),
            call("switch", {"target": "other"}, "c2"),
            call("tag", {"commit_hash": names["$USER"], "tag": "birds"}, "c3"),
        ),
        "done",
    )
    tract.configure_llm(client)
    tract.review.model_reviewer = ModelReviewer(Reviewing("clear"))
    channel = tract.reviewer.channel = FakeChannel(lambda ticket: click(ticket, "reject", reason="stay"))
    response = tract.chat("Count the birds.")
    assert [request.title for request, _ in channel.shown[:1]] == ["Call tool switch"]
    assert {request.title for request, _ in channel.shown} == {"Call tool switch"}
    assert [one.outcome for one in tract.review.first_looks] == ["cleared", "kept", "cleared"]
    assert response.usage["prompt_tokens"] == 20  # of the chat alone
    assert tract.costs().tokens == 4 * 12


def test_a_turn_counts_what_its_reviews_take(tract, names):
    from tract_jupyter.models import TurnLimits, TurnOutcome

    tract.loop.tools = "self"
    tract.configure_llm(
        ScriptedClient(
            reply(
                None,
                call("tag", {"commit_hash": names["$USER"], "tag": "birds"}),
                usage={"total_tokens": 20_000},
            ),
            "done",
        )
    )
    tract.review.model_reviewer = ModelReviewer(Reviewing("clear"))
    response = tract.chat("Tag it.", limits=TurnLimits(tokens=20_010))  # a review takes 12
    assert response.outcome is TurnOutcome.LIMIT
    assert "the turn took 20,012" in response.note


@pytest.mark.parametrize(
    ("options", "told"),
    [({"timeout": 0}, "above 0"), ({"timeout": True}, "above 0"), ({"most_cleared": 0}, "from 1 on"), ({"client": 3}, "a method chat")],
)  # fmt: skip
def test_wrong_arguments_are_refused(options, told):
    with pytest.raises(ContentError, match=told):
        ModelReviewer(**options)
