"""IPython in a real terminal: without panels, each displayed request has a prompt."""

import sys

import pexpect
import pytest

pytestmark = pytest.mark.slow  # each test starts IPython

DEFINE = """%%tract_operation deploy --ask {options}
x: int = 1

def go(pending, n: int = 2):
    import os
    pending.fields['x'] = n

def stop(pending, why: str):
    pending.reject(why)
"""
CELL, LATER, VALUE = r"In \[\d+\]: ?$", r"later, in %tract inbox\) $", r": $"


class Terminal:
    def __init__(self, folder):
        self.child = pexpect.spawn(
            sys.executable,
            ["-m", "IPython", "--no-banner", "--simple-prompt", "--colors=NoColor"],
            cwd=str(folder),
            encoding="utf-8",
            timeout=30,
            echo=False,
        )
        self.run("%load_ext tract_jupyter")

    def run(self, cell):
        """Wait for the prompt of a cell, and type the cell."""
        self.until(CELL)
        self.child.sendline(cell + ("\n" if "\n" in cell else ""))

    def answer(self, prompt, text):
        """Wait for a prompt, type the answer, and return the text before the prompt."""
        before = self.until(prompt)
        self.child.sendline(text)
        return before

    def until(self, prompt):
        self.child.expect(prompt)
        return self.child.before.replace("\r", "")


@pytest.fixture
def terminal(tmp_path, monkeypatch):
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    made = Terminal(tmp_path)
    yield made
    made.child.close(force=True)


def test_a_displayed_request_has_a_prompt_and_can_be_decided_later_in_the_inbox(terminal):
    terminal.run(DEFINE.format(options=""))
    shown = terminal.answer(LATER, "")
    assert "TJ201" in shown
    assert "activate / reject?" in shown
    terminal.run("%tract inbox")
    terminal.answer(LATER, "rej")
    terminal.answer(VALUE, "not today")
    terminal.run("%tract log --events")
    assert "because: not today" in terminal.until(CELL)


def test_an_operation_is_activated_and_decided_by_typing(terminal):
    terminal.run(DEFINE.format(options="--wait"))
    terminal.answer(LATER, "activate")
    terminal.run("p = %tract_fire deploy x=3")
    terminal.answer(LATER, "go")
    terminal.answer(VALUE, "seven")
    assert "should be a valid integer" in terminal.answer(VALUE, "7")
    assert "x: int = 7" in terminal.answer(LATER, "stop")
    terminal.answer(VALUE, "too far")
    terminal.run("print(p.status, p.fields, p.rejection_reason)")
    assert "rejected {'x': 7} too far" in terminal.until(CELL)


def test_a_synchronous_call_waits_for_the_answer(terminal):
    terminal.run(DEFINE.format(options="--activate"))
    terminal.run("print(tools.fire_deploy(x=3)['status'])")
    terminal.answer(LATER, "")
    terminal.answer(r"go / stop / approve / reject / edit / session / always\? $", "app")
    assert "approved" in terminal.until(CELL)


def test_an_open_request_as_the_value_of_a_line_has_one_prompt(terminal):
    terminal.run(DEFINE.format(options="--activate"))
    terminal.run("p = tract.fire('deploy', {'x': 3}, review=True)")
    terminal.run("p")
    shown = terminal.answer(LATER, "")
    assert shown.count("x: int = 3") == 1
    assert shown.count("%tract decide") == 1
    terminal.run("tract.fire('deploy', {'x': 4})")
    shown = terminal.answer(LATER, "")
    assert shown.count("x: int = 4") == 1
    after = terminal.until(CELL)
    assert "x: int" not in after
    assert "pending>. %tract decide" in after
    terminal.child.sendline("p")
    terminal.answer(LATER, "stop")
    terminal.answer(VALUE, "too far")
    terminal.run("p")
    assert "rejected, 'too far'>" in terminal.until(CELL)
