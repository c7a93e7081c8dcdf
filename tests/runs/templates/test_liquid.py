"""Published examples of the language: from its documentation, and from the shared tests of its engines."""

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
    """Check whether the output is as published. The documentation omits white space in outputs of
    several lines."""
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
    """E21: templates written for Liquid mean the same here."""
    assert agrees(example), example["source"]


@pytest.mark.parametrize("example", DIFFERING, ids=lambda one: one["template"][:60])
def test_each_listed_difference_still_exists_and_has_a_reason(example):
    """If a difference disappears, it must leave the list."""
    assert example["differs"]
    assert not agrees(example)


def test_at_least_95_of_100_agree():
    assert len(EXAMPLES) >= 250
    assert len(AGREEING) / len(EXAMPLES) >= 0.95


def test_no_example_counts_twice():
    counted = Counter((one["template"], json.dumps(one.get("data"))) for one in EXAMPLES)
    assert [what for what, times in counted.items() if times > 1] == []
