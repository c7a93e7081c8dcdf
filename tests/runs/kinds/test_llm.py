"""Kind `llm`."""

import hashlib
import json
import re

import httpx
import pytest

from tests.review.scripted import ScriptedClient
from tests.runs.kinds.support import context_of, done, operation_of, told, value
from tract_jupyter.concurrency import StopSignal, stopped_by
from tract_jupyter.exceptions import LLMConfigError
from tract_jupyter.llm import Models
from tract_jupyter.runs import OperationStatus
from tract_jupyter.runs.kinds import LlmKind, Services

KIND = LlmKind()


def asked(model, params=None, **context):
    return done(
        KIND, operation_of("llm", {"prompt": "hi", **(params or {})}), services=Services(llm=model), **context
    )


def test_its_value_is_the_text():
    """E20: one call, the system prompt first; the request has no blank system prompt."""
    model = ScriptedClient("one", "two")
    assert (
        value(
            asked(
                model,
                {"system": "be {{ user }}", "prompt": "{{ lastUserMessage }}?"},
                variables={"user": "kind"},
            )
        )
        == "one"
    )
    assert value(asked(model, {"system": " \n"})) == "two"
    system, user = {"role": "system", "content": "be kind"}, {"role": "user", "content": "hello?"}
    assert [messages for messages, _ in model.asked] == [[system, user], [{"role": "user", "content": "hi"}]]


def test_options_are_passed_on():
    """E20: samplers, model, limits and stops use the names of the client's protocol; unset options
    are not sent."""
    model = ScriptedClient("x", "y")
    asked(model, {"model": "m", "maxOutputTokens": 9, "stop": ["END"], "samplers": {
        "temperature": 0.5, "topP": 0.9, "topK": 3, "frequencyPenalty": 1, "presencePenalty": -1, "seed": 7}})  # fmt: skip
    asked(model)
    assert [options for _, options in model.asked] == [
        {"model": "m", "max_tokens": 9, "stop": ["END"], "temperature": 0.5, "top_p": 0.9, "top_k": 3,
         "frequency_penalty": 1, "presence_penalty": -1, "seed": 7}, {}]  # fmt: skip


@pytest.mark.parametrize(("error", "code", "details"), [
    (RuntimeError("Rate limit exceeded"), "rate_limited", {}),
    (RuntimeError("rate_limit_error"), "rate_limited", {}),
    (RuntimeError("HTTP 429 slow down"), "rate_limited", {}),
    (TimeoutError(), "timeout", {}),
    (OSError("the read timed out"), "timeout", {}),
    (RuntimeError("boom"), "provider_error", {}),
    (LLMConfigError("no key"), "validation_error", {}),
    ({"choices": []}, "provider_error", {}),
    ("", None, {}),
])  # fmt: skip
def test_provider_errors_get_different_codes(error, code, details):
    """E20, E25, R55: rate limits and timeouts have their own codes; other errors are provider errors."""
    result = asked(ScriptedClient(error))
    assert (result.error.code if result.error else None) == code
    assert (result.error.details if result.error else {}) == details


def test_how_long_a_provider_asks_to_wait_is_passed_on():
    """E25: a retry waits for the time that the provider requested."""
    error = RuntimeError("429")
    error.retry_after = 2.5
    assert asked(ScriptedClient(error)).error.details == {"retryAfterMs": 2500}


