"""Several tracts in one store, used by several agents."""

from __future__ import annotations

import multiprocessing
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tract_jupyter import Session, Tract
from tract_jupyter.context import ApproximateCounter
from tract_jupyter.exceptions import (
    BranchError,
    BranchNotFoundError,
    BudgetExceededError,
    ContentError,
    DetachedHeadError,
    LLMBudgetError,
    SessionError,
    StoreClosedError,
    TractExistsError,
    UnknownTractError,
)
from tract_jupyter.models import TokenBudget

PATIENT = 60.0  # seconds; a loaded machine is slow, not wrong


def open_session(where=":memory:"):
    return Session.open(where, tokenizer=ApproximateCounter(), lock_timeout=PATIENT)


@pytest.fixture
def session():
    with open_session() as opened:
        yield opened


@pytest.fixture
def parent(session):
    tract = session.create_tract(display_name="Boss", tract_id="boss")
    tract.system("be brief")
    tract.user("question")
    return tract


def texts(tract):
    return [message.content for message in tract.compile().messages]


# tracts


def test_tracts_of_a_store(session, parent):
    other = session.create_tract()
    assert [(info.tract_id, info.display_name) for info in session.list_tracts()] == [
        ("boss", "Boss"),
        (other.tract_id, "main"),
    ]
    info, empty = session.list_tracts()
    assert (info.branch, info.head, info.commit_count) == ("main", parent.head, 2)
    assert info.token_count == parent.status().token_count
    assert (empty.branch, empty.head, empty.commit_count, empty.token_count) == ("main", None, 0, 0)
    assert session.get_tract("boss") is parent
    other.user("x")
    assert texts(parent) == ["be brief", "question"]


def test_a_store_is_shared_with_tract_open(tmp_path):
    with open_session(tmp_path / "s.db") as session:
        session.create_tract(tract_id="first").user("x")
        session.create_tract(tract_id="second")
    with Tract.open(tmp_path / "s.db") as tract:
        assert tract.tract_id == "first"
    with Tract.open(tmp_path / "s.db", tract_id="third"), open_session(tmp_path / "s.db") as session:
        assert [info.tract_id for info in session.list_tracts()] == ["first", "second", "third"]
        assert texts(session.get_tract("first")) == ["x"]


@pytest.mark.parametrize("name", ["", "a b", "a:b", "x" * 33, "a\0", "a/b", 7])
def test_ids_that_no_tract_can_have(session, name):
    with pytest.raises(SessionError, match="invalid tract id"):
        session.create_tract(tract_id=name)
    assert session.list_tracts() == []


@pytest.mark.parametrize("name", ["", " ", "x" * 256, "a\0", None])
def test_names_that_no_tract_can_have(session, name):
    with pytest.raises(SessionError, match="Invalid name"):
        session.create_tract(display_name=name)
    assert session.list_tracts() == []


def test_an_id_is_taken_once(session, parent):
    with pytest.raises(TractExistsError, match="'boss' already"):
        session.create_tract(tract_id="boss")
    assert session.get_tract("boss") is parent


@pytest.mark.parametrize("name", ["bos", "boss:topic", "", ":", "boss:", 3, None, "x" * 99])
def test_unknown_tracts(session, parent, name):
    if name == "boss:":
        assert session.get_tract(name).tract_id == "boss"
        return
    for ask in (session.get_tract, session.release_tract):
        with pytest.raises(UnknownTractError, match="No tract or agent"):
            ask(name)


def test_the_error_for_an_unknown_tract_lists_the_tracts(session):
    with pytest.raises(UnknownTractError, match="store is empty. Create one with create_tract"):
        session.get_tract("bos")
    session.create_tract(tract_id="boss")
    with pytest.raises(UnknownTractError, match=r"Did you mean 'boss'\? Tracts of the store: boss"):
        session.get_tract("bos")


def test_a_token_budget_applies_to_one_tract(session, parent):
    small = session.create_tract(budget=TokenBudget(5, "reject"))
    with pytest.raises(BudgetExceededError):
        small.user("far too many words for this")
    parent.user("far too many words for this")


