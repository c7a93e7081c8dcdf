"""Each rule: what it must report, and what looks alike and must stay quiet."""

from __future__ import annotations

import pytest

from tests.analysis.helpers import analyze, codes, found

POSITIVE = {
    "TJ101": [
        "import subprocess\nsubprocess.run(['x'])", "from subprocess import Popen", "import pty\npty.spawn('x')",
        "import asyncio\nawait asyncio.create_subprocess_exec('x')", "import os\nos.execv('x', [])",
        "loop.subprocess_exec(p, 'x')", "from IPython.utils.process import getoutput",
    ],
    "TJ102": [
        "exec(x)", "f = eval", "compile(x, '', 'exec')", "import builtins\nbuiltins.eval(x)",
        "import timeit\ntimeit.timeit('x')", "__builtins__.exec(x)", "import pdb\npdb.run(x)",
        "from typing import get_type_hints", "ip = get_ipython()\nip.run_cell('x')", "get_ipython().system('ls')",
    ],
    "TJ103": ["!ls"],
    "TJ104": ["%pip install x"],
    "TJ105": ["df.query('@os.system(1) == 0')", "import jinja2\njinja2.Template(t)", "from sympy import sympify"],
    "TJ106": ["import os\nos._exit(1)", "import sys\nsys.exit()", "raise SystemExit", "import os\nos.fork()"],
    "TJ107": ["import ctypes\nctypes.CDLL(None)", "from cffi import FFI"],
    "TJ108": [
        "import pickle\npickle.loads(x)", "import yaml\nyaml.load(x)", "import torch\ntorch.load('x')",
        "import numpy as np\nnp.load('x', allow_pickle=True)", "import pandas as pd\npd.read_pickle('x')",
        "import yaml\nyaml.load(x, Loader=yaml.Loader)",
    ],
    "TJ109": ["import pip\npip.main([])"],
    "TJ110": ["import logging.config\nlogging.config.dictConfig({'()': 'x'})"],
    "TJ203": [
        "import os\nos.remove('x')", "from pathlib import Path\n(Path('a') / 'b').unlink()",
        "import shutil\nshutil.rmtree('x')", "import os\nos.rename('a', 'b')",
    ],
    "TJ204": ["open('/etc/passwd')"],
    "TJ205": ["open('.git/config', 'w')", "open('.env')"],
    "TJ206": ["c.execute('DROP TABLE x')", "c.execute('delete from x')"],
    "TJ301": [
        "import requests\nrequests.get('x')", "import socket\ns = socket.socket()", "import httpx\nhttpx.Client()",
        "from urllib.request import urlopen",
        "import smtplib\nsmtplib.SMTP('x')", "import http.client\nhttp.client.HTTPConnection('x')",
    ],
    "TJ302": ["import http.server\nhttp.server.HTTPServer(a, b)", "import socketserver\nsocketserver.TCPServer(a, b)"],
    "TJ303": ["import pandas as pd\npd.read_csv('https://example.org/x.csv')"],
    "TJ401": ["__import__(x)", "from importlib import import_module", "loader.load_module('x')", "__loader__.x"],
    "TJ402": [
        "().__class__.__mro__", "object.__subclasses__()", "f.__globals__", "x['__builtins__']", "g.gi_frame.f_back",
        "getattr(f, '__glo' + 'bals__')", "f.__code__ = g.__code__", "x = __builtins__", "a.b.__self__.c",
        "match x:\n    case object(__class__=k): pass",
    ],
    "TJ403": ["import gc\ngc.get_objects()", "import sys\nsys._getframe()", "import inspect\ninspect.stack()"],
    "TJ404": [
        "getattr(x, n)()", "import os\ngetattr(os, n)", "map(getattr, a, b)", "'{0.__class__}'.format(x)",
        "import operator\noperator.attrgetter(n)(x)",
    ],
    "TJ405": ["import json\njson.loads = f", "import sys\nsys.stdout = x", "import os\nsetattr(os, 'getcwd', f)"],
    "TJ406": ["import sys\nsys.path.insert(0, '/opt/x')", "import sys\nsys.meta_path.append(x)"],
    "TJ501": ["import os\nos.environ['API_KEY']", "import os\nprint(os.environ)", "from os import getenv"],
    "TJ502": ["import os\nos.environ['API_KEY'] = 'b'", "import os\nos.environ.update(a='b')", "import os\nos.putenv('a', 'b')"],
    "TJ503": ["import keyring\nkeyring.get_password('a', 'b')"],
}  # fmt: skip

