"""Settings of analysis rules: their effect on panels, definitions and lists."""

import logging
import re

import pytest

from tract_jupyter import OperationSpec
from tract_jupyter.analysis import all_rules

CELL = '''%%tract_operation sweep
"""Sweep."""
def go(pending):
    """Go."""
    import os
    os.system("true")
    pending.approve()
'''
OFF = "1 rule is switched off: TJ101."


def configure(shell, setting, value):
    return shell.run(f"%config TractJupyter.{setting} = {value!r}")


def test_the_list_has_every_rule(shell):
    result = shell.run("%tract rules")
    for rule in all_rules():
        assert re.search(rf"^{rule.code}  {rule.name} +{rule.level.value} ", result.text, re.MULTILINE)
        assert rule.code in result.html
    assert "not containment" in result.text


def test_the_list_marks_changed_levels_and_disabled_rules(shell):
    configure(shell, "rules_off", ["TJ101", "TJ303"])
    configure(shell, "rule_levels", {"TJ301": "medium"})
    text = shell.run("%tract rules").text
    assert "2 rules are switched off: TJ101, TJ303." in text
    assert re.search(r"^TJ101 .* off  ", text, re.MULTILINE)
    assert re.search(r"^TJ301 .* medium \(set here, usually high\) ", text, re.MULTILINE)


@pytest.mark.parametrize("given", ["TJ101", "tj101", "starts-program"])
def test_a_page(shell, given):
    result = shell.run(f"%tract rules {given}")
    assert "TJ101 starts-program: category process, level critical\n" in result.text
    assert "## Why it matters" in result.text
    assert 'aria-level="4">Why it matters</div>' in result.html
    plain = re.sub("<[^>]*>", "", result.html)  # the example is highlighted
    assert "subprocess.run([&quot;git&quot;, &quot;push&quot;])" in plain


def test_a_page_says_that_the_rule_is_off(shell):
    configure(shell, "rules_off", ["TJ101"])
    assert "level off" in shell.run("%tract rules TJ101").text


@pytest.mark.parametrize(
    ("words", "said"),
    [("TJ5011", "no rule 'TJ5011'. Did you mean 'TJ501'?"), ("a b", "usage: %tract rules [CODE]")],
)
def test_an_unknown_rule_or_invalid_line_gives_an_error(shell, words, said):
    result = shell.run(f"%tract rules {words}")
    assert said in result.error


def test_a_panel_says_which_rules_are_off(shell):
    assert "TJ101" in shell.run(CELL).text
    configure(shell, "rules_off", ["TJ101"])
    result = shell.run(CELL.replace("sweep", "other"))
    assert "critical TJ101" not in result.text
    assert OFF in result.text


def test_a_panel_without_findings_names_the_disabled_rules(shell):
    configure(shell, "rules_off", ["TJ101"])
    result = shell.run(CELL.replace("import os", "pass").replace('os.system("true")', "pass"))
    assert f"No findings. Analysis is advice, not containment. {OFF}" in result.text


def test_an_activated_definition_names_the_disabled_rules_too(shell):
    configure(shell, "rules_off", ["TJ101"])
    result = shell.run(CELL.replace("sweep", "sweep --activate"))
    assert OFF in result.text
    assert "TJ101  " not in result.text


def test_findings_have_the_levels_of_the_settings(shell):
    configure(shell, "rule_levels", {"TJ101": "low"})
    result = shell.run(CELL)
    assert "^ low TJ101" in result.text
    assert "Levels set here: TJ101 low." in result.text
    assert "the worst of level low" in result.text


def test_an_open_request_is_analysed_again_after_a_change_of_rules(shell):
    shell.run(CELL.replace("sweep", "sweep --activate"))
    pending = shell.namespace["tract"].fire("sweep", {}, review=True)
    assert pending.code_blocks()[0].findings
    before = pending.code_blocks()
    assert pending.code_blocks()[0].findings is before[0].findings  # analysed only once
    configure(shell, "rules_off", ["TJ101", "TJ201", "TJ501"])
    assert [f for f in pending.code_blocks()[0].findings if f.code == "TJ101"] == []
    assert "3 rules are switched off" in pending.code_blocks()[0].analysis_note


