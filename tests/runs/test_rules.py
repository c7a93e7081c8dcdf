"""Each rule of runs has a test."""

from tests.runs import rules


def test_every_rule_has_a_test_that_names_it():
    named = rules.by_tests()
    assert [rule for rule in rules.RULES if rule not in named] == []
    others = {rule: tests for rule, tests in named.items() if rule not in rules.RULES}
    assert others == {}, "no such rules"


def test_the_printed_table_names_tests_and_vectors():
    table = rules.table()
    assert "R4: Prompt effects change the prompt of this one call" in table
    assert "runs/test_commit.py::test_a_rewrite_after_the_main_call_does_not_change_the_sent_prompt" in table
    assert "TPL-001" in table