@pytest.mark.parametrize(("mode", "pattern", "text", "found"), [
    ("raw", None, ' {"a": [1, null]}\n', {"a": [1, None]}),
    (None, None, "[1]", [1]),
    ("markdown_code_block", None, 'Here:\n```json\n{"a": 1}\n```\nand ```{"b": 2}```', {"a": 1}),
    ("markdown_code_block", None, '```{"a": 1}```', {"a": 1}),
    ("markdown_code_block", None, "```json\ntrue```", True),
    ("custom_regex", r"<r>([\s\S]*?)</r>", 'x <r>{"a": 1}</r> y', {"a": 1}),
    ("custom_regex", r"(?:A=(\d+))|(?:B=(\d+))", "B=7", 7),
    ("custom_regex", r"\{.*\}", 'say {"a": 1}!', {"a": 1}),
    ("custom_regex", r"(?<json>\[.*\])", "x [2]", [2]),
])  # fmt: skip
def test_json_is_found_and_read(mode, pattern, text, found):
    """E20, X08: raw, in a code block, or by a pattern: its first matching group, or the whole match."""
    params = {"outputMode": "json", "jsonParseMode": mode, "jsonCustomPattern": pattern}
    assert (
        value(asked(ScriptedClient(text), {name: one for name, one in params.items() if one is not None}))
        == found
    )


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "pattern", "text"), [
    ("raw", None, "nope"), ("raw", None, "```json\n{}\n```"), ("raw", None, "NaN"), ("raw", None, "{} {}"), ("raw", None, ""),
    ("raw", None, "[" * 100_000), ("raw", None, '{"a": -Infinity}'),
    ("markdown_code_block", None, "{}"), ("markdown_code_block", None, "```json\n{}"), ("markdown_code_block", None, "```\nx\n```"),
    ("custom_regex", "<r>(.*)</r>", "nothing"), ("custom_regex", "(", "x"), ("custom_regex", r"(x+x+)+y", "x" * 100_000),
])  # fmt: skip
def test_bad_json_is_an_error_with_a_log(mode, pattern, text):
    """E20, X08, R54: invalid JSON is an `output_parse_error`; a pattern that runs too long is aborted."""
    params = {
        "outputMode": "json",
        "jsonParseMode": mode,
        **({"jsonCustomPattern": pattern} if pattern else {}),
    }
    result = asked(ScriptedClient(text), params)
    assert told(result) == "output_parse_error"
    assert len(result.outputs_summary["parseError"]) <= 512
    assert len(result.outputs_summary["text"]) <= 1024
    assert result.inputs_summary["userHash"]


SCHEMA = {
    "name": "string: who",
    "budget": "number",
    "team": {"size": 3},
    "tasks": [{"id": "number: n"}],
    "note?": "string",
}
GOOD = '{"name": "A", "budget": 1.5, "team": {"size": 2}, "tasks": [{"id": 1}]}'


@pytest.mark.parametrize(("text", "told_of"), [
    (GOOD, None),
    (GOOD.replace("}]}", '}], "note": "n"}'), None),
    (GOOD.replace('"A"', "3"), "name must be string, not number"),
    (GOOD.replace("1.5", "true"), "budget must be number, not boolean"),
    (GOOD.replace('"id": 1', '"id": "1"'), "tasks[0].id must be number"),
    (GOOD.replace('"size": 2', '"size": null'), "team.size must be number, not null"),
    (GOOD.replace('"budget": 1.5, ', ""), "budget is missing"),
    (GOOD.replace('"size": 2', '"size": 2, "zzz": 1'), "team.zzz is not expected"),
    ("[]", "the value must be object"),
])  # fmt: skip
def test_a_schema_is_held_only_if_strict(text, told_of):
    """E20, X08: the schema language; a reply that does not fit is a `validation_error` with its location."""
    params = {"outputMode": "json", "jsonSchema": SCHEMA}
    assert asked(ScriptedClient(text), params).is_done
    result = asked(ScriptedClient(text), {**params, "strictSchemaValidation": True})
    if told_of is None:
        assert result.is_done
    else:
        assert told(result) == "validation_error"
        assert told_of in result.error.message