QUIET = {
    "process": "import os\nos.path.join('a', 'b'); os.getcwd(); os.cpu_count(); os.sep; sys.version; sys.argv",
    "execution": "import ast, re, timeit\nast.literal_eval('1'); re.compile('x'); model.compile(); df.query('a > @b')",
    "deserialisation": "import pickle, json, yaml, torch\npickle.dumps(1); json.loads('1'); yaml.safe_load('1')\n"
    "torch.load('x', weights_only=True); yaml.load(x, Loader=yaml.SafeLoader); np.load('x')",
    "imports": "import importlib\nimportlib.reload(m)\nfrom importlib.metadata import version\nimport urllib.parse, os.path",
    "reflection": "x.__class__.__name__; self.__class__(); type(x).__name__; np.__version__; o.__dict__; f.__doc__\n"
    "getattr(x, 'a', None); getattr(x, n, None); super().__init__(); '{0.name}{x[a]}'.format(x)\nA.mro()",
    "operator": "import operator\nsorted(x, key=operator.attrgetter('a.b'))",
    "inspect": "import inspect, gc\ninspect.signature(f); inspect.getsource(f); gc.collect()",
    "errors": "import requests\nfrom urllib.error import URLError\nfrom http import HTTPStatus",
    "tamper": "plt.rcParams['a'] = 1\npd.options.display.max_rows = 5\nself.loads = f\nx.json.loads = f",
    "files": "open('data.csv').read(); open('out/x.csv', 'w'); pd.read_csv('a.csv'); df.to_csv('b.csv')",
    "dates": "d.replace(hour=1); s.replace('/', '..'); df.rename(columns={}); l.remove(1); os_remove(1)",
    "database": "c.execute('SELECT 1'); c.execute('SELECT * FROM t WHERE id = ?', (1,))",
    "tools": "tools.read_file(path='/etc/passwd'); pending.reject('os.system'); tract.commit('x')",
}


@pytest.mark.parametrize(
    ("rule", "code"), [(rule, code) for rule, snippets in POSITIVE.items() for code in snippets]
)
def test_reported(rule, code):
    assert rule in {code for code, _ in found(code)}


@pytest.mark.parametrize("code", QUIET.values(), ids=QUIET.keys())
def test_quiet(code):
    # An import such as requests' is a finding of its own; what matters here is the rest.
    assert found(code) <= {("TJ301", "medium")}


def test_import_of_os_alone_is_at_most_low():
    assert {str(f.level) for f in analyze("import os, shutil, pathlib, tempfile, importlib").findings} == {
        "low"
    }
    assert codes("import os.path\nimport urllib.parse, json") == set()


TABLE = {
    "critical": "eval exec os.system os.popen os.execl os.execle os.execlp os.execlpe os.execv os.execve os.execvp "
    "os.execvpe os.chroot subprocess.run subprocess.call subprocess.check_call subprocess.check_output "
    "subprocess.Popen subprocess.getoutput subprocess.getstatusoutput builtins.exec builtins.eval",
    "high": "compile __import__ os.spawn os.spawnl os.spawnle os.spawnlp os.spawnlpe os.spawnv os.spawnve os.spawnvp "
    "os.spawnvpe os.fork os.forkpty os.kill os.killpg shutil.rmtree builtins.__import__",
    "medium": "os.environ os.putenv os.chmod os.chown os.remove os.unlink os.rmdir os.rename os.replace shutil.move "
    "os.getenv",
    "low": "open file input os.chdir os.link os.symlink os.makedirs os.mkdir shutil.copytree builtins.open "
    "shutil.copy shutil.copy2",
}


@pytest.mark.parametrize(
    ("level", "symbol"), [(level, s) for level, text in TABLE.items() for s in text.split()]
)
def test_known_symbols_in_every_spelling(level, symbol):
    module, _, name = symbol.rpartition(".")
    spellings = [symbol, f"x = {symbol}", f"map({symbol}, y)"]
    if module:
        spellings = [f"import {module}\n{text}" for text in spellings]
        spellings += [f"import {module} as m\nm.{name}", f"from {module} import {name} as f\nf"]
    for code in spellings:
        line = code.count("\n") + 1
        levels = [f.level for f in analyze(code).findings if f.span.line == line]
        assert levels, code
        assert max(levels) >= level, code
