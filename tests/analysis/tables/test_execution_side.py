"""Samples of the tables that start, run, load, look around, change and reveal; and what must stay quiet."""

from __future__ import annotations

import pytest

from tests.analysis.helpers import analyze, found

SAMPLES = """
    TJ101 critical os.posix_spawnp subprocess32.Popen gevent.subprocess.run sarge.run delegator.run psutil.Popen
    TJ101 critical pexpect.spawn ptyprocess.PtyProcess invoke.run pipes.Template distutils.spawn.spawn trio.run_process
    TJ101 critical multiprocessing.util.spawnv_passfds asyncio.subprocess.create_subprocess_exec win32api.WinExec
    TJ101 critical airflow.operators.bash.BashOperator pydoc.pipepager IPython.utils._process_posix.system
    TJ101 high papermill.execute_notebook nbclient.NotebookClient jupyter_client.KernelManager docker.from_env
    TJ101 high playwright.sync_api.sync_playwright rpy2.robjects.r oct2py.octave jpype.startJVM git.Repo.clone_from
    TJ106 medium os.setns posix.fork _thread.interrupt_main signal.raise_signal resource.setrlimit torch.multiprocessing.spawn
    TJ106 medium faulthandler._sigsegv pyautogui.click
    TJ109 medium pip._internal.main piplite.install conda.cli.python_api.run_command spacy.cli.download
    TJ102 critical pdb.runctx profile.run code.InteractiveConsole six.exec_ sys.remote_exec _xxsubinterpreters.run_string
    TJ102 critical langchain_experimental.utilities.PythonREPL IPython.embed_kernel bpython.embed js.eval
    TJ102 high gettext.c2py torch.hub.load smolagents.CodeAgent IPython.display.Javascript typing_extensions.get_type_hints
    TJ102 high idlelib.run.main doctest.testfile runpy._run_code IPython.core.display.Javascript pytest.main
    TJ105 high sympy.core.sympify.sympify mako.template.Template flask.render_template_string jinja2.environment.Template
    TJ110 medium logging.config.fileConfig hydra.utils.instantiate
    TJ107 high _ctypes.dlopen cffi.FFI cppyy.cppdef cython.inline torch.ops.load_library _testcapi.run_in_subinterp_x frida.attach
    TJ107 medium mmap.mmap cupy.RawKernel numpy.ctypeslib.as_array
    TJ108 critical _pickle.loads cPickle.load pickle5.loads yaml.CUnsafeLoader six.moves.cPickle.loads
    TJ108 high dill.load_session pandas.io.pickle.read_pickle modin.pandas.read_pickle networkx.read_gpickle
    TJ108 high fastai.vision.all.load_learner pyarrow.deserialize hickle.load ruamel_yaml.load torch.serialization.load
    TJ108 medium mlflow.pyfunc.load_model gensim.models.Word2Vec.load statsmodels.iolib.smpickle.load_pickle
    TJ401 high importlib_metadata.EntryPoint _imp.get_frozen_object importlib._bootstrap_external.SourceFileLoader
    TJ401 high werkzeug.utils.import_string _frozen_importlib.BuiltinImporter
    TJ403 high sys._current_exceptions gc.get_referents ipykernel.connect.get_connection_file objgraph.by_type
    TJ405 high tract_jupyter.review.gate.check tract_jupyter.storage.signed.GrantRows forbiddenfruit.curse
    TJ405 high nbformat.sign.NotebookNotary tract_jupyter.analysis.rules
    TJ405 medium unittest.mock.patch mock.patch gevent.monkey.patch_all codecs.register
    TJ406 medium site.addpackage pkgutil.extend_path pyximport.install
    TJ501 medium environs.Env dotenv.dotenv_values decouple.config
    TJ502 medium winreg.SetValueEx dotenv.set_key
    TJ503 high browser_cookie3.chrome hvac.Client huggingface_hub.get_token azure.identity.DefaultAzureCredential spwd.getspnam
    TJ503 medium pyperclip.paste pandas.read_clipboard PIL.ImageGrab.grab google.auth.default sounddevice.rec
"""

LINES = [line.split(maxsplit=2) for line in SAMPLES.strip().splitlines()]


@pytest.mark.parametrize(
    ("code", "level", "symbol"),
    [(code, level, name) for code, level, names in LINES for name in names.split()],
)
def test_reported_in_every_spelling(code, level, symbol):
    module, _, name = symbol.rpartition(".")
    spellings = [f"import {module}\n{symbol}", f"import {module} as m\nm.{name}(x)"]
    spellings += [f"from {module} import {name}", f"from {module} import {name} as f\nf(x)"]
    for text in spellings:
        line = text.count("\n") + 1
        levels = [f.level for f in analyze(text).findings if f.code == code and f.span.line == line]
        assert levels or "as f" in text, text
        assert max(levels, default=level) >= level, text


