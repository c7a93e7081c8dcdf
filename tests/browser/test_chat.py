"""`%%tract_chat` in a real JupyterLab, with a scripted model on a loopback port."""

from pathlib import Path

import pytest

from tests.browser.chat import bundle, end, start, stopped
from tests.browser.contrast import poor_contrast
from tests.browser.model import Beacon
from tests.browser.server import DARK, LIGHT

REPOSITORY = Path(__file__).parent.parent.parent


@pytest.fixture(params=[LIGHT, DARK], ids=["light", "dark"])
def theme(request):
    return request.param


# --- a turn


def test_thirty_questions_of_a_turn_are_a_line_each(open_lab, model, screenshot):
    reply = model.reply("May I?")
    for number in range(30):
        reply.call("save_table", path=f"data/{number}.csv", rows=number)
    reply.end()
    lab = start(open_lab, model)
    out = lab.output(1)
    out.locator("section.q").nth(29).wait_for()
    lab.page.wait_for_function("document.querySelector('.tract.turn').classList.contains('many')")
    assert out.evaluate("one => one.scrollHeight") <= 1500
    screenshot(lab, "chat-thirty", 1)
    model.reply("One more.").call("save_table", path="data/last.csv", rows=1).end()
    out.locator("section.q").first.focus()
    for _ in range(30):
        row = out.locator("section.q:focus")
        row.locator(".do [data-approves][aria-disabled=false]").wait_for()
        lab.page.keyboard.press("Control+Enter")
    out.get_by_text("One more.").wait_for()
    question = out.locator("section.q")
    question.get_by_role("button", name="Run save_table").wait_for()
    assert question.bounding_box()["height"] > 60  # three lines again
    question.get_by_role("button", name="Run save_table").click()
    model.reply("Done.").end()
    end(lab)


def test_a_destructive_call_ignores_clicks_right_after_its_request_appears(open_lab, model):
    first = model.reply("One.")
    lab = start(open_lab, model)
    out, page = lab.output(1), lab.page
    out.get_by_text("One.").wait_for()
    page.evaluate(FINGER)
    first.call("delete_file", path="A").end()
    lab.page.wait_for_function("window.sinceShown > 0")
    assert page.evaluate("window.sinceShown") >= 650
    model.reply("Done.").end()
    end(lab)
    assert lab.execute("print(done)").strip() == "['deleted']"


FINGER = """() => {
  let shown = 0;
  const timer = setInterval(() => {
    const button = document.querySelector(".q [data-action=approve]");
    if (button) shown ||= performance.now();
    button?.click();
    if (!button && shown || button?.closest(".q").getAttribute("aria-busy") === "true") {
      window.sinceShown = performance.now() - shown;
      clearInterval(timer);
    }
  }, 10);
}"""
"""Clicks the approve button again and again as soon as it appears."""


@pytest.mark.parametrize(
    ("app", "theme"),
    [("lab", LIGHT), ("lab", DARK), ("notebook", LIGHT)],
    ids=["light", "dark", "notebook-7"],
)
def test_a_turn_is_read_changed_decided_in_place_and_undone(open_lab, model, app, theme, request, screenshot):
    name = request.node.callspec.id
    first = model.reply("I'll look at the file first, ")
    lab = start(open_lab, model, app=app)
    out = lab.output(1)
    out.get_by_text("I'll look at the file first").wait_for()
    lab.theme(theme)
    first.say("then check **all species names**.").call("read_table", path="data/sightings.csv").end()
    second = model.reply(
        "Three names are misspelt and **41 of 1,245 rows** have no date. I'll correct the names, drop those rows and save the rest."
    )
    second.call("save_table", path="data/clean.csv", rows=1204).call(
        "delete_file", path="data/sightings.csv"
    ).end()
    questions = out.locator("section.q")
    questions.nth(1).wait_for()
    out.locator(".foot").get_by_text("Waiting for you: 2 requests").wait_for()
    out.get_by_role("button", name="Run save_table").and_(out.locator("[aria-disabled=false]")).wait_for()
    assert poor_contrast(out) == []
    screenshot(lab, f"chat-waiting-{name}", 1)

    lab.change(1, "rows", "1200")
    out.get_by_role("button", name="Run save_table").click()
    questions.last.get_by_role("button", name="Reject…").click()
    questions.last.get_by_role("textbox").fill("Keep the original.")
    questions.last.get_by_role("textbox").press("Enter")
    third = model.reply("Understood: the original stays as it is. ")
    out.get_by_text("Understood").wait_for()
    out.locator(".foot").get_by_text("Answering").wait_for()
    assert out.get_by_text("Rejected delete_file").is_visible()
    screenshot(lab, f"chat-answering-{name}", 1)
    told = [message for message in model.requests[-1]["messages"] if message["role"] == "tool"]
    assert "saved data/clean.csv with 1200 rows" in told[-2]["content"]
    assert "The user changed the call" in told[-2]["content"]
    assert "Keep the original." in told[-1]["content"]
    third.say(
        "The ten most frequent species:\n\n| Species | June | Share |\n|---|--:|--:|\n| Great tit | 180 | 41 % |\n"
    ).end()
    page = end(lab)
    assert lab.execute("print(done)").strip() == "['data/clean.csv']"
    page.get_by_role("button", name="Undo this turn").wait_for()
    assert poor_contrast(page) == []
    page.locator("summary").first.click()
    assert poor_contrast(page) == []
    screenshot(lab, f"chat-done-{name}", 1)

    saved = bundle(lab)
    assert set(saved) == {"text/html", "text/plain"}
    assert "<button" not in saved["text/html"]
    assert "**41 of 1,245 rows**" in saved["text/plain"]
    page.get_by_role("button", name="Undo this turn").click()
    page.get_by_role("button", name="Undo all of this").click()
    lab.output(1).locator(".foot").get_by_text("Undone").wait_for()
    lab.wait_output(1, "Undone")
    assert lab.execute("print(len(tract.log()))").strip() == "0"


