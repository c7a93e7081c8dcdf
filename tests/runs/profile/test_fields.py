"""Every field of a profile is documented with its effect."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tract_jupyter.runs import ArtifactHistory, model
from tract_jupyter.runs.kinds import compute, dynamic, guard, llm, rag, template, tool, transform
from tract_jupyter.runs.profile import BlockRef, OperationBlock, OperationProfile

DATA = [
    OperationProfile, BlockRef, OperationBlock, model.OperationDefinition, model.OperationConfig, model.ArtifactSpec, ArtifactHistory,
    model.PromptPart, model.PromptMessage, model.TurnRewrite, model.InlineNote, model.RunCondition, model.Activation,
    model.Retry, model.Debug,
]  # fmt: skip
PARAMS = {
    template.TemplateParams: ["template"], llm.LlmParams: ["llm"], llm.Samplers: ["llm"], llm.Attempts: ["llm"],
    llm.CostBudget: ["llm"], guard.LiquidGuardParams: ["guard"], guard.LlmGuardParams: ["guard", "llm"],
    guard.GuardOutput: ["guard"], tool.ToolParams: ["tool"], compute.ComputeParams: ["compute"],
    dynamic.DynamicParams: ["dynamic"], rag.RagParams: ["rag"], transform.TransformParams: ["transform"],
}  # fmt: skip
"""The rows of the page with each kind's parameters."""
PAGE = (Path(__file__).parents[3] / "docs/runs_fields.md").read_text(encoding="utf-8")


def names(data):
    return [info.alias or name for name, info in data.model_fields.items()]


def section(heading):
    return PAGE.partition(f"\n{heading}\n")[2].partition("\n## ")[0].partition("\n### ")[0]


@pytest.mark.parametrize("data", DATA, ids=lambda one: one.__name__)
def test_each_field_is_documented_with_its_effect(data):
    rows = [line.split("|") for line in section("### Every field").splitlines() if line.startswith("| `")]
    told = {name: row[2].strip() for row in rows for name in re.findall(r"`([A-Za-z]+)`", row[1])}
    assert {name: bool(told.get(name)) for name in names(data)} == dict.fromkeys(names(data), True)


@pytest.mark.parametrize("data", PARAMS, ids=lambda one: one.__name__)
def test_each_parameter_of_a_kind_is_documented(data):
    rows = [line.split("|") for line in section("### Kinds").splitlines() if line.startswith("| `")]
    told = {row[1].strip(" `"): row[3] for row in rows}
    words = {
        word
        for kind in PARAMS[data]
        for code in re.findall(r"`[^`]+`", told[kind])
        for word in re.findall(r"\w+", code)
    }
    assert set(names(data)) - words == set()
