"""Kind `guard`."""

import pytest

from tests.review.scripted import ScriptedClient
from tests.runs.kinds.support import done, operation_of, told, value
from tract_jupyter.runs.kinds import GuardKind, Services

KIND = GuardKind()


def liquid(template, keys=("a", "b"), **more):
    contract = [{"key": key, "title": key} for key in keys]
    params = {"engine": "liquid", "outputContract": contract, "template": template, **more}
    return operation_of("guard", params, debug={"enabled": True})


def asking(keys=("a",), **more):
    contract = [{"key": key} for key in keys]
    return operation_of(
        "guard", {"engine": "aux_llm", "outputContract": contract, "prompt": "is it so?", **more}
    )


def test_its_value_is_a_flat_map_of_booleans():
    """E22, R40: raw JSON of all declared keys; white space around it does not matter."""
    template = (
        ' {"b": {{ yes }}, "a": {% if lastUserMessage contains "hell" %}true{% else %}false{% endif %}}\n'
    )
    assert value(done(KIND, liquid(template), variables={"yes": False})) == {"a": True, "b": False}


@pytest.mark.parametrize(("text", "code"), [
    ('{"a": true}', "validation_error"),
    ('{"a": true, "b": true, "c": true}', "validation_error"),
    ('{"a": true, "b": 1}', "validation_error"),
    ('{"a": true, "b": "true"}', "validation_error"),
    ('{"a": true, "b": null}', "validation_error"),
    ("[true, false]", "validation_error"),
    ("true", "validation_error"),
    ('```json\n{"a": true, "b": true}\n```', "output_parse_error"),
    ('{"a": true, "b": NaN}', "output_parse_error"),
    ('{"a": true, "b": true} yes', "output_parse_error"),
    ("", "output_parse_error"),
    ("[" * 100_000, "output_parse_error"),
    ("{{ nope", "template_render_error"),
])  # fmt: skip
@pytest.mark.parametrize("on_error", ["error", "all_false"])
def test_anything_else_is_an_error_or_a_no(text, code, on_error):
    """E22, R55: exactly the declared keys, only booleans, no code fence; with `all_false`, every
    failure is a no."""
    result = done(KIND, liquid(text, runOnError=on_error))
    if on_error == "error":
        assert told(result) == code
    else:
        assert value(result) == {"a": False, "b": False}
        assert result.debug["allFalseBecause"]


def test_a_model_can_be_asked():
    """E22: the engine `aux_llm` asks with the contract as a schema."""
    model = ScriptedClient('{"a": true}')
    result = done(KIND, asking(), services=Services(llm=model))
    ((messages, options),) = model.asked
    assert value(result) == {"a": True}
    assert messages == [{"role": "user", "content": "is it so?"}]
    schema = options["response_format"]["json_schema"]["schema"]
    assert (schema["required"], schema["additionalProperties"]) == (["a"], False)
    assert result.inputs_summary["userHash"]


def test_a_provider_without_json_mode_is_asked_plainly():
    model = ScriptedClient('{"a": false}')
    assert value(done(KIND, asking(jsonMode=False), services=Services(llm=model))) == {"a": False}
    assert model.asked[0][1] == {}


@pytest.mark.parametrize(("reply", "code"), [
    (RuntimeError("boom"), "provider_error"), (RuntimeError("429"), "rate_limited"), ("no", "output_parse_error"), ('{"a": 1}', "validation_error"),
])  # fmt: skip
def test_a_model_that_fails(reply, code):
    """E22, E25: a failing guard has the error codes of the model, unless failures count as no."""
    assert told(done(KIND, asking(), services=Services(llm=ScriptedClient(reply)))) == code
    assert value(
        done(KIND, asking(runOnError="all_false"), services=Services(llm=ScriptedClient(reply)))
    ) == {"a": False}


def test_without_a_client_it_fails():
    assert told(done(KIND, asking())) == "validation_error"


@pytest.mark.parametrize(("changes", "rules"), [
    ({}, []),
    ({"outputContract": []}, ["guard_outputs_required"]),
    ({"outputContract": [{"key": "A"}]}, ["guard_output_key"]),
    ({"outputContract": [{"key": "a b"}]}, ["guard_output_key"]),
    ({"outputContract": [{"key": "a"}, {"key": "a"}]}, ["guard_output_duplicate"]),
    ({"template": "{% if"}, ["template_syntax"]),
    ({"engine": "python"}, ["guard_engine"]),
    ({"engine": "aux_llm"}, ["prompt_required", "template_required"]),
])  # fmt: skip
def test_wrong_guard_parameters_are_found_before_saving(changes, rules):
    """E22, R27: keys are unique and well-formed, there is at least one, and the engine has its parameters."""
    params = {"engine": "liquid", "outputContract": [{"key": "a"}], "template": "{}", **changes}
    assert [rule for rule, _ in KIND.check(operation_of("guard", params))] == rules
    if rules and rules != ["template_syntax"]:
        assert told(done(KIND, operation_of("guard", params))) == "validation_error"


def test_conditions_can_ask_for_its_keys():
    """E23: its declared keys can be read without running it."""
    assert KIND.outputs(liquid("{}")) == ("a", "b")
    assert KIND.outputs(operation_of("guard", {})) == ()


def test_attempts_and_time_are_the_engines():
    """E25: `retry` and `timeoutMs` of a guard with a model are passed to the engine."""
    config = KIND.configured(asking(timeoutMs=50, retry={"maxAttempts": 3}).config)
    assert (config.timeout_ms, config.retry.max_attempts) == (50, 3)
    for operation in (liquid("{}"), operation_of("guard", {})):
        assert KIND.configured(operation.config) == operation.config
