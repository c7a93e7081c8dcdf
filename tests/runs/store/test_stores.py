"""Run states at each commit, and reports, in the store."""

from __future__ import annotations

import contextlib
from contextlib import closing

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from tract_jupyter import Tract
from tract_jupyter.exceptions import ContentError, StoreCorruptError, StoreError
from tract_jupyter.runs import ArtifactUsage, ArtifactView, Counters, Persistence, SqlCommitLog, TurnStates
from tract_jupyter.storage import Database, RunCommitRows, RunObjectRows

TRACT, SESSION, RUN = "1" * 32, "5" * 64, "a" * 32


@pytest.fixture
def database(store_url):
    with closing(Database(url=store_url)) as database:
        yield database


@pytest.fixture
def artifacts(database, store_url):
    return states(database, store_url, TRACT)


def states(database, store_url, tract_id):
    """The states of a tract with one commit."""
    with Tract.open(url=store_url, tract_id=tract_id) as tract:
        head = tract.user("Where is it?").commit_hash
    return TurnStates(database, RunObjectRows(tract_id), lambda: head)


def artifact(tag="world", value="wet", **more):
    return ArtifactView(
        tag=tag, value=value, **{"history": (value,), "persistence": Persistence.PERSISTED, **more}
    )


def change(database, statement, **values):
    with database.write() as connection:
        result = connection.execute(text(statement), values)
        return result.freeze()() if result.returns_rows else None


# --- artifacts


def test_an_artifact_outlives_its_run(database, artifacts):
    """R50, E24: with its history and all its metadata."""
    kept = artifact(history=("dry", "wet"), usage=ArtifactUsage.PROMPT_AND_UI, semantics="state")
    artifacts.remember(SESSION, [kept])
    artifacts.remember(SESSION, [artifact("mood", {"joy": [1, None, True]})])
    again = TurnStates(database, RunObjectRows(TRACT), artifacts._head)
    assert again.load(SESSION) == {
        "mood": artifact("mood", {"joy": [1, None, True]}), "world": kept,
    }  # fmt: skip


def test_a_write_takes_the_place_of_the_one_before(artifacts):
    """R50: one artifact per tag."""
    artifacts.remember(SESSION, [artifact()])
    artifacts.remember(SESSION, [artifact(value="x"), artifact("mood"), artifact(value="dry")])
    assert {tag: one.value for tag, one in artifacts.load(SESSION).items()} == {"mood": "wet", "world": "dry"}
    artifacts.remember(SESSION, [])


def test_sessions_and_tracts_do_not_see_each_other(database, store_url, artifacts):
    """E11: after a reset, the old data belongs to the old session."""
    other = states(database, store_url, "2" * 32)
    artifacts.remember(SESSION, [artifact()])
    assert artifacts.load("6" * 64) == other.load(SESSION) == {}
    other.remember(SESSION, [artifact(value="there")])
    assert artifacts.load(SESSION)["world"] == artifact()
    assert other.load(SESSION)["world"].value == "there"


def test_without_a_session_key_nothing_is_persisted(artifacts):
    """R55: the error says why, and what to do."""
    with pytest.raises(StoreError, match=r"no session key.*run_only"):
        artifacts.remember("", [artifact()])


def test_a_rollback_discards_artifacts_of_the_transaction(database, artifacts):
    """R59: a run stores either all its effects or none."""
    with contextlib.suppress(ZeroDivisionError), database.write():
        artifacts.remember(SESSION, [artifact()])
        raise ZeroDivisionError
    assert artifacts.load(SESSION) == {}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(max_size=9),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=8,
    )
)
def test_any_json_value_is_read_back_unchanged(artifacts, value):
    """R52: the value of an artifact is any JSON."""
    artifacts.remember(SESSION, [artifact(value=value)])
    assert artifacts.load(SESSION)["world"].value == value


@pytest.mark.parametrize("value", [float("nan"), {1: 2}, "\ud800", object()])
def test_a_value_without_json_form_is_refused(artifacts, value):
    """R52: and the stored value is unchanged."""
    artifacts.remember(SESSION, [artifact()])
    with pytest.raises(ContentError):
        artifacts.remember(SESSION, [artifact(value=value)])
    assert artifacts.load(SESSION)["world"].value == "wet"


