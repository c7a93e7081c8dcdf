import asyncio
import json
import threading
import time

import pytest

from tests.outside.conftest import call, command, writing
from tract_jupyter.exceptions import OutsideAgentError
from tract_jupyter.loop import CallEnded, ReplyPiece, ReplyStored, TurnEnded, TurnNoted
from tract_jupyter.models import AttachedFile, TurnOutcome
from tract_jupyter.review import Answer, personal_channel


def of(kind, events):
    return [event for event in events if isinstance(event, kind)]


def kinds(events):
    return [name for event in events if (name := type(event).__name__) != "RequestBegan"]


def notes(events):
    return [(note.title, note.is_warning) for note in of(TurnNoted, events)]


def test_messages_thoughts_plan_and_calls_come_in_order_and_are_stored(chat, tract, known):
    pieces = [["text", f"{number} "] for number in range(200)]
    plan = {
        "entries": [{"content": "look", "status": "completed"}, {"content": "write", "status": "pending"}]
    }
    looks = call("r1", kind="read", title="Read a.csv", rawInput={"path": "a.csv"})
    steps = [
        ["thought", "Hm."], *pieces, ["update", "plan", plan], ["call", looks],
        ["progress", {"toolCallId": "r1", "status": "completed", "rawOutput": {"rows": 3}}], ["text", "Bye."],
    ]  # fmt: skip
    usage = {"inputTokens": 12, "outputTokens": 3}
    response, events = chat(known(prompts=[steps], usage=usage))
    assert (response.text, response.outcome, response.calls) == ("Bye.", TurnOutcome.ANSWER, 1)
    said = "".join(piece.delta.text for piece in of(ReplyPiece, events) if piece.delta.kind == "text")
    assert said == "".join(f"{number} " for number in range(200)) + "Bye."
    first, second, last = of(ReplyStored, events)
    assert first.reasoning == "Hm."
    assert first.text == said.removesuffix("Bye.")
    assert [made.name for made in second.calls] == ["read"]
    assert last.usage == {"prompt_tokens": 12, "completion_tokens": 3, "claimed_usd": ""}
    assert of(CallEnded, events)[0].text == '{"rows":3}'
    assert "✓ look" in next(note.text for note in of(TurnNoted, events) if note.key == "plan")
    stored = tract.loop.events_of(tract.loop.turns()[-1])
    assert kinds(stored) == [kind for kind in kinds(events) if kind not in {"ReplyPiece", "CallBegan"}]
    assert [message.role for message in tract.compile().messages] == [
        "user",
        "assistant",
        "assistant",
        "tool",
        "assistant",
    ]


def test_an_approved_change_is_shown_whole_done_and_undone(chat, tract, known, user, folder):
    (folder / "notes.txt").write_text("one\ntwo\nthree\n")
    change = call(kind="edit", content=[
        {"type": "diff", "path": str(folder / "notes.txt"), "oldText": "two", "newText": "TWO"}
    ])  # fmt: skip
    steps = [
        ["call", change],
        ["ask", {"call": call(), "does": [["write", "notes.txt", "one\nTWO\nthree\n"]]}],
    ]
    response, events = chat(known(prompts=[[*steps, *writing()]]))
    assert response.outcome is TurnOutcome.ANSWER
    edit, new = user.requests
    assert "change notes.txt" in edit.title
    assert "-two\n+TWO" in edit.code[0].code
    assert " one\n" in edit.code[0].code  # the whole file, not only the announced part
    assert "create new.py" in new.title
    assert new.code[0].code == "print(1)\n"
    assert [title for title, is_warning in notes(events) if is_warning] == []
    assert (folder / "new.py").exists()
    undone = tract.undo(turn=tract.loop.turns()[-1])
    assert {item.name for item in undone.items if item.kind == "file"} == {"notes.txt", "new.py"}
    assert (folder / "notes.txt").read_text() == "one\ntwo\nthree\n"
    assert not (folder / "new.py").exists()


