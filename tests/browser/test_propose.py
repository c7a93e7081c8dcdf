"""`%tract_propose` in a real JupyterLab: a model's operation is read, rejected with a reason, rewritten, activated and fired."""

import json
import re

import pytest

from tests.browser.contrast import poor_contrast
from tests.browser.server import DARK, LIGHT

SETUP = """%load_ext tract_jupyter
tract.models.use("scripted", base_url={url!r}, api_key="k")
"""
PROPOSE = '%tract_propose "check that every citation survives"'
FIRE = "p = %tract_fire citations urls=['https://example.com/a','']"


def proposal(code, isolation):
    return {
        "name": "citations",
        "description": "Check that every citation survives.",
        "fields": {
            "urls": {"type": "list[str]", "required": True, "description": "The sources that are cited"},
            "missing": {"type": "list[str]", "default": []},
        },
        "actions": {"verify": {"description": "Look for each source.", "code": code, "isolation": isolation}},
    }


DANGEROUS = """import os
text = os.popen("grep -rho 'https*://[^ )]*' .").read()
pending.fields["missing"] = [url for url in pending.fields["urls"] if url not in text]
pending.approve()
"""
REFUSED = re.compile(r"4 raised PermissionError: .A rehearsal cannot start|Not rehearsed: it needs os\.popen")
"""The rehearsal in a contained copy of the kernel, or in the sandbox on a machine without one."""
FINE = """import json
if not pending.fields["urls"]:
    raise ValueError("no sources are cited")
pending.fields["missing"] = [url for url in pending.fields["urls"] if not url.startswith("http")]
if pending.fields["missing"] and strict:
    pending.reject(f"{len(pending.fields['missing'])} sources are gone")
else:
    pending.approve()
"""


@pytest.fixture(params=[LIGHT, DARK], ids=["light", "dark"])
def theme(request):
    return request.param


def test_rejected_with_a_reason_and_its_second_version_activated(open_lab, model, screenshot, theme, request):
    name = request.node.callspec.id
    fine = proposal(FINE, "sandbox")
    fine["actions"]["verify"] |= {"params": {"strict": "bool"}, "defaults": {"strict": False}}
    broken = model.reply()
    lab = open_lab(SETUP.format(url=model.url), PROPOSE, FIRE, "print(p.status, p.fields['missing'])",
                   viewport=(1000, 1400))  # fmt: skip
    lab.theme(theme)
    assert lab.run_cell(0), lab.text(0)
    lab.run_cell(1, wait=False)
    out = lab.output(1)
    line = out.locator("[data-testid=tract-writing]")
    broken.say("Let me see. ")
    out.get_by_text("The model writes version 1: ").wait_for()
    screenshot(lab, f"propose-writing-{name}", 1)
    broken.call("propose_operation", **proposal("if urls\n    pass", "sandbox")).end()
    model.reply().call("propose_operation", **proposal(DANGEROUS, "kernel")).end()
    out.locator("[data-testid=tract-panel]").wait_for()
    line.get_by_text("Version 1 waits for you").wait_for()
    line.get_by_text("1 refused").wait_for()
    panel = out.locator("section.q")
    panel.locator(".unfold").click()
    panel.locator(".scroll").get_by_text(REFUSED).wait_for()
    screenshot(lab, f"propose-dangerous-{name}", 1)
    second = model.reply()
    lab.button("Reject…", 1).click()
    panel.locator("form[data-action=reject] input").fill("start no programs: look at the fields alone")
    panel.locator("form[data-action=reject] button[type=submit]").click()
    second.call("propose_operation", **fine).end()
    line.get_by_text("Version 2 waits for you").wait_for()
    panel = out.locator("section.q")
    panel.wait_for()
    lab.unfold(1)
    panel.locator(".scroll").get_by_text(
        "Rehearsed on 4 inputs: 3 returned (3 approved), 1 raised ValueError"
    ).wait_for()
    screenshot(lab, f"propose-rehearsed-{name}", 1)
    panel.locator("details[data-part=Rehearsal] > summary").click()
    rows = panel.locator("details[data-part=Rehearsal] tbody tr")
    assert rows.count() == 4
    assert "raised ValueError: 'no sources are cited'" in rows.all_inner_texts()[2]
    screenshot(lab, f"propose-unfolded-{name}", 1)
    assert not poor_contrast(out)
    assert "start no programs: look at the fields alone" in json.dumps(model.requests[-1])
    lab.button("Activate", 1).click()
    assert lab.wait_cell(1), lab.text(1)
    line.get_by_text("citations is active").wait_for()
    line.locator("summary").click()
    screenshot(lab, f"propose-active-{name}", 1)
    assert lab.run_cell(2), lab.text(2)
    lab.output(2).locator(".do > .primary").click()
    lab.wait_output(2, "verify chosen by")
    lab.run_cell(3)
    assert lab.text(3) == "approved ['']\n"


def test_the_stop_button_withdraws_the_question(open_lab, model):
    model.reply().call("propose_operation", **proposal(DANGEROUS, "kernel")).end()
    lab = open_lab(
        SETUP.format(url=model.url), PROPOSE, "print(tract.review.inbox(), tract.status().operations)"
    )
    lab.run_cell(0)
    lab.run_cell(1, wait=False)
    lab.output(1).locator("section.q").wait_for()
    lab.interrupt()
    lab.wait_cell(1)
    lab.output(1).get_by_text("stopped by the user; nothing was activated").wait_for()
    lab.run_cell(2)
    assert lab.text(2) == "[] ()\n"
