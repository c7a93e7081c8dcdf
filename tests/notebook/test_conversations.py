"""Whose conversation a notebook continues, and what survives `%reset`, `del` and `%reload_ext`."""

from __future__ import annotations

import re

import pytest

from tests.notebook.conftest import LOAD
from tract_jupyter import Tract

MODEL = """
from tract_jupyter.models import Delta
sent = []
def model(messages, **options):
    sent.append([one["content"] for one in messages if one["role"] == "user"])
    return "Yes."
"""


CONTINUES = "Continues the conversation of c.ipynb: 3 messages, the last one just now."


@pytest.fixture
def notebook(bare_shell, monkeypatch):
    """Return a function that opens a notebook in a new session of the extension."""

    def open_notebook(name, *, starts=True):
        bare_shell.run("%unload_ext tract_jupyter")
        monkeypatch.setenv("JPY_SESSION_NAME", name)  # as a Jupyter server does
        bare_shell.run(LOAD)
        bare_shell.run(MODEL)
        if starts:
            bare_shell.run("tract.models.use(model)")
        return bare_shell

    return open_notebook


def test_each_notebook_of_a_folder_has_a_conversation_of_its_own(notebook, tmp_path):
    notebook("c.ipynb").run("%%tract_chat\nMy password hint is otter.")
    second = notebook("d.ipynb")
    assert second.run("%%tract_chat\nHello").ok
    assert second.namespace["sent"] == [["Hello"]]
    assert sorted(path.name for path in (tmp_path / ".tract").glob("*.db")) == ["c.db", "d.db"]


def test_two_notebooks_with_the_same_name_in_different_folders_share_nothing(notebook, tmp_path):
    notebook("/elsewhere/c.ipynb").run("tract.user('one')")
    notebook("/other/c.ipynb").run("tract.user('two')")
    notebook(str(tmp_path / "c.ipynb")).run("tract.user('three')")
    stores = sorted(path.name for path in (tmp_path / ".tract").glob("*.db"))
    assert len(stores) == 3
    assert "c.db" in stores


def test_sharing_is_a_choice(notebook):
    notebook("c.ipynb", starts=False).run("%config TractJupyter.store = 'shared.db'\ntract.user('one')")
    second = notebook("d.ipynb", starts=False)
    text = second.run("tract.models.use(model)\ntract.chat('two')").text
    assert "Continues the conversation of shared.db: 1 message, the last one just now." in text
    assert second.namespace["sent"] == [["one", "two"]]


def test_a_reopened_notebook_says_before_the_first_request_that_it_continues(notebook):
    notebook("c.ipynb").run("%%tract_chat\nHow are you?")
    again = notebook("c.ipynb", starts=False)
    text = again.run("%%tract_chat\nAnd now?").text
    assert text.count(CONTINUES) == 1
    assert text.index(CONTINUES) < text.index("Yes.")
    assert "Continues" not in again.run("%%tract_chat\nStill?").text


def test_a_cell_that_only_opens_the_context_says_so_too(notebook):
    notebook("c.ipynb").run("%%tract_chat\nHow are you?")
    again = notebook("c.ipynb", starts=False)
    text = again.run("tract.models.use(model)").text
    assert f"{CONTINUES} To start a new one: %tract chat new" in text
    assert "Continues" not in again.run("%%tract_chat\nAnd now?").text  # it is there already


def test_a_new_notebook_continues_nothing(notebook):
    assert "Continues" not in notebook("c.ipynb").run("%%tract_chat\nHow are you?").text


def test_a_new_conversation_sends_nothing_of_the_earlier_one_and_keeps_it(notebook):
    notebook("c.ipynb").run("%%tract_chat\nfirst")
    again = notebook("c.ipynb")
    assert "New conversation" in again.run("%tract chat new").text
    assert again.run("%%tract_chat\nsecond").ok
    assert again.namespace["sent"] == [["second"]]
    assert again.run("%tract switch main").ok
    assert "first" in again.run("print(tract.compile().to_dicts())").text


def test_after_a_new_conversation_nothing_continues(notebook):
    notebook("c.ipynb").run("%%tract_chat\nfirst")
    again = notebook("c.ipynb", starts=False)
    again.run("%tract chat new\ntract.models.use(model)")
    assert "Continues" not in again.run("%%tract_chat\nsecond").text


@pytest.mark.slow
def test_a_reset_in_vs_code_moves_no_conversation(bare_shell, tmp_path):
    bare_shell.namespace["__vsc_ipynb_file__"] = str(tmp_path / "report.ipynb")
    bare_shell.run(LOAD)
    bare_shell.run("%reset -f")
    assert ".tract/report.db" in bare_shell.run("print(repr(tract))").text


def test_each_new_conversation_has_a_name_of_its_own(notebook):
    shell = notebook("c.ipynb")
    names = [re.search(r"branch (\S+)\.", shell.run("%tract chat new").text)[1] for _ in range(3)]
    assert names == ["chat-2", "chat-3", "chat-4"]


# --- names and settings


@pytest.mark.slow
@pytest.mark.parametrize("cell", ["%reset -f", "del tract, tools"])
def test_names_come_back(shell, cell):
    shell.run("tract.user('hello')")
    assert shell.run(cell).ok
    assert "hello" in shell.run("print(tract.compile().to_dicts())").text
    assert "commit" in shell.run("print(dir(tools))").text


def test_a_name_that_the_user_gave_away_is_not_taken_back(shell):
    shell.run("tools = 'mine'")
    shell.run("1")
    assert shell.namespace["tools"] == "mine"
    shell.run("del tools")
    assert shell.run("tools.list_tools()").ok


def test_models_and_the_budget_survive_a_reload(shell):
    shell.run(MODEL)
    shell.run("tract.models.use(model)\ntract.models.add('local', base_url='http://127.0.0.1:9/v1')")
    shell.run("%tract budget 50000 tokens")
    assert shell.run("%reload_ext tract_jupyter").ok
    assert shell.run("%%tract_chat\nHow are you?").ok
    assert "50,000 tokens" in shell.run("%tract budget").text
    assert "local" in shell.run("tract.models").text


def test_a_model_in_the_settings_replaces_the_choice(shell):
    shell.run(MODEL)
    shell.run("tract.models.use(model)")
    shell.run("%config TractJupyter.model = 'ollama/qwen3'")
    assert "qwen3" in shell.run("tract.models").text
    shell.run("%reload_ext tract_jupyter")
    assert "qwen3" in shell.run("tract.models").text


def test_a_store_on_another_path_keeps_the_model(shell, tmp_path):
    shell.run(MODEL)
    shell.run("tract.models.use(model)")
    shell.run("%config TractJupyter.store = 'other.db'")
    shell.run("%reload_ext tract_jupyter")
    assert shell.run("%%tract_chat\nHow are you?").ok
    with Tract.open(tmp_path / "other.db") as tract:
        assert tract.compile().messages[-1].content == "Yes."
