"""The test scheduler: each test runs once, groups stay in one worker, and a crashed worker loses no tests."""

from collections import deque
from types import SimpleNamespace

import pytest

from tests.scheduling import LAST, Scheduling


class Node:
    """A worker with its waiting tests."""

    def __init__(self, name):
        self.gateway = SimpleNamespace(id=name)
        self.waiting = deque()
        self.shutting_down = False

    def send_runtest_some(self, indexes):
        self.waiting.extend(indexes)

    def shutdown(self):
        self.shutting_down = True


class Log:
    loadscopesched = loadgroupsched = property(lambda self: self)

    def __call__(self, *parts):
        pass


def scheduling(nodes, tests):
    option = SimpleNamespace(loadscopereorder=False, tx=["popen"] * len(nodes))
    config = SimpleNamespace(option=option, getvalue=lambda name: getattr(option, name))
    made = Scheduling(config, Log())
    for node in nodes:
        made.add_node(node)
    for node in nodes:
        made.add_node_collection(node, tests)
    made.schedule()
    return made


def run(scheduler, nodes, tests):
    """Let the workers finish one test each in turn. Return (worker, test) for each test."""
    ended = []
    while any(node.waiting for node in nodes):
        for node in nodes:
            if node.waiting:
                ended.append((node.gateway.id, tests[node.waiting[0]]))
                scheduler.mark_test_complete(node, node.waiting.popleft())
    return ended


@pytest.mark.parametrize("number", [1, 2, 5, 60, LAST + 500])
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_each_test_runs_once_and_a_group_in_one_worker(workers, number):
    tests = [f"tests/test_a.py::test_{n}{'@x' if n % 7 == 3 else ''}" for n in range(number)]
    nodes = [Node(f"gw{n}") for n in range(workers)]
    scheduler = scheduling(nodes, tests)
    ended = run(scheduler, nodes, tests)
    assert sorted(test for _, test in ended) == sorted(tests)
    assert len({worker for worker, test in ended if test.endswith("@x")}) == (number > 3)
    assert (scheduler.tests_finished, scheduler.has_pending) == (True, False)
    counts = [sum(worker == node.gateway.id for worker, _ in ended) for node in nodes]
    assert number < 60 or min(counts) > 0


def test_two_large_groups_that_follow_each_other_go_to_two_workers():
    tests = [f"tests/test_a.py::test_{n}" for n in range(LAST + 500)]
    tests[100:140] = [f"tests/test_b.py::test_{n}@{'left' if n % 2 else 'right'}" for n in range(40)]
    nodes = [Node("gw0"), Node("gw1")]
    ended = run(scheduling(nodes, tests), nodes, tests)
    workers = {test.partition("@")[2]: worker for worker, test in ended if "@" in test}
    assert workers["left"] != workers["right"]
    assert len(ended) == len(tests)


def test_tests_of_a_crashed_worker_go_to_another_worker():
    tests = [f"tests/test_a.py::test_{n}" for n in range(LAST + 500)]
    nodes = [Node("gw0"), Node("gw1")]
    scheduler = scheduling(nodes, tests)
    lost = tests[nodes[0].waiting[1]]
    scheduler.mark_test_complete(nodes[0], nodes[0].waiting.popleft())
    assert scheduler.remove_node(nodes[0]) == lost
    ended = run(scheduler, nodes[1:], tests)
    assert sorted(test for _, test in ended) == sorted(tests[1:])
