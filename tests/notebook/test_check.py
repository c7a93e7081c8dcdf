"""`%%tract_check`: findings in a cell that does not run, with names from cells that ran."""

import json
import re

import pytest
import yaml

DANGEROUS = 'import os\nos.system("touch ran")\n'


@pytest.fixture
def session(shell):
    """A shell with a history of its cells, as in a notebook."""

    def run(cell):
        before = shell.ip.run_cell
        shell.ip.run_cell = lambda cell: before(cell, store_history=True)
        try:
            return shell.run(cell)
        finally:
            del shell.ip.run_cell

    return run


def found(result):
    return "critical TJ101" in result.text


def test_a_check_shows_findings_and_runs_nothing(shell, tmp_path):
    result = shell.run(f"%%tract_check\n{DANGEROUS}")
    assert result.ok
    assert "Checked, not run" in result.text
    assert "Findings: 1 critical, 1 low. Worst: TJ101 (process), line 2." in result.text
    assert '    2  os.system("touch ran")\n       ^ critical TJ101' in result.text
    assert 'data-code="TJ101"' in result.html
    assert "<u class" in result.html
    assert not (tmp_path / "ran").exists()
    assert "os" not in shell.namespace


def test_one_line(shell):
    assert found(shell.run("%tract_check __import__('os').system('touch ran')"))
    assert "{x}" in shell.run("%tract_check open('{x}')").text  # the braces are not evaluated


def test_a_check_knows_the_registered_tools(shell):
    cell = '@tract.tool\ndef read_file(path: str) -> str:\n    """Read a file."""'
    assert shell.run(cell).ok
    assert "Bypasses the tool read_file." in shell.run("%tract_check open('notes.md').read()").text


def test_a_check_without_findings_says_that_analysis_is_only_advice(shell):
    result = shell.run("%%tract_check\n1 + 1\n")
    assert "No findings. Analysis is advice, not containment." in result.text
    assert "No findings. Analysis is advice, not containment." in result.html
    assert "<code>" not in result.html


def test_invalid_python_is_a_finding(shell):
    assert "high TJ901" in shell.run("%%tract_check\nthis is no python\n").text


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--strict", "The mode 'strict' would block it."),
        ("--mode strict", "The mode 'strict' would block it."),
        ("--mode=block_critical", "The mode 'block_critical' would not block it."),
        ("--mode warn", "The mode 'warn' would not block it."),
        ("--mode disabled", "The mode 'disabled' would not block it."),
    ],
)
def test_a_mode_is_asked_about(shell, options, said):
    code = "import shutil\nshutil.rmtree('x')"
    result = shell.run(f"%%tract_check {options}\n{code}\n")
    assert said in result.text
    assert said.replace("'", "&#x27;") in result.html
    assert said in shell.run(f"%tract_check {options} __import__('shutil').rmtree('x')").text


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("%%tract_check --stric\nx", "no option '--stric'. Did you mean '--strict'?"),
        ("%%tract_check --mode strickt\nx", "Unknown analysis mode 'strickt'. Use one of"),
        ("%%tract_check --mode\nx", "--mode needs a value: disabled, warn, "),
        ("%%tract_check x = 1\ny", "takes only options in its line; put the code below it, not 'x = 1'"),
        ("%tract_check", "needs code"),
        ("%tract_check --strict", "needs code"),
        ("%%tract_check\n  \n", "needs code"),
    ],
)
def test_an_invalid_check_gives_a_short_error(shell, cell, said):
    result = shell.run(cell)
    assert not result.ok
    assert said in result.error
    assert "Checked" not in result.text


def test_html_is_escaped(shell):
    result = shell.run("%%tract_check\nopen('<script>alert(1)</script>\u202e')\n")
    assert "<script" not in result.html
    assert "\u202e" not in result.html + result.text


def test_names_of_cells_that_ran_are_known(session):
    session("import os as quiet")
    assert found(session("%%tract_check\nquiet.system('x')\n"))
    session("run = quiet.system")
    assert found(session("%%tract_check\nrun('x')\n"))
    assert found(session("%tract_check run('x')"))


def test_names_of_scripts_that_ran_are_known(session):
    session("%%tract_script\ndef calc(text):\n    return eval(text)")
    assert "critical TJ102" in session("%%tract_check\ncalc('1')\n").text
    assert "critical" in session("%%tract_script\ncalc('1')").text


def test_names_of_cells_that_ran_before_the_extension_was_loaded_are_known(bare_shell):
    bare_shell.ip.run_cell("import os as quiet", store_history=True)
    bare_shell.run("%load_ext tract_jupyter")
    assert found(bare_shell.run("%%tract_check\nquiet.system('x')\n"))


def test_names_of_checked_or_defined_code_are_not_known(session):
    session("%%tract_check\nimport os as quiet\n")
    session("%%tract_operation --activate quieter\n'''Look.'''\ndef go(pending):\n    import os as quiet\n")
    assert not found(session("%%tract_check\nquiet.system('x')\n"))


