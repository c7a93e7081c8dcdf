from __future__ import annotations

import dataclasses

import pytest

from tests.analysis.helpers import ROOT, analyze
from tract_jupyter.analysis import CodeAnalyzer, RiskLevel, SandboxMode, SandboxModeError
from tract_jupyter.exceptions import TractError


def test_levels_are_ordered_not_alphabetical():
    low, medium, high, critical = RiskLevel
    assert low < medium < high < critical
    assert max(RiskLevel) is critical
    assert high >= "high"
    assert high <= "critical"
    assert not critical < "low"
    assert medium > "low"


def test_an_unknown_mode_is_an_error_that_lists_the_modes():
    with pytest.raises(
        SandboxModeError, match=r"'stric'.*'disabled', 'warn', 'block_critical', 'strict'"
    ) as caught:
        CodeAnalyzer(mode="stric")
    assert isinstance(caught.value, TractError)
    assert isinstance(caught.value, ValueError)
    with pytest.raises(SandboxModeError):
        analyze("1").blocked_by("")


@pytest.mark.parametrize(
    ("code", "blocked"),
    [
        ("x = 1", []),
        ("import os\nos.getenv('A')", []),
        ("import ctypes\nctypes.CDLL(None)", ["strict"]),
        ("eval('1')", ["block_critical", "strict"]),
        ("def f(:", ["strict"]),
    ],
)
def test_modes(code, blocked):
    assert [mode.value for mode in SandboxMode if analyze(code).blocked_by(mode)] == blocked


def test_disabled_does_not_look_and_says_so():
    result = CodeAnalyzer(ROOT, mode="disabled").analyze("eval('1')")
    assert result.findings == ()
    assert not result.analysed
    assert "disabled" in result.summary()


def test_summary_never_promises_anything():
    assert analyze("x = 1").summary() == "No findings. Analysis is advice, not containment."
    summary = analyze("import yaml\nyaml.unsafe_load(s)\nopen('safe sandboxed')\neval(x)").summary()
    assert summary == "Findings: 2 critical, 1 low. Worst: TJ108 (deserialisation), line 2."
    assert "\n" not in summary


def test_findings_are_sorted_by_line_then_severity():
    result = analyze("import os\nprint(os.environ, eval('1'), os.system('x'))\nopen('a')")
    keys = [(finding.span.line, -finding.level.rank) for finding in result.findings]
    assert keys == sorted(keys)
    assert result.max_risk_level is RiskLevel.CRITICAL
    assert analyze("1").max_risk_level is None


def test_imports_and_external_paths_are_listed():
    result = analyze("import os.path, json as j\nfrom . import x\nopen('/etc/passwd'); open('data.csv')")
    assert result.imports == (".", "json", "os.path")
    assert result.external_paths == ("/etc/passwd",)


def test_results_are_frozen():
    result = analyze("eval('1')")
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.findings[0].level = RiskLevel.LOW


def test_every_finding_is_complete():
    for finding in analyze("import os\nos.system('x')\nopen('/etc/x')\ngetattr(os, n)()").findings:
        assert finding.code.startswith("TJ")
        assert finding.category
        assert finding.reason.endswith(".")
        assert finding.remedy.endswith((".", '".'))
        assert 0 < finding.confidence <= 1
