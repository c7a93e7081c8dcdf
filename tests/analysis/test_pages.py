"""The manual: each rule has a page, the rule reports the page's example, and the document is up to date."""

import re
from pathlib import Path

import pytest

from tract_jupyter.analysis import CodeAnalyzer, all_rules, pages

DOCUMENT = Path(__file__).parents[2] / "docs" / "rules.md"
EXAMPLE = re.compile(r"^## Example\n```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
RULES = {rule.code: rule for rule in all_rules()}
TOOLS = ("read_file",)
WITH_CODE = [code for code, rule in RULES.items() if EXAMPLE.search(rule.manual())]


def test_the_document_is_up_to_date():
    message = f"write it anew: {pages.COMMAND} > docs/rules.md"
    assert DOCUMENT.read_text(encoding="utf-8") == pages.document(), message


@pytest.mark.parametrize("code", RULES)
def test_a_page_has_the_four_headings_in_order(code):
    assert re.findall(r"^## (.*)$", RULES[code].manual(), re.MULTILINE) == list(pages.HEADINGS)
    assert pages.first_line(RULES[code]).endswith(".")


@pytest.mark.parametrize("code", WITH_CODE)
def test_the_example_is_found_by_its_rule(code):
    example = EXAMPLE.search(RULES[code].manual()).group(1)
    found = CodeAnalyzer("/home/user/project", tools=TOOLS).analyze(example).findings
    assert code in {finding.code for finding in found}


def test_nearly_every_rule_has_an_example_in_python():
    assert set(RULES) - set(WITH_CODE) <= {
        "TJ408",
        "TJ902",
        "TJ903",
        "TJ904",
    }  # these have no written example


def test_the_index_links_each_rule_to_its_page():
    rows, document = pages.index().splitlines()[2:], pages.document()
    assert len(rows) == len(RULES)
    for row, rule in zip(rows, RULES.values(), strict=True):
        anchor = re.search(r"\(#(.*?)\)", row).group(1)
        assert f"\n### {rule.code} {rule.name}\n" in document
        assert anchor == f"{rule.code} {rule.name}".lower().replace(" ", "-")
        assert rule.level.value in row


def test_headings_of_the_document_are_below_their_rule():
    titles = re.findall(
        r"^## (.*)$", re.sub(r"```.*?```", "", pages.document(), flags=re.DOTALL), re.MULTILINE
    )
    assert titles == list(dict.fromkeys(rule.category for rule in RULES.values()))


@pytest.mark.parametrize("given", ["TJ101", "tj101", "starts-program"])
def test_a_page_is_found_by_code_and_name(given):
    text = pages.page(given)
    assert text.startswith("# TJ101 starts-program\n")
    assert "level critical" in text
    assert text.rstrip().endswith(RULES["TJ101"].manual())


@pytest.mark.parametrize(
    ("given", "near"),
    [("TJ11", "'TJ1"), ("starts-programs", "'starts-program'"), ("", ""), ("nothing like it", "")],
)
def test_an_unknown_code_names_the_nearest_and_how_to_see_all(given, near):
    with pytest.raises(pages.UnknownRuleError, match="no rule") as caught:
        pages.page(given)
    assert near in str(caught.value)
    assert ("Did you mean" in str(caught.value)) is bool(near)
    assert "%tract rules" in str(caught.value)
