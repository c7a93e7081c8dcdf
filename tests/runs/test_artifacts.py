from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tract_jupyter.runs import Artifacts, ArtifactUpsert, session_key


def write(value, tag="t", *, persisted=False, enabled=True, items=20, **fields):
    return ArtifactUpsert(
        tag=tag,
        value=value,
        persistence="persisted" if persisted else "run_only",
        history={"enabled": enabled, "max_items": items},
        **fields,
    )


def after(*writes):
    return Artifacts().upsert(writes).view


def test_the_history_holds_the_current_value_and_no_more_than_asked_for():
    """R50, E24: the newest last."""
    assert after(write(1), write(2))["t"].history == (1, 2)
    one = after(*(write(n, items=3) for n in range(5)))["t"]
    assert (one.value, one.history) == (4, (2, 3, 4))
    assert after(*(write(n) for n in range(5)), write(9, items=1))["t"].history == (9,)


def test_a_write_without_history_empties_it():
    """E24: the next write with history starts a new one."""
    assert after(write(1), write(2, enabled=False))["t"].history == ()
    assert after(write(1), write(2, enabled=False), write(3))["t"].history == (3,)


@pytest.mark.parametrize("mode", ["replace", "append"])
def test_both_write_modes_take_the_old_values_place(mode):
    """R52, X03: the log is the history; equal values are stored twice."""
    one = after(write("x", write_mode=mode), write("x", write_mode=mode))["t"]
    assert (one.value, one.history, one.write_mode) == ("x", ("x", "x"), mode)


def test_metadata_of_an_artifact_comes_from_its_last_write():
    """R52: usage and semantics are independent of each other."""
    one = after(
        write(1, usage="ui_only", semantics="lore/memory"), write(2, semantics="state", format="json")
    )["t"]
    assert (one.usage, one.semantics, one.format) == ("internal", "state", "json")


def test_a_run_only_artifact_hides_a_persisted_one():
    """R6, R50: each has its own history, and the persisted one still exists."""
    artifacts = Artifacts().upsert(
        [write("kept", persisted=True), write("now"), write("kept 2", persisted=True)]
    )
    assert (artifacts.view["t"].value, artifacts.view["t"].history) == ("now", ("now",))
    assert artifacts.persisted["t"].history == ("kept", "kept 2")


def test_views_are_sorted_and_are_copies():
    """R29, R62: operations read copies."""
    value = {"a": [1]}
    artifacts = Artifacts().upsert([write(value, "z"), write(2, "a")])
    assert list(artifacts.view) == ["a", "z"]
    value["a"].append(2)
    artifacts.view["z"].value["a"].append(3)
    artifacts.view["z"].history[0]["a"].append(4)
    assert artifacts.view["z"].value == {"a": [1]}
    assert artifacts.view["z"].history == ({"a": [1]},)


def test_an_earlier_state_does_not_change():
    """R62: a write returns a new state."""
    before = Artifacts().upsert([write(1)])
    before.upsert([write(2), write(3, "u")])
    assert (list(before.view), before.view["t"].value) == (["t"], 1)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text("ab\u00e4"), lambda inner: st.lists(inner, max_size=2)
)
WRITES = st.lists(
    st.builds(
        write,
        VALUES,
        st.sampled_from("ab"),
        persisted=st.booleans(),
        enabled=st.booleans(),
        items=st.integers(1, 3),
    )
)


@given(WRITES)
def test_histories_are_the_newest_values_since_one_was_not_kept(writes):
    """E24: this holds for each tag and persistence."""
    artifacts = Artifacts().upsert(writes)
    for kind, found in (("persisted", artifacts.persisted), ("run_only", artifacts.run_only)):
        for tag, one in found.items():
            mine = [w for w in writes if (w.tag, w.persistence) == (tag, kind)]
            last = max((n for n, w in enumerate(mine) if not w.history.enabled), default=-1)
            expected = []
            for w in mine[last + 1 :]:
                expected = [*expected, w.value][-w.history.max_items :]
            assert (one.value, one.history) == (mine[-1].value, tuple(expected))


@given(WRITES, st.integers(0, 10))
def test_writes_in_two_steps_equal_writes_in_one_step(writes, cut):
    """R50: the grouping of writes does not matter."""
    assert Artifacts().upsert(writes[:cut]).upsert(writes[cut:]) == Artifacts().upsert(writes)


# --- sessions


def test_the_session_key_depends_on_each_part():
    """R50, E11: the owner, the tract, the branch, the profile and its session."""
    parts = {"tract": "t", "branch": "b", "profile": "p", "session": "s", "owner": "o"}
    keys = {session_key(**{**parts, name: "other"}) for name in parts} | {session_key(**parts)}
    assert len(keys) == 6
    assert session_key(**parts) == session_key(**parts)
    assert session_key("a", "bc", "p", "s") != session_key("ab", "c", "p", "s")
    assert session_key("t", None, "p", "s") != session_key("t", "", "p", "s")
