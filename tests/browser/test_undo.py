"""The undo of a whole turn on a live page: the list of items, its buttons, and the result."""

import re

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

TABLE = """
import pandas as pd
from pathlib import Path
table = pd.DataFrame({"species": ["great tit", "graet tit"], "count": [3, 2]})
Path("data").mkdir()
table.to_csv("data/birds.csv", index=False)
"""
CODE = """clean = table.replace("graet tit", "great tit")
totals = clean.groupby("species")["count"].sum()
clean.to_csv("data/birds.csv", index=False)"""


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
    card.get_by_text(re.compile("^Undone")).wait_for()  # a row says "cannot be undone"
    lab.output(1).locator(".foot").get_by_text("Undone").wait_for()
    assert lab.execute("print(booked, len(tract.loop.turns()))").strip() == "[] 0"
    screenshot(lab, "undo-command", 2)

    lab.run_cell(3)
    lab.output(3).get_by_role("button", name="Redo all of this").click()
    lab.output(3).get_by_text("Redone").wait_for()
    assert lab.execute("print(booked, len(tract.loop.turns()))").strip() == "['A 1'] 1"


def test_a_table_and_a_file_come_back(open_lab, model, screenshot):
    model.reply("I correct it.").call(
        "notebook_execute", code=CODE, backend="kernel", notebook_id="user"
    ).end()
    lab = start(
        open_lab, model, "totals = 'mine'", chat="%%tract_chat\nClean the table.", setup=TABLE, rehearses=True
    )
    out = lab.output(1)
    keep = out.locator("section.q .do").get_by_role("button", name=re.compile("^(Keep|Run)"))
    keep.and_(out.locator("[aria-disabled=false]")).first.click()
    model.reply("Done.").end()
    page = end(lab)
    seen = "print(Path('data/birds.csv').read_text().count('great'), 'clean' in dir(), repr(totals)[:6])"
    assert lab.execute(seen).strip().startswith("2 True")
    lab.run_cell(2)

    title = page.locator(".row > summary", has_text="Kept: Creates")
    for width in (700, 1240):
        lab.page.set_viewport_size({"width": width, "height": 1000})
        notes = title.locator(".num", has_text="you,")
        for one in (title, notes):
            assert one.evaluate("one => one.scrollWidth <= one.clientWidth && one.clientWidth > 0")
    page.get_by_role("button", name="Undo this turn").press("Enter")
    card = page.locator(".undo-card")
    card.get_by_role("button", name="Restore anyway").wait_for()
    assert card.evaluate("one => one.contains(document.activeElement)")
    lines = card.locator(".undo-line")
    assert set(lines.locator("code").all_inner_texts()) == {
        "conversation", "clean", "totals", "data/birds.csv",
    }  # fmt: skip
    card.locator("details > summary", has_text="Changes").click()
    assert "graet tit" in card.locator(".more").inner_text()
    assert poor_contrast(card) == []
    screenshot(lab, "undo-table", 1)
    card.get_by_role("button", name="Restore anyway").click()
    card.get_by_text("it is restored anyway").wait_for()
    card.get_by_role("button", name="Keep it as it is").click()
    card.get_by_role("button", name="Restore anyway").wait_for()
    card.get_by_role("button", name="Undo all of this").click()
    page.locator(".foot").get_by_text("Undone").wait_for()
    assert lab.execute(seen).strip() == "1 False 'mine'"
    screenshot(lab, "undo-table-done", 1)
