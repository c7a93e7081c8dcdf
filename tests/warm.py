"""A server process that imports third-party packages once, and forks kernels.

These imports take a third of a kernel's processor time in most tests. Each kernel imports this package itself, as a
user's kernel does. `python tests/warm.py MODULE WORDS` runs a program, such as JupyterLab, with forked kernels. A test
that starts a kernel uses the fixture `launch_warm`.
"""

from __future__ import annotations

import gc
import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path

from jupyter_client.provisioning import local_provisioner

START = [sys.executable, "-m", "ipykernel_launcher"]
# not ipywidgets, which looks for its kernel at import, and not numpy, which starts threads
IMPORTS = (
    "docstring_parser", "ipykernel.kernelapp", "ipykernel.zmqshell", "markupsafe", "psutil", "pydantic.root_model",
    "pygments.formatters", "sqlalchemy.dialects.sqlite", "sqlalchemy.orm", "yaml",
)  # fmt: skip


class Kernel:
    """A forked kernel, with those parts of `subprocess.Popen` that a provisioner uses."""

    stdin = stdout = stderr = None

    def __init__(self, reports):
        self.returncode = None
        self._reports = reports
        self.pid = int(reports.readline())

    def poll(self):
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout=None):
        if self.returncode is None:
            with selectors.DefaultSelector() as selector:
                selector.register(self._reports, selectors.EVENT_READ)
                if not selector.select(timeout):
                    raise subprocess.TimeoutExpired(START, timeout)
            self.returncode = int(self._reports.readline() or -signal.SIGKILL)
            self._reports.close()
        return self.returncode

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self):
        self.send_signal(signal.SIGKILL)

    def terminate(self):
        self.send_signal(signal.SIGTERM)


@contextmanager
def started():
    """Start the server. Yield a replacement for `launch_kernel` of jupyter_client, which forks kernels of this Python."""
    usual = local_provisioner.launch_kernel
    if not hasattr(os, "pidfd_open"):  # not on Linux
        yield usual
        return
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        command = [sys.executable, __file__, str(theirs.fileno())]
        server = subprocess.Popen(
            command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, start_new_session=True
        )

    def launch(cmd, *, stdout=None, stderr=None, env=None, cwd=None, **more):
        if cmd[:3] != START:
            return usual(cmd, stdout=stdout, stderr=stderr, env=env, cwd=cwd, **more)
        job = {"argv": cmd[2:], "env": dict(env or os.environ), "folder": cwd or str(Path.cwd())}
        reports, theirs = socket.socketpair()
        with reports, theirs:
            outputs = [stdout or sys.__stdout__, stderr or sys.__stderr__, theirs]
            socket.send_fds(ours, [json.dumps(job).encode()], [one.fileno() for one in outputs])
            return Kernel(reports.makefile("r"))

    with ours:
        yield launch
    server.wait()


def serve(number):
    """Fork a kernel for each job from the socket. The kernel reports its pid, and this process its exit code."""
    os.environ["JPY_PARENT_PID"] = str(
        os.getpid()
    )  # ipykernel reads it at import; kernels end with this process
    for name in IMPORTS:
        import_module(name)
    gc.freeze()
    jobs, selector = socket.socket(fileno=number), selectors.DefaultSelector()
    selector.register(jobs, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if key.data:
                pid, report = key.data
                with suppress(BrokenPipeError):
                    os.write(report, b"%d\n" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
                selector.unregister(key.fd)
                os.close(key.fd)
                os.close(report)
                continue
            text, files, *_ = socket.recv_fds(jobs, 1 << 20, 3)
            if not text:
                return
            pid = os.fork()
            if pid == 0:
                run(json.loads(text), files)
            *outputs, report = files
            for output in outputs:
                os.close(output)
            selector.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, report))


def run(job, files):
    """Run a kernel in this process, and exit."""
    *outputs, report = files
    os.setsid()
    os.write(report, b"%d\n" % os.getpid())  # not earlier: the provisioner looks for the group of the process
    for target, output in enumerate(outputs, 1):
        os.dup2(output, target)
    os.closerange(3, 1024)
    os.chdir(job["folder"])
    os.environ.clear()
    os.environ.update(job["env"])
    sys.argv[:], sys.path[0] = job["argv"], job["folder"]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    sys.exit()


def main():
    """Serve a socket, or run a program."""
    sys.path[0] = str(Path.cwd())  # as with `-m`
    del sys.argv[0]
    if sys.argv[0].isdigit():
        serve(int(sys.argv[0]))
    else:
        with started() as local_provisioner.launch_kernel:
            runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
