"""Any text gets a verdict, in time."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.analysis.helpers import ANALYZER, analyze

SPECIAL = {
    "nul": ("'a\0b'", "TJ902"),
    "surrogate": ("x = '\ud800'", "TJ902"),
    "syntax": ("def f(:", "TJ901"),
    "number": ("x = " + "1" * 6000, "TJ901"),
    "brackets": ("(" * 5000, "TJ903"),
    "minus": ("-" * 100_000 + "1", "TJ903"),
    "lambdas": ("lambda: " * 5000 + "1", "TJ903"),
}


@pytest.mark.parametrize(("code", "rule"), SPECIAL.values(), ids=SPECIAL.keys())
def test_what_cannot_be_read_is_not_to_be_run(code, rule):
    (finding,) = analyze(code).findings
    assert finding.code == rule
    assert finding.level == "high"
    assert finding.category == "unknown"
    assert finding.reason.startswith("unknown: do not run")
    finding.text.encode()


def test_the_line_of_a_syntax_error_is_shown():
    finding = analyze("x = 1\n  y = = 2").findings[0]
    assert (finding.span.line, finding.span.column, finding.text) == (2, 2, "y = = 2")


@pytest.mark.parametrize(
    "code",
    [
        "", "\n", "\x0c", "\ufeffx = 1", "x = '\\d'", "'a\\0b'.split('\\0')", "open('a\\0b')", "open('\\ud800')",
        "+".join(["1"] * 20_000), "a" + ".b" * 20_000, "f" + "()" * 3000, "if x: pass\n" + "elif x: pass\n" * 3000,
        "x = '" + "a" * 10**6 + "'", "x = 9**9**9; y = 'a' * 10**9; open(y)", "open('a' * -5); open('a' * 10**6)",
        "import os\n" + "os" + ".os" * 500, "a0 = 'x'\n" + "\n".join(f"a{i} = a{i - 1} + a{i - 1}" for i in range(1, 200)),
        "x" + " " * 100_000 + "!", "%" * 10_000, "!" * 10_000, "\\\n" * 10_000, "?" * 10_000, "x = " * 5000 + "!",
        "def f(a):\n return f(f(a)) or f(os)\n" + "f(f)\n" * 500 + "f(os).system", "''.join(x)[::0]", "[1][5]; {}[0]; ''[9]",
        "\n".join(f"def f{i}(a): return f{i + 1}(a) or f{i + 1}(os) or f{i + 1}(f{i})" for i in range(60)) + "\nf0(os).system",
    ],
    ids=range(27),
)  # fmt: skip
@pytest.mark.timeout(20)
def test_odd_inputs_end_soon(code):
    assert analyze(code).summary()


@settings(max_examples=300, deadline=None)
@given(st.text())
def test_any_text(code):
    result = ANALYZER.analyze(code, cells_before=[code])
    assert result.summary()


PIECES = [
    "os", "eval", "getattr", "'a'", "b'x'", "open", "import ", "from ", " as ", "*", "(", ")", "[", "]", "{", "}",
    ":", "=", ":=", ".", ",", "\n", "\n    ", "%", "%%", "!", "?", "def f", "lambda x", "for x in ", "if ", "1", "-1",
    "f'{x}'", "x", "class A", "@", "\\\n", "'''", "+", "/", "Path", "'/etc'", "return ", "await ", "[::-1]", "\r",
]  # fmt: skip


@settings(max_examples=500, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
def test_any_mixture_of_python(code):
    for finding in analyze(code).findings:
        assert finding.reason.find("gave up") < 0 or "Syntax" in finding.reason
        assert finding.span.line <= finding.span.end_line


def test_it_works_in_a_thread():
    results = []
    thread = threading.Thread(target=lambda: results.append(analyze("eval('1')")))
    thread.start()
    thread.join()
    assert results[0].findings