def test_new_text_keeps_selection_and_unfolded_rows_and_moves_nothing_above(open_lab, model):
    reply = model.reply("The first paragraph.\n\n- one\n- two").call("read_table", path="a.csv").end()
    lab = start(open_lab, model)
    out = lab.output(1)
    answer = model.reply("The second paragraph, ")
    out.get_by_text("The second paragraph").wait_for()
    out.locator("summary").click()
    out.get_by_text("2026-05-02").wait_for()
    select = """root => {
        const text = document.createTreeWalker([...root.querySelectorAll("p")].find(p => p.textContent.startsWith("The first")), 4).nextNode();
        getSelection().setBaseAndExtent(text, 4, text, 9);
    }"""
    out.evaluate(select)
    tops = "root => [...root.querySelectorAll('.tract.turn .list, .tract.turn .prose')].map(e => e.getBoundingClientRect().top)"
    before = out.evaluate(tops)
    for number in range(20):
        answer.say(f"word {number} ", "\n\nand " if number % 5 == 4 else "")
    out.get_by_text("word 19").wait_for()
    assert out.evaluate(tops)[: len(before)] == before
    assert lab.page.evaluate("String(getSelection())") == "first"
    assert out.get_by_text("2026-05-02").is_visible()
    answer.end()
    page = end(lab)
    page.get_by_role("button", name="Undo this turn").wait_for()
    assert page.get_by_text("2026-05-02").is_visible()
    assert lab.page.evaluate("String(getSelection())") == "first"
    after = out.evaluate(tops)
    assert [round(a - b) for a, b in zip(after, before, strict=False)] == [0] * len(before)
    assert reply


@pytest.mark.parametrize("how", ["button", "kernel"])
@pytest.mark.parametrize("said", ["It begins", ""], ids=["in-the-middle", "silent"])
def test_stop(open_lab, model, how, said):
    reply = model.reply(*([said] if said else []))
    lab = start(open_lab, model)
    out = lab.output(1)
    stop = out.get_by_role("button", name="Stop")
    stop.wait_for()
    lab.page.wait_for_function("() => true")
    if said:
        out.get_by_text(said).wait_for()
    lab.wait_comms()
    if how == "button":
        stop.click()
    else:
        lab.interrupt()
    page = stopped(lab)
    page.locator(".foot").get_by_text("You stopped this turn").wait_for()
    assert page.evaluate(BADLY_LAID) == []
    assert said in bundle(lab)["text/plain"]
    reply.end()


@pytest.mark.parametrize("how", ["button", "kernel"])
def test_a_stop_ends_run_all(open_lab, model, how):
    reply = model.reply("It begins")
    lab = start(open_lab, model, "%tract chat undo", "after = 1")
    out = lab.output(1)
    out.get_by_text("It begins").wait_for()
    lab.run_cell(2, wait=False)
    lab.run_cell(3, wait=False)
    lab.wait_comms()
    if how == "button":
        out.get_by_role("button", name="Stop").click()
    else:
        lab.interrupt()
    stopped(lab).locator(".foot").get_by_text("You stopped this turn").wait_for()
    reply.end()
    lab.wait_idle()
    assert lab.text(2) == ""
    assert lab.execute("print('after' in dir())").strip() == "False"


