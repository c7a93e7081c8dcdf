"""Code with many findings in a real JupyterLab: folded by rule, the worst first, and readable without a script."""

import json

import pytest

from tract_jupyter import CodeAnalyzer

LOAD = "%load_ext tract_jupyter"
CODE = """\
import importlib
import os
import pickle
import requests
import shutil
import subprocess

# fetch the sources first
folder = pending.fields["folder"]
for number in range(3):
    page = requests.get(f"https://example.com/{number}")
    with open(f"{folder}/{number}.html", "w") as file:
        file.write(page.text)
names = open("names.txt").read().split()
more = open("more.txt").read().split()
rules = open("rules.txt").read().split()
requests.post("https://example.com/done", json=names, headers={"token": os.environ["TOKEN"]})
os.environ["DONE"] = "1"
os.environ["HOME"] = folder
if not names:
    os.remove("names.txt")
    os.remove("more.txt")
    shutil.rmtree(folder)
state = pickle.loads(open("state.bin", "rb").read())
older = pickle.load(open("older.bin", "rb"))
module = importlib.import_module(names[0])
getattr(module, names[1])(state, older)

result = eval(rules[0])
os.system("git add .")
os.system("git commit -m done")
subprocess.run(["git", "push"], check=True)
with open("log.txt", "a") as log:
    log.write(f"{result} {len(more)} with a line that is longer than the panel is wide, so that it has to be scrolled sideways")
hosts = open("/etc/hosts").read()
pending.approve()
"""
SPEC = {
    "name": "sweep",
    "description": "Fetch, clean up and publish.",
    "fields": {"folder": {"type": "str"}},
    "actions": {"go": {"description": "Do all of it", "code": CODE}},
}
CELL = "%%tract_operation --json\n" + json.dumps(SPEC)


@pytest.fixture(params=["JupyterLab Light", "JupyterLab Dark"], ids=["light", "dark"])
def theme(request):
    return request.param


def test_many_findings_are_folded_by_rule_with_the_worst_first(open_lab, screenshot, theme, request):
    found = CodeAnalyzer().analyze(CODE).findings
    rules = {finding.code for finding in found}
    assert len(found) >= 28
    assert len(rules) >= 8
    lab = open_lab(LOAD, CELL, viewport=(1250, 2200))
    lab.theme(theme)
    for cell in range(2):
        lab.run_cell(cell)
    name = f"findings-{request.node.callspec.id}"
    panel = lab.output(1)
    lab.unfold(1)
    panel.locator(".findings > summary").click()
    rows = panel.locator("details.rule")
    assert rows.count() == len(rules)
    assert "critical" in rows.first.inner_text()
    assert "low" in rows.last.inner_text()
    notes = panel.locator("[role=note]")
    assert notes.count() < len(rules)
    assert all(text.startswith(("critical", "high")) for text in notes.all_inner_texts())
    screenshot(lab, name, 1)

    rows.first.locator("summary").first.focus()  # with the keyboard alone
    lab.page.keyboard.press("Enter")
    rows.first.get_by_text("Instead:").first.wait_for()
    rows.first.locator("summary", has_text="About rule").click()
    rows.first.get_by_text("Why it matters").wait_for()
    screenshot(lab, f"{name}-open", 1)
    lab.page.set_viewport_size({"width": 740, "height": 2600})
    screenshot(lab, f"{name}-narrow", 1)


def test_the_record_of_a_saved_notebook_opens_without_a_kernel(open_lab, screenshot):
    lab = open_lab(LOAD, CELL, viewport=(1000, 1700))
    for cell in range(2):
        lab.run_cell(cell)
    lab.reject(1)
    lab.wait_output(1, "rejected by")
    lab.save()
    lab.reopen()
    record = lab.output(1).locator("[data-testid=tract-record]")
    record.locator("summary").first.click()
    record.locator(".findings > summary").click()
    row = record.locator("details.rule", has_text="TJ101").first
    row.locator("summary").first.click()
    row.get_by_text("Instead:").first.wait_for()
    screenshot(lab, "findings-record", 1)


def test_a_cell_is_checked_without_running_it(open_lab, screenshot, theme, request):
    lab = open_lab(
        LOAD, "import os as quiet", "%%tract_check --strict\nquiet.system('touch ran')\nopen('notes.txt')", "%tract rules",
        "%tract rules TJ101", "%%tract_check\nsum(range(10))", "%config TractJupyter.rules_off = ['TJ201']\n%tract_check open('x')",
        viewport=(1250, 1500),
    )  # fmt: skip
    lab.theme(theme)
    for cell in range(7):
        assert lab.run_cell(cell)
    assert "would block it" in lab.output(2).inner_text()
    assert lab.output(2).locator("details.rule").count() == 2
    assert lab.execute("import os; print(os.path.exists('ran'))") == "False\n"
    assert "1 rule is switched off: TJ201." in lab.output(6).inner_text()
    for cell in range(2, 7):
        screenshot(lab, f"check-{cell}-{request.node.callspec.id}", cell)


def test_another_decision_does_not_fold_the_unfolded_rows_of_the_inbox(open_lab, screenshot):
    other = CELL.replace("sweep", "other")
    lab = open_lab(LOAD, CELL, other, "%tract inbox", viewport=(1000, 1700))
    for cell in range(4):
        lab.run_cell(cell)
    rows = lab.output(3).locator(".item")
    for number in range(2):
        rows.nth(number).locator(".fold").click()
    rows.nth(0).locator(".findings > summary").click()
    rule = rows.nth(0).locator("details.rule").first
    rule.locator("summary").first.click()
    rows.nth(1).get_by_role("checkbox").check()
    lab.button("Reject 1…", 3).click()
    lab.button("Reject 1", 3).click()
    board = lab.output(3)
    board.locator(".item[data-status=rejected]").wait_for()
    assert rule.get_by_text("Instead:").first.is_visible()
    assert rows.nth(0).locator("details.rule[open]").count() == 1
    screenshot(lab, "findings-inbox", 3)
