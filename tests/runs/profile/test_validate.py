"""Validation of profiles and blocks when they are saved, and their normal form."""

from __future__ import annotations

import pytest

from tract_jupyter.exceptions import ProfileError
from tract_jupyter.runs import ExecutionMode, Format, Hook, Operation, RunTrigger
from tract_jupyter.runs.profile import OperationBlock, OperationProfile, read_block, read_profile

BEFORE, AFTER = "before_main_llm", "after_main_llm"


def op(name="a", kind="template", order=1, **config):
    params = {"template": {"template": "x"}, "llm": {"prompt": "p"}}.get(kind, {})
    return {"operationId": name, "kind": kind, "config": {"order": order, "params": params, **config}}


def guard(name="g", keys=("yes",), **config):
    params = {"outputContract": [{"key": key} for key in keys], "template": "{}"}
    return op(name, "guard", **{"params": params, **config})


def asks(source="g", output="yes", is_=True):
    return {"source": source, "output": output, "is": is_}


def saved(*operations):
    return {one.id: one for one in OperationBlock.of("b", operations).operations}


def rules(*operations):
    with pytest.raises(ProfileError) as caught:
        OperationBlock.of("b", operations)
    return [rule for rule, _, _ in caught.value.problems]


def test_definition_and_configuration_of_an_operation_are_kept():
    """R16, R18, R19, R27, R28, E19: definition, switches and parameters are saved unchanged."""
    given = op(
        "a", description="d", required=True, enabled=False, debug={"enabled": True}, triggers=["generate"]
    )
    given |= {
        "name": "An operation",
        "capabilities": ["net"],
        "description": given["config"].pop("description"),
    }
    one = saved(given)["a"]
    about = one.definition
    assert (about.name, about.kind, about.description, about.capabilities) == (
        "An operation",
        "template",
        "d",
        ("net",),
    )
    assert one.config.required
    assert not one.config.enabled
    assert one.config.debug.enabled
    assert one.config.params == {"template": "x"}
    assert one.config.triggers == (RunTrigger.GENERATE,)


def test_an_unknown_kind_is_saved():
    """R16, R17: a profile accepts any `kind`. Only a run knows the supported kinds."""
    assert saved(op(kind="legacy"))["a"].definition.kind == "legacy"


def test_one_hook_is_usual_and_both_triggers():
    """R22, R23: the defaults are the hook before the main call, and both triggers."""
    config = saved(op())["a"].config
    assert config.hooks == (Hook.BEFORE,)
    assert config.triggers == (RunTrigger.GENERATE, RunTrigger.REGENERATE)


def test_lists_are_brought_into_order():
    """R22, R23, R25: hooks and triggers in canonical order, without duplicates; dependencies
    without duplicates."""
    one = saved(
        op("x"),
        op("a", hooks=[BEFORE], triggers=["regenerate", "generate", "generate"], dependsOn=["x", "x"]),
    )
    assert one["a"].config.triggers == (RunTrigger.GENERATE, RunTrigger.REGENERATE)
    assert one["a"].config.depends_on == ("x",)
    both = saved(op("a", hooks=[AFTER, BEFORE, AFTER]))["a"]
    assert both.config.hooks == (Hook.BEFORE, Hook.AFTER)


@pytest.mark.parametrize("order", [None, "1", True, float("nan"), float("inf"), 10**400, [1]])
def test_order_is_a_finite_number(order):
    """R24, G6: it is required, and a number."""
    assert rules(op(order=order)) == ["order_invalid"]


def test_order_may_not_be_left_out():
    """R24: it is mandatory."""
    given = op()
    del given["config"]["order"]
    assert rules(given) == ["order_invalid"]


