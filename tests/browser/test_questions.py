"""The requests of one step in one list, with buttons for each and for all, in a real JupyterLab."""

import pytest

SETUP = """%load_ext tract_jupyter
done = []

@tract.tool
def send(to: str, text: str = "hi"):
    \"\"\"Send a mail.\"\"\"
    done.append(to)
    return f"sent to {to}"

@tract.tool(destructive=True)
def delete(path: str):
    \"\"\"Delete a file.\"\"\"
    done.append(path)

def call(number, name, arguments):
    return {"id": f"c{number}", "type": "function", "function": {"name": name, "arguments": arguments}}

def model(messages, **options):
    if messages[-1]["role"] == "tool":
        return "Done."
    calls = [call(1, "send", '{"to": "Ada"}'), call(2, "send", '{"to": "Bo", "text": "hello"}'), call(3, "delete", '{"path": "a.txt"}')]
    return {"choices": [{"message": {"content": None, "tool_calls": calls}}]}

tract.models.use(model)
"""
GO = "print(tract.chat('Go.', tools='self').text, done)"


@pytest.fixture(params=["JupyterLab Light", "JupyterLab Dark"], ids=["light", "dark"])
def theme(request):
    return request.param


def start(open_lab, theme, reads=True):
    lab = open_lab(SETUP, GO, viewport=(1000, 1500), reads=reads)
    lab.theme(theme)
    lab.run_cell(0)
    lab.run_cell(1, wait=False)
    questions = lab.output(1).locator("[data-testid=tract-questions]")
    questions.get_by_text("3 calls wait for your decision").wait_for()
    return lab, questions


def test_all_at_once_after_all_was_shown(open_lab, screenshot, theme, request):
    lab, questions = start(open_lab, theme)
    all_of_them = questions.get_by_role("button", name="Run all (3)")
    lab.output(1).locator(".approve-all[aria-disabled=false]").wait_for()
    screenshot(lab, f"questions-{request.node.callspec.id}", 1)
    all_of_them.click()
    text = lab.wait_output(1, "Done.")
    assert "['Ada', 'Bo', 'a.txt']" in text
    assert "3 calls of one step" in text
    screenshot(lab, f"questions-decided-{request.node.callspec.id}", 1)


def test_one_request_is_run_and_the_others_are_rejected_together_with_a_reason(open_lab, screenshot):
    lab, questions = start(open_lab, "JupyterLab Light")
    second = questions.get_by_test_id("tract-panel").nth(1)
    second.get_by_role("button", name="Run send", exact=True).click()
    questions.get_by_text("2 calls wait for your decision").wait_for()
    questions.get_by_role("button", name="Reject all (2)…").click()
    questions.get_by_label("Reason for all").fill("not now")
    screenshot(lab, "questions-one-decided", 1)
    questions.get_by_role("button", name="Reject all (2)", exact=True).click()
    text = lab.wait_output(1, "Done.")
    assert "['Bo']" in text
    assert text.count("not now") >= 2
