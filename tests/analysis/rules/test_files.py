"""Paths count where something opens them, and nowhere else."""

from __future__ import annotations

import pytest

from tests.analysis.helpers import analyze, found
from tract_jupyter.analysis import CodeAnalyzer

OUTSIDE = [
    "open('/etc/passwd')", "open('../x')", "open('data/../../x')", "open(b'/etc/passwd')", "open(file='/etc/passwd')",
    "open('/' + 'etc')", "open('/'.join(['', 'etc', 'x']))", "open('cte/'[::-1])", "open(f'/etc/{x}')",
    "open('/etc/%s' % x)", "open('/etc/{}'.format(x))", "p = '/etc/x'\nopen(p)", "p = '/etc'\np += '/x'\nopen(p)",
    "import io\nio.open('/etc/x')", "import codecs\ncodecs.open('/etc/x')", "open('C:/x')", "open('file:///etc/x')",
    "import os\nopen(os.path.join('/etc', x))", "import os\nopen(os.path.expanduser('~') + '/.netrc')",
    "import os\nopen(os.pardir + os.sep + os.pardir + '/x')", "open(''.join(map(chr, [47, 101])))",
    "from pathlib import Path\nPath('/etc/x').read_text()", "from pathlib import Path\n(Path('/etc') / 'x').open()",
    "import pathlib\npathlib.Path.home().joinpath('x').write_text('')", "from pathlib import Path\nPath('a', '../../x').touch()",
    "import numpy as np\nnp.loadtxt('/etc/x')", "import pandas as pd\npd.read_csv('/etc/x')", "df.to_csv('/etc/x')",
    "import shutil\nshutil.copy('/etc/x', 'y')", "import shutil\nshutil.copy('y', '/etc/x')", "fig.savefig('/etc/x')",
    "import sqlite3\nsqlite3.connect('/etc/x')", "import os\nos.open('/etc/x', 0)", "import os\nos.symlink('/etc', 'x')",
    "import base64\nopen(base64.b64decode('L2V0Yy94'))", "def read(p):\n    return open(p)\nread('/etc/x')",
    "for p in ['a', '/etc/x']:\n    open(p)", "open('a' if x else '/etc/x')", "import zipfile\nzipfile.ZipFile('x').extractall('../..')",
]  # fmt: skip


@pytest.mark.parametrize("code", OUTSIDE)
def test_leaving_the_workspace(code):
    assert ("TJ204", "high") in found(code)
    assert analyze(code).external_paths


@pytest.mark.parametrize(
    "code",
    [
        "open('data.csv')", "open('/home/user/project/x')", "open('a/../b')", "open(p)", "open(f'{x}/y')",
        "open('/tmp/x')", "'/etc/passwd'", "route = '/api/users'", "x = {'/': '..'}", "print('/etc/passwd')",
        "'''Reads /etc/hosts.'''", "re.match('/etc/x', '/etc/y')", "session.open('../x')",
        "import os\nos.path.join('/', 'x')", "from pathlib import Path\nPath('/etc/x').name", "f('~')", "'~50%'",
        "open('.cache/x', 'w')", "open('.ipynb_checkpoints/x')", "import os\nos.makedirs('out', exist_ok=True)",
    ],
)  # fmt: skip
def test_staying_inside_or_not_a_path(code):
    assert found(code) == set()
    assert analyze(code).external_paths == ()


OVERWRITES = {
    "a frame": ("df = pd.read_csv('a.csv')\ndf.to_csv('a.csv')", "medium"),
    "a name": ("P = 'a.parquet'\nx = pd.read_parquet(P)\nx.to_parquet(P)", "medium"),
    "open": ("rows = open('a.jsonl').read()\nopen('a.jsonl', 'w').write(rows)", "medium"),
    "another file": ("df = pd.read_csv('a.csv')\ndf.to_csv('b.csv')", "low"),
    "its own file": ("df.to_csv('a.csv')\npd.read_csv('a.csv')\ndf.to_csv('a.csv')", "low"),
    "appended": ("x = open('a.csv').read()\nopen('a.csv', 'a').write(x)", "low"),
    "new": ("x = open('a.csv').read()\nopen('a.csv', 'x').write(x)", "low"),
    "no data": ("x = open('a.md').read()\nopen('a.md', 'w').write(x)", "low"),
}


@pytest.mark.parametrize(("code", "level"), OVERWRITES.values(), ids=OVERWRITES.keys())
def test_overwriting_data_that_was_read(code, level):
    assert (
        max(f.level for f in analyze("import pandas as pd\n" + code).findings if f.code == "TJ202") == level
    )


