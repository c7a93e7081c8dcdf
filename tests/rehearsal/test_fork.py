"""The fork of the kernel: its variables, output, tool calls, limits and ends."""

import contextlib
import csv
import ctypes
import gc
import logging
import mmap
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from tract_jupyter.concurrency import StopSignal
from tract_jupyter.exceptions import RehearsalError
from tract_jupyter.rehearsal import Backups, RehearsalLimits, Rehearser, ToolReply
from tract_jupyter.review import Trust

pytestmark = pytest.mark.slow


def test_the_copy_has_the_variables_and_the_kernel_keeps_them(rehearse, level):
    namespace = {"numbers": [1, 2]}
    effects = rehearse("numbers.append(3); new = 1; sum(numbers)", namespace, level=level)
    assert effects.ending == "finished"
    assert effects.outputs[-1].kind == "result"
    assert effects.outputs[-1].text == "6"
    assert namespace["numbers"] == [1, 2]
    assert "new" not in namespace


def test_an_empty_rehearsal_only_looks(rehearse, level):
    effects = rehearse("", level=level)
    assert effects.is_empty
    assert effects.level == level
    assert effects.engine == "fork"


def test_without_a_comparison_only_files_and_output_are_effects(rehearser):
    namespace = {"numbers": [1, 2]}
    code = "numbers.append(3); open('a.txt', 'w').write('a'); print(numbers)"
    rehearsal = rehearser().rehearse(code, namespace, compares=False)
    assert (rehearsal.effects.ending, rehearsal.effects.variables) == ("finished", ())
    assert rehearsal.effects.text(10**6).count("[1, 2, 3]") == 1
    assert [file.path for file in rehearsal.effects.files] == ["a.txt"]
    rehearsal.discard()
    assert namespace["numbers"] == [1, 2]


def test_output_has_the_order_of_the_code(rehearse):
    code = "import sys\nprint('one')\nprint('two', file=sys.stderr)\nsys.stdout.buffer.write(b'three\\n')\n'four'"
    effects = rehearse(code)
    assert [(one.kind, one.text) for one in effects.outputs] == [
        ("text", "one\ntwo\nthree\n"),
        ("result", "'four'"),
    ]


def test_long_output_is_cut_and_the_code_continues(rehearse):
    namespace = {}
    effects = rehearse(
        "for i in range(100_000): print('x' * 100)\nprint('end')\n1",
        namespace,
        limits=RehearsalLimits(output=50_000),
    )
    assert effects.ending == "finished"
    assert len(effects.text(10**6)) < 60_000
    assert effects.outputs[-1].text == "1"


def test_an_error_names_the_lines_of_the_code(rehearse):
    effects = rehearse("import json\ndef f(text):\n    return json.loads(text)\nf('{')")
    assert effects.ending == "raised"
    assert effects.ending_note.startswith("JSONDecodeError: ")
    error = effects.outputs[-1]
    assert error.kind == "error"
    assert error.text.splitlines()[:5] == [
        "Traceback (most recent call last):", "  cell, line 4", "    f('{')", "  cell, line 3, in f", "    return json.loads(text)",
    ]  # fmt: skip
    assert "decoder.py" not in error.text


def test_a_syntax_error_has_its_line(rehearse):
    effects = rehearse("x = 1\ny = (")
    assert effects.ending_note == "SyntaxError: '(' was never closed (line 2)"


def test_a_fork_draws_the_same_random_numbers_as_the_kernel(rehearse):
    random.seed(3)
    effects = rehearse("import random\nrandom.random()")
    assert effects.outputs[-1].text == repr(random.random())


@pytest.mark.parametrize(
    ("code", "note"),
    [
        ("import os; os._exit(0)", "the copy ended without a complete report"),
        ("import os; os._exit(3)", "the copy ended with exit code 3"),
        ("import ctypes; ctypes.string_at(1)", "the copy ended with signal SIGSEGV"),
        ("import os\nfor f in map(int, os.listdir('/proc/self/fd')):\n    try: f > 2 and os.write(f, b'garbage' * 10)\n    except OSError: pass", "the report is too large"),
    ],
    ids=["exit", "exit code", "signal", "garbage"],
)  # fmt: skip
def test_a_crash_is_an_ending(rehearse, code, note, level):
    effects = rehearse(code, level=level)
    assert effects.ending == "crashed"
    assert effects.ending_note == note
    assert not effects.can_be_kept


