"""Budgets of agents: per agent, for the whole tree, and of the caller. Reserved before a call,
charged afterwards."""

from __future__ import annotations

import gc
import json
import threading
import weakref

import pytest

from tests.agents.cast import ask, calls, create
from tests.review.scripted import call, reply
from tract_jupyter.agents import CallState, TreeLimits
from tract_jupyter.exceptions import AgentError, ToolExecutionError
from tract_jupyter.models import Allowance

PATIENCE = 30
MEASURES = ("steps", "calls", "tokens", "usd", "seconds")


def add(number):
    return call("add", {"a": number, "b": 1}, f"a{number}")


def heavy(reply):
    """A reply that uses more tokens than the estimate of any request in this file."""
    return {**reply, "usage": {"prompt_tokens": 10_000, "completion_tokens": 2_000, "total_tokens": 12_000}}


def adds(most):
    return [heavy(calls(add(number))) for number in range(most)]


def nothing_aside(agents):
    meters = [agents.meter, *(agents.meter_of(agent) for agent in agents)]
    return all(not any(meter.aside.values()) for meter in meters)


@pytest.fixture
def w(stage):
    return stage.agents.create("w", "w works.", "d", tools=["add"])


LIMITED = {
    "steps": ({"steps": 2}, "the limit of 2 steps", {"steps": 2}),
    "calls": ({"calls": 2}, "the limit of 2 tool calls|limit", {"calls": 2}),
    "tokens": ({"tokens": 20_000}, "the limit of 20,000 tokens", {"tokens": 24_000}),
    "usd": ({"usd": 0.9}, "the limit of 0.9 USD", {"usd": 1.0}),
}


@pytest.mark.parametrize("measure", LIMITED)
def test_an_agent_cannot_exceed_its_own_budget(stage, cast, measure):
    budget, words, taken = LIMITED[measure]
    stage.loop.price = lambda model, usage: 0.5
    stage.agents.create("w", "w works.", "d", tools=["add"], budget=budget)
    cast(w=[*adds(9), "over"])
    with pytest.raises(AgentError, match=words):
        stage.agents.call("w", "go")
    (made,) = stage.agents.get("w").calls
    assert made.state is CallState.FAILED
    assert {name: made.used[name] for name in taken} == taken
    assert stage.agents.meter.spent == made.used
    if measure != "calls":
        with pytest.raises(AgentError, match="the budget of the agent 'w' is used up"):
            stage.agents.call("w", "again")
    assert nothing_aside(stage.agents)


def test_an_agent_call_ends_at_its_limit_of_seconds(stage, cast, monkeypatch):
    stage.agents.create("w", "w works.", "d", tools=["add"], budget={"seconds": 60})
    clock = [1_000.0]
    monkeypatch.setattr("tract_jupyter.loop.meter.time.monotonic", lambda: clock[0])

    def slow(messages):
        clock[0] += 61
        return calls(add(1))

    cast(w=[slow, "over"])
    with pytest.raises(AgentError, match="60 seconds"):
        stage.agents.call("w", "go")


def test_a_budget_is_for_all_calls_together(stage, cast):
    stage.agents.create("w", "w works.", "d", tools=["add"], budget={"steps": 5})
    cast(w=[calls(add(1)), "one", calls(add(2)), "two", "three", "four"])
    assert [stage.agents.call("w", f"go {n}") for n in range(3)] == ["one", "two", "three"]
    with pytest.raises(AgentError, match="used up: 5 of 5 requests"):
        stage.agents.call("w", "go 4")
    stage.agents.update("w", budget={"steps": 6})
    assert stage.agents.call("w", "go 5") == "four"


