"""Notebook tasks with their effects: the code that a model writes, and all that it changes.

Each task runs after `SETUP`. `variables` and `files` are all effects: `+` is created, `~` changed, `-` deleted. Imports and
random states do not count. `problem` names the variables, files and settings that have no safe form.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any, NamedTuple

from tests.rehearsal.folders import write_files
from tract_jupyter.rehearsal import Encoder, UnsafeValueError, digest

SETUP = """
import json, math, os, pathlib, random, re, sqlite3, collections, datetime as dt
import numpy as np, pandas as pd
df = pd.DataFrame({"name": [f"bird {n % 7}" for n in range(40)], "day": [f"2026-03-{1 + n % 28:02}" for n in range(40)], "n": range(40)})
view = df
sales = pd.DataFrame({"region": list("NSEW") * 5, "month": pd.date_range("2026-01-01", periods=20, freq="D"), "amount": np.arange(20) * 1.5})
arr = np.arange(12.0).reshape(3, 4)
row = arr[1]
numbers = [3, 1, 2]
config = {"depth": 3, "names": ["a", "b"]}
text = "The quick brown fox"
log = []
rng = np.random.default_rng(1)
def note(x): log.append(x)
class Counter:
    def __init__(self): self.value = 0
    def add(self): self.value += 1
