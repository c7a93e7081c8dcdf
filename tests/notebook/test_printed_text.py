"""Printed text and displayed HTML in a notebook."""

import pytest

from tests.cpu import cpu_seconds
from tract_jupyter.notebook.views import PrintedText, ansi_html, sanitized_html


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        (["one\n", "two"], "one\ntwo"),
        (["a\r\nb"], "a\nb"),
        (["\r 0%", "\r 50%", "\r100%", "\n"], "100%\n"),
        (["abc\rX"], "Xbc"),
        (["abc\r"], "abc"),
        (["abc\b\bX"], "aXc"),
        (["\rbar 1", "\n\rbar 2\x1b[A", "\rBAR 1", "\n\rBAR 2\x1b[A"], "BAR 1\nBAR 2"),
        (["\x1b[99A\b\bup"], "up"),
    ],
)
def test_lines_are_written_again(pieces, text):
    printed = PrintedText()
    for piece in pieces:
        printed.write(piece)
    assert printed.text() == text


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 7, 999, 200_000])
def test_long_text_keeps_its_beginning_and_end(size):
    whole = "first\n" + "x" * 80_000 + "\n" + "line\n" * 20_000 + "last"
    printed = PrintedText()
    for start in range(0, len(whole), size):
        printed.write(whole[start : start + size])
    text = printed.text()
    assert len(text) < 20_100
    assert text.startswith("first\nxx")
    assert text.endswith("line\nlast")
    assert f"… {len(whole) - 20_000:,} characters not shown" in text


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("<b>", "&lt;b&gt;"),
        ("\x1b[31mred\x1b[0m.", '<span style="color:#e75c58">red</span>.'),
        ("\x1b[1;92mok\x1b[22m!", '<span style="font-weight:600;color:#007427">ok</span><span style="color:#007427">!</span>'),
        ("\x1b[38;5;196mx", '<span style="color:#ff0000">x</span>'),
        ("\x1b[48;2;1;2;3mx\x1b[49my", '<span style="background-color:#010203">x</span>y'),
        ("\x1b[38;5mx\x1b[;;;m\x1b[999999m", "x"),
        ("\x1b]8;;http://a.example\x07link\x1b]8;;\x07\x1b[2K", "link"),
    ],
)  # fmt: skip
def test_colours_are_styles_and_all_else_is_text(text, html):
    assert ansi_html(text) == html


PATHOLOGICAL = {
    "codes": "\x1b[" + ";" * 800_000 + "m",
    "colours": "\x1b[" + "38;5;1;" * 200_000 + "m",
    "spans": "\x1b[31ma" * 200_000,
    "carriage returns": "x" * 1_600_000 + "\ry" * 400_000,
    "carriage returns alone": "\r" * 1_000_000,
    "backspaces": "x" * 1_600_000 + "\by" * 400_000,
    "line breaks": "\n" * 1_000_000,
    "line breaks of Windows": "\r\r\n" * 400_000,
    "long lines that are written again": "x" * 30_000 + "\n" + "y\x1b[Ay\n" * 200_000,
    "links that never end": "\x1b]" * 500_000,
    "codes that never end": "\x1b[" + "1;" * 500_000,
}


@pytest.mark.slow
@pytest.mark.parametrize("text", PATHOLOGICAL.values(), ids=PATHOLOGICAL)
def test_the_time_of_any_text_is_bounded(text):
    """The limit is several times the time on an ordinary machine."""
    with cpu_seconds() as seconds:
        printed = PrintedText()
        printed.write(text)
        assert len(printed.text()) < 20_100
        ansi_html(text)
    assert seconds[0] < 8


KEPT = [
    '<table border="1" class="dataframe"><tbody><tr><th colspan="2">a</th><td>1</td></tr></tbody></table>',
    '<p style="color: red;background: linear-gradient(90deg, red 5%, blue)">x</p>',
    '<img alt="x" src="data:image/png;base64,iVBORw0=">',
    '<details open=""><summary>s</summary>t</details>',
    "a &lt; b &amp; c<br>",
]


@pytest.mark.parametrize("html", KEPT)
def test_html_of_tables_and_text_is_kept(html):
    assert html in sanitized_html(html)


@pytest.mark.parametrize(
    ("html", "left"),
    [
        ("<script>alert(1)</script>x", "x"),
        ("<SCRIPT src=//a.example></SCRIPT >x", "x"),
        ("<scr<script>ipt>alert(1)</script>", "ipt&gt;alert(1)"),
        ('<p onclick="go()" data-act="undo" tabindex="0" role="button">x</p>', "<p>x</p>"),
        ('<a href="javascript:go()">x</a>', "<a>x</a>"),
        ('<a href=" java\tscript:go()">x</a>', "<a>x</a>"),
        ('<img src="https://a.example/x.png">', "<img>"),
        ('<img src="data:image/svg+xml;base64,AA==" onerror=go()>', "<img>"),
        ('<iframe src="x"></iframe><object data="x"></object><embed src="x">y', "y"),
        ("<form><button>Run</button><input></form>y", "y"),
        ("<svg><style><img src=x onerror=go()></style></svg>y", "y"),
        ('<math><mtext></p><style><!--</style><img title="--><img src=1 onerror=go()>">', ""),
        ('<p style="background: url(x); color: red; position:fixed">x</p>', '<p style=" color: red">x</p>'),
        ('<p style="background: \\75rl(x)">x</p>', "<p>x</p>"),
        ("<!-- <script> -->x", "x"),
        ("</div></div></section>x", "x"),
        ("<base href=x><meta http-equiv=refresh><link rel=stylesheet href=x>y", "y"),
        ("<noscript><p title='</noscript><img src=x onerror=go()>'>", ""),
        ("<style>@import 'x';</style>y", "y"),
        ("<style>a { background: url(x) }</style>y", "y"),
        ("<style>} body { display: none } a {</style>y", "y"),
        ('<style>a { content: "{" } } b { } c { content: "}" }</style>y', "y"),
        ("<style>a { content: '</style>y", "y"),
        ("<style>a { b: c", ""),
    ],
)  # fmt: skip
def test_nothing_runs_or_loads(html, left):
    made = sanitized_html(html)
    assert made.startswith('<div class="o-')
    assert made.partition(">")[2].removesuffix("</div>") == left


def test_styles_hold_within_their_output():
    css = "#T_1_row0_col0 {\n  background-color: #00441b;\n}\n#T_1 th:hover { color: 'a' }"
    made = sanitized_html(f'<style type="text/css">{css}</style><table id="T_1"></table>')
    scope = made.partition('class="')[2].partition('"')[0]
    readable = "background-color: #00441b;color:lch(from #00441b calc((50 - l) * infinity) 0 0)"
    expected = css.replace("background-color: #00441b;\n", readable)
    assert f"<style>.tract.tract .{scope} {{{expected}}}</style>" in made