def test_a_page_that_is_reloaded_in_the_middle_catches_up(open_lab, model):
    reply = model.reply("Before. ")
    lab = start(open_lab, model)
    lab.output(1).get_by_text("Before.").wait_for()
    lab.save()
    lab.reload(wait=False)
    reply.say("Meanwhile. ")
    out = lab.output(1)
    out.get_by_text("Before. Meanwhile.").wait_for()
    reply.say("After.")
    out.get_by_text("Before. Meanwhile. After.").wait_for()
    reply.end()
    lab.wait_idle()
    out.get_by_role("button", name="Undo this turn").wait_for()
    out.get_by_role("button", name="Undo this turn").click()
    out.locator(".foot").get_by_text("Undone").wait_for()


def test_a_reopened_notebook_shows_the_turn_and_its_kernel_adds_the_buttons(open_lab, model):
    model.reply("All of it.").end()
    lab = start(open_lab, model)
    end(lab)
    lab.save()
    lab.reload()
    page = lab.output(1).locator(".tract.turn[data-turn]")
    page.get_by_text("All of it.").wait_for()
    page.get_by_role("button", name="Undo this turn").wait_for()
    lab.restart()
    page.get_by_role("button", name="Undo this turn").wait_for(state="detached")
    assert page.get_by_text("All of it.").is_visible()


def test_two_turns_stream_at_once_each_in_its_own_cell(open_lab):
    path = f"import sys\nsys.path.insert(0, {str(REPOSITORY)!r})\n"
    stub = """%load_ext tract_jupyter
import threading
from tests.notebook.chat.stubs import StubView, prose
from tract_jupyter.notebook.chat import LiveTurn
lives, texts = [], ["", ""]
def put_up():
    lives.append(LiveTurn(lambda action: None, tract.reviewer.channel.soon))
    lives[-1].put_up()
def say(at, words):
    for word in words.split():
        texts[at] += word + " "
        lives[at].draw(StubView(prose(texts[at]), turn_id=f"t{at}"))
def both():
    threads = [threading.Thread(target=say, args=(at, f"{name} " * 300)) for at, name in enumerate(["ape", "bee"])]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
def close():
    for at, live in enumerate(lives): live.close(StubView(prose(texts[at]), "<span>end</span>", (), is_over=True, turn_id=f"t{at}"))
"""
    lab = open_lab(path + stub, "put_up()", "put_up()", "both()", "close()")
    for cell in range(4):
        assert lab.run_cell(cell), lab.text(cell)
    for cell, name in [(1, "ape"), (2, "bee")]:
        lab.page.wait_for_function(
            "([root, words]) => root.textContent.includes(words)",
            arg=[lab.output(cell).locator(".prose").element_handle(), f"{name} " * 299],
        )
    assert lab.run_cell(4)
    for cell, name, other in [(1, "ape", "bee"), (2, "bee", "ape")]:
        text = bundle(lab, cell)["text/plain"]
        assert (text.count(name), text.count(other)) == (300, 0)


def test_keys_alone(open_lab, model):
    model.reply("May I?").call("save_table", path="a", rows=1).call("delete_file", path="b").end()
    lab = start(open_lab, model)
    out = lab.output(1)
    question = out.locator("section.q")
    question.nth(1).wait_for()
    out.get_by_role("button", name="Run save_table").and_(out.locator("[aria-disabled=false]")).wait_for()
    out.get_by_role("button", name="Run delete_file").and_(out.locator("[aria-disabled=false]")).wait_for()
    question.first.focus()
    lab.page.keyboard.press("d")
    lab.page.keyboard.press("d")  # deletes a cell if the focus is elsewhere
    lab.page.keyboard.press("ControlOrMeta+Enter")
    lab.page.wait_for_function(
        "() => document.activeElement?.closest('.q')?.textContent.includes('delete_file')"
    )
    lab.page.keyboard.press("r")
    lab.page.keyboard.type("no, thanks")
    lab.page.keyboard.press("Enter")
    model.reply("Good.").end()
    end(lab)
    assert lab.execute("print(done)").strip() == "['a']"
    assert "no, thanks" in bundle(lab)["text/plain"]


