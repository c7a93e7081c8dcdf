"""Requests to a model: contents, commits, retries, and no wasted requests."""

from __future__ import annotations

import pytest

from tests.review.scripted import ScriptedClient, call, needs_metres, reply, said
from tract_jupyter import Tract
from tract_jupyter.exceptions import (
    BudgetExceededError,
    ContentError,
    DetachedHeadError,
    FingerprintError,
    LLMConfigError,
    LLMError,
    LLMResponseError,
    PendingError,
    PendingStateError,
    RejectedError,
    UndecidedError,
)
from tract_jupyter.models import TokenBudget
from tract_jupyter.review import auto_retry

SEARCH = {"type": "function", "function": {"name": "search", "parameters": {"type": "object"}}}


# --- without a review


def test_the_reply_is_committed_with_model_options_and_usage(ask):
    tract, client = ask("1,345 metres")
    response = tract.generate(temperature=0.2, model="scripted", message="the height", metadata={"run": 7})
    assert (str(response), response.text) == ("1,345 metres", "1,345 metres")
    assert response.generation_config == {"temperature": 0.2, "model": "scripted-1"}
    assert response.usage["total_tokens"] == 12
    info = tract.get_commit(response.commit_info.commit_hash)
    assert (info.message, info.metadata) == ("the height", {"run": 7, "usage": response.usage})
    assert info.generation_config == {"temperature": 0.2, "model": "scripted-1"}
    assert client.asked == [([{"role": "user", "content": "How tall is Ben Nevis?"}],
                             {"temperature": 0.2, "model": "scripted"})]  # fmt: skip
    assert said(tract)[-1] == ("assistant", "1,345 metres")
    assert tract.review.inbox() == []
    assert len(tract.compile_records.newest()) == 1


def test_tools_are_offered_and_their_calls_come_back_as_calls(ask):
    tract, client = ask(reply(None, call("search", {"q": "Ben Nevis"})), "1,345 metres")
    tract.user("Also the year.", tools=[SEARCH])
    response = tract.generate()
    assert client.asked[0][1] == {"tools": [SEARCH]}
    assert [(c.name, c.arguments) for c in response.tool_calls] == [("search", {"q": "Ben Nevis"})]
    tract.tool_result("c1", "search", "1345 m")
    tract.generate()
    assert [m["role"] for m in client.last_messages] == ["user", "user", "assistant", "tool"]


def test_tools_given_to_a_call_replace_the_tools_of_the_context(ask):
    tract, client = ask("x")
    response = tract.generate(tools=[SEARCH])
    assert client.asked[0][1] == {"tools": [SEARCH]}
    assert tract.compile(at_commit=response.commit_info.commit_hash).tools == (SEARCH,)
    assert response.generation_config == {"model": "scripted-1"}


@pytest.mark.parametrize("text", ["", "  ", "\n"])
def test_an_empty_message_is_neither_committed_nor_sent(tract, text):
    tract.configure_llm(ScriptedClient("Hi"))
    with pytest.raises(ContentError, match="is empty, so nothing was committed or sent"):
        tract.chat(text)
    assert (tract.log(), tract.llm.asked) == ([], [])


def test_chat_commits_the_message_before_the_reply(tract):
    tract.configure_llm(ScriptedClient("hello"))
    assert tract.chat("hi", name="Ada").text == "hello"
    assert said(tract) == [("user", "hi"), ("assistant", "hello")]


def test_without_a_client_chat_commits_nothing_and_names_the_remedy(tract):
    with pytest.raises(LLMConfigError, match=r"configure_llm\(client\)"):
        tract.chat("hi")
    assert tract.log() == []
    tract.configure_llm(ScriptedClient())
    tract.configure_llm(None)
    with pytest.raises(LLMError):
        tract.generate()
    with pytest.raises(LLMConfigError, match="does not name a model"):
        tract.configure_llm("gpt-6-luna")


def test_a_plain_text_is_a_reply(ask):
    tract, _ = ask("12 metres")
    assert tract.generate().text == "12 metres"


@pytest.mark.parametrize(
    ("response", "words"),
    [
        ({}, "no choices"),
        ({"choices": []}, "no choices"),
        ({"error": {"message": "quota"}}, "quota"),
        (None, "not NoneType"),
        ({"choices": [{"message": {"content": 3}}]}, "content must be a text, not 3"),
        ({"choices": [{"message": {"content": None, "tool_calls": ["x"]}}]}, "list of dicts"),
        (reply(None, call("search", "{not json")), "cannot be read"),
        (reply(None, call("search", "[1]")), "cannot be read"),
    ],
)
def test_an_invalid_reply_raises_an_error_and_commits_nothing(ask, response, words):
    tract, _ = ask(response)
    before = tract.head
    with pytest.raises(LLMResponseError, match=words):
        tract.generate()
    assert tract.head == before


