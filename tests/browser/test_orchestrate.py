"""`%tract_orchestrate` in a real JupyterLab, with a scripted model on a loopback port."""

from tests.browser.chat import bundle, end, stopped
from tests.browser.contrast import poor_contrast
from tract_jupyter import Tract

SETUP = """%load_ext tract_jupyter
from tract_jupyter.models import TokenBudget
tract.models.use("scripted", base_url={url!r}, api_key="k")
tract.system("Count the birds of the lake.", priority="pinned")
for week in range(8):
    tract.user(f"In week {{week}} there were {{7 * week}} birds on the lake, {{'and so on ' * 60}}.")
tract.budget = TokenBudget(1000, action="callback", callback=lambda *_: None)
"""
RUN = "%tract_orchestrate --out result it's near its budget"
WHY = "The context holds 1.2 times its budget, and eight weekly counts say the same thing each."
OTHER = {
    "name": "annotate",
    "arguments": {"target_hash": "HEAD", "priority": "skip"},
    "why": "Less is lost, but it helps for a day only.",
}


def test_over_budget_it_proposes_a_person_changes_it_and_tokens_fall(open_lab, model, screenshot):
    lab = open_lab(SETUP.format(url=model.url), RUN, viewport=(1240, 1000))
    assert lab.run_cell(0), lab.text(0)
    model.reply("I'll look at what the counts say first.").call("log", limit=3).end()
    lab.run_cell(1, wait=False)
    out = lab.output(1)
    out.get_by_text("I'll look at what the counts say first.").wait_for()
    second = model.reply("The weekly counts can be **one message**.")
    second.call("compress", content="They counted.", reasoning=WHY, alternatives=[OTHER]).end()
    question = out.locator("section.q")
    question.wait_for()
    out.get_by_text(WHY).first.wait_for()
    assert "Looks after main" in out.locator(".looks").inner_text()
    assert "collaborative" in out.locator(".looks").inner_text()
    assert "it's near its budget" in out.locator(".looks").inner_text()
    question.get_by_role("button", name="Run compress").and_(out.locator("[aria-disabled=false]")).wait_for()
    for theme in lab.each_theme():
        assert poor_contrast(out) == []
        screenshot(lab, f"orchestrate-waiting-{theme}", 1)
    lab.change(1, "content", '"Each week there were 7 birds more than the week before."')
    question.get_by_role("button", name="Run compress").click()
    model.reply("The context is **below its budget** again.").end()
    page = end(lab)
    for theme in lab.each_theme():
        assert poor_contrast(page) == []
        screenshot(lab, f"orchestrate-done-{theme}", 1)
    told = [message for message in model.requests[-1]["messages"] if message["role"] == "tool"]
    assert "The user changed the call" in told[-1]["content"]
    before, after = map(int, lab.execute("print(result.tokens_before, result.tokens_after)").split())
    assert after < 200
    assert before > 1000
    foot = page.locator(".foot").inner_text()
    assert "1 change made" in foot
    assert f"context {before:,} → {after:,} of 1,000 tokens" in foot
    row = page.locator("details.row").filter(has_text="compress").last
    row.locator("summary").first.click()
    assert "Less is lost, but it helps for a day only." in row.inner_text()
    page.locator("details.row").filter(has_text="Request to the model").locator("summary").click()
    assert "You were called because: it's near its budget" in page.inner_text()
    for theme in lab.each_theme():
        assert poor_contrast(page) == []
        screenshot(lab, f"orchestrate-unfolded-{theme}", 1)
    saved = bundle(lab)
    assert set(saved) == {"text/html", "text/plain"}
    assert "<button" not in saved["text/html"]
    assert f"Why: {WHY}" in saved["text/plain"]
    assert lab.execute("print(tract.compile().messages[-1].content)").strip().startswith("Each week")


def test_autonomy_that_is_lowered_in_the_middle_counts_at_the_next_call(open_lab, model, screenshot):
    lab = open_lab(SETUP.format(url=model.url), RUN, viewport=(1240, 1000))
    assert lab.run_cell(0), lab.text(0)
    model.reply("First the newest.").call(
        "annotate", target_hash="HEAD", priority="skip", reasoning="Old."
    ).end()
    lab.run_cell(1, wait=False)
    out = lab.output(1)
    question = out.locator("section.q")
    question.wait_for()
    with Tract.open(lab.store) as elsewhere:
        elsewhere.autonomy.ceiling = "manual"
    question.get_by_role("button", name="Run annotate").click()
    question.get_by_role("alert").get_by_text("reported, not run: autonomy is manual.").wait_for()
    lab.reject(1, "Then leave it.")
    out.get_by_text("Autonomy was lowered: manual from here on.").first.wait_for()
    model.reply("Then the rest.").call("compress", content="They counted.", reasoning="Still too full.").end()
    out.get_by_text("reported, not run", exact=True).wait_for()
    model.reply("I would compress it.").end()
    page = end(lab)
    screenshot(lab, "orchestrate-lowered", 1)
    foot = page.locator(".foot").inner_text()
    assert "1 proposal reported but not executed, because autonomy was manual" in foot
    assert lab.execute("print([step.decision for step in result.steps])").strip().endswith("'told']")


