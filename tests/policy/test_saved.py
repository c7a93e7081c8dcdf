"""Policies are stored with the tract: signed, restored exactly, and run only for their user."""

from __future__ import annotations

import shutil
from contextlib import closing

import pytest

from tract_jupyter import Session, Tract
from tract_jupyter.exceptions import ContentError
from tract_jupyter.review import Trust


class Own:
    """A custom policy."""

    name = "mine"
    priority = 7

    def __init__(self):
        self.looked = 0

    def evaluate(self, view):
        self.looked += 1


@pytest.fixture
def store(tmp_path):
    return tmp_path / "t.db"


def test_saved_policies_are_restored_unchanged(store):
    with Tract.open(store) as tract:
        tract.policies.add("compress", threshold=0.5, name="tidy", cooldown=3)
        tract.policies.add("rebase", on=False)
        tract.policies.add("gc")
        tract.policies.add("merge", target_branch="trunk")
        before = tract.policies.list()
    with Tract.open(store) as tract:
        assert tract.policies.list() == before
        assert [row.type for row in before] == ["compress", "merge", "rebase", "gc"]
        assert [row.state for row in before] == ["on", "on", "off", "on"]


def test_a_custom_policy_is_reported_missing_until_it_is_added_again(store):
    with Tract.open(store) as tract:
        tract.policies.add(Own())
        tract.user("one")
    with Tract.open(store) as tract:
        tract.user("two")
        (row,) = tract.policies.list()
        assert row.state == "missing"
        assert "add an object of" in row.missing
        assert "missing" in repr(tract.policies)
        own = Own()
        tract.policies.add(own)
        tract.user("three")
        assert (own.looked, tract.policies.list()[0].state, tract.policies.list()[0].priority) == (1, "on", 7)


def test_policies_of_a_foreign_store_do_not_run(tmp_path, store):
    with Tract.open(store) as tract:
        tract.autonomy.ceiling = "autonomous"
        tract.policies.add("pin", patterns=["KEEP"])
    copy = tmp_path / "copy.db"
    shutil.copy(store, copy)
    with Tract.open(copy, trust=Trust(tmp_path / "another secret")) as tract:
        info = tract.user("KEEP this")
        tract.compile()
        assert tract.get_commit(info.commit_hash).priority == "normal"
        assert tract.policies.log() == []
        (row,) = tract.policies.list()
        assert (row.state, row.is_on) == ("missing", False)
        assert "you have not added it here" in row.missing
        assert tract.executor.execute("toggle_policy", {"name": "auto-pin", "on": True}).error
        tract.policies.on("auto-pin")  # the user adopts it
        tract.user("next")
        assert tract.status().waiting == 1


def test_a_policy_changed_in_the_store_does_not_run(store):
    import sqlite3

    with Tract.open(store) as tract:
        tract.policies.add("pin", patterns=["KEEP"])
    with closing(sqlite3.connect(store)) as connection, connection:
        connection.execute("UPDATE policies SET policy_json = replace(policy_json, 'KEEP', 'X')")
    with Tract.open(store) as tract:
        tract.user("an X")
        assert tract.policies.list()[0].state == "missing"
        assert tract.status().waiting == 0


@pytest.mark.parametrize(
    "memory", ["{}", "[]", "nonsense", '{"stopped": 3, "open": [], "fired": {"at": 7}, "own": 1}']
)
def test_a_memory_that_cannot_be_read_counts_as_none(store, memory):
    import sqlite3

    with Tract.open(store) as tract:
        tract.policies.add("pin", patterns=["KEEP"])
    with closing(sqlite3.connect(store)) as connection, connection:
        connection.execute("UPDATE policies SET memory_json = ?", (memory,))
    with Tract.open(store) as tract:
        tract.user("KEEP")
        assert tract.status().waiting == 1
        assert tract.policies.list()[0].last_outcome == "proposed"


def test_they_belong_to_one_tract_of_a_store():
    with Session.open() as session:
        one, two = session.create_tract(), session.create_tract()
        one.policies.add("pin", patterns=["KEEP"])
        info = two.user("KEEP")
        assert (two.policies.list(), two.get_commit(info.commit_hash).priority) == ([], "normal")
        assert len(one.policies.list()) == 1


@pytest.mark.slow
def test_remove_and_unknown_names(tract):
    tract.policies.add("pin")
    tract.policies.remove("auto-pin")
    assert tract.policies.list() == []
    tract.policies.add("gc")
    for verb in (tract.policies.remove, tract.policies.on, tract.policies.off):
        with pytest.raises(ContentError, match="no policy 'auto-gk'. Did you mean"):
            verb("auto-gk")


def test_preview_changes_nothing(tract):
    tract.policies.add("pin", patterns=["KEEP"])
    tract.policies.add("compress")
    tract.policies.pause()
    tract.user("KEEP")
    before = tract.status(), tract.events(), tract.policies.list()
    (pin, compress) = tract.policies.preview()
    assert (pin.name, pin.action, pin.would) == ("auto-pin", "annotate", "propose it")
    assert (compress.action, compress.would) == ("", "nothing")
    assert (tract.status(), tract.events(), tract.policies.list()) == before
    tract.autonomy.ceiling = "manual"
    assert tract.policies.preview()[0].would == "tell it"


def test_the_tools_that_look_after_policies(tract):
    run = tract.executor.execute
    made = run("register_policy", {"type": "pin", "config": {"patterns": ["KEEP"]}})
    assert made.output["config"]["autonomy"] == "collaborative"
    assert "already" in run("register_policy", {"type": "pin"}).error
    assert (
        "must ask the user"
        in run("register_policy", {"type": "gc", "config": {"autonomy": "autonomous"}}).error
    )
    assert run("toggle_policy", {"name": "auto-pin", "on": False}).output["on"] is False
    assert run("unregister_policy", {"name": "auto-pin"}).success
    assert "no policy" in run("unregister_policy", {"name": "auto-pin"}).error
