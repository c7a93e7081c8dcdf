"""The page of rules says which test holds which."""

from tests.runs import rules


def test_every_rule_has_a_test_that_names_it():
    named = rules.by_tests()
    assert [rule for rule in rules.RULES if rule not in named] == []
    others = {rule: tests for rule, tests in named.items() if rule not in rules.RULES}
    assert others == {}, "no such rules"


def test_the_page_is_up_to_date():
    assert rules.PAGE.read_text("utf-8") == rules.page(), "python -m tests.runs.rules writes it anew"
