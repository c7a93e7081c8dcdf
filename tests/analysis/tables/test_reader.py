"""The format of a table, and rules for all tables."""

from __future__ import annotations

import re

import pytest

from tract_jupyter.analysis import all_rules, canonical, levels, modules, symbols, words
from tract_jupyter.analysis.tables import magics

TABLE = """
    critical os: system
        popen
    high pathlib.Path(): unlink
    low .: requests.*
    medium *: __spec__
    high builtins:
    high os: popen
"""


def test_an_owner_and_each_name_make_a_dotted_name():
    assert set(levels(TABLE)) == {
        "os.system",
        "os.popen",
        "pathlib.Path().unlink",
        "requests.*",
        "*.__spec__",
        "builtins",
    }


def test_the_later_of_two_lines_counts():
    assert levels(TABLE)["os.popen"] == "high"


def test_an_unknown_level_is_an_error():
    with pytest.raises(ValueError, match="hihg"):
        levels("hihg os: system")


def test_a_table_of_modules_marks_harmless_modules():
    assert modules("low: a b.c\n  d\nnone: b.c.d") == {"a": "low", "b.c": "low", "d": "low", "b.c.d": None}


def test_other_tables():
    assert words("a\n b a") == {"a", "b"}
    assert symbols("read pandas: read_csv\n  read_json\nown-read p.P(): text") == {
        "pandas.read_csv": "read",
        "pandas.read_json": "read",
        "p.P().text": "own-read",
    }


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.code)
def test_names_are_well_formed(rule):
    for name in [*rule.symbols, *rule.modules]:
        assert re.fullmatch(r"(\?|\*|\w+(\(\))?)(\.(\*|\w+(\(\))?))*", name), name


OURS = (
    *("TJ101", "TJ102", "TJ104", "TJ105", "TJ106", "TJ107", "TJ108", "TJ109", "TJ110"),
    *("TJ401", "TJ402", "TJ403", "TJ404", "TJ405", "TJ406", "TJ501", "TJ502", "TJ503"),
)


@pytest.mark.parametrize(
    "rule", [rule for rule in all_rules() if rule.code in OURS], ids=lambda rule: rule.code
)
def test_names_in_tables_are_canonical(rule):
    # The resolver never looks up an alias, so such a line has no effect.
    aliased = {name: canonical(name) for name in [*rule.symbols, *rule.modules]}
    assert {name: other for name, other in aliased.items() if name != other and name[0] not in "?*"} == {}


def test_a_magic_of_the_shell_is_in_no_other_table():
    assert not magics.SHELL_CELL & set(magics.CELL)
    assert not magics.SHELL_LINE & set(magics.LINE)
