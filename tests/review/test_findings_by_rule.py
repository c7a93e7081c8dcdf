"""Findings folded by rule. Every view of findings starts with this."""

from tract_jupyter.analysis import Finding, RiskLevel, Span
from tract_jupyter.review import by_rule, in_short, lines_text


def finding(code, line, level, *, reason="why", text="x"):
    return Finding(code, "process", RiskLevel(level), Span(line, 0, line, 1), text, reason, "do this", 1.0)


def test_the_worst_rule_is_first_and_then_the_lowest_number():
    found = [finding("TJ201", 1, "low"), finding("TJ301", 2, "high"), finding("TJ101", 9, "high"),
             finding("TJ502", 3, "low"), finding("TJ502", 4, "critical")]  # fmt: skip
    folded = by_rule(found)
    assert [(rule.code, rule.level.value) for rule in folded] == [
        ("TJ502", "critical"), ("TJ101", "high"), ("TJ301", "high"), ("TJ201", "low"),
    ]  # fmt: skip
    assert folded[0].worst.span.line == 4


def test_nothing_found_is_nothing_to_show():
    assert by_rule([]) == ()


def test_folded_findings_show_their_count_and_lines():
    assert by_rule([finding("TJ101", 3, "high")])[0].where == "line 3"
    assert by_rule([finding("TJ101", line, "high") for line in (8, 3, 3)])[0].where == "×3, lines 3 and 8"
    assert lines_text(range(1, 4)) == "lines 1, 2 and 3"
    assert lines_text(range(9, 0, -1)) == "lines 1, 2, 3 and others"


def test_reasons_are_distinct_by_level_with_the_same_text_as_one_place():
    found = [finding("TJ101", 1, "low"), finding("TJ101", 5, "high", text="a"), finding("TJ101", 6, "high", text="b"),
             finding("TJ101", 7, "high", text="a"), finding("TJ101", 8, "high", reason="other")]  # fmt: skip
    reasons = by_rule(found)[0].reasons()
    assert [(reason.level.value, reason.text) for reason in reasons] == [
        ("high", "why"), ("high", "other"), ("low", "why"),
    ]  # fmt: skip
    assert [(place.text, place.lines) for place in reasons[0].places] == [("a", (5, 7)), ("b", (6,))]


def test_the_short_line_of_a_rule_shows_the_highest_level_and_escapes_text():
    rule = by_rule([finding("TJ101", 2, "high", reason="\x1b[2Kwhy\u202e"), finding("TJ101", 1, "low")])[0]
    assert in_short(rule) == "high TJ101 ×2, lines 1 and 2: \ufffd[2Kwhy\ufffd"
