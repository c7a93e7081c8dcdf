"""The worker: used for libraries that do not survive a fork. It gets copies of the variables in use."""

import hashlib
import os
import re
import signal
import threading
from pathlib import Path

import pytest

from tract_jupyter.rehearsal import Engines, RehearsalLimits

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def engines():
    """Engines with one worker that all tests in this file share."""
    made = Engines()
    yield made
    made.worker.close()  # the tests of other files start another one


@pytest.fixture
def in_worker(rehearser, engines, monkeypatch):
    """Rehearse code in the worker."""

    def run(code, namespace=None, level="full", **options):
        monkeypatch.setattr(engines, "_is_unsafe", lambda _used: True)
        made = rehearser(level, **options)
        monkeypatch.setattr(made, "_engines", engines)
        rehearsal = made.rehearse(code, {} if namespace is None else namespace)
        assert rehearsal.effects.engine == "worker"
        return rehearsal

    return run


def triple(number):
    return FACTOR * number


FACTOR = 3


def test_the_copy_gets_the_variables_that_the_code_reads(in_worker, level):
    shared = [1, 2]
    namespace = {"numbers": shared, "same": shared, "unused": object(), "os": os, "Path": Path, "text": "é"}
    code = "numbers.append(3)\nprint(same, text, os.sep, Path('x').name)\n'unused' in globals()"
    effects = in_worker(code, namespace, level).effects
    assert effects.ending == "finished", effects.ending_note
    assert effects.text() == "[1, 2, 3] é / x\nFalse"
    assert {one.name for one in effects.variables} >= {"numbers"}
    assert shared == [1, 2]


def test_effects_are_kept_as_from_a_fork(in_worker, workspace):
    namespace = {"table": {"a": [1]}}
    rehearsal = in_worker("table['b'] = 2\nnew = len(table)\nopen('out.txt', 'w').write('x')", namespace)
    change = rehearsal.keep()
    assert namespace["table"] == {"a": [1], "b": 2}
    assert namespace["new"] == 2
    assert (workspace / "out.txt").read_text() == "x"
    change.undo()
    assert namespace == {"table": {"a": [1]}}
    assert not (workspace / "out.txt").exists()


def test_functions_of_the_notebook_arrive_as_source(in_worker, monkeypatch):
    monkeypatch.setattr(triple, "__module__", "__main__")
    effects = in_worker("triple(2)", {"triple": triple, "FACTOR": FACTOR}).effects
    assert effects.outputs[-1].text == "6"


def test_a_pattern_arrives_as_source(in_worker):
    effects = in_worker("words.findall('A b')", {"words": re.compile("[a-z]", re.IGNORECASE)}).effects
    assert effects.outputs[-1].text == "['A', 'b']"


def test_a_safe_value_replaces_one_without_a_form(in_worker):
    model = object()
    namespace = {"model": model, "other": [object()]}
    rehearsal = in_worker("model = 5\nother = [1]", namespace)
    assert [(one.name, one.action, one.after, one.problem) for one in rehearsal.effects.variables] == [
        ("model", "changed", "int 5", ""), ("other", "changed", "list of 1", ""),
    ]  # fmt: skip
    change = rehearsal.keep()
    assert namespace == {"model": 5, "other": [1]}
    assert {item.state for item in change.undo()} == {"restorable"}
    assert namespace["model"] is model
    rehearsal = in_worker("model = 5", namespace)
    namespace["model"] = object()
    assert rehearsal.changed_since() == ("model",)


def test_a_variable_without_a_form_is_missing(in_worker):
    effects = in_worker("lock", {"lock": threading.Lock()}).effects
    assert effects.ending_note == "NameError: name 'lock' is not defined"


def test_settings_of_the_kernel_hold_in_the_worker(in_worker, monkeypatch, workspace):
    (workspace / "sub").mkdir()
    monkeypatch.chdir(workspace / "sub")
    monkeypatch.setenv("REHEARSAL_TEST", "here")
    monkeypatch.setenv("REHEARSAL_TOKEN", "not-in-the-worker")
    effects = in_worker(
        "import os, random\nprint(os.environ['REHEARSAL_TEST'], os.environ.get('REHEARSAL_TOKEN'), os.path.basename(os.getcwd()))"
    ).effects
    assert effects.text() == "here None sub\n"
    assert effects.is_empty


def test_a_worker_draws_the_same_random_numbers_as_the_kernel(in_worker):
    import random

    effects = in_worker("import random\nrandom.random()").effects
    assert effects.outputs[-1].text == repr(random.random())


