"""`%%tract_script` in a shell: its display, its end, and its variables."""

from __future__ import annotations

import re

import pytest


def test_a_script_shows_its_prints_its_value_and_its_number_of_calls(kernel):
    result = kernel.run("%%tract_script\nprint('on', tools.status()['branch'])\nx = 6\nx * 7")
    assert result.ok
    assert "on main" in result.text
    assert "42" in result.text
    assert "Script completed: 1 tool call in" in result.text
    assert kernel.run("print(x)").text.strip() == "6"


def test_a_script_notebook_keeps_its_own_variables(kernel):
    assert kernel.run("%%tract_script --notebook work\ny = 1").ok
    assert "is not defined" in kernel.run("y").error
    assert "1" in kernel.run("%%tract_script --notebook work\ny").text
    assert "NameError" in kernel.run("%%tract_script --notebook work --fresh\ny").error


def test_an_exception_stops_the_run_with_the_scripts_own_lines(kernel):
    result = kernel.run("%%tract_script\nprint('before')\ndef broken():\n    return 1 / 0\nbroken()")
    assert not result.ok
    assert "before" in result.text
    assert "ZeroDivisionError: division by zero" in result.error
    assert "line 4, in broken" in result.text  # line of the cell; the first line is the magic
    assert "return 1 / 0" in result.text
    assert "site-packages" not in result.text


def test_the_result_is_kept_under_a_name(kernel):
    kernel.run("%%tract_script --out r --sandbox\ntools.status()['branch']")
    assert kernel.run("print(r.backend, r.value, r.status)").text.strip() == "sandbox main completed"


def test_displays_of_a_script_are_shown_and_stored(kernel):
    result = kernel.run(
        "%%tract_script --out r\nfrom IPython.display import HTML, display\ndisplay(HTML('<b>bold</b>'))"
    )
    assert "<b>bold</b>" in result.html
    assert kernel.run("print([o.data['text/html'] for o in r.outputs])").text.strip() == "['<b>bold</b>']"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("%%tract_script\nx = (", "never closed"),
        ("%%tract_script\n%ls", "magics and ! belong to cells"),
        ("%%tract_script --fresh\n1", "would clear your own namespace"),
        ("%%tract_script --calls 0\n1", "positive number"),
        ("%%tract_script --notebook a/b\n1", "of a script notebook; use up to 64 letters"),
    ],
)
def test_a_users_mistake_is_one_line(kernel, text, said):
    result = kernel.run(text)
    assert not result.ok
    assert said in result.error
    assert "Traceback" not in result.error


def test_its_time_is_bounded(kernel):
    result = kernel.run("%%tract_script --timeout 0.3\nwhile True: pass")
    assert "exceeded its time limit" in result.error + result.text
    assert kernel.run("print('alive')").text.strip() == "alive"


def test_findings_in_a_script_are_reported(kernel):
    result = kernel.run("%%tract_script\nimport os\nos.system('true')")
    assert "of level critical. %%tract_check shows more" in result.text


def test_the_view_the_status_and_the_tools_say_one_number(kernel):
    kernel.run("before = tools.savings()")
    view = kernel.run("%%tract_script --out r\ntools.status()").text
    verdict = kernel.run("print(r.savings.verdict)").text.strip()
    assert re.fullmatch(r"≈ [\d,]+ tokens saved \(\d+%\)", verdict)
    assert f"{verdict}: one by one ≈ " in view
    assert kernel.run("print(tools.savings() == before + r.savings)").text.strip() == "True"
    assert (
        f"; {kernel.run('print(tools.savings().verdict)').text.strip()}: one by one ≈ "
        in kernel.run("%tract").text
    )


def test_a_persons_own_loop_counts_nowhere(kernel):
    before = kernel.run("%tract").text
    kernel.run("for _ in range(20): tools.status()")
    assert kernel.run("%tract").text == before


ASKING = """%%tract_operation deploy --activate --ask
x: int = 1

def go(pending):
    print('printed by the action')
    pending.approve()
"""


def test_a_prompt_during_a_script_is_not_part_of_its_output(kernel):
    kernel.run("from tract_jupyter.notebook import channels; channels.PROBE_SECONDS = 0")
    kernel.run(ASKING)
    ask = "tract.reviewer.decide_now(tract.fire('deploy', {'x': 3}, review=True)).action"
    script = f"%%tract_script --out r\nprint('before')\n{ask}"
    result = kernel.run(script, typed=("go",))
    assert result.ok
    assert "x: int = 3" in result.text  # the user saw the request
    assert "printed by the action" in result.text  # in the record of the decision
    assert (
        kernel.run("print([(o.kind, o.text) for o in r.outputs])").text.strip() == "[('stdout', 'before\\n')]"
    )
    assert kernel.run("print(len(r.text))").text.strip() == "7"


def test_a_panel_shown_by_a_script_is_not_part_of_its_output(kernel):
    kernel.run(ASKING)
    show = "tract.reviewer.show(tract.fire('deploy', {'x': 4}, review=True)); None"
    result = kernel.run(f"%%tract_script --out r\n{show}", typed=())
    assert result.ok
    assert "deploy" in result.text
    assert kernel.run("print(r.outputs)").text.strip() == "()"


def test_html_of_a_display_is_not_in_the_text_for_the_model(kernel):
    kernel.run(
        "%%tract_script --out r\nfrom IPython.display import HTML, display\ndisplay(HTML('<b>bold</b>'))"
    )
    assert kernel.run("print('<b>' in r.to_dict()['output'])").text.strip() == "False"
