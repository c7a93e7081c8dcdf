"""Usage and cost of a session, a reply and a turn. The budget refuses a request before it is sent."""

from __future__ import annotations

import json
import threading
from decimal import Decimal

import pytest

from tests.llm.dialects import ALL, Chat, Messages, Said, made
from tests.llm.providers import Answer, provider, sse
from tests.llm.test_prices import ANTHROPIC, answering, tokens
from tests.review.scripted import ScriptedClient, call, reply
from tract_jupyter import Tract
from tract_jupyter.exceptions import LLMBudgetError, LLMConfigError, LLMRequestError, RunFailedError
from tract_jupyter.llm import Usage, reported_cost
from tract_jupyter.models import Allowance
from tract_jupyter.runs.profile import OperationProfile, run_operation


def costing(usd, text="Hello."):
    """A reply with this cost."""
    usage = {"prompt_tokens": 10, "completion_tokens": 2, "cost": usd}
    return reply(text, usage=usage)


@pytest.fixture
def priced(tract):
    """A tract whose model costs a dollar for each token of its replies."""
    client = ScriptedClient(*["Hello."] * 9)
    tract.models.use(client)
    tract.models.price("your ScriptedClient", input=0, output=1_000_000)
    return tract, client


# --- usage


def test_a_session_by_model_and_purpose(tract):
    tract.models.use(answering("claude-haiku-4-5", base_url=ANTHROPIC, usage=tokens(1_000, 100, cached=500)))
    tract.models.use(ScriptedClient("Short."), operation="compress")
    assert str(tract.costs()) == "no requests yet"
    tract.chat("A long question, at some length. " * 9)
    tract.chat("Again")
    tract.compress()
    report = tract.costs()
    chat, compress = report.lines
    assert (chat.model, chat.operation, chat.requests) == ("claude-haiku-4-5", "chat", 2)
    assert (chat.input_tokens, chat.cached_tokens, chat.output_tokens) == (2_000, 1_000, 200)
    assert (compress.operation, compress.cost) == ("compress", None)
    assert report.cost is None
    assert report.known.usd == chat.cost.usd
    assert str(report) == f"{chat.cost} and 1 request at an unknown price for 3 requests with 2,212 tokens"
    assert repr(tract.costs) == f"<Costs of this session: {report}>"


def test_replies_and_turns_store_their_usage(tmp_path):
    """The usage is in the store, so another process can read it."""
    client = answering("claude-haiku-4-5", base_url=ANTHROPIC, usage=tokens(1_000, 100))
    with Tract.open(tmp_path / "t.db", model=client) as tract:
        tract.system("Be brief.")
        tract.chat("One")
        response = tract.chat("Two")
        assert response.cost == tract.costs().known.usd / 2
    with Tract.open(tmp_path / "t.db") as tract:
        assert tract.costs().lines == ()
        assert tract.costs.of("HEAD").cost.usd == Decimal("0.0015")
        two, one = tract.costs.turns()
        assert (two.text, one.text, two.replies) == ("Two", "One", (response.commit_info.commit_hash,))
        assert two.report.cost.usd == Decimal("0.0015")
        assert [turn.text for turn in tract.costs.turns(1)] == ["Two"]
        assert tract.costs.turns(0) == []


def test_a_turn_of_several_replies_is_their_sum(tract):
    tract.user("Do it")
    for usd in (0.25, 0.5):
        tract.models.use(ScriptedClient(costing(usd)))
        tract.generate()
    (turn,) = tract.costs.turns()
    assert turn.report.cost.usd == Decimal("0.75")
    assert len(turn.replies) == 2


def test_a_reply_without_usage_has_none_in_its_commit_and_an_estimate_in_the_session(tract):
    tract.models.use(ScriptedClient(reply("Hello.", usage=None)))
    tract.chat("One")
    assert tract.costs.of("HEAD").lines == ()
    (line,) = tract.costs().lines
    assert line.is_estimate
    assert line.input_tokens > 0
    assert line.output_tokens > 0
    assert "≈" in str(tract.costs())


