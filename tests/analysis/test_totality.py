"""Any text gets a result in limited time."""

from __future__ import annotations

import gc
import json
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.analysis.helpers import ANALYZER, analyze

VECTORS = Path(__file__).parents[1] / "vectors" / "analyzer.json"
PARSER_ERRORS = ("RecursionError", "MemoryError", "SyntaxError", "ValueError", "OverflowError")
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
def test_unreadable_code_is_reported_as_high(code, rule):
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


@pytest.mark.parametrize(
    "text",
    [
        "drop table" + " " * 2000 + "a" + " " * 2000 + "!",
        "{{" * 2000 + "x",
        "delete from " + "a" * 4000 + " where",
    ],
    ids=["spaces", "braces", "name"],
)
@pytest.mark.timeout(10)
def test_a_text_that_is_hard_to_match_ends_soon(text):
    statements = "\n".join(f"db.execute({text!r})\ndf.eval({text!r})" for _ in range(20))
    assert analyze(statements).summary()


@settings(max_examples=300)
@given(st.text())
def test_any_text(code):
    result = ANALYZER.analyze(code, cells_before=[code])
    assert result.summary()


PIECES = [
    "os", "eval", "getattr", "'a'", "b'x'", "open", "import ", "from ", " as ", "*", "(", ")", "[", "]", "{", "}",
    ":", "=", ":=", ".", ",", "\n", "\n    ", "%", "%%", "!", "?", "def f", "lambda x", "for x in ", "if ", "1", "-1",
    "f'{x}'", "x", "class A", "@", "\\\n", "'''", "+", "/", "Path", "'/etc'", "return ", "await ", "[::-1]", "\r",
]  # fmt: skip


@settings(max_examples=250)
@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
def test_any_mixture_of_python(code):
    for finding in analyze(code).findings:
        assert finding.reason.find("gave up") < 0 or "Syntax" in finding.reason
        assert finding.span.line <= finding.span.end_line


SNIPPETS = [vector["code"] for vector in json.loads(VECTORS.read_text(encoding="utf-8"))]


@st.composite
def mutated(draw):
    """A snippet with parts removed, doubled, swapped and inserted."""
    text = draw(st.sampled_from(SNIPPETS))
    for _ in range(draw(st.integers(1, 4))):
        first, last = sorted(draw(st.tuples(st.integers(0, len(text)), st.integers(0, len(text)))))
        part = text[first:last]
        text = text[:first] + draw(st.sampled_from(["", part + part, part[::-1], *PIECES])) + text[last:]
    return text


@settings(max_examples=250)
@given(mutated(), mutated())
def test_any_mutation_of_a_snippet(code, before):
    for finding in analyze(code, before).findings:
        assert "gave up" not in finding.reason or any(error in finding.reason for error in PARSER_ERRORS)
        assert finding.span.line <= finding.span.end_line
        finding.text.encode()


LARGE = {
    "a literal of 5 MB": ("x = '" + "a" * 5_000_000 + "'", None),
    "5 MB of marks in a literal": ("x = '" + "a,(;" * 1_250_000 + "'", None),
    "a million brackets": ("(" * 1_000_000, "TJ903"),
    "brackets that close": ("(" * 500_000 + ")" * 500_000, "TJ903"),
    "a million lines": ("x = 1\n" * 1_000_000, "TJ903"),
    "a long f-string": ("x = f'" + "{a}" * 190_000 + "'", "TJ903"),
    "a million signs": ("-" * 1_000_000 + "1", "TJ903"),
    "a million words": ("a " * 1_000_000, "TJ903"),
    "many stars": ("\n".join(f"from m{i} import *" for i in range(100)) + "\nx", "TJ903"),
    "many findings": ("eval(x)\n" * 12_000, "TJ903"),
}


@pytest.mark.timeout(30)
@pytest.mark.parametrize(("code", "rule"), LARGE.values(), ids=LARGE.keys())
def test_large_texts(code, rule):
    found = [finding.code for finding in analyze(code).findings if finding.code.startswith("TJ9")]
    assert found == ([rule] if rule else [])


