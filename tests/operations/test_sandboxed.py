"""Actions in the sandbox: their access, their results, and discarded changes."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from tract_jupyter.exceptions import (
    NoSandboxError,
    ParameterError,
    PendingStateError,
    SandboxError,
    SpecError,
)
from tract_jupyter.models import PendingStatus
from tract_jupyter.operations import ActionDef, compile_action
from tract_jupyter.sandbox import subset

FIELDS = {"n": {"type": "int", "default": 1}, "tags": {"type": "list[str]", "default": []},
          "any": {"type": "Any", "default": None}}  # fmt: skip


@pytest.fixture
def fired(tract, spec):
    """Fire an operation with the given code in its action `go`, in the sandbox."""

    def fire(code, params=None, *, execute_fn=None, isolation="sandbox", **fields):
        go = ActionDef("go", "", params or {}, code, isolation=isolation)
        tract.operations.activate(spec(fields=FIELDS, actions={"go": go}), replace=True)
        return tract.fire("citation_check", fields, execute_fn=execute_fn, review=True)

    return fire


def test_a_sandboxed_action_changes_fields_decides_and_returns_a_value(fired):
    pending = fired(
        "pending.fields['n'] += by\npending.approve()\nreturn [pending.fields['n']]", {"by": "int"}, n=2
    )
    assert pending.go(by=3) == [5]
    assert (pending.status, pending.fields["n"], pending.result) == ("approved", 5, [5])
    assert pending.executed_at is not None


def test_a_sandboxed_action_rejects_with_a_reason(fired):
    pending = fired(
        "if pending.fields['n'] > 3:\n    pending.reject(f\"{pending.fields['n']} is too many\")", n=4
    )
    assert pending.go() is None
    assert (pending.status, pending.rejection_reason) == ("rejected", "4 is too many")


def test_an_action_without_a_decision_leaves_the_pending_open_with_its_changes(fired):
    pending = fired("pending.fields = {**pending.fields, 'n': 7}")
    pending.go()
    assert (pending.status, pending.fields) == (PendingStatus.PENDING, {"n": 7, "tags": [], "any": None})
    pending.approve()
    with pytest.raises(PendingStateError):
        pending.go()


def test_a_sandboxed_action_writes_one_decision_through_the_gate(tract, fired):
    pending = fired("pending.approve()")
    pending.go()
    assert [(made.action, made.channel) for made in tract.review.decisions()] == [("go", "code")]


def test_execute_fn_sees_the_changed_fields_and_runs_once(fired):
    ran = []
    pending = fired(
        "pending.fields['n'] = 9\nassert pending.approve() is None",
        execute_fn=lambda p: ran.append(p.fields["n"]),
    )
    pending.go()
    assert ran == [9]
    failing = fired("pending.approve()\n1 / 0", execute_fn=lambda p: ran.append("never"))
    with pytest.raises(SandboxError):
        failing.go()
    assert ran == [9]


def test_sandboxed_code_gets_copies_of_the_fields(fired):
    tags = ["a"]
    pending = fired("pending.fields['tags'].append('b')\n1 / 0", tags=tags)
    inside = pending.fields
    with pytest.raises(SandboxError):
        pending.go()
    assert (tags, inside["tags"]) == (["a"], ["a"])


FAILING = {
    "raises": ("1 / 0", SandboxError, "ZeroDivisionError: division by zero"),
    "two decisions": ("pending.approve()\npending.reject()", SandboxError, "the first decision counts"),
    "wrong type": ("pending.fields['n'] = 'x'", ParameterError, "'n' should be a valid integer"),
    "unknown field": ("pending.fields['m'] = 1", ParameterError, "'m' is unknown"),
    "no dict": ("pending.fields = 3", SandboxError, "pending.fields must be a dict"),
    "key": ("pending.fields[3] = 3", SandboxError, "pending.fields must be a dict"),
    "set": ("pending.fields['any'] = {1}", SandboxError, r"pending.fields\['any'\]: .*no JSON form"),
    "not a number": ("pending.fields['any'] = float('nan')", SandboxError, "no JSON form"),
    "itself": ("pending.fields['any'] = pending", SandboxError, "no JSON form"),
    "returns itself": ("return pending", SandboxError, "the return value: .*no JSON form"),
    "reason": ("pending.reject(3)", SandboxError, r"reject\(reason\) needs a text"),
    "surplus": ("pending.approve(1)", SandboxError, "TypeError"),
    "tract": ("getattr(pending, 'tract')", SandboxError, r"no attribute 'tract'. In the sandbox, pending has fields"),
    "globals": ("eval('globals()')", SandboxError, "NameError: name 'globals'"),
    "tools": ("tools", SandboxError, "NameError: name 'tools'"),
    "open": ("eval('open')('x', 'w')", SandboxError, "It has no files, no network"),
    "import": ("exec('import socket')", SandboxError, "The available modules are asyncio"),
    "environment": ("exec('import os\\nos.environ')", SandboxError, "It has no files, no network"),
    "recursion": ("def f(): return f()\nf()", SandboxError, "RecursionError"),
    "memory": ("x = 'a' * 10**9", SandboxError, "MemoryError: memory limit exceeded"),
    "too large": ("return 'a' * 6_000_000", SandboxError, "the return value: 6,000,002 characters of JSON"),
    "long reason": ("pending.reject('a' * 6_000_000)", SandboxError, "the reason: 6,000,002 characters"),
    "tampering": ("setattr(pending, '_decided', ['expire'])", SandboxError, "decide with pending.approve"),
    "tampering more": ("setattr(pending, '_decided', 7)", SandboxError, "decide with pending.approve"),
}  # fmt: skip


@pytest.mark.parametrize(("code", "error", "message"), FAILING.values(), ids=FAILING)
def test_a_failed_action_leaves_no_changes(tract, fired, code, error, message):
    pending = fired(f"pending.fields['tags'] = ['changed']\n{code}")
    with pytest.raises(error, match=message):
        pending.go()
    assert (pending.status, pending.fields["tags"], pending.executed_at) == ("failed", [], None)
    assert pending.rejection_reason == ""
    pending.reject("after all")
    assert pending.status is PendingStatus.REJECTED


@pytest.mark.slow
def test_a_loop_without_end_is_stopped(fired, monkeypatch):
    monkeypatch.setattr(subset, "LIMITS", replace(subset.LIMITS, seconds=0.2))
    pending = fired("while True: pass")
    with pytest.raises(SandboxError, match="TimeoutError"):
        pending.go()
    assert pending.status is PendingStatus.FAILED


def test_sleep_in_the_sandbox_returns_at_once(fired):
    assert fired("import time\ntime.sleep(3600)\nreturn 'at once'").go() == "at once"


def test_the_traceback_has_the_actions_own_lines(fired):
    pending = fired("def share(n):\n    return 1 / n\n\ntext = '''\n'''\nshare(0)")
    with pytest.raises(SandboxError) as caught:
        pending.go()
    assert caught.value.traceback == (
        'Traceback (most recent call last):\n  File "<action:citation_check.go>", line 6, in go\n    share(0)\n'
        '  File "<action:citation_check.go>", line 2, in share\n    return 1 / n\n'
        "ZeroDivisionError: division by zero\n"
    )
    assert caught.value._render_traceback_()[-1].endswith("Nothing was changed or decided")


def test_a_long_traceback_is_cut_in_the_middle(fired):
    with pytest.raises(SandboxError) as caught:
        fired("def f(): return f()\nf()").go()
    assert len(caught.value.traceback.splitlines()) < 30
    assert "more" in caught.value.traceback


def test_printed_output_is_bounded_and_has_no_escape_sequences(fired, capsys):
    fired("print('\\x1b[2Jone')\nfor n in range(20_000): print(n)").go()
    shown = capsys.readouterr().out
    assert shown.startswith("\ufffd[2Jone\n0\n1\n")
    assert "characters left out" in shown
    assert len(shown) < subset.LIMITS.output_characters + 100


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("x =", "line 1: invalid syntax"),
        ("yield 1", "yield"),
        (
            "x = 1\npending.tract.compile()",
            "line 2: the sandbox has no 'pending.tract'; pending has only approve",
        ),
        ("import os", "line 1: the sandbox has no module 'os'; there are asyncio"),
        ("def f():\n  yield 1", "line 2: the sandbox has no 'yield'"),
        ("x = 1\n\x0cy = 2", "control characters"),
    ],
)
def test_invalid_sandbox_code_is_refused_at_definition(tract, spec, code, message):
    go = ActionDef("go", "", {}, code, isolation="sandbox")
    for register in (tract.register_operation, tract.propose_operation):
        with pytest.raises(SpecError, match=message):
            register(spec(actions={"go": go}))
    assert tract.events() == []


def test_sandboxed_code_is_not_compiled_in_this_process(tract, fired, monkeypatch):
    ran = []
    monkeypatch.setattr("builtins.ascii", ran.append)
    pending = fired("pending.approve()\nascii('x')")
    with pytest.raises(SandboxError, match="NameError"):
        pending.go()
    assert ran == []
    assert compile_action(
        ActionDef("go", "", {}, "return 1", isolation="sandbox")
    ).body.__code__.co_filename.endswith("sandboxed.py")


def test_an_action_in_the_kernel_can_use_the_tract(tract, fired):
    assert fired("return pending.tract.status().branch", isolation="kernel").go() == "main"


def test_without_the_sandbox_package_an_action_fails_and_decides_nothing(tract, fired, monkeypatch):
    monkeypatch.setitem(sys.modules, "pydantic_monty", None)
    pending = fired("pending.approve()")
    with pytest.raises(NoSandboxError, match="pip install"):
        pending.go()
    assert (pending.status, tract.review.decisions()) == (PendingStatus.PENDING, [])
    pending.approve()
    assert pending.status is PendingStatus.APPROVED


def test_the_request_shows_sandbox_access_and_findings(tract, fired):
    (block,) = fired("eval('1')\npending.approve()").code_blocks()
    assert block.analysis_note.startswith(
        "It runs in the sandbox, and can use only pending.fields, approve and reject."
    )
    assert block.findings
    (block,) = fired("pending.approve()", isolation="kernel").code_blocks()
    assert "sandbox" not in block.analysis_note
