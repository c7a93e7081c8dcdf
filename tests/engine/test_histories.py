"""Any sequence of operations against a simple model: branches are lists, an edit replaces, a skip hides."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tract_jupyter import Tract
from tract_jupyter.engine.tokens import ApproximateCounter

PICK = st.integers(0, 10**6)


class Histories(RuleBasedStateMachine):
    """`branches[name]` lists what was done on a branch: ("say", hash, text) or ("edit", hash, text, target)."""

    @initialize()
    def start(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "store.db"
        self.tract = Tract.open(self.path, tokenizer=ApproximateCounter())
        self.branches = {"main": []}
        self.skipped = set()
        self.current = "main"

    def teardown(self):
        if hasattr(self, "tract"):
            self.tract.close()
            self.folder.cleanup()

    @property
    def said(self):
        return [step[1] for step in self.branches[self.current] if step[0] == "say"]

    def expected(self, branch):
        steps = self.branches[branch]
        newest = {step[3]: step[2] for step in steps if step[0] == "edit"}
        says = (step for step in steps if step[0] == "say")
        return [newest.get(step[1], step[2]) for step in says if step[1] not in self.skipped]

    @rule(text=st.text("ab \n", max_size=3))
    def say(self, text):
        info = self.tract.user(text)
        self.branches[self.current].append(("say", info.commit_hash, text))

    @precondition(lambda self: self.said)
    @rule(text=st.text("AB", max_size=3), which=PICK)
    def edit(self, text, which):
        target = self.said[which % len(self.said)]
        info = self.tract.user(text, operation="edit", edit_target=target)
        self.branches[self.current].append(("edit", info.commit_hash, text, target))

    @precondition(lambda self: self.said)
    @rule(which=PICK, skip=st.booleans())
    def annotate(self, which, skip):
        target = self.said[which % len(self.said)]
        self.tract.annotate(target, "skip" if skip else "normal")
        (self.skipped.add if skip else self.skipped.discard)(target)

    @rule(which=PICK, switch=st.booleans())
    def branch(self, which, switch):
        name = f"b{len(self.branches)}"
        steps = self.branches[self.current]
        if steps:
            length = which % len(steps) + 1
            self.tract.branch(name, source=steps[length - 1][1], switch=switch)
            self.branches[name] = steps[:length]
        else:
            self.tract.branch(name, switch=switch)
            self.branches[name] = []
        if switch:
            self.current = name

    @rule(which=PICK)
    def switch(self, which):
        self.current = sorted(self.branches)[which % len(self.branches)]
        steps = self.branches[self.current]
        assert self.tract.switch(self.current) == (steps[-1][1] if steps else None)

    @rule()
    def reopen(self):
        before = (self.tract.status(), self.tract.log(None), self.tract.compile(), self.tract.list_branches())
        self.tract.close()
        self.tract = Tract.open(self.path, tokenizer=ApproximateCounter())
        after = (self.tract.status(), self.tract.log(None), self.tract.compile(), self.tract.list_branches())
        assert after == before

    @invariant()
    def every_branch_is_as_expected(self):
        if not hasattr(self, "tract"):
            return
        assert self.tract.current_branch == self.current
        assert [m.content for m in self.tract.compile().messages] == self.expected(self.current)
        assert [info.commit_hash for info in self.tract.log(None)][::-1] == [
            step[1] for step in self.branches[self.current]
        ]
        for info in self.tract.list_branches():
            steps = self.branches[info.name]
            assert info.commit_hash == (steps[-1][1] if steps else None)
            if steps:
                messages = self.tract.compile(at_commit=info.name).messages
                assert [m.content for m in messages] == self.expected(info.name)


Histories.TestCase.settings = settings(max_examples=25, stateful_step_count=20)
TestHistories = Histories.TestCase