def test_a_narrow_notebook_cuts_nothing_that_is_needed(open_lab, model, theme, request, screenshot):
    model.reply("A question.").call("read_table", path="data/sightings.csv").end()
    model.reply(
        "Long " * 40 + "\n\n| a | b | c |\n|---|---|---|\n| " + "word " * 30 + "| 2 | " + "x" * 200 + "|"
    ).call("save_table", path="data/" + "long/" * 30, rows=1).end()
    lab = start(open_lab, model, viewport=(1000, 1000))
    out = lab.output(1)
    out.locator("section.q").wait_for()
    lab.theme(theme)
    out.evaluate("root => { root.style.width = '700px'; }")
    assert poor_contrast(out) == []
    overflow = "root => [...root.querySelectorAll('.tract, .tract *')].filter(e => e.getBoundingClientRect().right > root.getBoundingClientRect().right + 1 && !e.closest('.cut, .said, table > *')).map(e => e.outerHTML.slice(0, 80))"
    assert out.evaluate(overflow) == []
    screenshot(lab, f"chat-narrow-{request.node.callspec.id}", 1)
    lab.interrupt()
    stopped(lab)


BADLY_LAID = """root => {
  const box = root.getBoundingClientRect();
  const buttons = [...root.querySelectorAll("button")].filter(e => e.getClientRects().length && e.getBoundingClientRect().right > box.right + 1);
  const broken = [...root.querySelectorAll(".foot > span")].filter(e => e.offsetHeight > 32);
  const hidden = [...root.querySelectorAll(".foot > .wide-only ~ .took > span")]
    .filter(e => e.getBoundingClientRect().bottom > e.parentElement.getBoundingClientRect().bottom + 1);
  return [...buttons, ...broken, ...hidden].map(e => e.textContent);
}"""


WIDE = f"""| {" | ".join(["Measurements"] * 9)} |
|{"---|" * 9}
| {" | ".join(["extraordinarily", "12.5", "x"] * 3)} |"""


def test_a_wide_table_scrolls_and_breaks_no_word(open_lab, model, screenshot):
    lab = start(open_lab, model)
    model.reply(WIDE).end()
    table = end(lab).locator(".prose table")
    screenshot(lab, "chat-wide-table", 1)
    assert table.evaluate("one => one.scrollWidth > one.clientWidth + 50")
    assert table.evaluate("one => one.clientWidth <= one.closest('.prose').clientWidth")
    assert height_of_line(table.locator("td").first) == height_of_line(table.locator("td").nth(2))


def height_of_line(cell):
    return cell.evaluate("""one => {
      const range = document.createRange();
      range.selectNodeContents(one);
      return range.getBoundingClientRect().height;
    }""")


def test_buttons_and_foot_keep_their_layout_on_a_narrow_page(open_lab, model, screenshot):
    model.reply("May I?").call("save_table", path="a", rows=1).end()
    lab = start(open_lab, model)
    out = lab.output(1)
    out.locator("section.q .do > .primary[aria-disabled=false]").wait_for()
    turn = out.locator(".tract.turn")
    for width in (700, 760, 840):
        lab.page.set_viewport_size({"width": width, "height": 1000})
        assert turn.evaluate(BADLY_LAID) == []
    out.get_by_role("button", name="Run save_table").click()
    model.reply("Done.").end()
    end(lab)
    out.get_by_role("button", name="Fork from here").wait_for()
    for width in (840, 760, 700):
        lab.page.set_viewport_size({"width": width, "height": 1000})
        assert turn.evaluate(BADLY_LAID) == []
        assert turn.locator(".foot").evaluate("foot => foot.offsetHeight") <= 90
    screenshot(lab, "chat-foot-700", 1)


# --- texts of a model