@pytest.mark.parametrize("body", ["{", "7", '{"colour":"red"}', '"wet"'])
def test_a_damaged_artifact_is_recognised(database, artifacts, body):
    """R52: it is an error, and never another value."""
    artifacts.remember(SESSION, [artifact(history=())])
    for (name,) in change(database, "SELECT name FROM run_objects").fetchall():
        before = change(database, "SELECT body_json FROM run_objects WHERE name = :name", name=name).scalar()
        change(database, "UPDATE run_objects SET body_json = :body WHERE name = :name", name=name, body=body)
        with (
            contextlib.nullcontext() if body == before else pytest.raises(StoreCorruptError, match="damaged")
        ):
            artifacts.load(SESSION)
        change(
            database, "UPDATE run_objects SET body_json = :body WHERE name = :name", name=name, body=before
        )
    change(database, "DELETE FROM run_objects")
    with pytest.raises(StoreCorruptError, match="damaged"):
        artifacts.load(SESSION)


# --- counters


def test_counters_are_kept_by_profile(artifacts):
    """X01: the whole set is stored at once; a missing set marks the first use."""
    head = artifacts._head()
    assert artifacts.at(head).counters == artifacts.at(None).counters == {}
    both = {"a": Counters(1, 2**40), "b": Counters(0, 0)}
    artifacts.remember(None, [], "p", both)
    artifacts.remember(SESSION, [artifact()], "q", {"a": Counters(8, 8)})
    assert artifacts.at(head).counters == {"p": both, "q": {"a": Counters(8, 8)}}
    artifacts.remember(None, [], "p", {"b": Counters(1, 5)})
    assert artifacts.at(head).counters["p"] == {"b": Counters(1, 5)}
    assert artifacts.load(SESSION)["world"] == artifact()


def test_unchanged_artifacts_are_stored_once(database, artifacts):
    """E24: a run only stores its changes."""
    artifacts.remember(SESSION, [artifact(f"t{number}", "wet" * 1_000) for number in range(20)])

    def size():
        return change(database, "SELECT count(*), sum(length(body_json)) FROM run_objects").one()

    before = size()
    artifacts.remember(SESSION, [artifact("t3", "wet" * 1_000)])
    assert size() == before
    artifacts.remember(SESSION, [artifact("t3", "dry", history=("wet" * 1_000, "dry"))])
    assert size()[0] == before[0] + 3  # a value, an artifact, a state
    assert size()[1] < before[1] + 3_000


# --- reports


def test_a_run_commits_once_at_each_hook(database, artifacts):
    """R58: a second commit is refused, and its writes are rolled back."""
    log = SqlCommitLog(database, RunCommitRows(TRACT))
    assert log.find(RUN, "before_main_llm") is None
    for value in ("wet", "dry"):
        try:
            with database.write() as connection:
                artifacts.remember(SESSION, [artifact(value=value)])
                log.add(connection, RUN, "before_main_llm", {"hook": "before_main_llm", "entries": [value]})
        except StoreError:
            assert value == "dry"
    assert artifacts.load(SESSION)["world"].value == "wet"
    assert log.find(RUN, "before_main_llm") == {"hook": "before_main_llm", "entries": ["wet"]}
    assert log.find(RUN, "after_main_llm") is None
    with database.write() as connection:
        log.add(connection, RUN, "after_main_llm", {})
    assert log.find(RUN, "after_main_llm") == {}
    assert SqlCommitLog(database, RunCommitRows("2" * 32)).find(RUN, "after_main_llm") is None


@pytest.mark.parametrize("damage", ["{", "[]", ""])
def test_a_damaged_report_does_not_count_as_none(database, damage):
    """R58: otherwise its effects would be applied again."""
    log = SqlCommitLog(database, RunCommitRows(TRACT))
    with database.write() as connection:
        log.add(connection, RUN, "before_main_llm", {})
    change(database, "UPDATE run_commits SET report_json = :damage", damage=damage)
    with pytest.raises(StoreCorruptError, match="could be committed twice"):
        log.find(RUN, "before_main_llm")
