from __future__ import annotations

import pytest

from tests.analysis.helpers import analyze


def cut(code: str, span) -> str:
    lines = code.replace("\r\n", "\n").replace("\r", "\n").split("\n")[span.line - 1 : span.end_line]
    lines[-1] = lines[-1][: span.end_column]
    lines[0] = lines[0][span.column :]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("code", "line", "column", "text"),
    [
        ("import os\nif x:\n    os.system('a')", 3, 4, "os.system"),
        ("s = 'äöü→🎈'; eval('1')", 1, 13, "eval"),
        ("import os\r\nos.system('a')\r\n", 2, 0, "os.system"),
        ("'\x0c\u2028'\neval('1')", 2, 0, "eval"),
        ("import os\nos.\\\nsystem('a')", 2, 0, "os.\\\nsystem"),
        ("from os import path, system as s", 1, 21, "system as s"),
        ("getattr(__import__('os'), 'system')", 1, 0, "getattr(__import__('os'), 'system')"),
        ("x = 1\n  \n!ls -l", 3, 0, "!ls -l"),
        ("if x:\n    files = !ls", 2, 4, "files = !ls"),
        ("%timeit -n1 -r 1 eval('1')", 1, 17, "eval"),
        ("y = %timeit -o eval('1')", 1, 15, "eval"),
        ("%%time\nx = 1\neval('1')", 3, 0, "eval"),
        ("%%time eval('1')\nx = 1", 1, 7, "eval"),
        ("    x = 1\n    !ls\n    eval('ä')", 3, 4, "eval"),
        ("%%bash\nls\nrm x", 1, 0, "%%bash\nls\nrm x"),
        ("!ls \\\n  -l\neval('1')", 1, 0, "!ls \\\n  -l"),
        ("!ls \\\n  -l\neval('1')", 3, 0, "eval"),
    ],
)
def test_span_and_text_point_at_the_offending_source(code, line, column, text):
    spans = {(f.span.line, f.span.column, f.text) for f in analyze(code).findings}
    assert (line, column, text) in spans
    for finding in analyze(code).findings:
        assert cut(code, finding.span) == finding.text


def test_long_text_is_shortened():
    finding = analyze("!echo " + "x" * 5000).findings[0]
    assert len(finding.text) == 200
    assert finding.text.endswith("…")