def test_costs_and_their_budget_apply_to_all_tracts_of_a_session(session, parent):
    """Requests of children, agents and reopened tracts count in the session."""

    def model(messages, **options):
        usage = {"prompt_tokens": 10, "completion_tokens": 2}
        return {"choices": [{"message": {"content": "Hello."}}], "usage": usage}

    child = session.spawn(parent, purpose="look around")
    agent = parent.beside("boss", "try", "try it")
    for number, tract in enumerate((parent, child, agent), 1):
        tract.models.use(model)
        tract.chat("Hi", max_tokens=2)
        assert parent.costs().tokens == number * 12
    session.release_tract("boss")
    parent = session.get_tract("boss")
    assert parent.costs().requests == 3
    parent.costs.set_budget(tokens=40)
    with pytest.raises(LLMBudgetError, match="this session has used 36"):
        child.chat("Hi", max_tokens=2)
    assert str(agent.costs.budget) == "40 tokens"
    parent.models.price("your function", input=0, output=500_000)
    assert child.costs.budget == parent.costs.budget
    with open_session() as other:
        assert other.create_tract().costs().lines == ()


def test_closing_one_tract_leaves_the_others(session, parent):
    other = session.create_tract(tract_id="other")
    other.close()
    other.close()
    with pytest.raises(StoreClosedError, match="open it again with get_tract of the session"):
        other.user("x")
    with pytest.raises(StoreClosedError, match="get_tract"):
        session.spawn(other, purpose="x")
    parent.user("goes on")
    again = session.get_tract("other")
    assert again is not other
    again.user("x")


def test_releasing_a_tract(session, parent):
    session.release_tract("boss")
    session.release_tract("boss")
    with pytest.raises(StoreClosedError):
        parent.compile()
    assert texts(session.get_tract("boss")) == ["be brief", "question"]
    with pytest.raises(SessionError, match="not open in this session"):
        session.spawn(parent, purpose="x")


def test_a_closed_session(tmp_path):
    session = open_session(tmp_path / "s.db")
    tract = session.create_tract(tract_id="t")
    tract.user("x")
    session.close()
    session.close()
    for ask in (
        session.create_tract,
        session.list_tracts,
        session.resume,
        lambda: session.get_tract("t"),
        lambda: session.release_tract("t"),
        lambda: session.spawn(tract, purpose="x"),
        lambda: session.collapse(tract, tract, content="x"),
    ):
        with pytest.raises(
            StoreClosedError, match=r"session on .* is closed. Open it again with Session.open"
        ):
            ask()
    with pytest.raises(StoreClosedError):
        tract.user("y")


@pytest.mark.parametrize("foreign", [None, "boss"])
def test_a_session_works_with_its_own_tracts_only(session, parent, foreign):
    with Tract.open(tract_id="boss") as stranger:
        given = stranger if foreign else None
        for ask in (
            lambda: session.spawn(given, purpose="x"),
            lambda: session.collapse(given, parent, content="x"),
            lambda: session.collapse(parent, given, content="x"),
        ):
            with pytest.raises(SessionError, match="session"):
                ask()


# collapse


def test_a_childs_outcome_is_a_commit_of_the_parent(session, parent):
    child = session.spawn(parent, purpose="look")
    child.assistant("a long search")
    before = child.compile()
    result = session.collapse(child, parent, content="found it", message="done")
    assert texts(parent) == ["be brief", "question", "found it"]
    assert child.compile() == before
    assert result.commit == parent.get_commit("HEAD")
    assert (result.commit.content_type, result.commit.message) == ("output", "done")
    assert parent.get_commit("HEAD").metadata == {
        "collapse_source_tract_id": child.tract_id,
        "collapse_source_head": child.head,
    }
    assert (result.child_id, result.child_head) == (child.tract_id, child.head)
    assert result.child_tokens == before.token_count
    assert parent.events("collapse")[0].data == {"child": child.tract_id, "commit": result.commit_hash}
    parent.undo()
    assert texts(parent) == ["be brief", "question"]


