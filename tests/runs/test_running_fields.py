"""Every field of a profile has an effect, or is refused when it is saved."""

from __future__ import annotations

import pytest

from tests.review.scripted import ScriptedClient
from tests.runs.running import compute, effects, errors, upsert
from tract_jupyter.exceptions import ContentError, ProfileError
from tract_jupyter.runs import Limits, RunOptions
from tract_jupyter.runs.profile import OperationProfile, run_operation

INLINE = {"type": "ui_inline", "role": "assistant", "anchor": "depth_from_end", "depthFromEnd": 2}
KEY = "sk-abcdefghijklmnop1234"


@pytest.fixture
def asked(tract):
    tract.configure_llm(ScriptedClient(*["On the mat."] * 9))
    tract.user("Where is it?")
    tract.functions.register("same")(lambda _, given: given["x"])
    tract.models.add("aux", ScriptedClient("A summary."))
    return tract


def refused(**fields):
    with pytest.raises(ProfileError) as caught:
        run_operation("o", order=1, text="x", **fields)
    return [(rule, text) for rule, _, text in caught.value.problems]


# --- debug


def test_debug_data_is_recorded_only_if_debug_is_enabled(asked):
    """R28, R35: the rendered inputs of each operation; limited, with key-like texts masked."""

    def profile(**more):
        asked.models.add("aux", ScriptedClient("A summary."), replace=True)
        given = {"x": "{{ lastUserMessage }}"}
        return OperationProfile.of("p", [
            run_operation("text", order=1, text="{{ lastUserMessage }}!", tag="a", **more),
            run_operation("model", "llm", order=2, text="{{ lastUserMessage }} {{ key }}", provider_ref="aux", tag="b", **more),
            run_operation("code", "compute", order=3, function="same", arguments=given, tag="c", **more),
            run_operation("cut", "transform", order=4, input=given["x"], steps=[{"type": "upper"}], tag="d", **more),
            run_operation("find", "rag", order=5, query=given["x"], tag="e", **more),
        ])  # fmt: skip

    options = RunOptions(variables={"key": KEY})
    silent = asked.generate(profile=profile(), run=options).run
    telling = asked.generate(profile=profile(debug={"enabled": True}), run=options).run
    assert [one.debug for one in silent.operations] == [{}] * 5
    events = [
        one.data.to_dict() for one in asked.runs.events(silent.run_id) if one.type == "operation.finished"
    ]
    assert not any("debug" in one["result"] for one in events)
    assert {one.operation_id: one.debug for one in telling.operations} == {
        "text": {"rendered": "Where is it?!"},
        "model": {"asked": {"user": "Where is it? [masked]"}},
        "code": {"arguments": '{"x": "Where is it?"}'},
        "cut": {"input": "Where is it?"},
        "find": {"query": "Where is it?"},
    }
    assert asked.runs.get(telling.run_id).operations[0].debug
    assert asked.runs.replay(telling.run_id).root_hash == telling.root_hash


@pytest.mark.parametrize(("limits", "text", "log"), [
    (Limits(), 1_024, True), (Limits(snapshot_characters=5), 5, True), (Limits(snapshot_characters=0), 0, True),
    (Limits(log_characters=40), None, False),
])  # fmt: skip
def test_logs_and_quotations_have_limits(asked, limits, text, log):
    """R33: the limits of the run, given to operations as their policy."""
    asked.models.add("aux", ScriptedClient("y" * 5_000), replace=True)
    seen = []
    asked.functions.register("look")(lambda context, _: seen.append(context))
    profile = OperationProfile.of("p", [
        run_operation("o", "llm", order=1, text="x" * 5_000, provider_ref="aux", tag="t", debug={"enabled": True}), compute("look"),
    ])  # fmt: skip
    first = asked.generate(profile=profile, run=RunOptions(limits=limits)).run.operations[0]
    if log:
        assert (len(first.outputs_summary["text"]), len(first.debug["asked"]["user"])) == (text, text)
    else:
        assert (list(first.outputs_summary), list(first.debug)) == (["omitted"], ["omitted"])
    assert (seen[0].log_characters, seen[0].snapshot_characters) == (
        limits.log_characters,
        limits.snapshot_characters,
    )


@pytest.mark.parametrize(
    "given", [{"log_characters": -1}, {"snapshot_characters": 1.5}, {"log_characters": True}]
)
def test_limits_are_whole_numbers(given):
    with pytest.raises(ContentError, match="must be a whole number of 0 or more"):
        Limits(**given)


# --- notes


