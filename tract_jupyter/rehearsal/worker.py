"""The second engine: a fresh process, kept warm, that receives copies of the variables that the code reads.

Some libraries start threads that do not survive a fork (polars, LightGBM, numba, CUDA). The worker imports them, but
never uses them. For each rehearsal it forks, as the kernel does in `fork`. Variables arrive in safe forms. Functions
and classes of the notebook arrive as source, which only the contained copy executes.
"""

from __future__ import annotations

import atexit
import contextlib
import inspect
import os
import random
import re
import select
import signal
import socket
import subprocess
import sys
import textwrap
import threading
from dataclasses import asdict
from functools import partial
from importlib import import_module
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import RehearsalError
from tract_jupyter.rehearsal.baseline import touched, variables_of
from tract_jupyter.rehearsal.collect import observe
from tract_jupyter.rehearsal.contain import Containment
from tract_jupyter.rehearsal.fork import CopyJob, Ends, fork_supervisor
from tract_jupyter.rehearsal.limits import RehearsalLimits
from tract_jupyter.rehearsal.redaction import secret_variables
from tract_jupyter.rehearsal.report import FrameReader, write_frame
from tract_jupyter.rehearsal.settings import options_now, set_options
from tract_jupyter.rehearsal.values import Decoder, Encoder, UnsafeValueError, encoded, split

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tract_jupyter.rehearsal.report import ReportFrame

_START: Final = "from tract_jupyter.rehearsal.worker import main; main()"
_WARM: Final = (
    "IPython.core.interactiveshell", "matplotlib_inline.backend_inline", "matplotlib.pyplot", "numpy", "pandas",
    "pyarrow", "polars", "scipy", "sklearn", "lightgbm", "xgboost", "numba", "duckdb",
)  # fmt: skip
_STARTING: Final = 60.0  # seconds
_LONGEST: Final = 1 << 16
_FORK: Final = b"fork"
_AT_ONCE: Final = 1 << 20
_BARE: Final = frozenset("LANG LC_ALL LC_CTYPE LD_LIBRARY_PATH PATH TZ".split())  # noqa: SIM905
_REAPING: Final = 1.0  # seconds between looks at ended copies


class CopyWorker:
    """The handle of the worker process. It starts at its first use, and ends with this process.

    A bare worker does not have the environment variables of the kernel.
    """

    def __init__(self, *, is_bare: bool = False) -> None:
        self._is_bare = is_bare
        self._owner = 0
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._loaded: list[str] = []

    def warm_up(self) -> None:
        """Start the process if it does not run. It imports the loaded libraries in the meantime."""
        with self._lock:
            self._connection()

    def fork(self, inputs: int, ends: Ends) -> int:
        """Let the process fork a supervisor. Return a descriptor of the supervisor's process.

        `inputs` is a file with the job, by `write_inputs`.
        """
        with self._lock:
            connection = self._connection()
            try:
                socket.send_fds(connection, [_FORK], [ends.control, ends.report, ends.answers, inputs])
                data, descriptors, _, _ = socket.recv_fds(connection, _LONGEST, 1)
            except OSError:
                data, descriptors = b"", []
            if data != b"forked" or len(descriptors) != 1:
                self._stop()
                raise RehearsalError(
                    "The worker process for rehearsals did not start. Run the code in the kernel."
                )
            return descriptors[0]

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._stop()

    def _connection(self) -> socket.socket:
        if (
            self._socket is None
            or self._process is None
            or self._process.poll() is not None
            or self._is_inherited
        ):
            self._stop()
            self._loaded = _loaded()
            self._process, self._socket = _start(self._loaded, is_bare=self._is_bare)
            self._owner = os.getpid()
        new = [name for name in _loaded() if name not in self._loaded]
        if new:
            self._loaded += new
            with contextlib.suppress(OSError):  # the next message notices it
                self._socket.send(f"import {' '.join(new)}".encode())
        return self._socket

    def _stop(self) -> None:
        if self._socket is not None:
            self._socket.close()
        if self._process is not None and not self._is_inherited:
            self._process.kill()
            self._process.wait()
        self._process = self._socket = None

    @property
    def _is_inherited(self) -> bool:
        """True in a fork of the process that started the worker."""
        return self._owner != os.getpid()