def test_an_agents_outcome(session, parent):
    parent.beside("agents", "topic", "look").close()
    agent = session.get_tract("agents:topic")
    agent.user("hm")
    seen = []

    def summarizer(messages, criteria, instructions, target_tokens):
        seen.append(([message.content for message in messages], tuple(criteria), instructions, target_tokens))
        return "in short"

    result = session.collapse(agent, parent, summarizer=summarizer, instructions="be short", target_tokens=50)
    assert seen == [(["hm"], (), "be short", 50)]
    assert texts(parent) == ["be brief", "question", "in short"]
    assert result.child_id == "agents:topic"
    session.release_tract("agents:topic")
    found = session.get_tract(result.child_id)
    assert (found.current_branch, texts(found)) == ("topic", ["hm"])


def test_a_content_of_its_own_type(session, parent):
    child = session.spawn(parent, purpose="look")
    session.collapse(
        child, parent, content={"content_type": "artifact", "artifact_type": "table", "content": "1|2"}
    )
    assert parent.get_commit("HEAD").content_type == "artifact"


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({}, "give content or a summarizer"),
        ({"content": "x", "summarizer": lambda *_: "x"}, "not both"),
        ({"content": " "}, "empty"),
        ({"summarizer": lambda *_: ""}, "empty"),
        ({"summarizer": lambda *_: None}, "empty"),
        ({"content": {"content_type": "nothing"}}, "not a valid content"),
    ],
)
def test_a_collapse_that_is_refused_changes_nothing(session, parent, options, error):
    child = session.spawn(parent, purpose="look")
    before = (parent.compile(), parent.log(None), parent.events())
    with pytest.raises((SessionError, ContentError), match=error):
        session.collapse(child, parent, **options)
    assert (parent.compile(), parent.log(None), parent.events()) == before


def test_invalid_collapses_are_refused(session, parent):
    with pytest.raises(SessionError, match="into itself"):
        session.collapse(parent, parent, content="x")
    with pytest.raises(SessionError, match="Nothing to collapse"):
        session.collapse(session.create_tract(), parent, content="x")
    child = session.spawn(parent, purpose="look")
    parent.checkout(parent.head)
    with pytest.raises(DetachedHeadError):
        session.collapse(child, parent, content="x")
    parent.checkout("main")
    parent.budget = TokenBudget(5, "reject")
    with pytest.raises(BudgetExceededError):
        session.collapse(child, parent, content="x")
    assert parent.events("collapse") == []


def test_resume(tmp_path):
    with open_session(tmp_path / "s.db") as session:
        with pytest.raises(SessionError, match="Nothing to resume"):
            session.resume()
        session.create_tract(tract_id="one")
        session.create_tract(tract_id="two")
        assert session.resume().tract_id == "two"
        session.get_tract("one").user("x")
    with open_session(tmp_path / "s.db") as session:
        assert session.resume().tract_id == "one"
        assert texts(session.resume()) == ["x"]


# agents


def test_an_agent_is_found_again(tmp_path):
    with open_session(tmp_path / "s.db") as session:
        parent = session.create_tract(tract_id="boss")
        parent.user("x")
        parent.beside("boss", "team/a", "work").user("y")
    with open_session(tmp_path / "s.db") as session:
        agent = session.get_tract("boss:team/a")
        assert (texts(agent), agent.current_branch) == (["y"], "team/a")
        assert session.get_tract("boss").current_branch == "main"
        assert agent is session.get_tract(agent.family.agent_id)


def test_deleting_its_branch_dismisses_an_agent(session, parent):
    agent = parent.beside("boss", "topic", "work")
    agent.user("x")
    with pytest.raises(BranchError, match="current branch"):
        agent.delete_branch("topic", force=True)
    with pytest.raises(BranchError, match="current branch"):
        agent.delete_branch("main", force=True)
    parent.delete_branch("topic", force=True)
    for use in (agent.compile, lambda: agent.user("y"), agent.status):
        with pytest.raises(BranchNotFoundError, match="branch of this agent was deleted"):
            use()
    with pytest.raises(UnknownTractError):
        session.get_tract("boss:topic")


