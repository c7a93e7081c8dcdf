"""What is allowed but probably not meant."""

from __future__ import annotations

import pytest

from tract_jupyter.runs.profile import OperationProfile, lint, run_operation

GUARD = run_operation("g", "guard", order=1, outputs=["yes"], text="?")


def t(name, order=5, text="x", **more):
    return run_operation(name, order=order, text=text, **more)


def found(*operations):
    return [(one.rule, one.where.partition(",")[0]) for one in OperationProfile.of("p", operations).lint()]


def test_a_profile_as_it_should_be_has_no_warnings():
    """R26, R40, X04: dependencies, conditions and exposures as they are meant."""
    reader = t("b", 6, "{{art.a.value}} {{ art['c'].value }}", after=["a", "g"], only_if={"g.yes": True})
    assert found(GUARD, t("a", tag="a"), t("c", tag="c", into="system", keep=True), reader) == []


@pytest.mark.parametrize("change", [
    {"run_conditions": [{"source": "g", "output": "yes", "is": False}], "only_if": {"g.yes": True}},
    {"after": "off", "only_if": {"g.yes": True}}, {"after": "again", "only_if": {"g.yes": True}, "triggers": ["generate"]},
])  # fmt: skip
def test_operations_that_never_run(change):
    """R10, R23, E23: contradictory conditions, a disabled dependency, no trigger in common."""
    others = t("off", enabled=False), t("again", triggers=["regenerate"])
    assert found(GUARD, *others, t("a", **change)) == [("unreachable", "operation 'a'")]


def test_artifacts_that_nobody_reads():
    """R50: unless it is shown, or a guard that is asked."""
    assert found(t("a", tag="a"), t("b", tag="b", usage="ui_only")) == [("unread_artifact", "operation 'a'")]
    assert found(GUARD) == [("unread_artifact", "operation 'g'")]
    assert found(t("a", tag="a"), t("b", text="{{artByOpId.a.value}}", after="a")) == []


def test_reads_without_a_dependency():
    """R26, R31: of what this run makes; a persisted artifact is there from earlier runs."""
    reader = t("b", 6, "{{art.a.value}}")
    assert found(t("a", tag="a"), reader) == [("read_without_dependency", "operation 'b'")]
    assert found(t("a", tag="a", keep=True), reader) == []
    # between hooks no dependency is needed, as all before-operations have ended
    assert found(t("a", tag="a"), t("b", 6, "{{art.a.value}}", when="after")) == []
    too_late = found(t("a", tag="a", when="after"), reader)
    assert too_late == [("read_without_dependency", "operation 'b'")]


def test_reads_of_what_nobody_writes():
    """R31: with the nearest name."""
    profile = OperationProfile.of(
        "p", [t("a", tag="summary", into="system"), t("b", text="{{art.sumary.value}}")]
    )
    assert [str(one) for one in profile.lint()] == [
        "operation 'b', params: it reads art.sumary, which no operation here writes. Did you mean 'summary'?"
    ]


def test_orders_against_dependencies():
    """R24, R60: dependencies come first, whatever the order says."""
    assert found(t("a", 1, after="b"), t("b", 2)) == [("order_inversion", "operation 'a'")]


def test_kinds_that_nobody_knows():
    """R16: a run skips them."""
    known = run_operation("a", "tool", order=1, tool="look")
    definition = known.definition.model_copy(update={"kind": "templat"})
    one = known.model_copy(update={"definition": definition})  # as in a profile that somebody wrote as JSON
    assert [str(w) for w in lint([one])] == [
        "operation 'a', kind: kind 'templat' is unknown; such operations are skipped unless a package adds it. Did you mean 'template'?"
    ]
    assert lint([one], kinds=["templat"]) == []


def test_patterns_and_hooks_that_fail_in_each_run():
    """X08, R41: an invalid pattern, and a prompt exposure where there is no prompt."""
    asks = run_operation("a", "llm", order=1, text="x", output_mode="json", json_parse_mode="custom_regex",
                     json_custom_pattern="(")  # fmt: skip
    assert found(asks) == [("regex_invalid", "operation 'a'")]
    assert found(t("a", when="both", into="system")) == [("exposure_at_both_hooks", "operation 'a'")]