@pytest.mark.parametrize(("params", "rules"), [
    ({}, []),
    ({"prompt": "  "}, ["prompt_required"]),
    ({"outputMode": "text", "jsonSchema": {}, "strictSchemaValidation": True}, ["strict_schema_needs_json"]),
    ({"outputMode": "json", "strictSchemaValidation": True}, ["strict_schema_needs_schema"]),
    ({"outputMode": "json", "jsonParseMode": "custom_regex"}, ["regex_pattern_required"]),
    ({"jsonParseMode": "raw"}, ["parse_mode_needs_json"]),
    ({"timeoutMs": 300_001}, ["timeout_range"]),
    ({"timeoutMs": 0}, ["timeout_range"]),
    ({"retry": {"maxAttempts": 11}}, ["retry_range"]),
    ({"retry": {"backoffMs": 120_001}}, ["backoff_range"]),
    ({"retry": {"retryOn": ["weather"]}}, ["retry_range"]),
    ({"stop": ["x"] * 11}, ["stop_limit"]),
    ({"stop": ["x" * 121]}, ["stop_limit"]),
    ({"samplers": {"topP": 2}}, ["samplers_range"]),
    ({"prompt": "{{", "system": "{%"}, ["template_syntax", "template_syntax"]),
    ({"apiKey": "sk-1"}, ["unknown_field"]),
    ({"outputMode": "json", "jsonSchema": {"a": "strng: x"}}, ["schema_invalid"]),
])  # fmt: skip
def test_wrong_llm_parameters_are_found_before_saving_and_before_a_request(params, rules):
    """E20, E25, X08, R27: the same rules apply when it is saved and, before any call, when it runs."""
    operation, model = operation_of("llm", {"prompt": "p", **params}), ScriptedClient("x")
    assert [rule for rule, _ in KIND.check(operation)] == rules
    result = done(KIND, operation, services=Services(llm=model))
    assert result.is_done == (not rules)
    assert bool(model.asked) == (not rules)


def test_a_prompt_that_cannot_be_rendered_costs_nothing():
    """E20: a strictly required missing variable is found before the request."""
    model = ScriptedClient()
    assert told(asked(model, {"prompt": "{{ nope.x }}", "strictVariables": True})) == "template_render_error"
    assert model.asked == []


def test_budgets_are_kept():
    """E20: too long a prompt is never sent; a reply over the token budget gives no result."""
    model = ScriptedClient(
        {"choices": [{"message": {"content": "x"}}], "usage": {"cost": 0.5, "total_tokens": 3}}
    )
    assert told(asked(model, {"prompt": "x" * 101, "maxInputTokens": 25})) == "budget_exceeded"
    assert model.asked == []
    result = asked(model, {"budget": {"maxCostUsd": 0.4}})
    assert told(result) == "budget_exceeded"
    assert result.outputs_summary["usage"]["cost"] == 0.5


def test_which_client_is_asked():
    """R27: parameters name a provider, and never contain its key."""
    usual, other = ScriptedClient("usual"), ScriptedClient("other")
    models = Models()
    models.add("o", other)
    services = Services(llm=usual, models=models)

    def by(ref):
        return done(KIND, operation_of("llm", {"prompt": "p", "providerRef": ref}), services=services)

    assert value(by("o")) == "other"
    assert told(by("x")) == "validation_error"
    assert told(done(KIND, operation_of("llm", {"prompt": "p"}))) == "validation_error"
    named = operation_of("llm", {"prompt": "p", "providerRef": "o"})
    assert told(done(KIND, named, services=Services(llm=usual))) == "validation_error"
    assert usual.asked == []


def _answering(model):
    """A transport that returns the replies of a scripted model."""
    return httpx.MockTransport(
        lambda request: httpx.Response(200, json=model.chat(json.loads(request.content)))
    )


def test_the_log_explains_without_telling(monkeypatch):
    """R56, R57, E25: hashes of prompts, usage, finish reason, no secrets; key-like texts are masked."""
    secret = "sk-abcdefghijklmnop1234"
    model = ScriptedClient({"choices": [{"message": {"content": f"the key is {secret}"}, "finish_reason": "stop"}], "id": "req-1",
                   "model": "m-1", "usage": {"total_tokens": 12}})  # fmt: skip
    monkeypatch.setenv("MINE", "k-0123456789")
    models = Models()
    models.add("o", base_url="http://x/v1", model="m", transport=_answering(model))
    models.add_credential("vault:mine", of="o", key_env="MINE")
    params = {"prompt": f"use {secret}", "credentialRef": "vault:mine", "timeoutMs": 10}
    result = done(KIND, operation_of("llm", params), services=Services(models=models))
    log = str([result.inputs_summary, result.outputs_summary])
    assert secret not in log
    assert "vault:mine" not in log
    assert result.inputs_summary["userHash"] == hashlib.sha256(f"use {secret}".encode()).hexdigest()
    outputs = result.outputs_summary
    assert (outputs["finishReason"], outputs["requestId"], outputs["usage"]) == (
        "stop",
        "req-1",
        {"total_tokens": 12},
    )
    assert result.usage == {"total_tokens": 12}


