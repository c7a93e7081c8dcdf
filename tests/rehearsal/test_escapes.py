"""At each level, no attempt of `escapes.py` has an effect outside."""

import contextlib
import ctypes
import json
import os
import resource
import socket
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from uuid import uuid4

import pytest

from tests.rehearsal.escapes import ATTEMPTS, GIVEN, HOME, MORE
from tract_jupyter.rehearsal import Backups, RehearsalLimits, Rehearser, probe

pytestmark = pytest.mark.slow

# Each attempt runs in a separate frame, in a child if it could end the process.
RUNNER = """
import json, os
results = {}
for name, code in attempts.items():
    try:
        exec(code, {"__name__": "attempt"})
        results[name] = ""
    except BaseException as error:
        results[name] = f"{type(error).__name__}: {error}"
print("RESULTS" + json.dumps(results))
"""
HARMLESS = {  # attempts that may succeed in the copy, because their effect ends with it
    "rename into", "symbolic link out", "inotify", "old descriptors", "many processes", "outlive", "write to the shared memory",
    "write to the temporary folder", "socket file in the workspace", "flags of a file", "list of processes", "read a key by a link",
    "signal to all", "signal to all from the C library", "kill the parent",
}  # fmt: skip
# In a container, the kernel's number can be the one of a process of the copy, and the attempt finds that process.
SMALL = 1_000
BY_NUMBER = {name for name, code in ATTEMPTS.items() if "@KERNEL@" in code or "@SIBLING@" in code}
SECRET = "PRIVATE-KEY-OF-THE-USER"


@pytest.fixture(params=["full", "basic"])
def level(request):
    """Each level that this machine permits."""
    if probe().name == "none" or (request.param == "full" and probe().name != "full"):
        pytest.skip(probe().reason)
    return request.param


