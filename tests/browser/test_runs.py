"""A run with operations around the main call in a real JupyterLab: display, decision, stop."""

LOAD = "%load_ext tract_jupyter"
SETUP = """import json, time
from tract_jupyter.runs.profile import OperationProfile, run_operation

class Model:
    seconds = 0.3
    def chat(self, messages, **options):
        asked = messages[-1]["content"]
        time.sleep(0.3 if "Is it" in asked or "Sum up" in asked else self.seconds)
        if "Is it" in asked:
            said = json.dumps({"is_question": True})
        else:
            said = "asked about sources" if "Sum up" in asked else "The survey of 2025."
        return {"choices": [{"message": {"role": "assistant", "content": said}}], "model": "scripted", "usage": {}}

model = Model()
tract.configure_llm(model)
tract.system("Be careful.")
tract.profiles.save(OperationProfile.of("research", [
    run_operation("question", "guard", order=1, text="Is it a question? {{ lastUserMessage }}", outputs=["is_question"],
                  required=True),
    run_operation("style", order=2, text=" Be brief, said <b>one</b>.", into="system"),
    run_operation("hint", order=3, text="Name the year.", into="user", only_if={"question.is_question": True}),
    run_operation("praise", order=4, text="Say thanks.", into="user", only_if={"question.is_question": False}),
    run_operation("summary", "llm", order=5, text="Sum up: {{ lastAssistantMessage }}", when="after", tag="summary"),
]))
"""
CONFIRM = '''%%tract_operation confirm --activate --ask
"""Ask before the question is sent."""
text: str

def send(pending):
    """Send it."""
    pending.approve()
'''
CAREFUL = """tract.profiles.save(OperationProfile.of("careful", [
    run_operation("style", order=1, text=" Be brief.", into="system"),
    run_operation("sure", "dynamic", order=2, operation="confirm", fields={"text": "{{ lastUserMessage }}"}),
]), activate=True)
"""
ASK = "%%tract_run --profile research --out answer\nWhich of the three sources is newest?"


def test_a_run_is_displayed_and_saved_in_the_notebook(open_lab, screenshot):
    lab = open_lab(LOAD, SETUP, ASK, "%tract run --prompt", "%tract profile research", viewport=(1100, 1500))
    for cell in range(3):
        assert lab.run_cell(cell), lab.text(cell)
    shown = lab.output(2)
    shown.locator("[data-testid=tract-run][data-status=done]").wait_for()
    assert shown.locator("[data-testid=tract-run]").count() == 1  # one output for all events
    table = shown.locator("[data-testid=tract-run-operations]")
    for name, state in (
        ("question", "done, required"),
        ("style", "done"),
        ("hint", "done"),
        ("praise", "skipped"),
        ("summary", "done"),
    ):
        row = table.locator("tr", has=lab.page.locator("td:first-child", has_text=name))
        row.get_by_text(state).first.wait_for()
    assert shown.locator("[data-testid=tract-run-operations] .tract-when").count() == 5
    shown.get_by_text("Committed before the main call: question → style → hint").wait_for()
    reasons = shown.locator("[data-testid=tract-run-reasons]")
    assert "praise Its condition does not hold: question.is_question is true" in reasons.inner_text()
    prompt = shown.locator("[data-testid=tract-run-prompt]")
    assert not prompt.get_by_text("Name the year.").first.is_visible()
    prompt.locator("summary").first.click()
    prompt.get_by_text("Name the year.").first.wait_for()
    assert prompt.locator("code", has_text="hint").first.is_visible()
    screenshot(lab, "run", 2)
    lab.theme("JupyterLab Dark")
    screenshot(lab, "run-dark", 2)
    for cell, part in ((3, "tract-prompt"), (4, "tract-profile-operations")):
        assert lab.run_cell(cell)
        lab.output(cell).locator(f"[data-testid={part}]").wait_for()
        screenshot(lab, part, cell)
    data = [output["data"] for output in lab.save().cells[2].outputs if "data" in output]
    assert "Run " in str(data[-1]["text/plain"])
    assert "tract-run-operations" in str(data[-1]["text/html"])
    assert "<script" not in str(data[-1]["text/html"])


def test_a_run_continues_after_a_click(open_lab, screenshot):
    lab = open_lab(
        LOAD, SETUP, CONFIRM, CAREFUL, "%%tract_run\nWhich?", "%tract run --replay", viewport=(1100, 1500)
    )
    for cell in range(4):
        assert lab.run_cell(cell), lab.text(cell)
    lab.run_cell(4, wait=False)
    shown = lab.output(4)
    button = lab.button("Approve without running", 4)
    button.wait_for()
    run = shown.locator("[data-testid=tract-run]")
    assert run.bounding_box()["y"] < button.bounding_box()["y"]
    run.get_by_text("The run continues afterwards").wait_for()
    screenshot(lab, "run-asks", 4)
    button.click()
    assert lab.wait_cell(4), lab.text(4)
    shown.locator("[data-testid=tract-run][data-status=done]").wait_for()
    assert run.count() == 1
    screenshot(lab, "run-decided", 4)
    assert lab.run_cell(5)
    assert "the replay gives the same result" in lab.text(5)


def test_the_stop_button_aborts_the_run(open_lab, screenshot):
    lab = open_lab(
        LOAD, SETUP, CONFIRM, CAREFUL, "%%tract_run\nWhich?", "%%tract_run --profile research\nWhich?",
        "%tract runs", viewport=(1100, 1500),
    )  # fmt: skip
    for cell in range(4):
        assert lab.run_cell(cell), lab.text(cell)
    lab.run_cell(4, wait=False)  # while a request is open
    lab.button("Approve without running", 4).wait_for()
    lab.interrupt()
    assert not lab.wait_cell(4)
    lab.output(4).locator("[data-testid=tract-run][data-status=aborted]").wait_for()
    lab.output(4).get_by_text("the run has ended").first.wait_for()
    screenshot(lab, "run-stopped", 4)
    lab.execute("model.seconds = 6")
    lab.run_cell(5, wait=False)  # during the request to the model
    lab.output(5).get_by_text("the main call is running").wait_for()
    screenshot(lab, "run-live", 5)
    lab.interrupt()
    assert not lab.wait_cell(5)
    assert "the run is stopping" in lab.text(5)
    assert "Traceback" not in lab.text(5)
    screenshot(lab, "run-stopping", 5)
    lab.output(5).locator("[data-testid=tract-run][data-status=aborted]").wait_for()
    screenshot(lab, "run-stopped-late", 5)
    assert lab.run_cell(6)
    assert lab.text(6).count("aborted") == 2
