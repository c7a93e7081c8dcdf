"""A model edits cells in a real kernel, while its cell runs: the page answers, and a click at the cell decides."""

from __future__ import annotations

from tests.kernels.rows import Row, on
from tests.notebook.cells.page import FakePage, digest
from tests.notebook.conftest import MODEL

TURN = """
from tract_jupyter.notebook.cells import pages
pages.READ_SECONDS = {seconds}
edit = {{"action": "replace", "cell": "a", "based_on": {hash!r}, "source": "x = 2"}}
calls = call("notebook_read"), call("notebook_edit", {{"edits": [edit]}})
replies[:] = [reply(None, calls[0]), reply(None, calls[1]), "Done."]
"""
RESULTS = "[m['content'] for m in asked[-1][0] if m['role'] == 'tool']"


def begin(kernel, *, seconds):
    kernel.run(MODEL)
    kernel.run("%tract looking on")
    kernel.run(TURN.format(seconds=seconds, hash=digest("x = 1")[:16]))
    page = FakePage({"a": "x = 1", "b": "y = 1"}).connect_to(kernel)
    kernel.until(lambda: page.got, "the welcome")
    assert page.got == [{"v": 1, "type": "welcome"}]
    return page


@on(Row.SUBSHELL_7)
def test_a_page_answers_while_the_cell_runs(kernel):
    page = begin(kernel, seconds=20)
    page.on_show = lambda shown: page.say(
        "decide", request=shown["request"], digest=shown["digest"], choice="accept", edits=[{"edit": "e1"}]
    )
    kernel.run("%%tract_chat\nMake x larger.")
    assert page.sources == {"a": "x = 2", "b": "y = 1"}
    assert page.cell("a")["tract"]["decision"] == "approve (cell)"
    assert page.last("hide")["outcome"] == "approved"
    page.deliver({"v": 2, "type": "hello"})
    kernel.until(lambda: page.got[-1]["type"] == "refused", "the refusal")


@on(Row.MAIN_6)
def test_a_page_that_cannot_answer_while_the_cell_runs_changes_nothing(kernel):
    page = begin(kernel, seconds=0.2)
    kernel.run("%%tract_chat\nMake x larger.")
    told = kernel.run(f"print({RESULTS})").text
    assert "no page with the JupyterLab extension is connected" in told
    assert "was not read with this hash" in told
    assert page.sources == {"a": "x = 1", "b": "y = 1"}
    kernel.until(lambda: page.got[-1]["type"] == "refused", "the refusal of the late answer")
    assert not [one for one in page.got if one["type"] in {"show", "apply"}]
