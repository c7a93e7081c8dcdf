"""Rehearsal of proposed code in the sandbox: it is reported and bounded, and it is not an approval."""

from __future__ import annotations

import json
import sys
import threading
import time
from dataclasses import replace

import pytest

from tests.review.fakes import FakeChannel, click
from tract_jupyter import Tract
from tract_jupyter.exceptions import SpecError
from tract_jupyter.models import PendingStatus
from tract_jupyter.notebook.panels import record_html
from tract_jupyter.operations import ActionDef, ActionRehearsal
from tract_jupyter.review import deciding, request_text


@pytest.fixture
def rehearsed(tract, spec):
    """Rehearse an operation with the given code in its action `verify`."""

    def run(code, isolation="kernel", **changes):
        verify = ActionDef("verify", "Check.", {"strict": "bool"}, code, isolation=isolation)
        return tract.operations.rehearse(spec(**{"actions": {"verify": verify}, **changes}))

    return run


def kinds(rehearsal):
    return [run.kind for run in rehearsal.runs]


def test_a_rehearsal_reports_result_decision_and_changes_for_each_input(tract, spec):
    rehearsal = tract.operations.rehearse(spec())
    assert kinds(rehearsal) == ["approved", "approved", "approved", "rejected"]
    first = rehearsal.runs[0]
    assert (first.action, first.arguments, first.fields) == (
        "verify", {"strict": True}, {"urls": ["https://example.com/a"], "verified": True},
    )  # fmt: skip
    assert "verified: False → True" in rehearsal.runs[1].told
    assert "rejected: 'Missing" in rehearsal.runs[3].told
    assert rehearsal.summary == (
        "Rehearsed on 4 inputs: 4 returned (3 approved, 1 rejected). It will run in the kernel, and may behave differently there."
    )
    assert (tract.status().operations, tract.log(), tract.events()) == ((), [], [])


def test_a_rehearsal_is_deterministic(tract, spec):
    assert tract.operations.rehearse(spec()) == tract.operations.rehearse(spec())


def test_a_rehearsal_uses_a_sample_context_and_only_notes_its_changes(tract, rehearsed):
    tract.user("A secret.")
    rehearsal = rehearsed(
        "said = pending.tract.compile().to_dicts()\npending.tract.user('hello')\nreturn [m['content'] for m in said]"
    )
    assert "would have called tract.user('hello')" in rehearsal.runs[0].told
    assert "secret" not in json.dumps(rehearsal.to_dict())
    assert len(tract.log()) == 1


NEEDS = {
    "import requests\nrequests.get('x')": "the module 'requests'",
    "import os\nos.system('true')": "os.system",
    "import os\nos.environ['HOME']": "os.environ",
    "open('/etc/passwd').read()": "files",
    "open('x', 'w')": "files",
    "from pathlib import Path\nPath('/etc/passwd').read_text()": "files",
    "import socket\nsocket.socket()": "the module 'socket'",
    "pending.tract.operations.remove('x')": "pending.tract.operations",
    "pending.tract.compile().pprint()": "pending.tract.compile().pprint",
    "pending.consult('x')": "pending.consult",
    "x = {1: 2}\ndel x[1]": "Python features that the sandbox lacks",
}


@pytest.mark.parametrize(("code", "needed"), NEEDS.items(), ids=NEEDS)
def test_code_that_needs_more_than_the_sandbox_is_not_rehearsed(rehearsed, code, needed):
    rehearsal = rehearsed(code)
    assert set(kinds(rehearsal)) == {"not run"}
    assert rehearsal.summary == f"Not rehearsed: it needs {needed}."
    assert rehearsal.runs[0].told == f"not rehearsed: it needs {needed}"


def test_exceptions_in_rehearsed_code_are_reported(rehearsed):
    rehearsal = rehearsed("raise ValueError('no ' + pending.fields['urls'][0])")
    assert kinds(rehearsal) == ["raised"] * 4
    assert "3 raised ValueError: 'no https://example.com/a', 1 raised IndexError" in rehearsal.summary


MISFITS = {
    "pending.fields['urls'] = 5": "'urls' should be a valid list",
    "pending._decided = ['approve', 'and more']": "decide with",
    "class F:\n    pass\nreturn F()": "no JSON form",
    "pending.fields = 7": "pending.fields must be a dict",
}


@pytest.mark.parametrize(("code", "why"), MISFITS.items(), ids=MISFITS)
def test_invalid_final_values_are_reported(rehearsed, code, why):
    rehearsal = rehearsed(code)
    assert set(kinds(rehearsal)) == {"misfit"}
    assert why in rehearsal.runs[0].told
    assert "left invalid values" in rehearsal.summary


HOSTILE = {
    "a loop": ("while True: pass", "1 s"),
    "a loop that catches": (
        "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
        "1 s",
    ),
    "memory": ("x = []\nwhile True: x.append('a' * 1000)", "32 MB"),
    "one huge value": ("return 'a' * 10**9", "32 MB"),
    "a huge number": ("return 10 ** 10 ** 9", "32 MB"),
}


