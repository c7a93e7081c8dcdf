"""What a panel and its record show: everything, escaped, with findings under their lines."""

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tract_jupyter.analysis import Finding, RiskLevel, Span
from tract_jupyter.hooks import ActionDef, OperationSpec
from tract_jupyter.notebook.panels.code import code_html
from tract_jupyter.notebook.panels.forms import action_form
from tract_jupyter.notebook.panels.render import body_html, record_html, record_text, request_text
from tract_jupyter.review.request import CodeBlock

VOID = {"br", "hr", "img", "input", "meta", "link"}
HOSTILE = '<script>alert(1)</script> & "quotes" \'n'


class Outline(HTMLParser):
    """Checks that tags are balanced, and collects the text."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.text, self.tags = [], "", set()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def outline(html):
    parser = Outline()
    parser.feed(html)
    parser.close()
    assert not parser.open
    return parser


def finding(line, start, end, level=RiskLevel.HIGH, **changes):
    parts = {"text": "x", "reason": "why", "remedy": "do this", "confidence": 1.0, **changes}
    return Finding("TJ101", "process", level, Span(line, start, line, end), **parts)


@pytest.fixture
def ticket(tract, spec):
    def make(**fields):
        hostile = OperationSpec(
            "hostile",
            HOSTILE,
            {"a": {"type": "str", "description": HOSTILE}},
            {
                "act": ActionDef(
                    "act", HOSTILE, {"n": "int"}, f"x = {HOSTILE!r}\nimport os\nos.system(x)\n", ["n"]
                )
            },
        )
        tract.register_operation(hostile)
        return tract.reviewer.show(tract.fire("hostile", {"a": HOSTILE, **fields}, review=True))

    return make


def test_everything_is_escaped(ticket):
    made = ticket()
    for html in (body_html(made), record_html(made)):
        parsed = outline(html)
        assert "script" not in parsed.tags
        assert HOSTILE in parsed.text
        assert "os.system" in parsed.text


def test_the_record_names_no_address_and_stands_alone(ticket):
    html = record_html(ticket())
    assert "<style>" in html
    assert "://" not in html
    assert "src=" not in html


def test_a_decision_is_shown_with_who_what_when_and_on_what(ticket, tract):
    made = ticket()
    pinned = made.request.fingerprint[:16]
    from tract_jupyter.review.decision import Answer

    made.submit(Answer("reject", {"reason": HOSTILE}, made.round_id), "panel")
    assert made.settled.is_set()
    for text in (outline(record_html(made)).text, record_text(made)):
        assert re.search(r"reject by \S+ \(panel\), \d{4}-\d\d-\d\d", text)
        assert HOSTILE in text
        assert pinned in text
        assert "rejected" in text


def test_a_finding_stands_under_its_line_and_marks_the_place():
    block = CodeBlock(
        "act", "a = 1\nos.system('x')\nb = 2\n", (finding(2, 0, 9),), header="def act(pending):"
    )
    html = code_html(block)
    assert re.search(r"<mark class=\"tract-high\">(<span[^>]*>|</span>)*os", html)
    text = outline(html).text
    assert text.index("os.system('x')") < text.index("TJ101") < text.index("b = 2")
    assert "do this" in text


def test_findings_that_overlap_are_marked_once_under_the_worst():
    block = CodeBlock(
        "act", "abcdef", (finding(1, 0, 4, RiskLevel.LOW), finding(1, 2, 6, RiskLevel.CRITICAL))
    )
    html = code_html(block)
    assert html.count("<mark") == 1
    assert '<mark class="tract-critical">' in html
    assert outline(html).text.count("abcdef") == 1


def test_huge_code_is_cut_but_its_findings_are_not():
    code = "".join(f"line_{n} = {n}\n" for n in range(5_000))
    html = code_html(CodeBlock("act", code, (finding(4_000, 0, 4),)))
    text = outline(html).text
    assert "more lines" in text
    assert "line_3999 = 3999" in text
    assert len(html) < 400_000


def test_huge_values_are_cut_and_their_size_is_said(ticket):
    html = body_html(ticket(a="x" * 5_000_000))
    assert len(html) < 50_000
    assert "5,000,000 characters" in html


@given(st.text(), st.integers(0, 50), st.integers(0, 50))
def test_any_code_and_any_span_give_balanced_html(code, start, end):
    for language in ("python", "diff"):
        block = CodeBlock("t", code, (finding(1, start, end), finding(900, start, end)), language=language)
        parsed = outline(code_html(block))
        for line in code.replace("\r\n", "\n").replace("\r", "\n").rstrip("\n").split("\n")[:400]:
            assert line in parsed.text


def test_the_form_has_an_input_for_each_parameter(tract):
    params = {
        "a": "str", "b": "int", "c": "float", "d": "bool", "e": "Literal['x', 'y']", "f": "list[str]", "g": "int | None",
        "h": "bool",
    }  # fmt: skip
    action = ActionDef("act", "Act", params, "pending.approve()", ["a", "b"], {"d": True})
    tract.register_operation(OperationSpec("op", "", {}, {"act": action}))
    request = tract.fire("op", review=True).review_request()
    form = action_form(request.action("act"))
    inputs = {p["name"]: p for p in form["parameters"]}
    kinds = {name: p["kind"] for name, p in inputs.items()}
    assert kinds == {
        "a": "text", "b": "integer", "c": "number", "d": "boolean", "e": "choice", "f": "json", "g": "integer", "h": "boolean",
    }  # fmt: skip
    assert inputs["e"]["choices"] == ["x", "y"]
    assert inputs["a"]["required"]
    assert not inputs["c"]["required"]
    assert inputs["d"]["value"] is True
    assert inputs["h"]["value"] is None


def test_the_prompt_shows_code_findings_and_values(ticket):
    text = request_text(ticket())
    assert "os.system(x)" in text
    assert re.search(r"critical TJ101", text)
    assert "def act(pending, n: int):" in text
    assert "fingerprint" in text