ZEROS = [
    {"prompt_tokens": 0, "completion_tokens": 0},
    {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
    {"input_tokens": 0, "output_tokens": 0},
    {"prompt_tokens": 0, "completion_tokens": 0, "prompt_tokens_details": {"cached_tokens": 0}},
    {"total_tokens": 0},
]


@pytest.mark.parametrize("usage", ZEROS)
def test_zero_token_counts_are_replaced_by_an_estimate(priced, usage):
    """Some servers send zeros. Neither a budget nor a USD limit may treat such a reply as free."""
    tract, client = priced
    client.replies = [reply("Long. " * 9, usage=usage)] * 9
    response = tract.chat("Say much.")
    (line,) = tract.costs().lines
    assert line.is_estimate
    assert (line.input_tokens > 0, line.output_tokens > 0, line.cost.usd > 1) == (True, True, True)
    assert (response.usage["estimated_tokens"], response.usage["cost_is_estimate"]) == (line.tokens, True)
    stored = tract.costs.turns()[0].report
    assert (stored.tokens, stored.is_estimate, stored.cost.is_estimate) == (line.tokens, True, True)
    assert not {0} & {number for number in response.usage.values() if not isinstance(number, dict)}


@pytest.mark.parametrize("usage", ZEROS)
def test_zeros_do_not_get_around_a_budget(tract, usage):
    client = ScriptedClient(*[reply("Hello there, all of you.", usage=usage)] * 30)
    tract.models.use(client)
    tract.costs.set_budget(tokens=300)
    with pytest.raises(LLMBudgetError):  # noqa: PT012 # the loop is what raises
        for _ in range(30):
            tract.chat("Hi", max_tokens=20)
    assert len(client.asked) < 8


@pytest.mark.parametrize(
    ("usage", "known"),
    [
        ({"prompt_tokens": 0, "completion_tokens": 40}, {"completion_tokens": 40}),
        ({"prompt_tokens": 40, "completion_tokens": 0}, {"prompt_tokens": 40}),
        ({"prompt_tokens": 40, "completion_tokens": 0, "total_tokens": 40}, {"prompt_tokens": 40}),
    ],
)
def test_one_zero_is_estimated_and_the_other_count_holds(priced, usage, known):
    tract, client = priced
    client.replies = [reply("Long. " * 9, usage=usage)]
    response = tract.chat("Say much. " * 9, limits=Allowance(tokens=10_000))
    (line,) = tract.costs().lines
    assert {name: response.usage.get(name) for name in known} == known
    assert line.tokens == 40 + response.usage["estimated_tokens"] > 50


def test_a_total_alone_is_a_count(priced):
    tract, client = priced
    client.replies = [reply("Long.", usage={"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 90})]
    assert tract.chat("Hi").usage == {"total_tokens": 90}
    assert tract.costs().tokens == 90


def test_a_reply_without_a_word_may_have_no_tokens():
    assert Usage.of({"usage": {"prompt_tokens": 3, "completion_tokens": 0}}).output_tokens == 0
    empty = {"choices": [{"message": {"content": ""}}], "usage": {"prompt_tokens": 3, "completion_tokens": 0}}
    assert Usage.of(empty).output_tokens == 0
    empty["choices"][0]["message"]["content"] = "Hello"
    assert Usage.of(empty).output_tokens is None


def _ending_with(dialect, said, zeros):
    """A stream that repeats its usage at the end, as zeros."""
    if dialect is Chat:
        last = {
            "id": "r1",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "m-1",
            "choices": [],
            "usage": zeros,
        }
        return sse(*dialect.chunks(said), last)
    events = list(dialect.events(said))
    if dialect is Messages:
        events.insert(-1, {"type": "message_delta", "delta": {}, "usage": zeros})
    else:
        before = {
            "type": "response.in_progress",
            "response": {**dialect.whole(said), "status": "in_progress"},
        }
        events[-1] = {**events[-1], "response": {**events[-1]["response"], "usage": zeros}}
        events.insert(-1, before)
    return b"".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n".encode() for one in events)


@pytest.mark.parametrize("dialect", ALL)
def test_the_largest_usage_of_a_stream_counts(dialect):
    zeros = {name: 0 for name, number in dialect.usage(Said()).items() if isinstance(number, int)}
    with provider(Answer(_ending_with(dialect, Said("Hello"), zeros), kind="text/event-stream")) as there:
        response = made(dialect, there).chat([{"role": "user", "content": "Hi"}], on_delta=lambda _: None)
    found = Usage.of(response)
    assert (found.input_tokens, found.cached_tokens, found.output_tokens) == (100, 60, 20)


def test_replies_that_were_thrown_away_count(tract):
    tract.models.use(ScriptedClient(costing(0.25, "feet"), costing(0.5, "metres")))
    tract.user("How tall?")
    tract.generate(validator=lambda text: None if text == "metres" else "in metres")
    assert tract.costs().cost.usd == tract.costs.of("HEAD").cost.usd == Decimal("0.75")
    assert tract.costs.turns()[0].report.requests == 2


def test_tool_calls_count_in_the_estimate_if_usage_is_missing(tract):
    tract.models.use(ScriptedClient(reply(None, call("look", {"at": "x" * 400}), usage=None)))
    tract.user("Go")
    tract.generate()
    assert tract.costs().lines[0].output_tokens > 30


@pytest.mark.parametrize(
    ("error", "billed"),
    [
        (LLMRequestError("ended", code="cancelled"), True),
        (LLMRequestError("silent", code="timeout"), True),
        (LLMRequestError("not reached", code="timeout", is_transient=True), False),
        (LLMRequestError("refused", status=401), False),
        (ValueError("of the client"), False),
        (KeyboardInterrupt(), True),
    ],
)
def test_a_request_that_failed_counts_if_the_provider_was_at_work(tract, error, billed):
    def fails(messages, **options):
        raise error

    tract.models.use(fails)
    with pytest.raises(type(error)):
        tract.chat("Hello")
    assert len(tract.costs().lines) == billed


def test_a_partial_stream_counts(tract):
    def breaks(messages, on_delta=None, **options):
        on_delta("A few words of it")
        raise LLMRequestError("broken")

    class Breaking:
        chat = staticmethod(breaks)

    tract.models.use(Breaking())
    with pytest.raises(LLMRequestError):
        tract.models.client_for("chat").chat([{"role": "user", "content": "x"}], on_delta=lambda piece: None)
    (line,) = tract.costs().lines
    assert (line.is_estimate, line.output_tokens > 2) == (True, True)


@pytest.mark.parametrize("dialect", ALL)
def test_a_failed_attempt_with_reported_tokens_counts_with_the_reply(tract, dialect):
    """The client retried by itself, so no other record shows that the attempt was billed."""
    failed = {**dialect.error("overloaded_error", "busy"), "usage": dialect.usage(Said())}
    with provider(Answer(failed), Answer(dialect.whole(Said("Hello")))) as there:
        tract.models.use(made(dialect, there))
        tract.models.price("m", input=1_000_000, output=0)
        tract.loop.limits = Allowance(usd=1000)
        response = tract.chat("Hi")
    (line,) = tract.costs().lines
    assert (line.requests, line.input_tokens, line.cost.usd) == (2, 200, 200)
    assert tract.costs.of("HEAD").requests == 2
    assert tract.costs.of("HEAD").cost.usd == response.cost == 200
    assert tract.costs.turns()[0].report.tokens == line.tokens


@pytest.mark.parametrize("dialect", ALL)
def test_all_tries_of_a_request_that_failed_count(tract, dialect):
    failed = {**dialect.error("overloaded_error", "busy"), "usage": dialect.usage(Said())}
    with provider(Answer(failed), Answer(dialect.error("api_error", "x"), 500), Answer(failed)) as there:
        tract.models.use(made(dialect, there))
        with pytest.raises(LLMRequestError) as caught:
            tract.chat("Hi")
    assert len(caught.value.failed_tries) == 1
    (line,) = tract.costs().lines
    assert (line.requests, line.input_tokens) == (2, 200)


def test_a_stream_that_began_with_its_usage_counts(tract):
    """Anthropic's first event has the usage of the prompt, before any piece of the reply."""
    begun = bytes(Messages.stream(Said("Hello"))).split(b"\n\n")[0] + b"\n\n"
    error = b"data: " + json.dumps(Messages.error("overloaded_error", "busy")).encode() + b"\n\n"
    with provider(Answer(begun + error), Answer(Messages.stream(Said("Hello")))) as there:
        tract.models.use(made(Messages, there))
        tract.chat("Hi", on_delta=lambda _: None)
    (line,) = tract.costs().lines
    assert (line.requests, line.input_tokens, line.is_estimate) == (2, 200, False)


# --- the budget


def test_a_request_that_could_exceed_it_is_not_sent(priced):
    """No request, no commit. The error gives the spending, the possible cost and the remedy."""
    tract, client = priced
    tract.costs.set_budget(usd=10)
    tract.chat("One", max_tokens=8)  # up to 8 USD, and 2 in the end
    with pytest.raises(LLMBudgetError) as caught:
        tract.chat("Two", max_tokens=9)
    told = str(caught.value)
    assert (
        "could exceed the budget of 10.00 USD: this session has spent 2.00 USD, and the request could cost 9.00 USD"
        in told
    )
    assert "at most 9 of output). Type %tract budget 20.00 USD to continue, or %tract budget off" in told
    assert len(client.asked) == 1
    assert tract.chat("Two", max_tokens=8).text == "Hello."  # the estimate of 8 became 2
    tract.costs.remove_budget()
    assert tract.chat("Three", max_tokens=9_999).text == "Hello."


def test_a_budget_in_tokens_needs_no_price(tract):
    client = ScriptedClient(*["Hello."] * 3)
    tract.models.use(client)
    tract.costs.set_budget(tokens=100)
    tract.chat("One", max_tokens=20)
    with pytest.raises(
        LLMBudgetError, match=r"budget of 100 tokens: this session has used 12, and the request needs about"
    ):
        tract.chat("Two", max_tokens=80)
    with pytest.raises(LLMBudgetError, match=r"4,096 of output, because the request has no max_tokens"):
        tract.chat("Two")
    assert len(client.asked) == 1


def test_spending_before_the_budget_was_set_counts(priced):
    tract, _ = priced
    tract.chat("One")
    tract.costs.set_budget(usd="2.5")
    with pytest.raises(LLMBudgetError, match="has spent 2.00 USD"):
        tract.chat("Two", max_tokens=1)


def test_without_a_price_a_budget_in_dollars_cannot_be_held(tract):
    client = ScriptedClient("Hello.")
    tract.models.use(client)
    tract.costs.set_budget(usd=2)
    with pytest.raises(LLMBudgetError) as caught:
        tract.chat("One")
    told = str(caught.value)
    assert "the price of your ScriptedClient is unknown" in told
    assert "%tract budget 50000 tokens" in told
    line = told.rpartition("as in ")[2]
    assert line == "tract.models.price('your ScriptedClient', input=1, output=5)"
    eval(line, {"tract": tract})
    assert tract.chat("One").text == "Hello."


def test_every_purpose_is_held_to_it(priced, spec):
    tract, client = priced
    tract.user("A long question, at some length. " * 9)
    tract.user("Another one, which is as long. " * 9)
    tract.register_operation(spec(unhandled="ask"))
    pending = tract.fire("citation_check", {"urls": []}, review=True)
    tract.costs.set_budget(usd=1)
    profile = OperationProfile.of("p", [run_operation("aux", "llm", order=1, text="Sum up.", tag="note")])
    for ask in (tract.generate, tract.compress, lambda: pending.consult("Look.")):
        with pytest.raises(LLMBudgetError):
            ask()
    with pytest.raises((RunFailedError, LLMBudgetError), match="budget"):
        tract.generate(profile=profile)
    assert "budget_exceeded" in repr(tract.runs()[0].operations[0])
    with pytest.raises(LLMBudgetError):
        pending.consult("Look.", client=client)
    assert client.asked == []


def test_a_model_by_name_is_held_to_it(tract):
    own = ScriptedClient("x")
    tract.models.add("own", own)
    tract.costs.set_budget(tokens=5)
    with pytest.raises(LLMBudgetError, match="5 tokens"):
        tract.models.client("own").chat([{"role": "user", "content": "x"}])
    assert own.asked == []


def test_running_requests_count_with_their_maximum_cost(priced):
    """Two requests at the same time cannot both use the remaining budget."""
    tract, _ = priced
    entered, over = threading.Event(), threading.Event()

    def slow(messages, **options):
        entered.set()
        over.wait()
        return reply("Hello.")

    tract.models.use(slow)
    tract.models.price("your function", input=0, output=1_000_000)
    tract.costs.set_budget(usd=10)
    ask = tract.models.client_for("consult").chat
    thread = threading.Thread(
        target=ask, args=([{"role": "user", "content": "x"}],), kwargs={"max_tokens": 8}
    )
    thread.start()
    entered.wait()
    try:
        with pytest.raises(LLMBudgetError):
            ask([{"role": "user", "content": "x"}], max_tokens=8)
    finally:
        over.set()
        thread.join()
    assert ask([{"role": "user", "content": "x"}], max_tokens=8)


def test_a_failed_request_does_not_use_the_budget(priced):
    tract, _ = priced

    def fails(messages, **options):
        raise ValueError("no")

    tract.models.use(fails, operation="consult")
    tract.models.price("your function", input=0, output=1_000_000)
    tract.costs.set_budget(usd=10)
    for _ in range(3):
        with pytest.raises(ValueError, match="no"):
            tract.models.client_for("consult").chat([], max_tokens=9)
    assert tract.costs().lines == ()


def test_tools_that_are_offered_count(priced):
    tract, client = priced
    tract.costs.set_budget(tokens=200)
    tool = {"type": "function", "function": {"name": "f", "description": "word " * 300, "parameters": {}}}
    tract.user("x")
    with pytest.raises(LLMBudgetError):
        tract.generate(tools=[tool], max_tokens=10)
    assert client.asked == []


@pytest.mark.parametrize(
    "wrong",
    [{}, {"usd": 0}, {"usd": -1}, {"usd": "much"}, {"usd": float("nan")}, {"usd": True}, {"tokens": 0},
     {"tokens": 1.5}, {"tokens": "many"}, {"tokens": True}],
)  # fmt: skip
def test_an_invalid_budget_is_refused(tract, wrong):
    with pytest.raises(LLMConfigError):
        tract.costs.set_budget(**wrong)
    assert tract.costs.budget is None


def test_a_budget_of_both(tract):
    assert str(tract.costs.set_budget(usd=2, tokens=50_000)) == "50,000 tokens and 2.00 USD"
    assert "budget: 50,000 tokens and 2.00 USD" in repr(tract.costs)


def test_reported_cost_reads_the_cost_from_the_usage(tract):
    """The cost comes only from the usage of the reply."""
    tract.models.use(ScriptedClient(costing(0.25), "Hello."))
    assert reported_cost("m", tract.chat("One").usage) == 0.25
    assert reported_cost("m", tract.chat("Two").usage) is None