def test_a_handler_is_analysed_in_the_same_way(shell):
    configure(shell, "rules_off", ["TJ101"])
    tract = shell.namespace["tract"]
    tract.register_operation(OperationSpec("plain", "Plain", {}, {}))
    pending = tract.hooks.propose_handler("plain", "yes", "import os\nos.system('x')\npending.approve()")
    block = pending.code_blocks()[-1]
    assert OFF in block.analysis_note
    assert "TJ101" not in {finding.code for finding in block.findings}


@pytest.mark.parametrize(
    ("setting", "value", "said"),
    [
        ("rules_off", ["TJ101", "TJ11"], "There is no rule 'TJ11'"),
        ("rules_off", ["TJ901"], "TJ901"),
        ("rules_off", [101], "rules_off"),
        ("rule_levels", {"TJ301": "lowest"}, "There is no level 'lowest'"),
        ("rule_levels", {"TJ30": "low"}, "There is no rule 'TJ30'"),
        ("rule_levels", {"TJ903": "low"}, "TJ903"),
        ("rule_levels", ["TJ301"], "rule_levels"),
        ("rule_effects", ["missing.toml"], "missing.toml cannot be used"),
    ],
)
def test_a_wrong_setting_is_refused_and_changes_nothing(shell, caplog, setting, value, said):
    configure(shell, "rules_off", ["TJ102"])
    configure(shell, "rule_levels", {"TJ101": "high"})
    shell.run("tract.status()")
    advice = shell.namespace["tract"].operations.advice
    with caplog.at_level(logging.ERROR):
        configure(shell, setting, value)
    assert said in caplog.text
    assert shell.namespace["tract"].operations.advice is advice
    assert (advice.off, advice.levels) == (("TJ102",), {"TJ101": "high"})
    assert shell.run("%config TractJupyter.rules_off").text.endswith("['TJ102']\n")


def test_settings_of_before_the_first_use_hold(bare_shell):
    bare_shell.ip.config.TractJupyter.rules_off = ["TJ101"]
    bare_shell.run("%load_ext tract_jupyter")
    assert OFF in bare_shell.run(CELL).text


def test_a_cell_that_goes_to_another_folder_loses_no_file_of_effects(shell, tmp_path):
    (tmp_path / "effects.toml").write_text("[symbols]\nstarts-program = 'critical acme.jobs: submit'\n")
    (tmp_path / "data").mkdir()
    configure(shell, "rule_effects", ["effects.toml"])
    try:
        assert shell.run("import os; os.chdir('data')").ok
        assert "TJ101" in shell.run("%%tract_check\nimport acme.jobs\nacme.jobs.submit('x')").text
        configure(shell, "rules_off", ["TJ102"])
        assert "TJ101" in shell.run("%%tract_check\nimport acme.jobs\nacme.jobs.submit('x')").text
    finally:
        configure(shell, "rule_effects", [])
        shell.run("tract.status()")


def test_a_file_describes_the_calls_of_an_own_library(shell, tmp_path):
    path = tmp_path / "effects.toml"
    path.write_text("[symbols]\nstarts-program = 'critical acme.jobs: submit'\n")
    cell = "%%tract_check\nimport acme.jobs\nacme.jobs.submit('x')"
    assert "TJ101" not in shell.run(cell).text
    configure(shell, "rule_effects", [str(path)])
    try:
        text = shell.run(cell).text
        assert "TJ101" in text
        assert "acme.jobs.submit starts another program" in text
        assert f"Effects of calls also come from {path}." in shell.run("%tract rules").text
    finally:
        configure(shell, "rule_effects", [])
        shell.run("tract.status()")
    assert "TJ101" not in shell.run(cell).text
