"""Markdown of the model: its HTML, its limits, and text that arrives in pieces."""

from html.parser import HTMLParser

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.cpu import cpu_seconds
from tract_jupyter.notebook.chat import MarkdownStream, markdown, markdown_html

TAGS = {
    "p", "em", "strong", "s", "code", "pre", "a", "span", "div", "ul", "ol", "li", "blockquote", "hr", "br",
    "table", "thead", "tbody", "tr", "th", "td",
}  # fmt: skip
ATTRIBUTES = {"class", "href", "target", "rel", "role", "aria-level", "start"}


class Reader(HTMLParser):
    """Fails on HTML that runs or loads something."""

    def __init__(self):
        super().__init__()
        self.text = ""
        self.links = []

    def handle_starttag(self, tag, attrs):
        assert tag in TAGS
        assert {name for name, _ in attrs} <= ATTRIBUTES
        if tag == "a":
            given_ = dict(attrs)
            assert given_["href"].startswith(("http://", "https://", "mailto:"))
            assert given_["rel"] == "noopener noreferrer"
            self.links.append(given_["href"])

    def handle_data(self, data):
        self.text += data


def read(text):
    reader = Reader()
    reader.feed(markdown_html(text))
    reader.close()
    return reader


def test_prose_lists_tables_and_code():
    made = markdown_html(
        "A **b** ~~c~~ `d`\n\n1. x\n\n| a | n |\n|---|--:|\n| 1 | 2 |\n\n```py\nx = 1\n```\n"
    )
    assert "<p>A <strong>b</strong> <s>c</s> <code>d</code></p>" in made
    assert "<ol>\n<li>x</li>\n</ol>" in made
    assert '<th class="right">n</th>' in made
    assert '<pre class="out"><code>x = <span class="m">1</span></code></pre>' in made


FORMULAS = {  # « and » mark a typeset element, and ¤ a block
    r"Area $a_1 * b_2 * c$.": r"<p>Area «$a_1 * b_2 * c$».</p>",
    r"\(x^2\), $$\pi$$": r"<p>«$x^2$», ¤$$\pi$$»</p>",
    "$$\n\\int_0^1 x^2\\,dx\n+ \\frac{1}{3}\n$$": "<p>¤$$\\int_0^1 x^2\\,dx\n+ \\frac{1}{3}$$»</p>",
    r"\[ a < b \]": "<p>¤$$a &lt; b$$»</p>",
    r"$$\begin{pmatrix} a & b \end{pmatrix}$$": r"<p>¤$$\begin{pmatrix} a &amp; b \end{pmatrix}$$»</p>",
    # prices, code and marks of Markdown
    "From $5 to $6, $5-$6, $ a $": "<p>From $5 to $6, $5-$6, $ a $</p>",
    r"`$x$` \$x\$": "<p><code>$x$</code> $x$</p>",
    # commands that make links, load or define something
    r"$\href{javascript:alert(1)}{x}$": r"<p><code>\href{javascript:alert(1)}{x}</code></p>",
    "$$\n\\require{x}\n$$": '<pre class="out"><code>\\require{x}</code></pre>',
    r"$\def\x{1}$": r"<p><code>\def\x{1}</code></p>",
    r"$\begin{html}$": r"<p><code>\begin{html}</code></p>",
    r"$\begin\href$": r"<p><code>\begin\href</code></p>",
    r"$\unicode{65}$": r"<p><code>\unicode{65}</code></p>",
    r"$\style{x}{y}$": r"<p><code>\style{x}{y}</code></p>",
    "$a % b$": "<p><code>a % b</code></p>",
    r"$\é$": r"<p><code>\é</code></p>",
    "$<img src=x>$": "<p>«$&lt;img src=x&gt;$»</p>",
    # a long one scrolls
    f"${'a + ' * 25}b$": f"<p>¤$${'a + ' * 25}b$$»</p>",
    # not closed
    "$$\na\n\n- b": '<pre class="out"><code>$$\na</code></pre>\n<ul>\n<li>b</li>\n</ul>',
}


@pytest.mark.parametrize(("text", "made"), FORMULAS.items())
def test_a_formula_is_for_the_typesetter_or_in_the_code_font(text, made):
    for sign, kind in (("«", ""), ("¤", " block")):
        made = made.replace(sign, f'<span class="math{kind} mathjax_process tex2jax_process">')
    expected = made.replace("»", "</span>")
    assert markdown_html(text) == expected
    stream = MarkdownStream()
    for letter in text:
        stream.append(letter)
        stream.parts()
    assert "\n".join(part for _, part in stream.parts()) == expected


