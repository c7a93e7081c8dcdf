"""Rules that are switched off, and changed levels."""

from __future__ import annotations

import pytest

from tract_jupyter import CodeAnalyzer
from tract_jupyter.analysis import RuleSettingsError, all_rules

CODE = "import os\nos.system('x')\nopen('a.csv')"


def levels(**settings):
    return {f.code: str(f.level) for f in CodeAnalyzer(**settings).analyze(CODE).findings}


def test_without_a_choice_all_rules_count():
    assert levels() == {"TJ101": "critical", "TJ201": "low"}


def test_a_rule_can_be_switched_off():
    assert levels(off=["TJ201"]) == {"TJ101": "critical"}


def test_a_level_can_be_changed():
    assert levels(levels={"TJ101": "low", "TJ201": "high"}) == {"TJ101": "low", "TJ201": "high"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"off": ["TJ999"]}, "There is no rule 'TJ999'"),
        ({"off": ["tj101"]}, "Did you mean 'TJ101'"),
        ({"off": "TJ101"}, r"as a list: \['TJ101'\]"),
        ({"off": ["TJ901"]}, "it always counts"),
        ({"levels": {"TJ903": "low"}}, "it always counts"),
        ({"levels": {"TJ101": "grave"}}, "no level 'grave'. Use one of 'low', 'medium', 'high', 'critical'"),
    ],
)
def test_invalid_rule_settings_are_refused(settings, message):
    with pytest.raises(RuleSettingsError, match=message):
        CodeAnalyzer(**settings)


def test_unparsable_code_is_reported_even_if_all_other_rules_are_off():
    off = [rule.code for rule in all_rules() if not rule.code.startswith("TJ9")]
    assert [f.code for f in CodeAnalyzer(off=off).analyze("def f(:").findings] == ["TJ901"]
    assert CodeAnalyzer(off=off).analyze(CODE).findings == ()