class Outside:
    """Everything that an attempt could change."""

    def __init__(self, stack, folder):
        self.folder = folder
        self.workspace = folder / "work"
        self.workspace.mkdir()
        (self.workspace / "data.csv").write_text("a\n1\n")
        (folder / "home" / ".ssh").mkdir(parents=True)
        (folder / "home" / ".ssh" / "id_rsa").write_text(SECRET)
        (folder / "home" / ".bashrc").write_text(SECRET)
        (folder / "drive.py").write_text("precious")
        with contextlib.suppress(OSError):
            os.setxattr(folder / "drive.py", "user.kept", b"1")
        self.listeners = []
        for address, kind in [(f"{folder}/s.sock", 1), (f"\0tract-{folder}", 1), (f"{folder}/d.sock", 2)]:
            self.listeners.append(self._listener(stack, socket.AF_UNIX, kind, address))
        tcp = self._listener(stack, socket.AF_INET, 1, ("127.0.0.1", 0))
        udp = self._listener(stack, socket.AF_INET, 2, ("127.0.0.1", 0))
        self.listeners += [tcp, udp]
        self.sibling = stack.enter_context(subprocess.Popen(["sleep", "600"]))
        stack.callback(self.sibling.kill)
        self.memory = bytearray(b"UNTOUCHED")
        self.address = ctypes.addressof((ctypes.c_char * len(self.memory)).from_buffer(self.memory))
        libc = ctypes.CDLL(None)
        self.semaphore, self.queue = libc.semget(0, 1, 0o600), libc.msgget(0, 0o600)
        stack.callback(libc.semctl, self.semaphore, 0, 0)
        stack.callback(libc.msgctl, self.queue, 0, None)
        assert libc.msgsnd(self.queue, (1).to_bytes(8, "little") + b"own", 3, 0) == 0
        self.key = int(uuid4().hex[:7], 16) & 0x7FFFFFF
        self.replacements = {
            "@O@": str(folder), "@W@": str(self.workspace), "@PORT@": str(tcp.getsockname()[1]), "@UDP@": str(udp.getsockname()[1]),
            "@SIBLING@": str(self.sibling.pid), "@KERNEL@": str(os.getpid()), "@ADDRESS@": str(self.address),
            "@ABSTRACT@": f"tract-{folder}", "@KEY@": str(self.key),
            "@SEMAPHORE@": str(self.semaphore), "@QUEUE@": str(self.queue),
        }  # fmt: skip

    @staticmethod
    def _listener(stack, family, kind, address):
        listener = stack.enter_context(socket.socket(family, kind))
        listener.bind(address)
        listener.setblocking(False)
        if kind == socket.SOCK_STREAM:
            listener.listen()
        return listener

    def filled(self, code):
        for name, value in self.replacements.items():
            code = code.replace(name, value)
        return code

    def state(self):
        """Return everything that must stay."""
        files = {}
        for path in sorted(self.folder.rglob("*")):
            status = path.lstat()
            content = path.read_bytes() if stat.S_ISREG(status.st_mode) else b""
            names = os.listxattr(path) if stat.S_ISREG(status.st_mode) else []
            files[str(path)] = (
                status.st_mode,
                status.st_uid,
                status.st_gid,
                status.st_nlink,
                status.st_mtime_ns,
                content,
                names,
            )
        return {
            "files": files,
            "temporary": [Path(folder, f"{self.key}evil").exists() for folder in ("/tmp", "/dev/shm")],
            "limits": resource.getrlimit(resource.RLIMIT_NOFILE),
            "priority": os.getpriority(os.PRIO_PROCESS, 0),
            "affinity": os.sched_getaffinity(0),
            "scheduler": os.sched_getscheduler(0),
            "memory": bytes(self.memory),
            "machine": socket.gethostname(),
            "interpreter": stat.S_IMODE(Path(sys.executable).stat().st_mode),
            "mounts": Path("/proc/self/mounts").read_text(),
            "score": Path("/proc/self/oom_score_adj").read_text(),
            "package": (Path(sys.modules["tract_jupyter"].__file__).parent / "evil.py").exists(),
            "sibling": self.sibling.poll(),
            "queues": [self._has_key(kind) for kind in ("shm", "sem", "msg")],
            "semaphore": ctypes.CDLL(None).semctl(self.semaphore, 0, 12),  # GETVAL
            "queue": self._row("msg", self.queue),
            "received": [self._received(listener) for listener in self.listeners],
        }

    def _has_key(self, kind):
        """Return True if there is a System V object with the key of the attempts. Other processes have others."""
        return str(self.key) in {
            line.split()[0] for line in Path(f"/proc/sysvipc/{kind}").read_text().splitlines()
        }

    @staticmethod
    def _row(kind, number):
        """Return the state of a System V object, without the times and processes of its last use."""
        lines = Path(f"/proc/sysvipc/{kind}").read_text().splitlines()
        return next(line.split()[:5] for line in lines if line.split()[1] == str(number))

    @staticmethod
    def _received(listener):
        try:
            return listener.recv(10) if listener.type == socket.SOCK_DGRAM else listener.accept()
        except BlockingIOError:
            return None


@pytest.fixture
def outside():
    """A world with files, listeners and processes that nothing may change."""
    with contextlib.ExitStack() as stack:
        # not below /tmp, which is private in the copy; and with a short path, for the addresses of Unix sockets
        folder = stack.enter_context(tempfile.TemporaryDirectory(dir=Path.home(), prefix=".tract-escapes-"))
        yield Outside(stack, Path(folder))


def rehearse(outside, level, attempts, **limits):
    rehearser = Rehearser(outside.workspace, Backups(outside.folder / "backups"), level=level)
    attempts = {name: outside.filled(code) for name, code in attempts.items()}
    return rehearser.rehearse(RUNNER, {"attempts": attempts}, limits=RehearsalLimits(**limits))


def test_there_are_fifty_attempts_of_each_kind():
    assert len(GIVEN) + 2 >= 50  # two more in tests of their own
    assert len(MORE) >= 50


