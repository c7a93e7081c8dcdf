"""The first engine: a fork of this process, contained, with all its variables.

Three processes take part. The kernel prepares and reads. The supervisor, a fork of the kernel, enters the namespaces,
watches the limits and ends everything. The copy, a fork of the supervisor, gives up its rights and runs the code. It is
the first process of its namespace, so no process survives it. If the kernel dies, the supervisor and the copy die.

The kernel forks in a moment in which no other thread computes. OpenBLAS ends its threads before a fork: if another
thread computes with them, the fork never returns, and holds the GIL of the kernel forever.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import random
import signal
import socket
import sys
import threading
import time
import warnings
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import RehearsalError
from tract_jupyter.rehearsal import linux
from tract_jupyter.rehearsal.copy_tools import CopyCaller, use_kernel_for_tools
from tract_jupyter.rehearsal.inherited import OpenFiles, SharedMappings
from tract_jupyter.rehearsal.inside import ReportChannel, Runner, capture_streams
from tract_jupyter.rehearsal.limits import RehearsalLimits, limit_this_process
from tract_jupyter.rehearsal.redaction import remove_secrets
from tract_jupyter.rehearsal.refusals import report_refusals
from tract_jupyter.rehearsal.supervisor import Supervisor, hand_over

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from tract_jupyter.rehearsal.contain import Containment

    Buffers = Sequence[bytes | bytearray | memoryview]
    Collector = Callable[[], Iterable[tuple[dict[str, Any], Buffers]]]
    Observer = Callable[[dict[str, Any]], Collector]

_LONGEST_NOTE: Final = 500
_FOLDER_VARIABLE: Final = "MPLCONFIGDIR"
_EXIT: Final = 70  # EX_SOFTWARE
_LONGEST_WAIT: Final = 1.0  # seconds
_PAUSE: Final = 0.004  # seconds between two looks
_NO_SWITCH: Final = 60.0  # seconds
_COMPUTING: Final = (b"R", b"D")  # running, or waiting for a page


@dataclass(frozen=True, slots=True)
class CopyJob:
    """A piece of code to rehearse, and everything that the copy needs to know.

    Attributes:
        code: The code.
        namespace: The variables of the kernel.
        containment: The permitted access.
        limits: The limits.
        observe: Called with the namespace before the code; returns a function that yields effects after it.
        shell: IPython's shell of the namespace, if there is one.
        hidden: Names that the copy must not have.
        ignored: Names whose changes are not effects.
        secrets: Texts that are removed from the copy.
        is_bare: True if the copy gets nothing of the kernel but the code: a worker's job.
        prepare: Called in the contained copy before the code, to create the variables.
    """

    code: str
    namespace: dict[str, Any]
    containment: Containment
    limits: RehearsalLimits
    observe: Observer
    shell: Any = None
    hidden: frozenset[str] = frozenset()
    ignored: frozenset[str] = frozenset()
    secrets: tuple[str, ...] = ()
    is_bare: bool = False
    prepare: Callable[[], None] | None = None


@dataclass(frozen=True, slots=True)
class Ends:
    """The copy's ends of the connections to the kernel.

    Attributes:
        control: A socket between kernel and supervisor. The copy does not have it.
        report: The pipe for the frames of the copy.
        answers: The pipe for the answers to tool calls.
        inputs: A file with the job, for a worker.
    """

    control: int
    report: int
    answers: int
    inputs: int | None = None

    @property
    def kept(self) -> set[int]:
        """All descriptors."""
        return {one for one in (self.control, self.report, self.answers, self.inputs) if one is not None}


def fork_of(job: CopyJob) -> Callable[[Ends], int]:
    """Return the function that starts this engine for a job. It returns a descriptor of the supervisor's process."""
    return lambda ends: os.pidfd_open(fork_supervisor(lambda: job, ends))


def fork_supervisor(make_job: Callable[[], CopyJob], ends: Ends) -> int:
    """Fork the supervisor, which makes the job. Return its process id. The child never returns."""
    kernel = os.getpid()
    state = random.getstate()  # a fork gets a new one
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the child runs no code of other threads
        with _idle_threads():
            pid = os.fork()
    if pid == 0:
        try:
            linux.die_with_parent()
            if os.getppid() == kernel:
                random.setstate(state)
                _supervise(make_job, ends)
        finally:
            os._exit(_EXIT)
    return pid


def _supervise(make_job: Callable[[], CopyJob], ends: Ends) -> None:
    """Contain this process, fork the copy, and watch it until its end."""
    files = OpenFiles()
    files.replace(ends.kept)
    _detach(ends, files.descriptors)
    control = socket.socket(fileno=ends.control)
    state = random.getstate()
    try:
        shared = SharedMappings()
        shared.replace()
        job = make_job()
        supervisor = Supervisor(control, job.limits)
        upper = job.containment.enter()
        linux.die_with_parent()  # new credentials clear it
        link, other = socket.socketpair()
        copy = os.fork()
        if copy == 0:
            link.close()
            control.close()
            if upper is not None:
                os.close(upper)
            _be_the_copy(job, ends, other, state, shared, files)
    except BaseException as error:  # noqa: BLE001 # the kernel reports it
        Supervisor(control, RehearsalLimits()).tell(
            {"kind": "failed", "problem": f"{type(error).__name__}: {error}"}
        )
        return
    other.close()
    os.close(ends.report)
    os.close(ends.answers)
    linux.hide_from_debuggers()
    supervisor.tell({"kind": "started"}, [] if upper is None else [upper])
    link.send(b"x")
    supervisor.watch(copy, link)


