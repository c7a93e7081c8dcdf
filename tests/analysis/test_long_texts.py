"""The analysis reads texts of any length. Only computed texts are limited."""

from __future__ import annotations

import pytest

from tests.analysis.helpers import found

FILL = "select 1; " * 600
CODE = "x = 1\\n" * 1000 + "import os\\nos.system(1)"
SEEN = {
    "a statement": ("TJ206", f"c.execute('{FILL}DROP TABLE users')"),
    "by a name": ("TJ206", f"s = '{FILL}DROP TABLE users'\nc.execute(s)"),
    "joined": ("TJ206", f"s = '{FILL}'\nc.execute(s + 'DROP TABLE users')"),
    "joined with an unknown text": ("TJ206", f"s = '{FILL}DROP TABLE users'\nc.execute(s + x)"),
    "two long halves": ("TJ206", f"c.execute('{FILL[:4000]}' + '; DROP TABLE x;' + '{FILL[:4000]}')"),
    "an f-string": ("TJ206", f"s = '{FILL}DROP TABLE users'\nc.execute(f'{{s}} {{x}}')"),
    "a format": ("TJ206", f"c.execute('{FILL}DROP TABLE {{}}'.format(x))"),
    "percent": ("TJ206", f"c.execute('{FILL}DROP TABLE %s' % x)"),
    "lower case": ("TJ206", f"c.execute('{FILL}DROP TABLE x'.lower())"),
    "split": ("TJ206", f"for s in '{FILL}DROP TABLE x'.split(';'):\n    c.execute(s)"),
    "parts": ("TJ206", f"c.execute(' '.join(['{FILL}', '; DROP TABLE x']))"),
    "bytes": ("TJ206", f"c.execute(b'{FILL}DROP TABLE x')"),
    "a page": ("TJ304", f"from IPython.display import HTML\nHTML('{'<p>x</p>' * 900}<script>x</script>')"),
    "a file": ("TJ112", f"open('a.py', 'w').write('{CODE}')"),
    "a file by a method": ("TJ112", f"from pathlib import Path\nPath('a.py').write_text('{CODE}'.strip())"),
    "after many files": (
        "TJ112",
        "".join(f"f.write('import a{i}')\n" for i in range(30)) + "f.write('import os\\nos.system(1)')",
    ),
}


@pytest.mark.parametrize(("code", "text"), SEEN.values(), ids=SEEN.keys())
def test_a_long_text_is_seen(code, text):
    assert (code, "high") in found(text)


def test_a_long_text_without_anything_is_quiet():
    assert (
        found(f"c.execute('{FILL}')\nopen('a.txt', 'w').write('{FILL}')\nprint('{FILL}'.upper()[3:] * 2)")
        == set()
    )


def test_decoding_a_long_text_gives_an_unknown_value():
    assert ("TJ105", "high") in found(
        f"import base64, pandas as pd\npd.eval(base64.b64decode('{'QUFB' * 2000}'))"
    )
