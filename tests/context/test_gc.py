"""Garbage collection removes unreachable commits and nothing else."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import func, inspect, select

from tests.context.histories import PICK, STEPS, appends, check, new_tract, play, shown
from tract_jupyter import Tract
from tract_jupyter.context import gc as module
from tract_jupyter.exceptions import CommitNotFoundError, CompressionError, HistoryError
from tract_jupyter.storage import schema

pytestmark = pytest.mark.own_store

TOOL = {"type": "function", "function": {"name": "look", "parameters": {}}}
OTHER = {"type": "function", "function": {"name": "other", "parameters": {}}}


def later(monkeypatch, days):
    """Move the clock of the collector forward by some days."""
    monkeypatch.setattr(module, "_now", lambda: datetime.now(UTC) + timedelta(days=days))


def blob_count(tract):
    with tract._repository.database.read() as connection:
        return connection.scalar(select(func.count()).select_from(schema.blobs))


def now(tract, **options):
    return tract.gc(orphan_retention_days=0, **options)


@pytest.fixture
def orphan(tract):
    """A commit that only the reflog refers to."""
    tract.user("stays")
    lost = tract.user("is lost").commit_hash
    tract.undo()
    return lost


def test_an_orphan_goes_with_its_content_and_the_moves_to_it(tract, orphan):
    result = now(tract)
    assert result.commits == (orphan,)
    assert (result.blobs, result.bytes > 0, result.tokens > 0, result.dry_run) == (1, True, True, False)
    with pytest.raises(CommitNotFoundError):
        tract.get_commit(orphan)
    assert "removed 1 commit" in str(result)
    check(tract)
    assert now(tract).commits == ()


def test_a_dry_run_changes_nothing_and_tells_the_same(tract, orphan):
    events = len(tract.events())
    dry = now(tract, dry_run=True)
    assert (dry.commits, dry.dry_run) == ((orphan,), True)
    assert "would remove" in str(dry)
    assert len(tract.events()) == events
    real = now(tract)
    assert (dry.commits, dry.blobs, dry.bytes, dry.tokens, dry.reflog_entries) == (
        real.commits, real.blobs, real.bytes, real.tokens, real.reflog_entries,
    )  # fmt: skip


def test_young_commits_are_kept_for_undo(tract, orphan, monkeypatch):
    assert tract.gc().commits == ()
    later(monkeypatch, 6.9)
    assert tract.gc().commits == ()
    tract.redo()
    tract.undo()
    later(monkeypatch, 7.1)
    assert tract.gc().commits == (orphan,)


def test_undo_and_redo_say_that_it_is_gone(tract, orphan):
    now(tract)
    with pytest.raises(HistoryError, match="gc removed the commits"):
        tract.redo()
    with pytest.raises(HistoryError, match="gc removed the commits"):
        tract.preview_undo(redo=True)
    tract.user("more")
    old = tract.user("and more").commit_hash
    tract.reset(tract.log(2)[1].commit_hash)
    assert now(tract).commits == (old,)
    with pytest.raises(HistoryError, match="gc removed the commits"):
        tract.undo()
    assert tract.compile().messages[-1].content == "more"
    tract.user("goes on")
    tract.undo()


def test_a_deleted_branch_goes(tract):
    tract.user("base")
    tract.branch("topic")
    topic = [tract.user(text).commit_hash for text in ("one", "two")]
    tract.switch("main")
    assert now(tract).commits == ()
    tract.delete_branch("topic", force=True)
    assert now(tract).commits == tuple(topic)
    check(tract)


def test_a_detached_head_keeps_its_commits(tract):
    first = tract.user("one").commit_hash
    second = tract.user("two").commit_hash
    tract.checkout(second)
    tract.branch("early", source=first, switch=False)
    tract.delete_branch("main", force=True)
    assert now(tract).commits == ()
    assert len(tract.compile()) == 2


def test_contents_of_other_commits_are_kept(tract, orphan):
    tract.user("again")
    tract.undo()
    tract.user("is lost")  # the same content as the orphan
    result = now(tract)
    assert orphan in result.commits
    assert tract.compile().messages[-1].content == "is lost"
    assert tract.verify() == []


def test_unused_tools_are_removed(tract):
    tract.user("one", tools=[TOOL])
    before = blob_count(tract)
    tract.user("two", tools=[TOOL, OTHER])
    tract.undo()
    assert now(tract).blobs == 3  # the message, the list, the schema of `other`
    assert blob_count(tract) == before
    assert tract.compile().tools == (TOOL,)


def test_a_compile_record_keeps_its_commits(tract, orphan):
    tract.redo()
    record = tract.compile_records.add(tract.compile())
    tract.undo()
    assert now(tract).commits == ()
    assert tract.compile_records.commits(record)[-1] == orphan


def test_a_spawn_keeps_its_start_commit(tract, orphan):
    with tract._repository.database.write() as connection:
        connection.execute(
            schema.spawns.insert().values(
                parent_tract_id=tract.tract_id, parent_commit_hash=orphan, child_tract_id="child", purpose="",
                inheritance="full_clone", created_at=datetime.now(UTC).isoformat(),
            )
        )  # fmt: skip
    assert now(tract).commits == ()


@pytest.mark.parametrize(
    ("status", "settled_at"), [("pending", None), ("failed", None), ("rejected", "2026")]
)
def test_an_open_or_retryable_pending_keeps_its_commits(tract, orphan, status, settled_at):
    row = {
        "pending_id": "p", "tract_id": tract.tract_id, "operation": "x", "title": "", "fingerprint": "", "identity": "",
        "actor": "user", "fields_json": f'{{"which":["{orphan}"]}}', "status": status, "settled_at": settled_at,
        "resumable": False, "on_timeout": "wait", "created_at": "",
    }  # fmt: skip
    with tract._repository.database.write() as connection:
        connection.execute(schema.pendings.insert().values(**row))
    assert now(tract).commits == ((orphan,) if status == "rejected" else ())


def test_tags_of_an_orphan_go_with_it(tract, orphan):
    tract.tags.add(orphan, "red")
    now(tract)
    assert tract.tags.list() == []


def test_edits_and_annotations_keep_their_targets(tract):
    first = tract.user("one").commit_hash
    tract.user("two", edit=first)
    tract.annotate(first, "pinned")
    assert now(tract).commits == ()


def test_a_failure_on_the_way_changes_nothing(tract, orphan, monkeypatch):
    def fail(*_):
        raise OSError("no space")

    monkeypatch.setattr(module, "remove_rows", fail)
    with pytest.raises(OSError, match="no space"):
        now(tract)
    assert tract.get_commit(orphan).commit_hash == orphan
    tract.redo()
    check(tract)


def test_gc_keeps_the_indexes_of_the_schema(tract, orphan):
    def indexes():
        with tract._repository.database.read() as connection:
            return sorted(index["name"] for index in inspect(connection).get_indexes("commits"))

    before = indexes()
    assert now(tract).commits == (orphan,)
    assert indexes() == before


def test_within_a_batch_it_is_part_of_it(tract, orphan):
    with tract.batch():
        tract.user("more")
        assert now(tract).commits == (orphan,)
        tract.user("and more")
    assert [m.content for m in tract.compile().messages] == ["stays", "more", "and more"]
    check(tract)


# archives


def test_originals_of_a_summary_are_kept(tract):
    said = [tract.user(f"number {n}").commit_hash for n in range(4)]
    result = tract.compress(to_commit=said[1], content="sum")
    assert now(tract).commits == ()
    tract.expand(result.summary_commits[0])
    assert [m.content for m in tract.compile().messages] == [f"number {n}" for n in range(4)]
    check(tract)


def test_originals_go_after_their_time_and_expand_says_so(tract, monkeypatch):
    said = [tract.user(f"number {n}").commit_hash for n in range(4)]
    result = tract.compress(to_commit=said[1], content="sum")
    later(monkeypatch, 30)
    assert tract.gc(archive_retention_days=31).commits == ()
    before = tract.compile()
    assert set(tract.gc(archive_retention_days=29).commits) == set(said)
    assert tract.compile() == before
    check(tract)
    with pytest.raises(CompressionError, match="are gone"):
        tract.expand(result.summary_commits[0])
    with pytest.raises(HistoryError, match="gc removed the commits"):
        tract.undo()
    assert tract.compile() == before


def test_originals_of_nested_summaries_are_kept(tract):
    said = [tract.user(f"number {n}").commit_hash for n in range(4)]
    tract.compress(to_commit=said[1], content="inner")
    outer = tract.compress(content="outer")
    assert now(tract).commits == ()
    tract.expand(outer.summary_commits[0])
    tract.expand(tract.compile().messages[0].commit_hash)
    assert len(tract.compile()) == 4


def test_metadata_that_only_looks_like_an_archive_does_no_harm(tract, orphan):
    for value in ("x", {"head": 3}, {"head": "a" * 64, "commits": ["b"]}, {"head": orphan, "commits": []}):
        tract.user("x", metadata={"compressed_from": value})
    assert now(tract).commits == (orphan,)


# other tracts, bad input


def test_other_tracts_of_the_store_lose_nothing(tmp_path):
    path = tmp_path / "store.db"
    with Tract.open(path, tract_id="a" * 32) as one, Tract.open(path, tract_id="b" * 32) as two:
        for tract in (one, two):
            tract.user("shared")
            tract.user("lost in both")
            tract.undo()
        result = now(one)
        # the other tract's reflog still needs the content
        assert (len(result.commits), result.blobs) == (1, 0)
        two.redo()
        assert [m.content for m in two.compile().messages] == ["shared", "lost in both"]
        two.undo()
        assert now(two).blobs == 1
        assert one.verify() == two.verify() == []


@pytest.mark.parametrize("days", [-1, "7", None, True, float("nan")])
def test_an_invalid_number_of_days_is_refused(tract, days):
    with pytest.raises(HistoryError, match="orphan_retention_days must be a number of days"):
        tract.gc(orphan_retention_days=days)
    if days is not None:
        with pytest.raises(HistoryError, match="archive_retention_days must be a number of days"):
            tract.gc(archive_retention_days=days)


@pytest.mark.parametrize("days", [10**7, float("inf")])
def test_for_ever(tract, orphan, days):
    assert tract.gc(orphan_retention_days=days, archive_retention_days=days).commits == ()


NAMES = {
    "hash": lambda info: info.commit_hash,
    "first digits": lambda info: info.commit_hash[:8],
    "CommitInfo": lambda info: info,
    "ORIG_HEAD": lambda info: "ORIG_HEAD",
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_keep_accepts_every_form_of_commit_name(tract, orphan, name):
    keep = name(tract.get_commit(orphan))
    assert now(tract, keep=iter([keep])).commits == ()
    assert tract.propose_gc(orphan_retention_days=0, keep=[keep]).excluded == [orphan]
    tract.on("gc", lambda p: p.approve())
    assert now(tract, keep=iter([keep])).commits == ()
    assert now(tract).commits == (orphan,)


@pytest.mark.parametrize(
    ("keep", "error", "words"),
    [
        ("0f3a9b", HistoryError, "list of commits, not one text"),
        (5, HistoryError, "list of commits, not 5"),
        ([5], HistoryError, "not 5"),
        (["nothing"], CommitNotFoundError, "there is no commit 'nothing'"),
    ],
)
def test_an_invalid_keep_argument_removes_nothing(tract, orphan, keep, error, words):
    for call in (tract.gc, tract.propose_gc):
        with pytest.raises(error, match=words):
            call(orphan_retention_days=0, keep=keep)
    assert tract.get_commit(orphan).message == "is lost"


def test_an_empty_tract(tract):
    assert now(tract).commits == ()


def test_many(tract):
    with tract.batch():
        for number in range(1_200):
            tract.user(f"number {number}")
    tract.reset(appends(tract)[0].commit_hash)
    result = now(tract)
    assert (len(result.commits), result.blobs) == (1_199, 1_199)
    check(tract)


# law

DO = st.one_of(
    st.tuples(st.just("play"), STEPS),
    st.tuples(st.just("undo"), PICK),
    st.tuples(st.just("branch"), PICK),
    st.tuples(st.just("switch"), PICK),
    st.tuples(st.just("drop"), PICK),
    st.tuples(st.just("compress"), PICK),
    st.tuples(st.just("reset"), PICK),
)


def do(tract, kind, value):
    names = [branch.name for branch in tract.list_branches()]
    said = [info.commit_hash for info in appends(tract)]
    if kind == "play":
        play(tract, value)
    elif kind == "branch":
        tract.branch(f"b{len(tract.reflog(1000))}-{len(tract.events())}-{value}-{len(names)}")
    elif kind == "switch":
        tract.switch(names[value % len(names)])
    elif kind == "drop" and names[value % len(names)] != tract.current_branch:
        tract.delete_branch(names[value % len(names)], force=True)
    elif not said:
        return
    elif kind == "undo":
        tract.undo()
    elif kind == "reset":
        tract.reset(said[value % len(said)])
    elif kind == "compress":
        try:
            tract.compress(from_commit=said[value % len(said)], summarizer=lambda m, *_: f"sum of {len(m)}")
        except CompressionError:
            return


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(DO, max_size=12), st.booleans())
def test_gc_changes_no_branch_and_summaries_still_expand(steps, archives):
    with new_tract() as tract:
        for kind, value in steps:
            do(tract, kind, value)
        branches = tract.list_branches()
        before = {b.name: tract.compile(at_commit=b.name) for b in branches if b.commit_hash}
        now(tract, archive_retention_days=0 if archives else None)
        assert tract.list_branches() == branches
        assert {b.name: tract.compile(at_commit=b.name) for b in branches if b.commit_hash} == before
        check(tract)
        assert now(tract, archive_retention_days=0 if archives else None).commits == ()
        for info in appends(tract):
            if not archives and "compressed_from" in info.metadata:
                tract.expand(info.commit_hash)
                check(tract)
                tract.undo()
        tract.user("goes on")
        assert shown(tract.compile())[-1][1] == "goes on"