def test_a_hang_ends_at_the_limit(rehearse, level):
    effects = rehearse(
        "print('before')\nimport time; time.sleep(60)", level=level, limits=RehearsalLimits(seconds=0.7)
    )
    assert (effects.ending, effects.ending_note) == ("limit", "more than 0.7 seconds")
    assert effects.text() == "before\n"
    assert effects.seconds < 5


def test_a_copy_that_ignores_signals_ends_at_the_limit(rehearse):
    code = "import signal, time\nfor n in (2, 15, 1): signal.signal(n, signal.SIG_IGN)\nwhile True: time.sleep(1)"
    assert rehearse(code, limits=RehearsalLimits(seconds=0.7)).ending == "limit"


@pytest.mark.slow
def test_cpu_time_has_a_limit(rehearse):
    effects = rehearse("while True: pass", limits=RehearsalLimits(cpu_seconds=1, seconds=30))
    assert (effects.ending, effects.ending_note) == ("limit", "more than 1 CPU seconds")


def test_stop_ends_the_copy(rehearse, level):
    stop = StopSignal()
    threading.Timer(0.3, stop.set).start()
    effects = rehearse("import time; time.sleep(60)", level=level, stop=stop)
    assert effects.ending == "stopped"
    assert effects.seconds < 5


def test_a_stop_before_the_start_counts(rehearse):
    stop = StopSignal()
    stop.set()
    assert rehearse("import time; time.sleep(60)", stop=stop).ending == "stopped"


def test_a_rehearsal_in_another_thread_is_the_same(rehearse):
    results = []
    thread = threading.Thread(
        target=lambda: results.append(
            rehearse("import threading; threading.current_thread() is threading.main_thread()")
        )
    )
    thread.start()
    thread.join()
    assert results[0].outputs[-1].text == "True"