@pytest.mark.parametrize(("change", "rule"), [
    ({"hooks": []}, "hooks_empty"), ({"hooks": ["main"]}, "hooks_invalid"), ({"hooks": BEFORE}, "hooks_invalid"),
    ({"triggers": []}, "triggers_empty"), ({"triggers": ["swipe"]}, "triggers_invalid"),
    ({"enabled": "yes"}, "value_invalid"), ({"required": 1}, "value_invalid"), ({"params": []}, "params_invalid"),
    ({"params": {"template": "x", "n": 1}}, "unknown_field"), ({"colour": 1}, "unknown_field"),
    ({"dependsOn": [""]}, "dependency_invalid"), ({"dependsOn": "a"}, "dependency_invalid"),
    ({"timeoutMs": 0}, "timeout_range"), ({"retry": {"maxAttempts": 11}}, "attempts_range"),
    ({"retry": {"backoffMs": 120_001}}, "backoff_range"), ({"retry": {"jitter": 2}}, "retry_range"),
    ({"artifact": {"tag": "Big"}}, "tag_invalid"), ({"artifact": {"tag": "1a"}}, "tag_invalid"),
    ({"artifact": {"tag": ""}}, "tag_invalid"), ({"artifact": {"history": {"maxItems": 0}}}, "history_range"),
    ({"artifact": {"exposures": [{"type": "shout"}]}}, "exposure_invalid"),
    ({"artifact": {"exposures": [{"type": "prompt_message", "role": "tool"}]}}, "exposure_invalid"),
    ({"artifact": {"format": "xml"}}, "artifact_invalid"), ({"artifact": "a"}, "artifact_invalid"),
    ({"activation": {}}, "activation_empty"), ({"activation": {"everyNTurns": 0}}, "activation_range"),
    ({"activation": {"everyNContextTokens": 0.5}}, "activation_range"),
])  # fmt: skip
def test_a_wrong_field_breaks_its_rule(change, rule):
    """R16, R22, R23, R52, E16, X01, X04: each field has a stable rule that programs can use."""
    assert rules(op(**change)) == [rule]


@pytest.mark.parametrize(("given", "rule"), [
    ({"operationId": " "}, "operation_id"), ({"name": "  "}, "name"), ({"kind": ""}, "kind"), ({"kind": None}, "kind"),
])  # fmt: skip
def test_ids_names_and_kinds_are_more_than_blanks(given, rule):
    """R16: all three are required."""
    assert rule in rules({**op(), **given})


@pytest.mark.parametrize(("params", "rule"), [
    ({"prompt": ""}, "prompt_required"), ({}, "prompt_required"), ({"prompt": 1}, "prompt_required"),
    ({"prompt": "p", "timeoutMs": 0}, "timeout_range"), ({"prompt": "p", "retry": {"maxAttempts": 0}}, "retry_range"),
    ({"prompt": "p", "retry": {"backoffMs": -1}}, "backoff_range"), ({"prompt": "p", "temprature": 1}, "unknown_field"),
    ({"prompt": "p", "stop": ["s"] * 11}, "stop_limit"),
    ({"prompt": "p", "outputMode": "json", "jsonParseMode": "custom_regex", "jsonCustomPattern": " "},
     "regex_pattern_required"),
    ({"prompt": "p", "jsonSchema": {"a": "string"}}, "schema_needs_json"),
    ({"prompt": "p", "outputMode": "json", "jsonCustomPattern": "x"}, "pattern_needs_regex"),
    ({"prompt": "p", "outputMode": "json", "jsonParseMode": "raw", "jsonCustomPattern": "x"}, "pattern_needs_regex"),
])  # fmt: skip
def test_parameters_of_a_model_call_are_checked(params, rule):
    """R27, E20, E25, X08: the kind knows its parameters."""
    assert rules(op(kind="llm", params=params)) == [rule]


@pytest.mark.parametrize(("params", "rule"), [
    ({"outputContract": []}, "guard_outputs_required"), ({"engine": "none"}, "guard_engine"),
    ({"template": None}, "template_required"), ({"engine": "aux_llm"}, "prompt_required"),
    ({"outputContract": [{"key": "1a"}]}, "guard_output_key"), ({"runOnError": "maybe"}, "params"),
])  # fmt: skip
def test_parameters_of_a_guard_are_checked(params, rule):
    """E22: it declares its keys, and has the parameters of its engine."""
    whole = {"outputContract": [{"key": "yes"}], "template": "{}", **params}
    assert rule in rules(guard(params=whole))


