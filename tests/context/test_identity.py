"""A commit's hash covers everything that matters."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.models.test_canonical import JSON, TEXT
from tract_jupyter import Tract
from tract_jupyter.context import writer
from tract_jupyter.models import canonical_json
from tract_jupyter.storage import to_text

WORDS = st.lists(TEXT.filter(lambda tag: tag.strip() and "\0" not in tag), max_size=3, unique=True).map(tuple)
DICTS = st.dictionaries(TEXT, JSON, max_size=3)
PARTS = {
    "text": TEXT,
    "message": TEXT.map(lambda text: text.replace("\0", "")),
    "metadata": DICTS,
    "generation_config": DICTS,
    "tags": WORDS,
    "operation": st.sampled_from(["append", "edit"]),
    "target": st.sampled_from([0, 1]),
    "parent": st.sampled_from([0, 1]),
    "second": st.integers(0, 49),
}


def at(second):
    return to_text(datetime(2030, 1, 1, 0, 0, second, tzinfo=UTC))


def commit_hash(parts):
    """The hash of a commit with these parts, on a tract with two commits that are always the same."""
    seconds = iter([1, 2, 10 + parts["second"]])
    with pytest.MonkeyPatch.context() as patch, Tract.open(tract_id="t") as tract:
        patch.setattr(writer, "now_text", lambda: at(next(seconds)))
        before = [tract.user("0").commit_hash, tract.user("1").commit_hash]
        editing = parts["operation"] == "edit"
        if not editing or parts["target"] <= parts["parent"]:
            tract.branch("here", source=before[parts["parent"]])
        target = before[parts["target"]] if editing else None
        options = {
            key: parts[key] for key in ("message", "metadata", "generation_config", "tags", "operation")
        }
        return tract.user(parts["text"], edit_target=target, **options).commit_hash


def meaning(parts):
    """What the hash must tell apart: tags are a set, a target matters to an edit only."""
    editing = parts["operation"] == "edit"
    target = parts["target"] if editing else None
    parent = max(parts["parent"], parts["target"]) if editing else parts["parent"]
    # 1 == 1.0 == True in Python, not in JSON
    return repr({**parts, "tags": sorted(set(parts["tags"])), "target": target, "parent": parent,
                 "metadata": canonical_json(parts["metadata"]),
                 "generation_config": canonical_json(parts["generation_config"])})  # fmt: skip


@given(st.fixed_dictionaries(PARTS), st.data())
def test_a_change_of_any_part_changes_the_hash(parts, data):
    part = data.draw(st.sampled_from(sorted(PARTS)))
    other = {**parts, part: data.draw(PARTS[part])}
    assert (commit_hash(parts) == commit_hash(other)) == (meaning(parts) == meaning(other))


PLAIN = {"text": "x", "message": "m", "metadata": {}, "generation_config": {}, "tags": (),
         "operation": "append", "target": 0, "parent": 1, "second": 0}  # fmt: skip


@pytest.mark.parametrize(("part", "value"), [
    ("text", "y"), ("message", "n"), ("metadata", {"k": 1}), ("generation_config", {"k": 1}), ("tags", ("k",)),
    ("operation", "edit"), ("parent", 0), ("second", 1),
])  # fmt: skip
def test_each_part_is_covered(part, value):
    assert commit_hash({**PLAIN, part: value}) != commit_hash(PLAIN)
    assert commit_hash({**PLAIN, part: value}) == commit_hash({**PLAIN, part: value})


def test_the_target_of_an_edit_is_covered():
    edit = {**PLAIN, "operation": "edit"}
    assert commit_hash({**edit, "target": 1}) != commit_hash(edit)


def test_the_kind_of_content_and_the_tract_are_covered():
    def of(content, tract_id="t"):
        with pytest.MonkeyPatch.context() as patch, Tract.open(tract_id=tract_id) as tract:
            patch.setattr(writer, "now_text", lambda: at(0))
            return tract.commit(content, priority="normal", message="").commit_hash

    text = {"text": "x"}
    hashes = [
        of({"content_type": "instruction", **text}),
        of({"content_type": "reasoning", **text}),
        of({"content_type": "instruction", **text}, "u"),
    ]
    assert len(set(hashes)) == 3


def test_tags_are_a_set():
    assert commit_hash({**PLAIN, "tags": ("b", "a")}) == commit_hash({**PLAIN, "tags": ("a", "b", "a")})
