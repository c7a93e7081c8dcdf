"""Laws of merge, rebase and import, after any history of branches that were joined in any way before."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.context.joining import check_whole, snapshot
from tract_jupyter import Tract
from tract_jupyter.context import ApproximateCounter
from tract_jupyter.exceptions import HistoryError, NothingToMergeError
from tract_jupyter.models import ConflictKind, Resolution

PICK = st.integers(0, 10**6)
BRANCHES = ["main", "one", "two"]
CHOICES = {
    "ours": lambda c: "ours",
    "theirs": lambda c: "theirs",
    "skip": lambda c: "skip",
    "text": lambda c: Resolution.text(f"of both: {c.base_text}"),
}


def messages(tract, at=None):
    return {message.commit_hash: message for message in tract.compile(at_commit=at).messages}


def bare(message):
    """What rebasing keeps of a message."""
    return message.content, message.role, message.priority, message.tool_calls


class Joining(RuleBasedStateMachine):
    """Three branches with a common beginning."""

    @initialize()
    def start(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "store.db"
        self.tract = Tract.open(self.path, tokenizer=ApproximateCounter())
        self.count = 0
        for _ in range(2):
            self.say(skip=False)
        for name in BRANCHES[1:]:
            self.tract.branch(name, switch=False)

    def teardown(self):
        if hasattr(self, "tract"):
            self.tract.close()
            self.folder.cleanup()

    @property
    def appended(self):
        return [info.commit_hash for info in self.tract.log(None) if info.operation == "append"]

    @rule(skip=st.booleans())
    def say(self, skip):
        self.count += 1
        self.tract.user(f"message {self.count}", priority="skip" if skip else None)

    @rule(which=PICK, priority=st.sampled_from([None, None, "pinned"]))
    def edit(self, which, priority):
        self.count += 1
        target = self.appended[which % len(self.appended)]
        self.tract.user(f"edit {self.count % 3}", edit=target, priority=priority)

    @rule(which=PICK, priority=st.sampled_from(["skip", "normal", "pinned"]))
    def annotate(self, which, priority):
        self.tract.annotate(self.appended[which % len(self.appended)], priority)

    @rule(branch=st.sampled_from(BRANCHES))
    def switch(self, branch):
        self.tract.switch(branch)

    @precondition(lambda self: self.tract.reflog(1))
    @rule()
    def undo(self):
        self.tract.undo()

    @rule(source=st.sampled_from(BRANCHES), choice=st.sampled_from(sorted(CHOICES)), no_ff=st.booleans())
    def merge(self, source, choice, no_ff):
        before = snapshot(self.tract)
        ours, theirs = messages(self.tract), messages(self.tract, source)
        try:
            preview = self.tract.preview_merge(source, no_ff=no_ff)
        except NothingToMergeError:
            return
        result = self.tract.merge(source, resolver=CHOICES[choice], no_ff=no_ff)
        assert (result.conflicts, result.merge_type) == (preview.conflicts, preview.merge_type)
        merged = messages(self.tract)
        self.check_order(merged, ours, [name for name in theirs if name in result.incoming])
        self.check_untouched(merged, ours, theirs, result)
        self.check_decided(merged, result, choice)
        self.check_undo(before)

    def check_order(self, merged, ours, brought):
        if set(ours) & set(brought):
            return  # nothing is ours and brought
        if self.tract.log(1)[0].operation == "append":
            return  # the branch just moved: the order is the other's
        kept = [name for name in merged if name in ours]
        assert kept == [name for name in ours if name in merged]
        assert [name for name in merged if name in brought] == [name for name in brought if name in merged]

    def check_untouched(self, merged, ours, theirs, result):
        """What only one side has, or what both see alike, is there as it was."""
        decided = {conflict.target for conflict in result.conflicts}
        for name, message in {**ours, **theirs}.items():
            only_one = name in result.incoming or name not in self.history(result.source_branch)
            if name not in decided and (only_one or ours.get(name) == theirs.get(name)):
                assert merged[name] == message

    def history(self, branch):
        with self.tract._repository.database.read() as connection:
            return self.tract._repository.rows.ancestors(connection, self.tract.resolve_commit(branch))

    def chain(self, branch, length=None):
        with self.tract._repository.database.read() as connection:
            return self.tract._repository.rows.chain(connection, self.tract.resolve_commit(branch), length)

    def check_decided(self, merged, result, choice):
        for conflict in result.conflicts:
            message = merged.get(conflict.target)
            assert result.resolutions[conflict.key]
            if choice == "skip":
                assert message is None
            elif choice == "text":
                assert message is None or message.content == f"of both: {conflict.base_text}"
                # of both edits, it may be left out by other means
                assert message is not None or conflict.kind is ConflictKind.BOTH_EDIT
            else:
                text = conflict.ours_text if choice == "ours" else conflict.theirs_text
                if conflict.kind is ConflictKind.SKIP_VS_EDIT:
                    assert (message.content if message else None) == text
                elif message is not None and text is not None:
                    assert message.content == text

    @rule(onto=st.sampled_from(BRANCHES), choice=st.sampled_from(sorted(CHOICES)))
    def rebase(self, onto, choice):
        before, ours = snapshot(self.tract), messages(self.tract)
        own = set(ours) - self.history(onto)
        try:
            result = self.tract.rebase(onto, resolver=CHOICES[choice])
        except HistoryError as error:
            assert "contains merges" in str(error)
            assert snapshot(self.tract) == before
            return
        if result.rebase_type != "rebased":
            return
        rebased = messages(self.tract)
        for name in own:
            assert bare(rebased[result.copies[name]]) == bare(ours[name])
        copies = [result.copies[name] for name in ours if name in own]
        assert [name for name in rebased if name in set(copies)] == copies
        self.check_undo(before)

    @rule(
        source=st.sampled_from(BRANCHES), length=st.integers(1, 4), choice=st.sampled_from(["skip", "append"])
    )
    def take_over(self, source, length, choice):
        before, ours, there = snapshot(self.tract), messages(self.tract), messages(self.tract, source)
        here = self.history("HEAD")
        infos = [
            i for i in self.chain(source, length) if i.commit_hash not in here and i.operation != "merge"
        ]
        names = [info.commit_hash for info in reversed(infos)]
        if not names:
            return

        def resolve(issue):
            return "skip" if issue.operation == "annotate" else choice

        result = self.tract.import_commits(names, resolver=resolve)
        assert sorted([*result.copies, *result.skipped]) == sorted(names)
        taken = messages(self.tract)
        targets = {info.edit_target for info in infos}
        for name, message in ours.items():
            assert name in targets or taken[name] == message
        for name in set(names) & set(there) - targets:
            own = {i.edit_target for i in self.chain(source)}
            assert name in own or bare(taken[result.copies[name]]) == bare(there[name])
        if result.copies:
            self.check_undo(before)

    def check_undo(self, before):
        """No other branch changed, undo gives back what was, nothing is damaged."""
        current = self.tract.current_branch
        after = snapshot(self.tract)
        assert {n: s for n, s in after.items() if n != current} == {
            n: s for n, s in before.items() if n != current
        }
        check_whole(self.tract, self.path)
        self.tract.undo()
        assert snapshot(self.tract) == before
        self.tract.redo()
        assert snapshot(self.tract) == after


Joining.TestCase.settings = settings(max_examples=20, stateful_step_count=15)
TestJoining = Joining.TestCase