@pytest.mark.parametrize("refused", ["failed", "ends"])
def test_a_rejection_changes_nothing_and_its_reason_reaches_the_agent(
    chat, known, user, folder, log, refused
):
    user.rejects("use pathlib")
    prompts = [writing(refused=refused), [["text", "With pathlib."]]]
    response, events = chat(known(prompts=prompts, log=log.place))
    assert not list(folder.iterdir())
    assert response.text == "With pathlib."
    assert log.entries("outcome") == [{"outcome": "selected", "optionId": "reject"}]
    first, second = (one["prompt"][0]["text"] for one in log.sent("session/prompt"))
    assert first == "Do it."
    assert "rejected your call" in second
    assert "use pathlib" in second
    (ended,) = of(CallEnded, events)
    assert ended.is_error
    assert ended.text == "not run: the user refused it: use pathlib"


def test_unknown_kinds_and_floods_are_kept_in_a_bounded_number_of_rows(chat, known):
    steps = [
        ["update", "hologram", {"size": 3}], ["notify", "theirs/news", {"a": 1}], ["raw", "not json"], ["raw", "[1]"],
        ["request", "fs/read_text_file", {"path": "/etc/passwd"}],
        *([["update", "plan", {"entries": [{"content": str(number)}]}] for number in range(2_000)]),
        ["flood", "hologram", 3_000, {}], ["flood", "agent_message_chunk", 3_000, {"content": {"type": "text", "text": "x"}}],
    ]  # fmt: skip
    response, events = chat(known(prompts=[steps]))
    assert response.text == "x" * 3_000
    titles = [title for title, _ in notes(events)]
    assert titles[1:4] == [
        f"The agent sent {kind!r}." for kind in ("hologram", "theirs/news", "fs/read_text_file")
    ]
    assert len(titles) < 40
    plans = [note.text for note in of(TurnNoted, events) if note.key == "plan"]
    assert plans[0] == "○ 0"
    assert plans[-1] == "○ 1999"
    assert len(plans) < 12  # two per second
    assert "The agent sent 2,984 more messages of unknown kinds." in titles or any(
        "more messages" in one for one in titles
    )


def test_an_agent_that_does_not_wait_or_ignores_a_decision_causes_a_warning(chat, known, user, folder):
    early = call("c1", rawInput={"command": "touch a"}, kind="execute")
    about = call("c2", rawInput={"command": "touch b"}, kind="execute")
    user.rejects()
    steps = [
        ["call", about], ["ask", {"call": about}], ["write", "b", ""],
        ["progress", {"toolCallId": "c2", "status": "completed"}],
        ["notify", "session/request_permission", {}],
        ["call", {**early, "status": "in_progress"}], ["write", "a", ""],
    ]  # fmt: skip
    _, events = chat(known(prompts=[steps]))
    assert ("Fake ignored your decision.", True) in notes(events)
    # no approval explains the files
    assert any("changed" in title.lower() for title, _ in notes(events))


def asked_without_waiting(about, does):
    """Return steps: send a request, do other steps without waiting, and read the answer at the end."""
    options = [{"optionId": kind, "name": kind, "kind": kind} for kind in ("allow_once", "reject_once")]
    request = {
        "jsonrpc": "2.0",
        "id": "x",
        "method": "session/request_permission",
        "params": {"sessionId": "s1", "toolCall": about, "options": options},
    }
    return [["raw", json.dumps(request)], *does, ["answer", "x"]]


def wait_for(is_done):
    """Wait until the agent process has done something, for example written a file."""
    end = time.monotonic() + 20
    while not is_done() and time.monotonic() < end:
        time.sleep(0.01)


@pytest.mark.parametrize("is_main", [True, False])
@pytest.mark.parametrize("says_so", [True, False])
def test_a_change_before_the_decision_is_a_warning(chat, known, tract, folder, log, is_main, says_so):
    about = call(content=[{"type": "diff", "path": "new.py", "oldText": None, "newText": "print(1)\n"}])
    says = [["progress", {"toolCallId": "c1", "status": "completed"}]] if says_so else []
    early = [["wait", "asked"], ["write", "new.py", "print(1)\n"], *says, ["write", "ready", ""]]
    steps = asked_without_waiting(about, early)
    agent, events = known(prompts=[steps], log=log.place), []
    title = "Fake did not wait for your decision." if says_so else "new.py changed before you decided."

    async def decide(_request):
        (folder / "asked").touch()
        await asyncio.to_thread(wait_for, (folder / "ready").exists)
        if says_so and not is_main:  # in the main thread, the turn continues to read after this
            await asyncio.to_thread(wait_for, lambda: (title, True) in notes(events))
        return Answer("approve", {})

    tract.reviewer.channel = personal_channel("slow")(decide)
    if is_main:
        chat(agent, events=events)
    else:
        thread = threading.Thread(target=lambda: chat(agent, events=events))
        thread.start()
        thread.join(30)
    assert (title, True) in notes(events)
    answers = [one for one in log.entries() if one.get("id") == "x" and "result" in one]
    assert len(answers) == 1
    assert len(log.sent("session/prompt")) == 1