def test_a_guard_writes_json_and_nothing_else():
    """E22: its artifact is JSON by default, and cannot have another format."""
    artifact = saved(guard())["g"].config.artifact
    assert (artifact.tag, artifact.format, artifact.exposures) == ("g", Format.JSON, ())
    assert saved(guard(artifact={"tag": "t"}))["g"].config.artifact.format is Format.JSON
    assert rules(guard(artifact={"tag": "t", "format": "markdown"})) == ["guard_artifact_format"]


def test_parameters_hold_no_keys_of_providers():
    """R27: a secret is refused, and not repeated in the message."""
    key = "sk-" + "a1B2" * 10
    with pytest.raises(ProfileError, match="credentialRef") as caught:
        OperationBlock.of("b", [op("a", "mine", params={"headers": [{"auth": f"Bearer {key}"}]})])
    assert [rule for rule, _, _ in caught.value.problems] == ["secret_in_params"]
    assert key not in str(caught.value)


def test_parameters_are_json():
    """R27: values without a JSON form are refused."""
    assert rules(op("a", "mine", params={"n": float("inf")})) == ["params_json"]
    assert rules(op("a", "mine", params={"n": object()})) == ["not_json"]


def test_the_tag_comes_from_the_name():
    """X04: the default tag is made from the name, or from the id if the name has no Latin letters."""
    names = {"Saved op": "saved_op", "Über-Größe!": "uber_grosse", "3 things": "a_3_things", "日本": "a"}
    for name, tag in names.items():
        given = {**op("a", artifact={}), "name": name}
        assert saved(given)["a"].config.artifact.tag == tag
    with_no_letters = saved({**op("日", artifact={}), "name": "本"})["日"]
    assert with_no_letters.config.artifact.tag.startswith("a_")
    assert len(saved({**op("a", artifact={}), "name": "long " * 30})["a"].config.artifact.tag) == 64


def test_developer_is_saved_as_system():
    """R45, G19: every provider knows `system`."""
    exposure = {"type": "prompt_message", "role": "developer"}
    assert saved(op(artifact={"exposures": [exposure]}))["a"].config.artifact.exposures[0].role == "system"


def test_ids_and_tags_are_unique():
    """E16, E19, R51, G6: one writer for each tag, one operation for each id; disabled ones count."""
    assert rules(op(), op(order=2)) == ["duplicate_id"]
    assert rules(op("a", artifact={"tag": "t"}), op("b", artifact={"tag": "t"}, enabled=False)) == [
        "duplicate_tag"
    ]


def test_dependencies_are_others_of_the_same_block():
    """R25, R26, E17, G6: no unknown operation, and not the operation itself."""
    assert rules(op(dependsOn=["b"])) == ["unknown_dependency"]
    assert rules(op(dependsOn=["a"])) == ["self_dependency"]
    with pytest.raises(ProfileError, match="Did you mean 'summary'"):
        OperationBlock.of("b", [op("summary"), op("a", dependsOn=["sumary"])])


def test_cycles_are_refused_even_among_disabled_operations():
    """E17, G6, G7: with the path of the cycle; operations that only lead to the cycle are not named."""
    ring = [op("c", dependsOn=["a"], enabled=False), op("a", dependsOn=["b"], enabled=False)]
    ring += [op("b", dependsOn=["c"], enabled=False), op("d", dependsOn=["a"])]
    with pytest.raises(ProfileError, match="a -> b -> c -> a; remove") as caught:
        OperationBlock.of("b", ring)
    assert [(rule, where) for rule, where, _ in caught.value.problems] == [
        ("cycle", "block 'b', operation 'a', dependsOn")
    ]