THROUGH_OBJECTS = {
    "TJ101": [
        "import docker\nc = docker.from_env()\nc.containers.run('x')",
        "import git\nrepo = git.Repo('.')\nrepo.git.push()",
        "loop.subprocess_exec(p, 'x')",
        "sc._jvm.java.lang.Runtime",
    ],
    "TJ102": [
        "import cProfile\np = cProfile.Profile()\np.run('x')",
        "import unittest\nunittest.TestLoader().discover('.')",
        "import tkinter\nroot = tkinter.Tk()\nroot.tk.eval('exec ls')",
        "from IPython.core.interactiveshell import InteractiveShell\nInteractiveShell.instance().run_cell('x')",
    ],
    "TJ104": [
        "%unload_ext tract_jupyter",
        "%alias_magic t bash",
        "get_ipython().find_line_magic(name)",
        "%%cuda\nint x;",
    ],
    "TJ103": ["%%shell\nls", "%shell ls"],
    "TJ106": ["import psutil\np = psutil.Process(1)\np.suspend()", "get_ipython().ask_exit()"],
    "TJ107": [
        "import sqlite3\nc = sqlite3.connect('x')\nc.enable_load_extension(True)",
    ],
    "TJ108": ["Model.load_from_checkpoint('x')"],
    "TJ402": ["f.__objclass__", "g.gi_yieldfrom", "c.cr_code", "e.tb_frame"],
    "TJ403": [
        "get_ipython().kernel.session.key",
        "get_ipython().parent",
        "import threading\nthreading._active",
    ],
    "TJ405": [
        "from unittest import mock\nmock.patch('json.loads', f).start()",
        "get_ipython().events.unregister('pre_run_cell', f)",
        "get_ipython().extension_manager.unload_extension('tract_jupyter')",
        "pending.apply_decision({'action': 'approve'})",
        "tract.save_handler('tool', 'yes', 'pending.approve()')",
    ],
    "TJ503": ["import boto3\nboto3.Session().get_credentials()"],
}


@pytest.mark.parametrize(
    ("rule", "code"), [(rule, code) for rule, codes in THROUGH_OBJECTS.items() for code in codes]
)
def test_reported_through_an_object(rule, code):
    assert rule in {code for code, _ in found(code)}


QUIET = [
    "import numpy as np\nimport pandas as pd\nimport matplotlib.pyplot as plt\nimport seaborn as sns\nsns.set_theme()",
    "%matplotlib inline\n%config InlineBackend.figure_format = 'retina'\n%load_ext autoreload\n%autoreload 2",
    "from sklearn.ensemble import RandomForestClassifier\nmodel = RandomForestClassifier(n_jobs=-1).fit(X, y)",
    "fig, ax = plt.subplots()\nax.plot(x, y)\nplt.show()\nfig.canvas.draw()",
    "from concurrent.futures import ThreadPoolExecutor, as_completed\nwith ThreadPoolExecutor(4) as pool:\n    pool.map(f, x)",
    "import threading\nt = threading.Thread(target=f, daemon=True)\nt.start()\nt.join()\nlock = threading.Lock()",
    "from multiprocessing.pool import ThreadPool\nfrom multiprocessing.dummy import Pool\nfrom joblib import Parallel, delayed",
    "import logging\nlogging.basicConfig(level=logging.INFO)\nlogging.getLogger('x').setLevel(logging.ERROR)",
    "import warnings\nwarnings.filterwarnings('ignore')\nwith warnings.catch_warnings():\n    warnings.simplefilter('ignore')",
    "import time, math, json, re, random, copy, itertools, functools, collections\ntime.sleep(1); copy.deepcopy(x)",
    "import sys, platform, os\nprint(sys.version, sys.executable, platform.platform(), os.cpu_count(), os.getcwd())",
    "from importlib.metadata import version\nversion('numpy')\nimport importlib\nimportlib.reload(m)",
    "import inspect\ninspect.signature(f).parameters\ninspect.getsource(f)\ninspect.getmembers(m)",
    "from dataclasses import dataclass, field\n@dataclass\nclass A:\n    x: int = 0\n    def __repr__(self):\n        return f'{self.__class__.__name__}'",
    "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.fc = nn.Linear(1, 1)\nmodel.to(device)",
    "from unittest.mock import MagicMock, Mock\nm = MagicMock(return_value=1)",
    "import unittest\nclass T(unittest.TestCase):\n    def test(self):\n        self.assertEqual(1, 1)\nunittest.main(argv=[''], exit=False)",
    "from IPython.display import display, HTML, Markdown, Image, clear_output\ndisplay(HTML('<b>x</b>'))\nclear_output(wait=True)",
    "from IPython.core.interactiveshell import InteractiveShell\nInteractiveShell.ast_node_interactivity = 'all'",
    "import ipywidgets as widgets\nwidgets.interact(f, x=(0, 10))",
    "import sympy as sp\nx, y = sp.symbols('x y')\nf = sp.lambdify(x, sp.sin(x))\nsp.diff(sp.sin(x), x)",
    "from numba import njit, prange\n@njit(parallel=True)\ndef f(x):\n    return x",
    "import yaml\ncfg = yaml.safe_load(text)\nimport ast\nast.literal_eval('[1]')\nast.parse('x')",
    "try:\n    f()\nexcept Exception as e:\n    import traceback\n    traceback.print_exc()\n    print(sys.exc_info()[0])",
    "import cProfile, pstats\np = cProfile.Profile()\np.enable(); f(); p.disable()\npstats.Stats(p).sort_stats('time').print_stats()",
    "import tract_jupyter\nfrom tract_jupyter import Tract, Session\ntract = Tract.open('x')\ntract.log()",
    "if pending.field('n') < 3:\n    pending.approve()\nelse:\n    pending.reject('too many')",
    "%load_ext tensorboard\n%tensorboard --logdir logs",
    "import cv2\ncap = cv2.VideoCapture('film.mp4')\nimport tempfile, gc\ngc.collect()\ntempfile.gettempdir()",
    "import psutil\npsutil.virtual_memory().percent\npsutil.Process().memory_info().rss\npsutil.cpu_percent()",
    "import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()) as out:\n    f()\nn = int(input('n? '))",
    "from transformers import AutoTokenizer, AutoModel\nimport spacy\nnlp = spacy.load('en_core_web_sm')",
    "import graphviz, pydot\ndot = graphviz.Digraph()\ndot.render('x')\nimport plotly.express as px\npx.line(df).write_image('x.png')",
]


@pytest.mark.parametrize("code", QUIET)
def test_quiet(code):
    assert found(code) == set()