def test_a_cell_that_cannot_be_read_teaches_nothing_and_spoils_nothing(session):
    session("import os as quiet")
    session("this is no python")
    session("%time import os as timed")
    assert found(session("%%tract_check\nquiet.system('x')\n"))
    assert found(session("%%tract_check\ntimed.system('x')\n"))


@pytest.mark.slow
@pytest.mark.parametrize("has_looked", [True, False])
def test_reset_forgets_only_the_cells_before_it(session, has_looked):
    session("import os as quiet")
    if has_looked:
        session("%tract_check quiet")
    session("%reset -f")
    session("import os as other")
    assert not found(session("%%tract_check\nquiet.system('x')\n"))
    assert found(session("%%tract_check\nother.system('x')\n"))


@pytest.mark.slow
def test_a_reset_that_no_cell_names_forgets_all(session, shell):
    session("import os as quiet")
    session("%tract_check quiet")
    shell.ip.reset(new_session=False)
    assert not found(session("%%tract_check\nquiet.system('x')\n"))


def test_a_new_history_forgets_all(session, shell):
    session("import os as quiet")
    session("%tract_check quiet")
    shell.ip.history_manager.input_hist_raw[:] = [""]
    assert not found(session("%%tract_check\nquiet.system('x')\n"))


def test_other_rules_are_asked_at_once_and_know_the_same_cells(session):
    session("import os as quiet")
    assert found(session("%%tract_check\nquiet.system('x')\n"))
    session("%config TractJupyter.rules_off = ['TJ101']")
    result = session("%%tract_check\nquiet.system('x')\n")
    assert not found(result)
    assert "1 rule is switched off: TJ101." in result.text
    assert "1 rule is switched off: TJ101." in result.html
    session("%config TractJupyter.rules_off = []")
    assert found(session("%%tract_check\nquiet.system('x')\n"))


OPERATION = """%%tract_operation publish
'''Publish a page.'''
path: str
tags: list[str] = []


def publish(pending, draft: bool = False):
    '''Publish it.'''
    if draft:
        pending.approve()
    import os

    os.system(pending.fields["path"])
"""


def test_the_definition_of_an_operation_is_checked(shell):
    result = shell.run(f"%%tract_check\n{OPERATION}")
    assert result.ok
    assert "   13      os.system(pending.fields[" in result.text
    marked = re.findall('<u class="(?:high|critical)">(.*?)</u>', result.html)
    assert "os.system" in [re.sub("<.*?>", "", text) for text in marked]
    assert "Worst: TJ101 (process), line 13." in result.text
    assert "publish" not in shell.namespace["tract"].operations.registry.operation_names


@pytest.mark.parametrize("before", ["", "\n\n", "\n    "])
def test_line_numbers_of_an_operation_count_from_the_start_of_the_cell(shell, before):
    lines = [before.rpartition("\n")[2] + line for line in OPERATION.splitlines()]
    cell = before.rpartition("\n")[0] + "\n" * bool(before) + "\n".join(lines)
    place = before.count("\n") + 13
    assert f"Worst: TJ101 (process), line {place}." in shell.run(f"%%tract_check --strict\n{cell}\n").text


def test_a_json_or_yaml_definition_is_checked_action_by_action(shell):
    spec = {
        "name": "publish",
        "fields": {"path": {"type": "str"}},
        "actions": {
            "look": {"code": "print(open(pending.fields['path']).read())\npending.approve()"},
            "send": {"code": "pending.approve()"},
        },
    }
    for form, text in (("json", json.dumps(spec, indent=1)), ("yaml", yaml.safe_dump(spec))):
        result = shell.run(f"%%tract_check --strict\n%%tract_operation --{form}\n{text}\n")
        assert "look: Findings: 1 low. Worst: TJ201 (filesystem_read), line 1." in result.text
        assert "send: No findings." in result.text
        assert "The mode 'strict' would not block it." in result.text
        assert "TJ201" in result.html


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("'''D'''\nimport os\n", "line 3: a definition holds only"),
        ("path: str\ndef go(pending):\n    return = 1\n", "line 4: invalid syntax"),
        ("path: strr\ndef go(pending):\n    pending.approve()\n", "'strr'"),
        ("path: str\ndef approve(pending):\n    pending.approve()\n", "'approve' is reserved"),
    ],
)
def test_a_definition_that_would_be_refused_says_why(shell, body, said):
    result = shell.run(f"%%tract_check --strict\n%%tract_operation publish\n{body}")
    assert result.ok
    assert "Defining it would fail: " in result.text
    assert said in result.text
    assert "No findings" not in result.text + result.html
    assert "would not block" not in result.text


def test_a_script_is_python_that_runs_here(shell):
    result = shell.run(f"%%tract_check --strict\n%%tract_script --notebook a --out b\n{DANGEROUS}")
    assert "Worst: TJ101 (process), line 3." in result.text
    assert "The mode 'strict' would block it." in result.text