@pytest.mark.parametrize(("own", "other", "allowed"), [
    ([BEFORE], [BEFORE], True), ([AFTER], [AFTER], True), ([BEFORE], [BEFORE, AFTER], True), ([AFTER], [BEFORE, AFTER], True),
    ([BEFORE, AFTER], [BEFORE, AFTER], True), ([AFTER], [BEFORE], False), ([BEFORE], [AFTER], False),
    ([BEFORE, AFTER], [BEFORE], False), ([BEFORE, AFTER], [AFTER], False),
])  # fmt: skip
def test_dependencies_run_at_each_of_its_hooks(own, other, allowed):
    """E18: there are no dependencies between hooks."""
    these = op("a", hooks=other), op("b", hooks=own, dependsOn=["a"])
    if allowed:
        assert saved(*these)
    else:
        assert rules(*these) == ["cross_hook_dependency"]


def test_conditions_ask_a_guard_that_is_a_dependency():
    """E23, R40: the source exists, is a guard and a dependency, and declares the key."""
    assert saved(guard(), op(dependsOn=["g"], runConditions=[asks(is_=False)]))
    assert rules(op(runConditions=[asks()])) == ["condition_unknown_source"]
    assert rules(op("x"), op(dependsOn=["x"], runConditions=[asks("x")])) == ["condition_source_not_guard"]
    assert rules(guard(), op(runConditions=[asks()])) == ["condition_source_not_dependency"]
    assert rules(guard(), op(dependsOn=["g"], runConditions=[asks(output="no")])) == ["unknown_guard_output"]
    assert rules(guard(), op(dependsOn=["g"], runConditions=[asks(output="")])) == ["unknown_guard_output"]
    assert rules(guard(), op(dependsOn=["g"], runConditions=[asks(is_="true")])) == ["condition_invalid"]


def test_conditions_are_also_read_in_their_documented_long_form():
    """E23: `{type, sourceOpId, outputKey, operator}` means the same."""
    written = {"type": "guard_output", "sourceOpId": "g", "outputKey": "yes", "operator": "is_false"}
    one = saved(guard(), op(dependsOn=["g"], runConditions=[written]))["a"]
    assert one.config.run_conditions[0].to_dict() == {"source": "g", "output": "yes", "is": False}
    assert rules(guard(), op(dependsOn=["g"], runConditions=[{**written, "operator": ""}])) == [
        "condition_invalid"
    ]


@pytest.mark.parametrize(("exposure", "hooks", "allowed"), [
    ({"type": "prompt_part"}, [BEFORE], True), ({"type": "prompt_part"}, [AFTER], False),
    ({"type": "prompt_message"}, [AFTER], False), ({"type": "prompt_message"}, [BEFORE, AFTER], True),
    ({"type": "turn_rewrite", "target": "current_user_main"}, [AFTER], True),
    ({"type": "turn_rewrite", "target": "assistant_output_main"}, [AFTER], True),
    ({"type": "turn_rewrite", "target": "assistant_output_main"}, [BEFORE], False),
    ({"type": "ui_inline"}, [AFTER], True), ({"type": "ui_inline"}, [BEFORE], True),
])  # fmt: skip
def test_exposures_fit_the_hooks(exposure, hooks, allowed):
    """R41, R48, E4: no prompt exposure after the main call, no reply exposure before it."""
    one = op(hooks=hooks, artifact={"exposures": [exposure]})
    if allowed:
        assert saved(one)
    else:
        assert rules(one) == ["exposure_hook"]


def test_all_problems_are_reported_at_once():
    """R54: each problem with its rule, place and remedy, without texts of pydantic."""
    with pytest.raises(ProfileError) as caught:
        OperationProfile.of(
            "p", [op("a", order="1", hooks=[], dependsOn=["zz"]), op("b", dependsOn=["a"], params={}), 7],
            [OperationBlock.of("x", []), {"block": {"blockId": "y", "name": "y", "operations": [op(dependsOn=["q"])]}}],
            execution_mode="parallel",
        )  # fmt: skip
    assert [(rule, where) for rule, where, _ in caught.value.problems] == [
        ("execution_mode", "profile, executionMode"),
        ("order_invalid", "operation 'a', config.order"),
        ("value_invalid", "operation #3"),
        ("template_required", "operation 'b', params"),
        ("unknown_dependency", "block 'y', operation 'a', dependsOn"),
    ]
    text = str(caught.value)
    assert "order must be a number, not '1'; smaller orders run and commit first" in text
    assert "pydantic" not in text
    assert "Input should" not in text


