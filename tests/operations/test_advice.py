"""The analysis that a reviewer sees, also for operations of scripts."""

import pytest

from tract_jupyter.exceptions import TractError
from tract_jupyter.operations import ActionDef, Advice

ACTION = ActionDef("go", "Go", {"n": "int"}, "import os\nos.system('x')\n", ["n"])


def codes(block):
    return {finding.code for finding in block.findings}


def test_a_block_has_header_description_and_findings():
    block = Advice().block(ACTION)
    assert (block.title, block.header, block.description) == ("go", "def go(pending, n: int):", "Go")
    assert "TJ101" in codes(block)
    assert block.analysis_note == ""


def test_rules_that_are_off_are_named():
    advice = Advice(["TJ303", "TJ101", "TJ101"])
    assert advice.note == "2 rules are switched off: TJ101, TJ303."
    block = advice.block(ACTION)
    assert "TJ101" not in codes(block)
    assert block.analysis_note == advice.note


def test_the_note_of_a_block_without_findings_says_so():
    block = Advice().block(ActionDef("go", "Go", {}, "pending.approve()"))
    assert block.analysis_note == "No findings. Analysis is advice, not containment."


def test_levels_are_set():
    advice = Advice(levels={"TJ301": "low", "TJ101": "medium"})
    assert advice.note == "Levels set here: TJ101 medium, TJ301 low."
    (level,) = {f.level.value for f in advice.block(ACTION).findings if f.code == "TJ101"}
    assert level == "medium"


@pytest.mark.parametrize(("off", "levels"), [(["TJ11"], {}), (["TJ901"], {}), ([], {"TJ101": "worst"})])
def test_an_unknown_rule_or_level_is_refused(off, levels):
    with pytest.raises(TractError, match="TJ|level"):
        Advice(off, levels)


def test_an_operation_of_a_script_is_shown_with_its_advice(tract, spec):
    tract.operations.advice = Advice(["TJ101"])
    pending = tract.propose_operation(spec(name="fresh"))
    assert "1 rule is switched off: TJ101." in pending.review_request().code[0].analysis_note


def test_only_advice_takes_the_place_of_the_advice(tract):
    with pytest.raises(TractError, match="must be an Advice of tract_jupyter.operations, not 3"):
        tract.operations.advice = 3