def test_the_tree_has_a_budget_that_many_agents_share(stage, cast):
    stage.agents.limits = TreeLimits(budget=Allowance(steps=3))
    for name in ("ant", "bee"):
        stage.agents.create(name, f"{name} works.", "d", tools=["add"])
    cast(ant=[calls(add(1)), "ant over"], bee=[calls(add(2)), "bee over"])
    assert stage.agents.call("ant", "go") == "ant over"
    with pytest.raises(AgentError, match="the limit of 1 step "):
        stage.agents.call("bee", "go")
    with pytest.raises(AgentError, match="all agents together is used up: 3 of 3 requests"):
        stage.agents.call("ant", "go")
    stage.agents.limits = TreeLimits(budget=Allowance(steps=9))
    assert stage.agents.resume("bee") == "bee over"


@pytest.mark.parametrize("measure", ["steps", "tokens", "usd"])
def test_four_parallel_agents_cannot_exceed_the_budget_of_the_tree(stage, cast, measure):
    most = {"steps": 8, "tokens": 96_000, "usd": 4.0}[measure]
    stage.loop.price = lambda model, usage: 0.5
    stage.agents.limits = TreeLimits(budget=Allowance(**{"steps": None, measure: most}))
    names, met = ("ant", "bee", "cat", "dog"), threading.Barrier(4)

    def first(messages):
        met.wait(PATIENCE)  # no agent has been charged yet
        return heavy(calls(add(0)))

    for name in names:
        stage.agents.create(name, f"{name} works.", "d", tools=["add"])
    model = cast(boss=[calls(*(ask(name, f"c{name}") for name in names)), "over"],
                 **{name: [first, *adds(9)[1:]] for name in names})  # fmt: skip
    assert stage.chat("Go.").text == "over"
    assert all("the limit of" in told for told in model.told("boss"))
    assert stage.agents.meter.spent[measure] == most
    assert stage.agents.meter.spent["steps"] == 8
    assert nothing_aside(stage.agents)


@pytest.mark.parametrize("measure", ["tokens", "usd"])
def test_a_turns_limit_includes_the_usage_of_its_agents(stage, cast, w, measure):
    stage.loop.price = lambda model, usage: 0.5
    most = {"tokens": 60_000, "usd": 2.5}[measure]
    asks = [heavy(calls(ask("w", "c1"))), heavy(calls(ask("w", "c2", "more")))]
    model = cast(boss=[*asks, "over"], w=[*adds(9)])
    response = stage.chat("Go.", limits=Allowance(steps=9, **{measure: most}))
    assert len(model.asked["boss"]) == 1
    assert response.outcome == "limit"
    assert stage.agents.meter.spent[measure] + (12_000 if measure == "tokens" else 0.5) == most


def test_tool_calls_of_an_agent_count_for_the_turn_that_called_it(stage, cast, w):
    model = cast(boss=[calls(ask("w", "c1")), "over"], w=[*adds(3), "w over"])
    response = stage.chat("Go.", limits=Allowance(calls=3))
    assert (response.text, response.calls) == ("over", 3)
    assert "failed: the limit of 2 tool calls" in model.told("boss")[0]
    assert stage.agents.meter_of(w).spent["calls"] == 2


def test_the_time_limit_of_a_turn_pauses_while_an_agents_request_is_open(stage, cast, person, monkeypatch):
    clock = [1_000.0]
    monkeypatch.setattr("tract_jupyter.loop.meter.time.monotonic", lambda: clock[0])

    def thinks(pending):
        clock[0] += 3_600
        return "approve"

    person(thinks)
    stage.agents.create("w", "w works.", "d", tools=["write"])
    cast(boss=[calls(ask("w", "c1")), "over"], w=[calls(call("write", {"text": "t"}, "w1")), "w over"])
    response = stage.chat("Go.", limits=Allowance(seconds=60))
    assert (response.text, response.outcome) == ("over", "answer")


