"""A cassette of a session: what is spawned from the tract that it was begun on is recorded and replayed, too."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.hooks.fakes import call, reply
from tests.llm.providers import Answer, provider
from tests.review.fakes import FakeChannel, click
from tract_jupyter import Session, Tract
from tract_jupyter.exceptions import BranchExistsError, CassetteError, SessionError, TractExistsError
from tract_jupyter.runs.profile import OperationProfile, run_operation

KEY = "house-key-of-the-child-42"


@pytest.fixture
def cassette(tmp_path):
    return tmp_path / "talk.cassette.jsonl"


@pytest.fixture
def replayed(cassette):
    """Replay a function in a fresh store, with no model; it is given the session and the parent."""

    def give(work, **options):
        with Session.open() as session:
            boss = session.create_tract(replay=cassette, **options)
            try:
                return work(session, boss)
            finally:
                if boss.cassette.is_replaying:
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
    """The parent chats; three children, one of them on a branch and one a grandchild, chat, call, run, collapse."""
    with_tool(boss, done)
    boss.chat("Whom shall we send?")
    birds = with_tool(session.spawn(boss, purpose="Look for birds"), done)
    birds.chat("What is it like in Rome?")
    trees = session.spawn(boss, purpose="Look for trees", inheritance="full_clone")
    run = trees.chat("Which trees?", profile=PROFILE)
    twigs = session.spawn(trees, purpose="Look for twigs", inheritance="full_clone")
    twigs.chat("Which twigs?")
    session.collapse(twigs, trees, content="Twigs of oak.")
    agent = session.deploy(boss, purpose="Ask again", branch_name="again", curate={"keep_tags": ()})
    agent.chat("And again?")
    birds.tools.look("Oslo")
    session.collapse(birds, boss)  # whose summary the model writes
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
    assert str(first[3]).startswith(f"8 requests and 2 tool calls recorded, with 4 children: {cassette.name}")
    second = replayed(lambda session, boss: family(session, boss, done))
    assert second[:3] == first[:3]
    assert second[3].is_same
    assert [child.name.split(" (")[0] for child in second[3].children] == [
        "child 'Look for birds'", "child 'Look for trees'", "child 'Look for twigs'", "agent 'again'",
    ]  # fmt: skip
    assert done == ["Rome", "Oslo"]
    assert len(here.requests) == asked
    assert KEY not in cassette.read_text()


def test_a_key_of_a_child_is_not_on_it(cassette):
    with provider(Answer(reply(f"Yours is {KEY}."))) as here, Session.open() as session:
        boss = session.create_tract(record=cassette)
        boss.user("Hi")
        child = session.spawn(boss, purpose="Ask")
        child.models.use("openai/m-1", base_url=here.url, api_key=KEY)
        child.chat(f"My key is {KEY}, isn't it?")
        session.release_tract(child.tract_id)  # and it stays known when the child is closed
        boss.user(f"It was {KEY}.")
        other = session.spawn(boss, purpose=f"Say {KEY}")
        other.models.use(shouting)
        other.chat(KEY)
        boss.cassette.stop()
    text = cassette.read_text()
    assert KEY not in text
    assert "My key is [redacted], isn't it?" in text


def test_it_does_not_matter_which_child_was_first(cassette, replayed):
    """Each has its own order; what one asks does not wait for the other."""

    def work(session, boss, order):
        boss.chat("Hi")
        children = {name: session.spawn(boss, purpose=name) for name in "ab"}
        for name in order:
            children[name].chat(f"Go on, {name}.")
        for name in "ab":
            session.collapse(children[name], boss, content=name)
        return heads(session)

    first = recorded(cassette, lambda session, boss: work(session, boss, "aabbab"))
    assert replayed(lambda session, boss: work(session, boss, "babbaa")) == first


@pytest.mark.parametrize("pause", ["ab", "ba"])
def test_children_in_threads(cassette, replayed, pause):
    """Each thread spawns its child and works with it; whichever comes first, all come out the same."""

    def work(session, boss, order):
        boss.chat("Hi")
        turns = {name: threading.Event() for name in order}
        turns[order[0]].set()
        all_there = threading.Barrier(len(order))  # a thread that is done with one could take the next

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


def test_two_children_of_one_name_are_told_apart_by_their_order(cassette, replayed):
    def work(session, boss):
        boss.chat("Hi")
        for number in range(2):
            child = session.spawn(boss, purpose="Look", display_name="looker")
            child.chat(f"This is {number}.")
        return heads(session)

    first = recorded(cassette, work)
    assert len(first) == 3
    assert replayed(work) == first


def test_a_child_that_was_closed_and_opened_again_goes_on(cassette, replayed):
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

    first = recorded(cassette, work)
    assert len(json.loads(cassette.read_text().splitlines()[-1])["end"]["heads"]) == 1
    assert replayed(work) == first


KILLED = """
import os, sys
from tract_jupyter import Session
replies = iter(["One.", "Two.", "Three."])
session = Session.open()
boss = session.create_tract(record=sys.argv[1])
boss.models.use(lambda messages, **options: next(replies, None) or os._exit(9))
boss.chat("a")
child = session.spawn(boss, purpose="c")
child.chat("b")
grandchild = session.spawn(child, purpose="g")
grandchild.chat("c")
child.chat("d")
"""


def test_what_children_did_before_a_kill_can_be_replayed(cassette):
    assert subprocess.run([sys.executable, "-c", KILLED, cassette], check=False, timeout=60).returncode == 9
    with Session.open() as session:
        boss = session.create_tract(replay=cassette.with_name(cassette.name + ".partial"))
        boss.chat("a")
        child = session.spawn(boss, purpose="c")
        assert child.chat("b").text == "Two."
        assert session.spawn(child, purpose="g").chat("c").text == "Three."
        with pytest.raises(CassetteError, match=r"of the child 'c' .*its recording did not go further"):
            child.chat("d")


def test_forks_of_a_child_are_on_it(cassette, replayed):
    def work(session, boss):
        boss.chat("Hi")
        child = session.spawn(boss, purpose="a", inheritance="full_clone")
        child.chat("And?")
        child.fork(prompt="Or else?")
        boss.fork(change=lambda t: t.system("Be brief."))
        assert boss.cassette.report.is_same
        return [fork.name for fork in (*boss.forks(), *child.forks())], heads(session)

    assert recorded(cassette, work) == replayed(work)


def test_an_interrupted_spawn_is_not_on_it(cassette, replayed):
    def work(session, boss, interrupts):
        def interrupted(*args, **options):
            raise KeyboardInterrupt

        boss.chat("Hi")
        if interrupts:
            curate = {"compact_before": boss.head, "summary": interrupted}
            with pytest.raises(KeyboardInterrupt):
                session.deploy(boss, purpose="a", branch_name="a", curate=curate)
        agent = session.deploy(boss, purpose="a", branch_name="a")
        agent.chat("And?")
        assert boss.cassette.report.is_same
        return agent.head, heads(session)

    assert recorded(cassette, lambda *given: work(*given, True)) == replayed(
        lambda *given: work(*given, False)
    )


# --- what is refused


def two_children(session, boss, names="ab", ask="Look outside.", purpose="{}"):
    boss.chat("Hi")
    children = [session.spawn(boss, purpose=purpose.format(name)) for name in names]
    for child in children:
        child.chat(ask)
    boss.chat("Bye")


def test_a_miss_in_a_child_names_it_and_what_differs(cassette, replayed):
    recorded(cassette, two_children)
    with pytest.raises(CassetteError) as caught:
        replayed(lambda session, boss: two_children(session, boss, ask="Look inside."))
    told = str(caught.value)
    assert told.startswith("request 1 (chat) of the child 'a' (")
    assert ") is not request 1 (chat) of the cassette talk.cassette.jsonl: messages[1].content: " in told
    assert "recorded 'Look outside.', now 'Look inside.'" in told
    assert len(caught.value.differences) == 1


def test_from_a_miss_on_all_are_refused(cassette, replayed):
    recorded(cassette, two_children)

    def work(session, boss):
        boss.chat("Hi")
        one, other = (session.spawn(boss, purpose=name) for name in "ab")
        with pytest.raises(CassetteError, match=r"of the child 'a'"):
            one.chat("Else")
        for tract in (other, boss):
            with pytest.raises(
                CassetteError, match=r"of the child 'a' .*: recorded 'Look outside.', now 'Else'"
            ):
                tract.chat("Look outside.")

    replayed(work)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"names": "ba"}, r"spawn 1 \(child 'b'\) is not spawn 1 \(child 'a'\) of the cassette .*purpose: recorded 'a', now 'b'"),
        ({"names": ""}, r"request 2 \(chat\) is not what comes next on the cassette .*: that is spawn 1 \(child 'a'\)"),
        ({"names": "a"}, r"request 2 \(chat\) is not what comes next on the cassette .*: that is spawn 2 \(child 'b'\)"),
        ({"names": "abc"}, r"spawn 3 \(child 'c'\) is not what comes next .*: that is request 2 \(chat\)"),
        ({"names": "aa"}, r"spawn 2 \(child 'a'\) is not spawn 2 \(child 'b'\)"),
    ],
)  # fmt: skip
def test_other_spawns_are_refused(cassette, replayed, change, words):
    recorded(cassette, two_children)
    with pytest.raises(CassetteError, match=words):
        replayed(lambda session, boss: two_children(session, boss, **change))


def test_another_way_of_making_a_child_is_refused(cassette, replayed):
    def work(session, boss, **options):
        boss.chat("Hi")
        return session.spawn(boss, purpose="a", **options)

    recorded(cassette, work)
    with pytest.raises(CassetteError, match=r"inheritance: recorded 'head_snapshot', now 'full_clone'"):
        replayed(lambda session, boss: work(session, boss, inheritance="full_clone"))
    with pytest.raises(CassetteError, match="way: recorded 'spawn', now 'deploy'"):
        replayed(lambda session, boss: (boss.chat("Hi"), session.deploy(boss, purpose="a", branch_name="a")))


def test_what_a_child_did_not_ask_is_told(cassette, replayed):
    recorded(cassette, two_children)

    def work(session, boss):
        boss.chat("Hi")
        for name in "ab":
            session.spawn(boss, purpose=name)
        boss.chat("Bye")
        return boss.cassette.report

    told = replayed(work)
    assert not told.is_same
    assert [one.rsplit(" (", 1)[0] for one in told.unused] == [f"request 1 (chat) of the child '{name}'" for name in "ab"]  # fmt: skip


def test_a_child_that_had_asked_nothing_asks_nothing(cassette, replayed):
    def work(session, boss):
        boss.chat("Hi")
        return session.spawn(boss, purpose="a")

    recorded(cassette, work)
    with pytest.raises(CassetteError, match=r"request 1 \(chat\) of the child 'a' .* is not on the cassette"):
        replayed(lambda session, boss: work(session, boss).chat("Hi"))


def test_a_child_that_differs_without_asking_is_told(cassette, replayed):
    def work(session, boss, text="note"):
        boss.chat("Hi")
        session.spawn(boss, purpose="a").user(text)
        return boss.cassette.report

    first = recorded(cassette, work)
    told = replayed(lambda session, boss: work(session, boss, "other note"))
    assert told.head == told.recorded_head == first.head
    assert not told.is_same
    assert "the root hash of the child 'a' (" in str(told)
    assert replayed(work).is_same


@pytest.mark.parametrize("way", ["record", "replay"])
def test_a_child_from_before_is_refused(cassette, way):
    with provider(Answer(reply("Yes."))) as here, Session.open() as session:
        boss = session.create_tract()
        boss.models.use("openai/m-1", base_url=here.url, api_key=KEY)
        boss.user("Hi")
        old = session.spawn(boss, purpose="From before")
        start, asked = boss.head, 0
        if way == "replay":
            with boss.cassette.record(cassette):
                boss.chat("And?")
            boss.branch("again", source=start)
            asked = 1
            boss.cassette.replay(cassette)
        else:
            boss.cassette.record(cassette)
        words = (
            rf"the tract {old.tract_id} was spawned before talk.cassette.jsonl was begun .*nothing was asked"
        )
        with pytest.raises(CassetteError, match=words):
            old.chat("And?")
        with pytest.raises(CassetteError, match=words):
            session.spawn(old, purpose="More")
        with pytest.raises(CassetteError, match=words):
            old.models.client_for("consult").chat([{"role": "user", "content": "?"}])
        assert len(here.requests) == asked
        with old.cassette.record(cassette.with_name("own")):
            old.chat("And?")
        boss.cassette.stop()
        old.chat("And now?")
        assert len(here.requests) == asked + 2


def test_other_tracts_of_the_session_ask_as_ever(cassette):
    with Session.open() as session:
        boss = session.create_tract(record=cassette)
        other = session.create_tract()
        other.models.use(shouting)
        assert other.chat("Hi").text == "HI"
        assert boss.cassette.stop().requests == 0


def test_a_cassette_ends_where_it_was_begun(cassette, replayed):
    def work(session, boss):
        boss.chat("Hi")
        child = session.spawn(boss, purpose="a")
        with pytest.raises(
            CassetteError, match=r"spawned from, so it goes on; tract.cassette.stop\(\) of that one"
        ):
            child.cassette.stop()
        for use in (child.cassette.record, child.cassette.replay):
            with pytest.raises(CassetteError, match=r"of the tract that it was begun on ends it"):
                use(cassette.with_name("other"))
        child.chat("Hi")
        assert (child.cassette.is_recording, child.cassette.is_replaying) == (
            boss.cassette.is_recording, boss.cassette.is_replaying,
        )  # fmt: skip
        boss.cassette.stop()
        assert child.cassette.report is None
        child.models.use(shouting)
        assert child.chat("more").text == "MORE"
        return boss.head

    assert recorded(cassette, work) == replayed(work)
    assert "MORE" not in cassette.read_text()


def test_a_spawn_that_failed_fails_again(cassette, replayed):
    def work(session, boss, fail=True):
        boss.chat("Hi")
        session.deploy(boss, purpose="a", branch_name="a").chat("One")
        if fail:
            with pytest.raises(BranchExistsError):
                session.deploy(boss, purpose="a", branch_name="a")
        with pytest.raises(SessionError):
            session.deploy(boss, purpose="a", branch_name="b", curate={"keep_tags": ["none"]})
        session.deploy(boss, purpose="a", branch_name="b").chat("Two")
        assert boss.cassette.report.is_same
        return heads(session)

    assert recorded(cassette, work) == replayed(work)

    def another(session, boss):
        boss.chat("Hi")
        session.deploy(boss, purpose="a", branch_name="a").chat("One")
        boss.branch("other", source=boss.head)
        boss.delete_branch("a", force=True)
        session.deploy(boss, purpose="a", branch_name="a")

    with pytest.raises(CassetteError, match="result"):
        replayed(another)


def test_in_the_store_of_the_recording_its_children_are_there_already(cassette, tmp_path):
    def work(session, boss):
        boss.chat("Hi")
        session.spawn(boss, purpose="a")

    with Session.open(tmp_path / "t.db") as session:
        boss = session.create_tract(tract_id="boss")
        boss.models.use(shouting)
        with boss.cassette.record(cassette):
            work(session, boss)
        with pytest.raises(TractExistsError, match="already; get_tract"):
            session.create_tract(replay=cassette)
        other = session.create_tract(tract_id="other")
        other.cassette.replay(cassette)
        with pytest.raises(TractExistsError, match=r"replay the cassette in another store: Session.open\(\)"):
            work(session, other)
        other.cassette.stop()
        for options, words in [
            ({"record": cassette}, "both"),
            ({"tract_id": "x"}, "of the tract 'boss', not of 'x'"),
        ]:
            with pytest.raises(CassetteError, match=words):
                session.create_tract(replay=cassette, **options)
        with pytest.raises(CassetteError, match="is there already"):
            session.create_tract(tract_id="third", record=cassette)
        assert "third" not in heads(session)


def test_what_a_tool_does_with_a_child_is_a_part_of_its_call(cassette, replayed):
    def work(session, boss):
        boss.loop.tools = "self"
        boss.user("Hi")

        @boss.tool(read_only=True)
        def ask_child(text: str) -> str:
            """Ask a child."""
            child = session.spawn(boss, purpose="a")
            threads = [threading.Thread(target=child.chat, args=(text,))]
            for thread in threads:
                thread.start()
                thread.join()
            return child.chat("And?").text

        assert boss.tools.ask_child("Say") == "AND?"
        assert boss.cassette.report.unused == ()
        return boss.head, len(heads(session))

    assert recorded(cassette, work)[1] == 2
    assert replayed(work)[1] == 1  # no function of one's own is called, and so no child made


# --- the file


def edited(cassette, change):
    """Change the lines of a cassette by hand."""
    lines = [json.loads(line) for line in cassette.read_text().splitlines()]
    lines[-1].pop("sha256")
    change(lines)
    cassette.write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def test_a_changed_reply_of_a_child_is_served_and_told(cassette, replayed):
    def work(session, boss):
        boss.chat("Hi")
        child = session.spawn(boss, purpose="a")
        return child.chat("Look.").text, boss.cassette.report

    recorded(cassette, work)
    text = cassette.read_text()
    cassette.write_text(text.replace("LOOK.", "LOOKED."))
    with pytest.raises(CassetteError, match="was changed after it was recorded"):
        replayed(work)
    cassette.write_text(text)
    edited(cassette, lambda lines: [
        line["reply"]["choices"][0]["message"].update(content="Edited.") for line in lines if "reply" in line and "of" in line
    ])  # fmt: skip
    text, told = replayed(work)
    assert text == "Edited."
    assert not told.is_same
    assert "the root hash of the child 'a'" in str(told)


def line_of(lines, key):
    return next(line for line in lines if key in line and ("of" in line or key == "spawn"))


@pytest.mark.parametrize(
    "change",
    [
        lambda lines: line_of(lines, "request").update(of=99),
        lambda lines: line_of(lines, "request").update(of="1"),
        lambda lines: line_of(lines, "request").update(of=1),
        lambda lines: line_of(lines, "request").update(of=-1),
        lambda lines: line_of(lines, "request").update(n=1),
        lambda lines: line_of(lines, "request").update(within=9),
        lambda lines: line_of(lines, "commit").update(of=[]),
        lambda lines: line_of(lines, "spawn").update(way="fork"),
        lambda lines: line_of(lines, "spawn").update(id=5),
        lambda lines: line_of(lines, "spawn").update(n=0),
        lambda lines: line_of(lines, "spawn").update(of=line_of(lines, "spawn")["n"]),
        lambda lines: line_of(lines, "spawn").update(arguments=None),
        lambda lines: line_of(lines, "spawn").update(result={"error": 1}),
        lambda lines: lines.remove(line_of(lines, "spawn")),
        lambda lines: lines[-1]["end"].update(heads=[1]),
    ],
)
def test_lines_of_children_that_nobody_recorded_are_refused(cassette, change):
    recorded(cassette, two_children)
    edited(cassette, change)
    with pytest.raises(CassetteError, match="is damaged, so nothing was replayed"):
        Tract.open(replay=cassette)


def test_an_id_that_no_tract_can_have(cassette, replayed):
    recorded(cassette, two_children)
    edited(cassette, lambda lines: line_of(lines, "spawn").update(id="../x y"))
    with pytest.raises(SessionError, match=r"'\.\./x y' is no id of a tract"):
        replayed(two_children)


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

    def wider(session, boss):
        boss.user("Hi")
        session.spawn(boss, purpose="Look")

    with pytest.raises(CassetteError, match="granted"):
        replayed(wider)