@pytest.mark.parametrize(
    ("text", "is_typeset"),
    [
        (r"\frac{\partial^2 \mathcal{L}}{\partial \theta_i \partial \theta_j} = \sqrt[3]{\frac{a}{1 + \frac{b}{c}}}", True),
        (r"\begin{aligned} \hat{y}_i &= \beta_0 + \left(\sum_{j=1}^{n} \beta_j x_{ij}\right) \\ &= 0 \end{aligned}", True),
        (" + ".join(rf"\sqrt[3]{{x_{{{n}}}}}" for n in range(9)), True),
        ("x^{" * 160 + "x" + "}" * 160, False),
        ("x^{" * 13 + "x" + "}" * 13, False),
        (r"\hat" * 150 + "x", False),
        (r"\sqrt " * 20 + "x", False),
        (r"\sqrt[" * 20 + "x", False),
        (r"\sqrt [3" * 20 + "x", False),
        (r"\frac\frac\frac" * 9 + "x", False),
        (r"\left(" * 20 + "x" + r"\right)" * 20, False),
        (r"\begin{matrix}" * 20 + "x" + r"\end{matrix}" * 20, False),
        (r"{\hat{\sqrt" * 6 + "x", False),
        (r"a\!b", False),
        (r"a\quad" * 21, False),
        (r"a~" * 21, False),
        (r"a\\[400em]b", False),
        (r"a\\ * [400em]b", False),
        (r"a\\\\[400em]b", False),
        (r"a\\" * 21, False),
    ],
)  # fmt: skip
def test_a_deep_or_large_formula_is_shown_in_the_code_font(text, is_typeset):
    assert (" block mathjax_process" in markdown_html(f"$$\n{text}\n$$")) is is_typeset


def test_a_heading_has_its_level_and_no_anchor_of_the_front_end():
    assert markdown_html("## Two *b*") == (
        '<div class="h h2" role="heading" aria-level="4">Two <em>b</em></div>'
    )


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "a <b onclick='x()'>b</b>",
        "<div style='background:url(https://evil.example/)'>\n\n</div>",
        "[a](javascript:alert(1))",
        "[a](JaVaScRiPt:alert(1))",
        "[a](&#106;avascript:alert(1))",
        "[a](java\tscript:alert(1))",
        "[a](data:text/html,x)",
        "[a](vbscript:x)",
        "[a](file:///etc/passwd)",
        "[a](command:x)",
        "[a](/api/kernels)",
        "[a](//evil.example/x)",
        "[a](https:evil.example)",
        "[a](https:///evil.example)",
        "[a](https://evil.example%2f/)",
        "[a](https://[::1)",
        "[a](https://x:99999999/)",
        "[a](mailto:)",
        "<javascript:alert(1)>",
        "[a]: https://evil.example\n\n[a]",
        "![a](data:image/png;base64,AAAA)",
        "&lt;script&gt;alert(1)&lt;/script&gt;",
    ],
)
def test_a_link_without_a_web_address_is_shown_as_text(text):
    assert read(text).links == []


def test_html_and_script_links_are_shown_as_typed():
    assert read("a <script>x</script> [b](javascript:y)").text == "a <script>x</script> [b](javascript:y)"


def test_a_picture_is_its_description_and_address():
    assert (
        read("![a *cat*](https://evil.example/?q=1)").text
        == "[picture: a *cat*, not loaded: https://evil.example/?q=1]"
    )
    assert "…" in read("![](https://evil.example/" + "x" * 500 + ")").text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("[here](https://example.org/a)", "here (example.org)"),
        ("[https://good.example](https://evil.example)", "https://good.example (evil.example)"),
        ("[x](https://good.example@evil.example)", "x (evil.example)"),
        ("<https://good.example@evil.example>", "https://good.example@evil.example (evil.example)"),
        ("<https://example.org/a?b=ä>", "https://example.org/a?b=ä"),
        ("[example.org](https://example.org)", "example.org"),
        ("[write](mailto:ada@example.org)", "write (ada@example.org)"),
        ("[x](http://[::1]:8888/)", "x (::1)"),
        ("[b](https://bücher.example)", "b (xn--bcher-kva.example)"),
    ],
)
def test_a_link_has_its_host_beside_it_unless_it_is_the_address(text, shown):
    made = read(text)
    assert (made.text, len(made.links)) == (shown, 1)


