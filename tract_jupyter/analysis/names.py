"""Canonical dotted names: one name per object, whichever way the code reaches it."""

from __future__ import annotations

from functools import lru_cache

_ALIASES = {
    # C implementations and names of other versions
    "posix": "os",
    "nt": "os",
    "_pickle": "pickle",
    "cPickle": "pickle",
    "pickle5": "pickle",
    "_io": "io",
    "_pyio": "io",
    "_pyio.open": "builtins.open",
    "_socket": "socket",
    "_thread": "threading",
    "_gdbm": "dbm",
    "_operator": "operator",
    "_signal": "signal",
    "_sqlite3": "sqlite3",
    "_lsprof": "cProfile",
    "_frozen_importlib": "importlib.machinery",
    "_frozen_importlib_external": "importlib.machinery",
    "importlib._bootstrap": "importlib.machinery",
    "importlib._bootstrap_external": "importlib.machinery",
    "importlib._abc": "importlib.abc",
    "importlib_metadata": "importlib.metadata",
    "importlib_resources": "importlib.resources",
    "__builtins__": "builtins",
    "__builtin__": "builtins",
    "posixpath": "os.path",
    "ntpath": "os.path",
    "io.open": "builtins.open",
    "os.popen2": "os.popen",
    "os.popen3": "os.popen",
    "os.popen4": "os.popen",
    "subprocess32": "subprocess",
    "typing_extensions": "typing",
    "mock": "unittest.mock",
    "mock.mock": "unittest.mock",
    "unittest.loader": "unittest",
    "unittest.main.TestProgram": "unittest.main",
    "compression.bz2": "bz2",
    "compression.gzip": "gzip",
    "compression.lzma": "lzma",
    "profiling.tracing": "cProfile",
    "pathlib2": "pathlib",
    "turtle.TK": "tkinter",
    "setuptools._distutils": "distutils",
    # where a package keeps what it is known for under a shorter name
    "pathlib._local": "pathlib",
    "pathlib.PosixPath": "pathlib.Path",
    "pathlib.WindowsPath": "pathlib.Path",
    "pathlib.PurePath": "pathlib.Path",
    "pathlib.PurePosixPath": "pathlib.Path",
    "asyncio.base_events": "asyncio",
    "asyncio.events": "asyncio",
    "asyncio.streams": "asyncio",
    "asyncio.unix_events": "asyncio",
    "asyncio.tasks": "asyncio",
    "asyncio.get_running_loop()": "asyncio.get_event_loop()",
    "asyncio.new_event_loop()": "asyncio.get_event_loop()",
    "asyncio.SelectorEventLoop()": "asyncio.get_event_loop()",
    "uvloop.new_event_loop()": "asyncio.get_event_loop()",
    "concurrent.futures.process": "concurrent.futures",
    "concurrent.futures.thread": "concurrent.futures",
    "multiprocessing.context": "multiprocessing",
    "multiprocessing.process": "multiprocessing",
    "multiprocessing.get_context()": "multiprocessing",
    "multiprocess": "multiprocessing",
    "billiard": "multiprocessing",
    "yaml.loader": "yaml",
    "yaml.cyaml": "yaml",
    "oyaml": "yaml",
    "ruamel_yaml": "ruamel.yaml",
    "ruyaml": "ruamel.yaml",
    "jinja2.environment": "jinja2",
    "sympy.core.sympify": "sympy",
    "sympy.utilities.lambdify": "sympy",
    "sympy.parsing.parse_expr": "sympy.parse_expr",
    "numexpr.necompiler": "numexpr",
    "dill._dill": "dill",
    "dill.session": "dill",
    "cloudpickle.cloudpickle": "cloudpickle",
    "joblib.numpy_pickle": "joblib",
    "torch.serialization.load": "torch.load",
    "git.repo.base.Repo": "git.Repo",
    "git.repo.Repo": "git.Repo",
    "git.Repo.init()": "git.Repo()",
    "git.Repo.clone_from()": "git.Repo()",
    "docker.client": "docker",
    "dotenv.main": "dotenv",
    # the shell
    "IPython.core.getipython.get_ipython": "IPython.get_ipython",
    "IPython.get_ipython()": "IPython.shell",
    "IPython.InteractiveShell": "IPython.shell",
    "IPython.core.interactiveshell.InteractiveShell": "IPython.shell",
    "IPython.terminal.interactiveshell.TerminalInteractiveShell": "IPython.shell",
    "ipykernel.zmqshell.ZMQInteractiveShell": "IPython.shell",
    "IPython.shell()": "IPython.shell",
    "IPython.shell.instance()": "IPython.shell",
    "IPython.core.display": "IPython.display",
    "IPython.core.display_functions": "IPython.display",
    "IPython.core.displaypub": "IPython.display",
    # data frames and arrays
    "modin.pandas": "pandas",
    "fireducks.pandas": "pandas",
    "pandas.core.api": "pandas",
    "pandas.core.frame": "pandas",
    "pandas.core.computation.eval": "pandas",
    "pandas.core.computation.api": "pandas",
    "pandas.io.api": "pandas",
    "pandas.io.clipboards": "pandas",
    "pandas.io.excel": "pandas",
    "pandas.io.html": "pandas",
    "pandas.io.json": "pandas",
    "pandas.io.parsers": "pandas",
    "pandas.io.parsers.readers": "pandas",
    "pandas.io.pickle": "pandas",
    "pandas.io.pytables": "pandas",
    "pandas.io.sql": "pandas",
    "numpy.lib.npyio": "numpy",
    "numpy.lib.npyio.DataSource": "numpy.lib.npyio.DataSource",
    "numpy.lib._npyio_impl": "numpy",
    "pylab.load": "numpy.load",
    "matplotlib.pylab.load": "numpy.load",
    "scipy.load": "numpy.load",
    "cupy.load": "numpy.load",
    "jax.numpy.load": "numpy.load",
    # Python 2 and 3 at once
    "six.moves.cPickle": "pickle",
    "six.moves.copyreg": "copyreg",
    "six.moves.http_client": "http.client",
    "six.moves.input": "builtins.input",
    "six.moves.reload_module": "importlib.reload",
    "six.moves.socketserver": "socketserver",
    "six.moves.urllib": "urllib",
    "six.moves.xmlrpc_client": "xmlrpc.client",
    "six.moves.xmlrpc_server": "xmlrpc.server",
    "six.moves.BaseHTTPServer": "http.server",
    "six.moves.SimpleHTTPServer": "http.server",
    "six.moves.CGIHTTPServer": "http.server",
    "SocketServer": "socketserver",
    "BaseHTTPServer": "http.server",
    "SimpleHTTPServer": "http.server",
    "CGIHTTPServer": "http.server",
    "httplib": "http.client",
    "xmlrpclib": "xmlrpc.client",
    "SimpleXMLRPCServer": "xmlrpc.server",
    "copy_reg": "copyreg",
    "Tkinter": "tkinter",
}

