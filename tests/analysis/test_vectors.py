"""Recall and false alarms over labelled snippets; the floors are what this cut reaches."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.analysis.helpers import ANALYZER
from tract_jupyter.analysis import RiskLevel

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "analyzer.json").read_text(encoding="utf-8"))


def worst(vector) -> RiskLevel | None:
    cells = vector.get("cells") or [vector["code"]]
    levels = [ANALYZER.analyze(cell, cells_before=cells[:i]).max_risk_level for i, cell in enumerate(cells)]
    return max((level for level in levels if level is not None), default=None)


ADVERSARIAL = [vector for vector in VECTORS if vector["kind"] == "adversarial"]
GRAVE = [vector for vector in ADVERSARIAL if vector["suggested_risk"] in {"high", "critical"}]
BENIGN = [vector for vector in VECTORS if vector["kind"] == "benign"]


@pytest.mark.parametrize(
    ("vectors", "level", "floor"),
    [(GRAVE, "high", 0.95), (ADVERSARIAL, "medium", 0.92)],
    ids=["grave found at high", "adversarial found at medium"],
)
def test_recall(vectors, level, floor):
    found = {vector["id"] for vector in vectors if (worst(vector) or RiskLevel.LOW) >= level}
    missed = [vector["id"] for vector in vectors if vector["id"] not in found]
    assert len(found) / len(vectors) >= floor, missed


@pytest.mark.parametrize(("level", "ceiling"), [("high", 0.01), ("medium", 0.02)])
def test_false_alarms(level, ceiling):
    alarms = [vector["id"] for vector in BENIGN if (worst(vector) or RiskLevel.LOW) >= level]
    assert len(alarms) / len(BENIGN) <= ceiling, alarms


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["id"])
def test_every_snippet_gets_a_complete_verdict(vector):
    result = ANALYZER.analyze(vector["code"])
    assert all("gave up" not in finding.reason for finding in result.findings)
    assert all(finding.text for finding in result.findings)