@pytest.mark.parametrize(("first", "second", "is_told"), [
    ({"into": "message"}, {"into": "message"}, True),
    ({"into": "message"}, {"into": "message", "after": "a"}, False),
    ({"into": "message"}, {"into": "message", "only_if": {"g.yes": True}}, True),
    ({"into": "message", "only_if": {"g.yes": False}}, {"into": "message", "only_if": {"g.yes": True}}, False),
    ({"into": "message", "triggers": "generate"}, {"into": "message", "triggers": "regenerate"}, False),
    ({"into": "message"}, {"into": "message", "when": "after"}, False),
    ({"into": "message", "when": "after"}, {"into": "reply", "when": "after"}, False),
    ({"into": "reply", "when": "after"}, {"into": "reply", "when": "after"}, True),
    ({"into": "reply", "when": "after"}, {"into": "reply", "when": "after", "enabled": False}, False),
    ({"into": "system"}, {"into": "system"}, False),
    ({"into": "system"}, {"into": {"type": "prompt_part", "mode": "replace"}}, True),
    ({"into": "system"}, {"into": {"type": "prompt_part", "mode": "replace"}, "after": "a"}, True),
    ({"into": {"type": "prompt_part", "mode": "replace"}}, {"into": "system"}, False),
])  # fmt: skip
def test_two_operations_that_write_the_same_text(first, second, is_told):
    """R43, R49: the last one wins silently, so the one that takes the other's place is told."""
    told = [one for one in found(GUARD, t("a", **first), t("b", 6, **second)) if one[0] == "overwritten"]
    assert told == ([("overwritten", "operation 'b'")] if is_told else [])


ASK = {"kind": "llm", "order": 5, "text": "?", "into": "system"}


@pytest.mark.parametrize(("fields", "rule"), [
    ({"retry": {"backoffMs": 500}}, "retry_once"), ({"retry": {"retryOn": ["timeout"]}}, "retry_once"),
    ({"retry": {"maxAttempts": 2, "jitter": 0.1}}, "retry_no_wait"), ({"retry": {"maxAttempts": 2, "multiplier": 2}}, "retry_no_wait"),
    ({"history": {"maxItems": 5}}, "history_of_one_run"),
    ({"outputMode": "json", "jsonSchema": {"a": "string"}}, "schema_unchecked"),
    ({"artifact": {"tag": "a", "persistence": "run_only", "history": {"maxItems": 2}, "exposures": []}}, "history_of_one_run"),
])  # fmt: skip
def test_what_has_no_effect_as_it_stands_is_told(fields, rule):
    """X04, E20, E25: alone it changes nothing, and says with what it would."""
    fields = {**fields, "into": ()} if "artifact" in fields else fields
    rules = [name for name, _ in found(run_operation("a", **{**ASK, **fields}))]
    assert [name for name in rules if name != "unread_artifact"] == [rule]


def test_what_has_an_effect_is_not_told():
    wait = {"maxAttempts": 2, "backoffMs": 10, "multiplier": 2, "jitter": 0.1}
    assert found(run_operation("a", **ASK, retry=wait, history={"maxItems": 5}, keep=True)) == []
    assert found(run_operation("a", **ASK, retry={"maxAttempts": 2})) == []
    checked = {"outputMode": "json", "jsonSchema": {"a": "string"}, "strictSchemaValidation": True}
    assert found(run_operation("a", **ASK, **checked)) == []
    assert found(run_operation("a", "template", order=1, text="x", tag="a", usage="ui_only", when="both",
                           history={"maxItems": 2})) == []  # fmt: skip


@pytest.mark.parametrize(("name", "of_params", "own"), [
    ("retry", {"maxAttempts": 3}, {"maxAttempts": 2}), ("timeoutMs", 100, 200),
])  # fmt: skip
def test_what_is_said_twice_is_told(name, of_params, own):
    """E20: what the operation says counts, and its parameters are passed over."""
    config = {"operationId": "a", "kind": "llm", "order": 1, name: own, "params": {"prompt": "?", name: of_params},
              "artifact": {"tag": "a", "usage": "ui_only"}}  # fmt: skip
    profile = OperationProfile.of("p", [config])
    assert [(one.rule, one.where) for one in profile.lint()] == [
        ("said_twice", f"operation 'a', params.{name}")
    ]
    profile = OperationProfile.of("p", [{**config, "params": {"prompt": "?"}}])
    assert profile.lint() == []


def test_a_code_to_try_again_for_that_no_error_has_is_told():
    """A function may give codes of its own."""
    retry = {"maxAttempts": 2, "retryOn": ["rate_limit"]}
    asks = run_operation("a", "tool", order=1, tool="weather", retry=retry)
    (told,) = OperationProfile.of("p", [asks]).lint()
    assert (told.rule, told.where) == ("unknown_code", "operation 'a', retry.retryOn")
    assert "Did you mean 'rate_limited'?" in told.message
    assert (
        OperationProfile.of("p", [run_operation("a", "compute", order=1, function="f", retry=retry)]).lint()
        == []
    )
