"""Other names of the same things: C implementations, other versions, where a package keeps what it is known for.

A line has the name that the other tables use, and the names that stand for it; what follows a name that ends in
an alias follows its other name: ``posix.system`` is ``os.system``.
"""

from __future__ import annotations

from tract_jupyter.analysis.tables.reader import aliases

ALIASES = aliases("""
    subprocess.run: asyncio.subprocess.run
    subprocess.call: asyncio.subprocess.call
    subprocess.Popen: asyncio.subprocess.Popen
    subprocess.check_call: asyncio.subprocess.check_call
    subprocess.check_output: asyncio.subprocess.check_output
    subprocess.getoutput: asyncio.subprocess.getoutput
    os: posix nt
    pickle: _pickle cPickle pickle5 six.moves.cPickle
    io: _io _pyio
    builtins.open: _pyio.open io.open
    socket: _socket
    threading: _thread
    dbm: _gdbm
    operator: _operator
    signal: _signal
    sqlite3: _sqlite3
    cProfile: _lsprof profiling.tracing
    importlib.machinery: _frozen_importlib _frozen_importlib_external importlib._bootstrap
        importlib._bootstrap_external
    importlib.abc: importlib._abc
    importlib.metadata: importlib_metadata
    importlib.resources: importlib_resources
    builtins: __builtins__ __builtin__
    os.path: posixpath ntpath
    os.popen: os.popen2 os.popen3 os.popen4
    pathlib.Path: anyio.Path trio.Path upath.UPath aiopath.AsyncPath path.Path pathlib.PosixPath
        pathlib.WindowsPath pathlib.PurePath pathlib.PurePosixPath
    subprocess: subprocess32
    typing: typing_extensions
    unittest.mock: mock mock.mock
    unittest: unittest.loader
    unittest.main: unittest.main.TestProgram
    bz2: compression.bz2
    gzip: compression.gzip
    lzma: compression.lzma
    pathlib: pathlib2 pathlib._local
    tkinter: turtle.TK Tkinter
    distutils: setuptools._distutils
    asyncio: asyncio.base_events asyncio.events asyncio.streams asyncio.unix_events asyncio.tasks
    asyncio.get_event_loop(): asyncio.get_running_loop() asyncio.new_event_loop()
        asyncio.SelectorEventLoop() uvloop.new_event_loop()
    concurrent.futures: concurrent.futures.process concurrent.futures.thread
    multiprocessing: multiprocessing.context multiprocessing.process multiprocessing.get_context()
        multiprocess billiard
    yaml: yaml.loader yaml.cyaml oyaml
    ruamel.yaml: ruamel_yaml ruyaml
    jinja2: jinja2.environment
    sympy: sympy.core.sympify sympy.utilities.lambdify
    sympy.parse_expr: sympy.parsing.parse_expr
    numexpr: numexpr.necompiler
    dill: dill._dill dill.session
    cloudpickle: cloudpickle.cloudpickle
    joblib: joblib.numpy_pickle
    torch.load: torch.serialization.load
    git.Repo: git.repo.base.Repo git.repo.Repo
    psutil.Process(): psutil.Process().parent() psutil.Process().parents() psutil.Process().children()
        psutil.process_iter()
    git.Repo(): git.Repo.init() git.Repo.clone_from()
    docker: docker.client
    dotenv: dotenv.main
    IPython.get_ipython: IPython.core.getipython.get_ipython
    IPython.shell: IPython.get_ipython() IPython.InteractiveShell
        IPython.core.interactiveshell.InteractiveShell
        IPython.terminal.interactiveshell.TerminalInteractiveShell
        ipykernel.zmqshell.ZMQInteractiveShell IPython.shell() IPython.shell.instance()
    IPython.display: IPython.core.display IPython.core.display_functions IPython.core.displaypub
    pandas: modin.pandas fireducks.pandas pandas.core.api pandas.core.frame pandas.core.computation.eval
        pandas.core.computation.api pandas.io.api pandas.io.clipboards pandas.io.excel pandas.io.html
        pandas.io.json pandas.io.parsers pandas.io.parsers.readers pandas.io.pickle pandas.io.pytables
        pandas.io.sql
    numpy: numpy.lib.npyio numpy.lib._npyio_impl
    numpy.lib.npyio.DataSource: numpy.lib.npyio.DataSource
    numpy.load: pylab.load matplotlib.pylab.load scipy.load cupy.load jax.numpy.load
    copyreg: six.moves.copyreg copy_reg
    http.client: six.moves.http_client httplib
    builtins.input: six.moves.input
    importlib.reload: six.moves.reload_module
    socketserver: six.moves.socketserver SocketServer
    urllib: six.moves.urllib
    xmlrpc.client: six.moves.xmlrpc_client xmlrpclib
    xmlrpc.server: six.moves.xmlrpc_server SimpleXMLRPCServer
    http.server: six.moves.BaseHTTPServer six.moves.SimpleHTTPServer six.moves.CGIHTTPServer
        BaseHTTPServer SimpleHTTPServer CGIHTTPServer
""")
