"""The language's published examples: those of its documentation, and of the tests that engines share."""

import json
from collections import Counter
from pathlib import Path

import pytest

from tract_jupyter.exceptions import TemplateError
from tract_jupyter.runs.templates import parse

EXAMPLES = json.loads((Path(__file__).parents[2] / "vectors" / "liquid.json").read_text())["examples"]
AGREEING = [one for one in EXAMPLES if "differs" not in one]
DIFFERING = [one for one in EXAMPLES if "differs" in one]


def agrees(example):
    """Whether it comes out as published. The documentation's outputs of several lines leave white space out."""
    try:
        text = parse(example["template"]).render(example.get("data"), now="2026-01-02T03:04:05Z")
    except TemplateError:
        return example["expected"] is None
    expected = example["expected"]
    if expected is not None and example.get("spaces") == "any":
        text, expected = " ".join(text.split()), " ".join(expected.split())
    return text == expected


@pytest.mark.parametrize("example", AGREEING, ids=lambda one: one["template"][:60])
def test_published_examples_agree(example):
    """E21: what is written for Liquid elsewhere means the same here."""
    assert agrees(example), example["source"]


@pytest.mark.parametrize("example", DIFFERING, ids=lambda one: one["template"][:60])
def test_what_differs_is_listed_with_its_reason(example):
    """A difference that is gone leaves the list."""
    assert example["differs"]
    assert not agrees(example)


def test_at_least_95_of_100_agree():
    assert len(EXAMPLES) >= 250
    assert len(AGREEING) / len(EXAMPLES) >= 0.95


def test_no_example_counts_twice():
    counted = Counter((one["template"], json.dumps(one.get("data"))) for one in EXAMPLES)
    assert [what for what, times in counted.items() if times > 1] == []