WORKER: Final = CopyWorker()
"""The worker of this process."""
BARE_WORKER: Final = CopyWorker(is_bare=True)
"""The worker for code that gets nothing of this process."""
atexit.register(WORKER.close)
atexit.register(BARE_WORKER.close)


def _loaded() -> list[str]:
    return [name for name in _WARM if name.partition(".")[0] in sys.modules]


def _environment(secrets: tuple[str, ...] = (), *, is_bare: bool) -> dict[str, str]:
    hidden = secret_variables(os.environ, secrets)
    return {
        name: value
        for name, value in os.environ.items()
        if name not in hidden and (name in _BARE or not is_bare)
    }


def _start(loaded: list[str], *, is_bare: bool) -> tuple[subprocess.Popen[bytes], socket.socket]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.settimeout(_STARTING)
    environment = _environment(is_bare=is_bare)
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path.startswith("/"))
    with theirs:
        command = [sys.executable, "-P", "-c", _START, str(theirs.fileno()), str(os.getpid()), *loaded]
        process = subprocess.Popen(  # noqa: S603 # this package
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/",
            env=environment, pass_fds=[theirs.fileno()], start_new_session=True,
        )  # fmt: skip
    return process, ours


# The job, as the kernel writes it


def write_inputs(job: CopyJob) -> int:
    """Return a descriptor of a file in memory with a job and the variables that its code reads.

    The caller closes it.
    """
    file = os.memfd_create("tract-rehearsal", os.MFD_CLOEXEC)
    request = {
        "code": job.code,
        "containment": asdict(job.containment),
        "limits": asdict(job.limits),
        "ignored": sorted(job.ignored),
        "environment": _environment(job.secrets, is_bare=job.is_bare),
        "path": [path for path in sys.path if isinstance(path, str)],
        "folder": job.containment.workspace if job.is_bare else _current_folder(job.containment.workspace),
        "random": random.getstate(),
        "options": options_now(),
    }
    write_frame(file, request)
    if "numpy.random" in sys.modules:
        header, buffers = encoded(sys.modules["numpy.random"].get_state(), Encoder())
        write_frame(file, {"generator": "numpy.random", **header}, *buffers)
    values = variables_of(job.namespace, job.ignored)
    encoder = Encoder()
    for name in sorted(touched(job.code, values)):
        for header, buffers in _input(name, values[name], encoder):
            write_frame(file, header, *buffers)
    return file


def _current_folder(workspace: str) -> str:
    try:
        return os.getcwd()  # noqa: PTH109
    except OSError:
        return workspace


def _input(name: str, value: Any, encoder: Encoder) -> Iterator[tuple[dict[str, Any], list[Any]]]:
    """Yield a variable in the first form that works; nothing if it has none."""
    if isinstance(value, ModuleType):
        yield {"name": name, "module": value.__name__}, []
        return
    place = _import_place(value)
    if place is not None:
        yield {"name": name, "module": place[0], "attribute": place[1]}, []
        return
    try:
        header, buffers = encoded(value, encoder)
    except UnsafeValueError:
        source = _pattern(name, value) if type(value) is re.Pattern else _source(value)
        if source:
            yield {"name": name, "source": source}, []
    else:
        yield {"name": name, **header}, buffers


def _import_place(value: Any) -> tuple[str, str] | None:
    if not isinstance(value, type | FunctionType | BuiltinFunctionType) and not callable(value):
        return None
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or module == "__main__":
        return None
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return (module, name) if found is value else None


def _pattern(name: str, value: re.Pattern[Any]) -> str:
    return f"{name} = __import__('re').compile({value.pattern!r}, {int(value.flags & ~re.DEBUG)})"


def _source(value: Any) -> str:
    """Return the source of a function or class of the notebook without a closure."""
    function = getattr(value, "py_func", value)  # compiled by numba
    if not isinstance(function, type | FunctionType):
        return ""
    code = getattr(function, "__code__", None)
    if code is not None and (code.co_freevars or code.co_name == "<lambda>"):
        return ""
    try:
        return textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        return ""