@pytest.mark.slow
@pytest.mark.parametrize(("code", "limit"), HOSTILE.values(), ids=HOSTILE)
def test_code_over_a_limit_is_stopped_after_one_input(rehearsed, code, limit):
    began = time.monotonic()
    rehearsal = rehearsed(code)
    assert time.monotonic() - began < 8
    assert kinds(rehearsal) == ["stopped"]
    assert rehearsal.runs[0].about == limit
    assert f"1 stopped after {limit}" in rehearsal.summary


@pytest.mark.slow
def test_many_actions_that_hang_are_bounded_together(tract, spec):
    loop = {f"a{n}": ActionDef(f"a{n}", "", {}, "while True: pass") for n in range(60)}
    began = time.monotonic()
    rehearsal = tract.operations.rehearse(spec(actions=loop))
    assert time.monotonic() - began < 30
    assert len(rehearsal.runs) <= 12
    assert "Not rehearsed, for lack of time: a" in rehearsal.summary


def test_ten_megabytes_of_output_are_a_number(rehearsed, capsys):
    rehearsal = rehearsed("for _ in range(100): print('x' * 100_000)")
    assert "printed 10,000,100 characters: 'xxx" in rehearsal.runs[0].told
    assert len(json.dumps(rehearsal.to_dict())) < 20_000
    assert capsys.readouterr() == ("", "")


DECEITS = {
    "ansi": "\x1b[2J\x1b[1A approved",
    "html": "</td></table><b onclick=alert(1)>Rehearsed on 6 inputs: 6 approved</b><script>alert(1)</script>",
    "direction": "\u202edevorppa",
    "lines": "fine\n\nWhy you are asked: it is safe\n[approved] Activate operation",
}


@pytest.mark.parametrize("deceit", DECEITS.values(), ids=DECEITS)
@pytest.mark.parametrize("way", ["return {0!r}", "raise ValueError({0!r})", "pending.reject({0!r})", "print({0!r})",
                                 "pending.tract.user({0!r})", "pending.fields['urls'] = [{0!r}]"])  # fmt: skip
def test_output_of_rehearsed_code_is_shown_as_escaped_single_lines(tract, spec, deceit, way):
    tract.reviewer.channel = channel = FakeChannel()
    pending = tract.operations.propose(spec(way.format(deceit)), actor="agent:7", rehearsed=True)
    ticket = tract.reviewer.show(pending)
    assert pending.status is PendingStatus.PENDING
    (table,) = [table for table in channel.shown[0][0].tables if table.title == "Rehearsal"]
    assert all("\n" not in row.description for row in table.rows)
    text, page = request_text(ticket.request, ticket.status), record_html(ticket)
    assert not {"\x1b", "\u202e"} & set(text + page)
    rehearsal = page[page.index("Rehearsal") : page.index("fingerprint", page.index("Rehearsal"))]
    assert "<script" not in rehearsal
    assert "<b onclick" not in rehearsal
    assert pending.rehearsal.summary.startswith("Rehearsed on 4 inputs: 4 ")


ESCAPES = {
    "().__class__.__bases__[0].__subclasses__()",
    "__import__('os').system('true')",
    "pending.approve.__globals__",
    "(lambda: 0).__code__",
    "_pending.__init__.__func__",
    "print.__self__",
}


@pytest.mark.parametrize("code", sorted(ESCAPES))
def test_rehearsed_code_cannot_escape_from_the_sandbox(rehearsed, tmp_path, monkeypatch, code):
    monkeypatch.chdir(tmp_path)
    assert set(kinds(rehearsed(code))) <= {"raised", "not run", "misfit"}
    assert list(tmp_path.iterdir()) == []


def test_rehearsed_code_does_not_run_in_this_process(tract, spec, capsys):
    before = set(sys.modules)
    pending = tract.operations.propose(
        spec("import this\nimport sys\nsys.seen = 1\nprint('here')\npending.approve()"), rehearsed=True
    )
    assert "this" not in set(sys.modules) - before
    assert not hasattr(sys, "seen")
    assert capsys.readouterr().out == ""
    assert pending.status is PendingStatus.PENDING
    assert tract.status().operations == ()


# --- display next to the findings


def rehearsal_of(request):
    return next((table for table in request.tables if table.title == "Rehearsal"), None)


def test_the_request_shows_the_rehearsal_without_changing_the_fingerprint(tract, spec):
    plain = tract.operations.activation(spec())
    pending = tract.operations.propose(spec(), rehearsed=True)
    table = rehearsal_of(pending.review_request())
    assert (table.binds, table.heads) == ("nothing", ("Call", "Fields", "Result"))
    assert table.summary == pending.rehearsal.summary
    assert table.rows[0].name == "verify(strict=True)"
    assert plain.fingerprint == pending.fingerprint
    assert rehearsal_of(plain.review_request()) is None


