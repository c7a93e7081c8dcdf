"""Several threads, tracts and processes use one store: one chain, no lost commits."""

from __future__ import annotations

import multiprocessing
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tract_jupyter import Tract
from tract_jupyter.context import ApproximateCounter

PATIENT = 60.0  # seconds; a loaded machine is slow, not wrong


def open_store(path):
    return Tract.open(path, lock_timeout=PATIENT, tokenizer=ApproximateCounter())


def append(tract, who, count):
    for number in range(count):
        tract.user(f"{who}:{number}")


def assert_one_chain(tract, writers, count):
    log = tract.log(None)[::-1]
    assert [info.generation for info in log] == list(range(writers * count))
    assert [info.parent_hash for info in log] == [None, *(info.commit_hash for info in log[:-1])]
    texts = [message.content for message in tract.compile().messages]
    for who in range(writers):  # no lost or duplicate commits, and each writer keeps its order
        assert [text for text in texts if text.startswith(f"{who}:")] == [f"{who}:{n}" for n in range(count)]
    assert tract.status().commit_count == writers * count


@pytest.mark.parametrize("place", ["memory", "file"])
def test_one_tract_serves_many_threads(tmp_path, place):
    with open_store(":memory:" if place == "memory" else tmp_path / "s.db") as tract:
        start = threading.Barrier(6)

        def work(who):
            start.wait()
            append(tract, who, 12)
            return len(tract.log(None)), tract.status().commit_count, tract.get_commit("main").generation

        with ThreadPoolExecutor(6) as pool:
            seen = list(pool.map(work, range(6)))
        assert all(12 <= number <= 72 for numbers in seen for number in numbers[:2])
        assert_one_chain(tract, 6, 12)


def test_more_threads_than_connections(tmp_path):
    # the pool has 15 connections; a nested transaction would wait for itself
    with open_store(tmp_path / "s.db") as tract:
        info = tract.user("x")
        start = threading.Barrier(24)

        def work(_):
            start.wait()
            return [tract.get_commit(info.commit_hash[:8]) for _ in range(3)], tract.get_content("main")[
                "text"
            ]

        with ThreadPoolExecutor(24) as pool:
            assert list(pool.map(work, range(24))) == [([info] * 3, "x")] * 24


def test_two_tracts_on_one_file(tmp_path):
    with open_store(tmp_path / "s.db") as one, open_store(tmp_path / "s.db") as two:
        assert one.tract_id == two.tract_id
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(append, (one, two), range(2), (25, 25)))
        assert one.log(None) == two.log(None)
        assert_one_chain(one, 2, 25)


def test_changes_of_one_tract_are_visible_in_another_tract(tmp_path):
    with open_store(tmp_path / "s.db") as one, open_store(tmp_path / "s.db") as two:
        info = one.user("x")
        assert two.head == info.commit_hash
        two.branch("topic")
        assert one.current_branch == "topic"
        one.annotate(info.commit_hash, "skip")
        assert len(two.compile()) == 0
        two.undo()
        assert len(one.compile()) == 1


FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(
    ["tests.context.test_concurrency"]
)  # the import takes longer than most of this test


def in_process(place, who, count, start):
    start.wait()
    # opening is part of the race: the store is new
    with Tract.open(**place, lock_timeout=PATIENT, tokenizer=ApproximateCounter()) as tract:
        append(tract, who, count)


def finish(workers):
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * len(workers)


def many_processes(place, processes, count):
    start = FORKS.Barrier(processes)
    finish([FORKS.Process(target=in_process, args=(place, who, count, start)) for who in range(processes)])
    with Tract.open(**place, tokenizer=ApproximateCounter()) as tract:
        assert_one_chain(tract, processes, count)
        assert tract.verify() == []


@pytest.mark.slow
@pytest.mark.parametrize("processes", [2, 4])
def test_several_processes_make_and_fill_one_store(tmp_path, processes):
    many_processes({"path": tmp_path / "s.db"}, processes, 15)


@pytest.mark.slow
def test_eight_processes_append_500_each(store_url):
    many_processes({"url": store_url}, 8, 500)


@pytest.mark.parametrize("place", ["memory", "file"])
def test_edits_and_annotations_under_contention(tmp_path, place):
    with open_store(":memory:" if place == "memory" else tmp_path / "s.db") as tract:
        said = [tract.user(f"{who}:0").commit_hash for who in range(4)]
        start = threading.Barrier(4)

        def work(who):
            start.wait()
            for number in range(1, 13):
                tract.user(f"{who}:{number}", edit=said[who])
                tract.annotate(said[who], "skip" if number % 2 else "pinned")
                tract.compile()

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, range(4)))
        assert [(m.content, m.priority) for m in tract.compile().messages] == [
            (f"{who}:12", "pinned") for who in range(4)
        ]
        assert tract.status().commit_count == 4 + 4 * 24
        assert tract.verify() == []


def change(path, who, target, start):
    start.wait()
    with open_store(path) as tract:
        for number in range(20):
            tract.user(f"{who}:{number}", edit=target)
            tract.annotate(target, "skip" if number % 2 else "important")
            with tract.batch():
                tract.user(f"said by {who}")


@pytest.mark.slow
def test_processes_that_edit_annotate_and_append_in_batches(tmp_path):
    with open_store(tmp_path / "s.db") as tract:
        targets = [tract.user("x").commit_hash for _ in range(3)]
    start = FORKS.Barrier(3)
    finish([
        FORKS.Process(target=change, args=(tmp_path / "s.db", who, targets[who], start)) for who in range(3)
    ])  # fmt: skip
    with open_store(tmp_path / "s.db") as tract:
        assert tract.status().commit_count == 3 + 3 * 60
        assert {tract.history.versions(target)[-1].message for target in targets} == {"0:19", "1:19", "2:19"}
        assert len(tract.compile()) == 60  # the three are skipped
        assert tract.verify() == []
