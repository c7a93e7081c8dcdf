"""The answer as cells: `%%tract_chat --edit`, and a reply that is inserted as cells."""

from __future__ import annotations

import json
from contextlib import nullcontext

import pytest

from tests.cpu import cpu_seconds
from tests.notebook.cells.page import digest
from tests.review.fakes import answering
from tests.review.scripted import StreamingClient, call, reply
from tract_jupyter.exceptions import OperationError
from tract_jupyter.notebook.cells import ModelReply, describe_origin, propose_reply, split_reply

FENCES = """\
First, load the birds:

```python
birds = 3

print("```")
```
Then count.\r
~~~~ py
x = '''
~~~
'''
~~~~

```bash
rm -rf birds
```
- a list
    ```python
    inside = "the list"
    ```
```Python
unfinished = 1"""


def test_a_reply_is_split_at_its_python_blocks():
    assert split_reply(FENCES) == [
        ("markdown", "First, load the birds:"),
        ("code", 'birds = 3\n\nprint("```")'),
        ("markdown", "Then count."),
        ("code", "x = '''\n~~~\n'''"),
        ("markdown", '```bash\nrm -rf birds\n```\n- a list\n    ```python\n    inside = "the list"\n    ```'),
        ("code", "unfinished = 1"),
    ]
    assert split_reply("\n```python\n```\n \n") == []


@pytest.mark.parametrize("fill", [" ", "a", " a", "\t"])
def test_a_long_line_that_is_nearly_a_fence_is_split_quickly(fill):
    text = f"```{fill * 20_000}`"
    with cpu_seconds() as seconds:
        assert split_reply(text) == [("markdown", text)]
    assert seconds[0] < 1  # it was 5 s


@pytest.fixture
def insert(tract):
    """Propose a reply as cells below cell `a`, and return the told outcome."""

    def ask(text: str, after: str = "a", turn: str = "") -> str:
        told: list[str] = []
        thread = propose_reply(tract, ModelReply(text, turn, "birdy"), after, told.append)
        thread.join(20)
        assert not thread.is_alive()
        (outcome,) = told
        return outcome

    return ask


def test_a_reply_becomes_one_reviewed_edit_and_nothing_runs(page, tract, model, decided, insert, bare_shell):
    tract.chat("How many birds?")
    asked = tract.loop.turns()[-1].question
    tract.chat("Thanks.")
    user = decided(answering("reject"), answering("approve"), answering("approve"))
    text = "Count:\n```python\nbirds = 1 / 0\n```"
    assert insert(text).startswith("Not inserted: ")
    assert list(page.sources) == ["a", "b", "c"]
    assert insert(text, turn=asked) == "2 cells inserted"
    (request, _), *_ = user.shown
    assert [(block.language, block.code) for block in request.code] == [
        ("text", "Count:"),
        ("python", "birds = 1 / 0"),
    ]
    assert [(cell["kind"], cell["source"]) for cell in page.cells[1:3]] == [
        ("markdown", "Count:"),
        ("code", "birds = 1 / 0"),
    ]
    assert "birds" not in bare_shell.namespace
    mark = page.cells[2]["tract"]
    assert (mark["model"], mark["turn"]) == ("birdy", asked)
    page.cells[2]["metadata_tract"] = mark
    pages = bare_shell.ip._tract_jupyter.notebook.cells.pages  # the state of the extension
    assert "Asked for by: How many birds?" in describe_origin(tract, pages, page.cells[2]["id"])
    assert insert(text) == "2 cells inserted"  # the mark names the newest of two equal requests
    assert page.cells[2]["tract"]["request"] != mark["request"]


def test_a_reply_that_cannot_be_inserted_says_why(page, tract, decided, insert):
    user = decided()
    assert "which does not exist" in insert("Hi", after="zz")
    assert "a line break other than" in insert("```python\nx\u2028y\n```")
    with pytest.raises(OperationError, match="no text"):
        propose_reply(tract, ModelReply("", "", ""), "a", lambda _: None)
    page.leave()
    assert "no page with the JupyterLab extension" in insert("Hi")
    assert not user.shown


def test_edit_lets_the_model_read_sources_and_propose(bare_shell, tract, page, decided):
    notebook = bare_shell.ip._tract_jupyter.notebook  # the state of the extension
    tract.review.grants.end_rules()  # it may not look at values
    edit = {"action": "replace", "cell": "a", "based_on": digest("x = 1")[:16], "source": "x = 2"}
    calls = ("notebook_read", {}), ("notebook_edit", {"edits": [edit]}), ("notebook_read", {"outputs": True})
    model = StreamingClient(*[reply(None, call(*one)) for one in calls], "Larger now.")
    tract.configure_llm(model)
    user = decided(answering("approve"), answering("reject"))
    user.gathering, user.soon = lambda _board: nullcontext(), None
    result = bare_shell.run("%%tract_chat --edit\nMake x larger.")
    assert result.ok, result.error
    asked = [request.title for request, status in user.shown if status == "pending"]
    assert asked == ["Change cell 1: x = 1", "Call tool notebook_read"]  # sources are free, outputs are not
    assert page.sources["a"] == "x = 2"
    assert "one call of notebook_edit" in model.asked[0][0][-1]["content"]
    assert "With --edit the answer is edits of cells" in result.text
    assert not notebook.cells.reads_sources
    tools = json.dumps(model.asked[0][1].get("tools"))
    assert "notebook_edit" in tools
    assert "cannot edit cells" in bare_shell.run("%%tract_chat --edit --plan\nHi").error
    assert "--retry repeats" in bare_shell.run("%%tract_chat --edit --retry\n").error
    assert "--edit has no effect" in bare_shell.run("%%tract_chat --edit --agent claude\nHi").error


def test_edit_needs_a_kernel(bare_shell):
    bare_shell.run("%load_ext tract_jupyter")
    bare_shell.namespace["tract"].configure_llm(StreamingClient(usual="done"))
    assert "--edit needs a Jupyter kernel" in bare_shell.run("%%tract_chat --edit\nHi").error
