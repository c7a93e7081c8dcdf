"""Read and write access of a rehearsal."""

import mmap
import multiprocessing
import os
import sqlite3
import tempfile
import textwrap
from pathlib import Path
from types import SimpleNamespace

import pytest

from tract_jupyter import Tract
from tract_jupyter.exceptions import RehearsalError
from tract_jupyter.rehearsal import Backups, RehearsalLimits, Rehearser, probe

pytestmark = pytest.mark.slow


@pytest.fixture
def outside():
    """A folder outside of the workspace and of all private folders."""
    with tempfile.TemporaryDirectory(dir=Path.home(), prefix=".tract-contain-") as folder:
        (Path(folder) / "note.txt").write_text("outside")
        yield Path(folder)


def printed(effects):
    assert effects.ending == "finished", effects.ending_note
    return effects.text()


def test_the_level_has_a_reason():
    level = probe()
    assert level.name in {"full", "basic", "none"}
    assert level.reason.endswith(".")


def test_the_workspace_can_be_changed_in_the_copy_only(rehearse, workspace):
    (workspace / "data.csv").write_text("old")
    code = "from pathlib import Path\nPath('data.csv').write_text('new'); Path('new.txt').write_text('x')\n"
    code += "Path('sub/deep').mkdir(parents=True)\nprint(sorted(p.name for p in Path().iterdir()), Path('data.csv').read_text())"
    assert printed(rehearse(code)) == "['data.csv', 'new.txt', 'sub'] new\n"
    assert [path.name for path in workspace.iterdir()] == ["data.csv"]
    assert (workspace / "data.csv").read_text() == "old"