def test_usage_of_a_nested_agent_is_charged_to_both_agents_and_once_to_the_tree(stage, cast, person):
    person()
    stage.agents.create("low", "low works.", "d", tools=["add"])
    stage.agents.create("top", "top works.", "d", tools=["add"], toolsets=["dynamic_agents"])
    cast(top=[calls(ask("low", "c1")), "top over"], low=[calls(add(1)), "low over"])
    stage.agents.call("top", "go")
    top, low = stage.agents.get("top"), stage.agents.get("low")
    assert {name: low.calls[0].used[name] for name in MEASURES[:3]} == {"steps": 2, "calls": 1, "tokens": 24}
    assert {name: top.calls[0].used[name] for name in MEASURES[:3]} == {"steps": 4, "calls": 2, "tokens": 48}
    assert stage.agents.meter.spent["steps"] == 4
    assert stage.agents.meter_of(low).spent["steps"] == 2


def test_an_agent_passes_on_at_most_its_remaining_budget(stage, cast, person):
    person()
    stage.agents.create(
        "top", "top works.", "d", toolsets=["dynamic_agents"], tools=["add"], budget={"steps": 5}
    )
    cast(
        top=[
            calls(create("low", "c1", tools=["add"], budget={"steps": 1_000})),
            calls(ask("low", "c2")),
            "over",
        ],
        low=adds(9),
    )
    with pytest.raises(AgentError, match="the limit of 5 steps"):
        stage.agents.call("top", "go")
    assert stage.agents.get("low").calls[0].used["steps"] == 3
    assert stage.agents.get("top").calls[0].used["steps"] == 5


