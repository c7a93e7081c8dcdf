from __future__ import annotations

import re

import pytest

from tract_jupyter.analysis import Rule, all_rules, register, rules

HEADINGS = ["## Description", "## Why it matters", "## Example", "## What to do instead"]


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.code)
def test_every_rule_has_a_manual_page(rule):
    manual = rule.manual()
    assert manual.split("\n")[0].endswith(".")
    assert [line for line in manual.split("\n") if line.startswith("#")] == HEADINGS
    for heading in HEADINGS:
        assert manual.split(heading)[1].split("##")[0].strip()


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.code)
def test_every_rule_is_complete(rule):
    assert re.fullmatch(r"TJ[1-9]\d\d", rule.code)
    assert re.fullmatch(r"[a-z]+(-[a-z]+)+|unparsable", rule.name)
    assert rule.category
    assert rule.remedy
    assert not re.search(r"\b(safe|sandboxed)\b", rule.manual())


def test_codes_and_names_are_unique():
    assert (
        len({rule.code for rule in all_rules()})
        == len({rule.name for rule in all_rules()})
        == len(rules.RULES)
    )
    assert all(rules.RULES[rule.code] is rule for rule in all_rules())


def test_a_code_cannot_be_taken_twice():
    with pytest.raises(ValueError, match="The rule 'starts-program' already has the code TJ101"):

        @register
        class Other(Rule):
            code = "TJ101"