@pytest.mark.parametrize("is_hooked", [True, False], ids=["hook", "system calls only"])
def test_no_attempt_has_an_effect_outside(level, outside, is_hooked, monkeypatch):
    if not is_hooked:
        monkeypatch.setattr("tract_jupyter.rehearsal.fork.report_refusals", lambda *_: None)
    before = outside.state()
    rehearsal = rehearse(outside, level, ATTEMPTS, seconds=30)
    text = rehearsal.effects.text(1_000_000)
    assert rehearsal.effects.ending == "finished", rehearsal.effects.ending_note + text[-2000:]
    results = json.loads(text.rpartition("RESULTS")[2].splitlines()[0])
    assert set(results) == set(ATTEMPTS)
    assert SECRET not in text
    successes = {name for name, error in results.items() if not error}
    print(successes)
    harmless = HARMLESS | (BY_NUMBER if os.getpid() < SMALL else set())
    assert successes <= harmless, successes - harmless
    assert outside.state() == before


def make_home(home):
    """Fill a home folder with hidden files, and links to them."""
    for name in (
        ".ssh/id",
        ".aws/credentials",
        ".jupyter/token.json",
        ".local/share/key",
        "dotfiles/netrc",
        ".bashrc",
    ):
        (home / name).parent.mkdir(exist_ok=True, parents=True)
        (home / name).write_text(SECRET)
    for name, text in {
        ".local/lib/own.py": "value = 1",
        "data.csv": "a\n1\n",
        "dotfiles/plain": "plain",
    }.items():
        (home / name).parent.mkdir(exist_ok=True, parents=True)
        (home / name).write_text(text)
    for name, target in {"keys": ".ssh", "all": ".", ".netrc": "dotfiles/netrc"}.items():
        (home / name).symlink_to(target)


@pytest.mark.parametrize("is_hooked", [True, False], ids=["hook", "system calls only"])
def test_no_attempt_reads_or_writes_hidden_files_of_the_home_folder(level, outside, is_hooked, monkeypatch):
    if not is_hooked:
        monkeypatch.setattr("tract_jupyter.rehearsal.fork.report_refusals", lambda *_: None)
    home = outside.folder / "home"
    make_home(home)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.syspath_prepend(home / ".local" / "lib")
    outside.workspace = home
    outside.replacements["@H@"] = str(home)
    before = outside.state()
    rehearsal = rehearse(outside, level, HOME)
    text = rehearsal.effects.text(1_000_000)
    assert SECRET not in text
    results = json.loads(text.rpartition("RESULTS")[2].splitlines()[0])
    assert all(results.values()), results
    assert rehearsal.effects.files == ()
    rehearsal.discard()
    if is_hooked:
        refused = {one.action for one in rehearsal.effects.refused}
        assert {
            f"read {home}/{name}" for name in (".ssh/id", ".aws/credentials", ".jupyter/token.json")
        } <= refused
    plain = "import os, own; print(open('data.csv').read(), open('dotfiles/plain').read(), own.value, 'data.csv' in os.listdir())"
    monkeypatch.chdir(home)
    rehearsal = Rehearser(home, Backups(outside.folder / "backups"), level=level).rehearse(plain, {})
    assert rehearsal.effects.text() == "a\n1\n plain 1 True\n"
    assert rehearsal.effects.is_empty or [one.name for one in rehearsal.effects.variables] == ["own", "os"]
    rehearsal.discard()
    sys.modules.pop("own", None)
    assert outside.state() == before


def test_a_new_hidden_file_of_the_home_folder_cannot_be_kept(tmp_path, monkeypatch):
    if probe().name != "full":
        pytest.skip(probe().reason)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    rehearser = Rehearser(tmp_path, Backups(tmp_path / ".tract" / "backups"))
    effects = rehearser.rehearse(
        "open('.profile', 'w').write('x'); open('a.txt', 'w').write('x')", {}
    ).effects
    assert [(one.path, one.problem) for one in effects.files] == [
        (".profile", "it is a hidden file of your home folder"), ("a.txt", ""),
    ]  # fmt: skip
