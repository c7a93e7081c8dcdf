"""Decisions recorded in one kernel are used without a user in another kernel with a new store."""

from __future__ import annotations

import json
import shutil
from contextlib import ExitStack, contextmanager
from pathlib import Path

import nbformat
import pytest
from jupyter_client.manager import start_new_kernel
from jupyter_client.provisioning import local_provisioner
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from tests.notebook.conftest import LOAD, Kernel
from tract_jupyter.review import PROJECT_FILE

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.slow,
    # nbclient and jupyter_client leave sockets and a loop to the garbage collector
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]

DEFINE = """%%tract_operation deploy --ask --wait
'''Put it online.'''
x: int = 1

def go(pending, n: int = 2):
    with open('ran.txt', 'a') as file:
        file.write(f"{pending.fields['x']}-{n} ")
    pending.approve()
"""
FIRE = "p = %tract_fire deploy x=3"
SHOW = "print(p.status, p.decision.channel, p.decision.decided_by)"


@contextmanager
def kernels(folder, data_dir, launch):
    """A function that starts kernels in one folder with the secret of `data_dir`."""
    folder.mkdir()
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(local_provisioner, "launch_kernel", launch)
        patch.setenv("JUPYTER_DATA_DIR", str(data_dir))
        patch.setenv("JUPYTER_RUNTIME_DIR", str(folder / "runtime"))
        patch.setenv("IPYTHONDIR", str(folder / "ipython"))
        patch.delenv("TRACT_JUPYTER_SECRET", raising=False)

        def start():
            manager, client = start_new_kernel(cwd=str(folder))
            stack.callback(manager.cleanup_resources)
            stack.callback(manager.shutdown_kernel, now=True)
            stack.callback(client.stop_channels)
            made = Kernel(client)
            made.folder = folder
            made.run(LOAD)
            return made

        yield start


@pytest.fixture
def start(tmp_path, data_dir, launch_warm):
    """A function that starts kernels, which can have a user."""
    with kernels(tmp_path / "live", data_dir, launch_warm) as start_one:
        yield start_one


@pytest.fixture
def live(start):
    """A kernel that can have a user."""
    return start()


def run(kernel, cell, *typed):
    result = kernel.run(cell, typed=typed)
    assert result.ok, result.error or result.text
    return result.text


def record(kernel):
    """Activate and fire the operation, decide at the prompt, and record the decisions."""
    run(kernel, DEFINE, "activate")
    run(kernel, FIRE + "\nawait p", "go", "5")
    text = run(kernel, "%tract record")
    assert "tract.lock.json: 2 decisions, 2 of them new" in text
    return kernel.folder / "tract.lock.json"


@pytest.fixture(scope="module")
def lock_and_secret(tmp_path_factory, launch_warm):
    """The lock file and the secret of a user's kernel."""
    folder = tmp_path_factory.mktemp("recorded")
    with kernels(folder / "live", folder / "data", launch_warm) as start:
        lock = record(start())
    assert ran(folder / "live") == "3-5 "
    return (
        lock.read_text(),
        (lock.parent / PROJECT_FILE).read_text(),
        (folder / "data" / "tract_jupyter" / "secret").read_bytes(),
    )


@pytest.fixture
def lock(tmp_path, data_dir, lock_and_secret):
    """A recorded lock file with its secret in place."""
    text, project, secret = lock_and_secret
    (data_dir / "tract_jupyter").mkdir(parents=True)
    path = data_dir / "tract_jupyter" / "secret"
    path.touch(mode=0o600)
    path.write_bytes(secret)
    path = tmp_path / "tract.lock.json"
    path.write_text(text)
    (tmp_path / PROJECT_FILE).write_text(project)
    return path


@pytest.fixture
def headless(tmp_path, monkeypatch, launch_warm):
    """A function that runs a notebook without a user in a separate folder."""
    monkeypatch.setattr(local_provisioner, "launch_kernel", launch_warm)
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))

    def execute(*sources, lock=None):
        folder = tmp_path / "ci"
        folder.mkdir(exist_ok=True)
        if lock is not None:
            for file in filter(Path.exists, (lock, lock.parent / PROJECT_FILE)):
                shutil.copy(file, folder / file.name)
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(s) for s in [LOAD, *sources]])
        NotebookClient(notebook, kernel_name="python3", timeout=60,
                       resources={"metadata": {"path": str(folder)}}).execute()  # fmt: skip
        return [
            "".join(o.get("text", "") or o.get("data", {}).get("text/plain", "") for o in cell.outputs)
            for cell in notebook.cells[1:]
        ]

    execute.folder = tmp_path / "ci"
    return execute


def ran(folder):
    path = folder / "ran.txt"
    return path.read_text() if path.exists() else ""


IN_A_THREAD = """import asyncio
p = tract.fire('deploy', {'x': 3}, review=True)
await asyncio.to_thread(tract.reviewer.decide_now, p)"""
AWAITED = "p = tract.fire('deploy', {'x': 3})\nawait p"


