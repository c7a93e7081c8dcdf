"""A panel and its record show the whole request, escaped, with findings below their lines."""

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.review.fakes import FakeChannel, click
from tract_jupyter.analysis import Finding, RiskLevel, Span
from tract_jupyter.models import distinct, printable
from tract_jupyter.notebook.panels import body_html, code_html, highlighted, record_html
from tract_jupyter.operations import ActionDef, OperationSpec
from tract_jupyter.review import CodeBlock, record_text, request_text

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
    parser.feed(str(html))
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


def test_the_record_is_self_contained_and_loads_no_address(ticket):
    html = record_html(ticket())
    assert "<style>" in html
    assert "://" not in html.replace("xmlns='http://www.w3.org/2000/svg'", "")
    assert "src=" not in html


def test_a_record_shows_the_decision_with_user_time_and_fingerprint(ticket, tract):
    made = ticket()
    pinned = f"fingerprint {made.request.fingerprint[:8]}"
    from tract_jupyter.review import Answer

    made.submit(Answer("reject", {"reason": HOSTILE}, made.round_id), "panel")
    assert made.settled.is_set()
    for text in (outline(record_html(made)).text, record_text(made)):
        assert re.search(r"rejected by \S+ \(panel\), \d{4}-\d\d-\d\d", text)
        assert HOSTILE in text
        assert pinned in text
        assert "rejected" in text


def test_a_finding_is_shown_below_its_line_and_marks_its_place():
    block = CodeBlock(
        "act", "a = 1\nos.system('x')\nb = 2\n", (finding(2, 0, 9),), header="def act(pending):"
    )
    html = code_html(block)
    assert re.search(r"<u class=\"high\">(<span[^>]*>|</span>)*os", html)
    text = outline(html).text
    assert text.index("os.system('x')") < text.rindex("high why") < text.index("b = 2")
    assert text.index("do this") < text.index("os.system('x')")


def test_findings_that_overlap_are_marked_once_under_the_worst():
    block = CodeBlock(
        "act", "abcdef", (finding(1, 0, 4, RiskLevel.LOW), finding(1, 2, 6, RiskLevel.CRITICAL))
    )
    html = code_html(block)
    assert html.count("<u class") == 1
    assert '<u class="critical">' in html
    assert outline(html).text.count("abcdef") == 1


def test_huge_code_is_shown_to_its_end():
    code = "".join(f"line_{n} = {n}\n" for n in range(5_000))
    text = outline(code_html(CodeBlock("act", code, (finding(4_000, 0, 4),)))).text
    assert all(f"line_{n} = {n}" in text for n in range(5_000))


def test_huge_values_are_cut_and_show_their_size(ticket):
    html = body_html(ticket(a="x" * 5_000_000))
    assert len(html) < 50_000
    assert "5,000,000 characters" in html
    assert "too long to display completely" in html


@pytest.mark.slow
def test_a_request_too_long_for_the_display_can_only_be_rejected(ticket):
    made = ticket(a="x" * 1_000_000)
    assert [action.name for action in made.request.actions] == ["reject"]
    answer(made, "reject")
    assert made.status == "rejected"


def test_a_replacement_of_an_operation_is_a_diff_with_changed_words_marked(tract):
    def spec(code):
        return OperationSpec("mail", "Send a mail.", {}, {"send": ActionDef("send", "Send it.", {}, code)})

    tract.register_operation(spec("greet('Ada')\npending.approve()\n"))
    ticket = tract.reviewer.show(tract.propose_operation(spec("greet('Bea')\npending.approve()\n")))
    html = body_html(ticket)
    outline(html)
    assert re.search(r'<div class="diff\b', html)
    assert re.search(r"<del>[^<]*Ada[^<]*</del>", html)
    assert re.search(r"<ins>[^<]*Bea[^<]*</ins>", html)


