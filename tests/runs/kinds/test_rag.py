"""Kind `rag`: search in the history of a branch."""

from __future__ import annotations

import pytest

from tests.runs.kinds.operations import made_by, rules
from tract_jupyter.runs.kinds import HistorySearch, OperationFailed, RagKind, Services

KIND = RagKind()


def texts(found):
    return [one["text"] for one in found]


def retrieved(tract, query, given=None, **params):
    services = Services(search=HistorySearch(tract))
    return made_by(KIND, {"query": query, **params}, services, **(given or {})).value


@pytest.fixture(params=["sqlite", "postgres"], scope="module")
def shared_url(request, tmp_path_factory):
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path_factory.mktemp('rag')}/t.db"
    else:
        server = request.getfixturevalue("postgres_server")
        with server.database(template="tract_store") as url:
            yield url


def test_messages_are_found_with_their_commits(tract):
    tract.system("You are terse.")
    said = tract.user("The red fox lives in Oslo.")
    tract.assistant("Noted.")
    found = retrieved(tract, "Where does the FOX live?")
    assert [(one["commit"], one["role"], one["text"]) for one in found] == [
        (said.commit_hash, "user", "The red fox lives in Oslo.")
    ]
    assert found[0]["score"] > 0


def test_the_query_is_a_template(tract):
    tract.user("about owls")
    tract.user("about cats")
    assert texts(retrieved(tract, "{{ art.topic.value }}", {"art": {"topic": "owls"}})) == ["about owls"]


def test_the_current_question_is_not_found(tract):
    tract.user("owls are birds")
    current = tract.user("what are owls")
    assert texts(retrieved(tract, "owls", {"user_key": current.commit_hash})) == ["owls are birds"]
    assert texts(retrieved(tract, "owls", {"turn_id": current.commit_hash})) == ["owls are birds"]
    assert texts(retrieved(tract, "owls", skipLast=1)) == ["owls are birds"]
    assert retrieved(tract, "owls", skipLast=9) == []


def test_limits(tract):
    for number in range(8):
        tract.user(f"owl {number}")
        tract.assistant("an owl")
    tract.user("dog")
    assert len(retrieved(tract, "owl")) == 5
    assert len(retrieved(tract, "owl", k=20)) == 16
    assert {one["role"] for one in retrieved(tract, "owl", k=20, roles=["user"])} == {"user"}
    assert retrieved(tract, "owl", roles=[]) == []
    best = max(one["score"] for one in retrieved(tract, "dog"))
    assert len(retrieved(tract, "dog", minScore=best)) == 1
    assert retrieved(tract, "dog", minScore=best + 1) == []


@pytest.mark.parametrize("roles", [["usr"], ["user", ""], "user"])
def test_a_role_that_no_message_has_is_refused(roles):
    assert rules(KIND, {"query": "owl", "roles": roles})


def test_the_search_follows_new_edited_and_skipped_messages(tract):
    services = Services(search=HistorySearch(tract))

    def look(query="owl"):
        return texts(made_by(KIND, {"query": query}, services).value)

    assert look() == []
    first = tract.user("an owl")
    assert look() == ["an owl"]
    tract.user("a second owl")
    assert set(look()) == {"an owl", "a second owl"}
    tract.user("a dog", edit=first.commit_hash)
    assert (look(), look("dog")) == (["a second owl"], ["a dog"])
    tract.annotate(first.commit_hash, "skip")
    assert look("dog") == []


def test_another_branch_is_not_searched(tract):
    tract.user("base owl")
    tract.branch("other", switch=False)
    tract.user("main owl")
    tract.switch("other")
    tract.user("other owl")
    assert set(texts(retrieved(tract, "owl"))) == {"base owl", "other owl"}
    assert set(texts(retrieved(tract, "owl", {"branch": "main"}))) == {"base owl", "main owl"}


def test_another_tract_of_the_store_changes_nothing(shared_url):
    from tract_jupyter import Tract

    with Tract.open(url=shared_url, tract_id="a") as mine, Tract.open(url=shared_url, tract_id="b") as other:
        mine.user("an owl")
        mine.user("a dog")
        before = retrieved(mine, "owl dog")
        for _ in range(20):
            other.user("owl owl owl")
        assert retrieved(mine, "owl dog") == before
        assert len(before) == 2


@pytest.mark.parametrize("query", ["", "  ", "?!", '"', "{{ nothing }}x"[:13]])
def test_a_query_without_words_finds_nothing(tract, query):
    tract.user("something")
    assert retrieved(tract, query or "{{ nothing }}") == []


@pytest.mark.parametrize("query", ['owl AND "', "owl*", "NOT owl", "text: owl", "owl OR"])
def test_operators_are_words(tract, query):
    tract.user("an owl")
    assert texts(retrieved(tract, query)) == ["an owl"]


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"query": ""},
        {"query": "x", "k": 0},
        {"query": "x", "k": 101},
        {"query": "x", "minScore": -1},
        {"query": "x", "nosuch": 1},
    ],
)
def test_wrong_parameters(tract, params):
    assert rules(KIND, params)
    with pytest.raises(OperationFailed) as caught:
        made_by(KIND, params, Services(search=HistorySearch(tract)))
    assert caught.value.code == "validation_error"


def test_an_empty_history_has_nothing(tract):
    assert retrieved(tract, "x") == []
    assert retrieved(tract, "x", {"branch": tract.current_branch}) == []


def test_a_host_without_history():
    with pytest.raises(OperationFailed, match="no history"):
        made_by(KIND, {"query": "x"})