@pytest.mark.timeout(30)
def test_many_names_that_depend_on_each_other():
    names = [", ".join(f"a{(i * j) % 300}" for j in range(1, 9)) for i in range(6000)]
    found = analyze("\n".join(f"a{i} = [{members}, os]" for i, members in enumerate(names))).findings
    # On a slow machine the analysis stops at its time limit and reports it.
    assert [finding.code for finding in found] in ([], ["TJ903"])


DEEP = {
    "frames": "def f(x0):\n" + "".join(f"  x{i + 1} = x{i}[x{i}['a'] > 0].dropna()\n" for i in range(60)),
    "layers": "def f(x0, y):\n"
    + "".join(f"  x{i + 1} = g(3)(h([x{i}, k()([x{i}, y])]))\n" for i in range(60)),
    "rounds": "def f(a, b, c, d):\n" + "  a, b, c, d = (a + b) & 9, (b ^ d) << 3, c + a, d - b\n" * 40,
    "functions": "".join(f"def f{i}(): return f{i + 1}()\n" for i in range(300)) + "f0()",
    "branches": "if x: a = 1\n" + "".join(f"elif x == {i}: a = b{i}\n" for i in range(150)),
    "names": "a0 = 1\n" + "".join(f"a{i + 1} = a{i}\n" for i in range(3000)),
}


@pytest.mark.parametrize("code", DEEP.values(), ids=DEEP.keys())
def test_long_chains_are_ordinary_code(code):
    assert analyze(code).findings == ()


QUADRATIC = {
    "many functions of a name": "def f(): pass\n" * 4000 + "f()\n" * 4000,
    "many waits": "import queue\nq = queue.Queue()\n" + "q.get()\n" * 4000 + "f(q)",
    "nested loops": "".join(" " * i + "while 1:\n" for i in range(98)) + " " * 98 + "tools.f();" * 8000,
    "comments that go on": "!ls\n" + "#\\\n" * 60_000,
    "many spaces within a line": "x = 1" + " " * 100_000 + "; y = 2\ny",
    "a long format": "open('%" + "0" * 4000 + "' % y)",
    "a long display": "from IPython.display import HTML\nHTML('src" + " " * 4000 + "')",
    "many links": "%%html\n" + "<a " * 60_000,
    "a sequence of sequences": "open([0] * 16 * 16 * 16 * 16 * 16 * 16 * 16)",
    "quotes": "'\\" * 100_000 + "(" * 200_001,
}


@pytest.mark.timeout(20)
@pytest.mark.parametrize("code", QUADRATIC.values(), ids=QUADRATIC.keys())
def test_nothing_takes_the_square_of_its_length(code):
    assert analyze(code).summary()


def test_a_failing_rule_does_not_stop_other_rules(monkeypatch):
    def fails(*_):
        raise KeyError("x")
        yield

    monkeypatch.setattr("tract_jupyter.analysis.rules.imports.ImportsUnknown.check", fails)
    found = {f.code: f.level for f in analyze("eval('1')").findings}
    assert found == {"TJ102": "critical", "TJ903": "high"}


def test_an_analysis_timeout_is_reported(monkeypatch):
    monkeypatch.setattr("time.thread_time", iter(range(1000)).__next__)
    (finding,) = [f for f in analyze("x = 1\n" * 2000).findings if f.code.startswith("TJ9")]
    assert (finding.code, finding.level) == ("TJ903", "high")
    assert finding.reason == "unknown: do not run (the analysis ran out of time)"


def test_analysis_restores_the_garbage_collector_setting():
    for enabled in (False, True):
        (gc.enable if enabled else gc.disable)()
        analyze("x = 1")
        assert gc.isenabled() is enabled


def test_analysis_works_in_a_thread():
    results = []
    thread = threading.Thread(target=lambda: results.append(analyze("eval('1')")))
    thread.start()
    thread.join()
    assert results[0].findings
