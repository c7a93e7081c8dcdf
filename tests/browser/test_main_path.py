"""The main workflow of a user, with clicks in a real JupyterLab."""

import json

LOAD = "%load_ext tract_jupyter"
SPEC = {
    "name": "citation_check",
    "description": "Verify source URLs survive compression",
    "fields": {
        "urls": {"type": "list[str]", "description": "URLs to verify", "required": True},
        "verified": {"type": "bool", "default": False},
    },
    "actions": {
        "verify": {
            "description": "Check all URLs are present in context",
            "params": {
                "limit": "int",
                "strict": "bool",
                "mode": "Literal['fast', 'slow']",
                "names": "list[str]",
            },
            "required": ["limit"],
            "code": "import os\nos.system('true')\nprint('looked at', limit)\n"
            "pending.fields['verified'] = True\npending.approve()\nreturn [limit, strict, mode, names]\n",
        },
        "burst": {"description": "Raise", "params": {}, "code": "value = 1\nraise ValueError('no luck')\n"},
    },
}
PROPOSE = f"%%tract_operation --json\n{json.dumps(SPEC, indent=1)}"
OWN = '''%%tract_operation deploy --activate --ask
"""Put it into production."""
target: Annotated[str, "Where to"]

def ship(pending, force: bool = False):
    """Ship it."""
    pending.approve()
    return {"shipped": pending.fields["target"], "force": force}
'''


def records(lab, index):
    """The static records among a cell's outputs."""
    return [o for o in lab.outputs(index) if "tract-record" in str(o.get("data", {}).get("text/html", ""))]


def test_define_review_activate_fire_and_read(open_lab, screenshot):
    lab = open_lab(
        LOAD,
        PROPOSE,
        "p = %tract_fire citation_check urls=['https://example.com'] --review",
        "print(p.status, p.fields['verified'], p.result)",
        "%tract log --events",
    )
    lab.run_cell(0)
    lab.run_cell(1)
    lab.unfold(1)
    finding = lab.output(1).locator("[role=note][data-code=TJ101]").first
    assert "os.system" in finding.inner_text()
    before = finding.locator("xpath=preceding-sibling::*[1]")
    assert "os.system('true')" in before.inner_text()  # directly below its line
    assert lab.output(1).locator("u", has_text="os.system").count() == 1
    screenshot(lab, "activate-pending")
    lab.button("Activate", 1).click()
    lab.wait_output(1, "approved by")
    screenshot(lab, "activate-approved")

    lab.run_cell(2)
    panel = lab.output(2)
    lab.button("Run verify…", 2).click()
    panel.get_by_label("Limit").fill("7")
    panel.get_by_label("Mode").select_option("slow")
    panel.get_by_label("Names").fill('["a"]')
    screenshot(lab, "fire-pending")
    lab.button("Run verify", 2).click()
    text = lab.wait_output(2, "verify chosen by")
    assert "looked at 7" in text
    lab.run_cell(3)
    assert lab.text(3) == "approved True [7, None, 'slow', ['a']]\n"
    lab.run_cell(4)
    assert "chose verify for" in lab.text(4)


def test_reject_with_a_reason_and_find_it_again(open_lab, screenshot):
    lab = open_lab(LOAD, PROPOSE, "%tract log --events", "%tract ops\n%tract inbox")
    lab.run_cell(0)
    lab.run_cell(1)
    lab.reject(1, "it starts a <b>program</b>")
    lab.wait_output(1, "it starts a <b>program</b>")
    lab.run_cell(2)
    assert "because: it starts a <b>program</b>" in lab.text(2)
    assert lab.output(2).get_by_text("it starts a <b>program</b>").count() > 0  # text, not markup
    lab.run_cell(3)
    assert "None yet" in lab.text(3)
    assert "No requests need a decision" in lab.text(3)
    screenshot(lab, "rejected")

    lab.save()
    lab.reload()
    lab.output(1).locator("[data-testid=tract-record][data-status=rejected]").wait_for()
    lab.reopen()
    lab.output(1).locator("[data-testid=tract-record][data-status=rejected]").wait_for()
    screenshot(lab, "rejected-reopened")