def test_batches_of_two_tracts_within_each_other(session, parent):
    other = session.create_tract(tract_id="other")
    with parent.batch():
        parent.user("1")
        with other.batch():
            other.user("2")
            parent.user("3")
        assert len(parent.log()) == 4
        assert session.list_tracts()[0].commit_count == 4
    assert (texts(parent)[2:], texts(other)) == (["1", "3"], ["2"])
    with pytest.raises(RuntimeError), parent.batch():  # noqa: PT012
        parent.user("4")
        other.user("5")
        raise RuntimeError
    assert (texts(parent)[2:], texts(other)) == (["1", "3"], ["2"])
    parent.user("6")
    other.user("7")
    assert parent.verify() == other.verify() == []


def test_commits_of_another_session_do_not_break_a_batch(tmp_path):
    with open_session(tmp_path / "s.db") as one, open_session(tmp_path / "s.db") as two:
        parent, other = one.create_tract(tract_id="a"), one.create_tract(tract_id="b")
        other.user("1")
        two.get_tract("b").user("2")
        with parent.batch():
            parent.user("x")
            other.user("3")
        assert (texts(parent), texts(other)) == (["x"], ["1", "2", "3"])


@pytest.mark.parametrize("place", ["memory", "file"])
def test_agents_in_threads_lose_nothing(tmp_path, place):
    with open_session(":memory:" if place == "memory" else tmp_path / "s.db") as session:
        parent = session.create_tract(tract_id="boss")
        parent.user("start")
        start = threading.Barrier(3)

        def work(name):
            start.wait()
            agent = parent if name == "main" else parent.beside("boss", name, name)
            for number in range(12):
                info = agent.user(f"{name}:{number}")
                if number % 4 == 3:
                    agent.annotate(info.commit_hash, "pinned")
            return agent

        with ThreadPoolExecutor(3) as pool:
            agents = list(pool.map(work, ["main", "a", "b"]))
        for name, agent in zip(["main", "a", "b"], agents, strict=True):
            own = [text for text in texts(agent) if text.startswith(f"{name}:")]
            assert own == [f"{name}:{number}" for number in range(12)]
            assert agent.current_branch == name
        assert parent.verify() == []


def in_process(path, branch, start):
    start.wait()
    with open_session(path) as session:
        agent = session.get_tract(f"boss:{branch}")
        for number in range(15):
            agent.user(f"{branch}:{number}")


@pytest.mark.slow
def test_agents_in_processes_lose_nothing(tmp_path):
    path = tmp_path / "s.db"
    with open_session(path) as session:
        parent = session.create_tract(tract_id="boss")
        parent.user("start")
        for name in ("a", "b"):
            parent.beside("boss", name, name)
        spawn = multiprocessing.get_context("spawn")
        start = spawn.Barrier(3)
        workers = [spawn.Process(target=in_process, args=(path, name, start)) for name in ("a", "b")]
        for worker in workers:
            worker.start()
        start.wait()
        for number in range(15):
            parent.user(f"main:{number}")
        for worker in workers:
            worker.join()
        assert [worker.exitcode for worker in workers] == [0, 0]
        for name in ("main", "a", "b"):
            tract = parent if name == "main" else session.get_tract(f"boss:{name}")
            assert texts(tract)[-15:] == [f"{name}:{number}" for number in range(15)]
        assert parent.verify() == []


def test_two_sessions_make_one_tract_once(tmp_path):
    path = tmp_path / "s.db"
    with open_session(path) as one, open_session(path) as two:
        start = threading.Barrier(2)

        def make(session):
            start.wait()
            try:
                return session.create_tract(tract_id="t")
            except TractExistsError:
                return None

        with ThreadPoolExecutor(2) as pool:
            made = list(pool.map(make, (one, two)))
        assert len([tract for tract in made if tract]) == 1
        assert [info.tract_id for info in one.list_tracts()] == ["t"]


def test_the_repr_of_a_session_shows_its_location(session, parent):
    assert repr(session) == "<Session on :memory:>"
    assert session.location == parent.location == ":memory:"


