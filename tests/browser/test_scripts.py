"""Scripts that stop at a call until a person decides, clicked in a real JupyterLab."""

LOAD = "%load_ext tract_jupyter"
SCRIPT = """%%tract_script --out result
seen = []
topic = {"content_type": "dialogue", "role": "user", "text": "From line 7"}
for n in range(20):
    if n == 10:
        try:
            made = tools.commit(content=topic, message=f"number {n}")
        except ToolDenied as error:
            made = {"message": f"denied: {error.reason}"}
    else:
        seen.append(tools.status()["commit_count"])
print("half", seen[9], "then", seen[-1])
made["message"]
"""
CHECK = "print(result.status, result.call_count, [c.line for c in result.calls if c.tool == 'commit'], result.value)"


def test_a_script_waits_for_one_of_its_calls(open_lab, screenshot):
    lab = open_lab(LOAD, SCRIPT, CHECK, viewport=(1100, 1400))
    lab.run_cell(0)
    lab.run_cell(1, wait=False)
    run = lab.button("Run commit", 1)
    run.wait_for()
    output = lab.output(1)
    output.get_by_text("Script waiting for a decision: 10 of 1,000 tool calls").wait_for()
    screenshot(lab, "script-waits", 1)
    lab.change(1, "message", "number eleven")
    run.click()
    assert lab.wait_cell(1)
    text = lab.wait_output(1, "Script completed: 20 tool calls")
    assert "half 0 then 1" in text
    screenshot(lab, "script-completed", 1)
    lab.run_cell(2)
    assert lab.text(2) == "completed 20 [7] number eleven\n"


def test_a_rejection_is_caught_in_the_script(open_lab):
    lab = open_lab(LOAD, SCRIPT, CHECK, viewport=(1100, 1400))
    lab.run_cell(0)
    lab.run_cell(1, wait=False)
    lab.reject(1, "not on this branch")
    assert lab.wait_cell(1)
    lab.wait_output(1, "Script completed: 20 tool calls")
    lab.run_cell(2)
    assert lab.text(2) == "completed 20 [7] denied: not on this branch\n"


def test_a_script_of_the_sandbox_survives_its_kernel(open_lab, screenshot):
    sandboxed = SCRIPT.replace("--out result", "--sandbox --out result").replace("error.reason", "error")
    lab = open_lab(LOAD, sandboxed, "%tract inbox", "%tract log", viewport=(1100, 1400))
    lab.run_cell(0)
    lab.run_cell(1, wait=False)
    lab.button("Run commit", 1).wait_for()
    lab.restart()
    lab.run_cell(0)
    lab.run_cell(2)
    inbox = lab.output(2)
    inbox.get_by_text("Run commit").first.wait_for()
    screenshot(lab, "script-in-the-inbox", 2)
    lab.change(2, "message", "after the restart")
    lab.button("Run commit", 2).click()
    text = lab.wait_output(2, "approved by")
    assert "half 0 then 1" in text
    assert "'after the restart'\n    Script completed: 20 tool calls" in text
    screenshot(lab, "script-taken-up", 2)
    lab.run_cell(3)
    assert "after the restart" in lab.text(3)


LONG = "%%tract_script\n" + "".join(f"n{i} = tools.status()['commit_count']\n" for i in range(60))
LONG += 'tools.tag(commit_hash="none", tag=f"after-{n59}")\n' + "".join(f"m{i} = n{i}\n" for i in range(20))
IN_VIEW = """row => {
  const [inner, outer] = [row.getBoundingClientRect(), row.closest(".scroll").getBoundingClientRect()];
  return outer.top <= inner.top && inner.bottom <= outer.bottom;
}"""


def test_a_long_script_is_shown_around_the_line_that_asks(open_lab):
    lab = open_lab(LOAD, LONG, viewport=(1100, 1400))
    lab.run_cell(0)
    lab.run_cell(1, wait=False)
    row = lab.output(1).locator(".asks")
    lab.unfold(1)
    row.wait_for()
    assert "after-{n59}" in row.inner_text()
    row.evaluate(f"row => new Promise(done => requestAnimationFrame(() => done(({IN_VIEW})(row))))")
    assert row.evaluate(IN_VIEW)
    assert lab.output(1).locator(".code .c").count() == 71  # 50 before it, and all 20 after it
    lab.reject(1)
    lab.wait_cell(1)