def test_run_all_waits_for_the_click_and_then_continues(open_lab):
    lab = open_lab(
        LOAD,
        PROPOSE.replace("--json", "--json --wait"),
        "p = %tract_fire citation_check urls=[] --review\nawait p\nprint('after', p.status)",
        "print('the end')",
    )
    lab.page.evaluate("() => { window.jupyterapp.commands.execute('notebook:run-all-cells'); }")
    lab.button("Activate", 1).click()
    lab.button("Approve without running", 2).click()
    lab.wait_output(3, "the end")
    lab.wait_idle()
    assert "after approved" in lab.text(2)


def test_a_rejected_definition_stops_run_all(open_lab):
    lab = open_lab(LOAD, PROPOSE.replace("--json", "--json --wait"), "print('not reached')")
    lab.page.evaluate("() => { window.jupyterapp.commands.execute('notebook:run-all-cells'); }")
    lab.reject(1, "no")
    lab.wait_output(1, "Rejected: see above")
    lab.wait_idle()
    assert lab.text(2) == ""


def test_a_synchronous_call_blocks_until_the_click(open_lab):
    lab = open_lab(
        LOAD, OWN, "r = tools.fire_deploy(target='prod')\nprint(r['result'])", "tools.fire_deploy('x')"
    )
    lab.run_cell(0)
    lab.run_cell(1)
    lab.run_cell(2, wait=False)
    lab.output(2).get_by_label("Force").check()
    lab.wait_comms()
    lab.button("Run ship", 2).click()
    assert lab.wait_cell(2)
    assert "{'shipped': 'prod', 'force': True}" in lab.text(2)
    lab.run_cell(3, wait=False)
    lab.wait_comms()
    lab.reject(3, "not on a Friday")
    assert not lab.wait_cell(3)
    assert "ToolDeniedError" in lab.text(3)
    assert "not on a Friday" in lab.text(3)


def test_an_interrupted_wait_can_still_be_decided(open_lab):
    lab = open_lab(LOAD, OWN, "p = %tract_fire deploy target=prod\nawait p", "print(p.status, p.result)")
    lab.run_cell(0)
    lab.run_cell(1)
    lab.run_cell(2, wait=False)
    lab.button("Run ship", 2).wait_for()
    lab.interrupt()
    assert not lab.wait_cell(2)
    lab.run_cell(3)
    assert lab.text(3).startswith("pending")
    lab.button("Run ship", 2).click()
    lab.wait_output(2, "ship chosen by")
    lab.run_cell(3)
    assert lab.text(3) == "approved {'shipped': 'prod', 'force': False}\n"


def test_an_action_that_raises_shows_the_line_and_can_be_tried_again(open_lab, screenshot):
    lab = open_lab(LOAD, PROPOSE + "\n", "p = %tract_fire citation_check urls=[] --review", "print(p)")
    lab.run_cell(0)
    lab.run_cell(1)
    lab.button("Activate", 1).click()
    lab.wait_output(1, "approved by")
    lab.run_cell(2)
    lab.button("Run verify…", 2).click()
    lab.output(2).get_by_label("Limit").fill("3")
    lab.button("Run burst", 2).click()
    note = lab.output(2).get_by_role("alert")
    note.get_by_text("no luck").wait_for()
    assert "<action:citation_check.burst>, line 2: raise ValueError('no luck')" in note.inner_text()
    assert lab.output(2).get_by_role("status").inner_text() == "failed"
    assert lab.output(2).get_by_label("Limit").input_value() == "3"  # the typed text stays
    screenshot(lab, "failed")
    lab.run_cell(3)
    assert "failed, ValueError: no luck" in lab.text(3)
    lab.button("Run verify", 2).click()
    lab.wait_output(2, "verify chosen by")


