"""Operations in other processes: a pool, Dask, ipyparallel."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import pytest

from tests.runs import jobs
from tests.runs.jobs import job_of, run_functions
from tests.runs.virtual import operation, statuses
from tract_jupyter.runs import ExecutorWorkers, Limits


def pool():
    return ProcessPoolExecutor(1, mp_context=get_context("spawn"))


@pytest.fixture
def one_process():
    with pool() as executor:
        yield executor


def processes(executed):
    return {key: result.debug["process"] for key, result in executed.results.items() if result.is_done}


CHAIN = [operation("a"), operation("b", dependsOn=["a"]), operation("here", dependsOn=["b"])]


def chain(workers):
    """Two operations elsewhere, the third one here; returns where they ran."""
    functions = {"a": jobs.fine, "b": jobs.fine, "here": job_of(jobs.fine, "here", anywhere=False)}
    with workers:
        executed = run_functions(functions, workers, CHAIN)
    assert statuses(executed) == {"a": "done", "b": "done", "here": "done"}
    return processes(executed)


def elsewhere(where):
    return where["a"] != os.getpid() and where["b"] != os.getpid() and where["here"] == os.getpid()


def test_a_pool_of_processes(one_process):
    """R10, R34: what may run anywhere is sent with its context, the rest runs here."""
    assert elsewhere(chain(ExecutorWorkers(one_process, workers=1)))


def test_what_cannot_be_sent_is_an_error(one_process):
    """R53: of that operation; errors come back with their words, and deadlines are known there."""
    operations = [operation("local"), operation("raises"), operation("late", timeoutMs=200)]
    functions = {"local": lambda context: None, "raises": jobs.raising, "late": jobs.until_late}
    with ExecutorWorkers(one_process, workers=1) as workers:
        executed = run_functions(functions, workers, operations)
    codes = {key: result.error.code for key, result in executed.results.items()}
    assert codes == {"local": "operation_error", "raises": "operation_error", "late": "timeout"}
    assert executed.results["raises"].error.message == "ValueError: no such luck"


def test_a_dead_process_is_an_error_of_what_it_had():
    """R53: without another pool, of all that comes later, too; the run goes on."""
    functions = {"a": jobs.dying, "b": jobs.fine, "here": job_of(jobs.fine, "here", anywhere=False)}
    operations = [operation("a"), operation("b"), operation("here")]
    with pool() as executor, ExecutorWorkers(executor, workers=1) as workers:
        executed = run_functions(functions, workers, operations)
    assert statuses(executed) == {"a": "error", "b": "error", "here": "done"}
    assert executed.results["a"].error.code == "operation_error"
    assert "BrokenProcessPool" in executed.results["a"].error.message


def test_what_comes_after_a_dead_process_goes_to_a_fresh_pool(tmp_path):
    """R53: if one can be made; an attempt that follows, too."""
    functions = {"a": jobs.second_time_fine, "b": jobs.fine}
    operations = [operation("a", retry={"maxAttempts": 2, "retryOn": ["operation_error"]}), operation("b")]
    with pool() as executor, ExecutorWorkers(executor, workers=1, fresh=pool) as workers:
        executed = run_functions(functions, workers, operations, variables={"path": str(tmp_path / "tried")})
    assert statuses(executed) == {"a": "done", "b": "done"}
    assert [run.attempts for run in executed.runs] == [2, 1]


def test_what_an_executor_has_not_begun_is_taken_back():
    """E14: it ends at once, without the grace period; what had begun is given up after it."""
    hold = threading.Event()

    def holding(context):
        hold.wait(30)

    with ThreadPoolExecutor(1) as executor, ExecutorWorkers(executor) as workers:
        operations = [operation("a", timeoutMs=10), operation("b", timeoutMs=10)]
        executed = run_functions(
            {"a": holding, "b": jobs.fine}, workers, operations, limits=Limits(grace_ms=50)
        )
        hold.set()
    assert {key: result.error.code for key, result in executed.results.items()} == {
        "a": "timeout",
        "b": "timeout",
    }


def test_an_executor_that_is_shut_down():
    """R53: takes nothing."""
    executor = ThreadPoolExecutor(1)
    executor.shutdown()
    with ExecutorWorkers(executor) as workers:
        executed = run_functions({"a": jobs.fine}, workers, [operation("a")])
    assert "RuntimeError" in executed.results["a"].error.message


@pytest.mark.filterwarnings("default")
def test_a_dask_cluster(tmp_path):
    """R10, R34: through its executor."""
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=1,
            threads_per_worker=1,
            dashboard_address=None,
            local_directory=str(tmp_path),
            host="127.0.0.1",
        ) as cluster,
        distributed.Client(cluster) as client,
        client.get_executor() as executor,
    ):
        assert elsewhere(chain(ExecutorWorkers(executor)))
        with ExecutorWorkers(executor) as workers:
            executed = run_functions({"a": jobs.raising}, workers, [operation("a")])
    assert executed.results["a"].error.message == "ValueError: no such luck"


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_engines_of_ipyparallel(tmp_path, monkeypatch):
    """R10, R34: through a view's executor."""
    ipyparallel = pytest.importorskip("ipyparallel")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    with ipyparallel.Cluster(
        n=1, controller_ip="127.0.0.1", profile_dir=str(tmp_path / "profile"), log_level=40
    ) as client:
        executor = client.load_balanced_view().executor
        assert elsewhere(chain(ExecutorWorkers(executor)))
        with ExecutorWorkers(executor) as workers:
            executed = run_functions({"a": jobs.raising}, workers, [operation("a")])
    assert "no such luck" in executed.results["a"].error.message
