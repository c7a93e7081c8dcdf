"""A cassette of a session, with its children and agents."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.llm.providers import Answer, provider
from tests.review.fakes import FakeChannel, click
from tests.review.scripted import call, reply
from tract_jupyter import Session
from tract_jupyter.exceptions import CassetteError, SessionError, TractExistsError
from tract_jupyter.runs.profile import OperationProfile, run_operation

KEY = "house-key-of-the-child-42"


@pytest.fixture
def cassette(tmp_path):
    return tmp_path / "talk.cassette.jsonl"


@pytest.fixture
def replayed(cassette):
    """Replay a function in a new store without a model. The function gets the session and the parent."""

    def give(work, **options):
        with Session.open() as session:
            boss = session.create_tract(replay=cassette, **options)
            try:
                return work(session, boss)
            finally:
                boss.cassette.stop()

    return give


def recorded(cassette, work, model=None):
    with Session.open() as session:
        boss = session.create_tract(record=cassette)
        boss.models.use(model or shouting)
        return work(session, boss)


def shouting(messages, **options):
    return messages[-1]["content"][-60:].upper()


def heads(session):
    return {info.tract_id: info.head for info in session.list_tracts()}


def with_tool(tract, done):
    @tract.tool(read_only=True)
    def look(city: str) -> str:
        """Look outside."""
        done.append(city)
        return f"sunny in {city}"

    tract.loop.tools = "self"
    tract.reviewer.channel = FakeChannel(*[lambda ticket: click(ticket, "approve")] * 20)
    return tract


PROFILE = OperationProfile.of("guide", [run_operation("now", "template", order=1, text="{{ now }}", into="system")])  # fmt: skip


def family(session, boss, done):
    """The parent and four children (one is a grandchild) chat, call tools, run and collapse."""
    with_tool(boss, done)
    boss.chat("Whom shall we send?")
    birds = with_tool(session.spawn(boss, purpose="Look for birds"), done)
    birds.chat("What is it like in Rome?")
    trees = session.spawn(boss, purpose="Look for trees", inheritance="full_clone")
    run = trees.chat("Which trees?", profile=PROFILE)
    twigs = session.spawn(trees, purpose="Look for twigs", inheritance="full_clone")
    twigs.chat("Which twigs?")
    session.collapse(twigs, trees, content="Twigs of oak.")
    agent = session.spawn(boss, purpose="Try again")
    agent.chat("And again?")
    birds.tools.look("Oslo")
    session.collapse(birds, boss)  # the model writes the summary
    session.collapse(trees, boss, content="Trees of all kinds.")
    boss.chat("Thank you all.")
    told = boss.cassette.report
    return heads(session), agent.head, run.run.root_hash, told


def test_a_session_comes_out_the_same_without_a_request(cassette, replayed):
    answers = [
        Answer(reply(text)) if isinstance(text, str) else Answer(text)
        for text in (
            "Two.", reply(None, call("look", {"city": "Rome"}, "c1")), "Sunny.", "Oaks.", "Small ones.", "Again.",
            "Birds: sunny.", "Welcome.",
        )
    ]  # fmt: skip
    done = []
    with provider(*answers) as here, Session.open() as session:
        boss = session.create_tract(record=cassette)
        boss.models.use("openai/m-1", base_url=here.url, api_key=KEY)
        first = family(session, boss, done)
        boss.cassette.stop()
        asked = len(here.requests)
    assert asked == 8
    assert done == ["Rome", "Oslo"]
    assert str(first[3]).startswith(f"8 requests and 2 tool calls recorded: {cassette.name}")
    second = replayed(lambda session, boss: family(session, boss, done))
    assert second[:3] == first[:3]
    assert second[3].is_same
    assert done == ["Rome", "Oslo"]
    assert len(here.requests) == asked
    assert KEY not in cassette.read_text()


def test_a_key_of_a_child_is_not_on_it(cassette):
    with provider(Answer(reply(f"Yours is {KEY}."))) as here, Session.open() as session:
        boss = session.create_tract(record=cassette)
        boss.models.use(shouting)
        child = session.spawn(boss.chat("Hi") and boss, purpose="Ask")
        child.models.use("openai/m-1", base_url=here.url, api_key=KEY)
        boss.chat(f"The child has {KEY}.")  # before the first request of the child
        child.chat(f"My key is {KEY}, isn't it?")
        session.release_tract(child.tract_id)  # a closed child's key stays a secret
        boss.user(f"It was {KEY}.")
        other = session.spawn(boss, purpose=f"Say {KEY}")
        other.models.use(shouting)
        other.chat(KEY)
        boss.cassette.stop()
    text = cassette.read_text()
    assert KEY not in text
    assert "My key is [redacted], isn't it?" in text


def test_the_order_of_the_children_can_differ_in_a_replay(cassette, replayed):
    def work(session, boss, order):
        boss.chat("Hi")
        children = {name: session.spawn(boss, purpose=name) for name in "ab"}
        for name in order:
            children[name].chat("Go on.")
        for name in "ab":
            session.collapse(children[name], boss, content=name)
        return heads(session)

    first = recorded(cassette, lambda session, boss: work(session, boss, "aabbab"))
    assert replayed(lambda session, boss: work(session, boss, "babbaa")) == first


def test_children_with_the_same_request_get_their_own_replies(cassette, replayed):
    def work(session, boss, order):
        boss.user("Hi")
        children = {name: session.spawn(boss, purpose="Vote", display_name=name) for name in "ab"}
        return {name: children[name].chat("Yes or no?").text for name in order}

    replies = iter(["Yes.", "No."])
    first = recorded(cassette, lambda *given: work(*given, "ab"), lambda messages, **options: next(replies))
    assert replayed(lambda *given: work(*given, "ba")) == first == {"a": "Yes.", "b": "No."}


@pytest.mark.parametrize("pause", ["ab", "ba"])
def test_children_in_threads(cassette, replayed, pause):
    """Each thread spawns its own child and uses it. The order can differ."""

    def work(session, boss, order):
        boss.chat("Hi")
        turns = {name: threading.Event() for name in order}
        turns[order[0]].set()
        all_there = threading.Barrier(len(order))  # otherwise a finished thread could take the next child

        def one(name):
            all_there.wait(30)
            assert turns[name].wait(30)
            child = session.spawn(boss, purpose=name)
            following = order[order.index(name) + 1 : order.index(name) + 2]
            if following:
                turns[following].set()
            for number in range(3):
                child.chat(f"{name}, {number}")
            return child

        with ThreadPoolExecutor(len(order)) as pool:
            children = list(pool.map(one, sorted(order)))
        for child in children:
            session.collapse(child, boss)
        boss.chat("Bye")
        assert boss.cassette.report.is_same
        return heads(session)

    first = recorded(cassette, lambda session, boss: work(session, boss, "abc"))
    assert replayed(lambda session, boss: work(session, boss, f"c{pause}")) == first


def test_children_with_the_same_name_are_identified_by_their_order(cassette, replayed):
    def work(session, boss):
        boss.chat("Hi")
        for number in range(2):
            child = session.spawn(boss, purpose="Look", display_name="looker")
            child.chat(f"This is {number}.")
        return heads(session)

    first = recorded(cassette, work)
    assert len(first) == 3
    assert replayed(work) == first


def test_a_reopened_child_continues_its_recording(cassette, replayed):
    def work(session, boss):
        boss.chat("Hi")
        child = session.spawn(boss, purpose="Look")
        child.chat("One")
        session.release_tract(child.tract_id)
        boss.chat("And?")
        again = session.get_tract(child.tract_id)
        again.models.use(shouting)
        again.chat("Two")
        session.release_tract(again.tract_id)
        assert boss.cassette.report.is_same
        return heads(session)

    assert recorded(cassette, work) == replayed(work)


def test_forks_of_a_child_are_on_it(cassette, replayed):
    def work(session, boss):
        boss.chat("Hi")
        child = session.spawn(boss, purpose="a", inheritance="full_clone")
        child.chat("And?")
        child.fork(prompt="Or else?")
        boss.fork()
        assert boss.cassette.report.is_same
        return [fork.name for fork in (*boss.forks(), *child.forks())], heads(session)

    assert recorded(cassette, work) == replayed(work)


def test_other_tracts_of_the_session_are_on_it(cassette, replayed):
    def work(session, boss, model=None):
        other = session.create_tract(tract_id="other")
        other.models.use(model)
        assert other.chat("Hi").text == "HI"
        assert boss.cassette.report.requests == 1
        return heads(session)

    assert recorded(cassette, lambda *given: work(*given, shouting)) == replayed(work)


def test_a_child_from_before_is_on_it(cassette):
    with Session.open() as session:
        boss = session.create_tract()
        boss.models.use(shouting)
        boss.user("Hi")
        old = session.spawn(boss, purpose="From before")
        with boss.cassette.record(cassette):
            old.chat("And?")
        with (
            pytest.raises(CassetteError, match=r"messages\[2\]: recorded nothing"),
            boss.cassette.replay(cassette),
        ):
            old.chat("And now?")


def test_any_tract_of_the_session_ends_it(cassette, replayed):
    def work(session, boss):
        boss.chat("Hi")
        child = session.spawn(boss, purpose="a")
        for use in (child.cassette.record, child.cassette.replay):
            with pytest.raises(CassetteError, match="a session has only one cassette"):
                use(cassette.with_name("other"))
        child.chat("Hi")
        assert (child.cassette.is_recording, child.cassette.is_replaying) == (
            boss.cassette.is_recording, boss.cassette.is_replaying,
        )  # fmt: skip
        assert child.cassette.stop().head == boss.head
        assert boss.cassette.report is None
        child.models.use(shouting)
        assert child.chat("more").text == "MORE"
        return boss.head

    assert recorded(cassette, work) == replayed(work)
    assert "MORE" not in cassette.read_text()


def test_requests_of_a_child_within_a_tool_call_belong_to_that_call(cassette, replayed):
    def work(session, boss):
        boss.loop.tools = "self"
        boss.user("Hi")

        @boss.tool(read_only=True)
        def ask_child(text: str) -> str:
            """Ask a child."""
            return session.spawn(boss, purpose="a").chat("And?").text

        assert boss.tools.ask_child("Say") == "AND?"
        assert boss.cassette.report.unused == ()
        assert (boss.cassette.report.requests, boss.cassette.report.calls) == (0, 1)
        return boss.head, len(heads(session))

    assert recorded(cassette, work)[1] == 2
    assert replayed(work)[1] == 1  # the function is not called, so it creates no child


def test_a_child_calls_its_parents_tool_on_the_cassette(cassette, replayed):
    done = []

    def work(session, boss):
        with_tool(boss, done)
        boss.user("Hi")
        child = session.spawn(boss, purpose="Look", granted="self")
        assert (
            child.executor.execute("look", {"city": "Rome"}, actor=child.executor.agent).output
            == "sunny in Rome"
        )
        assert child.tools.look("Oslo") == "sunny in Oslo"
        child.chat("And?")
        return heads(session)

    first = recorded(cassette, work)
    assert done == ["Rome", "Oslo"]
    assert replayed(work) == first
    assert done == ["Rome", "Oslo"]


# --- refusals


def two_children(session, boss, names="ab", ask="Look outside."):
    boss.chat("Hi")
    children = [session.spawn(boss, purpose=name) for name in names]
    for child in children:
        child.chat(ask)
    boss.chat("Bye")


def test_a_different_request_of_a_child_is_reported(cassette, replayed):
    recorded(cassette, two_children)
    with pytest.raises(CassetteError) as caught:
        replayed(lambda session, boss: two_children(session, boss, ask="Look inside."))
    assert caught.value.differences == ("messages[1].content: recorded 'Look outside.', now 'Look inside.'",)
    assert str(caught.value).startswith("request 2 (chat) of the tract ")


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ("ac", "request 3 .chat. of the tract .* is not request 3 .chat. of the tract .*tract: recorded "),
        ("abc", "request 4 .chat. of the tract .* is not request 4 .chat. of the cassette"),
    ],
)
def test_other_children_are_refused_when_they_ask(cassette, replayed, names, words):
    recorded(cassette, two_children)
    with pytest.raises(CassetteError, match=words):
        replayed(lambda session, boss: two_children(session, boss, names))


def test_after_a_difference_everything_is_refused(cassette, replayed):
    recorded(cassette, two_children)

    def work(session, boss):
        boss.chat("Hi")
        one, other = (session.spawn(boss, purpose=name) for name in "ab")
        for tract, text in ((one, "Else"), (other, "Look outside."), (boss, "Bye")):
            with pytest.raises(CassetteError, match=r": recorded 'Look outside.', now 'Else'") as caught:
                tract.chat(text)
            assert len(caught.value.differences) == 1

    replayed(work)


def test_unused_requests_of_children_are_reported(cassette, replayed):
    recorded(cassette, two_children)

    def work(session, boss):
        boss.chat("Hi")
        for name in "ab":
            session.spawn(boss, purpose=name)
        boss.chat("Bye")
        return boss.cassette.report

    told = replayed(work)
    assert not told.is_same
    assert [one.rsplit(" ", 1)[0] for one in told.unused] == [f"request {number} (chat) of the tract" for number in (2, 3)]  # fmt: skip


def test_in_the_store_of_the_recording_its_children_exist_already(cassette, tmp_path):
    def work(session, boss):
        boss.chat("Hi")
        session.spawn(boss, purpose="a")

    with Session.open(tmp_path / "t.db") as session:
        boss = session.create_tract(tract_id="boss")
        boss.models.use(shouting)
        with boss.cassette.record(cassette):
            work(session, boss)
        with pytest.raises(TractExistsError, match="already exists. Open it with get_tract"):
            session.create_tract(replay=cassette)
        other = session.create_tract(tract_id="other")
        other.cassette.replay(cassette)
        with pytest.raises(TractExistsError, match=r"Replay the cassette in another store: Session.open\(\)"):
            work(session, other)
        other.cassette.stop()
        for options, words in [
            ({"record": cassette}, "at once"),
            ({"tract_id": "x"}, "of the tract 'boss', not of 'x'"),
        ]:
            with pytest.raises(CassetteError, match=words):
                session.create_tract(replay=cassette, **options)
        with pytest.raises(CassetteError, match="exists"):
            session.create_tract(tract_id="third", record=cassette)
        assert "third" not in heads(session)


@pytest.mark.parametrize(
    ("kind", "value", "error", "words"),
    [
        ("child", "../x y", SessionError, r"invalid tract id '\.\./x y'"),
        ("child", 5, CassetteError, "is damaged, so nothing was replayed"),
        ("time", "yesterday", CassetteError, "the time 'yesterday' of .* is damaged"),
        ("time", "2026-13-01T00:00:00.000000+00:00", CassetteError, "is damaged"),
        ("time", [1], CassetteError, "is damaged"),
    ],
)
def test_drawn_values_that_no_recording_has_are_refused(cassette, replayed, kind, value, error, words):
    recorded(cassette, two_children)
    lines = [json.loads(line) for line in cassette.read_text().splitlines()]
    for line in lines:
        if str(line.get("drawn", "")).startswith(kind):
            line["value"] = value
    cassette.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    with pytest.raises(error, match=words):
        replayed(two_children)