# arguments

WRONG = {
    "get_tract": (SessionError, lambda s, p: s.get_tract([])),
    "release_tract": (SessionError, lambda s, p: s.release_tract([])),
    "budget": (ContentError, lambda s, p: s.create_tract(budget=5)),
    "inheritance": (SessionError, lambda s, p: s.spawn(p, purpose="x", inheritance=[])),
    "summarizer": (SessionError, lambda s, p: s.collapse(s.spawn(p, purpose="x"), p, summarizer=5)),
}


@pytest.mark.parametrize(("error", "call"), WRONG.values(), ids=WRONG)
def test_invalid_arguments_are_refused_and_change_nothing(session, parent, error, call):
    before = parent.status(), parent.log(None), parent.list_branches()
    with pytest.raises(error):
        call(session, parent)
    assert (parent.status(), parent.log(None), parent.list_branches()) == before


def test_resume_gives_the_root_of_a_family(session, parent):
    child = session.spawn(parent, purpose="look")
    grandchild = session.spawn(child, purpose="look closer")
    grandchild.user("found it")
    assert session.resume().tract_id == parent.tract_id


# the session of a tract


def test_a_tract_has_the_session_that_made_it(session, parent):
    child = session.spawn(parent, purpose="look")
    assert parent.session is child.session is session


def test_a_tract_that_was_opened_has_a_session_around_it(tmp_path):
    with Tract.open(tmp_path / "s.db", tokenizer=ApproximateCounter()) as tract:
        tract.user("question")
        session = tract.session
        assert tract.session is session
        assert session.get_tract(tract.tract_id) is tract
        child = session.spawn(tract, purpose="look")
        agent = tract.beside("agents", "try", "look")
        assert child.session is agent.session is session
        child.models.use(lambda messages, **options: "found")
        child.chat("Look.")
        assert tract.costs().requests == agent.costs().requests == 1
        session.collapse(child, tract, content="found")
        assert texts(tract) == ["question", "found"]
        name = child.tract_id
    with Tract.open(tmp_path / "s.db") as tract:
        assert texts(tract.session.get_tract(name))[-1] == "found"


def test_closing_a_tract_closes_its_session_and_the_other_way_round(tmp_path):
    tract = Tract.open(tmp_path / "s.db")
    tract.user("question")
    session = tract.session
    child = session.spawn(tract, purpose="look")
    tract.close()
    for use in (lambda: child.user("x"), lambda: tract.user("x"), session.list_tracts):
        with pytest.raises(StoreClosedError):
            use()
    tract.close()
    session.close()
    tract = Tract.open(tmp_path / "s.db")
    session = tract.session
    session.close()
    with pytest.raises(StoreClosedError):
        tract.user("x")


def test_releasing_a_child_leaves_the_tract_that_the_session_is_around(tmp_path):
    with Tract.open(tmp_path / "s.db") as tract:
        tract.user("question")
        child = tract.session.spawn(tract, purpose="look")
        tract.session.release_tract(child.tract_id)
        with pytest.raises(StoreClosedError):
            child.user("x")
        assert tract.session.get_tract(child.tract_id) is not child
        tract.user("more")


def test_a_child_of_an_opened_tract_is_on_its_cassette(tmp_path):
    where = tmp_path / "talk.cassette.jsonl"

    def work(tract):
        tract.user("question")
        child = tract.session.spawn(tract, purpose="look")
        child.chat("Look.")
        tract.session.collapse(child, tract, content="found")
        return tract.head, child.head

    with Tract.open(record=where, model=lambda messages, **options: "found") as tract:
        first = work(tract)
    with Tract.open(replay=where) as tract:
        assert work(tract) == first
        assert tract.cassette.stop().is_same


def test_granted_must_be_a_profile(session, parent):
    for wrong in ("nothing", 3):
        with pytest.raises(ContentError):
            session.spawn(parent, purpose="look", granted=wrong)
    assert len(session.list_tracts()) == 1
    assert parent.family.children() == []