def test_notes_are_shown_beside_the_run_and_never_sent(asked):
    """X05, R52: an inline exposure, and an artifact for the user."""
    profile = OperationProfile.of("p", [
        run_operation("a", order=1, text="A thought.", into=INLINE, title="Thought"),
        run_operation("b", order=2, text="Seen.", tag="b", usage="ui_only", when="after"),
        run_operation("c", order=3, text="Both.", tag="c", usage="prompt+ui", into="system"),
        run_operation("d", order=4, text="Inner.", tag="d"),
        run_operation("e", order=5, text="{{ nothing.x }}", strict_variables=True, tag="e", usage="ui_only"),
    ])  # fmt: skip
    run = asked.generate(profile=profile).run
    told = [(one.operation_id, one.hook.value, one.title, one.text) for one in run.notes]
    assert told == [
        ("a", "before_main_llm", "Thought", "A thought."), ("c", "before_main_llm", "c", "Both."),
        ("b", "after_main_llm", "b", "Seen."),
    ]  # fmt: skip
    assert (run.notes[0].role, run.notes[0].anchor, run.notes[0].depth_from_end) == (
        "assistant",
        "depth_from_end",
        2,
    )
    assert "thought" not in str(asked.llm.asked)
    assert asked.runs.get(run.run_id).notes == run.notes


# --- refused fields


@pytest.mark.parametrize(("fields", "rule", "told"), [
    ({"tag": "t", "write_mode": "append"}, "write_mode_append", "history has all values. Leave writeMode out"),
    ({"artifact": {"tag": "t", "retention": {"ttl": 5}}}, "unknown_field", "history={'maxItems': 5} to limit the stored values; there is no limit by time"),
    ({"artifact": {"tag": "t", "contentType": "text/plain"}}, "unknown_field", "Use format: text"),
    ({"into": "system", "usage": "ui_only"}, "usage_exposure", "goes to the prompt, and usage is ui_only"),
    ({"into": INLINE, "usage": "prompt_only"}, "usage_exposure", "goes to readers of the run"),
    ({"into": "user", "usage": "internal"}, "usage_exposure", "leave one of them out"),
    ({"into": {"type": "turn_rewrite", "target": "assistant_meta"}}, "exposure_invalid", "assistant_output_main"),
    ({"capabilities": ["turn.assistant_blocks.update"]}, "unknown_effect", "A reply has no blocks here"),
    ({"capabilities": ["turn.user_variant.upsert_and_select"]}, "unknown_effect", "turn.user.replace_text, which selects a new variant"),
    ({"capabilities": ["artifact.upsrt"]}, "unknown_effect", "Did you mean 'artifact.upsert'"),
    ({"capabilities": ["prompt"], "tag": "t"}, "capability_missing", "its artifact makes artifact.upsert"),
    ({"capabilities": ["artifact"], "into": "system"}, "capability_missing", "makes prompt.system_update"),
])  # fmt: skip
def test_a_field_without_effect_is_refused(fields, rule, told):
    """The error explains which fields have an effect."""
    found = refused(**fields)
    assert [one for one, _ in found] == [rule]
    assert told in found[0][1]


@pytest.mark.parametrize("effect", [
    {"type": "turn.assistant_variant.patch", "patch": {}}, {"type": "turn.assistant_blocks.update", "blocks": []},
    {"type": "turn.user_variant.upsert_and_select", "text": "x"}, {"type": "prompt.insert_after_last_user"},
])  # fmt: skip
def test_an_unsupported_effect_type_is_an_error(asked, effect):
    """R49, G24: also if a function returns it."""
    asked.functions.register("give")(effects(effect))
    run = asked.generate(profile=OperationProfile.of("p", [compute("give")])).run
    assert errors(run) == {"give": "validation_error"}
    assert "Unknown effect type" in run.operations[0].error_message
    assert "use one of" not in run.operations[0].error_message


@pytest.mark.parametrize(("capabilities", "error"), [
    ([], None), (["net", "for people"], None), (["artifact", "prompt.system_update"], None), (["artifact", "prompt"], None),
    (["artifact"], "policy_error"), (["prompt"], "policy_error"),
])  # fmt: skip
def test_an_operation_has_no_other_effects_than_it_declares(asked, capabilities, error):
    """R16, R33: for any result of its function."""
    update = {"type": "prompt.system_update", "mode": "append", "payload": "x"}
    asked.functions.register("act")(effects(update, upsert("t")))
    fields = {"tag": "t"} if "prompt" not in capabilities or "artifact" in capabilities else {}
    run = asked.generate(
        profile=OperationProfile.of("p", [compute("act", capabilities=capabilities, **fields)])
    ).run
    assert errors(run) == {"act": error}


def test_a_function_cannot_append_either(asked):
    """Effects refused in a profile are refused from a function, too."""
    asked.functions.register("act")(effects({**upsert("t"), "writeMode": "append"}))
    run = asked.generate(profile=OperationProfile.of("p", [compute("act", tag="t")])).run
    assert errors(run) == {"act": "validation_error"}