def test_rehearsals_at_the_same_time_do_not_mix(rehearse):
    results = {}
    threads = [
        threading.Thread(
            target=lambda n=n: results.update({n: rehearse(f"import time; time.sleep(.1); {n}")})
        )
        for n in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {n: effects.outputs[-1].text for n, effects in results.items()} == {n: str(n) for n in range(6)}


# tools


def answer(tool, arguments):
    if tool == "delete":
        return ToolReply(needs_approval=True)
    if tool == "fail":
        return ToolReply(error="no such page")
    return ToolReply({"tool": tool, **arguments})


def test_tools_are_answered_by_the_kernel(rehearse, level):
    effects = rehearse(
        "print(tools.search(query='owls')['query'])\ntools.agents.helper()", level=level, tools=answer
    )
    assert effects.text() == "owls\n{'tool': 'agents.helper'}"
    assert [(one.tool, one.arguments, one.is_answered) for one in effects.calls] == [
        ("search", '{"query": "owls"}', True), ("agents.helper", "{}", True),
    ]  # fmt: skip
    assert effects.is_empty


def test_a_call_that_needs_approval_ends_the_rehearsal(rehearse):
    effects = rehearse("print('before')\ntools.delete(name='x')\nprint('after')", tools=answer)
    assert effects.ending == "asked"
    assert effects.text() == "before\n"
    assert [(one.tool, one.is_answered) for one in effects.calls] == [("delete", False)]
    assert not effects.can_be_kept


def test_variables_that_change_before_a_call_that_needs_approval_are_effects(rehearse, level):
    code = "kept = [1, 2]\ngone = 1\ntry:\n    tools.delete(name='x')\nexcept BaseException:\n    late = 1\n"
    effects = rehearse(code, {"gone": 0}, level=level, tools=answer)
    assert effects.ending == "asked"
    assert {one.name: one.action for one in effects.variables} == {"kept": "created", "gone": "changed"}


def test_code_that_continues_after_a_call_that_needs_approval_is_stopped(rehearse):
    """The code makes the call directly, and then a second call instead of ending."""
    code = FLOOD + (
        "for number in range(2):\n"
        "    channel.send({'kind': 'call', 'id': number + 1, 'tool': 'delete', 'arguments': {}})\n"
        "import time; time.sleep(30)"
    )
    effects = rehearse(code, tools=answer)
    assert (effects.ending, effects.can_be_kept) == ("asked", False)
    assert effects.seconds < 20


def test_the_error_of_a_tool_is_raised(rehearse):
    effects = rehearse("tools.fail()", tools=answer)
    assert effects.ending_note == "ToolExecutionError: fail() failed: no such page"
    code = "from tract_jupyter import ToolExecutionError\ntry: tools.fail()\nexcept ToolExecutionError as error: print(error.reason)"
    assert rehearse(code, tools=answer).text() == "no such page\n"


def test_a_workspace_above_the_home_folder_is_refused(tmp_path, monkeypatch):
    (tmp_path / "home" / "work").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    rehearser = Rehearser(tmp_path, Backups(tmp_path / "backups"))
    with pytest.raises(
        RehearsalError, match="contains your home folder, with its keys. Start the notebook in"
    ):
        rehearser.rehearse("1", {})
    account = SimpleNamespace(pw_dir=str(tmp_path / "account" / "home"))
    monkeypatch.setattr("pwd.getpwuid", lambda _: account)
    with pytest.raises(RehearsalError, match="contains your home folder"):
        Rehearser(tmp_path / "account", Backups(tmp_path / "backups")).rehearse("1", {})
    for workspace in (tmp_path / "home", tmp_path / "home" / "work"):
        assert Rehearser(workspace, Backups(tmp_path / "backups")).rehearse("1", {}).effects.is_empty


def test_arguments_of_tools_are_data(rehearse):
    effects = rehearse("tools.search(query=object())", tools=answer)
    assert effects.ending_note.startswith("TypeError")
    assert not effects.calls


def test_an_error_in_a_kernel_tool_reaches_the_caller_and_ends_the_copy(rehearser):
    def broken(_tool, _arguments):
        raise RuntimeError("the store is closed")

    before = children()
    with pytest.raises(RuntimeError, match="the store is closed"):
        rehearser().rehearse("tools.search()", {}, tools=broken)
    assert children() == before


def test_without_tools_a_call_fails(rehearse):
    assert "no tools" in rehearse("tools.search()").ending_note


def test_a_user_variable_named_tools_is_kept(rehearse):
    assert rehearse("tools", {"tools": [1]}).outputs[-1].text == "[1]"


# secrets

SECRET = "sk-a1B2c3D4e5F6g7H8i9J0"


class Client:
    """A client that keeps its key in several places."""

    def __init__(self, key):
        self.headers = {"Authorization": f"Bearer {key}"}


def test_secrets_are_not_in_the_copy(rehearse, monkeypatch, level):
    monkeypatch.setenv("OTHER_API_KEY", "o" + SECRET[::-1])
    monkeypatch.setenv("CONFIG", f"key={SECRET}")
    monkeypatch.setenv("HARMLESS", "here")
    namespace = {"client": Client(SECRET), "hidden": 1}
    code = "import os\nprint([os.environ.get(n) for n in ('OTHER_API_KEY', 'CONFIG', 'HARMLESS')])\n"
    code += "print(client.headers['Authorization'][7:][::-1])\n'hidden' in globals()"
    effects = rehearse(code, namespace, level=level, secrets=lambda: [SECRET], hidden=lambda: ["hidden"])
    text = effects.text()
    assert SECRET[::-1] not in text
    assert text.startswith("[None, None, 'here']\n")
    assert text.endswith("False")
    assert namespace["client"].headers["Authorization"] == f"Bearer {SECRET}"


def test_unreadable_memory_pages_cause_no_error(rehearse):
    """The C library has such pages at the end of thread stacks."""
    memory = mmap.mmap(-1, 8 * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.write(b"x" * len(memory))
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    install_guards = 102  # MADV_GUARD_INSTALL
    if ctypes.CDLL(None).madvise(ctypes.c_void_p(address + 4 * mmap.PAGESIZE), mmap.PAGESIZE, install_guards):
        pytest.skip("this kernel of Linux has no guard pages")
    assert rehearse("1 + 1", secrets=lambda: [SECRET]).ending == "finished"


def test_secrets_in_the_initial_environment_are_overwritten(rehearse):
    assert "PATH=" in Path("/proc/self/environ").read_text()
    path = os.environ["PATH"]
    effects = rehearse("print(open('/proc/self/environ').read())", secrets=lambda: [path])
    assert path not in effects.text(10**6).replace("[secret]", path if len(path) < 12 else "")


def test_known_secrets_are_replaced_in_all_output(rehearse):
    import base64

    parts = f"a, b = {SECRET[:9]!r}, {SECRET[9:]!r}\nkey = a + b\n"
    code = (
        parts
        + "import base64\nprint(key, base64.b64encode(b'id:' + key.encode()).decode(), key.encode().hex())\nraise ValueError(key)"
    )
    effects = rehearse(code, secrets=lambda: [SECRET])
    everything = str(effects.to_data())
    for form in (SECRET, base64.b64encode(SECRET.encode()).decode()[:20], SECRET.encode().hex()):
        assert form not in everything
    assert "ValueError: [secret]" in effects.ending_note


# resources


def open_files():
    gc.collect()  # earlier tests may have left files in cycles
    return len(list(Path("/proc/self/fd").iterdir()))


def children():
    return Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text().split()


def test_descriptors_and_children_are_freed(rehearser):
    make = rehearser()
    make.rehearse("", {}).discard()
    before = open_files(), children()
    for code in ("1", "1/0", "import os; os._exit(1)", "tools.x()", "open('f', 'w').write('x')"):
        make.rehearse(code, {}).discard()
    assert open_files() <= before[0]  # threads of earlier tests may close files at any time
    assert children() == before[1]


def test_the_copied_files_are_freed_with_the_rehearsal(rehearser):
    make = rehearser()
    rehearsal = make.rehearse("open('f', 'wb').write(bytes(1000))", {})
    before = open_files()
    del rehearsal
    assert open_files() <= before - 1


def test_a_level_that_fails_says_why(rehearser, monkeypatch):
    def fail(_self):
        raise PermissionError("unshare: Operation not permitted")

    make = rehearser("basic")
    monkeypatch.setattr("tract_jupyter.rehearsal.contain.Containment.confine", fail)
    with pytest.raises(
        RehearsalError,
        match=r"cannot be contained: PermissionError: unshare.* Run it in the kernel instead\.",
    ):
        make.rehearse("x = 1", {})


def test_the_kernel_is_not_blocked(rehearser):
    """Other threads run during a rehearsal."""
    ticks = []
    thread = threading.Thread(target=rehearser().rehearse, args=("import time; time.sleep(.5)", {}))
    thread.start()
    while thread.is_alive():
        ticks.append(time.monotonic())
        time.sleep(0.01)
    assert len(ticks) > 10


IMPORTS = """
from pathlib import Path
from tract_jupyter.rehearsal import Backups, Rehearser
rehearser = Rehearser(Path.cwd() / "work", Backups(Path.cwd() / "backups"), level="full")
effects = rehearser.rehearse("import matplotlib.pyplot as plt; plt.plot([1, 2]);", {}).effects
print(effects.ending, [one.name for one in effects.settings], [one.kind for one in effects.outputs])
"""


@pytest.mark.slow
def test_the_first_import_of_a_library_is_not_an_effect(level, tmp_path):
    if level != "full":
        pytest.skip("at this level matplotlib has no folder for its caches")
    (tmp_path / "work").mkdir()
    environment = {name: value for name, value in os.environ.items() if name != "MPLCONFIGDIR"}
    done = subprocess.run(
        [sys.executable, "-c", IMPORTS],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env=environment,
    )
    assert done.stdout.split("\n")[0] == "finished [] ['figure']", done.stdout + done.stderr


FLOOD = """
import sys, time
frame = sys._getframe()
while frame and "channel" not in frame.f_locals: frame = frame.f_back
channel = frame.f_locals["channel"]
"""


def test_tool_calls_with_unread_answers_end_at_the_time_limit(rehearse):
    code = (
        FLOOD
        + "for number in range(4000): channel.send({'kind': 'call', 'id': number, 'tool': 'x', 'arguments': {}})\ntime.sleep(100)"
    )
    effects = rehearse(code, tools=lambda *_: ToolReply("x" * 100), limits=RehearsalLimits(seconds=2))
    assert (effects.ending, effects.ending_note) == ("limit", "more than 2 seconds")


def test_a_large_answer_arrives(rehearse):
    effects = rehearse("len(tools.read())", tools=lambda *_: ToolReply("x" * 3_000_000))
    assert effects.outputs[-1].text == "3000000"


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, b"x"])
def test_a_result_that_is_not_json_is_an_error_of_the_tool(rehearse, value):
    effects = rehearse("tools.read()", tools=lambda *_: ToolReply(value))
    assert effects.ending_note.startswith(
        "ToolExecutionError: read() failed: read ran, but its result is not JSON"
    )