counter = Counter()
"""

FILES = {
    "data/birds.csv": "name,day,n\n"
    + "".join(f"bird {n % 7},2026-03-{1 + n % 28:02},{n}\n" for n in range(40)),
    "data/old.csv": "a,b\n1,2\n",
    "notes.txt": "first line\nsecond line\nthird line\n",
    "config.json": '{"depth": 3}\n',
    "events.jsonl": '{"id": 1, "kind": "a"}\n{"id": 2, "kind": "b"}\n',
}


class Task(NamedTuple):
    """One task.

    Attributes:
        code: The code.
        variables: `+new ~changed -deleted`, separated by spaces.
        files: The same for files.
        settings: Names of changed settings.
        problem: Names of the effects without a safe form.
        ending: How the code ends.
        refused: True if something is refused.
        needs: Packages that it needs.
        left_out: Names of drawings, which keeping the effects leaves out.
    """

    code: str
    variables: str = ""
    files: str = ""
    settings: tuple[str, ...] = ()
    problem: str = ""
    ending: str = "finished"
    refused: bool = False
    needs: str = ""
    left_out: str = ""


TASKS = {
    # pandas: looking
    "look at the first rows": Task("df.head()"),
    "describe": Task("df.describe()"),
    "types": Task("df.dtypes"),
    "info": Task("df.info()"),
    "count values": Task("df.name.value_counts()"),
    "missing values": Task("print(df.isna().sum().to_dict())"),
    "query": Task("df.query('n > 10').shape"),
    "group": Task("sales.groupby('region').amount.sum()"),
    "correlation": Task("sales[['amount']].corr()"),
    "a sample": Task("df.sample(3)"),
    "read a file": Task("pd.read_csv('data/birds.csv').shape"),
    "print a file": Task("print(pathlib.Path('notes.txt').read_text())"),
    "list files": Task("import os\nsorted(os.listdir('.'))"),
    "a loop that prints": Task("for name in ['a', 'b']:\n    print(name)", "+name"),
    # pandas: new variables
    "a new frame": Task("clean = df.dropna()", "+clean"),
    "a filter": Task("late = df[df.n > 20]", "+late"),
    "a grouped frame": Task("totals = sales.groupby('region', as_index=False).amount.sum()", "+totals"),
    "a pivot": Task("wide = sales.pivot_table(index='month', columns='region', values='amount')", "+wide"),
    "a merge": Task("merged = df.merge(sales, left_index=True, right_index=True)", "+merged"),
    "a category": Task("kinds = df.name.astype('category')", "+kinds"),
    "bins": Task("bins = pd.cut(df.n, 4)", "+bins"),
    "melt": Task("long = df.melt(id_vars='name')", "+long"),
    "concat": Task("both = pd.concat([df, df], ignore_index=True)", "+both"),
    "resample": Task("weekly = sales.set_index('month').amount.resample('W').sum()", "+weekly"),
    "a rolling mean": Task("smooth = sales.amount.rolling(3).mean()", "+smooth"),
    "nullable types": Task("typed = df.convert_dtypes()", "+typed"),
    "time zones": Task("local = sales.month.dt.tz_localize('Europe/Berlin')", "+local"),
    "a list of groups": Task("top = df.name.value_counts().head(5).index.tolist()", "+top"),
    "a dict of frames": Task("parts = {key: part for key, part in sales.groupby('region')}", "+parts"),
    "a read table": Task("birds = pd.read_csv('data/birds.csv', parse_dates=['day'])", "+birds"),
    "records": Task("records = df.head(2).to_dict('records')", "+records"),
    "an alias": Task("other = df", "+other"),
    # pandas: changes
    "a new column": Task("df['double'] = df.n * 2", "~df ~view"),
    "a changed cell": Task("df.loc[3, 'name'] = 'great tit'", "~df ~view"),
    "changed cells by mask": Task("df.loc[df.n > 30, 'n'] = 0", "~df ~view"),
    "rebind a frame": Task("df = df[df.n > 3]", "~df"),
    "rename columns": Task("df = df.rename(columns={'n': 'count'})", "~df"),
    "change a type": Task("df['day'] = pd.to_datetime(df.day)", "~df ~view"),
    "drop a column": Task("del df['day']", "~df ~view"),
    "columns in place": Task("df.columns = ['a', 'b', 'c']", "~df ~view"),
    "append a row": Task("df.loc[len(df)] = ['new', '2026-04-01', 40]", "~df ~view"),
    "sort": Task("sales = sales.sort_values('amount', ascending=False)", "~sales"),
    "delete a variable": Task("del sales", "-sales"),
    "through another name": Task("view['x'] = 1", "~df ~view"),
    "an equal copy": Task("df = df.copy()"),
    # numpy
    "an array": Task("squares = arr ** 2", "+squares"),
    "an array in place": Task("arr *= 2", "~arr ~row"),
    "a view in place": Task("row[:] = 0", "~arr ~row"),
    "a new view": Task("first = arr[0]", "+first"),
    "a mask": Task("mask = arr > 5", "+mask"),
    "statistics": Task("print(arr.mean(), arr.std())"),
    "linear algebra": Task("u, s, vt = np.linalg.svd(arr)", "+s +u +vt"),
    "random numbers": Task("draws = rng.normal(size=5)", "+draws ~rng"),
    "the global generator": Task("np.random.seed(3); draws = np.random.rand(4)", "+draws"),
    "structured": Task("people = np.array([('a', 1)], dtype=[('name', 'U3'), ('age', 'i4')])", "+people"),
    "save an array": Task("np.save('arr.npy', arr)", files="+arr.npy"),
    # plain Python
    "a number": Task("total = sum(numbers)", "+total"),
    "a list in place": Task("numbers.append(4)", "~numbers"),
    "a sorted list": Task("numbers.sort()", "~numbers"),
    "a dict in place": Task("config['names'].append('c')", "~config"),
    "a global by a function": Task("note('done')", "~log"),
    "an object in place": Task("counter.add()", "~counter", problem="counter"),
    "looking at an object": Task("counter.value"),
    "a comprehension": Task("lengths = {word: len(word) for word in text.split()}", "+lengths"),
    "two names": Task("a = b = [1]", "+a +b"),
    "a counter": Task("counts = collections.Counter(text)", "+counts"),
    "dates": Task("start = dt.date(2026, 1, 1); stop = start + dt.timedelta(days=3)", "+start +stop"),
    "a path": Task("where = pathlib.Path('data') / 'birds.csv'", "+where"),
    "a pattern": Task("words = re.compile(r'\\w+').findall(text)", "+words"),
    "a tuple of frames": Task("pair = (df, sales)", "+pair"),
    "a function": Task("def double(x):\n    return 2 * x\nsix = double(3)", "+double +six"),
    "a function with a decorator": Task("import functools\n@functools.cache\ndef slow(x):\n    return x", "+slow", problem="slow"),
    "a class": Task("class Bird:\n    pass", "+Bird", problem="Bird"),
    "a generator": Task("stream = (n for n in numbers)", "+stream", problem="stream"),
    "an import": Task("import statistics\nmean = statistics.mean(numbers)", "+mean"),
    "a cycle": Task("loop = [1]; loop.append(loop)", "+loop"),
    # files
    "write a table": Task("df.to_csv('out.csv', index=False)", files="+out.csv"),
    "overwrite a table": Task("t = pd.read_csv('data/birds.csv')\nt[t.n > 5].to_csv('data/birds.csv', index=False)", "+t", "~data/birds.csv"),
    "write the same table": Task("pathlib.Path('data/old.csv').write_text('a,b\\n1,2\\n')"),
    "write text": Task("pathlib.Path('report.md').write_text('# Report\\n')", files="+report.md"),
    "append text": Task("with open('notes.txt', 'a') as file:\n    file.write('more\\n')", "+file", "~notes.txt", problem="file"),
    "replace text": Task("p = pathlib.Path('notes.txt'); p.write_text(p.read_text().upper())", "+p", "~notes.txt"),
    "delete a file": Task("os.remove('data/old.csv')", files="-data/old.csv"),
    "rename a file": Task("os.rename('notes.txt', 'renamed.txt')", files="+renamed.txt -notes.txt"),
    "make folders": Task("os.makedirs('out/deep', exist_ok=True)\npathlib.Path('out/deep/a.txt').write_text('a')", files="+out/deep/a.txt"),
    "an empty folder": Task("os.mkdir('empty')", files="+empty/"),
    "delete a folder": Task("import shutil\nshutil.rmtree('data')", files="-data/ -data/birds.csv -data/old.csv"),
    "write JSON": Task("pathlib.Path('config.json').write_text(json.dumps(config))", files="~config.json"),
    "append JSON lines": Task("with open('events.jsonl', 'a') as f:\n    f.write('{\"id\": 3}\\n')\ndel f", files="~events.jsonl"),
    "many files": Task("for n in range(30):\n    pathlib.Path(f'part{n}.txt').write_text(str(n))", "+n", " ".join(f"+part{n}.txt" for n in range(30))),
    "binary": Task("pathlib.Path('data.bin').write_bytes(bytes(range(256)))", files="+data.bin"),
    "a mode": Task("os.chmod('notes.txt', 0o600)", files="~notes.txt"),
    "a link": Task("os.symlink('notes.txt', 'link.txt')", files="+link.txt", problem="link.txt"),
    "a database": Task("con = sqlite3.connect('new.db')\ncon.execute('create table t (a)')\ncon.commit(); con.close()\ndel con", files="+new.db"),
    "a table in a database": Task("with sqlite3.connect('birds.db') as con:\n    df.to_sql('birds', con, index=False)\ncon.close(); del con", files="+birds.db"),
    "an open connection": Task("con = sqlite3.connect(':memory:')", "+con", problem="con"),
    # settings
    "an environment variable": Task("os.environ['MODE'] = 'fast'", settings=("os.environ['MODE']",)),
    "the working folder": Task("os.chdir('data')", settings=("working folder",)),
    "an option of pandas": Task("pd.set_option('display.max_rows', 7)", settings=("pd.options['display.max_rows']",)),
    "print options": Task("np.set_printoptions(precision=3)", settings=("np.printoptions['precision']",)),
    # errors and refusals
    "an error": Task("x = 1\nraise ValueError('no')", "+x", ending="raised"),
    "a wrong column": Task("df['missing']", ending="raised"),
    "an error after a file": Task("pathlib.Path('a.txt').write_text('a')\n1/0", files="+a.txt", ending="raised"),
    "a syntax error": Task("x = = 1", ending="raised"),
    "a download": Task("import urllib.request\nurllib.request.urlopen('http://192.0.2.1/x', timeout=1)", ending="raised", refused=True),
    "a process": Task("import subprocess\nsubprocess.run(['touch', 'x'])", ending="raised", refused=True),
    # other libraries
    "a figure": Task("import matplotlib.pyplot as plt\nplt.plot([1, 2]); plt.savefig('plot.png'); plt.close()", files="+plot.png", needs="matplotlib"),
    "axes": Task("import matplotlib.pyplot as plt\nfig, ax = plt.subplots()", "+ax +fig", left_out="ax fig", needs="matplotlib"),
    "parquet": Task("df.to_parquet('df.parquet')\nback = pd.read_parquet('df.parquet')", "+back", "+df.parquet", needs="pyarrow"),
    "a table of pyarrow": Task("import pyarrow as pa\ntable = pa.table({'a': [1, 2], 's': ['x', None]})", "+table", needs="pyarrow"),
    "a frame of polars": Task("import polars as pl\nbirds = pl.DataFrame({'name': ['a', None], 'n': [1, 2]})", "+birds", needs="polars"),
    "polars from pandas": Task(
        "import polars as pl\ntop = pl.from_pandas(df).group_by('name').agg(pl.col('n').sum()).sort('name')", "+top", needs="polars"
    ),
    "polars looks": Task("import polars as pl\npl.read_csv('data/birds.csv').height", needs="polars"),
    "polars writes": Task("import polars as pl\npl.DataFrame({'a': [1]}).write_csv('new.csv')", files="+new.csv", needs="polars"),
    "lazy polars": Task(
        "import polars as pl\nlate = pl.scan_csv('data/birds.csv').filter(pl.col('n') > 30).collect()", "+late", needs="polars"
    ),
    "duckdb": Task("import duckdb\nbest = duckdb.sql('select name, max(n) as n from df group by name order by name').df()", "+best", needs="duckdb"),
    "a model": Task(
        "from sklearn.linear_model import LinearRegression\nmodel = LinearRegression().fit(arr, numbers)\nscore = model.score(arr, numbers)",
        "+model +score", problem="model", needs="sklearn",
    ),
}  # fmt: skip


class ToolTask(NamedTuple):
    """A task whose code calls tools. The first call that writes ends its rehearsal.

    Attributes:
        code: The code.
        rehearsed: The reported effects, as in `Task`: of all the code, or the files before this call.
        asks: The tool of this call; empty if all calls only read.
        changed: The effects of the run, variables and files.
        world: The changed parts of the world outside, with their contents after the run.
        error: The name of the script's error.
    """

    code: str
    rehearsed: str
    asks: str
    changed: str
    world: dict[str, object] = {}
    error: str = ""


TOOL_TASKS = {
    "read with a tool": ToolTask("free = tools.rooms()", "+free", "", "+free"),
    "book a room": ToolTask(
        "room = tools.rooms()[0]\nbooking = tools.book(room=room)", "+room", "book", "+booking +room", {"rooms": ["B"]}
    ),
    "insert rows": ToolTask(
        "for name in df.name.unique()[:2]:\n    tools.insert_row(name=name)\ndel name", "+name", "insert_row", "",
        {"rows": ["bird 0", "bird 1"]},
    ),
    "write and upload a table": ToolTask(
        "df.to_csv('out.csv', index=False)\nurl = tools.upload(path='out.csv')", "+out.csv", "upload", "+out.csv +url",
        {"uploads": ["out.csv"]},
    ),
    "change a table after a call": ToolTask(
        "tools.insert_row(name='tit')\ndf['seen'] = True", "", "insert_row", "~df ~view", {"rows": ["tit"]}
    ),
    "an error after a call": ToolTask(
        "tools.book(room='A')\ndf['missing']", "", "book", "", {"rooms": ["B"]}, error="KeyError"
    ),
}  # fmt: skip


class World:
    """The world outside of the kernel, which tools change: free rooms, rows of a database, uploaded files."""

    def __init__(self) -> None:
        self.rooms = ["A", "B"]
        self.rows: list[str] = []
        self.uploads: list[str] = []

    def define_tools(self, tract: Any) -> None:
        """Define the tools, each with its revert."""

        @tract.tool(read_only=True)
        def rooms() -> list[str]:
            """List the free rooms."""
            return self.rooms

        def cancel(room: str) -> None:
            self.rooms.append(room)
            self.rooms.sort()

        @tract.tool(revert=cancel)
        def book(room: str) -> int:
            """Book a room."""
            self.rooms.remove(room)
            return 7

        def delete_row(result: int) -> None:
            del self.rows[result:]

        @tract.tool(revert=delete_row)
        def insert_row(name: str) -> int:
            """Insert a row."""
            self.rows.append(name)
            return len(self.rows) - 1

        def remove(result: str) -> None:
            self.uploads.remove(result)

        @tract.tool(revert=remove)
        def upload(path: str) -> str:
            """Upload a file."""
            with Path(path).open():
                self.uploads.append(path)
            return path

    def state(self):
        """Return its contents."""
        return {name: list(value) for name, value in vars(self).items()}


MARKS = {"created": "+", "changed": "~", "deleted": "-"}


def started(folder: Path) -> dict[str, Any]:
    """Return the namespace and the files before a task."""
    write_files(folder, FILES)
    os.chdir(folder)
    random.seed(1)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(SETUP, namespace)
    namespace["np"].random.seed(1)
    return namespace


def content(namespace):
    """Return a digest of each variable with a safe form, and the type of the others."""
    found = {}
    for name, value in namespace.items():
        if name.startswith("__"):
            continue
        try:
            Encoder().encode(value)
        except UnsafeValueError:
            found[name] = type(value).__name__
        else:
            found[name] = digest(value)
    return found


def marked(effects, name):
    return " ".join(sorted(f"{MARKS[effect.action]}{getattr(effect, name)}" for effect in effects))


def in_order(text):
    return " ".join(sorted(text.split()))
