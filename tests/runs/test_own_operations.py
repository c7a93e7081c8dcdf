"""Operations that are part of each run: at their hook, through the gate, after the user's approval."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.review.scripted import ScriptedClient
from tract_jupyter import OperationProfile, Tract, run_operation
from tract_jupyter.exceptions import ContentError, RunFailedError, SpecError, UndecidedError
from tract_jupyter.models import PendingStatus
from tract_jupyter.notebook import parse_cell
from tract_jupyter.operations import FiringCondition, spec_from_dict, spec_to_dict

URLS = {"urls": ["{{ lastUserMessage }}"]}
MARK = "pending.fields['verified'] = True\npending.approve()"


@pytest.fixture
def hooked(spec):
    """The example operation at a hook of each run."""

    def make(code=MARK, *, hook="before_main_llm", action="verify", required=False, **changes):
        fires_on = FiringCondition(fields=URLS, hook=hook, action=action, required=required)
        return spec(code, **{"fires_on": fires_on, **changes})

    return make


@pytest.fixture
def talk(tract):
    tract.configure_llm(ScriptedClient("One.", "Two.", "Three."))
    return tract


def ran(response):
    """The operations of a run with their status."""
    return {} if response.run is None else {one.operation_id: one.status for one in response.run.operations}


def test_fires_on_is_part_of_the_operation_spec(hooked):
    one = hooked(required=True)
    assert spec_from_dict(spec_to_dict(one)) == one
    assert spec_to_dict(one)["fires_on"] == {
        "hook": "before_main_llm", "action": "verify", "required": True, "fields": URLS
    }  # fmt: skip
    assert FiringCondition(tokens=5).to_dict() == {"moment": "commit", "tokens": 5}  # as approved


MISTAKES = {
    "near": ({"hook": "before_main_lm"}, "not 'before_main_lm'. Did you mean 'before_main_llm'?"),
    "far": ({"hook": 5}, "hook must be 'before_main_llm' or 'after_main_llm', not 5"),
    "moment": ({"hook": "after_main_llm", "moment": "turn"}, "moment does not apply to a hook"),
    "tokens": ({"hook": "after_main_llm", "tokens": 5}, "tokens does not apply to a hook"),
    "action": ({"action": "verify"}, "action needs a hook of a run"),
    "required": ({"tokens": 5, "required": True}, "required needs a hook of a run"),
    "bool": ({"hook": "after_main_llm", "required": 1}, "required must be true or false"),
}


@pytest.mark.parametrize(("given", "told"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_refused_with_the_nearest_name(given, told):
    with pytest.raises(SpecError) as caught:
        spec_from_dict({"name": "x", "fires_on": given})
    assert told in str(caught.value)


def test_the_action_must_be_there_and_take_no_values(tract, hooked):
    with pytest.raises(SpecError, match="no action 'verfy'. Did you mean 'verify'?"):
        tract.propose_operation(hooked(action="verfy"))
    taking = hooked()
    verify = replace(taking.actions["verify"], required=["strict"])
    with pytest.raises(SpecError, match="has required parameters"):
        tract.propose_operation(replace(taking, actions={"verify": verify}))


def test_the_request_shows_when_the_operation_fires(tract, hooked):
    request = tract.propose_operation(hooked(required=True)).review_request()
    said = "before the model's call of each run, with the action 'verify'; the run fails without approval; with urls="
    assert f"It fires by itself: {said}" in request.why
    (row,) = [row for table in request.tables for row in table.rows if row.name == "fires by itself"]
    assert said in row.value


@pytest.mark.parametrize("hook", ["before_main_llm", "after_main_llm"])
def test_an_active_operation_runs_at_its_hook(talk, hooked, hook):
    talk.register_operation(hooked(hook=hook))
    response = talk.chat("hello")
    (one,) = response.run.operations
    assert (one.operation_id, one.hook, one.status) == ("own:citation_check", hook, "done")
    (decided,) = talk.review.ledger.decisions(one.outputs_summary["pendingId"])
    assert (decided.action, decided.channel) == ("verify", "automatic")  # through the gate
    assert list(talk.policies.list()) == []  # it is not a policy


def test_the_operation_runs_together_with_those_of_the_active_profile(talk, hooked):
    talk.register_operation(hooked())
    profile = OperationProfile.of("guide", [run_operation("style", order=1, text="Short.", into="system")])
    talk.profiles.save(profile, activate=True)
    response = talk.chat("hello")
    assert ran(response) == {"style": "done", "own:citation_check": "done"}
    assert response.run.profile == "guide"
    assert talk.runs.replay(response.run.run_id).root_hash == response.run.root_hash


def test_a_proposed_rejected_or_revoked_operation_does_not_run(talk, hooked):
    pending = talk.propose_operation(hooked())
    assert talk.chat("one").run is None
    pending.reject("no")
    assert talk.chat("two").run is None
    talk.register_operation(hooked())
    talk.operations.revoke("citation_check")
    assert talk.chat("three").run is None


def test_an_operation_proposed_by_a_model_is_reviewed_at_every_ceiling(tract, hooked):
    tract.autonomy.ceiling = "autonomous"
    spec = hooked()
    inside = replace(spec.actions["verify"], isolation="sandbox")
    pending = tract.propose_operation(replace(spec, actions={"verify": inside}), actor="agent:7")
    assert pending.status is PendingStatus.PENDING


def test_a_rejected_required_operation_prevents_the_request(talk, hooked):
    client = ScriptedClient("One.")
    talk.configure_llm(client)
    talk.register_operation(hooked("pending.reject('no source')", required=True))
    with pytest.raises(RunFailedError):
        talk.chat("hello")
    assert client.asked == []


def test_a_handler_decides_first_and_the_user_decides_if_unhandled_is_ask(talk, hooked):
    talk.register_operation(hooked(unhandled="ask"))
    with pytest.raises(UndecidedError):
        talk.chat("hello")
    (stored,) = talk.review.inbox()
    talk.on("citation_check", lambda pending: pending.reject("no"))
    talk.operations.rebuild(stored).approve()
    assert ran(talk.generate())["own:citation_check"] == "done"
    assert ran(talk.chat("again"))["own:citation_check"] == "skipped"  # as decided by the handler


def test_an_action_that_raises_or_leaves_it_open(talk, hooked):
    talk.register_operation(hooked("raise KeyError('x')"))
    assert ran(talk.chat("hello")) == {"own:citation_check": "error"}
    talk.register_operation(hooked("pending.fields['verified'] = True"), replace=True)
    with pytest.raises(UndecidedError):
        talk.chat("again")
    assert len(talk.review.inbox()) == 1


def test_a_cell_can_declare_the_hook_and_a_policy_refuses_it(tract):
    text = "fires_on = {'hook': 'after_main_llm'}\n"
    assert parse_cell("x", text, "python").spec.fires_on == FiringCondition(hook="after_main_llm")
    with pytest.raises(ContentError, match="omit the hook"):
        tract.policies.add("operation", name="mine", operation="x", condition={"hook": "after_main_llm"})


def test_the_operation_is_active_in_another_process(own_store, hooked):
    with Tract.open(url=own_store) as tract:
        tract.register_operation(hooked())
        tract_id = tract.tract_id
    with Tract.open(url=own_store, tract_id=tract_id) as tract:
        tract.configure_llm(ScriptedClient("One."))
        assert ran(tract.chat("hello")) == {"own:citation_check": "done"}
