"""Warnings about valid but probably unintended profiles."""

from __future__ import annotations

import pytest

from tract_jupyter.runs.profile import OperationProfile, lint, run_operation

GUARD = run_operation("g", "guard", order=1, outputs=["yes"], text="?")


def t(name, order=5, text="x", **more):
    return run_operation(name, order=order, text=text, **more)


def found(*operations):
    return [(one.rule, one.where.partition(",")[0]) for one in OperationProfile.of("p", operations).lint()]


def test_a_correct_profile_has_no_warnings():
    """R26, R40, X04: correct dependencies, conditions and exposures."""
    reader = t("b", 6, "{{art.a.value}} {{ art['c'].value }}", after=["a", "g"], only_if={"g.yes": True})
    assert found(GUARD, t("a", tag="a"), t("c", tag="c", into="system", keep=True), reader) == []


@pytest.mark.parametrize("change", [
    {"run_conditions": [{"source": "g", "output": "yes", "is": False}], "only_if": {"g.yes": True}},
    {"after": "off", "only_if": {"g.yes": True}}, {"after": "again", "only_if": {"g.yes": True}, "triggers": ["generate"]},
])  # fmt: skip
def test_operations_that_never_run(change):
    """R10, R23, E23: contradictory conditions, a disabled dependency, no common trigger."""
    others = t("off", enabled=False), t("again", triggers=["regenerate"])
    assert found(GUARD, *others, t("a", **change)) == [("unreachable", "operation 'a'")]


def test_an_unread_artifact_is_a_warning():
    """R50: unless it is displayed, or belongs to a guard that is used in a condition."""
    assert found(t("a", tag="a"), t("b", tag="b", usage="ui_only")) == [("unread_artifact", "operation 'a'")]
    assert found(GUARD) == [("unread_artifact", "operation 'g'")]
    assert found(t("a", tag="a"), t("b", text="{{artByOpId.a.value}}", after="a")) == []


def test_reads_without_a_dependency():
    """R26, R31: for artifacts of this run; a persisted artifact exists from earlier runs."""
    reader = t("b", 6, "{{art.a.value}}")
    assert found(t("a", tag="a"), reader) == [("read_without_dependency", "operation 'b'")]
    assert found(t("a", tag="a", keep=True), reader) == []
    # between hooks no dependency is needed, as all before-operations have ended
    assert found(t("a", tag="a"), t("b", 6, "{{art.a.value}}", when="after")) == []
    too_late = found(t("a", tag="a", when="after"), reader)
    assert too_late == [("read_without_dependency", "operation 'b'")]


def test_reading_an_unwritten_artifact_is_a_warning():
    """R31: with the closest name."""
    profile = OperationProfile.of(
        "p", [t("a", tag="summary", into="system"), t("b", text="{{art.sumary.value}}")]
    )
    assert [str(one) for one in profile.lint()] == [
        "operation 'b', params: it reads art.sumary, which no operation here writes. Did you mean 'summary'?"
    ]


def test_an_unknown_kind_is_a_warning():
    """R16: a run skips such operations."""
    known = run_operation("a", "tool", order=1, tool="look")
    definition = known.definition.model_copy(update={"kind": "templat"})
    one = known.model_copy(update={"definition": definition})  # as in a profile written as JSON
    assert [str(w) for w in lint([one])] == [
        "operation 'a', kind: kind 'templat' is unknown; such operations are skipped unless a package adds it. Did you mean 'template'?"
    ]


def test_patterns_and_hooks_that_fail_in_each_run():
    """X08, R41: an invalid pattern, and a prompt exposure after the main call."""
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
    """R43, R49: the last writer wins silently, so the warning names it."""
    told = [one for one in found(GUARD, t("a", **first), t("b", 6, **second)) if one[0] == "overwritten"]
    assert told == ([("overwritten", "operation 'b'")] if is_told else [])