def test_an_alternative_is_chosen(open_lab, model, screenshot):
    lab = open_lab(SETUP.format(url=model.url), RUN, viewport=(1240, 1000))
    assert lab.run_cell(0), lab.text(0)
    model.reply().call("compress", content="They counted.", reasoning=WHY, alternatives=[OTHER]).end()
    lab.run_cell(1, wait=False)
    out = lab.output(1)
    question = out.locator("section.q")
    question.wait_for()
    lab.unfold(1)
    assert "annotate(target_hash='HEAD', priority='skip')" in question.inner_text()
    screenshot(lab, "orchestrate-alternatives", 1)
    question.get_by_role("button", name="Choose another…").click()
    question.get_by_label("Number").fill("1")
    question.get_by_role("button", name="Choose another", exact=True).click()
    run = question.get_by_role("button", name="Run annotate")
    run.and_(out.locator("[aria-disabled=false]")).wait_for()
    screenshot(lab, "orchestrate-chosen-waits", 1)
    run.click()
    question.wait_for(state="detached")
    model.reply("Skipped the newest.").end()
    page = end(lab)
    screenshot(lab, "orchestrate-chosen", 1)
    told = [message["content"] for message in model.requests[-1]["messages"] if message["role"] == "tool"]
    assert "annotate(target_hash='HEAD', priority='skip') was chosen instead" in told[-1]
    assert page.get_by_text("Ran annotate instead of compress").is_visible()
    assert "Ran annotate instead of compress" in bundle(lab)["text/plain"]
    assert "1 change made" in page.locator(".foot").inner_text()
    names = lab.execute("print([step.tool_call.name for step in result.steps])")
    assert names.strip() == "['annotate']"


def test_stop_while_a_question_is_open(open_lab, model, screenshot):
    lab = open_lab(SETUP.format(url=model.url), RUN, "%tract_orchestrate --resume", viewport=(1240, 1000))
    assert lab.run_cell(0), lab.text(0)
    head = lab.execute("print(tract.head)")
    model.reply("First the newest.").call(
        "annotate", target_hash="HEAD", priority="skip", reasoning="Old."
    ).end()
    lab.run_cell(1, wait=False)
    out = lab.output(1)
    out.locator("section.q").wait_for()
    out.get_by_role("button", name="Stop").click()
    page = stopped(lab)
    page.locator(".foot").get_by_text("You stopped this run").wait_for()
    assert page.locator("section.q").count() == 0
    screenshot(lab, "orchestrate-stopped", 1)
    assert lab.execute("print(result.outcome, result.state)").strip() == "stopped stopped"
    assert lab.execute("print(tract.head)") == head
    assert lab.execute("print(tract.review.inbox())").strip() == "[]"
    model.reply("Then not.").end()
    lab.run_cell(2, wait=False)
    resumed = end(lab, 2)
    screenshot(lab, "orchestrate-resumed", 2)
    assert "Resumed where it stopped" in bundle(lab, 2)["text/plain"]
    assert "Nothing was changed" in resumed.locator(".foot").inner_text()


def test_stop_while_the_model_is_asked(open_lab, model, screenshot):
    lab = open_lab(SETUP.format(url=model.url), RUN, viewport=(1240, 1000))
    assert lab.run_cell(0), lab.text(0)
    reply = model.reply("I would ")
    lab.run_cell(1, wait=False)
    out = lab.output(1)
    out.get_by_text("I would").wait_for()
    out.get_by_role("button", name="Stop").click()
    page = stopped(lab)
    page.locator(".foot").get_by_text("You stopped this run").wait_for()
    screenshot(lab, "orchestrate-stopped-early", 1)
    reply.end()
    assert lab.execute("print(result.state, tract.orchestrator.state)").strip() == "stopped idle"


def test_a_restart_with_a_question_open_loses_nothing_and_does_nothing_twice(open_lab, model, screenshot):
    again = "%tract_orchestrate --resume"
    lab = open_lab(SETUP.format(url=model.url), RUN, again, "%tract inbox", viewport=(1240, 1000))
    assert lab.run_cell(0), lab.text(0)
    second = model.reply("Two things.").call(
        "annotate", target_hash="HEAD", priority="skip", reasoning="Old."
    )
    second.call("compress", content="They counted.", reasoning=WHY).end()
    lab.run_cell(1, wait=False)
    out = lab.output(1)
    first = out.locator("section.q").filter(has_text="annotate")
    first.get_by_role("button", name="Run annotate").and_(out.locator("[aria-disabled=false]")).click()
    out.get_by_text("Approved annotate").wait_for()
    out.locator("section.q").filter(has_text="compress").wait_for()
    lab.restart()
    out.get_by_text("%tract_orchestrate --resume continues it").wait_for()
    assert out.get_by_text("Waiting for you").count() == 0
    screenshot(lab, "orchestrate-lost", 1)
    load = SETUP.format(url=model.url).splitlines()
    lab.execute("\n".join([load[0], load[2]]))  # the context is there already
    assert lab.run_cell(3), lab.text(3)
    assert lab.output(3).get_by_text("compress").first.is_visible()
    lab.run_cell(2, wait=False)
    out = lab.output(2)
    out.locator("section.q").filter(has_text="compress").wait_for()
    assert out.get_by_text("compress", exact=True).count() == 1  # in its question, and no second row
    screenshot(lab, "orchestrate-restarted", 2)
    assert "Resumed where it stopped." in out.inner_text()
    asked = out.locator("section.q").filter(has_text="compress")
    asked.get_by_role("button", name="Run compress").and_(out.locator("[aria-disabled=false]")).click()
    # it was approved but not run, so it is unknown if the approval still holds
    asked = out.locator("section.q").filter(has_text="annotate")
    asked.get_by_role("button", name="Run annotate").and_(out.locator("[aria-disabled=false]")).click()
    model.reply("Done.").end()
    page = end(lab, 2)
    screenshot(lab, "orchestrate-restarted-done", 2)
    assert "2 changes made" in page.locator(".foot").inner_text()
    assert len(model.requests) == 2
    assert lab.execute("print(len(tract.events('compress')))").strip() == "1"
    said = lab.execute("print([message.content for message in tract.compile().messages])")
    assert said.strip() == "['Count the birds of the lake.', 'They counted.']"
    assert lab.execute("print(tract.review.inbox())").strip() == "[]"