@pytest.mark.parametrize(
    "fire", [FIRE, FIRE + " --review", AWAITED, IN_A_THREAD], ids=["fire", "review", "await", "thread"]
)
def test_recorded_decisions_are_executed_once_without_a_user(lock, headless, fire):
    defined, fired, shown = headless(DEFINE, fire, SHOW, lock=lock)
    assert ran(headless.folder) == "3-5 "
    decided_by = json.loads(lock.read_text())["entries"][0]["decided_by"]
    assert shown == f"approved recorded {decided_by}\n"
    assert "[approved] Activate operation deploy" in defined
    assert f"approved by {decided_by} (recorded)" in defined
    assert "[approved] deploy" in fired or fire is IN_A_THREAD


def test_a_second_request_has_no_recorded_decision(lock, headless):
    with pytest.raises(CellExecutionError, match="answers 'deploy' once, and this run needs more answers"):
        headless(DEFINE, FIRE, "%reload_ext tract_jupyter", FIRE + "\nawait p", lock=lock)
    assert ran(headless.folder) == "3-5 "


@pytest.mark.parametrize("changed", [DEFINE.replace("'a'", "'w'"), DEFINE.replace("online", "on line"),
                                     DEFINE.replace("write(f", "write( f")])  # fmt: skip
def test_one_changed_character_in_an_action_refuses(lock, headless, changed):
    with pytest.raises(
        CellExecutionError, match="other code or other values: they have changed since"
    ) as caught:
        headless(changed, lock=lock)
    assert "%tract record" in str(caught.value)
    assert ran(headless.folder) == ""


def test_an_operation_that_is_refused_is_shown_as_open_and_says_why(lock, headless):
    (defined,) = headless(DEFINE.replace(" --wait", "").replace("'a'", "'w'"), lock=lock)
    assert "[pending] Activate operation deploy" in defined
    assert "other code or other values" in defined


@pytest.mark.parametrize(("name", "value"), [("action", "reject"), ("arguments", {"n": 6}), ("decided_by", "eve"),
                                             ("signature", "0" * 64)])  # fmt: skip
def test_a_changed_entry_refuses(lock, headless, name, value):
    data = json.loads(lock.read_text())
    (entry,) = [e for e in data["entries"] if e["kind"] == "operation"]
    entry[name] = value
    lock.write_text(json.dumps(data))
    with pytest.raises(CellExecutionError, match="is not signed with your secret, or was changed"):
        headless(DEFINE, FIRE + "\nawait p", lock=lock)
    assert ran(headless.folder) == ""


def test_an_entry_that_was_copied_for_another_fingerprint_refuses(lock, headless):
    data = json.loads(lock.read_text())
    (activation,) = [e for e in data["entries"] if e["kind"] == "activation"]
    (operation,) = [e for e in data["entries"] if e["kind"] == "operation"]
    operation["identity"] = headless(
        DEFINE, "print(tract.fire('deploy', {'x': 4}, review=True).identity)", lock=lock
    )[1].strip()
    shutil.rmtree(headless.folder)
    assert len(operation["identity"]) == 64
    lock.write_text(json.dumps({"version": 1, "entries": [activation, operation]}))
    with pytest.raises(CellExecutionError, match="is not signed with your secret, or was changed"):
        headless(DEFINE, "p = %tract_fire deploy x=4\nawait p", lock=lock)
    assert ran(headless.folder) == ""


def test_recorded_decisions_need_the_secret_of_a_file_or_the_environment(
    lock, headless, data_dir, monkeypatch
):
    secret = data_dir / "tract_jupyter" / "secret"
    value = secret.read_bytes().hex()
    secret.unlink()
    with pytest.raises(CellExecutionError, match="is not signed with your secret, or was changed"):
        headless(DEFINE, lock=lock)
    monkeypatch.setenv("TRACT_JUPYTER_SECRET", "0" * 63)
    with pytest.raises(CellExecutionError, match="TRACT_JUPYTER_SECRET is set, but is not a secret"):
        headless(DEFINE, lock=lock)
    monkeypatch.setenv("TRACT_JUPYTER_SECRET", value)
    assert headless(DEFINE, FIRE, SHOW, lock=lock)[2].startswith("approved recorded")
    assert ran(headless.folder) == "3-5 "


def test_a_lock_file_that_was_copied_alone_refuses(lock, headless):
    (lock.parent / PROJECT_FILE).write_text('{"version": 1, "project": "%s"}' % ("0" * 32))
    with pytest.raises(
        CellExecutionError, match="was recorded in another project, so it has no effect in this"
    ):
        headless(DEFINE, lock=lock)
    (headless.folder / PROJECT_FILE).unlink()
    (lock.parent / PROJECT_FILE).unlink()
    with pytest.raises(CellExecutionError, match="this folder lacks"):
        headless(DEFINE, lock=lock)
    assert ran(headless.folder) == ""


