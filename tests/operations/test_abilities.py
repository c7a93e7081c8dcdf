"""The summary of the abilities of code, for a new operation and for a new version."""

import json

import pytest

from tract_jupyter.operations import ActionDef, Advice, OperationSpec


def summary(tract, *codes, isolation="", approve=True):
    """Return the summary of the last version, after approving the earlier versions."""
    said = ""
    for number, code in enumerate(codes):
        action = ActionDef("go", "Go.", {}, code, **({"isolation": isolation} if isolation else {}))
        spec = OperationSpec("one", "Do it.", {"path": {"type": "str"}}, {"go": action}, version=str(number))
        pending = tract.propose_operation(spec)
        tables = {table.title: table for table in pending.review_request().tables}
        (said,) = [table.summary for table in tables.values() if table.title.startswith("What it can")]
        pending.approve()
    return said


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("pending.approve()", "No use of files, the network, other programs, tools or the context was found."),
        ("import subprocess\nsubprocess.run(['ls'])", "Can start other programs."),
        ("open('notes.txt').read()", "Can read notes.txt."),
        ("open(pending.fields['path'], 'w').write('x')", "Can write any file."),
        ("import os\nos.remove('a')\nopen('b', 'w')", "Can delete a and write b."),
        ("words = pending.tract.compile()", "Can read the context."),
        ("pending.tract.commit('x')", "Can change the context."),
        ("import requests\nrequests.get('https://example.com/x')", "Can contact example.com."),
        ("import requests\nrequests.get(pending.fields['path'])", "Can use the network."),
        ("tools.save_table(rows=1)", "Can call the tool save_table."),
        ("tools.a()\ntools.b()\ntools.c()\ntools.d()", "Can call the tools a, b and 2 more tools."),
        (
            "import subprocess\nsubprocess.run(['ls'])\npending.tract.log()\nopen(pending.fields['path'], 'w')",
            "Can start other programs, write any file and read the context.",
        ),
    ],
)  # fmt: skip
def test_a_summary_lists_the_abilities_of_a_new_operation(tract, code, said):
    assert summary(tract, code) == said


def test_the_summary_of_a_new_version_starts_with_new_abilities(tract):
    before = "pending.tract.log()\nopen(pending.fields['path'], 'w').write('x')\npending.approve()"
    after = "import subprocess\nsubprocess.run(['ls'])\npending.tract.log()\npending.approve()"
    said = "New: start other programs. Unchanged: read the context. No longer: write any file."
    assert summary(tract, before, after) == said
    assert (
        summary(tract, after, after + "\nprint(1)") == "Unchanged: start other programs and read the context."
    )


def test_the_request_text_contains_the_summary(tract):
    from tract_jupyter.review import request_text

    spec = OperationSpec("one", "Do it.", {}, {"go": ActionDef("go", "Go.", {}, "open('a').read()")})
    ticket = tract.reviewer.show(tract.propose_operation(spec))
    assert "What it can access: Can read a." in request_text(ticket.request, ticket.status)


def test_a_sentence_survives_a_restart(tract):
    from tract_jupyter.review import request_from_dict, request_to_dict

    spec = OperationSpec("one", "Do it.", {}, {"go": ActionDef("go", "Go.", {}, "open('a').read()")})
    request = tract.propose_operation(spec).review_request()
    assert request_from_dict(json.loads(json.dumps(request_to_dict(request)))).tables == request.tables