@pytest.mark.parametrize(("fields", "rule"), [
    ({"name": " "}, "name"), ({"name": 1}, "name"), ({"profile_id": ""}, "profile_id"), ({"session_id": ""}, "session_id"),
    ({"sessionId": "  "}, "session_id"), ({"version": 0}, "version"), ({"version": "1"}, "version"),
    ({"enabled": "no"}, "value_invalid"), ({"executionMode": None}, "execution_mode"), ({"colour": "red"}, "unknown_field"),
])  # fmt: skip
def test_a_wrong_field_of_a_profile_breaks_its_rule(fields, rule):
    """E10, E11, E19: names, modes, sessions and versions."""
    with pytest.raises(ProfileError) as caught:
        read_profile({"profileId": "p", "name": "p", **fields})
    assert rule in [found for found, _, _ in caught.value.problems]


def test_a_profile_may_be_empty_and_is_concurrent_by_default():
    """E10, E19, R8: operations run concurrently by default."""
    profile = OperationProfile.of("p")
    assert profile.execution_mode is ExecutionMode.CONCURRENT
    assert profile.operations == profile.blocks == ()
    assert profile.enabled
    assert OperationProfile.of("p", execution_mode="sequential").execution_mode is ExecutionMode.SEQUENTIAL


def test_a_block_is_referred_to_once():
    """E19, X11: two references to a block are refused."""
    block = OperationBlock.of("x", [])
    with pytest.raises(ProfileError, match="refers to it twice") as caught:
        OperationProfile.of("p", blocks=[block, block])
    assert caught.value.problems[0][0] == "duplicate_block"


@pytest.mark.parametrize("given", [None, 5, "block", [], {}, {"blockId": "b"}, {"blockId": "b", "name": "n", "operations": 5}])  # fmt: skip
def test_values_that_are_not_a_block_or_profile_are_refused(given):
    """R54: any other value raises a ProfileError."""
    with pytest.raises(ProfileError):
        read_block(given)
    with pytest.raises(ProfileError):
        read_profile(given)


def test_text_with_a_lone_surrogate_is_refused():
    """R57: it cannot be stored."""
    assert rules(op("a", "mine", params={"x": "\ud800"})) == ["value_invalid"]


def test_an_operation_id_leaves_room_for_the_block_prefix():
    """X11: `block:operation` is an id as well."""
    assert OperationProfile.of("p", [op("a" * 200)]).operations
    assert rules(op("a" * 199)) == ["operation_id"]


def test_an_operation_may_be_written_flat_or_nested():
    """R16, E19: as data, as `{definition, config}`, with `config` alone nested, or flat; in both spellings."""
    flat = {
        "id": "a",
        "kind": "template",
        "order": 1,
        "params": {"template": "x"},
        "depends_on": [],
        "required": True,
    }
    half = {"opId": "a", "name": "a", "kind": "template", "config": {**op()["config"], "required": True}}
    one = OperationProfile.of("p", [flat]).operations[0]
    assert one.definition.name == "a"
    for other in (half, one, one.to_dict(), Operation.from_dict(one.to_dict())):
        assert OperationProfile.of("p", [other]).operations == (one,)


def test_a_new_session_starts_empty():
    """E11: only the session id changes."""
    profile = OperationProfile.of("p", [op()])
    renewed = profile.with_new_session()
    assert renewed.session_id != profile.session_id
    assert renewed.model_copy(update={"session_id": profile.session_id}) == profile
    assert renewed.fingerprint != profile.fingerprint
