"""A request in a real JupyterLab if the page is slow or reloaded while a cell blocks the kernel."""

LOAD = "%load_ext tract_jupyter"
OPERATION = """%%tract_operation write --activate --ask
x: int

def go(pending):
    pending.approve()
"""
ASK = "print(tools.fire_write(x=1)['status'])"
SLOW = "from tract_jupyter.notebook import channels; channels.PROBE_SECONDS = 0.001"


def ask(open_lab, setup="0"):
    """A notebook with an open request. Its cell 2 blocks the kernel until the decision."""
    lab = open_lab(LOAD, OPERATION, ASK)
    assert lab.run_cell(0), lab.text(0)
    assert lab.run_cell(1), lab.text(1)
    lab.execute(setup)
    lab.run_cell(2, wait=False)
    lab.output(2).locator("section.q").wait_for()
    return lab


def test_a_late_panel_ends_the_prompt_and_takes_its_box_away(open_lab, screenshot):
    lab = ask(open_lab, SLOW)
    lab.wait_output(2, "This prompt has ended")
    lab.page.wait_for_function(
        "() => ![...document.querySelectorAll('.jp-Stdin')].some(one => one.checkVisibility())"
    )
    lab.button("Run go", 2).click()
    assert lab.wait_cell(2), lab.text(2)
    assert "approved" in lab.text(2)
    screenshot(lab, "panel-late", 2)


def test_a_reloaded_page_says_that_the_cell_has_ended_and_can_still_decide(open_lab, screenshot):
    lab = ask(open_lab)
    lab.wait_comms()
    lab.save()
    lab.reload(wait=False)
    lab.output(2).get_by_text("the cell that asked this has ended").first.wait_for()
    screenshot(lab, "panel-page-closed", 2)
    lab.button("Run go", 2).click()
    lab.output(2).get_by_text("Ran").wait_for()
    assert lab.execute("print(len(tract.review.inbox()))").strip() == "0"
