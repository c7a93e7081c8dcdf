"""The undo of a whole turn on a live page: the list of items, its buttons, and the result."""

from tests.browser.chat import end, start
from tests.browser.contrast import poor_contrast

SETUP = """
booked = []

def cancel(room: str) -> None:
    '''Cancel a booking.'''
    booked.remove(room)

@tract.tool(revert=cancel)
def book(room: str) -> None:
    '''Book a room.'''
    booked.append(room)

@tract.tool
def notify(channel: str) -> None:
    '''Send a message.'''
"""


def test_a_turn_is_undone_after_a_list_of_its_effects(open_lab, model, screenshot):
    model.reply("I book it.").call("book", room="A 1").call("notify", channel="#birds").end()
    lab = start(open_lab, model, "%tract chat undo", "%tract chat redo", setup=SETUP)
    out = lab.output(1)
    for name in ("book", "notify"):
        button = out.get_by_role("button", name=f"Run {name}").and_(out.locator("[aria-disabled=false]"))
        button.wait_for()
        button.click()
    model.reply("Booked.").end()
    page = end(lab)

    page.get_by_role("button", name="Undo this turn").click()
    card = page.locator(".undo-card")
    card.get_by_role("button", name="Undo all of this").wait_for()
    assert "cannot be undone" in card.inner_text()
    assert poor_contrast(card) == []
    screenshot(lab, "undo-turn", 1)
    card.get_by_role("button", name="Cancel").click()
    card.wait_for(state="detached")
    assert lab.execute("print(booked)").strip() == "['A 1']"

    lab.run_cell(2)
    card = lab.output(2).locator(".undo-card")
    card.get_by_role("button", name="Undo all of this").click()
    card.get_by_text("Undone").wait_for()
    lab.output(1).locator(".foot").get_by_text("Undone").wait_for()
    assert lab.execute("print(booked, len(tract.loop.turns()))").strip() == "[] 0"
    screenshot(lab, "undo-command", 2)

    lab.run_cell(3)
    lab.output(3).get_by_role("button", name="Redo all of this").click()
    lab.output(3).get_by_text("Redone").wait_for()
    assert lab.execute("print(booked, len(tract.loop.turns()))").strip() == "['A 1'] 1"
