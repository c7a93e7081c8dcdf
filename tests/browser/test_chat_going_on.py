"""`%%tract_chat` in a real JupyterLab with interruptions: other notebooks, restarts, forks, keyboard use."""

from tests.browser.chat import CHAT, SETUP, bundle, end, start, stopped
from tests.browser.model import ScriptedModel


def other_notebook(open_lab, lab, *cells, setup=""):
    """A second notebook that uses the store of the first."""
    first = f"%load_ext tract_jupyter\n%config TractJupyter.store = {str(lab.store)!r}\n{setup}"
    other = open_lab(first, *cells, viewport=(1240, 1000))
    assert other.run_cell(0), other.text(0)
    return other


def question(out, name):
    """Wait until the request for a tool call can be approved, and return it."""
    asked = out.locator("section.q").filter(has_text=name)
    asked.locator(".do > .primary[aria-disabled=false]").wait_for()
    return asked


def test_a_decision_in_another_notebook_continues_the_turn(open_lab, model, screenshot):
    model.reply("May I?").call("save_table", path="a", rows=1).call("delete_file", path="b").end()
    lab = start(open_lab, model)
    out = lab.output(1)
    question(out, "delete_file")
    other = other_notebook(open_lab, lab, "%tract inbox")
    assert other.run_cell(1), other.text(1)
    board = other.output(1)
    board.get_by_text("2 waiting").first.wait_for()
    other.page.wait_for_timeout(400)  # the time that a line must be visible to count
    board.locator("button.act").first.click()
    out.get_by_text("Approved save_table").wait_for()
    screenshot(lab, "chat-decided-elsewhere", 1)
    question(out, "delete_file").get_by_role("button", name="Reject…").click()
    out.get_by_role("textbox", name="Reason").fill("no")
    out.get_by_role("textbox", name="Reason").press("Enter")
    model.reply("Good.").end()
    end(lab)
    assert lab.execute("print(done)").strip() == "['a']"
    assert "Ran save_table" in bundle(lab)["text/plain"]


LOST_ROW = (
    "This panel has lost its kernel; nothing was decided here. In a new kernel %tract chat resume asks again."
)


def test_a_restart_with_a_question_open_loses_nothing_and_runs_nothing_twice(open_lab, model, screenshot):
    model.reply("May I?").call("save_table", path="first", rows=1).call("delete_file", path="b").end()
    resume = "%tract chat resume"
    lab = start(open_lab, model, resume, "%tract inbox")
    out = lab.output(1)
    question(out, "save_table").get_by_role("button", name="Run save_table").click()
    out.get_by_text("Approved save_table").wait_for()
    question(out, "delete_file")
    lab.restart()
    out.get_by_text("%tract chat resume continues it").wait_for()
    assert out.get_by_text("Waiting for you").count() == 0
    assert "%tract inbox" not in out.inner_text()
    assert out.locator("section.q").get_by_role("alert").inner_text() == LOST_ROW
    assert out.locator(".foot, .q > .do").get_by_role("button").all_inner_texts() == ["Fold"]
    out.locator("section.q").press("Control+Enter")
    assert out.locator("section.q").get_by_role("alert").inner_text() == LOST_ROW
    screenshot(lab, "chat-lost", 1)
    assert lab.run_cell(0), lab.text(0)
    assert lab.run_cell(3), lab.text(3)
    assert lab.output(3).locator("section.q").count() == 1
    assert lab.output(3).get_by_text("delete_file").first.is_visible()
    lab.run_cell(2, wait=False)
    out = lab.output(2)
    asked = question(out, "delete_file")
    screenshot(lab, "chat-resumed", 2)
    asked.get_by_role("button", name="Run delete_file").click()
    # it was approved but not run, so it is unknown if the approval still holds
    question(out, "save_table").get_by_role("button", name="Run save_table").click()
    model.reply("Done.").end()
    end(lab, 2)
    assert lab.execute("print(done)").strip() == "['first', 'deleted']"
    assert lab.execute("print(len(tract.review.inbox()))").strip() == "0"
    assert "Resumed where it stopped" in bundle(lab, 2)["text/plain"]
    assert len(model.requests) == 2


def test_fork_from_here_goes_to_a_branch_of_its_own(open_lab, model, screenshot):
    model.reply("One.").end()
    lab = start(open_lab, model, "%%tract_chat\nAnd two?", "%%tract_chat\nOr three?")
    end(lab)
    model.reply("Two.").end()
    lab.run_cell(2, wait=False)
    end(lab, 2)
    lab.output(1).get_by_role("button", name="Fork from here").click()
    lab.output(1).get_by_text("Branch fork-1 starts here").wait_for()
    screenshot(lab, "chat-forked", 1)
    model.reply("Three.").end()
    lab.run_cell(3, wait=False)
    end(lab, 3)
    said = [
        message["content"] for message in model.requests[-1]["messages"] if message["role"] == "assistant"
    ]
    assert said == ["One."]
    assert lab.execute("print(tract.current_branch)").strip() == "fork-1"


