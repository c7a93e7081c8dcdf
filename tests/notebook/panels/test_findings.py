"""The list of findings above code, and the notes below its lines."""

import re

from tests.notebook.panels.test_render import HOSTILE, finding, outline
from tract_jupyter.analysis import CodeAnalyzer, Finding, RiskLevel, all_rules
from tract_jupyter.notebook.panels import code_html, findings_html, page_html
from tract_jupyter.review import CodeBlock

MANY = "import os\n" + "os.system('a')\n" * 12 + "os.remove('b')\n" * 12 + "eval(x)\nopen('c')\n" * 4


def block_of(code):
    return CodeBlock("act", code, CodeAnalyzer().analyze(code).findings)


def rows(html):
    return re.findall(r'<details class="row rule"[^>]*data-code="(\w+)"', html)


def test_a_row_for_each_rule_the_worst_first():
    html = code_html(block_of(MANY))
    listed = rows(html)
    assert listed[:2] == ["TJ101", "TJ102"]
    assert listed[-1] == "TJ201"
    assert len(set(listed)) == len(listed)
    text = outline(html).text
    assert "Starts another program ×12, lines 2, 3, 4 and others" in text
    assert text.index("Starts another program") < text.index("os.system('a')")


def test_the_count_names_each_level_worst_first():
    found = (
        finding(1, 0, 1, RiskLevel.LOW),
        finding(1, 2, 3, RiskLevel.CRITICAL),
        finding(2, 0, 1, RiskLevel.LOW),
    )
    text = outline(findings_html(CodeBlock("act", "abcdef\nx\n", found))).text
    assert text.startswith("3 findings: 1 critical 2 low")


def test_many_findings_leave_notes_for_the_worst_of_each_high_rule_only():
    html = code_html(block_of(MANY))
    notes = re.findall(r'class="mark (\w+)" role="note" data-code="(\w+)"', html)
    assert ("critical", "TJ101") in notes
    assert len(notes) == len(set(notes)) == 2
    assert {level for level, _ in notes} <= {"critical", "high"}
    assert len(re.findall(r'class="tag">[^/]*>TJ101<', html)) == 12  # each line names its rule


def test_few_findings_are_all_shown_below_their_lines():
    html = code_html(block_of("open('a')\nopen('b')\n"))
    assert html.count('role="note"') == 2


def test_a_row_opens_to_reasons_places_remedy_and_the_manual():
    text = outline(findings_html(block_of("import os\nos.system('a')\nos.system('b')\n"))).text
    assert "os.system starts another program." in text
    assert "lines 2 and 3: os.system" in text
    assert "Instead: Use a tool" in text
    assert "About rule TJ101 starts-program" in text
    assert "Why it matters" in text


def test_the_list_needs_no_script_and_each_part_has_a_unique_id():
    html = code_html(block_of(MANY))
    assert not re.search(r"<script|\son\w+=|href=", html)
    parts = re.findall(r'data-part="([^"]*)"', html)
    assert len(parts) == len(set(parts)) == html.count("<details")


def test_a_long_list_of_places_is_cut_and_says_so():
    found = tuple(finding(n, 0, 1, text=f"text {n}") for n in range(1, 41))
    text = outline(findings_html(CodeBlock("act", "x\n" * 40, found))).text
    assert "text 12" in text
    assert "text 13" not in text
    assert "… 28 more" in text


def test_findings_are_escaped_and_an_unknown_rule_is_shown_without_a_manual():
    found = finding(1, 0, 1, text=HOSTILE, reason=HOSTILE, remedy=HOSTILE)
    strange = Finding("TJ999", HOSTILE, RiskLevel.LOW, found.span, HOSTILE, HOSTILE, HOSTILE, 1.0)
    html = code_html(CodeBlock(HOSTILE, "abc\n", (found, strange), analysis_note=HOSTILE))
    parsed = outline(html)
    assert "script" not in parsed.tags
    assert parsed.text.count(HOSTILE) >= 6
    assert rows(html) == ["TJ101", "TJ999"]
    assert "About rule TJ999" not in parsed.text


def test_the_same_rule_at_a_lower_level_is_marked_as_such():
    found = (finding(1, 0, 1), finding(2, 0, 1, RiskLevel.LOW, reason="harmless"))
    assert "harmless low" in outline(findings_html(CodeBlock("act", "a\nb\n", found))).text


def test_the_note_about_the_analysis_is_shown_without_findings_too():
    note = "2 rules are switched off: TJ201, TJ303."
    assert note in outline(findings_html(CodeBlock("act", "a\n", analysis_note=note))).text
    assert findings_html(CodeBlock("act", "a\n")) == ""


def test_every_manual_page_is_shown_whole():
    for rule in all_rules():
        words = re.sub(r"```\w*|[`#]", "", rule.manual()).split()
        shown = outline(page_html(rule)).text
        assert [word for word in words if word not in shown] == []


def test_a_manual_page_is_escaped():
    class Hostile:
        @staticmethod
        def manual():
            return f"{HOSTILE}\n\n## What {HOSTILE}\n`{HOSTILE}`\n```python\n{HOSTILE}\n```"

    parsed = outline(page_html(Hostile))
    assert "script" not in parsed.tags
    assert parsed.text.count(HOSTILE) == 4