def test_options_and_random_numbers_of_numpy_hold_in_the_worker(in_worker):
    numpy = pytest.importorskip("numpy")
    with numpy.printoptions(precision=3):
        effects = in_worker("np.random.random(2), np.pi * np.ones(1)", {"np": numpy}).effects
        assert effects.outputs[-1].text == repr((numpy.random.random(2), numpy.pi * numpy.ones(1)))


def test_the_worker_is_contained(in_worker, level):
    code = "import socket\ntry: socket.create_connection(('192.0.2.1', 80))\nexcept OSError: pass\nopen('/etc/hosts', 'a')"
    effects = in_worker(code, level=level).effects
    assert [(one.action, one.line) for one in effects.refused] == [
        ("connect to 192.0.2.1:80", 2),
        ("write /etc/hosts", 4),
    ]


def test_a_hang_in_the_worker_ends(in_worker):
    effects = in_worker("import time; time.sleep(60)", limits=RehearsalLimits(seconds=0.5)).effects
    assert effects.ending == "limit"
    assert in_worker("1").effects.ending == "finished"


def test_a_killed_worker_is_started_again(in_worker, engines):
    in_worker("1")
    os.kill(engines.worker._process.pid, signal.SIGKILL)
    engines.worker._process.wait()
    assert in_worker("1").effects.outputs[-1].text == "1"


def test_a_kernel_with_computing_threads_uses_the_worker_instead_of_a_fork(rehearser, engines, monkeypatch):
    """OpenBLAS hangs in a fork while another thread uses it."""
    pytest.importorskip("numpy")
    stop = threading.Event()

    def compute():
        while not stop.is_set():
            hashlib.pbkdf2_hmac("sha256", b"x", b"y", 200_000)

    made = rehearser()
    threads = [threading.Thread(target=compute) for _ in range(4)]  # on a busy machine, one may get no time
    monkeypatch.setattr(made, "_engines", engines)
    for thread in threads:
        thread.start()
    try:
        engine = made.rehearse("a = 1", {}).effects.engine
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert (engine, made.rehearse("a = 1", {}).effects.engine) == ("worker", "fork")


def test_polars_runs_in_the_worker(rehearser):
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({"g": [1, 2, 1], "v": [1.0, 2.0, 3.0]})
    frame.lazy().group_by("g").agg(pl.col("v").mean()).collect()  # the threads start
    made = rehearser()
    try:
        rehearsal = made.rehearse(
            "out = frame.lazy().group_by('g').agg(pl.col('v').sum()).sort('g').collect()",
            {"frame": frame, "pl": pl},
        )
        assert rehearsal.effects.engine == "worker"
        assert rehearsal.effects.headline.startswith("Creates `out` (2 × 2).")
        rehearsal.discard()
    finally:
        made.close()


# the choice


def test_plain_code_uses_the_fork():
    assert Engines().choose("import json\nx = [1]", {"text": "polars"}) == "fork"


def test_code_that_uses_an_unsafe_library_uses_the_worker():
    pl = pytest.importorskip("polars")
    assert Engines().choose("import polars", {}) == "worker"
    assert Engines().choose("frame.head()", {"frame": pl.DataFrame()}) == "worker"
    assert Engines().choose("other", {"frame": pl.DataFrame(), "other": 1}) == "fork"
    assert Engines().choose("f()", {"frame": pl.DataFrame(), "f": _uses_frame}) == "worker"


def _uses_frame():
    return frame  # noqa: F821 # the namespace has it


def test_a_hang_is_remembered_and_tried_in_the_worker(rehearser, tmp_path, monkeypatch):
    """A library that hangs in a fork, but not in a fresh process."""
    (tmp_path / "hanging.py").write_text("import os\nPID = os.getpid()\n")
    monkeypatch.syspath_prepend(tmp_path)
    import hanging

    made = rehearser(limits=RehearsalLimits(seconds=1.5), roots=lambda: [tmp_path])
    code = f"import hanging, time\nif hanging.PID == {hanging.PID}: time.sleep(60)\n'done'"
    try:
        for _ in range(2):
            rehearsal = made.rehearse(code, {})
            assert (rehearsal.effects.engine, rehearsal.effects.text()) == ("worker", "'done'")
            rehearsal.discard()
        assert made._engines._unsafe == {"hanging"}
        rehearsal = made.rehearse("1", {})
        assert rehearsal.effects.engine == "fork"
        rehearsal.discard()
    finally:
        made.close()


def test_a_loop_that_never_ends_blames_no_library(rehearser):
    made = rehearser(limits=RehearsalLimits(seconds=0.6))
    rehearsal = made.rehearse("import json\nwhile True: pass", {})
    assert (rehearsal.effects.engine, rehearsal.effects.ending) == ("fork", "limit")
    rehearsal.discard()