def test_two_notebooks_on_one_store_stream_at_once(open_lab, model):
    with ScriptedModel() as second:
        one, two = model.reply("ape "), second.reply("bee ")
        lab = start(open_lab, model)
        lab.output(1).get_by_text("ape").wait_for()
        setup = SETUP.format(url=second.url).partition("\n")[2]
        other = other_notebook(
            open_lab, lab, CHAT, setup=setup + "tract.switch(tract.branch('other') and 'other')"
        )
        other.run_cell(1, wait=False)
        other.output(1).get_by_text("bee").wait_for()
        for _ in range(50):
            one.say("ape ")
            two.say("bee ")
        one.end()
        two.end()
        end(lab)
        end(other)
        for place, name in [(lab, "ape"), (other, "bee")]:
            text = bundle(place)["text/plain"]
            assert (text.count(name), text.count("ape") + text.count("bee")) == (51, 51)


def press_until(lab, key, name):
    """Press a key until the control of that name has the focus, like a user without a pointer."""
    for _ in range(40):
        if lab.page.evaluate(
            "name => (document.activeElement?.ariaLabel ?? document.activeElement?.textContent)?.startsWith(name)",
            name,
        ):
            return
        lab.page.keyboard.press(key)
    raise AssertionError(f"{key} never comes to {name}")


def test_a_whole_turn_by_keys_alone(open_lab, model):
    model.reply("May I?").call("save_table", path="a", rows=1).call("delete_file", path="b").end()
    lab = start(open_lab, model)
    out = lab.output(1)
    question(out, "delete_file")
    question(out, "save_table").focus()
    press_until(lab, "Tab", "Change rows")
    lab.page.keyboard.press("Enter")
    lab.page.keyboard.press("ControlOrMeta+a")
    lab.page.keyboard.type("7")
    lab.page.keyboard.press("Enter")
    lab.page.keyboard.press("ControlOrMeta+Enter")
    lab.page.wait_for_function(
        "() => document.activeElement?.closest('.q')?.textContent.includes('delete_file')"
    )
    lab.page.keyboard.press("r")
    lab.page.keyboard.type("no, thanks")
    lab.page.keyboard.press("Enter")
    model.reply("Well, then")
    out.get_by_text("Well, then").wait_for()
    press_until(lab, "Tab", "Stop")
    lab.page.keyboard.press("Enter")
    stopped(lab).locator(".foot").get_by_text("You stopped this turn").wait_for()
    told = [message["content"] for message in model.requests[-1]["messages"] if message["role"] == "tool"]
    assert told[0].startswith("saved a with 7 rows")
    assert "no, thanks" in told[1]
    assert "rows=7  changed" in bundle(lab)["text/plain"]


def test_a_continued_conversation_is_announced_and_a_click_starts_a_new_one(open_lab, model, screenshot):
    model.reply("Five species.").end()
    lab = start(open_lab, model, CHAT)
    end(lab)
    lab.restart()
    assert lab.run_cell(0), lab.text(0)
    assert "Continues the conversation of notebook.ipynb: 2 messages" in lab.text(0)
    model.reply("Still five.").end()
    lab.run_cell(2, wait=False)
    end(lab, 2)
    assert "Still five." in lab.text(2)
    screenshot(lab, "chat-continues", 2)
    lab.output(2).get_by_role("button", name="Start a new conversation").click()
    lab.output(2).get_by_text("New conversation on branch chat-2: run the cell again.").wait_for()
    model.reply("Nothing yet.").end()
    lab.run_cell(2, wait=False)
    end(lab, 2)
    assert lab.execute("print(len(tract.compile().messages))").strip() == "2"
    assert "Continues" not in lab.text(2)


def test_a_turn_that_ends_on_a_reloaded_page_is_saved_with_its_end(open_lab, model, screenshot):
    model.reply("May I?").call("save_table", path="a", rows=1).end()
    lab = start(open_lab, model)
    question(lab.output(1), "save_table")
    lab.save()
    lab.reload(wait=False)
    model.reply("Done.").end()
    question(lab.output(1), "save_table").get_by_role("button", name="Run save_table").click()
    lab.output(1).locator(".tract.turn[data-turn]").get_by_text("Done.").wait_for()
    assert lab.save().cells[1].outputs[0].data["text/plain"].startswith("May I?")
    lab.reopen()
    lab.output(1).get_by_text("Done.").wait_for()
    screenshot(lab, "chat-ended-after-a-reload", 1)
