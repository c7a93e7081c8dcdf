"""Rehearsal of kernel code in a contained copy of this process: real context and files, no effects."""

from __future__ import annotations

import json

import pytest

from tests.rehearsal.conftest import rehearser, workspace  # noqa: F401 # fixtures
from tract_jupyter.exceptions import RehearsalError
from tract_jupyter.operations import ActionDef, ActionRehearsal
from tract_jupyter.scripts import Rehearsing

pytestmark = pytest.mark.slow


@pytest.fixture
def copies(tract, rehearser):  # noqa: F811 # the fixture
    """Switch on rehearsals in copies."""
    tract.scripts.rehearsing = Rehearsing(tract.executor, lambda: rehearser("full"))
    tract.scripts.rehearsing.is_on = True
    return tract.scripts.rehearsing


@pytest.fixture
def rehearsed(tract, spec, copies):
    def run(code, isolation="kernel", **fields):
        verify = ActionDef("verify", "Check.", {}, code, isolation=isolation)
        fields = fields or {"text": {"type": "str", "default": "a"}}
        return tract.operations.rehearse(spec(actions={"verify": verify}, fields=fields))

    return run


def test_a_contained_copy_has_packages_files_and_the_real_context(tract, rehearsed, workspace):  # noqa: F811 # the fixture
    (workspace / "a.txt").write_text("from a file")
    head = tract.user("What is new?").commit_hash
    rehearsal = rehearsed(
        "import decimal\nfrom pathlib import Path\nfrom tract_jupyter.models import Message\n"
        "(message,) = pending.tract.compile().messages\nassert isinstance(message, Message)\n"
        "assert pending.tract.head == pending.tract.log()[0].commit_hash\n"
        "pending.tract.user('hello')\npending.fields['text'] = 'changed'\nprint('seen')\n"
        "return [Path('a.txt').read_text(), message.content, pending.tract.head]"
    )
    run = rehearsal.runs[0]
    assert run.kind == "returned"
    assert "'from a file'" in run.told
    assert "'What is new?'" in run.told
    assert head[:12] in run.told
    assert "would have called tract.user('hello')" in run.told
    assert "→ 'changed'" in run.told
    assert "printed 5 characters: 'seen" in run.told
    assert rehearsal.summary.endswith(
        "It ran in a contained copy of the kernel, and may behave differently later."
    )
    assert len(tract.log()) == 1


def test_effects_of_a_contained_rehearsal_are_reported_and_not_kept(rehearsed, workspace):  # noqa: F811 # the fixture
    (workspace / "a.txt").write_text("old")
    rehearsal = rehearsed(
        "import os, subprocess\nopen('a.txt', 'w').write('new')\nopen('b.txt', 'w').write('new')\n"
        "try:\n    subprocess.run(['true'])\nexcept OSError:\n    pass\npending.approve()"
    )
    run = rehearsal.runs[0]
    assert run.kind == "approved"
    assert "would change a.txt; would create b.txt; tried to start a process: true" in run.told
    assert [(path.name, path.read_text()) for path in workspace.iterdir()] == [("a.txt", "old")]


@pytest.mark.parametrize(
    ("code", "kind", "told"),
    [
        ("raise KeyError(open('a.txt').read())", "raised", "raised KeyError: "),
        ("pending.tract.operations.remove('x')", "not run", "it needs pending.tract.operations"),
        ("pending._decided = ['approve', 1]", "misfit", "decide with"),
        ("pending.fields['text'] = 5", "misfit", "'text'"),
        ("import os\nos._exit(3)", "stopped", "exit code 3"),
        ("import os\nos.kill(os.getppid(), 9)", "raised", "raised PermissionError"),
    ],
)
def test_each_kind_of_ending_is_reported(rehearsed, workspace, code, kind, told):  # noqa: F811 # the fixture
    (workspace / "a.txt").write_text("private")
    rehearsal = rehearsed(code)
    assert rehearsal.runs[0].kind == kind
    assert told in rehearsal.runs[0].told
    assert ActionRehearsal.from_dict(json.loads(json.dumps(rehearsal.to_dict()))) == rehearsal
    assert "private" not in rehearsal.summary_for_model


def test_sandboxed_actions_are_rehearsed_in_the_sandbox(rehearsed):
    assert rehearsed("pending.approve()", "sandbox").is_contained is False


def test_kernel_code_is_rehearsed_in_the_sandbox_if_copies_are_off(rehearsed, copies):
    copies.is_on = False
    rehearsal = rehearsed("return len(pending.tract.compile().messages)")
    assert (rehearsal.runs[0].told, rehearsal.is_contained) == ("decided nothing; returned 2", False)


def test_there_is_no_rehearsal_if_the_copy_cannot_be_contained(rehearsed, copies, monkeypatch):
    def fail(*_, **__):
        raise RehearsalError("The code cannot be contained.")

    monkeypatch.setattr("tract_jupyter.rehearsal.Rehearser.rehearse", fail)
    rehearsal = rehearsed("pending.approve()")
    assert rehearsal.summary == "Not rehearsed: it needs a copy of the kernel."