def test_overwriting_data_of_an_earlier_cell():
    assert ("TJ202", "medium") in found(
        "df.to_csv('a.csv')", "import pandas as pd\ndf = pd.read_csv('a.csv')"
    )


def test_overwriting_data_on_the_disk(tmp_path):
    (tmp_path / "a.csv").write_text("x")
    analyzer = CodeAnalyzer(tmp_path)
    assert analyzer.analyze("df.to_csv('a.csv')").max_risk_level == "medium"
    assert analyzer.analyze("df.to_csv('b.csv')").max_risk_level == "low"
    assert analyzer.analyze("open('a.csv', 'a')").max_risk_level == "medium"
    assert analyzer.analyze("open('b.csv', 'a')").max_risk_level == "low"
    assert analyzer.analyze("df.to_csv(path)").max_risk_level == "low"
    assert analyzer.analyze("df.to_csv()").max_risk_level is None  # returns a text
    assert analyzer.analyze("import io\ndf.to_csv(io.StringIO())").max_risk_level is None


def test_looking_is_less_than_reading():
    assert found("import os\nos.listdir('/etc')") == {("TJ204", "medium")}
    assert found("import glob\nglob.glob('/etc/*')") == {("TJ204", "medium")}


def test_reading_and_writing_have_their_own_codes():
    assert {f.code for f in analyze("open('x')").findings} == {"TJ201"}
    for code in (
        "open('x', 'w')",
        "open('x', mode='a')",
        "import gzip\ngzip.open('x', 'wt')",
        "open('x', 'r+')",
    ):
        assert "TJ202" in {f.code for f in analyze(code).findings}


def test_hidden_files_are_protected():
    assert found("open('.git/hooks/pre-commit', 'w')") == {("TJ205", "high")}
    assert found("open('.npm')") == {("TJ205", "medium")}
    assert found("open('.env')") == {("TJ205", "high")}
    assert found("from pathlib import Path\n(Path('.ipython') / 'x').write_text('')") == {("TJ205", "high")}


@pytest.mark.parametrize(
    "path",
    [
        "json.py", "./pydantic.py", "httpx/__init__.py", "numpy/linalg.py", "jedi.py", "json.pyc", "json.so",
        "json.cpython-314-x86_64-linux-gnu.so", "json/__init__.abi3.so", "__pycache__/birds.cpython-314.pyc",
    ],
)  # fmt: skip
def test_a_file_that_hides_a_module_controls_imports(path):
    """The next import of that name would run the file, without a request."""
    assert found(f"open({path!r}, 'w')") == {("TJ205", "high")}


@pytest.mark.parametrize(
    "path", ["test.py", "birds.py", "src/json.py", "json.csv", "random", "json/data.txt", "json.so.csv"]
)
def test_another_file_hides_no_module(path):
    assert found(f"open({path!r}, 'w')") == set()


def test_destruction_is_judged_by_amount_and_place():
    assert found("import os\nos.remove('x')") == {("TJ203", "medium")}
    assert found("import os\nos.remove('../x')") == {("TJ203", "high")}
    assert found("from pathlib import Path\nfor p in Path('.').rglob('*'):\n    p.unlink()") == {
        ("TJ203", "high")
    }
    assert found("import shutil\nfrom pathlib import Path\nshutil.rmtree(Path.home())") == {
        ("TJ203", "critical")
    }


def test_without_a_workspace_absolute_paths_are_outside(monkeypatch):
    monkeypatch.chdir("/usr/lib")  # nowhere near the temporary directory
    analyzer = CodeAnalyzer()
    assert analyzer.analyze("open('/srv/data.csv')").max_risk_level == "high"
    assert analyzer.analyze("open('data.csv')").max_risk_level == "low"
    assert analyzer.analyze("open('../data.csv')").max_risk_level == "high"


def test_links_are_followed(tmp_path):
    root = tmp_path / "project"
    root.mkdir()
    (root / "link").symlink_to("/etc")
    (tmp_path / "alias").symlink_to(root)
    analyzer = CodeAnalyzer(tmp_path / "alias")
    assert analyzer.analyze("open('link/passwd')").external_paths == ("link/passwd",)
    assert analyzer.analyze(f"open({str(root / 'x')!r})").external_paths == ()


def test_relative_paths_do_not_depend_on_the_current_directory(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert found("open('data.csv')") == set()