def test_text_parts_are_joined(ask):
    tract, _ = ask(reply([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]))
    response = tract.generate()
    assert response.text == "ab"


def test_a_refusal_is_an_error_and_is_not_committed(ask):
    tract, _ = ask({"choices": [{"message": {"content": None, "refusal": "I will not"}}]})
    before = tract.head
    with pytest.raises(LLMResponseError, match="declined to answer, so nothing was committed"):
        tract.generate()
    assert tract.head == before


def test_an_exception_of_the_client_is_raised_unchanged(ask):
    tract, _ = ask(ConnectionError("down"), "1,345 metres")
    with pytest.raises(ConnectionError):
        tract.generate()
    assert tract.generate().text == "1,345 metres"


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"metadata": {"x": object()}}, ContentError),
        ({"metadata": []}, ContentError),
        ({"message": 3}, ContentError),
        ({"temperature": object()}, ContentError),
        ({"validator": "strict"}, ContentError),
        ({"max_retries": -1}, ContentError),
        ({"max_retries": 1.5}, ContentError),
        ({"retry_prompt": 3}, ContentError),
    ],
)
def test_invalid_options_are_refused_before_the_request(ask, options, error):
    tract, client = ask("x")
    with pytest.raises(error):
        tract.generate(**options)
    assert client.asked == []


def test_a_reply_that_the_budget_refuses_is_kept(ask):
    tract, client = ask("word " * 50)
    tract.budget = TokenBudget(20, "reject")
    with pytest.raises(BudgetExceededError) as caught:
        tract.generate()
    assert "inbox" in caught.value.__notes__[0]
    tract.budget = None
    tract.operations.rebuild(tract.review.inbox()[0]).approve()
    assert said(tract)[-1] == ("assistant", "word " * 50)
    assert len(client.asked) == 1


def test_no_model_is_asked_while_others_would_wait(ask):
    tract, client = ask("x")
    with pytest.raises(LLMError, match="batch"), tract.batch():
        tract.generate()
    assert client.asked == []


def test_nothing_to_send_and_nowhere_to_put_it(tract):
    client = ScriptedClient("x")
    tract.configure_llm(client)
    with pytest.raises(ContentError, match="empty"):
        tract.generate()
    first = tract.user("a")
    tract.user("b")
    tract.checkout(first.commit_hash)
    with pytest.raises(DetachedHeadError):
        tract.generate()
    assert client.asked == []


def test_a_lone_surrogate_in_a_reply_is_replaced(ask):
    tract, _ = ask("1,345 metres \ud83c")
    assert tract.generate().text == "1,345 metres ?"


def test_the_context_is_compiled_once(ask, monkeypatch):
    tract, _ = ask("one")
    compiled = []
    generation = tract._parts.generation
    look = generation.to_be_answered
    monkeypatch.setattr(generation, "to_be_answered", lambda *at: compiled.append(look(*at)) or compiled[-1])
    tract.generate()
    assert len(compiled) == 1


# --- with a validator


def test_an_invalid_reply_is_retried_with_the_problem_and_not_committed(ask):
    tract, client = ask("4,411 feet", "1,345 metres")
    response = tract.generate(validator=needs_metres)
    assert response.text == "1,345 metres"
    assert said(tract) == [("user", "How tall is Ben Nevis?"), ("assistant", "1,345 metres")]
    taken = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}
    assert response.commit_info.metadata == {"retry_count": 1, "usage": {**taken, "failed_tries": [taken]}}
    assert response.usage == {name: 2 * count for name, count in taken.items()}  # for the whole turn
    assert [m["role"] for m in client.last_messages] == ["user", "assistant", "user"]
    assert "say it in metres" in client.last_messages[-1]["content"]


def test_retries_can_be_seen(ask):
    tract, _ = ask("4,411 feet", reply(None, call("search")), "1,345 metres")
    tract.generate(validator=needs_metres, hide_retries=False, retry_prompt="No: {diagnosis}!")
    assert said(tract) == [
        ("user", "How tall is Ben Nevis?"),
        ("assistant", "4,411 feet"),
        ("user", "No: say it in metres!"),
        ("assistant", "(The tool search was called with {}; its answer is not shown here.)"),
        ("user", "No: say it in metres!"),
        ("assistant", "1,345 metres"),
    ]