def test_renames_links_and_deletions_affect_only_the_copy(rehearse, workspace):
    (workspace / "a").write_text("a")
    (workspace / "folder").mkdir()
    code = "import os, shutil\nos.rename('a', 'b'); os.link('b', 'c'); os.symlink('b', 'd'); os.chmod('b', 0o600); os.utime('b', (1, 1))\n"
    code += "shutil.rmtree('folder'); os.mkdir('folder')\nprint(sorted(os.listdir()))"
    assert printed(rehearse(code)) == "['b', 'c', 'd', 'folder']\n"
    assert sorted(path.name for path in workspace.iterdir()) == ["a", "folder"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
@pytest.mark.parametrize("owner", [(1234, -1), (-1, 1234)], ids=["user", "group"])
def test_changing_a_file_of_another_owner_is_refused_with_the_reason(owner, rehearse, workspace):
    (workspace / "data.csv").write_text("old")
    (workspace / "gone.csv").write_text("old")
    (workspace / "shared").mkdir()
    for name in ("data.csv", "gone.csv", "shared"):
        os.chown(workspace / name, *owner)
    code = "import os\nprint(open('data.csv').read(), os.listdir('shared'))\nopen('new.csv', 'w').close(); os.remove('gone.csv')\n"
    effects = rehearse(code)
    assert printed(effects) == "old []\n"
    assert [(one.path, one.action) for one in effects.files] == [
        ("gone.csv", "deleted"),
        ("new.csv", "created"),
    ]
    why = "because its owner or group is not yours"
    for change, action in {
        "open('data.csv', 'a')": f"write {workspace}/data.csv, {why}",
        "os.utime('data.csv')": f"change the time of {workspace}/data.csv, {why}",
        "os.rename('data.csv', 'other')": f"rename {workspace}/data.csv, {why}",
        "open('shared/new', 'w')": f"write {workspace}/shared, {why}",
        "os.mkdir('shared/new')": f"create {workspace}/shared, {why}",
    }.items():
        effects = rehearse(f"import os\n{change}")
        assert [one.action for one in effects.refused] == [action]
        assert f"PermissionError: A rehearsal cannot {action}" in effects.text()
        assert not effects.can_be_kept


def test_without_namespaces_nothing_can_be_written(rehearse, workspace):
    (workspace / "data.csv").write_text("old")
    effects = rehearse("print(open('data.csv').read())\nopen('new.txt', 'w')", level="basic")
    assert effects.level == "basic"
    assert effects.ending == "raised"
    assert effects.text().startswith("old\n")
    assert [(one.action, one.line) for one in effects.refused] == [(f"write {workspace}/new.txt", 2)]
    assert not effects.is_empty
    assert not effects.can_be_kept


CHANGES = """
import ctypes, os
library = ctypes.CDLL(None)
found = [
    library.open(b"new.txt", os.O_WRONLY | os.O_CREAT, 0o600), library.open(b"data.csv", os.O_RDWR | os.O_TRUNC),
    library.mkdir(b"folder", 0o700), library.unlink(b"data.csv"), library.rename(b"data.csv", b"b"), library.symlink(b"a", b"link"),
    library.open(b"data.csv", os.O_RDONLY | os.O_TRUNC), library.open(b"data.csv", os.O_RDONLY) < 0, library.open(b"/dev/null", os.O_WRONLY) < 0,
]
import sqlite3
list(sqlite3.connect("data.db").execute("SELECT n FROM t")), found
"""


def test_changes_by_libraries_are_listed_without_namespaces(rehearse, workspace):
    (workspace / "data.csv").write_text("old")
    with sqlite3.connect(workspace / "data.db") as data:
        data.executescript("CREATE TABLE t(n); INSERT INTO t VALUES (1)")
    data.close()
    effects = rehearse(CHANGES, level="basic")
    assert effects.outputs[-1].text == "([(1,)], [-1, -1, -1, -1, -1, -1, -1, False, False])"
    assert {one.action for one in effects.refused} == {
        f"{verb} {workspace}/{name}"
        for verb, name in (
            ("write", "new.txt"), ("write", "data.csv"), ("create", "folder"), ("delete", "data.csv"), ("rename", "data.csv"), ("create", "link"),
        )
    }  # fmt: skip
    assert not effects.can_be_kept
    assert (workspace / "data.csv").read_text() == "old"


def test_temporary_files_work_and_disappear(rehearse):
    code = "import tempfile, os\nwith tempfile.NamedTemporaryFile(delete=False) as f: f.write(b'x')\nprint(f.name, os.path.getsize(f.name))"
    name, size = printed(rehearse(code)).split()
    assert size == "1"
    assert not Path(name).exists()


def test_the_copy_has_no_descriptors_of_mounts(rehearse, level):
    code = "import os\nfor name in os.listdir('/proc/self/fd'):\n    try: print(os.readlink(f'/proc/self/fd/{name}').partition(':')[0])\n    except FileNotFoundError: pass"
    found = set(printed(rehearse(code, level=level)).split())
    memory = "/memfd"  # stands for a file that this process has open for writing
    places = {
        place for place in found if place.startswith("/") and ".so." not in place
    }  # libffi opens its own file
    assert places - {memory} == {"/dev/null", "/proc"}


def test_files_left_in_the_temporary_folder_cannot_be_kept(rehearse):
    effects = rehearse("open('/tmp/report.txt', 'w').write('x')")
    assert [(one.path, one.action) for one in effects.files] == [("/tmp/report.txt", "created")]
    assert not effects.can_be_kept
    assert not effects.is_empty


def test_other_temporary_files_are_not_visible(rehearse):
    with tempfile.NamedTemporaryFile() as file:
        assert printed(rehearse(f"import os; print(os.path.exists({file.name!r}))")) == "False\n"


def test_files_outside_cannot_be_read(rehearse, outside, level):
    effects = rehearse(f"open({os.fspath(outside / 'note.txt')!r}).read()", level=level)
    assert effects.ending == "raised"
    assert effects.refused[0].action == f"read {outside}/note.txt"


def test_a_missing_file_outside_is_not_refused(rehearse, outside, level):
    effects = rehearse(f"open({os.fspath(outside / 'missing')!r})", level=level)
    assert effects.ending_note.startswith("FileNotFoundError")
    assert not effects.refused


def test_roots_can_be_read_but_not_written(rehearse, outside, level):
    path = os.fspath(outside / "note.txt")
    code = f"print(open({path!r}).read())\ntry: open({path!r}, 'w')\nexcept OSError as e: print(type(e).__name__)"
    effects = rehearse(code, level=level, roots=lambda: [outside])
    assert effects.text() == "outside\nPermissionError\n"
    assert (outside / "note.txt").read_text() == "outside"


@pytest.mark.parametrize("of_account", [False, True])
def test_a_home_folder_as_root_cannot_be_read(rehearse, outside, level, monkeypatch, of_account):
    if of_account:
        account = SimpleNamespace(pw_dir=os.fspath(outside))
        monkeypatch.setattr("pwd.getpwuid", lambda _: account)
    else:
        monkeypatch.setenv("HOME", os.fspath(outside))
    code = f"open({os.fspath(outside / 'note.txt')!r}).read()"
    effects = rehearse(code, level=level, roots=lambda: [outside])
    assert effects.refused[0].action == f"read {outside}/note.txt"


def test_the_roots_of_a_tract_can_be_read(outside, tmp_path, monkeypatch):
    workspace = tmp_path / "work"
    workspace.mkdir()
    monkeypatch.chdir(workspace)
    with Tract.open() as tract:
        tract.scripts.rehearsing.is_on = True
        tract.scripts.notebooks.user_namespace = {}
        tract.workspace.roots = [workspace, outside]
        pending = tract.scripts.rehearse(f"print(open({os.fspath(outside / 'note.txt')!r}).read())")
        assert pending.effects.text() == "outside\n"


PRIVATE = """
import os
def outcome(path):
    try:
        return open(path).read() if os.path.isfile(path) else os.listdir(path)
    except OSError as error:
        return type(error).__name__
[outcome(path) for path in PATHS]
"""


@pytest.mark.parametrize("place", ["root", "workspace", "packages", "inside"])
@pytest.mark.parametrize("is_hooked", [True, False], ids=["hook", "system calls only"])
def test_secrets_of_jupyter_cannot_be_read_in_a_readable_folder(
    place, is_hooked, level, outside, workspace, tmp_path, monkeypatch
):
    """The signing secret, the connection files of kernels, and the tokens of servers."""
    if not is_hooked:
        monkeypatch.setattr("tract_jupyter.rehearsal.fork.report_refusals", lambda *_: None)
    secret, runtime = outside / "data" / "tract_jupyter" / "secret", outside / "data" / "runtime"
    for folder in (secret.parent, runtime):
        folder.mkdir(parents=True)
    secret.write_text("s3cret")
    (runtime / "kernel-1.json").write_text("s3cret")
    folder = outside if place == "workspace" else workspace
    monkeypatch.chdir(folder)
    if place == "packages":
        monkeypatch.syspath_prepend(outside)
    roots = {"root": [outside], "inside": [secret.parent, runtime]}.get(place, [])
    rehearser = Rehearser(
        folder,
        Backups(tmp_path / "backups"),
        level=level,
        roots=lambda: roots,
        private=lambda: [secret, runtime],
    )
    paths = [secret, runtime / "kernel-1.json", outside / "note.txt"]
    effects = rehearser.rehearse(PRIVATE.replace("PATHS", repr([*map(str, paths)])), {}).effects
    denied = "PermissionError"
    shown = denied if place == "inside" else "outside"
    assert effects.outputs[-1].text == repr([denied, denied, shown])
    assert not effects.can_be_kept or not is_hooked
    assert secret.read_text() == "s3cret"


def test_a_folder_of_secrets_is_no_workspace(outside, tmp_path):
    rehearser = Rehearser(outside, Backups(tmp_path / "backups"), private=lambda: [outside])
    with pytest.raises(RehearsalError, match="tokens"):
        rehearser.rehearse("1", {})


def test_a_folder_of_secrets_above_the_workspace_hides_its_files(outside, tmp_path, level):
    workspace = outside / "work"
    workspace.mkdir()
    (outside / "kernel-1.json").write_text("s3cret")
    (outside / "data").mkdir()
    rehearser = Rehearser(
        workspace,
        Backups(tmp_path / "backups"),
        level=level,
        roots=lambda: [outside],
        private=lambda: [outside],
    )
    paths = [str(outside / "kernel-1.json"), str(outside / "data"), str(workspace)]
    effects = rehearser.rehearse(PRIVATE.replace("PATHS", repr(paths)), {}).effects
    assert effects.outputs[-1].text == repr(["PermissionError", [], []])


def test_a_tract_hides_the_secrets_of_jupyter(outside, tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_DATA_DIR", os.fspath(outside))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", os.fspath(outside / "runtime"))
    (outside / "runtime").mkdir()
    workspace = tmp_path / "work"
    workspace.mkdir()
    monkeypatch.chdir(workspace)
    with Tract.open() as tract:
        tract.scripts.rehearsing.is_on = True
        tract.scripts.notebooks.user_namespace = {}
        tract.workspace.roots = [workspace, outside]
        secret = tract.review.trust.secret_file
        assert secret.is_file()
        assert secret.is_relative_to(outside)
        (outside / "notebook_secret").write_text("key")
        paths = [str(secret), str(outside / "notebook_secret"), str(outside / "runtime")]
        pending = tract.scripts.rehearse(PRIVATE.replace("PATHS", repr(paths)))
        assert pending.effects.outputs[-1].text == repr(["PermissionError"] * 3)


def test_a_workspace_in_the_home_opens_only_itself(outside, level, monkeypatch):
    workspace = outside / "a, b: c"
    workspace.mkdir()
    (workspace / "data.csv").write_text("inside")
    monkeypatch.chdir(workspace)
    rehearser = Rehearser(workspace, Backups(outside / "backups"), level=level)
    code = "print(open('data.csv').read())\nimport os\ntry: print(open('../note.txt').read())\nexcept OSError: print('refused')"
    rehearsal = rehearser.rehearse(code, {})
    assert rehearsal.effects.text() == "inside\nrefused\n"
    rehearsal.discard()


TRIES = {
    "socket.create_connection(('192.0.2.1', 80))": "connect to 192.0.2.1:80",
    "subprocess.run(['/usr/bin/xdg-open', 'x'])": "start a process: /usr/bin/xdg-open x",
    "os.kill(os.getppid(), 9)": "send signal 9 to process",
}


@pytest.mark.parametrize("attempt", TRIES)
@pytest.mark.parametrize("is_module", [True, False], ids=["module", "name of the import system"])
def test_an_attempt_within_an_import_is_reported(attempt, is_module, rehearse, workspace, level, monkeypatch):
    text = f"import contextlib, os, socket, subprocess\nwith contextlib.suppress(OSError):\n    {attempt}\n"
    (workspace / "quiet_module.py").write_text(text)
    monkeypatch.syspath_prepend(workspace)
    code = f"exec({text!r}, {{'__name__': 'importlib._bootstrap'}})"
    effects = rehearse("import quiet_module" if is_module else code, level=level)
    assert [one.action.startswith(TRIES[attempt]) for one in effects.refused] == [True]
    assert not effects.can_be_kept


def test_a_library_may_look_for_a_compiler_at_its_import(rehearse, workspace, monkeypatch):
    text = "import contextlib, subprocess\nwith contextlib.suppress(OSError):\n    subprocess.run(['/sbin/ldconfig', '-p'])\n"
    (workspace / "quiet_module.py").write_text(text)
    monkeypatch.syspath_prepend(workspace)
    assert not rehearse("import quiet_module").refused
    assert rehearse(text).refused


def test_installed_packages_can_be_imported(rehearse, level):
    pytest.importorskip("numpy")
    code = "import json, ssl, decimal, numpy, sqlite3\nprint(int(numpy.arange(3).sum()), sqlite3.connect(':memory:').execute('select 7').fetchone()[0])"
    effects = rehearse(code, level=level)
    assert printed(effects) == "3 7\n"
    assert not effects.refused


def test_event_loops_and_threads_work(rehearse, level):
    code = "import asyncio\nfrom concurrent.futures import ThreadPoolExecutor\n"
    code += "async def main(): return await asyncio.to_thread(lambda: 7)\nprint(asyncio.run(main()), list(ThreadPoolExecutor(2).map(abs, [-1, -2])))"
    assert printed(rehearse(code, level=level)) == "7 [1, 2]\n"


def test_process_pools_work_with_namespaces(rehearse):
    code = "import multiprocessing\nwith multiprocessing.get_context('fork').Pool(2) as pool: print(pool.map(abs, [-1, -2]))"
    assert printed(rehearse(code)) == "[1, 2]\n"


def test_processes_are_refused_without_namespaces(rehearse):
    effects = rehearse("import os\nos.fork()", level="basic")
    assert effects.ending == "raised"
    assert effects.ending_note.startswith("PermissionError")


@pytest.mark.parametrize(
    ("code", "action"),
    [
        ("import urllib.request\nurllib.request.urlopen('https://api.example.com/v1')", "connect to api.example.com:443"),
        ("import socket\nsocket.socket().connect(('192.0.2.1', 80))", "connect to 192.0.2.1:80"),
        ("import socket\nsocket.create_connection(('::1', 80))", "connect to ::1:80"),
        ("import socket\nsocket.socket(socket.AF_UNIX)", "open a socket of family AF_UNIX"),
        ("import subprocess\nsubprocess.run(['curl', '-s', 'x'])", "start a process: curl -s x"),
        ("import os\nos.system('curl x')", "start a process: curl x"),
        ("import os\nos.kill(1 << 21, 9)", f"send signal 9 to process {1 << 21}"),
        ("\nopen('/dev/kmsg', 'w')", "write /dev/kmsg"),
        ("import os\nos.remove('/etc/hosts')", "delete /etc/hosts"),
    ],
    ids=lambda text: text.rpartition("\n")[2],
)  # fmt: skip
def test_refused_attempts_are_reported_with_target_and_line(rehearse, code, action):
    effects = rehearse(code)
    assert effects.ending == "raised"
    assert effects.refused[0].action == action
    assert effects.refused[0].line == 2


def test_equal_refusals_are_counted(rehearse):
    code = "import socket\nfor _ in range(3):\n    try: socket.getaddrinfo('example.com', 443)\n    except OSError: pass"
    effects = rehearse(code)
    assert [(one.action, one.times, one.line) for one in effects.refused] == [
        ("connect to example.com:443", 3, 3)
    ]
    assert not effects.is_complete


def test_written_files_have_a_limit(rehearse, workspace):
    code = "f = open('large', 'wb')\nfor _ in range(40): f.write(bytes(1 << 20))"
    effects = rehearse(code, limits=RehearsalLimits(disk=8 << 20))
    assert effects.ending == "raised"
    assert "Error" in effects.ending_note
    assert not (workspace / "large").exists()


def test_memory_has_a_limit(rehearse, level):
    effects = rehearse("x = bytearray(30 << 30)", level=level, limits=RehearsalLimits(memory=1 << 28))
    assert effects.ending_note == "MemoryError"


@pytest.mark.parametrize(
    "use",
    ["y = b'y' * size", "memoryview(data)[:] = x", "hide(); memoryview(data)[:] = x"],
    ids=["new", "inherited", "hidden"],
)
def test_the_memory_of_all_processes_has_a_limit(use, rehearse):
    code = f"""
        import ctypes, os, time
        size = len(data); x = b'x' * size
        def hide(): ctypes.CDLL(None).prctl(4, 0)
        for _ in range(6):
            if os.fork() == 0:
                {use}; time.sleep(60)
        time.sleep(60)"""
    limits = RehearsalLimits(memory=1 << 27)
    effects = rehearse(textwrap.dedent(code), {"data": bytearray(b"1") * (40 << 20)}, limits=limits)
    assert (effects.ending, effects.ending_note) == ("limit", "more than 128 MB of memory")


def test_inherited_memory_that_the_copy_only_reads_is_free(rehearse, level):
    fork = "if os.fork() == 0: sum(data[::4096]); os._exit(0)"
    code = (
        f"import os\nfor _ in range(6):\n    {fork}\nfor _ in range(6): os.wait()" if level == "full" else ""
    )
    code += "\nimport time; sum(data[::4096]); time.sleep(0.3)"
    data = bytearray(b"1") * (200 << 20)
    effects = rehearse(code, {"data": data}, level=level, limits=RehearsalLimits(memory=1 << 27))
    assert effects.ending == "finished", effects.ending_note


def test_the_number_of_processes_has_a_limit(rehearse):
    code = "import os, time\nwhile True:\n    if os.fork() == 0: time.sleep(60)"
    effects = rehearse(code, limits=RehearsalLimits(processes=10))
    assert (effects.ending, effects.ending_note) == ("limit", "more than 10 processes")


@pytest.mark.parametrize(
    ("code", "action"),
    [
        ("c.connect(c.socket(2, 1, 0), b'\\x02\\0\\x01\\xbb\\xc0\\0\\x02\\x01' + bytes(8), 16)", "connect to 192.0.2.1:443"),
        ("c.execl(b'/bin/sh', b'sh', None)", "start a process: /bin/sh"),
        ("c.ptrace(0, 0, 0, 0)", "trace a process"),
    ],
    ids=["connect", "exec", "ptrace"],
)  # fmt: skip
def test_attempts_that_python_does_not_see_are_reported(rehearse, level, code, action):
    effects = rehearse(
        f"import ctypes\nc = ctypes.CDLL(None, use_errno=True)\nprint({code}, ctypes.get_errno())",
        level=level,
    )
    assert effects.text() == "-1 1\n"
    assert [(one.action, one.line) for one in effects.refused] == [(action, None)]
    assert not effects.is_empty


def test_a_rehearsal_does_not_change_shared_memory_of_the_kernel(rehearse, workspace, level):
    files = {}
    for name, size in {"small": 10, "large": 65 * 1024**2}.items():
        with (workspace / name).open("wb+") as file:
            file.truncate(size)
            files[name] = mmap.mmap(file.fileno(), 0)
    (workspace / "short").write_bytes(b"x")
    with (workspace / "short").open("rb") as file:  # the rest of its page is after the end of the file
        files["short"] = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    memory, lock = mmap.mmap(-1, 10), multiprocessing.get_context("fork").Lock()
    namespace = {**files, "memory": memory, "lock": lock}
    try:
        assert (
            printed(rehearse("print(small[0], large[-1], short[:], memory[0])", namespace, level=level))
            == "0 0 b'x' 0\n"
        )
        for code in ("small[0] = large[0] = memory[0] = 7; lock.acquire()", "large[-1] = 7"):
            effects = rehearse(code, namespace, level=level)
            assert (files["small"][0], files["large"][0], files["large"][-1], memory[0]) == (0, 0, 0, 0)
            assert lock.acquire(block=False)
            lock.release()
            assert not effects.can_be_kept
            assert f"change shared memory: {workspace}/large" in {one.action for one in effects.refused}
        assert len(effects.refused) == 1
    finally:
        for one in (*files.values(), memory):
            one.close()