def test_a_providers_message_is_masked_too():
    """R54, R57: an error message that quotes a key is masked."""
    message = asked(
        ScriptedClient(RuntimeError("bad header Authorization: Bearer abc.def-123456 api_key=hunter2hunter2"))
    ).error.message
    assert "abc.def" not in message
    assert "hunter2" not in message


def test_an_aborted_run_sends_no_request():
    """R32, E14: the signal is checked before the call."""
    model, abort = ScriptedClient("x"), StopSignal()
    abort.set()
    with stopped_by(abort):
        assert asked(model).status is OperationStatus.ABORTED
    assert model.asked == []


def test_attempts_and_time_are_the_engines():
    """E25: `retry` and `timeoutMs` in the parameters are passed to the engine, unless the
    configuration has its own."""
    params = {
        "prompt": "p",
        "timeoutMs": 50,
        "retry": {"maxAttempts": 3, "backoffMs": 5, "retryOn": ["rate_limit"]},
    }
    config = KIND.configured(operation_of("llm", {**params, "providerRef": "o"}).config)
    assert (config.timeout_ms, config.retry.max_attempts, config.retry.backoff_ms) == (50, 3, 5)
    assert (config.retry.retry_on, config.provider) == (("rate_limited",), "o")
    own = operation_of("llm", params, timeoutMs=9, retry={"maxAttempts": 2}, provider="p").config
    kept = KIND.configured(own)
    assert (kept.timeout_ms, kept.retry.max_attempts, kept.provider) == (9, 2, "p")
    broken = operation_of("llm", {"timeoutMs": -1}).config
    assert KIND.configured(broken) == broken


def test_the_context_is_all_it_knows():
    """R29, R62: its request depends only on its context."""
    model = ScriptedClient("a", "b")
    run = KIND.prepare(operation_of("llm", {"prompt": "{{ lastUserMessage }}"}), Services(llm=model))
    run(context_of())
    run(context_of())
    assert model.asked[0] == model.asked[1]


@pytest.mark.parametrize(("schema", "told_of"), [
    ("strng: the name", "unknown type 'strng': .*Did you mean 'string'"),
    ({"a": {"b?": ["int: how many"]}}, r"a\.b\[0\] has the unknown type 'int'.*Did you mean 'integer'"),
    ({"a": "string | nul"}, "'nul'.*'null'"), ({"a": "str"}, "'string: str' for a text.*'string'"),
    ({"a": "float"}, "Did you mean 'number'"), ({"a": "numbr"}, "'number'"), ({"a": "Note: this"}, "'note'"),
    ({"a": "date"}, None), ({"a": "String: x"}, None), ({"a": "a whole sentence: like this"}, None),
    ({"a": "https://example.com"}, None), ({"a": ""}, None), ({"a": [], "b": 3, "c": None}, None),
    (SCHEMA, None), (None, None), ("number | null: how much", None),
])  # fmt: skip
def test_a_type_that_does_not_exist_is_refused(schema, told_of):
    """X08: it would accept any text without notice."""
    operation = operation_of("llm", {"prompt": "p", "outputMode": "json", "jsonSchema": schema})
    problems = KIND.check(operation)
    assert [rule for rule, _ in problems] == (["schema_invalid"] if told_of else [])
    if told_of:
        assert re.search(told_of, problems[0][1])


def test_a_schema_without_an_end_is_refused():
    schema: dict = {}
    for _ in range(100):
        schema = {"a": schema}
    assert (
        "nested too deeply"
        in KIND.check(operation_of("llm", {"prompt": "p", "outputMode": "json", "jsonSchema": schema}))[0][1]
    )
