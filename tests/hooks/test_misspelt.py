"""What a definition misspells is a finding, in the panel of its activation and of what it fires."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tract_jupyter.operations import ActionDef, Advice

OTHER = ActionDef("other", "Another.", {}, "pending.approve()")


def findings(tract, spec, code):
    made = spec(code)
    made = replace(made, actions={**made.actions, "other": OTHER})
    request = tract.propose_operation(made).review_request()
    block = next(block for block in request.code if block.title == "verify")
    return [finding for finding in block.findings if finding.code == "TJ801"]


@pytest.mark.parametrize(
    ("code", "line", "text", "words"),
    [
        ("pending.aprove()", 1, "pending.aprove", "nothing called 'aprove'. Did you mean 'approve'?"),
        (
            "x = 1\nprint(pending.fields['ulrs'])\npending.approve()",
            2, "pending.fields['ulrs']", "no field 'ulrs'. Did you mean 'urls'?",
        ),
        ("pending.fields['verifed'] = True\npending.approve()", 1, "pending.fields['verifed']", "'verified'"),
        ("pending.approve() if strct else pending.reject('no')", 1, "strct", "'strct'. Did you mean 'strict'?"),
        ("other()", 1, "other", "pending.other is there"),
        ("for url in pending.field['urls']: pass\npending.approve()", 1, "pending.field", "'fields'"),
        ("pending.verfy()", 1, "pending.verfy", "'verify'"),
        ("json.dumps(1)\npending.approve()", 1, "json", "Nothing defines the name 'json'"),
    ],
)  # fmt: skip
def test_a_typo_is_told_with_what_was_meant(tract, spec, code, line, text, words):
    (found,) = findings(tract, spec, code)
    assert (found.span.line, found.text, found.level) == (line, text, "low")
    assert words in found.reason
    assert found.remedy


@pytest.mark.parametrize(
    "code",
    [
        "pending.other()\npending.verify(strict=True)",
        "pending.fields['urls'] = sorted(set(pending.fields['urls']))\nif strict: pending.reject('x')\npending.approve()",
        "import json, os.path as p\nfrom math import sqrt as s\njson.dumps(p.sep); s(4)\npending.approve()",
        "def f(a, *b, c=1, **d):\n    return a, b, c, d\nclass C:\n    x = 1\nf(C.x)\npending.approve()",
        "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    pending.reject(str(error))",
        "with open('x') as file, open('y') as (a, b):\n    print(file, a, b)\npending.approve()",
        "squares = [x * y for x, y in zip([1], [2])]\nf = lambda n: n\nif (m := f(2)) > 1: print(m, squares)\npending.approve()",
        "match pending.fields:\n    case {'urls': [first, *rest], **more}: print(first, rest, more)\n    case other: print(other)",
        "exec('y = 1')\nprint(y)\npending.approve()",
        "global counter\ncounter = 1\ndel counter\npending.approve()",
        "display(get_ipython())\nprint(__name__)\npending.approve()",
        "pending.fields['note'] = 'kept'\nprint(pending.fields['note'])\npending.approve()",
        "pending.mine = 1\nprint(pending.mine, pending.tract, pending.status, pending.actor, pending.result)\npending.approve()",
        "key = 'x'\nprint(pending.fields[key], pending.fields.get('y'), pending.created_at)\npending.approve()",
        "pending = pending\npending.whatever()",
        "x: int = 1\nx += 1\nfor i, (j, k) in []: print(i, j, k, x)\npending.approve()",
    ],
)
def test_no_false_alarm(tract, spec, code):
    assert findings(tract, spec, code) == []


def test_it_is_in_the_panel_of_what_is_fired_too_and_can_be_switched_off(tract, spec):
    tract.register_operation(spec("pending.aprove()"))
    (block,) = tract.fire("citation_check", {"urls": []}, review=True).code_blocks()
    assert [finding.code for finding in block.findings] == ["TJ801"]
    tract.operations.advice = Advice(off=["TJ801"])
    (block,) = tract.fire("citation_check", {"urls": []}, review=True).code_blocks()
    assert block.findings == ()


@pytest.mark.parametrize(
    ("operation", "code", "found"),
    [
        ("citation_check", "pending.aprove()", ["pending.aprove"]),
        ("citation_check", "pending.fields['ulrs']\npending.approve()", ["pending.fields['ulrs']"]),
        ("citation_check", "pending.verify() if pending.fields['urls'] else pending.pass_through()", []),
        ("gc", "pending.aprove()", ["pending.aprove"]),
        ("gc", "pending.fields['tokens_to_free'] and pending.approve()", []),
        (
            "tool_result",
            "pending.shorten('x') if pending.tool_name == 'a' and pending.token_count > 1 else None",
            [],
        ),
        ("compress", "pending.edit_sumary(0, 'x')", ["pending.edit_sumary"]),
        ("policy", "pending.modify_params({}) or pending.aprove()", ["pending.aprove"]),
        ("*", "pending.whatever() if lenght else None", ["lenght"]),
    ],
)
def test_a_handler_s_typos_are_told_by_what_it_decides_about(tract, spec, operation, code, found):
    tract.register_operation(spec())
    (block,) = tract.hooks.propose_handler(operation, "mine", code).code_blocks()
    assert [finding.text for finding in block.findings if finding.code == "TJ801"] == found


def test_code_without_a_definition_is_not_judged(tract):
    assert tract.operations.advice.code_block("script", "nobody.knows(this)").findings == ()