# The worker process


def main() -> None:
    """Run the worker until the kernel closes the connection or dies."""
    connection = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    kernel = os.pidfd_open(int(sys.argv[2]))
    _import(sys.argv[3:])
    shell = _make_shell() if "IPython.core.interactiveshell" in sys.modules else None
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    poll.register(kernel, select.POLLIN)
    while True:
        events = poll.poll(_REAPING * 1_000)
        _reap()
        if any(descriptor == kernel for descriptor, _ in events):
            return
        if events and not _serve(connection, shell):
            return


def _import(names: list[str]) -> None:
    for name in names:
        if name in _WARM:
            with contextlib.suppress(Exception):
                import_module(name)


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _serve(connection: socket.socket, shell: Any) -> bool:
    """Fork one supervisor. Return False at the end of the connection."""
    data, descriptors, _, _ = socket.recv_fds(connection, _LONGEST, 4)
    if not data:
        return False
    if data != _FORK:
        _import(data.decode().split()[1:])
        return True
    control, report, answers, inputs = descriptors
    pid = fork_supervisor(partial(_read_job, inputs, shell), Ends(control, report, answers, inputs))
    process = os.pidfd_open(pid)
    socket.send_fds(connection, [b"forked"], [process])
    for descriptor in (*descriptors, process):
        os.close(descriptor)
    return True


def _make_shell() -> Any:
    """Return IPython's shell without history and files."""
    interactive = sys.modules["IPython.core.interactiveshell"]
    profile = import_module("IPython.core.profiledir").ProfileDir()
    config = import_module("traitlets.config").Config({"HistoryManager": {"enabled": False}})
    return interactive.InteractiveShell.instance(profile_dir=profile, config=config)


def _read_job(inputs: int, shell: Any) -> CopyJob:
    """Read the job. Runs in the supervisor; the variables are read in the copy."""
    frames = _frames(inputs)
    request = next(frames).header
    namespace: dict[str, Any] = {"__name__": "__main__"} if shell is None else shell.user_ns
    limits = RehearsalLimits(**request["limits"])
    given = request["containment"]
    paths = {name: tuple(given[name]) for name in ("readable", "hidden")}
    containment = Containment(**{**given, **paths})

    def prepare() -> None:
        os.environ.clear()
        os.environ.update(request["environment"])
        sys.path[:] = request["path"]
        with contextlib.suppress(OSError):
            os.chdir(request["folder"])
        version, state, rest = request["random"]
        random.setstate((version, tuple(state), rest))
        set_options(request["options"])
        decoder = Decoder()
        for frame in frames:
            _load(frame.header, frame.payload, namespace, decoder)

    ignored = frozenset(request["ignored"])
    code = request["code"]
    observer = observe(code, ignored, is_fork=False)
    return CopyJob(code, namespace, containment, limits, observer, shell, ignored=ignored, prepare=prepare)


def _frames(inputs: int) -> Iterator[ReportFrame]:
    size = os.fstat(inputs).st_size
    reader = FrameReader(size)
    os.lseek(inputs, 0, os.SEEK_SET)
    while data := os.read(inputs, _AT_ONCE):
        yield from reader.feed(data)


def _load(header: dict[str, Any], payload: bytearray, namespace: dict[str, Any], decoder: Decoder) -> None:
    name = header.get("name", "")
    if "source" in header:
        exec(compile(header["source"], f"<{name}>", "exec", dont_inherit=True), namespace)  # noqa: S102 # in the copy
        return
    if "module" in header:
        with contextlib.suppress(Exception):
            value: Any = import_module(header["module"])
            for part in header.get("attribute", "").split(".") if header.get("attribute") else ():
                value = getattr(value, part)
            namespace[name] = value
        return
    buffers = split(payload, header["sizes"])
    if "generator" in header:
        import_module(header["generator"]).set_state(Decoder().decode(buffers))
    else:
        namespace[name] = decoder.decode(buffers)
