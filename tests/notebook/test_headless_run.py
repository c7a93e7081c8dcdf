"""`tract-jupyter verify NOTEBOOK`: a real headless run that lists its refusals."""

from __future__ import annotations

import sys
from dataclasses import replace

import nbformat
import pytest

import tract_jupyter
from tests.review.rigging import project
from tract_jupyter import Tract, verify
from tract_jupyter.__main__ import main
from tract_jupyter.exceptions import ContentError, TractError
from tract_jupyter.notebook import parse_cell
from tract_jupyter.review import RecordedDecision, write_lock

# nbclient and jupyter_client leave sockets and a loop to the garbage collector
in_a_kernel = [
    pytest.mark.kernel,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]
LOAD = "%load_ext tract_jupyter"
BODY = "'''Put it online.'''\nx: int = 1\n\ndef go(pending, n: int = 2):\n    pending.approve()\n"
DEFINE = f"%%tract_operation deploy --ask\n{BODY}"
FIRE = "y = 2\nfor x in range(2):\n    p = %tract_fire deploy x=$x"
FOLDER = "TRACT_JUPYTER_HEADLESS_RUN"


@pytest.fixture
def book(tmp_path, monkeypatch):
    """A function that writes a notebook with a text cell and these code cells."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))

    def write(*sources, name="nb/book.ipynb", **metadata):
        cells = [nbformat.v4.new_markdown_cell("%tract_fire deploy")]
        cells += [nbformat.v4.new_code_cell(source) for source in sources]
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=metadata), path)
        return path

    return write


def recorded(*values, body=BODY):
    """Return the decisions that a live notebook records: the activation, and a firing with each value."""
    spec = parse_cell("deploy", "\n" + body, "python").with_options(ask=True, sandbox=False).spec
    with Tract.open() as tract:
        pendings = [("activation", tract.propose_operation(spec))]
        pendings[0][1].approve()
        pendings += [("operation", tract.fire("deploy", {"x": x}, review=True)) for x in values]
        made = [
            RecordedDecision(
                kind, one.title, one.identity, "approve", {}, "ada", "2026-01-02T03:04:05.000006+00:00"
            )
            for kind, one in pendings
        ]
    return [one.signed(project()) for one in made]


def record(folder, entries):
    folder.mkdir(parents=True, exist_ok=True)
    project(folder / "tract.lock.json").keep()
    write_lock(folder / "tract.lock.json", entries)


def content(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class TestInAKernel:
    pytestmark = in_a_kernel

    def test_each_refusal_has_its_place_and_the_identity_of_its_answer(self, book, capsys, tmp_path):
        """The store and the notebook do not change. The run continues until an error."""
        path = book(
            LOAD,
            "%config TractJupyter.store = 'own.db'\nassert tract.compile().messages[0].content == 'kept'\ntract.user('new')",
            DEFINE,
            DEFINE.replace("--ask", "--ask --activate"),
            "def ask():\n    return tools.fire_deploy(x=0)\n",
            FIRE,
            "\nask()",
            "open('never', 'w')",
        )
        with Tract.open(path.parent / "own.db") as tract:
            tract.user("kept")
        before = content(path.parent)
        assert main(["verify", str(path)]) == 1
        lines = capsys.readouterr().out.splitlines()
        assert content(path.parent) == before
        activation, first, second = recorded(0, 1)
        why = "tract.lock.json has no entry for 'deploy'. It needs a recorded decision with identity"
        assert lines[:4] == [
            f"{path}, cell 4, line 1: refused: Activate operation deploy: {why.replace('deploy', 'Activate operation deploy')} {activation.identity[:8]}",
            f"{path}, cell 7, line 3: refused: deploy: {why} {first.identity[:8]}",
            f"{path}, cell 7, line 3: refused: deploy: {why} {second.identity[:8]}",
            f"{path}, cell 8, line 2: refused: deploy: {why} {first.identity[:8]}",
        ]
        assert (
            f"{path}, cell 8: error: the cell fails: ToolExecutionError: fire_deploy(x=0) failed" in lines[4]
        )
        assert lines[4].endswith("The run ends here")
        assert "'%tract record'" in lines[5]

    def test_recorded_decisions_answer_and_the_others_are_listed(self, book, capsys):
        path = book(LOAD, DEFINE, FIRE)
        right = recorded(0, 1, 2)
        changed = replace(right[0], decided_by="eve")
        elsewhere = replace(right[1], notebook="gone.ipynb").signed(project())
        foreign = replace(right[2], project="cd" * 16)
        record(path.parent, [*right, changed, elsewhere, foreign])
        found = verify(path)
        assert sorted((one.kind, one.cell) for one in found) == [
            ("foreign", None),
            ("foreign", None),
            ("unsigned", None),
            ("unused", None),
        ]
        (unused,) = (one for one in found if one.kind == "unused")
        assert unused.path == path.parent / "tract.lock.json"
        record(path.parent, right[:3])
        assert main(["verify", str(path.parent)]) == 0
        assert capsys.readouterr().out == ""

    def test_changed_code_is_refused(self, book):
        path = book(LOAD, DEFINE.replace("online", "on line"))
        record(path.parent, recorded())
        (refused, unused) = verify(path)
        assert "for other code or other values" in refused.why
        assert unused.kind == "unused"

    def test_a_folder_runs_all_notebooks_but_jupyters_copies(self, book, tmp_path):
        book("import os\nos._exit(1)", name="a/dies.ipynb")
        book("%%bash\nexit 0", name="a/fine.ipynb")
        book(DEFINE, name="b/.ipynb_checkpoints/two.ipynb")
        book("1", name="b/none.ipynb", kernelspec={"name": "none", "display_name": "None"})
        (tmp_path / "b" / "broken.ipynb").write_text("{")
        found = [(one.path.name, one.cell, one.kind, one.why) for one in verify(tmp_path)]
        assert [one[:3] for one in found] == [
            ("dies.ipynb", 2, "error"),
            ("broken.ipynb", None, "error"),
            ("none.ipynb", None, "error"),
        ]
        assert "Kernel died" in found[0][3]
        assert "is not a notebook" in found[1][3]
        assert "needs the kernel 'none'" in found[2][3]

    def test_a_damaged_lock_file(self, book):
        path = book(LOAD, DEFINE)
        (path.parent / "tract.lock.json").write_text("{")
        cell, lock = verify(path)
        assert (cell.kind, lock.kind, lock.path) == ("error", "error", path.parent / "tract.lock.json")
        assert "cannot be read as a lock file" in lock.why


# --- the kernel's side, without a kernel


@pytest.mark.parametrize("setting", ["own.db", "sqlite:///{}/own.db", "new.db", ":memory:", "sqlite://"])
def test_a_run_uses_a_copy_of_the_store(shell, tmp_path, monkeypatch, setting):
    with Tract.open(tmp_path / "own.db") as tract:
        tract.user("kept")
    before = content(tmp_path)
    monkeypatch.setenv(FOLDER, str(tmp_path.parent / f"{tmp_path.name}-run"))
    (tmp_path.parent / f"{tmp_path.name}-run").mkdir()
    shell.run(f"%config TractJupyter.store = {setting.format(tmp_path)!r}")
    count = 2 if "own.db" in setting else 1
    for _ in range(2):  # the second opening uses the same copy
        result = shell.run("tract.user('new'); len(tract.log())")
        assert result.ok, result.error
    assert shell.run("print(len(tract.log()))").text.split()[-1] == str(count + 1)
    assert shell.run("%config TractJupyter.generated_agents_dir = 'agents'").ok
    assert shell.run("print(tract.agents.directory)").text.strip() != str(tmp_path / "agents")
    assert content(tmp_path) == before


def test_a_store_that_is_open_elsewhere_is_copied_with_its_newest_writes(shell, tmp_path, monkeypatch):
    monkeypatch.setenv(FOLDER, str(tmp_path))
    shell.run(f"%config TractJupyter.store = {str(tmp_path / 'own.db')!r}")
    with Tract.open(tmp_path / "own.db") as tract:
        tract.user("in the WAL")
        assert "in the WAL" in shell.run("print(tract.compile().messages[0].content)").text
        shell.run("tract.user('new')")
        assert len(tract.log()) == 1


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("postgresql+psycopg://ada@host/name", "cannot copy a store of a database server"),
        ("garbage.db", "cannot be copied for the run"),
    ],
)
def test_a_store_that_cannot_be_copied_is_refused(shell, tmp_path, monkeypatch, setting, told):
    (tmp_path / "garbage.db").write_bytes(b"no database" * 100)
    monkeypatch.setenv(FOLDER, str(tmp_path))
    shell.run(f"%config TractJupyter.store = {setting!r}")
    for _ in range(2):
        assert told in shell.run("tract.log()").error


# --- the command line


def test_the_help_says_that_code_runs(capsys):
    with pytest.raises(SystemExit):
        main(["verify", "--help"])
    assert "code of the cells REALLY RUNS" in " ".join(capsys.readouterr().out.split())


def test_an_invalid_or_missing_notebook_is_an_error(tmp_path, capsys):
    (tmp_path / "x.ipynb").write_text("{")
    for path in (tmp_path / "x.ipynb", tmp_path / "none.ipynb"):
        with pytest.raises(ContentError):
            verify(path)
        assert main(["verify", str(path)]) == 2
    assert "none.ipynb cannot be read" in capsys.readouterr().err


def test_the_error_without_nbclient_names_the_package_to_install(book, monkeypatch):
    monkeypatch.setitem(sys.modules, "nbclient", None)
    with pytest.raises(TractError, match=r"pip install 'tract_jupyter\[headless\]'"):
        verify(book("1"))


def test_verify_and_refusal_are_public():
    assert {"verify", "Refusal"} <= set(tract_jupyter.__all__)


def test_a_printed_refusal_has_no_control_characters(tmp_path):
    refusal = tract_jupyter.Refusal(tmp_path, 1, 2, "\x1b[2K\u202e", "\u202e")
    assert not set("\x1b\u202e") & set(str(refusal))
