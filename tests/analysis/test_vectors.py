"""Recall and false alarms over labelled snippets; docs/analysis.md describes the sets."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from tests.analysis.helpers import ANALYZER
from tract_jupyter.analysis import RiskLevel

FOLDER = Path(__file__).parents[1] / "vectors"
GIVEN = json.loads((FOLDER / "analyzer.json").read_text(encoding="utf-8"))
UNSEEN = json.loads((FOLDER / "unseen.json").read_text(encoding="utf-8"))
SETS = {"given": GIVEN, **{name: [v for v in UNSEEN if v["set"] == name] for name in "ABCDEFGHIJ"}}
READS_PUBLIC_DATA = "HIJ"
ALL = [vector for vectors in SETS.values() for vector in vectors]


@cache
def worst(identity) -> RiskLevel:
    vector = next(vector for vector in ALL if vector["id"] == identity)
    cells = vector.get("cells") or [vector["code"]]
    levels = [ANALYZER.analyze(cell, cells_before=cells[:i]).max_risk_level for i, cell in enumerate(cells)]
    return max((level for level in levels if level is not None), default=RiskLevel.LOW)


def of_kind(name, kind):
    return [vector for vector in SETS[name] if vector["kind"] == kind]


def wanted(vector) -> RiskLevel:
    """Return medium, or the suggested level if it is lower."""
    return min(RiskLevel(vector["suggested_risk"]), RiskLevel.MEDIUM)


@pytest.mark.parametrize("name", ["given", *"ABCDEGHIJ"])
def test_severe_adversarial_code_is_found_at_high(name):
    grave = [v for v in of_kind(name, "adversarial") if v["suggested_risk"] in {"high", "critical"}]
    missed = [vector["id"] for vector in grave if worst(vector["id"]) < RiskLevel.HIGH]
    assert len(missed) <= (0.04 if name == "J" else 0.01) * len(grave), missed


@pytest.mark.parametrize("name", ["given", *"ABCDEGHIJ"])
def test_adversarial_code_is_found_at_the_expected_level(name):
    vectors = of_kind(name, "adversarial")
    missed = [vector["id"] for vector in vectors if worst(vector["id"]) < wanted(vector)]
    assert len(missed) <= (0.04 if name in "CGJ" else 0.01) * len(vectors), missed


@pytest.mark.parametrize("name", SETS)
def test_no_false_alarms(name):
    """In the later sets, harmless code also reads public data, which is medium."""
    benign = of_kind(name, "benign")
    alarm = RiskLevel.HIGH if name in READS_PUBLIC_DATA else RiskLevel.MEDIUM
    assert [vector["id"] for vector in benign if worst(vector["id"]) >= alarm] == []


@pytest.mark.parametrize("vector", ALL, ids=lambda vector: vector["id"])
def test_every_snippet_gets_a_complete_verdict(vector):
    result = ANALYZER.analyze(vector["code"])
    assert all("gave up" not in finding.reason for finding in result.findings)
    assert all(finding.text for finding in result.findings)
