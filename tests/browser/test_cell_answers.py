"""The answer of a turn as cells: `%%tract_chat --edit`, and *Insert as cells* in its foot."""

from __future__ import annotations

import pytest

from tests.browser import chat
from tests.browser.server import LABEXTENSION
from tests.browser.test_cells import sha

pytestmark = pytest.mark.skipif(not LABEXTENSION.is_dir(), reason="the JupyterLab extension is not built")
ANSWER = "Count the birds:\n\n```python\nbirds = 1 / 0\n```\n\nThen <b>plot</b> them."


def test_an_answer_is_edits_or_becomes_cells(open_lab, model, screenshot):
    wrong, right = "print('brids')", "print('birds')"
    lab = open_lab(
        chat.SETUP.format(url=model.url),
        wrong,
        "%%tract_chat --edit\nFix the spelling.",
        "%%tract_chat\nHow many?",
    )
    assert lab.run_cell(0), lab.text(0)
    edit = {"action": "replace", "cell": "cell-1", "based_on": sha(wrong)[:16], "source": right}
    model.reply().call("notebook_read").end()
    model.reply().call("notebook_edit", edits=[edit]).end()
    model.reply("The word is birds.").end()
    lab.run_cell(2, wait=False)
    card, summary = lab.page.locator(".jp-tract-card"), lab.page.locator(".jp-tract-summary")
    summary.get_by_text("The new code of 1 cell on a copy of the kernel: ").wait_for()
    card.get_by_role("button", name="Accept", exact=True).click()  # the sources were read without a question
    turn = chat.end(lab, 2)
    assert [one.source for one in lab.save().cells[1:2]] == [right]
    assert "With --edit" in turn.inner_text()

    model.reply(ANSWER).end()
    lab.run_cell(3, wait=False)
    turn = chat.end(lab, 3)
    turn.get_by_role("button", name="Insert as cells").click()
    card.nth(2).wait_for()
    screenshot(lab, "cells-insert")
    accept = summary.get_by_role("button", name="Accept 3", exact=True)
    while not accept.is_visible():
        unseen = summary.get_by_role("status").inner_text()
        summary.get_by_role("button", name="Show next", exact=True).click()
        lab.page.wait_for_function(
            "text => document.querySelector('.jp-tract-summary [role=status]').textContent !== text",
            arg=unseen,
        )
    accept.click()
    turn.get_by_text("3 cells inserted").wait_for()
    cells = lab.save().cells[4:]
    assert [(one.cell_type, one.source) for one in cells] == [
        ("markdown", "Count the birds:"), ("code", "birds = 1 / 0"), ("markdown", "Then <b>plot</b> them."),
    ]  # fmt: skip
    assert cells[1].execution_count is None
    assert cells[1].metadata["tract"]["model"] == "scripted"
    assert "'birds' is not defined" in lab.execute("try: birds\nexcept NameError as error: print(error)")
    assert not [line for line in lab.console if line.startswith("pageerror")]
