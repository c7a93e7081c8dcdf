"""The start of tests of `%%tract_chat`: a notebook with a scripted model."""

from __future__ import annotations

SETUP = '''%load_ext tract_jupyter
tract.models.use("scripted", base_url={url!r}, api_key="k")
done = []

@tract.tool(read_only=True)
def read_table(path: str, rows: int = 5):
    """Read the beginning of a table."""
    return "date        species      place   count\\n2026-05-02  Parus major  Lindau  3"

@tract.tool
def save_table(path: str, rows: int):
    """Write a file in the workspace."""
    done.append(path)
    return f"saved {{path}} with {{rows}} rows"

@tract.tool(destructive=True)
def delete_file(path: str):
    """Delete a file."""
    done.append("deleted")
'''
CHAT = "%%tract_chat --direct\nClean data/sightings.csv and plot the ten most frequent species by month."


def start(open_lab, model, *more, chat=CHAT, viewport=(1240, 1000), setup="", rehearses=False, **options):
    """A notebook whose cell 1 chats, and runs. `rehearses`: scripts show their effects before they run."""
    setup += "" if rehearses else "\ntract.scripts.rehearsing.is_on = False"
    lab = open_lab(SETUP.format(url=model.url) + setup, chat, *more, viewport=viewport, **options)
    assert lab.run_cell(0), lab.text(0)
    lab.run_cell(1, wait=False)
    return lab


def end(lab, cell=1):
    """Wait for the end of a chat cell, and return its static page."""
    assert lab.wait_cell(cell), lab.text(cell)
    page = lab.output(cell).locator(".tract.turn[data-turn]")
    page.wait_for()
    return page


def stopped(lab, cell=1):
    """Wait until a stopped chat cell has failed. Return the text that it shows."""
    assert not lab.wait_cell(cell), lab.text(cell)
    assert "Queued cells did not run." in lab.text(cell)
    page = lab.output(cell).locator(".tract.turn[data-turn]")
    page.wait_for()
    return page


def bundle(lab, cell=1):
    output, *_ = lab.outputs(cell)
    return {name: "".join(data) for name, data in output["data"].items()}
