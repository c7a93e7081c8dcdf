"""Several tracts on one file, where one of them removes what the other knew."""

from __future__ import annotations

import pytest

from tests.context.model import COUNTER
from tract_jupyter import Tract


def said(tract):
    return [message.content for message in tract.compile().messages]


@pytest.fixture
def two(tmp_path):
    with (
        Tract.open(tmp_path / "s.db", tokenizer=COUNTER) as one,
        Tract.open(tmp_path / "s.db", tokenizer=COUNTER) as other,
    ):
        yield one, other


@pytest.mark.parametrize("does", ["append", "edit", "annotate"])
def test_a_commit_after_anothers_undo_and_gc_goes_to_the_new_tip(two, does):
    one, other = two
    base = one.user("base").commit_hash
    other.user("undone")
    one.undo()
    one.gc(orphan_retention_days=0)
    if does == "append":
        other.user("z")
    elif does == "edit":
        other.user("z", edit=base)
    else:
        other.annotate(base, "pinned")
    expected = {"append": ["base", "z"], "edit": ["z"], "annotate": ["base"]}[does]
    assert said(one) == said(other) == expected
    assert one.verify() == []