def test_an_agent_that_calls_an_open_request_running_waits_for_its_decision(chat, known, tract, folder, log):
    about = call(rawInput={"command": "touch a"}, kind="execute")
    running = [["progress", {"toolCallId": "c1", "status": "in_progress"}], ["write", "ready", ""]]
    ended = [["write", "a", ""], ["progress", {"toolCallId": "c1", "status": "completed"}]]
    agent, results = known(prompts=[[*asked_without_waiting(about, running), *ended]], log=log.place), []

    async def decide(_request):
        await asyncio.to_thread(wait_for, (folder / "ready").exists)
        return Answer("approve", {})

    tract.reviewer.channel = personal_channel("slow")(decide)
    thread = threading.Thread(target=lambda: results.append(chat(agent)))
    thread.start()
    thread.join(30)
    ((_, events),) = results
    assert ("Fake did not wait for your decision.", True) not in notes(events)
    answers = [one["result"] for one in log.entries() if one.get("id") == "x" and "result" in one]
    assert [one["outcome"].get("optionId") for one in answers] == ["allow_once"]
    assert [one.is_error for one in of(CallEnded, events)] == [False]


def test_a_file_changed_before_its_request_or_a_moved_folder_gives_a_warning(chat, known, user):
    about = call(rawInput={"command": "make"}, kind="execute")
    there = call("c0", content=[{"type": "diff", "path": "early.txt", "oldText": None, "newText": "x"}])
    steps = [
        ["write", "early.txt", "x"], ["ask", {"call": there}],
        ["ask", {"call": about, "does": [["write", "made.txt", "x"]]}],
        ["write", "early.txt", "y"],
    ]  # fmt: skip
    agent = known(prompts=[steps, [["move", "../elsewhere"]]])
    _, events = chat(agent)
    assert "The file has this content already: early.txt." in user.requests[0].why
    first, second = [one for one in of(TurnNoted, events) if "changed" in one.title]
    assert (first.title, first.is_warning) == ("Files changed without a request.", True)
    assert first.text.startswith("early.txt.")
    assert (second.title, second.text) == ("Other files changed during this turn.", "made.txt")
    _, events = chat(agent)
    assert ("The files of this turn cannot be restored.", True) in notes(events)


def test_a_request_after_many_messages_between_two_turns_is_declined(chat, known, user, log):
    about = call(rawInput={"command": "late"}, kind="execute")
    request, _ = asked_without_waiting(about, [])
    between = [["flood", "hologram", 1_100, {}], request]
    chat(known(prompts=[[["text", "Done."]]], before_mode=between, log=log.place))
    answers = [one["result"] for one in log.entries() if one.get("id") == "x"]
    assert answers == [{"outcome": {"outcome": "cancelled"}}]
    assert not user.requests


def test_a_removal_announced_as_empty_text_gives_no_warning(chat, known, user, folder):
    (folder / "old.txt").write_text("bye\n")
    about = call(content=[{"type": "diff", "path": "old.txt", "oldText": "bye\n", "newText": ""}])
    _, events = chat(known(prompts=[[["ask", {"call": about, "does": [["remove", "old.txt"]]}]]]))
    assert user.requests[0].title == "Fake wants to empty or remove old.txt"
    assert not (folder / "old.txt").exists()
    assert not [title for title, is_warning in notes(events) if is_warning]


