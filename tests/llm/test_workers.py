"""Requests of agents that other processes make: a pool, Dask, ipyparallel."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import warnings
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context

import pytest

from tests.llm import elsewhere
from tests.llm.providers import Answer, provider
from tests.review.scripted import ScriptedClient, call, reply
from tract_jupyter import Tract
from tract_jupyter.agents import CallState
from tract_jupyter.exceptions import AgentError
from tract_jupyter.llm import AskedHereWarning

KEY = "sk-w0rker-0123456789abcdef"


def pool():
    return ProcessPoolExecutor(1, mp_context=get_context("spawn"))


class Noting(ThreadPoolExecutor):
    """Threads; keeps what they were given."""

    def __init__(self):
        super().__init__(4)
        self.given = []

    def submit(self, function, *arguments):
        self.given.append((function, arguments))
        return super().submit(function, *arguments)


@pytest.fixture
def threads():
    with Noting() as executor:
        yield executor


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("WORKERS_KEY", KEY)


def agent(tract, workers, model=None, **definition):
    """A tract with an agent, whose model is asked by workers."""
    if isinstance(model, str):
        tract.models.add("far", "m", base_url=model, key_env="WORKERS_KEY", backoff=0.0)
        tract.models.use("far")
    elif model is not None:
        tract.models.use(model)
    tract.agents.create("helper", "You help.", "Helps.", **definition)
    tract.agents.workers = workers
    return tract.agents


@contextmanager
def in_background(function):
    """Run it on a thread meanwhile; yields a list that has what it returned, or raised, after the block."""
    found = []

    def run():
        try:
            found.append(function())
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield found
    finally:
        thread.join(60)
    assert not thread.is_alive()


def look(tract):
    """A tool that says in which process it runs."""
    places = []

    @tract.tool(read_only=True)
    def look() -> str:
        """Look."""
        places.append(os.getpid())
        return "seen"

    return places


# --- what is sent, and what stays


def test_requests_go_to_a_pool_of_processes_and_tools_stay_here(tract):
    """The model is asked there, twice; its tool call is made here, and what it cost is on the bill here."""
    places = look(tract)
    with pool() as executor:
        agents = agent(tract, executor, elsewhere.Where(), tools=["look"])
        assert agents.workers is executor
        (there,) = {executor.submit(elsewhere.process).result()}
        assert agents.call("helper", "where?") == str(there)
    assert places == [os.getpid()]
    assert tract.costs().requests == 2
    (made,) = agents.calls_of("helper")
    assert (made.state, made.used["steps"], made.used["calls"]) == (CallState.DONE, 2, 1)


def test_a_request_is_sent_without_the_key(tract, threads):
    """Not in what is pickled, and neither in what a cluster would log of it."""
    with provider(Answer()) as server:
        assert agent(tract, threads, server.url).call("helper", "hello") == "Hello"
    ((function, arguments),) = threads.given
    assert KEY.encode() not in pickle.dumps(arguments)
    assert KEY not in repr(arguments)
    assert "hello" not in repr(arguments)
    assert function.__name__ == "ask_from_worker"
    ((_, headers, _),) = server.requests
    assert headers["Authorization"] == f"Bearer {KEY}"


def test_a_person_s_own_chat_is_not_sent(tract, threads):
    with provider(Answer()) as server:
        agent(tract, threads, server.url)
        tract.chat("hello")
    assert threads.given == []


def test_without_workers_all_is_asked_here(tract, threads):
    with provider(Answer()) as server:
        agents = agent(tract, threads, server.url)
        agents.workers = None
        assert agents.workers is None
        agents.call("helper", "hello")
    assert threads.given == []


def test_what_is_recorded_with_workers_is_replayed_without(tmp_path, threads):
    path = tmp_path / "told.jsonl"
    with provider(Answer()) as server, Tract.open(record=path) as tract:
        assert agent(tract, threads, server.url).call("helper", "hello") == "Hello"
    with provider(Answer()) as server, Tract.open(replay=path) as tract:
        assert agent(tract, threads, server.url).call("helper", "hello") == "Hello"
        assert tract.cassette.report.is_same
    assert (len(threads.given), server.requests) == (1, [])


# --- what cannot be sent is asked here, and said so


@pytest.mark.parametrize(
    ("model", "why"),
    [(elsewhere.Local(), "it cannot be pickled"), (elsewhere.Unknown(), "a worker could not use it")],
    ids=["not_pickled", "not_read"],
)
def test_what_cannot_be_sent_is_asked_here(tract, threads, model, why):
    agents = agent(tract, threads, model)
    with pytest.warns(AskedHereWarning, match=f"not a worker: {why}"):
        assert agents.call("helper", "hello") == "from here"


def test_it_is_told_once(tract, threads):
    agents = agent(tract, threads, elsewhere.Local())
    with pytest.warns(AskedHereWarning, match=r"t\.agents\.workers = None"):
        agents.call("helper", "hello")
    agents.call("helper", "again")  # another warning would be an error


@pytest.mark.parametrize("place", ["session", "headers"])
def test_a_key_of_this_session_leaves_it_in_no_way(tract, threads, place):
    with provider(Answer()) as server:
        if place == "session":
            tract.models.use("m", base_url=server.url, api_key=KEY)
        else:
            tract.models.add("far", "m", base_url=server.url, headers={"x-api-key": KEY})
            tract.models.use("far")
        agents = agent(tract, threads)
        with pytest.warns(AskedHereWarning) as told:
            assert agents.call("helper", "hello") == "Hello"
    assert threads.given == []
    assert KEY not in str(told[0].message)


def test_a_worker_without_the_key(tract, monkeypatch):
    """The key is in the environment of this process, and was not when the worker began."""
    monkeypatch.delenv("WORKERS_KEY")
    with provider(Answer()) as server, pool() as executor:
        executor.submit(elsewhere.process).result()
        monkeypatch.setenv("WORKERS_KEY", KEY)
        agents = agent(tract, executor, server.url)
        with pytest.warns(AskedHereWarning, match="environment variable WORKERS_KEY, which is not set"):
            assert agents.call("helper", "hello") == "Hello"


def test_an_executor_that_is_shut_down(tract):
    executor = ThreadPoolExecutor(1)
    executor.shutdown()
    agents = agent(tract, executor, elsewhere.Where())
    with pytest.warns(AskedHereWarning, match="ThreadPoolExecutor does not accept it"):
        assert agents.call("helper", "where?") == str(os.getpid())


def test_a_worker_without_this_package(tract):
    """What it raises comes before anything of ours runs there."""

    class Elsewhere(ThreadPoolExecutor):
        def submit(self, function, *arguments):
            return super().submit(__import__, "tract_of_another_machine")

    with Elsewhere(1) as executor:
        agents = agent(tract, executor, elsewhere.Where())
        with pytest.warns(AskedHereWarning, match="a worker lacks a needed module"):
            assert agents.call("helper", "where?") == str(os.getpid())


# --- errors


def test_a_refusal_comes_back_as_it_is(tract, threads):
    """With its words, and without the key that the provider repeats."""
    with provider(Answer({"error": {"message": f"bad key {KEY}"}}, 401)) as server:
        agents = agent(tract, threads, server.url)
        with pytest.raises(AgentError, match="failed: .*401") as caught:
            agents.call("helper", "hello")
    assert KEY not in str(caught.value)
    assert len(server.requests) == 1


def test_what_may_pass_is_tried_again(tract, threads):
    with provider(Answer({}, 503), Answer()) as server:
        assert agent(tract, threads, server.url).call("helper", "hello") == "Hello"
    assert len(threads.given) == len(server.requests) == 2


def test_a_budget_refuses_before_anything_is_sent(tract, threads):
    with provider(Answer()) as server:
        agents = agent(tract, threads, server.url)
        tract.costs.set_budget(tokens=10)
        with pytest.raises(AgentError, match="exceed the budget"):
            agents.call("helper", "hello")
    assert threads.given == []


@pytest.mark.parametrize(
    ("model", "error", "match"),
    [
        (elsewhere.Raising("no luck"), ValueError, "no luck"),
        (elsewhere.Raising("odd"), AgentError, "a client raised OddError: odd"),
        (elsewhere.Untold(), AgentError, "the worker cannot send the reply back"),
    ],
    ids=["its_own", "unreadable", "reply"],
)
def test_what_a_client_raises_there(tract, threads, model, error, match):
    agents = agent(tract, threads, model)
    with pytest.raises(Exception, match=match) as caught:
        agents.call("helper", "hello")
    causes = {type(caught.value), type(caught.value.__cause__)}
    assert any(issubclass(one, error) for one in causes)


def test_a_process_that_dies_is_a_failed_call_and_the_next_one_is_asked_here(tract):
    """A client of one's own says nothing of tries: the call has failed, and goes on by a person's word."""
    with pool() as executor:
        agents = agent(tract, executor, elsewhere.Dying())
        with pytest.raises(
            AgentError, match="the worker with the request to .* was lost .*BrokenProcessPool"
        ):
            agents.call("helper", "hello")
        assert [made.state for made in agents.calls_of("helper")] == [CallState.FAILED]
        with pytest.warns(AskedHereWarning, match="ProcessPoolExecutor does not accept it"):
            assert agents.resume("helper") == "from here"
    assert [(made.state, made.number) for made in agents.calls_of("helper")] == [(CallState.DONE, 1)]


def test_a_process_that_is_killed_in_the_middle_of_a_request(tract):
    """As a lost connection, it is tried again: the pool is broken, so from here."""
    with provider(Answer(b"", hangs=True), Answer()) as server, pool() as executor:
        there = executor.submit(elsewhere.process).result()
        agents = agent(tract, executor, server.url)
        with (  # noqa: PT031 # it warns on the thread
            pytest.warns(AskedHereWarning, match="does not accept it"),
            in_background(lambda: agents.call("helper", "hello")) as found,
        ):
            assert server.asked.wait(60)
            os.kill(there, signal.SIGKILL)
    assert found == ["Hello"]
    assert len(server.requests) == 2


# --- Stop


def test_stop_does_not_wait_for_a_worker(tract, threads):
    with provider(Answer(b"", hangs=True)) as server:
        agents = agent(tract, threads, server.url)
        with in_background(lambda: agents.call("helper", "hello")) as found:
            assert server.asked.wait(60)
            agents.stop()
        assert isinstance(found[0], AgentError)
        assert found[0].code == "stopped"
        server.closed.set()


def test_stop_takes_back_what_no_worker_has_begun(tract):
    hold, waiting = threading.Event(), threading.Event()

    class Busy(ThreadPoolExecutor):
        def submit(self, function, *arguments):
            future = super().submit(function, *arguments)
            waiting.set()
            return future

    with provider(Answer()) as server, Busy(1) as executor:
        executor.submit(hold.wait, 60)
        waiting.clear()
        agents = agent(tract, executor, server.url)
        with in_background(lambda: agents.call("helper", "hello")) as found:
            assert waiting.wait(60)
            agents.stop()
        hold.set()
    assert found[0].code == "stopped"
    assert server.requests == []


# --- whose it is to say


def test_only_an_executor_will_do(tract):
    with pytest.raises(AgentError, match="workers must be an executor"):
        tract.agents.workers = "dask"
    assert tract.agents.workers is None


def test_a_model_cannot_say_where_its_requests_are_made(tract, threads):
    @tract.tool(read_only=True)
    def escape() -> str:
        """Escape."""
        tract.agents.workers = threads
        return "escaped"

    tract.models.use(ScriptedClient(reply(None, call("escape")), "I could not."))
    tract.chat("go", tools="full")
    assert "only the user can " in str(tract.compile().to_dicts())
    assert tract.agents.workers is None


# --- clusters


def one_of_each(tract, executor, server):
    """A request with a tool call, the same request twice, a key; returns the processes that were asked."""
    places = look(tract)
    agents = agent(tract, executor, elsewhere.Where(), tools=["look"])
    processes = {int(agents.call("helper", "where?")) for _ in range(2)}
    assert places == [os.getpid()] * 2
    assert os.getpid() not in processes
    tract.models.add("far", "m", base_url=server.url, key_env="WORKERS_KEY", backoff=0.0)
    agents.create("twin", "You help.", "Helps.", model="far")
    assert [agents.call("twin", "hello") for _ in range(2)] == ["Hello", "Hello"]
    assert len(server.requests) == 2  # the same request twice is two requests
    assert {headers["Authorization"] for _, headers, _ in server.requests} == {f"Bearer {KEY}"}
    return processes


def killed(tract, kill):
    """A worker is killed while it asks: another one asks."""
    with provider(Answer(b"", hangs=True), Answer()) as server:
        tract.models.add("dying", "m", base_url=server.url, key_env="WORKERS_KEY", backoff=0.0)
        agents = tract.agents
        agents.create("victim", "You help.", "Helps.", model="dying")
        with in_background(lambda: agents.call("victim", "hello")) as found:
            assert server.asked.wait(60)
            kill()
    assert found == ["Hello"]
    assert len(server.requests) == 2


def stopped(tract):
    """Stop while a worker asks."""
    with provider(Answer(b"", hangs=True)) as server:
        tract.models.add("silent", "m", base_url=server.url, key_env="WORKERS_KEY", backoff=0.0)
        agents = tract.agents
        agents.create("silent", "You help.", "Helps.", model="silent")
        with in_background(lambda: agents.call("silent", "hello")) as found:
            assert server.asked.wait(60)
            agents.stop("silent")
        assert found[0].code == "stopped"
        server.closed.set()


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_a_dask_cluster(tract, tmp_path):
    """Asked there, killed, stopped; the key is in no name of a task and in no log."""
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, local_directory=str(tmp_path), host="127.0.0.1"
        ) as cluster,
        distributed.Client(cluster) as client,
        client.get_executor() as executor,
        provider(Answer()) as server,
    ):  # fmt: skip
        one_of_each(tract, executor, server)

        def kill():
            (busy,) = [worker for worker, tasks in client.processing().items() if tasks]
            os.kill(client.run(os.getpid, workers=[busy], nanny=False)[busy], signal.SIGKILL)

        killed(tract, kill)
        stopped(tract)
        names = {str(row[0]) for row in cluster.scheduler.transition_log}
        logs = str([client.get_worker_logs(), client.get_scheduler_logs()])
    assert any(name.startswith("ask_from_worker-") for name in names)
    assert KEY not in str(names)
    assert KEY not in logs


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_engines_of_ipyparallel(tract, tmp_path, monkeypatch):
    ipyparallel = pytest.importorskip("ipyparallel")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    with (
        ipyparallel.Cluster(
            n=2, controller_ip="127.0.0.1", profile_dir=str(tmp_path / "profile"), log_level=40
        ) as client,
        provider(Answer()) as server,
    ):
        view = client.load_balanced_view()
        engines = client[:].apply_sync(elsewhere.process)
        processes = dict(zip(client.ids, engines, strict=True))
        assert one_of_each(tract, view.executor, server) <= set(engines)

        def kill():
            status = client.queue_status()
            (busy,) = [one for one in client.ids if status[one]["tasks"]]
            os.kill(processes[busy], signal.SIGKILL)

        stopped(tract)
        killed(tract, kill)


def test_no_warning_where_all_was_sent(tract, threads):
    with warnings.catch_warnings(), provider(Answer()) as server:
        warnings.simplefilter("error")
        assert agent(tract, threads, server.url).call("helper", "hello") == "Hello"