ENDINGS = {
    "an error of the model": (RuntimeError("broken"), AgentError),
    "an error that the loop knows": (ConnectionError("gone"), AgentError),
    "an interrupt": (KeyboardInterrupt(), KeyboardInterrupt),
    "the end of the process": (SystemExit(3), ToolExecutionError),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_reserved_budget_is_released_after_every_kind_of_ending(stage, cast, w, ending):
    error, expected = ENDINGS[ending]
    cast(w=[calls(add(1)), error, "over"])
    with pytest.raises(expected):
        stage.agents.call("w", "go")
    (made,) = w.calls
    assert made.state in {CallState.FAILED, CallState.STOPPED}
    assert made.used["steps"] >= 1
    assert stage.agents.meter.spent["steps"] == made.used["steps"]
    assert nothing_aside(stage.agents)
    assert stage.agents.resume("w") == "over"
    assert made.used["steps"] == stage.agents.meter.spent["steps"] == stage.agents.meter_of(w).spent["steps"]


@pytest.mark.parametrize(
    "count", [10**400, 10**30, -5, 1e300, float("inf"), "9", True], ids=lambda one: repr(one)[:9]
)
def test_a_usage_that_no_model_can_have_is_not_counted(stage, cast, w, count):
    """A server may report anything. The reservation of the call is released, and its budget holds an estimate."""
    stage.models.price("scripted-1", input=1, output=1)
    odd = {"prompt_tokens": count, "completion_tokens": count, "total_tokens": count, "cost": count}
    cast(w=[{**calls(add(1)), "usage": odd}, {**reply("over"), "usage": odd}])
    assert stage.agents.call("w", "go") == "over"
    (made,) = w.calls
    assert made.used["steps"] == 2
    assert 0 < made.used["tokens"] < 10_000
    assert 0 <= made.used["usd"] < 1
    assert stage.agents.meter.spent == made.used
    assert nothing_aside(stage.agents)


@pytest.mark.parametrize(
    "price", [-5.0, float("nan"), float("inf"), "free", 10**400], ids=lambda one: repr(one)[:9]
)
def test_a_price_that_is_no_amount_counts_as_unknown(stage, cast, w, price):
    """A negative price would give the budget back, and NaN would end no limit."""
    stage.loop.price = lambda model, usage: price
    stage.agents.update("w", budget={"usd": 1})
    cast(w=[calls(add(1)), "over"])
    with pytest.raises(AgentError, match="the price of 'scripted-1' is unknown"):
        stage.agents.call("w", "go")
    assert w.calls[0].used["usd"] == 0
    assert nothing_aside(stage.agents)


def test_tokens_count_although_the_price_function_raises(stage, cast, w):
    def broken(model, usage):
        raise ZeroDivisionError

    stage.loop.price = broken
    cast(w=["over"])
    with pytest.raises(AgentError, match="ZeroDivisionError"):
        stage.agents.call("w", "go")
    assert (w.calls[0].used["steps"], w.calls[0].used["tokens"]) == (1, 12)
    assert nothing_aside(stage.agents)


def test_a_limit_of_money_without_prices_is_an_answer(stage, cast, w):
    stage.loop.price = None
    stage.agents.update("w", budget={"usd": 1})
    model = cast(boss=[calls(ask("w", "c1")), "over"], w=["w over"])
    assert stage.chat("Go.").text == "over"
    assert "needs prices" in model.told("boss")[0]
    assert w.calls[0].note
    assert nothing_aside(stage.agents)


def priced(stage):
    """Set a price of ten cents per request: 10 input tokens at 10,000 USD per million."""
    stage.models.price("scripted-1", input=10_000, output=0)


def test_money_is_reserved_before_a_call_and_charged_by_the_models_price(stage, cast, person):
    person()
    priced(stage)
    agents, aside = stage.agents, []

    def looks(messages):
        aside.append([round(agents.meter_of(agents.get(name)).aside["usd"], 9) for name in ("top", "low")])
        return calls(add(len(aside)))

    agents.limits = TreeLimits(budget=Allowance(usd=5))
    agents.create("low", "low works.", "d", tools=["add"], budget={"usd": 2})
    agents.create("top", "top works.", "d", tools=["add"], toolsets=["dynamic_agents"], budget={"usd": 0.45})
    model = cast(
        boss=[calls(ask("top", "c1")), "over"], top=[calls(ask("low", "c2")), "top over"], low=[looks] * 9
    )
    stage.chat("Go.", limits=Allowance(usd=0.9))
    top, low = agents.get("top"), agents.get("low")
    # the chat and `top` have made one request each: the remaining budget is the smallest limit
    # above
    assert aside[0] == [0.45, 0.35]
    assert low.calls[0].state is CallState.FAILED
    assert "the limit of 0.35 USD is reached: the turn took 0.4000" in low.calls[0].note
    assert (
        len(model.asked["low"]) == 4
    )  # the fourth request exceeds the limit, as a running request is not cut; there is no fifth
    assert top.calls[0].state is CallState.FAILED
    assert "the limit of 0.45 USD is reached: the turn took 0.5000" in top.calls[0].note
    for spent in (top.calls[0].used, agents.meter_of(top).spent, agents.meter.spent):
        assert round(spent["usd"], 9) == 0.5
    assert round(agents.meter_of(low).spent["usd"], 9) == 0.4
    assert nothing_aside(agents)
    with pytest.raises(AgentError, match="the budget of the agent 'top' is used up: 0.5 of 0.45 USD"):
        agents.call("top", "again")


def test_a_money_budget_allows_no_request_after_one_with_an_unknown_price(stage, cast):
    """Otherwise calls that end after one request could cost any amount, without being counted."""
    agents = stage.agents
    agents.create("low", "low works.", "d")
    agents.create("top", "top works.", "d", toolsets=["dynamic_agents"], budget={"usd": 1})
    model = cast(
        boss=[calls(ask("low", "b1")), calls(ask("low", "b2")), "over"],
        top=[calls(ask("low", "c1")), "not asked"], low=["one", "two", "three"],
    )  # fmt: skip
    with pytest.raises(AgentError, match="the price of 'scripted-1' is unknown"):
        agents.call("top", "go")
    assert "low" not in model.asked  # the budget that `top` passes on cannot be enforced, either
    with pytest.raises(
        AgentError,
        match=r"budget of the agent 'top' in USD cannot be enforced.* tract\.models\.price\('scripted-1'",
    ):
        agents.call("top", "again")
    assert agents.call("low", "go") == "one"  # no money limit applies
    response = stage.chat("Go.", limits=Allowance(usd=1))
    assert (response.outcome, len(model.asked["low"])) == ("limit", 1)
    agents.limits = TreeLimits(budget=Allowance(usd=1))
    assert agents.call("low", "go") == "two"
    with pytest.raises(AgentError, match="the budget of all agents together in USD cannot be enforced"):
        agents.call("low", "go")
    priced(stage)
    agents.limits = TreeLimits(budget=Allowance(usd=1))
    assert agents.call("low", "go") == "three"
    assert round(agents.meter.spent["usd"], 9) == 0.1


def test_an_update_without_a_new_budget_does_not_forget_an_unknown_price(stage, cast, person):
    """Otherwise a model could get one more request at an unknown price with each new description."""
    person()
    stage.agents.create("w", "w works.", "d", budget={"usd": 1})
    update = call("agent_update", {"agent": "w", "description": "the same otherwise"}, "u1")
    model = cast(w=["one", "two"], boss=[calls(update), calls(ask("w", "c1")), "over"])
    assert stage.agents.call("w", "go") == "one"
    stage.chat("Go.")
    assert stage.agents.get("w").version == 2
    assert "the price of 'scripted-1' is unknown" in model.told("boss")[1]
    priced(stage)
    stage.agents.update("w", budget={"usd": 2})
    assert stage.agents.call("w", "go") == "two"


def test_resume_grants_the_remaining_budget_and_counts_earlier_usage(stage, cast):
    stage.agents.create("w", "w works.", "d", tools=["add"], budget={"steps": 6})
    cast(
        w=[
            calls(add(1)),
            RuntimeError("broken"),
            calls(add(2)),
            RuntimeError("broken"),
            calls(add(3)),
            "over",
        ]
    )
    with pytest.raises(AgentError, match="broken"):
        stage.agents.call("w", "go")
    w = stage.agents.get("w")
    taken = w.calls[0].used["steps"]
    with pytest.raises(AgentError, match="broken"):
        stage.agents.resume("w")
    assert w.calls[0].used["steps"] > taken
    assert w.calls[0].limits.steps == 6 - taken
    assert stage.agents.resume("w") == "over"
    with pytest.raises(AgentError, match="'w' has no open call"):
        stage.agents.resume("w")
    assert w.calls[0].used["steps"] == stage.agents.meter_of(w).spent["steps"] <= 6


def test_agent_list_shows_the_remaining_budget(stage, cast, w):
    stage.agents.update("w", budget={"steps": 5, "tokens": 1_000})
    cast(w=["over"])
    stage.agents.call("w", "go")
    (told,) = stage.tools.agent_list()
    assert told["left"] == {"steps": 4, "tokens": 988}
    assert json.dumps(told)


@pytest.mark.slow
def test_a_turn_that_is_over_leaves_no_meter(stage, cast, w):
    cast(boss=[calls(ask("w", "c1")), "over"], w=["w over"])
    meters = []
    make = stage.loop.make_meter

    def made(limits, price):
        meter = make(limits, price)
        meters.append(weakref.ref(meter))
        return meter

    stage.loop.make_meter = made
    stage.chat("Go.")
    for thread in threading.enumerate():
        if thread.name.startswith("tract-"):  # the worker thread of the call may still be ending
            thread.join(PATIENCE)
    gc.collect()
    assert [one() for one in meters] == [None]


def test_limits_are_checked(stage):
    for wrong in ({"depth": 0}, {"count": True}, {"budget": 5}, {"agent": {"steps": 5}}):
        with pytest.raises(AgentError):
            TreeLimits(**wrong)
    with pytest.raises(AgentError, match="limits must be a TreeLimits"):
        stage.agents.limits = {"depth": 2}
