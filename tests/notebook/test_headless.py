"""Runs without a user: notebooks run to the end, and requests fail at once."""

import shutil
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from tract_jupyter import Tract

ROOT = Path(__file__).parent.parent.parent
pytestmark = [
    pytest.mark.kernel,
    pytest.mark.slow,
    # nbclient and jupyter_client leave sockets and a loop to the garbage collector
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]
DEFINE = "%%tract_operation deploy --activate --ask\nx: int = 1\n\ndef go(pending):\n    pending.approve()\n"


def execute(tmp_path, *sources, monkeypatch):
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    NotebookClient(
        notebook, kernel_name="python3", timeout=60, resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    return notebook


def text(cell):
    parts = [o.get("text", "") or o.get("data", {}).get("text/plain", "") for o in cell.outputs]
    return "".join(parts)


@pytest.fixture
def tutorials(tmp_path, monkeypatch):
    """The folder of the tutorials with its other files."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    folder = tmp_path / "notebooks"
    shutil.copytree(ROOT / "notebooks", folder, ignore=shutil.ignore_patterns(".*", "__pycache__"))
    return folder


def run_tutorial(path):
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=60, resources={"metadata": {"path": str(path.parent)}}).execute()


def test_a_request_is_recorded_without_a_widget(tmp_path, monkeypatch):
    notebook = execute(
        tmp_path, "%load_ext tract_jupyter", DEFINE, "p = %tract_fire deploy", monkeypatch=monkeypatch
    )
    (output,) = notebook.cells[2].outputs
    assert set(output.data) == {"text/html", "text/plain"}
    assert "[pending] deploy" in output.data["text/plain"]


@pytest.mark.timeout(60)  # "at once" is a few seconds, mostly for the start of the kernel
@pytest.mark.parametrize(
    "ask", ["tools.fire_deploy(x=1)", "await tract.fire('deploy')", "p = %tract_fire deploy\nawait p"]
)
def test_a_request_fails_at_once_and_the_error_names_the_inbox(tmp_path, monkeypatch, ask):
    with pytest.raises(CellExecutionError, match="inbox") as caught:
        execute(tmp_path, "%load_ext tract_jupyter", DEFINE, ask, monkeypatch=monkeypatch)
    assert "no user is available" in str(caught.value)


def test_a_waiting_cell_is_refused_too(tmp_path, monkeypatch):
    with pytest.raises(CellExecutionError, match="no user is available"):
        execute(
            tmp_path,
            "%load_ext tract_jupyter",
            DEFINE.replace("--activate --ask", "--wait"),
            monkeypatch=monkeypatch,
        )


@pytest.mark.parametrize(
    "value", ["tract.fire('deploy', review=True)", "tract.fire('deploy')", "%tract_fire deploy"]
)
def test_an_open_request_at_the_end_of_a_cell_is_text_with_the_command(tmp_path, monkeypatch, value):
    notebook = execute(
        tmp_path, "%load_ext tract_jupyter", DEFINE, value, f"pending = {value}\nNone", "pending",
        "pending.reject('no')\npending", monkeypatch=monkeypatch,
    )  # fmt: skip
    for cell in (notebook.cells[2], notebook.cells[4]):
        (output,) = cell.outputs
        assert output.data["text/plain"].count("[pending] deploy") == 1
        assert "%tract decide" in output.data["text/plain"]
        assert "x: 1" in output.data["text/plain"]
    assert "rejected, 'no'" in text(notebook.cells[5])


ACTIVE = {"decisions": {"publish"}, "runs": {"confirm"}}
"""The operations that each tutorial activates itself."""


def test_tutorials_run_and_decide_about_their_own_questions_only(tutorials):
    """They run in one folder in reverse order, because no tutorial needs another one."""
    table = Path("data", "sightings.csv")
    for path in [
        *sorted(tutorials.glob("*.ipynb"), reverse=True),
        tutorials / "runs.ipynb",
    ]:  # one request is already in the store
        run_tutorial(path)
        assert not (tutorials / "count.txt").exists()  # the model's code is on display but did not run
        assert (tutorials / table).read_bytes() == (ROOT / "notebooks" / table).read_bytes()
    stores = {path.stem: path for path in (tutorials / ".tract").glob("*.db")}
    assert set(stores) == {"branches", "decisions", "quickstart", "runs", "scripts"}
    for name, path in stores.items():
        with Tract.open(path) as tract:
            assert set(tract.status().operations) == ACTIVE.get(name, set())
            approved = {
                decision.pending_id
                for decision in tract.review.decisions(limit=1_000)
                if decision.action != "reject"
            }
            activations = {event.data["name"] for event in tract.events("operation.activated", limit=1_000)}
            assert activations <= ACTIVE.get(name, set())
            assert not approved & {stored.pending_id for stored in tract.review.inbox()}
    with Tract.open(stores["quickstart"]) as tract:
        assert {stored.title for stored in tract.review.inbox()} == {
            "Run a script in the kernel, with your variables"
        }


OTHERS = (
    "from tract_jupyter import ActionDef, OperationSpec\n"
    "go = ActionDef('go', 'Go', {}, 'pending.approve()')\n"
    "tract.reviewer.keep(tract.propose_operation(OperationSpec('deploy', 'Deploy', {}, {'go': go})))\n"
)
APPROVE_ALL = (
    "from tract_jupyter.exceptions import TractError\n"
    "for stored in tract.review.inbox():\n"
    "    pending = tract.operations.rebuild(stored)\n"
    "    try:\n        pending.named(pending.fingerprint).approve()\n"
    "    except TractError as error:\n        print(type(error).__name__, error)\n"
    "print(tract.status().operations)"
)


def test_code_in_a_headless_run_approves_nothing_that_another_run_asked(tmp_path, monkeypatch):
    load = "%load_ext tract_jupyter"
    execute(tmp_path, load, OTHERS, monkeypatch=monkeypatch)
    told = text(execute(tmp_path, load, APPROVE_ALL, monkeypatch=monkeypatch).cells[-1])
    assert "CodeDecisionError" in told
    assert "%tract inbox" in told
    assert told.endswith("()\n")
    own = text(
        execute(tmp_path, load, OTHERS.replace("deploy", "own"), APPROVE_ALL, monkeypatch=monkeypatch).cells[
            -1
        ]
    )
    assert "('own',)" in own


DICE = """import random

@tract.tool(read_only=True)
def roll() -> int:
    "Roll."
    return random.getrandbits(64)

def model(messages, **options):
    call = {"id": "c1", "type": "function", "function": {"name": "roll", "arguments": "{}"}}
    told = {"content": None, "tool_calls": [call]} if len(messages) == 1 else {"content": messages[-1]["content"]}
    return {"choices": [{"message": {"role": "assistant", **told}}]}
"""


def test_a_notebook_that_is_replayed_gives_the_same_root_hash(tmp_path, monkeypatch):
    """Recorded until the kernel ends, and replayed in another kernel without a model."""
    outputs = []
    for way, use in (("record", "tract.models.use(model)"), ("replay", "")):
        notebook = execute(
            tmp_path,
            "%load_ext tract_jupyter\n%config TractJupyter.store = ':memory:'",
            f"%tract cassette {way} talk.cassette.jsonl",
            DICE + use,
            "tract.chat('Roll.', tools='self').text, tract.head",
            "%tract cassette",
            monkeypatch=monkeypatch,
        )
        outputs.append([text(cell) for cell in notebook.cells[3:]])
    assert outputs[0][0] == outputs[1][0]
    assert "2 requests and 1 tool call replayed: talk.cassette.jsonl; the same root hash" in outputs[1][1]
    assert not list(tmp_path.glob("*.partial"))