_REACHABLE = frozenset(
    {
        "os",
        "posix",
        "nt",
        "sys",
        "subprocess",
        "builtins",
        "shutil",
        "ctypes",
        "socket",
        "importlib",
        "pty",
        "gc",
    }
)
"""Modules that many others import and so carry as an attribute: ``tempfile._os``, ``typing.sys``."""

_OWN_MEMBERS = frozenset({"asyncio.subprocess"})
"""Names that look like a carried module and are not."""

_WELL_KNOWN = """
    os sys subprocess shutil asyncio socket pickle ctypes pathlib importlib builtins gc inspect urllib posix
    pty multiprocessing marshal runpy glob io codecs tempfile
"""

ASSUMED = {
    **{name: name for name in _WELL_KNOWN.split()},
    "np": "numpy",
    "pd": "pandas",
    "Path": "pathlib.Path",
    "get_ipython": "IPython.get_ipython",
}
"""What a name that nobody bound most likely is: an earlier cell that we were not shown imported it."""


@lru_cache(maxsize=8192)
def canonical(dotted: str) -> str:
    """The one name of what a dotted path leads to.

    Args:
        dotted: Such as ``tempfile._os.system``, ``posix.system`` or ``pathlib.PosixPath``.

    Returns:
        Such as ``os.system`` or ``pathlib.Path``; unchanged where nothing is known.
    """
    parts = dotted.split(".")
    for index in range(len(parts) - 1, 0, -1):
        carried = parts[index] if parts[index] == "__builtins__" else parts[index].lstrip("_")
        before = ".".join(parts[:index])
        if carried not in _REACHABLE and carried != "__builtins__":
            continue
        if "()" not in before and f"{before}.{carried}" not in _OWN_MEMBERS:
            parts = [carried, *parts[index + 1 :]]
            break
    for length in range(len(parts), 0, -1):
        alias = _ALIASES.get(".".join(parts[:length]))
        if alias is not None:
            return ".".join([alias, *parts[length:]])
    return ".".join(parts)