def payloads(url):
    """HTML and Markdown that would run or load something if it were shown unchanged."""
    return "\n\n".join(
        [
            f"<script>window.pwned = 1; fetch('{url}/script')</script>", f"<img src='{url}/img' onerror='window.pwned = 1'>",
            "<img src=x onerror='window.pwned = 1'>", f"![md]({url}/md)", f"![ref][r]\n\n[r]: {url}/ref", f"<svg onload='window.pwned = 1'><image href='{url}/svg'/></svg>",
            f"<iframe src='{url}/iframe'></iframe>", f"<iframe srcdoc=\"<img src='{url}/srcdoc'>\"></iframe>",
            f"<style>@import '{url}/import'; .tract {{ background: url({url}/css) }}</style>", f"<link rel=stylesheet href='{url}/link'>",
            f"<p style=\"background: url('{url}/inline')\">x</p>", f"<video src='{url}/video' poster='{url}/poster' autoplay></video>",
            f"<audio src='{url}/audio' autoplay></audio>", f"<input type=image src='{url}/input'>", f"<object data='{url}/object'></object>",
            f"<embed src='{url}/embed'>", f"<table background='{url}/table'><tr><td>x</td></tr></table>", f"<img srcset='{url}/srcset 1x'>",
            f"<picture><source srcset='{url}/picture'><img></picture>", f"<meta http-equiv=refresh content='0; url={url}/refresh'>",
            "[js](javascript:window.pwned=1)", "[data](data:text/html,<script>1</script>)", "[vb](vbscript:x)", "[cmd](command:x)", "[rel](/api/kernels)",
            "<a href='#' data-commandlinker-command='notebook:delete-cell' data-commandlinker-args='{}'>lab</a>",
            f"[host](https://good.example@{url.removeprefix('http://')}/)", "</div></details></section>", "\x1b[31mred\u202e", "&lt;img src=x onerror=window.pwned=1&gt;",
        ]
    )  # fmt: skip


HARMLESS = """root => {
  const bad = [...root.querySelectorAll("script, img, iframe, link, video, audio, object, embed, source, meta, image, form:not(.ask, .form), [data-commandlinker-command]")];
  const on = [...root.querySelectorAll("*")].filter(e => [...e.attributes].some(a => a.name.startsWith("on")));
  const links = [...root.querySelectorAll("a[href]")].filter(a => !/^(https?|mailto):/.test(a.getAttribute("href")) || !a.rel.includes("noopener"));
  return [...bad, ...on, ...links].map(e => e.outerHTML.slice(0, 120));
}"""

EVIL = '''
@tract.tool(read_only=True)
def fetch(url: str):
    """Fetch a page."""
    return {payload!r}

@tract.tool(read_only=True)
def fail(path: str):
    """Fail."""
    raise ValueError({payload!r})
'''


def test_text_of_the_model_cannot_run_code_or_load_resources(open_lab, model, tmp_path):
    from nbconvert import HTMLExporter

    with Beacon() as beacon:
        evil = payloads(beacon.url)
        model.reply(evil[: len(evil) // 2], evil[len(evil) // 2 :]).call("fetch", url=evil).call(
            "fail", path=evil
        ).end()
        model.reply(evil).call("save_table", path=evil, rows=1).call(
            "no_such_" + "<img src=x onerror=alert(1)>", x=evil
        ).end()
        lab = start(open_lab, model, setup=EVIL.format(payload=evil))
        out = lab.output(1)
        out.locator("section.q").wait_for()
        out.locator("section.q .full").evaluate("part => { part.hidden = false; }")
        out.evaluate("root => { for (const fold of root.querySelectorAll('details')) fold.open = true; }")
        assert out.locator(".tract.turn").evaluate(HARMLESS) == []
        out.get_by_role("button", name="Reject…").click()
        out.get_by_role("textbox", name="Reason").fill(evil.replace("\n", " "))
        out.get_by_role("textbox", name="Reason").press("Enter")
        model.reply("<b>end</b>").end()
        page = end(lab)
        page.get_by_role("button", name="Undo this turn").wait_for()
        assert page.evaluate(HARMLESS) == []
        assert "text/markdown" not in bundle(lab)
        saved = lab.save()
        lab.reopen()
        page = lab.output(1).locator(".tract.turn")
        page.wait_for()
        assert page.evaluate(HARMLESS) == []
        assert "<b>end</b>" in page.inner_text()
        assert lab.page.evaluate("window.pwned") is None

        exported, _ = HTMLExporter(template_name="basic").from_notebook_node(saved)
        file = tmp_path / "page.html"
        file.write_text(f"<!DOCTYPE html><meta charset=utf-8>{exported}", encoding="utf-8")
        other = lab.page.context.new_page()
        other.goto(file.as_uri())
        turn = other.locator(".tract.turn")
        turn.wait_for()
        turn.evaluate("root => { for (const fold of root.querySelectorAll('details')) fold.open = true; }")
        assert turn.evaluate(HARMLESS) == []
        assert other.evaluate("window.pwned") is None
        other.close()
        assert beacon.hits == []