def test_a_retry_prompt_without_a_placeholder_is_followed_by_the_problem(ask):
    tract, client = ask("feet", "metres")
    tract.generate(validator=needs_metres, retry_prompt="Again, please.")
    assert client.last_messages[-1]["content"] == "Again, please.\n\nsay it in metres"


def test_the_last_retry_is_looked_at_too(ask):
    tract, client = ask("feet", "yards", "metres")
    assert tract.generate(validator=needs_metres, max_retries=2).text == "metres"
    assert len(client.asked) == 3


@pytest.mark.parametrize("retries", [0, 2])
def test_when_no_reply_is_good_the_error_tells_all_that_was_wrong(ask, retries):
    tract, client = ask("one", "two", "three", "four")
    before = tract.head
    with pytest.raises(RejectedError) as caught:
        tract.generate(validator=lambda text: f"{text} is no height", max_retries=retries)
    told = str(caught.value)
    assert all(f"{word} is no height" in told for word in ["one", "two", "three"][: retries + 1])
    assert len(client.asked) == retries + 1
    assert tract.head == before
    assert caught.value.pending.retry_count == retries
    assert tract.review.inbox() == []


@pytest.mark.parametrize("said", [3, (False,), (0, "x"), [False, "x"]])
def test_other_return_values_of_a_validator_are_refused(ask, said):
    tract, _ = ask("x")
    with pytest.raises(ContentError, match="must return None or True if the text is valid"):
        tract.generate(validator=lambda _: said)


@pytest.mark.parametrize(
    ("said", "words"),
    [(False, "without a reason"), ((False, "no unit"), "no unit"), ((False, None), "without a reason")],
)
def test_a_validator_may_say_no_with_or_without_a_reason(ask, said, words):
    tract, client = ask("5", "5 m")
    reply = tract.generate(validator=lambda text: True if "m" in text else said)
    assert reply.text == "5 m"
    assert words in client.last_messages[-1]["content"]


@pytest.mark.parametrize("how", ["generate", "chat", "propose_generate"])
@pytest.mark.parametrize("bad", [0, 1, 3])
def test_a_validator_is_called_once_for_each_reply(ask, how, bad):
    """This holds for repeated replies too. A rejected reply is not committed later."""
    seen = []

    def check(text):
        seen.append(text)
        return "say it in metres" if len(seen) <= bad else None

    tract, client = ask(*["4,421 feet"] * bad, "1,345 metres")
    if how == "propose_generate":
        pending = tract.propose_generate(validator=check)
        auto_retry(pending)
        assert pending.validate().passed
    else:
        asked = ("How high?",) if how == "chat" else ()
        assert getattr(tract, how)(*asked, validator=check).text == "1,345 metres"
    assert seen == ["4,421 feet"] * bad + ["1,345 metres"]
    assert len(client.asked) == bad + 1


def test_a_verdict_is_kept_whatever_the_validator_would_say_later(ask):
    verdicts = iter(["no", None, None, None])
    tract, _ = ask("bad", "good")
    assert tract.generate(validator=lambda _: next(verdicts)).text == "good"
    verdicts = iter(["no", None])
    tract, _ = ask("bad")
    with pytest.raises(RejectedError, match="no"):
        tract.generate(validator=lambda _: next(verdicts), max_retries=0)


def test_a_text_that_a_handler_changed_is_validated_again(ask):
    seen = []
    tract, _ = ask("4,421 feet")

    def convert(pending):
        pending.response_text = "1,345 metres"
        pending.validate()
        pending.pass_through()

    tract.on("generate", convert)
    assert (
        tract.generate(validator=lambda text: seen.append(text) or needs_metres(text)).text == "1,345 metres"
    )
    assert seen == ["4,421 feet", "1,345 metres"]


def test_a_client_that_fails_between_retries_leaves_the_reply_in_the_inbox(ask):
    tract, _ = ask("feet", ConnectionError("down"))
    with pytest.raises(ConnectionError):
        tract.generate(validator=needs_metres)
    pending = tract.operations.rebuild(tract.review.inbox()[0])
    assert pending.response_text == "feet"
    assert pending.approve().text == "feet"


# --- with handlers