@given(st.text(), st.integers(0, 50), st.integers(0, 50))
def test_any_code_and_any_span_give_balanced_html(code, start, end):
    for language in ("python", "diff"):
        block = CodeBlock("t", code, (finding(1, start, end), finding(900, start, end)), language=language)
        parsed = outline(code_html(block))
        for line in code.replace("\r\n", "\n").replace("\r", "\n").rstrip("\n").split("\n")[:400]:
            assert distinct(line)[0] in parsed.text


def test_the_prompt_shows_code_findings_and_values(ticket):
    text = request_text(ticket().request)
    assert "os.system(x)" in text
    assert re.search(r"critical TJ101", text)
    assert "def act(pending, n: int):" in text
    assert f"Fields:\n  a: str = {HOSTILE!r}  # {HOSTILE}" in text  # with its description, below its heading
    assert "fingerprint" in text


UNSEEN = 'evil()  # \x1b[2K\u202e\u2066\u200b print("ok")\n'


def test_control_characters_in_code_are_shown_and_have_no_effect(ticket, monkeypatch):
    made = ticket()
    block = CodeBlock(
        "act\x1b[2K", f"a = 1\u2028\x0c\r{UNSEEN}", (finding(2, 0, 6, reason="\u202ewhy"),), marked=2
    )
    monkeypatch.setattr(made.pending, "asking_block", lambda: block)
    monkeypatch.setattr(type(made.pending), "title", "fire\r\x1b[2K")
    made.new_round("note\x1b[2K")
    shown = [outline(code_html(block)).text, request_text(made.request, made.status)]
    for text in shown:
        assert not set("\x1b\u202e\u2066\u200b\u2028\x0c\r") & set(text)
        assert printable(UNSEEN.rstrip()) in text
    assert (
        '>   2  evil()  # \ufffd[2K\ufffd\ufffd\ufffd print("ok")\n       ^ high TJ101: \ufffdwhy' in shown[1]
    )
    assert "\x1b" not in next(line for line in record_text(made).splitlines() if "evil()" in line)


ASKING = CodeBlock("Asked by a cell", "a = 1\ntools.go()\nb = 2\n", first_line=11, marked=12)


def test_the_line_that_asked_is_marked_and_counted_as_in_its_file():
    html = code_html(ASKING)
    assert re.findall(r'aria-hidden="true">(\d+)<', html) == ["11", "12", "13"]
    (row,) = re.findall(r'<div class="asks" role="group" aria-label="([^"]*)">', html)
    assert row == "line 12, which asked"
    assert html.index("asks") > html.index(">11<")


def test_a_finding_is_below_its_line_if_the_block_starts_at_a_later_line():
    block = CodeBlock("act", "a = 1\nb = 2\n", (finding(12, 0, 1),), first_line=11)
    text = outline(code_html(block)).text
    assert text.index("b = 2") < text.index("high why")


def test_text_forms_point_at_the_line_that_asked(ticket, monkeypatch):
    made = ticket()
    monkeypatch.setattr(made.pending, "asking_block", lambda: ASKING)
    made.new_round()
    assert ">  12  tools.go()" in request_text(made.request, made.status)
    assert "   11  a = 1" in request_text(made.request, made.status)
    assert ">  12  tools.go()" in record_text(made)
    assert "a = 1" not in record_text(made)


def test_why_a_person_is_asked_is_one_line_while_it_is_open(ticket):
    made = ticket()
    html = body_html(made)
    assert html.count('class="why"') == 1
    assert "the worst of level critical" in outline(html).text
    answer(made, "reject", reason="no")
    assert 'class="why"' not in body_html(made)


def test_the_returned_object_of_an_activation_is_not_shown_as_a_result(tract, spec):
    ticket = tract.reviewer.show(tract.propose_operation(spec()))
    made = ticket.pending.approve()
    assert made.__name__ not in body_html(ticket)
    ticket.pending.result = "zebra"
    assert "zebra" in body_html(ticket)