def test_invisible_and_bidirectional_characters_are_marked():
    assert read("a\x1b[31m &#x202e;b \u200b").text == "a\ufffd[31m \ufffdb \ufffd"


def test_too_deeply_nested_markdown_is_shown_as_typed():
    assert "secret" in read("> " * 300 + "secret").text
    assert "secret" in read("- " * 300 + "secret").text


@pytest.mark.parametrize("piece", ["[", "![[]()", "*a **a ", "a`", "<", "[a]("])
def test_a_text_made_to_take_long_is_shown_whole(piece):
    assert len(read("a" + piece * 10_000).text) >= 10_000


@pytest.mark.parametrize(
    "text",
    [
        "> " * 8_000 + "a\n" * 8_000,
        "- " * 8_000,
        "|a" * 5_000 + "\n" + "|-" * 5_000 + "\n" + "|b" * 5_000,
        "|a" * 50 + "\n" + "|-" * 50 + "\n" + ("|b" * 50 + "\n") * 150,
        "* a\n" * 20_000,
    ],
)
def test_markdown_that_would_block_the_kernel_is_shown_as_typed(text):
    made = markdown_html(f"before\n\n{text}\n\n*after*")
    assert made.startswith("<p>before</p>\n<pre")
    assert made.endswith("</pre>\n<p><em>after</em></p>")


def test_a_growing_large_block_is_redrawn_only_from_time_to_time():
    stream = MarkdownStream()
    stream.append("- item\n" * 3_000)
    (drawn,) = stream.parts()
    stream.append("- *more*\n")
    assert stream.parts() == [drawn, ("0+", '<pre class="out">- *more*\n</pre>')]
    stream.append("- item\n" * 1_000)
    (drawn,) = stream.parts()
    assert "<em>more</em>" in drawn[1]


PATHOLOGICAL = {
    "brackets": ("[" * 299 + "\n\n") * 450,
    "brackets and marks": ("*[" * 290 + "\n\n") * 200,
    "pictures": "![" * 290 + "](\n\n",
    "links": "[a](http://x.y) " * 290 + "\n\n",
    "addresses": ("<http://a.b>" * 200 + "\n\n") * 40,
    "tables": ("|a|b|c\n|-|-|-\n" + "|1|2|3\n" * 600 + "\n") * 40,
    "paragraphs": "a\n\n" * 1_000_000,
    "one paragraph": "word " * 600_000,
    "a list": "".join(f"{number}. a\n" for number in range(2_000)),
    "a list with space": "- a\n\n" * 60_000,
    "a list of lists": "".join("  " * (number % 18) + "- a\n" for number in range(1_800)),
    "quotes that continue": "> " * 18 + "a\n" + "b\n" * 8_000,
    "quotes in steps": "".join("> " * level + "- a\n" for level in range(1, 19)) + "b\n" * 8_000,
    "headings": "# a\n" * 60_000,
    "marks": "_a " * 13_000,
    "code": "```python\n" + "x = f'{[1, 2]}'\n" * 60_000,
    "code that never closes": "```python\n" + "f'{x}'+(" * 4_000,
    "blocks of code": "```sh\n$(\n```\n" * 20_000,
    "entities": "&#x22;" * 100_000,
    "formulas": ("$a$ " * 140 + "\n\n") * 400,
    "formulas that never close": ("$a" * 299 + "\n\n") * 500 + "$$\n" + "\\[ a\n" * 9_000,
}
PIECES = 190


