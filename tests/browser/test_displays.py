"""`tract`, `tools`, events and progress as the user sees them in JupyterLab."""

import pytest

from tests.browser.contrast import poor_contrast
from tests.browser.notebooks import read_notebook
from tests.browser.server import DARK, LIGHT

TALK = """\
%load_ext tract_jupyter
from tract_jupyter import ActionDef, OperationSpec
from tract_jupyter.models import TokenBudget
tract.budget = TokenBudget(max_tokens=400)
tract.system("You help with a data set of bird sightings. Answer in one short paragraph.")
tract.user("Which species was seen most often in spring?")
tract.assistant("The great tit, with 412 sightings between March and May.")
tract.branch("charts")
tract.user("Draw the monthly counts.")
tract.switch("main")
tract.user("And in summer?")
tract.merge("charts")
go = ActionDef("go", "Publish it.", {}, "pending.approve()")
tract.register_operation(OperationSpec("publish", "Publish the counts.", {}, {"go": go}))
tract.fire("publish", review=True)
@tract.tool(read_only=True)
def word_count(text: str) -> int:
    '''Count the words of a text.'''
    return len(text.split())
"""

WORKING = """
import asyncio, ipywidgets
from tract_jupyter.models import working
clicked = asyncio.Event()
button = ipywidgets.Button(description="Go on")
button.on_click(lambda _: clicked.set())
display(button)
with working("Checking commits", 1200) as work:
    work.advance(480)
    while not clicked.is_set():
        await asyncio.sleep(0.02)
print("went on")
"""


def test_overview_tools_and_events_have_compact_displays(open_lab, screenshot):
    lab = open_lab(TALK, "tract", "tools", "%tract log --events", "%tract tools branch")
    for index in range(5):
        assert lab.run_cell(index)
    overview = lab.output(1).locator("[data-testid=tract-overview]")
    overview.wait_for()
    assert "1 request waits for you" in overview.inner_text()
    assert overview.bounding_box()["height"] <= 200
    overview.locator("summary", has_text="Branches").click()
    assert "charts" in overview.locator("table").inner_text()
    screenshot(lab, "overview", 1)
    tools = lab.output(2).locator("[data-testid=tract-tools]")
    assert tools.bounding_box()["height"] <= 160
    tools.locator("summary", has_text="Yours").click()
    assert "Count the words of a text." in tools.inner_text()
    screenshot(lab, "tools", 2)
    assert "merged charts into main" in lab.text(3)
    screenshot(lab, "events", 3)
    screenshot(lab, "tools-found", 4)
    lab.theme(DARK)
    screenshot(lab, "overview-dark", 1)
    screenshot(lab, "events-dark", 3)


PROFILE = """\
%%tract_profile guide --activate
operations:
  style:
    text: " Be brief."
    into: system
    required: true
"""
VIEWS = (
    "%tract", "%tract tools", "%tract ops", "%tract branch", "%tract log --events", "%tract cost", "%tract model", PROFILE,
    "%tract prompt hello", "%tract run --dry style", "%tract diff main charts", "%tract compile", "%tract help",
    "%%tract_run\nHow many?", "%tract runs",
)  # fmt: skip
MODEL = "tract.models.use(lambda messages, **options: 'Three.')"


@pytest.mark.slow
def test_every_view_can_be_read(open_lab):
    lab = open_lab(TALK, MODEL, *VIEWS)
    for index in range(2 + len(VIEWS)):
        assert lab.run_cell(index)
    for theme in (LIGHT, DARK):
        lab.theme(theme)
        for index, view in enumerate(VIEWS, 2):
            assert not poor_contrast(lab.output(index)), (theme, view)


BROKEN_WORDS = """root => {
    const broken = [];
    const texts = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        for (const word of texts.currentNode.data.matchAll(/[\\w.-]+/g)) {
            const range = document.createRange();
            range.setStart(texts.currentNode, word.index);
            range.setEnd(texts.currentNode, word.index + word[0].length);
            if (range.getClientRects().length > 1) broken.push(word[0]);
        }
    }
    return broken;
}"""
AGENT = "%%tract_agent lister\n" + "List birds with numbers. " * 12
FITS = """out => [...out.querySelectorAll("table")].every(
    table => table.getBoundingClientRect().right <= out.getBoundingClientRect().right)"""
CUT = "word => word.getBoundingClientRect().right > word.parentElement.getBoundingClientRect().right"


@pytest.mark.parametrize("width", [700, 1240])
def test_words_are_not_broken_and_the_state_of_an_agent_is_visible(open_lab, screenshot, width):
    views = ("%tract chat", AGENT, "%tract agents lister", "%tract agents")
    lab = open_lab(
        TALK, MODEL, "%%tract_chat\nHow many species are there, and which?", *views, viewport=(width, 900)
    )
    for index in range(3 + len(views)):
        assert lab.run_cell(index), lab.text(index)
    for index in range(3, 6):
        screenshot(lab, f"words-{width}-{index}", index)
        assert lab.output(index).evaluate(BROKEN_WORDS) == []
        assert lab.output(index).evaluate(FITS)
    screenshot(lab, f"words-{width}-tree", 6)
    state = lab.output(6).locator(".agent summary .cut > b")
    assert state.inner_text() == "ready"
    assert not state.evaluate(CUT)


def test_a_bar_is_there_as_long_as_the_work(open_lab, screenshot):
    lab = open_lab("%load_ext tract_jupyter", WORKING)
    assert lab.run_cell(0)
    lab.run_cell(1, wait=False)
    bar = lab.output(1).locator("[data-testid=tract-progress]")
    bar.wait_for()
    assert "480 of 1,200" in bar.inner_text()
    screenshot(lab, "progress", 1)
    lab.button("Go on", cell=1).click()
    assert lab.wait_cell(1)
    bar.wait_for(state="detached")
    assert "went on" in lab.text(1)
    lab.save()
    assert "Checking commits" not in str(read_notebook(lab.path).cells[1].outputs)