def test_a_handler_may_turn_it_down_retry_or_leave_it_open(ask):
    tract, _ = ask("one", "two", "three", "four")
    tract.on("generate", lambda p: p.reject("too short"), name="h")
    with pytest.raises(RejectedError, match="too short"):
        tract.generate()
    tract.off("generate")
    tract.on("generate", lambda p: (p.retry("longer"), p.approve()))
    assert tract.generate().text == "three"
    tract.off("generate")
    tract.on("generate", lambda p: None)
    with pytest.raises(UndecidedError) as caught:
        tract.generate()
    assert caught.value.pending.response_text == "four"
    assert [stored.operation for stored in tract.review.inbox()] == ["generate"]


def test_handlers_go_before_the_validator_and_may_pass_it_on(ask):
    tract, _ = ask("feet", "metres")
    seen = []
    tract.on("generate", lambda p: (seen.append(p.validate().diagnosis), p.pass_through()))
    assert tract.generate(validator=needs_metres).text == "metres"
    assert seen == ["say it in metres"]


def test_a_catch_all_that_only_looks_changes_nothing(ask):
    tract, _ = ask("x")
    seen = []
    tract.on("*", lambda p: seen.append(p.title))
    assert tract.generate().text == "x"
    assert seen == ["Model's reply"]


def test_auto_retry_is_a_handler(ask):
    tract, _ = ask("feet", "metres")
    tract.on("generate", auto_retry)
    assert tract.generate(validator=needs_metres).text == "metres"


def test_the_bound_of_retries_holds_for_handlers_too(ask):
    tract, _ = ask("one", "two")
    pending = tract.propose_generate(max_retries=1)
    assert pending.retry() == "two"
    with pytest.raises(PendingStateError, match="max_retries=1"):
        pending.retry()
    assert pending.retries_left == 0
    assert pending.approve().text == "two"


# --- single decisions, and decisions from the store


def test_a_proposal_is_decided_each_way(ask):
    tract, client = ask("one", "two", "three")
    pending = tract.propose_generate(validator=needs_metres)
    assert not pending.validate()
    assert (pending.diagnosis, pending.validate().diagnosis) == ("say it in metres", "say it in metres")
    assert (pending.response_text, pending.tool_calls, pending.model) == ("one", [], "scripted-1")
    assert "say it in metres" in pending.review_request().summary
    assert pending.apply_decision({"action": "retry", "args": {"guidance": "and be brief"}}) == "two"
    assert "say it in metres\nand be brief" in client.last_messages[-1]["content"]
    assert pending.execute_tool("retry", {}) == "three"
    assert [entry["response_text"] for entry in pending.retry_history] == ["one", "two"]
    assert pending.get_state()["fields"]["retry_count"] == 2
    pending.pass_through()
    assert pending.status == "passed_through"


def test_a_request_shows_messages_added_before_the_decision(ask):
    tract, _ = ask("one")
    pending = tract.propose_generate()
    assert pending.review_request().why == ""
    tract.user("wait")
    assert "has changed since the request to the model" in pending.review_request().why
    pending.approve()
    assert said(tract)[1:] == [("user", "wait"), ("assistant", "one")]


def test_a_reply_on_another_branch_can_be_rejected_but_not_approved(ask):
    tract, _ = ask("one")
    pending = tract.propose_generate()
    tract.branch("other")
    with pytest.raises(FingerprintError, match=r"switch\('main'\)"):
        pending.approve()
    pending.reject("too late")
    assert pending.status == "rejected"


def test_a_reply_over_budget_can_be_approved_later(ask):
    tract, _ = ask("word " * 50)
    tract.budget = TokenBudget(20, "reject")
    pending = tract.propose_generate()
    with pytest.raises(BudgetExceededError):
        pending.approve()
    tract.budget = None
    assert pending.approve().text == "word " * 50


def test_another_process_approves_or_retries_it(tmp_path):
    path = tmp_path / "store.db"
    with Tract.open(path) as first:
        first.user("How tall?")
        first.configure_llm(ScriptedClient("feet"))
        first.on("generate", lambda p: None)
        with pytest.raises(UndecidedError):
            first.generate(validator=needs_metres)
    with Tract.open(path) as second:
        pending = second.operations.rebuild(second.review.inbox()[0])
        assert pending.validate().diagnosis == "say it in metres"  # as in the other process
        with pytest.raises(LLMConfigError):
            pending.retry()
        second.configure_llm(ScriptedClient("1,345 metres"))
        assert pending.retry() == "1,345 metres"
        with pytest.raises(PendingError, match="needs_metres"):
            pending.validate()
        assert pending.approve().text == "1,345 metres"
        assert said(second)[-1] == ("assistant", "1,345 metres")
