"""The smaller differences to Liquid, as docs/templates.md lists them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tract_jupyter.exceptions import TemplateError
from tract_jupyter.runs.templates import parse

DATA = {
    "s": "hello",
    "n": 5,
    "l": [3, 1, 2],
    "h": {"k": "v", "k2": "w"},
    "m": [{"t": "x"}, {"t": "y"}, {}],
    "none": None,
    "bar baz": "root",
    "1a": "digits",
}
DIFFERENCES = [
    ("{{ ['bar baz'] }}", None),
    ("{{ 1a }}", None),
    ("{{ 1e3 }}", None),
    ("{{ (1..n).size }}", None),
    ("{{ }}", None),
    ("{% echo %}", None),
    ("{{ s | default: }}", None),
    ("{% case n %}{% else %}a{% when 5 %}b{% endcase %}", None),
    ("{{ s | upcase: 1 }}", None),
    ("{{ '5abc' | plus: 1 }}", None),
    ("{{ 'x' | ceil }}", None),
    ("{{ true | plus: 1 }}", None),
    ("{{ 12 | round: 'x' }}", None),
    ("{% for i in ('a'..'c') %}{{ i }}{% endfor %}", None),
    ("{{ l | sort: nosuch }}", None),
    ("{{ l | sum: nosuch }}", None),
    ("{% for i in l %}{{ forloop.name }}{% endfor %}", ""),
    ("{% if l contains nil %}y{% else %}n{% endif %}", "n"),
    ("{% if n contains 5 %}y{% else %}n{% endif %}", "n"),
    ("{% if empty == empty %}y{% else %}n{% endif %}", "n"),
    ("{{ 1234 | round: -2 }}", "1200"),
    ("{{ 4.5 | round }} {{ 2.675 | round: 2 }}", "5 2.68"),
    ("{{ 'a,b,,' | split: ',' | size }}", "2"),
    ("{{ s | split }}", "hello"),
    ("{{ s | truncate: nosuch }}", "..."),
    ("{% tablerow i in none %}x{% endtablerow %}", '<tr class="row1">\n</tr>\n'),
    ("{% break %}x", ""),
    ("{{ '2026-01-02' | date: '' }}", "2026-01-02"),
]
"""Templates and their output here; None if they are refused or end with an error."""


@pytest.mark.parametrize(("template", "text"), DIFFERENCES)
def test_each_documented_difference_is_true(template, text):
    try:
        made = parse(template).render(DATA, now="2026-01-02T03:04:05Z")
    except TemplateError:
        made = None
    assert made == text


def test_the_page_states_each():
    page = (Path(__file__).parents[3] / "docs" / "templates.md").read_text()
    stated = page.partition("## Smaller differences")[2].partition("\n## ")[0].replace("\\|", "|")
    assert [template for template, _ in DIFFERENCES if f"`{template}`" not in stated] == []