NOTHING = "No use of files, the network, other programs, tools or the context was found."
DATABASE = "import sqlite3\ncon = sqlite3.connect('shop.db')\n"
CELLS = [
    # tables
    ("import pandas as pd\ndf = pd.read_csv('data.csv')\ndf.describe()", "Can read data.csv."),
    ("df = pd.read_csv('data.csv')\ndf.to_csv('out.csv')", "Can write out.csv and read data.csv."),
    ("df.to_csv(path)", "Can write any file."),
    ("df = pd.read_csv(path)", "Can read any file."),
    ("text = df.to_csv()", NOTHING),
    ("df.groupby('a').sum().plot()", NOTHING),
    ("pd.read_csv('https://example.com/data.csv')", "Can contact example.com."),
    ("df.to_parquet('a.parquet')\npd.read_parquet('a.parquet')", "Can write a.parquet and read a.parquet."),
    # files
    ("from pathlib import Path\nfor p in Path('.').glob('*.csv'):\n    p.stat()", "Can read *.csv."),
    ("from pathlib import Path\nfor p in Path('data').rglob('*.txt'):\n    p.read_text()", "Can read data/*.txt."),
    ("from pathlib import Path\n[p.read_text() for p in sorted(Path('data').iterdir())]", "Can read data."),
    ("import os\nfor f in os.listdir('data'):\n    open(os.path.join('data', f)).read()", "Can read files in data."),
    ("import os\nos.listdir()", "Can read this folder."),
    ("open(f'data/{name}')", "Can read files in data."),
    ("plt.savefig(f'out/{name}.png')", "Can write out/….png."),
    ("import glob\npd.concat(map(pd.read_csv, glob.glob('data/*.csv')))", "Can read any file."),
    ("from pathlib import Path\nPath('out').mkdir()\n(Path('out') / 'a.txt').write_text('x')", "Can write out/a.txt."),
    ("from pathlib import Path\nPath('data.csv').unlink()", "Can delete data.csv."),
    ("import os, sys\nfrom pathlib import Path\nimport tempfile", NOTHING),
    ("import os\nprint(os.getcwd())", NOTHING),
    ("import os\nos.rename('a.csv', 'b.csv')", "Can delete a.csv and write b.csv."),
    ("import shutil\nshutil.copy('data.csv', 'b.csv')", "Can write b.csv and read data.csv."),
    ("with open('data.csv', 'a') as f:\n    f.write('y')", "Can change the existing file data.csv."),
    ("with open('data.csv', 'w') as f:\n    f.write('y')", "Can overwrite the existing file data.csv."),
    ("open('/etc/passwd').read()", "Can read /etc/passwd."),
    ("import zipfile\nzipfile.ZipFile('d.zip').extractall('data')", "Can write data and read d.zip."),
    ("import pickle\npickle.load(open('m.pkl', 'rb'))", "Can run code that a file holds and read m.pkl."),
    ("import numpy as np\nnp.save('a.npy', x)", "Can write a.npy."),
    # databases
    (DATABASE + "con.execute('select 1')", "Can read shop.db."),
    (DATABASE + "con.execute('alter table t add column c')", "Can change the existing file shop.db."),
    (DATABASE + "con.execute('drop table t')", "Can change the existing file shop.db."),
    (DATABASE + "df = pd.read_csv('data.csv')\ndf.to_sql('t', con)", "Can change the existing file shop.db and read data.csv."),
    (DATABASE + "con.executescript(open('a.sql').read())", "Can change the existing file shop.db and read a.sql."),
    (DATABASE + "con.executescript(Path('a.sql').read_text())", "Can change the existing file shop.db and read a.sql."),
    (DATABASE + "con.execute(requests.get('https://example.com/a').text)", "Can contact example.com and change the existing file shop.db."),
    (DATABASE + "shutil.copy('shop.db', 'b.db')\nsqlite3.connect('b.db').execute('vacuum')", "Can write b.db and read shop.db."),
    ("import sqlite3\nsqlite3.connect(':memory:').execute('create table t (a)')", NOTHING),
    ("import sqlite3\nsqlite3.connect('file:shop.db?mode=ro', uri=True).execute(q)", "Can read shop.db."),
    ("import sqlite3\nsqlite3.connect(path).execute('insert into t values (1)')", "Can change any file."),
    ("import sqlite3\nsqlite3.connect('new.db').execute('create table t (a)')", "Can change new.db."),
    ("from sqlalchemy import create_engine, inspect\ninspect(create_engine('sqlite:///shop.db'))", "Can read shop.db."),
    ("df.to_sql('t', 'sqlite:///shop.db')", "Can change the existing file shop.db."),
    ("import duckdb\nduckdb.sql(\"select * from 'data.csv'\").df()", "Can read data.csv."),
    ("import duckdb\nduckdb.sql(\"copy (select 1) to 'out.parquet'\")", "Can write out.parquet."),
    ("import duckdb\nduckdb.connect('x.duckdb').sql('select 1').df()", "Can read x.duckdb."),
    ("import psycopg\npsycopg.connect('host=db dbname=shop').execute('insert into t values (1)')", "Can contact db and change a database."),
    ("con.execute('insert into t values (1)')", "Can change a database."),
    # the network and other programs
    ("import requests\nrequests.get('https://api.example.com/x')", "Can contact api.example.com."),
    ("import requests\nrequests.get(url)", "Can use the network."),
    (
        "import requests\nr = requests.get('https://example.com/d')\nopen('data.csv', 'wb').write(r.content)",
        "Can contact example.com and overwrite the existing file data.csv.",
    ),
    ("import urllib.request\nurllib.request.urlretrieve('https://example.com/d.zip', 'd.zip')", "Can contact example.com and write d.zip."),
    ("import subprocess\nsubprocess.run(['ls', '-l'])", "Can start other programs."),
    ("!ls -l", "Can start other programs."),
    ("import sys\nsys.exit()", "Can control processes."),
    ("name = input()", "Can wait for input."),
    ("%pip install pandas", "Can use the magic %pip."),
    ("%matplotlib inline\nimport numpy as np", "Can use the magic %matplotlib."),
    ("import os\nprint(os.environ['HOME'])", "Can read environment variables."),
    ("import os\nkey = os.environ['API_KEY']", "Can read secrets and environment variables."),
    # the rest
    ("import time\nfor i in range(3):\n    time.sleep(1)", NOTHING),
    ("from sklearn.linear_model import LinearRegression\nLinearRegression().fit(X, y)", NOTHING),
    ("eval('1 + 1')", "Can run code made of text."),
    ("from os.path import *", "Can import all names of a module."),
    ("f.__globals__", "Can look into Python's internals."),
    ("tools.save(x)", "Can call the tool save."),
]  # fmt: skip


@pytest.fixture
def advice(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("data.csv", "shop.db"):
        (tmp_path / name).write_text("x")
    return Advice()


@pytest.mark.parametrize(("code", "said"), CELLS)
def test_the_summary_of_an_ordinary_cell_agrees_with_its_findings(advice, code, said):
    assert advice.ability(advice.code_block("script", code)) == said


@pytest.mark.parametrize(
    ("before", "code", "said"),
    [
        (DATABASE, "con.execute('insert into t values (1)')", "Can change the existing file shop.db."),
        (DATABASE + "def add():\n    con.execute('insert into t values (1)')", "add()", "Can change the existing file shop.db."),
        ("path = 'data.csv'", "pd.read_csv(path)", "Can read data.csv."),
        ("path = 'data.csv'", "df.to_csv(path)", "Can overwrite the existing file data.csv."),
        ("from pathlib import Path\nbase = Path('data')", "for p in base.glob('*.csv'):\n    p.read_text()", "Can read data/*.csv."),
    ],
)  # fmt: skip
def test_a_summary_knows_the_cells_before(advice, before, code, said):
    assert advice.ability(advice.code_block("script", code, cells_before=[before])) == said
