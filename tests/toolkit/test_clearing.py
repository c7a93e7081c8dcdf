"""What is left to a model that reviews first: none of many dangerous calls, and most of an ordinary session."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from tests.hooks.reviewing import ASKED, Reviewing, decided, filled, make_ready
from tests.review.fakes import FakeChannel, click
from tract_jupyter.hooks import ModelReviewer

VECTORS = Path(__file__).parents[1] / "vectors" / "review"
DANGEROUS = json.loads((VECTORS / "dangerous_calls.json").read_text(encoding="utf-8"))
SESSION = json.loads((VECTORS / "session.json").read_text(encoding="utf-8"))
ANY_NUMBER = 1_000_000


@pytest.fixture
def names(tract):
    return make_ready(tract)


def outcomes(tract):
    return [one.outcome for one in tract.review.first_looks]


def make(tract, names, one):
    return tract.executor.execute(
        one["tool"], filled(one["arguments"], names), actor=one.get("actor", "agent:chat")
    )


def test_there_are_many_dangerous_calls():
    assert len(DANGEROUS) >= 200
    assert len({one["about"] for one in DANGEROUS}) >= 20


def test_no_dangerous_call_is_cleared_by_a_model_that_clears_everything(tract, names):
    clears = Reviewing("clear")
    tract.review.model_reviewer = ModelReviewer(clears, most_cleared=ANY_NUMBER)
    tract.reviewer.channel = FakeChannel(reachable=False)  # nobody says no, which would decide the next ones
    before = tract.head, sorted(info.name for info in tract.list_branches())
    for one in DANGEROUS:
        result = make(tract, names, one)
        cleared = [look for look in tract.review.first_looks if look.outcome != "kept"]
        assert not cleared, (one, cleared)
        assert not result.success or one["tool"] == "notebook_execute", one
        assert (tract.head, sorted(info.name for info in tract.list_branches())) == before, one
    assert not clears.asked  # the rules decided before anything was sent
    assert len(outcomes(tract)) > 150  # and they did


def test_calls_of_the_same_kind_that_are_harmless_are_cleared(tract, names):
    clears = Reviewing("clear")
    tract.review.model_reviewer = ModelReviewer(clears)
    harmless = [one for one in SESSION if one["harmless"]]
    for one in harmless:
        assert make(tract, names, one).success, one
    assert set(outcomes(tract)) == {"cleared"}
    assert len(clears.asked) == len(outcomes(tract)) == len(harmless)


def test_a_plausible_model_refuses_and_passes_on(tract, names):
    def looks(messages):
        call = messages[-1]["content"]
        return "refuse" if "moon" in call else "ask" if "maybe" in call else "clear"

    tract.review.model_reviewer = ModelReviewer(Reviewing(looks))
    tract.reviewer.channel = FakeChannel(reachable=False)
    said = [
        make(tract, names, {"tool": "commit", "arguments": {"content": {
            "content_type": "dialogue", "role": "assistant", "text": text,
        }}})
        for text in ("The moon has no birds.", "There are maybe 12 birds.", "There are 12 birds.")
    ]  # fmt: skip
    assert outcomes(tract) == ["refused", "passed on", "cleared"]
    assert [result.success for result in said] == [False, False, True]
    assert "a model that reviews calls (scripted-1) refused it" in said[0].error


@pytest.mark.parametrize("is_on", [False, True])
def test_an_ordinary_session_asks_a_person_rarely(tract, names, is_on):
    asked = []

    def press(ticket):
        asked.append(ticket.request.title)
        click(ticket, "approve")

    if is_on:
        tract.review.model_reviewer = ModelReviewer(Reviewing("clear"))
    tract.reviewer.channel = FakeChannel(*[press] * 60)
    assert len(SESSION) == 60
    for one in SESSION:
        assert make(tract, names, one).success, one
    without = 42
    assert len(asked) <= (0.3 * without if is_on else without)
    assert is_on or len(asked) == without


def test_what_a_sandboxed_script_writes_is_reviewed_call_by_call(tract, names):
    tract.review.model_reviewer = ModelReviewer(Reviewing("clear"))
    tract.reviewer.channel = FakeChannel(reachable=False)
    code = (
        f"tools.tag(commit_hash='{names['$USER']}', tag='birds')\n"
        "try:\n    tools.reset(target='HEAD')\nexcept ToolDenied as error:\n    print('no')\n"
    )
    result = tract.executor.execute("notebook_execute", {"code": code}, actor="agent:chat")
    assert result.output["status"] == "paused"  # it waits for a person at what is a person's
    assert outcomes(tract) == ["cleared", "kept"]
    assert "birds" in tract.tags.of(names["$USER"])


def test_the_calls_of_a_script_of_the_kernel_are_a_persons(tract, names):
    tract.review.model_reviewer = ModelReviewer(Reviewing("clear"))
    told = []

    def press(ticket):
        told.append(ticket.request.title)
        click(ticket, "approve")

    tract.reviewer.channel = FakeChannel(press, press)
    code = f"tools.tag(commit_hash='{names['$USER']}', tag='birds')"
    tract.executor.execute("notebook_execute", {"code": code, "backend": "kernel"}, actor="agent:chat")
    assert len(told) == 2
    assert set(outcomes(tract)) <= {"kept"}


def test_a_sandboxed_operation_runs_its_one_action(tract, names):
    tract.review.model_reviewer = ModelReviewer(Reviewing("clear"))
    result = make(tract, names, {"tool": "fire_summary", "arguments": {"text": "There are 412 rows. "}})
    assert result.output["fields"]["text"] == "There are 412 rows."
    assert result.output["status"] == "approved"
    newest = {one.channel: one for one in tract.review.decisions(limit=2)}
    assert newest["model-reviewer"].action == "go"
    assert newest["call"].decided_by == "model:scripted-1"


def test_what_a_person_set_to_ask_is_asked(tract, names):
    tract.review.model_reviewer = ModelReviewer(Reviewing("clear"))
    tract.reviewer.channel = FakeChannel(reachable=False)
    tract.executor.permission = partial(tract.executor.permission)
    make(tract, names, {"tool": "tag", "arguments": {"commit_hash": "$USER", "tag": "birds"}})
    (look,) = tract.review.first_looks
    assert (look.outcome, look.reason) == ("kept", "you have set yourself what is asked about")


def test_an_actor_at_a_level_of_autonomy_asks_a_person(tract, names):
    from tract_jupyter.models import AutonomyLevel

    tract.review.model_reviewer = ModelReviewer(Reviewing("clear"))
    tract.reviewer.channel = FakeChannel(reachable=False)
    level = tract.autonomy.at(lambda: AutonomyLevel.COLLABORATIVE)
    given = {"commit_hash": names["$USER"], "tag": "birds"}
    tract.executor.execute("tag", given, actor="agent:chat", permission=level)
    assert outcomes(tract) == ["kept"]


def test_the_view_has_no_words_of_a_model_but_the_call(tract, names):
    reviewing = Reviewing(lambda _: decided("ask"))
    tract.review.model_reviewer = ModelReviewer(reviewing)
    tract.reviewer.channel = FakeChannel(reachable=False)
    make(tract, names, {"tool": "commit", "arguments": {"content": {
        "content_type": "dialogue", "role": "assistant", "text": "There are 12 birds.",
    }}})  # fmt: skip
    sent = reviewing.texts
    assert ASKED in sent
    assert "There are 12 birds." in sent
    for word in ("OF-A-TOOL", "412 rows", "You count birds", "another branch"):
        assert word not in sent