def streamed(text, pieces):
    """Return the CPU seconds for a text in pieces, the seconds of its longest frame, and the last display."""
    stream, size, frames, shown = MarkdownStream(), -(-len(text) // pieces), [], []
    for begin in range(0, len(text), size):
        stream.append(text[begin : begin + size])
        with cpu_seconds() as seconds:
            shown = stream.parts()
        frames += seconds
    return sum(frames), max(frames), shown


@pytest.mark.slow
@pytest.mark.parametrize("text", PATHOLOGICAL.values(), ids=PATHOLOGICAL)
@pytest.mark.parametrize("pieces", [1, PIECES])
def test_the_time_and_the_work_of_any_text_are_bounded(text, pieces, monkeypatch):
    """The parser reads a small multiple of the text, for any number of pieces.

    The allowed seconds are several times the usual duration, because the limit counts characters.
    """
    parsed = []
    parse = markdown._parsed
    monkeypatch.setattr(markdown, "_parsed", lambda text, at: parsed.append(len(text)) or parse(text, at))
    markdown_html("*warm*")
    seconds, longest, shown = streamed(text, pieces)
    assert seconds < 15
    assert longest < 8
    assert sum(len(made) for _, made in shown) > 0.3 * len(text)
    assert sum(parsed) < 30 * len(text) + 500_000


@pytest.mark.slow
def test_text_after_the_work_limit_is_shown_as_typed():
    text = "*a*\n\n" * 30_000
    made = markdown_html(text)
    assert made.startswith("<p><em>a</em></p>\n<p>")
    assert made.endswith("*a*\n\n</pre>")
    rendered = made.count("<em>")
    assert rendered + made.count("*a*") == 30_000
    stream = MarkdownStream()
    for begin in range(0, len(text), 999):
        stream.append(text[begin : begin + 999])
        before = stream.parts()
        assert [one for one, _ in before] == list(dict.fromkeys(one for one, _ in before))
    assert "\n".join(part for _, part in stream.parts()).count("<em>") == rendered


def test_an_ordinary_reply_is_far_from_the_bound():
    text = (
        "The **great tit** leads, with `180` sightings; see [the list](https://example.org/list).\n\n"
        "- the blackbird\n- the magpie\n\n| species | June |\n|---|--:|\n| great tit | 180 |\n\n"
        "```python\nrows = [row for row in table if row.month == 6]\n```\n\n"
    ) * 500
    made = markdown_html(text)
    assert len(text) > 100_000
    assert made.count("<table>") == made.count("<ul>") == made.count("<strong>") == 500


def test_only_languages_that_are_quickly_read_are_highlighted():
    assert "<span" not in markdown_html("```perl\nmy $x = 1;\n```")
    assert "<span" in markdown_html("```sh title\nfor x in a; do echo; done\n```")


def test_finished_blocks_do_not_change_while_text_is_added():
    stream = MarkdownStream()
    stream.append("One.\n\n- a\n- b\n\nThr")
    before = stream.parts()
    assert [key for key, _ in before] == ["0", "1", "2"]
    stream.append("ee.\n\nFour.")
    after = stream.parts()
    assert [one == two for one, two in zip(before, after, strict=False)] == [True, True, False]
    assert before[0] is after[0]
    assert [made for _, made in after][2:] == ["<p>Three.</p>", "<p>Four.</p>"]


def test_a_line_that_is_being_written_settles_nothing():
    stream = MarkdownStream()
    shown = []
    for part in ["para\n", "| a | b |\n", "|---|---", "|---|\n", "end"]:
        stream.append(part)
        shown.append(len(stream.parts()))
    assert shown == [1, 1, 2, 1, 1]


LINES = st.sampled_from(
    ["a", "# h", "#", "- i", "  - j", "1. k", "2) k", "> q", "```", "```py", "    c", "", "", "---", "***", "===", "|a|b|", "|-|-|",
     "|1|2|", "[r]: https://x.org", "[r]", "**b", "`c", "~~~", "\t", "a\\", "a  ", "<div>", "</div>", "\r", "![x](https://y.org)", "$$", "$$a", "b$$", "\\[", "\\]"]
)  # fmt: skip


@given(st.lists(LINES, max_size=14).map("\n".join), st.lists(st.integers(0, 80), max_size=8))
def test_a_text_in_pieces_is_the_text_as_a_whole(text, cuts):
    stream = MarkdownStream()
    before = []
    for begin, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(text)], strict=True):
        stream.append(text[begin:end] if begin < len(text) else "")
        now = stream.parts()
        assert now[: len(before) - 2] == before[: len(before) - 2] or len(before) < 2
        before = now
    assert "\n".join(made for _, made in before) == markdown_html(text)


@example("[x]()")
@given(st.text(alphabet="ab[]()<>!*_`~|#&;:$/\\\"'=- \n\t\r.@%x1jhtps", max_size=120))
def test_no_text_becomes_anything_else_than_prose(text):
    read(text)