def test_code_cannot_report_that_the_containment_failed(rehearse):
    code = (
        FLOOD
        + "channel.send({'kind': 'end', 'ending': 'failed', 'note': 'run it in the kernel'}); import os; os._exit(0)"
    )
    effects = rehearse(code)
    assert effects.ending == "crashed"
    assert "kernel" not in effects.ending_note


def test_the_signing_secret_is_not_in_the_copy(tmp_path, monkeypatch, rehearse):
    trust = Trust(tmp_path / "secret")
    trust.for_project("x").sign("kind", {})
    (secret,) = trust.secrets()
    raw = secret.encode("utf-8", "surrogateescape")
    assert raw == (tmp_path / "secret").read_bytes()
    code = """
import gc
gc.unfreeze()
held = {one._secret for one in gc.get_objects() if type(one).__name__ == "Trust"}  # some are of other tests
print("overwritten:", b"*" * 32 in held, "held:", given[::-1] in held)
"""
    text = rehearse(code, {"given": raw[::-1]}, secrets=lambda: [secret]).text()
    assert "overwritten: True held: False" in text
    namespace = {"given": raw[::-1]}
    assert "[secret]" in rehearse("print(given[::-1].hex())", namespace, secrets=lambda: [secret]).text()
    assert trust.for_project("x").verify("kind", {}, trust.for_project("x").sign("kind", {}))