def test_decisions_recorded_in_a_notebook_need_that_notebook(start, headless, monkeypatch, tmp_path):
    path = tmp_path / "live" / "book.ipynb"
    cells = [nbformat.v4.new_code_cell(source) for source in (LOAD, DEFINE, FIRE)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    monkeypatch.setenv("JPY_SESSION_NAME", str(path))  # as a Jupyter server does
    kernel = start()
    lock = record(kernel)
    assert {entry["notebook"] for entry in json.loads(lock.read_text())["entries"]} == {"book.ipynb"}
    monkeypatch.delenv("JPY_SESSION_NAME")
    with pytest.raises(CellExecutionError, match=r"in the notebook book\.ipynb, which does not exist here"):
        headless(DEFINE, lock=lock)
    shutil.copy(path, headless.folder)
    headless(DEFINE, FIRE, lock=lock)
    assert ran(headless.folder) == "3-5 "


def test_without_a_lock_file_it_says_how_to_record(headless):
    with pytest.raises(CellExecutionError, match="no user is available here") as caught:
        headless(DEFINE)
    assert "tract.lock.json has no entry" in str(caught.value)
    assert "%tract record" in str(caught.value)


def test_a_live_kernel_asks_whatever_is_recorded(live):
    record(live)
    (live.folder / "ran.txt").unlink()
    assert "[rejected] deploy" in run(live, FIRE + "\nawait p", "reject", "not again")
    # a cell without input, run by an extension, does not use recorded decisions either
    result = live.run(FIRE + "\nawait p")
    assert not result.ok
    assert "record" not in result.error
    assert ran(live.folder) == ""


def test_recording_again(live, data_dir):
    lock = record(live)
    before = lock.read_bytes()
    text = run(live, "%tract record")
    assert "2 decisions, 0 of them new" in text
    assert str(data_dir / "tract_jupyter" / "secret") in text
    assert (data_dir / "tract_jupyter" / "secret").read_bytes().hex() not in text
    assert lock.read_bytes() == before


def test_a_later_kernel_records_the_activation_that_it_rests_on(start, live, headless):
    lock = record(live)
    lock.unlink()
    later = start()
    text = run(later, "%tract record")
    assert "1 decision, 1 of them new" in text
    assert "Activate operation deploy" in text
    assert "2 decisions, 1 of them new" in run(later, "%tract record --all")
    headless(DEFINE, FIRE, lock=lock)
    assert ran(headless.folder) == "3-5 "


def test_a_decision_by_code_about_a_displayed_request_is_recorded(live, headless):
    run(live, DEFINE, "activate")
    run(live, FIRE + " --review")  # a click could still arrive
    run(live, "p.go(n=7)")
    run(live, "%tract record")
    lock = live.folder / "tract.lock.json"
    assert headless(DEFINE, FIRE + " --review", "p.go(n=7)", SHOW, lock=lock)[3].startswith(
        "approved recorded"
    )
    assert ran(headless.folder) == "3-7 "


# --- without a separate kernel


def test_nothing_to_record(shell, tmp_path):
    assert "No decisions since this kernel started" in shell.run("%tract record").text
    assert "This store has no decisions" in shell.run("%tract record --all").text
    assert not (tmp_path / "tract.lock.json").exists()
    assert "takes no arguments, got 'x'" in shell.run("%tract record x").error


def test_the_lock_file_name_is_a_setting_and_a_damaged_file_is_kept(shell, tmp_path):
    shell.run("%config TractJupyter.lock_file = 'other.json'")
    shell.run("from tract_jupyter import ActionDef, OperationSpec")
    shell.run(
        "tract.propose_operation(OperationSpec('x', '', {}, {'go': ActionDef('go', '', {}, 'pending.approve()')})).approve()"
    )
    (tmp_path / "other.json").write_text("{")
    assert "other.json cannot be read as a lock file" in shell.run("%tract record").error
    assert (tmp_path / "other.json").read_text() == "{"
    (tmp_path / "other.json").unlink()
    assert "other.json: 1 decision, 1 of them new" in shell.run("%tract record").text
    assert (tmp_path / "other.json").exists()


def test_a_script_without_a_kernel_does_not_use_recorded_decisions(shell, tmp_path):
    # a shell without a kernel and without a terminal: a script, not a headless notebook
    shell.run("from tract_jupyter import ActionDef, OperationSpec")
    shell.run(
        "s = OperationSpec('x', '', {}, {'go': ActionDef('go', '', {}, 'pending.approve()')}, unhandled='ask')"
    )
    shell.run("tract.propose_operation(s).approve()")
    shell.run("p = tract.fire('x', review=True); tract.reviewer.keep(p); p.go()")
    assert "2 decisions" in shell.run("%tract record").text
    result = shell.run("tract.reviewer.decide_now(tract.fire('x', review=True))")
    assert "no user is available here" in result.error
    assert "record" not in result.error
