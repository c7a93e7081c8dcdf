"""Any sequence of operations against a simple model, and against a second look at the same file."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.context.model import COUNTER, Model, Node
from tract_jupyter import Tract
from tract_jupyter.exceptions import (
    BranchError,
    BranchExistsError,
    BudgetExceededError,
    DetachedHeadError,
    HistoryError,
    UnmergedBranchError,
)
from tract_jupyter.models import TokenBudget

PICK = st.integers(0, 10**6)
TEXT = st.text("ab \n<|0", max_size=4)
PRIORITY = st.sampled_from(["skip", "normal", "important", "pinned"])
CHANGE = st.tuples(st.sampled_from(["say", "edit", "annotate"]), TEXT, PICK, PRIORITY)


def schema(name):
    return {"type": "function", "function": {"name": name, "parameters": {}}}


def everything(tract):
    """All that can be read of a tract."""
    tips = {info.name: info.commit_hash for info in tract.list_branches()}
    return (
        tract.status(), tract.log(None), tract.list_branches(), tract.tags.list(), tract.reflog(),
        {name: tract.compile(at_commit=tip) for name, tip in tips.items() if tip},
        tract.history.pinned(), tract.history.skipped(), tract.compile(include_reasoning=True),
    )  # fmt: skip


class Store(RuleBasedStateMachine):
    """`model` says what the tract must be."""

    @initialize()
    def start(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "store.db"
        self.tract = self.opened()
        self.model = Model()
        self.offered = None
        self.made = 0

    def opened(self):
        return Tract.open(self.path, tokenizer=COUNTER)

    def teardown(self):
        if not hasattr(self, "tract"):
            return
        try:
            assert self.tract.verify() == []
            self.look_again()
        finally:
            self.tract.close()
            self.folder.cleanup()

    @property
    def tools(self):
        return None if self.offered is None else [schema(name) for name in self.offered]

    def is_on_branch(self):
        return self.model.current is not None

    def can_change(self):
        return self.is_on_branch() and bool(self.model.says(self.model.head))

    def is_somewhere(self):
        return self.model.head is not None

    def change(self, model, change):
        """Commit, and tell the model; an edit or annotation where there is nothing to change says something."""
        kind, text, which, priority = change
        said = model.says(model.head)
        if kind == "say" or not said:
            node = Node(None, "append", text, None, priority if which % 3 == 0 else None, self.offered)
            info = self.tract.user(text, priority=node.priority, tools=self.tools)
        elif kind == "edit":
            target = said[which % len(said)]
            node = Node(None, "edit", text, target, priority if which % 2 == 0 else None, self.offered)
            info = self.tract.assistant(
                text, edit=target[: 40 + which % 20], priority=node.priority, tools=self.tools
            )
        else:
            target = said[which % len(said)]
            node = Node(None, "annotate", "", target, priority)
            info = self.tract.annotate(target, priority)
        model.commit(info.commit_hash, node)
        assert info.context_tokens == model.tokens(info.commit_hash)

    @precondition(is_on_branch)
    @rule(change=CHANGE)
    def commit(self, change):
        self.change(self.model, change)

    @precondition(can_change)
    @rule(change=CHANGE)
    def change_something(self, change):
        self.change(self.model, change)

    @precondition(is_on_branch)
    @rule(
        changes=st.lists(CHANGE, max_size=5),
        fails=st.booleans(),
        looks=st.booleans(),
        is_nested=st.booleans(),
    )
    def batch(self, changes, fails, looks, is_nested):
        model = self.model.copy()
        try:
            with self.tract.batch():
                for change in changes:
                    if is_nested:
                        with self.tract.batch():
                            self.change(model, change)
                    else:
                        self.change(model, change)
                    if looks:
                        self.compare(model.head, model)
                if fails:
                    raise ZeroDivisionError
            self.model = model
        except ZeroDivisionError:
            assert fails

    @precondition(lambda self: self.model.current is None)
    @rule()
    def nothing_is_written_without_a_branch(self):
        for use in (
            lambda: self.tract.user("x"),
            self.tract.undo,
            self.tract.redo,
            lambda: self.tract.reset("HEAD"),
        ):
            with pytest.raises(DetachedHeadError):
                use()

    @precondition(is_on_branch)
    @rule(text=TEXT, spare=st.integers(-3, 3))
    def budget(self, text, spare):
        shown = self.model.messages(self.model.head)
        after = self.model.tokens(self.model.head) + COUNTER.count_text(text) + 4 + (0 if shown else 3)
        self.tract.budget = TokenBudget(max(after + spare, 1), "reject")
        if spare < 0:
            with pytest.raises(BudgetExceededError):
                self.tract.user(text)
        else:
            info = self.tract.user(text, tools=self.tools)
            self.model.commit(info.commit_hash, Node(None, "append", text, tools=self.offered))
        self.tract.budget = None

    @rule(names=st.none() | st.lists(st.sampled_from("fgh"), max_size=2, unique=True).map(tuple))
    def choose_tools(self, names):
        self.offered = names

    @precondition(is_somewhere)
    @rule(which=PICK, tag=st.sampled_from(["x", "y"]), removes=st.booleans())
    def tag(self, which, tag, removes):
        chain = self.model.chain(self.model.head)
        name = chain[which % len(chain)]
        tags = self.model.tags.setdefault(name, set())
        if removes:
            assert self.tract.tags.remove(name, tag) == (tag in tags)
            tags.discard(tag)
        else:
            self.tract.tags.add(name, tag)
            tags.add(tag)
        assert self.tract.tags.of(name) == tuple(sorted(tags))

    @rule(which=PICK, switch=st.booleans())
    def branch(self, which, switch):
        name = f"b{self.made}"
        self.made += 1
        chain = self.model.chain(self.model.head)
        source = chain[which % len(chain)] if chain and which % 4 else None
        start = source or self.model.head
        assert self.tract.branch(name, source=source, switch=switch) == start
        self.model.branch(name, start)
        if switch:
            self.model.current, self.model.detached = name, None
        with pytest.raises(BranchExistsError):
            self.tract.branch(name)

    def picked(self, which):
        return sorted(self.model.branches)[which % len(self.model.branches)]

    @precondition(lambda self: self.model.branches)
    @rule(which=PICK, is_checkout=st.booleans())
    def switch(self, which, is_checkout):
        name = self.picked(which)
        use = self.tract.checkout if is_checkout else self.tract.switch
        assert use(name) == self.model.branches[name].tip
        self.model.current, self.model.detached = name, None

    @precondition(is_somewhere)
    @rule(which=PICK)
    def detach(self, which):
        chain = self.model.chain(self.model.head)
        self.model.detached = chain[which % len(chain)]
        self.model.current = None
        assert self.tract.checkout(self.model.detached) == self.model.detached

    @precondition(lambda self: self.model.current is not None and self.model.nodes)
    @rule(which=PICK)
    def reset(self, which):
        target = list(self.model.nodes)[which % len(self.model.nodes)]
        assert self.tract.reset(target) == target
        before = self.model.head
        self.model.here.go(target)
        if before:
            assert self.tract.resolve_commit("ORIG_HEAD") == before

    @precondition(is_on_branch)
    @rule(redoes=st.booleans())
    def undo_or_redo(self, redoes):
        there = self.model.here.future if redoes else self.model.here.past
        use = self.tract.redo if redoes else self.tract.undo
        if not there:
            with pytest.raises(HistoryError, match="nothing to"):
                use()
            return
        foreseen = self.tract.preview_undo(redo=redoes)
        assert (foreseen.old, foreseen.new) == (self.model.head, there[-1])
        assert use() == foreseen
        (self.model.here.redo if redoes else self.model.here.undo)()

    @precondition(lambda self: self.model.current is not None and self.model.here.past)
    @rule()
    def undo_and_redo_change_nothing(self):
        before = self.tract.status(), self.tract.log(None), self.tract.compile()
        self.tract.undo()
        self.tract.redo()
        assert (self.tract.status(), self.tract.log(None), self.tract.compile()) == before

    @precondition(lambda self: self.model.branches)
    @rule(which=PICK, force=st.booleans())
    def delete_branch(self, which, force):
        name = self.picked(which)
        if name == self.model.current:
            with pytest.raises(BranchError, match="current branch"):
                self.tract.delete_branch(name, force=force)
        elif force or self.model.held(name):
            self.tract.delete_branch(name, force=force)
            del self.model.branches[name]
        else:
            with pytest.raises(UnmergedBranchError):
                self.tract.delete_branch(name)

    @rule()
    def reopen(self):
        before = everything(self.tract)
        self.tract.close()
        self.tract = self.opened()
        self.offered = None
        assert everything(self.tract) == before

    @rule()
    def look_again(self):
        with self.opened() as other:
            assert everything(other) == everything(self.tract)

    @precondition(lambda self: self.model.current is not None)
    @rule(text=TEXT)
    def another_process_commits(self, text):
        with self.opened() as other:
            info = other.user(text)
        self.model.commit(info.commit_hash, Node(None, "append", text))

    def compare(self, tip, model):
        context = self.tract.compile(at_commit=tip) if tip else self.tract.compile()
        shown = [(m.commit_hash, m.content, m.priority) for m in context.messages]
        assert shown == model.messages(tip)
        assert context.token_count == model.tokens(tip)
        assert context.head == tip
        assert tuple(tool["function"]["name"] for tool in context.tools) == model.tools(tip)

    @invariant()
    def all_is_as_the_model_says(self):
        if not hasattr(self, "tract"):
            return
        model, status = self.model, self.tract.status()
        assert (self.tract.current_branch, self.tract.head) == (model.current, model.head)
        assert {info.name: info.commit_hash for info in self.tract.list_branches()} == {
            name: branch.tip for name, branch in model.branches.items()
        }
        self.compare(model.head, model)
        for branch in model.branches.values():
            if branch.tip:
                self.compare(branch.tip, model)
        chain = model.chain(model.head)
        assert [info.commit_hash for info in self.tract.log(None)] == chain[::-1]
        assert (status.commit_count, status.token_count) == (len(chain), model.tokens(model.head))
        assert status.message_count == len(model.messages(model.head))


Store.TestCase.settings = settings(max_examples=20, stateful_step_count=20)
TestStore = Store.TestCase