def test_files_without_a_request_and_another_content_are_warnings(chat, known, folder):
    about = call(content=[{"type": "diff", "path": "new.py", "oldText": None, "newText": "print(1)\n"}])
    steps = [
        ["call", about], ["ask", {"call": about, "does": [["write", "new.py", "import os\n"]]}],
        ["write", "other.txt", "x"],
    ]  # fmt: skip
    _, events = chat(known(prompts=[steps]))
    assert ("new.py differs from the change that you approved.", True) in notes(events)
    unasked = next(note for note in of(TurnNoted, events) if note.title == "Files changed without a request.")
    assert unasked.text.startswith("other.txt.")


def test_a_file_rewritten_with_the_same_text_is_not_reported_as_changed(chat, tract, known, folder):
    command = call("c9", rawInput={"command": "true"}, kind="execute")
    again = [["write", "new.py", "print(1)\n"], ["ask", {"call": command}]]
    agent = known(prompts=[[*writing(), again[0]], again])
    for _ in range(2):
        _, events = chat(agent)
        assert not [title for title, _ in notes(events) if "changed" in title]
    (folder / "new.py").write_text("print(1)\n")
    first = tract.undo(turn=tract.loop.turns()[0])
    assert {item.name: item.state for item in first.items if item.kind == "file"} == {"new.py": "restorable"}
    assert not (folder / "new.py").exists()


def test_other_content_of_a_failed_or_repeated_call_or_after_it_gives_a_warning(chat, known, folder):
    def asks(call_id, path, *does):
        about = call(call_id, content=[{"type": "diff", "path": path, "oldText": None, "newText": "1"}])
        return ["ask", {"call": about, "does": does}]

    def failed(call_id):
        return ["progress", {"toolCallId": call_id, "status": "failed"}]

    steps = [
        asks("c3", "good.txt", ["write", "good.txt", "1"]),
        asks("c1", "failed.txt", ["write", "failed.txt", "2"], failed("c1")),
        asks("c2", "unchanged.txt", failed("c2")),
        asks("c3", "again.txt", ["write", "again.txt", "2"]),
        ["write", "good.txt", "2"],
    ]  # fmt: skip
    _, events = chat(known(prompts=[steps]))
    titles = notes(events)
    assert ("failed.txt differs from the change that you approved.", True) in titles
    assert ("again.txt differs from the change that you approved.", True) in titles
    assert not [title for title, _ in titles if "unchanged.txt" in title]
    unasked = next(one for one in of(TurnNoted, events) if one.title == "Files changed without a request.")
    assert unasked.text.startswith("good.txt.")


def stopped_while(tract, agent, is_ready, text="Do it."):
    """Run a turn in a thread, stop it once it is ready, and return the seconds until it ended."""
    ended = []

    def run():
        try:
            ended.append(tract.chat(text, agent=agent).outcome)
        except OutsideAgentError as error:
            ended.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    end = time.monotonic() + 20
    while not is_ready() and time.monotonic() < end:
        time.sleep(0.01)  # another thread starts a process
    began = time.monotonic()
    tract.loop.stop()
    thread.join(10)
    return ended, time.monotonic() - began


@pytest.mark.parametrize("is_stubborn", [False, True])
def test_stop_ends_the_turn_at_once_and_answers_open_requests(tract, known, log, is_stubborn, chat):
    from tract_jupyter.review import AsyncChannel, personal_channel

    open_requests = []

    async def nobody(request):
        import asyncio

        open_requests.append(request)
        await asyncio.sleep(60)

    channel, tract.reviewer.channel = tract.reviewer.channel, personal_channel("slow")(nobody)
    assert isinstance(tract.reviewer.channel, AsyncChannel)
    agent = known(prompts=[writing(), [["text", "Here."]]], log=log.place, ignores_cancel=is_stubborn,
                  ignores_end=is_stubborn)  # fmt: skip
    ended, seconds = stopped_while(tract, agent, lambda: open_requests)
    assert ended == [TurnOutcome.STOPPED]
    assert seconds < 0.5  # 0.2 s on an idle machine
    assert not tract.review.inbox()
    tract.reviewer.channel = channel
    response, _ = chat(agent, "And now?")
    assert response.outcome is TurnOutcome.ANSWER
    assert log.entries("outcome")[0] == {"outcome": "cancelled"}


