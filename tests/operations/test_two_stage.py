"""Operations in two stages: a model writes guidance, the user can change it, and the actions use it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.review.scripted import ScriptedClient, call, reply
from tract_jupyter import Tract
from tract_jupyter.exceptions import LLMConfigError, LLMError, ParameterError, SpecError
from tract_jupyter.models import PendingStatus
from tract_jupyter.notebook import parse_cell
from tract_jupyter.operations import (
    FiringCondition,
    gained,
    spec_diff,
    spec_from_dict,
    spec_reach,
    spec_to_dict,
)

URLS = {"urls": ["https://example.com"]}
SAY = "pending.approve()\nreturn pending.fields['guidance']"


@pytest.fixture
def guided(spec):
    """The example operation in two stages; its action returns the guidance."""

    def make(code=SAY, **changes):
        return spec(code, **{"two_stage": True, **changes})

    return make


@pytest.fixture
def asked(tract):
    """The model that writes guidance. Its requests are in `asked`."""

    def make(*replies):
        client = ScriptedClient(*replies)
        tract.configure_llm(client)
        return client

    return make


# --- the data


def test_two_stage_is_part_of_the_spec_the_hash_and_the_diff(spec, guided):
    plain, two = spec(SAY), guided()
    assert "two_stage" not in spec_to_dict(plain)
    assert spec_from_dict(spec_to_dict(two)) == two
    assert plain.spec_hash == replace(two, two_stage=False).spec_hash != two.spec_hash
    assert "+in two stages: a model writes guidance first" in spec_diff(plain, two)
    found = gained(spec_reach(plain), spec_reach(two))
    assert found["decides"] == {"each firing asks a model for guidance"}


def test_a_spec_without_two_stage_keeps_its_approved_hash(spec):
    kept = "1317bdd7"  # from the version without stages
    assert spec("pending.approve()").spec_hash[:8] == kept


@pytest.mark.parametrize("given", ["yes", 1, 0, None, []])
def test_two_stage_must_be_a_boolean(given):
    with pytest.raises(SpecError, match="two_stage must be true or false"):
        spec_from_dict({"name": "x", "two_stage": given})


def test_a_misspelled_key_is_reported_with_the_nearest_name():
    with pytest.raises(SpecError, match="'two_stages'. Did you mean 'two_stage'?"):
        spec_from_dict({"name": "x", "two_stages": True})


def test_names_of_the_two_stages_are_reserved(tract, guided):
    for name in ("guidance", "guidance_source"):
        with pytest.raises(SpecError, match=f"a two-stage operation has a field '{name}' already"):
            tract.propose_operation(guided(fields={name: {"type": "str"}}))
    action = guided().actions["verify"]
    for name in ("edit_guidance", "regenerate_guidance", "get_guidance"):
        actions = {name: replace(action, name=name)}
        with pytest.raises(SpecError, match=f"'{name}' is reserved"):
            tract.propose_operation(guided(actions=actions))
        tract.propose_operation(guided(actions=actions, two_stage=False))  # free without stages


def test_a_cell_can_set_two_stage():
    text = "urls: list[str]\ntwo_stage = True\n"
    assert parse_cell("x", text, "python").spec.two_stage
    assert not parse_cell("x", "urls: list[str]\n", "python").spec.two_stage
    for wrong, told in (
        ("two_stage = 1\n", "line 1: two_stage is True or False, not 1"),
        (text + "two_stage = True\n", "line 3: duplicate 'two_stage'"),
    ):
        with pytest.raises(SpecError, match=told):
            parse_cell("x", wrong, "python")
    yaml = "name: x\ntwo_stage: true\nactions: {go: {code: pending.approve()}}\n"
    assert parse_cell("x", yaml, "yaml").spec.two_stage


def test_the_request_says_that_the_operation_has_two_stages(tract, guided):
    request = tract.propose_operation(guided()).review_request()
    assert "It is in two stages: a model first writes guidance for each firing" in request.why
    rows = {row.name: row for table in request.tables for row in table.rows}
    assert "a model first writes guidance" in rows["two stages"].value
    assert "guidance" in rows


def test_a_models_two_stage_operation_needs_approval(tract, guided):
    tract.autonomy.ceiling = "autonomous"
    spec = guided()
    action = replace(spec.actions["verify"], isolation="sandbox")
    pending = tract.propose_operation(replace(spec, actions={"verify": action}), actor="agent:7")
    assert pending.status is PendingStatus.PENDING


# --- the two stages


def test_a_model_writes_it_from_the_fields_and_the_context(tract, guided, asked):
    model = asked("keep the dates")
    tract.user("On 3 May we met.")
    tract.register_operation(guided())
    pending = tract.fire("citation_check", URLS, review=True)
    assert pending.fields == {
        **URLS,
        "verified": False,
        "guidance": "keep the dates",
        "guidance_source": "llm",
    }
    assert pending.get_guidance() == "keep the dates"
    ((messages, _),) = model.asked
    assert "carry out the operation 'citation_check'" in messages[0]["content"]
    assert "Verify source URLs survive compression" in messages[0]["content"]
    assert "https://example.com" in messages[1]["content"]
    assert "On 3 May we met." in messages[1]["content"]
    assert "A model wrote its guidance; read it first." in pending.review_request().why


def test_the_action_uses_the_guidance_that_the_user_edited(tract, guided, asked):
    model = asked("one", "two")
    tract.register_operation(guided())
    pending = tract.fire("citation_check", URLS, review=True)
    before = pending.fingerprint
    assert pending.regenerate_guidance("shorter") == "two"
    assert "Instructions: shorter" in model.asked[1][0][1]["content"]
    assert (pending.guidance, pending.guidance_source) == ("two", "llm")
    pending.edit_guidance("three")
    assert (pending.guidance, pending.guidance_source) == ("three", "user+llm")
    assert pending.fingerprint != before
    assert pending.verify() == "three"
    assert pending.status is PendingStatus.APPROVED


def test_a_sandboxed_action_gets_the_guidance(tract, guided, asked):
    asked("in the sandbox")
    spec = guided()
    inside = replace(spec.actions["verify"], isolation="sandbox")
    tract.register_operation(replace(spec, actions={"verify": inside}))
    assert tract.fire("citation_check", URLS, review=True).verify() == "in the sandbox"


def test_given_guidance_asks_no_model(tract, guided, asked):
    model = asked()
    tract.register_operation(guided())
    pending = tract.fire("citation_check", {**URLS, "guidance": "mine"}, review=True)
    assert (pending.guidance, pending.guidance_source, model.asked) == ("mine", "user", [])
    pending.edit_guidance("mine too")
    assert pending.guidance_source == "user"
    fields = {**URLS, "guidance": "its"}
    models = tract.operations.fire("citation_check", fields, review=True, actor="agent:7")
    assert models.guidance_source == "llm"


def test_guidance_source_cannot_be_set_by_callers_or_edits(tract, guided, asked):
    model = asked("one")
    tract.register_operation(guided())
    with pytest.raises(ParameterError, match="guidance_source"):
        tract.fire("citation_check", {**URLS, "guidance": "x", "guidance_source": "user"})
    with pytest.raises(ParameterError, match="urls"):
        tract.fire("citation_check", {})
    assert model.asked == []  # invalid fields cost no request
    pending = tract.fire("citation_check", URLS, review=True)
    assert "guidance_source" not in pending.editable().names
    pending.approve(edits={"guidance": "other", "guidance_source": "user"})
    assert (pending.guidance, pending.guidance_source) == ("other", "user+llm")


def test_without_a_model_nothing_is_fired(tract, guided):
    tract.register_operation(guided())
    fired = []
    tract.on("citation_check", fired.append)
    with pytest.raises(LLMConfigError):
        tract.fire("citation_check", URLS)
    assert (fired, tract.review.inbox()) == ([], [])


def test_a_failed_model_request_keeps_the_guidance(tract, guided, asked):
    asked("one", LLMError("overloaded"), "two")
    tract.register_operation(guided())
    pending = tract.fire("citation_check", URLS, review=True)
    with pytest.raises(LLMError):
        pending.regenerate_guidance()
    assert (pending.guidance, pending.status.is_open) == ("one", True)
    assert pending.regenerate_guidance() == "two"


def test_guidance_of_a_decided_pending_cannot_be_changed(tract, guided, asked):
    model = asked("one")
    tract.register_operation(guided())
    pending = tract.fire("citation_check", URLS, review=True)
    pending.reject("no")
    for change in (lambda: pending.edit_guidance("x"), pending.regenerate_guidance):
        with pytest.raises(Exception, match="already decided"):
            change()
    assert (pending.guidance, len(model.asked)) == ("one", 1)


def test_a_deciding_model_sees_the_guidance_and_is_marked_as_source(tract, guided, asked):
    asked("one")
    tract.register_operation(guided())
    pending = tract.fire("citation_check", {**URLS, "guidance": "mine"}, review=True)
    decider = ScriptedClient(
        reply(None, call("edit_guidance", {"text": "the model's"})), reply(None, call("approve"))
    )
    pending.consult("Decide.", client=decider)
    assert (pending.guidance, pending.guidance_source) == ("the model's", "user+llm")
    assert "mine" in json.dumps(decider.asked[0][0])


def test_an_operation_without_stages_has_no_guidance(tract, spec):
    tract.register_operation(spec())
    pending = tract.fire("citation_check", URLS, review=True)
    assert "guidance" not in pending.fields
    assert not {"edit_guidance", "regenerate_guidance", "get_guidance"} & pending.offered_actions


# --- display, tools, handlers and other processes


def test_two_stage_buttons_have_clear_labels(tract, guided, asked):
    asked("one")
    tract.register_operation(guided())
    request = tract.fire("citation_check", URLS, review=True).review_request()
    assert [(one.name, one.label, one.style) for one in request.actions] == [
        ("verify", "Run verify", "approve"),
        ("edit_guidance", "Change guidance", "neutral"),
        ("regenerate_guidance", "Write guidance again", "neutral"),
        ("approve", "Approve without running", "neutral"),
        ("reject", "Reject", "reject"),
    ]
    assert any(row.name == "guidance" and row.value == "'one'" for t in request.tables for row in t.rows)


def test_guidance_can_be_regenerated_at_the_prompt(tract, guided, asked, capsys):
    asked("one", "two")
    tract.register_operation(guided())
    pending = tract.fire("citation_check", URLS, review=True)
    answers = iter(["regenerate_guidance", "", "verify", ""])
    pending.review(lambda question: next(answers))
    assert "guidance" in capsys.readouterr().out
    assert (pending.status, pending.result) == (PendingStatus.APPROVED, "two")


def test_as_a_tool_it_takes_guidance_and_reaches_outside(tract, guided, asked):
    asked("one")
    tract.register_operation(guided())
    tool = tract.executor.get("fire_citation_check")
    assert tool.traits.open_world
    assert set(tool.parameters.names) == {"urls", "verified", "guidance"}
    fired = tract.tools.fire_citation_check(**URLS)
    assert fired["fields"]["guidance"] == "one"


def test_a_handler_decides_with_it(tract, guided, asked):
    asked("one")
    tract.register_operation(guided())
    tract.on("citation_check", lambda pending: pending.verify())
    assert tract.fire("citation_check", URLS).result == "one"


def test_an_automatic_firing_asks_for_guidance_after_approval(tract, guided, asked):
    model = asked("one")
    tract.register_operation(guided(fires_on=FiringCondition(fields=URLS)))
    tract.user("hello")
    assert model.asked == []  # the firing is only proposed; it costs nothing before approval
    (stored,) = tract.review.inbox()
    pending = tract.operations.rebuild(stored)
    pending.approve()
    assert pending.result["fields"]["guidance"] == "one"
    with pytest.raises(SpecError, match="fires_on: fields: .*guidance_source"):
        tract.propose_operation(guided(fires_on=FiringCondition(fields={**URLS, "guidance_source": "user"})))


def test_another_process_can_continue_with_the_guidance(own_store, guided):
    with Tract.open(url=own_store) as tract:
        tract.configure_llm(ScriptedClient("one"))
        tract.register_operation(guided())
        pending_id = tract.fire("citation_check", URLS, review=True).pending_id
        tract_id = tract.tract_id
    with Tract.open(url=own_store, tract_id=tract_id) as tract:
        tract.configure_llm(ScriptedClient("two"))
        (stored,) = tract.review.inbox()
        pending = tract.operations.rebuild(stored)
        assert (pending.pending_id, pending.guidance, pending.guidance_source) == (pending_id, "one", "llm")
        pending.regenerate_guidance()
        pending.edit_guidance("three")
    with Tract.open(url=own_store, tract_id=tract_id) as tract:
        (stored,) = tract.review.inbox()
        pending = tract.operations.rebuild(stored)
        assert (pending.guidance, pending.guidance_source) == ("three", "user+llm")
        assert pending.verify() == "three"