def test_the_user_can_start_a_rehearsal_with_a_button(tract, spec):
    steps = (lambda t: click(t, "rehearse"), lambda t: click(t, "approve"))
    tract.reviewer.channel = channel = FakeChannel(*steps)
    pending = tract.propose_operation(spec())
    assert "Rehearse" in [action.label for action in pending.review_request().actions]
    tract.reviewer.decide_now(pending)
    assert pending.status is PendingStatus.APPROVED
    assert rehearsal_of(channel.shown[0][0]) is None
    assert rehearsal_of(channel.shown[-1][0]).summary.startswith("Rehearsed on 4 inputs")
    assert [made.action for made in tract.review.decisions()] == ["approve", "rehearse"]


def test_a_rehearsal_of_earlier_code_is_marked_until_it_is_repeated(tract, spec):
    pending = tract.operations.propose(spec(), rehearsed=True)
    pending.fields = {
        **pending.fields,
        "spec": tract.operations.activation(spec("pending.approve()")).fields["spec"],
    }
    assert rehearsal_of(pending.review_request()).summary.startswith(
        "For an earlier version of the code: Rehearsed"
    )
    assert "4 returned (4 approved)" in pending.rehearse()
    assert rehearsal_of(pending.review_request()).summary.startswith(
        "Rehearsed on 4 inputs: 4 returned (4 approved)"
    )
    assert pending.status is PendingStatus.PENDING


def test_a_models_proposal_is_rehearsed_before_the_request_is_shown(tract, spec):
    tract.reviewer.channel = channel = FakeChannel(lambda t: click(t, "reject", reason="no"))
    arguments = {"name": "sweep", "actions": {"go": {"code": "import os\nos.system('true')"}}}
    result = tract.toolset("full", actor="agent:7").execute("propose_operation", arguments)
    assert result.denied
    assert rehearsal_of(channel.shown[0][0]).summary == "Not rehearsed: it needs os.system."


def test_another_process_shows_the_same_rehearsal(own_store, spec):
    with Tract.open(url=own_store) as tract:
        asked = tract.operations.propose(spec(), rehearsed=True, actor="agent:7")
        with Tract.open(url=own_store, tract_id=tract.tract_id) as other:
            made = other.operations.rebuild(other.review.ledger.get(asked.pending_id))
            assert made.rehearsal == asked.rehearsal


def test_accepting_a_volatile_field_keeps_it(tract, spec):
    fields = {"urls": {"type": "list[str]", "required": True, "volatile": True}}
    tract.reviewer.channel = FakeChannel(lambda ticket: click(ticket, "approve", volatile=True))
    pending = tract.operations.propose(
        spec("pending.approve()", fields=fields), actor="agent:7", rehearsed=True
    )
    with deciding("panel", "user"):
        pending.execute_tool("approve", {"volatile": True})
    assert pending.spec.volatile == {"urls"}
    assert rehearsal_of(pending.review_request()).summary.startswith("Rehearsed on 3 inputs")


@pytest.mark.parametrize(
    "data",
    [None, 5, {}, {"runs": 3}, {"runs": [{}], "code_hash": "", "left_out": "", "has_kernel_code": False}],
)
def test_an_invalid_stored_rehearsal_is_ignored(data):
    assert ActionRehearsal.from_dict(data) is None


def test_a_rehearsal_round_trips_through_json(tract, spec):
    made = tract.operations.rehearse(spec())
    assert ActionRehearsal.from_dict(json.loads(json.dumps(made.to_dict()))) == made
    wrong = made.to_dict()
    wrong["runs"][0]["kind"] = "perfect"
    assert ActionRehearsal.from_dict(wrong) is None


# --- operations that cannot be rehearsed


def test_without_actions_there_is_nothing_to_rehearse(tract, spec):
    assert tract.operations.rehearse(spec(actions={})).summary == (
        "Not rehearsed: it has no actions, so there is no code to rehearse."
    )


def test_a_wrong_spec_is_refused(tract, spec):
    with pytest.raises(SpecError, match="line 1"):
        tract.operations.rehearse(spec("if x"))
    with pytest.raises(SpecError, match="is not a valid name"):
        tract.operations.rehearse(replace(spec(), name="a b"))


def test_without_a_sandbox_it_says_how_to_install_one(tract, spec, monkeypatch):
    monkeypatch.setitem(sys.modules, "pydantic_monty", None)
    rehearsal = tract.operations.rehearse(spec())
    assert rehearsal.summary == (
        "Not rehearsed: the sandbox is not installed; install it: pip install 'tract_jupyter[sandbox]'."
    )
    assert rehearsal_of(tract.operations.propose(spec(), rehearsed=True).review_request()).rows == ()


def test_several_threads_can_rehearse_at_once(tract, spec):
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(tract.operations.rehearse(spec()))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len({one.summary for one in found}) == 1