@pytest.mark.parametrize("method", ["initialize", "session/new", "session/set_mode", "session/prompt"])
def test_an_agent_that_dies_ends_the_turn_with_a_reason(chat, known, tract, method):
    with pytest.raises(OutsideAgentError, match="Fake left: its process ended"):
        chat(known(dies_at=[method]))
    assert tract.outside.running == ()
    assert isinstance(tract.loop.events_of(tract.loop.turns()[-1])[-1], TurnEnded)


def test_an_agent_that_dies_with_an_open_request_leaves_no_request(chat, known, tract, user):
    import asyncio

    from tract_jupyter.review import personal_channel

    async def late(request):
        user.requests.append(request)
        await asyncio.sleep(60)

    tract.reviewer.channel = personal_channel("slow")(late)
    about = call(rawInput={"command": "touch a"}, kind="execute")
    dies = [["call", about], ["notify", "session/request_permission", {}]]
    asks = {"jsonrpc": "2.0", "id": "q", "method": "session/request_permission",
            "params": {"sessionId": "s1", "toolCall": about, "options": []}}  # fmt: skip
    with pytest.raises(OutsideAgentError, match="left"):
        chat(
            known(
                prompts=[
                    [
                        *dies,
                        ["raw", json.dumps(asks)],
                        ["stderr", "out of memory\n"],
                        ["sleep", 0.3],
                        ["die", 1],
                    ]
                ]
            )
        )
    assert user.requests
    assert not tract.review.inbox()


def test_the_session_continues_until_the_history_differs(chat, known, tract, log):
    agent = known(log=log.place)
    chat(agent, "One.")
    chat(agent, "Two.")
    assert len(log.sent("session/new")) == 1
    tract.user("From elsewhere.")
    chat(agent, "Three.")
    assert len(log.sent("session/new")) == 2
    text = log.sent("session/prompt")[-1]["prompt"][0]["text"]
    assert "User: From elsewhere." in text
    assert text.endswith("Three.")


def test_images_go_along_and_costs_are_the_agents_claim(chat, known, log, tract):
    png = bytes.fromhex(
        "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360606060000000050001a5f645"
        "400000000049454e44ae426082"
    )
    steps = [
        ["update", "usage_update", {"used": 5, "size": 9, "cost": {"amount": 0.25, "currency": "USD"}}],
        ["text", "A dot."],
    ]
    _, events = chat(known(log=log.place, prompts=[steps]), attachments=[AttachedFile.of("dot.png", png)])
    text, image = log.sent("session/prompt")[0]["prompt"]
    assert (text["text"], image["type"], image["mimeType"]) == ("Do it.", "image", "image/png")
    assert of(ReplyStored, events)[-1].usage == {"claimed_usd": "0.250000"}
    assert not tract.costs().lines


def test_a_row_says_that_an_unknown_command_line_decides_by_itself(chat, tract):
    response, events = chat(command(prompts=[[["text", "Hello."]]]))
    assert response.text == "Hello."
    assert ("This agent decides by itself when to ask.", True) in notes(events)


def test_too_many_calls_or_too_much_text_end_the_turn_but_not_the_session(chat, known, log):
    calls, big = [["calls", 501]], [["large", 1_000_000]] * 6
    same = [["call", call(status="completed")]] * 501
    agent = known(prompts=[calls, same, big, [["text", "Here."]]], log=log.place)
    for text in ("One.", "Same."):
        with pytest.raises(OutsideAgentError, match="sent more than 500 calls in one turn"):
            chat(agent, text)
    with pytest.raises(OutsideAgentError, match="sent more than 5,000,000 characters"):
        chat(agent, "Two.")
    assert chat(agent, "Three.")[0].text == "Here."


def test_the_calls_of_the_kernels_server_belong_to_the_turn(chat, known, tract, log):
    from tract_jupyter.toolkit import call_context

    recorders = []

    class Server:
        name, url, headers = "kernel_1", "http://127.0.0.1:1/mcp", {}

    def serve():
        recorders.append(call_context().effects)
        return Server

    tract.outside.server = serve
    agent = known(log=log.place)
    chat(agent, "One.")
    chat(agent, "Two.")
    assert len(log.sent("session/new")) == 1
    first, second = recorders
    assert first is not None
    assert second is not None
    assert first is not second