def test_short_secrets_are_not_in_the_environment_block():
    code = """
import os
from pathlib import Path
from tract_jupyter.rehearsal import Backups, Rehearser
os.mkdir("work")
rehearser = Rehearser(Path.cwd() / "work", Backups(Path.cwd() / "backups"))
print(rehearser.rehearse("print(open('/proc/self/environ').read()[::-1])", {}).effects.text())
"""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            cwd=folder,
            env={**os.environ, "DB_PASSWORD": "hunter2abc"},
        )
    assert "DROWSSAP_BD" in done.stdout
    assert "cba2retnuh" not in done.stdout


LARGE = """
from pathlib import Path
from tract_jupyter.rehearsal import Backups, Rehearser
secret = "sk-" + "9J0a1B2c3D4e5F6g7H8i"
namespace = {"client": {"key": "Bearer " + secret}}
objects = [bytes(400) for _ in range(900_000)]
namespace["late"] = ["Bearer " + secret, secret.encode() * 300]
rehearser = Rehearser(Path.cwd(), Backups(Path.cwd() / ".tract"), secrets=lambda: [secret])
code = "print(client['key'][:9:-1], late[0][:9:-1], late[1][::-1][:20])"
print(rehearser.rehearse(code, namespace).effects.text())
"""


def test_secrets_beside_many_objects_are_not_in_the_copy(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", LARGE], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    stars = "*" * 20
    assert done.stdout == f"{stars} {stars} b'{stars}'\n\n"


def test_the_permissions_of_new_folders_are_kept(rehearser, workspace):
    workspace.chmod(0o750)
    (workspace / "old").mkdir(mode=0o700)
    code = "import os\nos.mkdir('a', 0o700)\nos.makedirs('b/c')\nos.chmod('b', 0o711)\nopen('b/c/d', 'w').close()\nos.rmdir('old')\n"
    rehearsal = rehearser().rehearse(code + "print(os.stat('.').st_mode & 0o777 == 0o750)", {})
    found = [(effect.path, effect.detail) for effect in rehearsal.effects.files]
    assert found == [("a/", "mode 0700"), ("b/", "mode 0711"), ("b/c/d", "0 B"), ("old/", "")]
    assert rehearsal.effects.outputs[0].text == "True\n"
    change = rehearsal.keep()
    assert [(workspace / name).stat().st_mode & 0o777 for name in ("a", "b")] == [0o700, 0o711]
    change.undo()
    assert [path.name for path in workspace.iterdir()] == ["old"]
    assert (workspace / "old").stat().st_mode & 0o777 == 0o700


def test_text_for_a_file_that_the_kernel_has_open_is_listed(rehearse, workspace, level):
    log = logging.getLogger("rehearsal.test")
    with (workspace / "a.log").open("w") as first, (workspace / "b.csv").open("w") as second:
        first.write("before")
        handler = logging.StreamHandler(first)
        log.addHandler(handler)
        namespace = {"log": log, "rows": csv.writer(second)}
        try:
            found = [
                [one.action for one in rehearse(code, namespace, level=level).refused]
                for code in ("log.error('x')", "rows.writerow([1])", "log, rows")
            ]
        finally:
            log.removeHandler(handler)
    action = f"write to the open file {workspace}"
    assert found == [[f"{action}/a.log"], [f"{action}/b.csv"], []]
    assert [(workspace / name).read_text() for name in ("a.log", "b.csv")] == ["before", ""]


def test_files_that_the_kernel_has_open_can_be_read(rehearse, workspace, level):
    with (
        contextlib.closing(sqlite3.connect(workspace / "rows.db")) as rows,
        (workspace / "note.txt").open("w+") as note,
        tempfile.NamedTemporaryFile(dir=Path.home(), prefix=".tract-open-", mode="w+") as outside,
    ):
        rows.executescript("create table counts(n); insert into counts values (1)")
        for file in (note, outside):
            file.write("first\nsecond\n")
            file.flush()
            file.seek(6)
        namespace = {"rows": rows, "note": note, "outside": outside.file}
        effects = rehearse("print(note.read())", namespace, level=level)
        # its position in the file is a change
        assert (effects.text(), [one.name for one in effects.variables]) == ("second\n\n", ["note"])
        effects = rehearse("print(rows.execute('select n from counts').fetchall())", namespace, level=level)
        assert (effects.text(), effects.is_empty) == ("[(1,)]\n", True)
        for code in (
            "outside.read(1)",
            "note.write('third'); note.flush()",
            "rows.execute('insert into counts values (2)')",
        ):
            assert rehearse(code, namespace, level=level).ending == "raised", code
        assert note.read() == "second\n"  # at its position
        assert rows.execute("select n from counts").fetchall() == [(1,)]


class ProxyError(Exception):
    """Error of a proxy without an object."""


class Proxy:
    """An object like the proxies of web frameworks."""

    @property
    def __class__(self):
        raise ProxyError


class WithoutHash(type):
    """A metaclass whose classes raise an error when they are hashed."""

    def __hash__(cls):
        raise ProxyError


def test_hostile_objects_do_not_break_the_search_for_open_files(rehearse, workspace, level):
    proxies = [Proxy(), (Proxy(),), WithoutHash("Hostile", (), {})()]
    with (workspace / "a.log").open("w") as log:
        values = {"log": log, "proxies": proxies}
        effects = rehearse("log.write('x')\nlen(proxies)", values, level=level)
    assert [one.action for one in effects.refused] == [f"write to the open file {workspace}/a.log"]
    assert effects.ending == "finished"


def test_an_interrupt_frees_the_changed_files(rehearser):
    def interrupt(name, arguments):
        raise KeyboardInterrupt

    before = open_files()
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            rehearser().rehearse("tools.read()", {}, tools=interrupt)
    assert open_files() <= before
