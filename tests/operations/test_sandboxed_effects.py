"""Dangerous code as the body of an action in the sandbox: nothing outside of it happens."""

from __future__ import annotations

import pytest

from tests.effects import adversarial, effects_of

# as it comes, and once more with the check left out that refuses much of it when it is defined
RUN = """
from dataclasses import replace
from tract_jupyter.operations import ActionDef, OperationSpec, sandboxed
from tract_jupyter.sandbox import subset

FIELDS = {"n": {"type": "int", "default": 1}}
subset.LIMITS = replace(subset.LIMITS, seconds=1.0)
check = sandboxed.check_sandboxed

def once(code):
    go = ActionDef("go", "", {}, code, isolation="sandbox")
    try:
        tract.operations.activate(OperationSpec("op", "", FIELDS, {"go": go}), replace=True)
        pending = tract.fire("op", review=True)
        pending.go()
    except Exception as error:
        return type(error).__name__
    return str(pending.status)

def run(code):
    sandboxed.check_sandboxed = check
    checked = once(code)
    sandboxed.check_sandboxed = lambda action: None
    return f"{checked}, unchecked {once(code)}"

for code in ("pending.approve()", "1 / 0", "import os", "pending.fields['n'] = 'x'", "return {1}"):
    run(code)  # everything is loaded, the worker runs
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_no_dangerous_body_has_an_effect(tmp_path):
    snippets = dict(adversarial())
    found = effects_of(snippets, RUN, own_code="<action", folder=tmp_path)
    assert {name: effects for name, (_, effects) in found.items() if effects} == {}
    assert len(found) == len(snippets) >= 2 * 99
    # it was tried: what is Python at all was fed to the sandbox, and most of it failed there
    assert sum("unchecked SandboxError" in outcome for outcome, _ in found.values()) > 99