def test_the_record_shows_changes_made_before_approval(ticket):
    made = ticket()
    answer(made, "approve", edits={"a": "<b>new</b>"})
    parsed = outline(record_html(made))
    assert "Changed before approving" in parsed.text
    assert "'<b>new</b>'" in parsed.text
    assert f"changed a: {HOSTILE!r} → '<b>new</b>'" in record_text(made)


def test_an_invalid_edit_shows_an_error_and_decides_nothing(ticket):
    made = ticket()
    answer(made, "approve", edits={"a": 7})
    assert made.status.is_open
    assert "should be a valid string" in outline(body_html(made)).text
    assert "Changed before approving" not in body_html(made)


def test_the_record_says_which_standing_approval_was_given(ticket, tract):
    made = ticket()
    answer(made, "approve", scope="session", uses=2, pattern={"a": "<i>*"})
    said = "Not asked again in this session, for the next 2: a: <i>*; for user. %tract grants lists and revokes it."
    assert said in outline(record_html(made)).text
    assert said in record_text(made)


def test_a_standing_approval_covers_the_edited_values(ticket, tract):
    made = ticket()
    answer(made, "approve", scope="always", edits={"a": "safe"})
    assert "a = 'safe'" in record_text(made)
    assert [grant.covers for grant in tract.review.grants.all()] == ["a = 'safe'"]


def answer(ticket, action, **arguments):
    from tract_jupyter.review import Answer

    assert ticket.submit(Answer(action, arguments, ticket.round_id), "panel")


PIECES = (
    "x", "self.y", ".print(", "print", " ", "    ", "\n", "\n", "\n    ", "'a'", 'f"{x!r:>{n}} {{"', "r'\\d'", "b''", '"""a\nb"""', "# note", "1_0",
    "0x1f", "1.5", ".5", "1e9j", "def ", "class ", "import os", "from a import b as c", "match x:", "case _:", "type X = ", "lambda: 0", "not in",
    "@on.it", "%time ", "!ls ", "?", "$", "\\\n", "…", "é", "'", '"', "async ", "yield", "None", ":=", "->", "[0]", "{", "}", "lazy import a",
)  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
def test_code_looks_as_pygments_has_it(text):
    """Use another name of the language: the lexer then has none of our patterns."""
    assert highlighted(text, "python") == highlighted(text, "py")


@pytest.mark.parametrize(
    "hidden", ["\u202e", "\u2066", "\u200b", "\x1b[2K", "\u2800", "!\ufe0f", "\U0001bca0"]
)
def test_output_and_results_have_marks_for_hidden_characters(tract, hidden):
    """In HTML and in text: printed, returned, raised, and used as a reason."""
    body = f"print('sent to ' + {hidden!r} + 'moc.live')\nx = 1"
    codes = {
        "printed": f"{body}\npending.approve()",
        "raised": f"{body}\nraise ValueError({hidden!r} + 'moc')",
    }
    tract.register_operation(
        OperationSpec("op", "d", {}, {name: ActionDef(name, "d", {}, code) for name, code in codes.items()})
    )
    seen = []

    def press(action):
        def step(ticket):
            seen.append(ticket)
            click(ticket, action)

        return step

    tract.reviewer.channel = FakeChannel(press("raised"), press("printed"))
    tract.reviewer.decide_now(tract.fire("op", {}, review=True))
    ticket = seen[-1]
    assert "sent to" in record_html(ticket)
    for shown in (record_html(ticket), record_text(ticket)):
        assert hidden[-1 if hidden[0] == "!" else 0] not in shown
        assert "\ufffd" in shown


def test_a_diff_marks_the_changed_words():
    diff = "@@ -1,2 +1,2 @@\n same\n-total = old(1)\n+total = new(1)\n-gone"
    html = code_html(CodeBlock("Change", diff, language="diff"))
    assert '<span class="gd">-total = </span><span class="gd w">old</span><span class="gd">(1)</span>' in html
    assert '<span class="gi w">new</span>' in html
    assert html.count(' w"') == 2
    assert outline(html).text.count("total = ") == 2