def test_wrong_input_shows_an_error_at_the_form_and_decides_nothing(open_lab):
    lab = open_lab(
        LOAD,
        PROPOSE.replace('"json"', '"json"'),
        "p = %tract_fire citation_check urls=[] --review",
        "print(p.status, len(tract.events('decision')))",
    )
    lab.run_cell(0)
    lab.run_cell(1)
    lab.button("Activate", 1).click()
    lab.wait_output(1, "approved by")
    lab.run_cell(2)
    output = lab.output(2)
    lab.button("Run verify…", 2).click()
    lab.button("Run verify", 2).click()  # the required limit is missing, so the form is not sent
    assert output.get_by_label("Limit").evaluate("control => control.validity.valueMissing")
    output.get_by_label("Limit").fill("1")
    output.get_by_label("Names").fill("[oops")
    lab.button("Run verify", 2).click()
    output.get_by_role("alert").get_by_text("Names: this is not valid JSON").wait_for()
    output.get_by_label("Names").fill("[1]")  # JSON, but not a list of strings: the kernel reports it
    lab.button("Run verify", 2).click()
    output.get_by_role("alert").get_by_text("valid string").wait_for()
    assert output.get_by_label("Names").input_value() == "[1]"
    lab.run_cell(3)
    assert lab.text(3).startswith("pending 1\n")


def test_clicking_twice_decides_once(open_lab):
    lab = open_lab(
        LOAD, PROPOSE, "print(len(tract.events('decision')), len(tract.events('operation.activated')))"
    )
    lab.run_cell(0)
    lab.run_cell(1)
    lab.output(1).get_by_text("lines were shown").wait_for()
    lab.button("Activate", 1).evaluate("button => { button.click(); button.click(); button.click(); }")
    lab.wait_output(1, "approved by")
    lab.run_cell(2)
    assert lab.text(2) == "1 1\n"


def test_a_panel_survives_a_reload_and_tells_when_its_kernel_is_gone(open_lab, screenshot):
    lab = open_lab(LOAD, PROPOSE, "print(tract.status().operations)")
    lab.run_cell(0)
    lab.run_cell(1)
    lab.save()
    lab.reload()
    lab.button("Activate", 1).click()
    lab.output(1).locator("[data-status=approved]").wait_for()
    lab.wait_output(1, "approved by")  # the record, which the notebook keeps
    assert lab.output(1).get_by_role("alert").count() == 0
    lab.run_cell(2)
    assert "citation_check" in lab.text(2)

    lab.set_source(1, PROPOSE.replace("citation_check", "second_check"))
    lab.run_cell(1)
    lab.button("Activate", 1).wait_for()
    lab.restart()
    alert = lab.output(1).get_by_role("alert")
    alert.get_by_text("lost its kernel").wait_for()
    assert lab.button("Activate", 1).count() == 0
    screenshot(lab, "stale")


def test_keyboard_alone_and_names_for_screen_readers(open_lab):
    lab = open_lab(LOAD, PROPOSE)
    lab.run_cell(0)
    lab.run_cell(1)
    page = lab.page
    region = lab.output(1).get_by_role("region", name="Activate operation citation_check")
    region.wait_for()
    assert region.get_by_role("status").inner_text() == "waiting"
    assert region.get_by_role("button", name="Activate").count() == 1
    reason = region.get_by_role("textbox", name="Reason")
    region.focus()
    page.keyboard.press("r")
    page.keyboard.type("abdd abx")  # outside a panel, single keys are notebook commands
    assert reason.input_value() == "abdd abx"
    assert lab.page.locator(".jp-Notebook .jp-Cell").count() == 2
    page.keyboard.press("Escape")  # the focus returns to the row
    assert not reason.is_visible()
    for key in "abddx":
        page.keyboard.press(key)
    assert lab.page.locator(".jp-Notebook .jp-Cell").count() == 2
    page.keyboard.press("r")
    page.keyboard.press("Enter")
    lab.wait_output(1, "rejected by")


def test_dark_theme_and_a_narrow_window(open_lab, screenshot):
    lab = open_lab(
        LOAD, PROPOSE, OWN, "p = %tract_fire deploy target=x", "%tract\n%tract tools", viewport=(700, 900)
    )
    lab.theme("JupyterLab Dark")
    for index in range(5):
        lab.run_cell(index)
    panel = lab.output(3).locator(".q")
    background = panel.evaluate("panel => getComputedStyle(panel).backgroundColor")
    assert sum(map(int, background.removeprefix("rgb(").rstrip(")").split(", "))) < 200
    box, inside = panel.bounding_box(), lab.button("Reject…", 3).bounding_box()
    assert inside["x"] + inside["width"] <= box["x"] + box["width"]
    for index, name in ((1, "dark-activate"), (3, "dark-fire"), (4, "dark-views")):
        screenshot(lab, name, index)
