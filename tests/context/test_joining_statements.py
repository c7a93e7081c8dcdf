"""Merging, rebasing and importing take as many statements in a long history as in a short one."""

from __future__ import annotations

import pytest

from tests.statements import traced
from tract_jupyter import Tract
from tract_jupyter.models import Resolution


def prepare(tract, size):
    """Two branches with a long common past; `topic` went on for long, `main` for a little. Both edited and tagged."""
    target = tract.user("question").commit_hash
    with tract.batch():
        for number in range(size):
            tract.user(f"past {number}")
    tract.branch("topic", switch=False)
    for branch, own in (("topic", size), ("main", 2)):
        tract.switch(branch)
        with tract.batch():
            for number in range(own):
                last = tract.user(f"{branch} {number}").commit_hash
            tract.user(f"question of {branch}", edit=target)
        tract.tags.add(last, "tagged")


def both(conflict):
    return Resolution.text(f"{conflict.ours_text} {conflict.theirs_text}")


def import_last(tract):
    tip = tract.resolve_commit("topic")
    tract.import_commits([tract.get_commit(tip).parent_hash, tip])


OPERATIONS = {
    "preview": lambda tract: tract.preview_merge("topic"),
    "merge": lambda tract: tract.merge("topic", resolver=both),
    "merge, ours": lambda tract: tract.merge("topic", resolver="ours"),
    "rebase": lambda tract: tract.rebase("topic", resolver="theirs"),
    "import": import_last,
}


def statements_of(name, path, size):
    with Tract.open(path) as tract:
        prepare(tract, size)
    seen = []
    with traced(seen), Tract.open(path) as tract:  # which knows nothing of the history yet
        tract.status()
        seen.clear()
        OPERATIONS[name](tract)
        return seen


@pytest.mark.parametrize("name", OPERATIONS)
def test_the_number_of_statements_is_constant(tmp_path, name):
    few = statements_of(name, tmp_path / "few.db", 3)
    many = statements_of(name, tmp_path / "many.db", 300)
    assert many == few
    assert 0 < len(few) < 60