def _detach(ends: Ends, files: set[int]) -> None:
    """Leave the kernel's session, and close its descriptors except some files."""
    os.setsid()
    signal.set_wakeup_fd(-1)
    for number in (
        signal.SIGINT,
        signal.SIGTERM,
        signal.SIGHUP,
        signal.SIGCHLD,
        signal.SIGUSR1,
        signal.SIGUSR2,
    ):
        signal.signal(number, signal.SIG_DFL)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    kept = sorted({0, 1, 2} | ends.kept | files)
    for low, high in zip(kept, [*kept[1:], os.sysconf("SC_OPEN_MAX") + 1], strict=True):
        os.closerange(low + 1, high)


def _be_the_copy(
    job: CopyJob, ends: Ends, link: socket.socket, state: Any, shared: SharedMappings, files: OpenFiles
) -> None:
    """Give up all rights, run the code, and send its effects. Never returns."""
    try:
        linux.die_with_parent()
        os.setsid()  # a signal to its group must not reach the supervisor
        random.setstate(state)
        if link.recv(1) == b"x":  # else the supervisor has died
            _run(job, ReportChannel(ends.report, job.limits.output), ends.answers, link, shared, files)
    finally:
        os._exit(0)


def _run(
    job: CopyJob,
    channel: ReportChannel,
    answers: int,
    link: socket.socket,
    shared: SharedMappings,
    files: OpenFiles,
) -> None:
    try:
        remove_secrets(job.secrets)
        hand_over(job.containment.confine(), link)
        link.close()
        files.reopen()
        limit_this_process(job.limits)
        if job.containment.level == "full":
            _give_matplotlib_a_folder()
        if job.prepare is not None:
            job.prepare()
    except BaseException as error:  # noqa: BLE001 # the kernel reports it
        channel.send(
            {"kind": "end", "ending": "failed", "note": f"{type(error).__name__}: {error}"[:_LONGEST_NOTE]}
        )
        return
    channel.send({"kind": "ready"})
    files.start(job.code, job.namespace)
    gc.freeze()
    namespace = job.namespace
    for name in job.hidden:
        namespace.pop(name, None)

    def report(ending: str, note: str) -> None:
        for name in shared.changed():
            channel.send({"kind": "refused", "action": f"change shared memory: {name}", "line": None})
        for name in files.changed():
            channel.send({"kind": "refused", "action": f"write to the open file {name}", "line": None})
        for header, buffers in collector():
            channel.send({"kind": "effect", "effect": header}, *buffers)
        channel.send({"kind": "end", "ending": ending, "note": note})

    def end_at_call() -> None:
        report("asked", "")
        os._exit(0)

    use_kernel_for_tools(namespace, CopyCaller(channel, answers, end_at_call))
    collector = job.observe(namespace)
    capture_streams(channel)
    runner = Runner(channel, namespace, job.shell)
    report_refusals(channel, runner, job.containment)
    report(*runner.run(job.code))


def _give_matplotlib_a_folder() -> None:
    """Let matplotlib be imported without a warning, a changed setting, or a search for fonts: its own is read-only."""
    if "matplotlib" in sys.modules or _FOLDER_VARIABLE in os.environ:
        return
    folder = Path("/tmp/matplotlib")  # noqa: S108 # `/tmp` is private in the copy
    folder.mkdir(exist_ok=True)
    for pattern in (".config/matplotlib/*", ".cache/matplotlib/fontlist-*.json"):
        for path in Path.home().glob(pattern):
            (folder / path.name).symlink_to(path)
    os.environ[_FOLDER_VARIABLE] = str(folder)


# ---- the moment of the fork


class BusyThreadsError(RehearsalError):
    """Another thread computes all the time, so the process cannot fork."""


@contextlib.contextmanager
def _idle_threads() -> Iterator[None]:
    """Wait until no other thread computes, and keep the GIL from then on, so that none starts to."""
    if "numpy" not in sys.modules:
        yield
        return
    interval = sys.getswitchinterval()
    until = time.monotonic() + _LONGEST_WAIT
    try:
        sys.setswitchinterval(_NO_SWITCH)
        while _is_one_computing():
            if time.monotonic() > until:
                raise BusyThreadsError(
                    "Another thread of the kernel computes, so the kernel cannot be copied."
                )
            time.sleep(_PAUSE)
        yield
    finally:
        sys.setswitchinterval(interval)


def _is_one_computing() -> bool:
    """Return True if another thread of Python computes. A thread that uses OpenBLAS never sleeps until the end."""
    own = threading.get_native_id()
    threads = [thread.native_id for thread in threading.enumerate() if thread.native_id != own]
    libc, line = _libc_with_gil(), ctypes.create_string_buffer(64)
    for number in threads:
        file = libc.open(f"/proc/self/task/{number}/stat".encode(), os.O_RDONLY | os.O_CLOEXEC)
        size = libc.read(file, line, len(line)) if file >= 0 else 0
        if file >= 0:
            libc.close(file)
        if line.raw[:size].rpartition(b")")[2][1:2] in _COMPUTING:
            return True
    return False


@cache
def _libc_with_gil() -> ctypes.PyDLL:
    """Return the C library for calls that keep the GIL."""
    return ctypes.PyDLL(None)
