"""Our tools, served to clients of the official MCP SDK in this process and over stdio from another."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import anyio
import pytest
from mcp import Client
from mcp_types import Implementation, ToolListChangedNotification

from tests.review.fakes import FakeChannel, click
from tests.toolkit.servers import until
from tract_jupyter import ActionDef, OperationSpec, Tract, mcp_server
from tract_jupyter.__main__ import main
from tract_jupyter.exceptions import McpError, McpTimeoutError, StoreError, ToolExecutionError
from tract_jupyter.operations import client_left
from tract_jupyter.review import AsyncChannel
from tract_jupyter.toolkit import (
    McpServer,
    McpService,
    Permission,
    ServedAs,
    Surroundings,
    ToolConfig,
    ToolProfile,
    Traits,
)

MESSAGE = {"content": {"content_type": "dialogue", "role": "user", "text": "hi"}}
HELLO = OperationSpec("hello", "Say hello.", {"n": {"type": "int", "default": 1}}, {})


def with_client(t, use, *, profile="full", seconds=0.2, **options):
    """Call `use` with an SDK client of our server in this process. Return its result."""

    async def run():
        async with Client(
            mcp_server(t, *([profile] if profile else []), decision_timeout=seconds).server,
            client_info=Implementation(name="editor", version="1"),
            **options,
        ) as client:
            return await use(client)

    return anyio.run(run)


def call(t, name, arguments=None, **options):
    """Return the result for a client: is_error, text, structured content."""

    async def use(client):
        return await client.call_tool(name, arguments or {})

    result = with_client(t, use, **options)
    (block,) = result.content
    return result.is_error, block.text, result.structured_content


def refused(tool, reason):
    return f"The call of {tool!r} was refused, and nothing ran. Reason: {reason}"


# --- served tools


def test_the_channel_set_by_the_user_is_kept(tract):
    tract.reviewer.channel = channel = AsyncChannel(lambda request: None, "chat")
    mcp_server(tract, "full", decision_timeout=1)
    assert tract.reviewer.channel is channel


def test_all_tools_are_served_with_schema_and_hints(tract, search):
    tract.register_operation(HELLO)

    async def use(client):
        return (await client.list_tools()).tools, client.server_info.name, client.instructions

    tools, server, instructions = with_client(tract, use)
    served = {tool.name: tool for tool in tools}
    assert set(served) >= {"commit", "fire_hello", "web_search"}
    assert served["web_search"].input_schema == search.parameters.json_schema
    hints = served["web_search"].annotations
    assert (hints.read_only_hint, hints.destructive_hint, hints.open_world_hint) == (True, False, True)
    assert (served["commit"].annotations.read_only_hint, served["fire_hello"].description) == (
        False,
        "Say hello.",
    )
    assert (server, "call result(id)" in instructions) == ("tract_jupyter", True)


def test_a_call_of_a_reading_tool_returns_text_and_structured_content(tract, search):
    is_error, text, data = call(tract, "status")
    assert (is_error, data["branch"]) == (False, "main")
    assert '"branch": "main"' in text
    assert call(tract, "web_search", {"query": "x"})[2] is None  # a list is not an object


@pytest.mark.parametrize(("value", "text"), [(None, "null"), (3, "3"), ([1], "[1]"), ("é", "é"), ("", "")])
def test_values_are_sent_as_json_and_texts_unchanged(tract, add, value, text):
    def give():
        return value

    add(give, traits=Traits(read_only=True))
    assert call(tract, "give") == (False, text, None)


@pytest.mark.parametrize("value", ["a\ud800b", {1, 2}, float("nan"), "x" * 1_000_001])
def test_a_result_that_cannot_be_sent_is_an_error(tract, add, value):
    def give():
        return value

    add(give, traits=Traits(read_only=True))
    is_error, text, _ = call(tract, "give")
    assert is_error
    assert text.startswith("give ran, but")


@pytest.mark.parametrize("profile", [None, "self"])
def test_a_profile_binds(tract, profile):
    async def use(client):
        return {tool.name for tool in (await client.list_tools()).tools}, await client.call_tool("gc", {})

    names, result = with_client(tract, use, profile=profile)
    assert "gc" not in names
    assert names == {tool["name"] for tool in tract.as_tools("self", format="mcp")} | {"result"}
    assert (result.is_error, "in the profile 'self'" in result.content[0].text) == (True, True)


def test_a_call_of_a_locked_tool_is_refused(tract):
    tract.executor.lock_tool("status", "not now")
    is_error, text, _ = call(tract, "status")
    assert is_error
    assert text.startswith(refused("status", "tool 'status' is locked: not now"))


def test_mistakes_come_back_as_errors(tract, add):
    def fail():
        raise OSError("disk full")

    add(fail, traits=Traits(read_only=True))
    assert call(tract, "fail") == (True, "OSError: disk full", None)
    assert call(tract, "comit")[1].startswith("no tool 'comit' in the profile 'full'. Did you mean 'commit'?")
    assert call(tract, "log", {"limit": "x"})[1] == "'limit' should be a valid integer, got 'x' (str)"


def test_the_error_for_an_unknown_tool_lists_the_callable_ones(tract):
    tract.executor.permission = lambda tool, _: Permission.DENY if tool.name == "log" else Permission.ALLOW
    text = call(tract, "comit")[1]
    assert {"commit", "status"} <= set(text.partition("Tools: ")[2].split(", "))
    assert "log" not in text.partition("Tools: ")[2].split(", ")
    service = McpService(
        tract,
        ToolProfile("kernel", dict.fromkeys(("status", "log", "diff"), ToolConfig())),
        None,
        Surroundings(renamed=[ServedAs("look", "diff", {}, "Look.")]),
    )

    async def use():
        async with Client(service.server) as client:
            listed = sorted(tool.name for tool in (await client.list_tools()).tools)
            return listed, [await client.call_tool(name, {}) for name in ("lok", "diff", "commit")]

    listed, results = anyio.run(use)
    assert listed == ["log", "look", "result", "status"]
    texts = [result.content[0].text for result in results if result.is_error]
    assert texts[0].startswith("no tool 'lok' is served. Did you mean 'look'?")
    assert [text.partition("Tools: ")[2] for text in texts] == [", ".join(listed)] * 3


# --- callers


def test_the_policy_knows_the_client(tract):
    asked = []

    def policy(tool, actor):
        asked.append((tool.name, actor))
        return Permission.DENY

    tract.executor.permission = policy
    told = refused("status", "mcp:editor has no permission to call 'status'")
    assert call(tract, "status") == (True, told, None)
    call(tract, "status", mode="legacy")
    assert asked == [("status", "mcp:editor")] * 2


def test_a_call_that_needs_approval_is_refused_after_the_timeout(tract):
    told = refused("commit", "no decision within 0.2 s")
    assert call(tract, "commit", MESSAGE) == (True, told, None)
    assert (tract.log(), tract.review.inbox()) == ([], [])


@pytest.mark.parametrize("reason", ["not like this", ""])
def test_a_rejection_says_that_nothing_was_done(tract, reason):
    tract.reviewer.channel = FakeChannel(lambda ticket: click(ticket, "reject", reason=reason))
    why = reason or "it was rejected, without a reason"
    assert call(tract, "commit", MESSAGE) == (True, refused("commit", why), None)
    assert tract.log() == []


def test_a_client_gets_progress_while_its_call_waits_or_runs(tract, add, monkeypatch):
    monkeypatch.setattr("tract_jupyter.toolkit.mcp.server._PROGRESS_SECONDS", 0.01)
    told, came = [], threading.Event()

    async def on_progress(progress, total, message):
        told.append((progress, message))
        came.set()

    async def use(client):
        await client.call_tool("commit", MESSAGE, progress_callback=on_progress)
        waited = list(told)
        came.clear()
        await client.call_tool("wait", {}, progress_callback=on_progress)
        return waited

    def wait():
        return came.wait(60)

    add(wait, traits=Traits(read_only=True))
    waited = with_client(tract, use)
    assert [progress for progress, _ in waited] == list(range(1, len(waited) + 1))
    assert "Waiting for the owner's decision in their notebook" in dict(waited).values()
    assert told[-1][1] == "Running"


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_calls_that_wait_for_a_decision_hold_up_no_call_that_reads(tract, monkeypatch, mode):
    monkeypatch.setattr("tract_jupyter.toolkit.mcp.server._AT_ONCE", 2)

    async def use(client):
        async with anyio.create_task_group() as tasks:
            for number in range(5):
                tasks.start_soon(client.call_tool, "commit", {**MESSAGE, "message": str(number)})
            await anyio.to_thread.run_sync(lambda: until(lambda: len(tract.review.inbox()) == 2))
            answers = [await client.call_tool("status", {}) for _ in range(3)]
            tasks.cancel_scope.cancel()
        return answers

    answers = with_client(tract, use, seconds=600, mode=mode)
    assert [answer.is_error for answer in answers] == [False] * 3


def test_a_notebook_asks_in_its_own_way(tract):
    tract.reviewer.channel = FakeChannel(lambda ticket: click(ticket, "approve"))
    assert call(tract, "commit", MESSAGE)[0] is False
    assert tract.reviewer.timeout is None
    assert len(tract.log()) == 1


def test_calls_run_side_by_side_and_in_other_threads(tract, add):
    barrier, threads = threading.Barrier(5), set()

    def meet():
        threads.add(threading.get_ident())
        return barrier.wait(30)

    add(meet, traits=Traits(read_only=True))

    async def use(client):
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(client.call_tool, "meet", {})

    with_client(tract, use)
    assert len(threads) == 5
    assert threading.get_ident() not in threads


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_client_is_notified_of_new_tools(tract, mode, monkeypatch):
    monkeypatch.setattr("tract_jupyter.toolkit.mcp.server._LOOK_SECONDS", 0.01)
    told = anyio.Event()

    async def on_message(message):
        if isinstance(message, ToolListChangedNotification):
            told.set()

    async def use(client):
        await client.list_tools()
        if mode == "legacy":
            tract.register_operation(HELLO)
            await told.wait()
        else:
            async with client.listen(tools_list_changed=True) as changes:
                tract.register_operation(HELLO)
                async for _ in changes:
                    break
        return [tool.name for tool in (await client.list_tools(cache_mode="refresh")).tools]

    assert "fire_hello" in with_client(tract, use, mode=mode, message_handler=on_message)


def test_an_error_of_the_store_is_reported_and_the_server_continues(tract, monkeypatch):
    monkeypatch.setattr("tract_jupyter.toolkit.mcp.server._LOOK_SECONDS", 0.01)
    looked = anyio.Event()

    def fail():
        anyio.from_thread.run_sync(looked.set)
        raise StoreError("the disk is full")

    async def use(client):
        with monkeypatch.context() as trouble:
            trouble.setattr(tract.operations, "look_again", fail)
            failed = await client.call_tool("status", {})
            await looked.wait()
        return failed, await client.call_tool("status", {})

    failed, answered = with_client(tract, use)
    assert (failed.is_error, failed.content[0].text) == (True, "StoreError: the disk is full")
    assert not answered.is_error


# --- in another process


@pytest.fixture
def owner(tmp_path):
    """A tract in a file, open as in a notebook."""
    with Tract.open(tmp_path / "t.db") as t:
        yield t


@pytest.fixture
def serve(owner, data_dir):
    """Serve the same store by the command line. Return a client of it."""
    words = ["-m", "tract_jupyter", "mcp-server", owner.location, "--decision-timeout", "60"]
    with ExitStack() as stack:

        def make():
            client = McpServer("own", [sys.executable, *words], env={"JUPYTER_DATA_DIR": str(data_dir)})
            stack.enter_context(client).start()
            return client

        yield make


@pytest.fixture
def served(serve):
    """A client of the command-line server."""
    return serve()


PING = '{"jsonrpc": "2.0", "id": 1, "method": "ping"}'
INITIALIZE = (
    '{"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}, '
    '"clientInfo": {"name": "x", "version": "1"}}}'
)


@pytest.fixture(scope="module", params=["mcp-server", "kernel-proxy"])
def raw(request, tmp_path_factory):
    """Return the response of one of our programs to a line on its stdin."""
    path = tmp_path_factory.mktemp("raw") / "t.db"
    with Tract.open(path):
        pass
    command = [sys.executable, "-m", "tract_jupyter", request.param, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:

        def ask(line):
            process.stdin.write(f"{line}\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        ask(INITIALIZE)
        yield ask
        process.stdin.close()


def in_the_inbox(t):
    """Return the last pending request."""
    return t.operations.rebuild(until(t.review.inbox)[-1])


def left_in_the_inbox(t):
    """Return the pending requests of clients that have left."""
    return until(lambda: (pending := in_the_inbox(t)) and client_left(pending.stored) and pending)


@pytest.mark.slow
def test_a_person_decides_in_another_process(owner, served):
    with ThreadPoolExecutor() as pool:
        asked = pool.submit(served.call, "commit", MESSAGE)
        pending = in_the_inbox(owner)
        assert (pending.title, pending.actor) == ("Call tool commit", "mcp:tract_jupyter")
        assert served.call("status")["commit_count"] == 0  # other clients do not wait for this call
        pending.approve()
        commit = asked.result(60)["commit_hash"]
        assert [info.commit_hash for info in owner.log()] == [commit]

        asked = pool.submit(served.call, "commit", MESSAGE)
        in_the_inbox(owner).reject("not like this")
        with pytest.raises(ToolExecutionError, match="not like this"):
            asked.result(60)
    assert len(owner.log()) == 1


@pytest.mark.slow
def test_tools_of_new_and_revoked_operations_are_added_and_removed(owner, served):
    assert "fire_hello" not in {tool.name for tool in served.listed}
    owner.register_operation(HELLO)
    until(lambda: "fire_hello" in {tool.name for tool in served.listed})
    owner.operations.revoke("hello")
    with pytest.raises(ToolExecutionError, match="no tool 'fire_hello'"):
        served.call("fire_hello")
    until(lambda: "fire_hello" not in {tool.name for tool in served.listed})


@pytest.mark.slow
def test_a_call_that_is_given_up_is_not_made_later(owner, served):
    # load everything that a call needs, so that the next call makes its request before its timeout
    served.call("status")
    with pytest.raises(McpTimeoutError):
        served.call("commit", MESSAGE, timeout=2)
    pending = left_in_the_inbox(owner)
    told = pending.review_request()
    assert "The client no longer waits for this call" in told.why
    assert "The approval waits for the identical call" in told.why
    pending.approve()
    assert "nothing ran. The decision waits" in pending.note
    assert served.call("status")["commit_count"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("is_closed", [False, True], ids=["gave up", "closed"])
def test_an_approval_after_the_client_left_counts_for_the_identical_call(owner, serve, is_closed):
    served = serve()
    served.call("status")
    with pytest.raises(McpError):
        served.call("commit", MESSAGE, timeout=2)
    if is_closed:
        served.close()
        served = serve()
    left_in_the_inbox(owner).approve()
    with pytest.raises(McpTimeoutError):  # another call is another request
        served.call("commit", {**MESSAGE, "message": "other"}, timeout=2)
    left_in_the_inbox(owner).reject()
    assert owner.log() == []
    commit = served.call("commit", MESSAGE, timeout=60)["commit_hash"]
    assert [info.commit_hash for info in owner.log()] == [commit]
    assert owner.review.inbox() == []


@pytest.mark.slow
def test_the_request_of_a_waiting_client_names_the_executing_process(owner, served):
    with ThreadPoolExecutor() as pool:
        asked = pool.submit(served.call, "commit", MESSAGE)
        pending = in_the_inbox(owner)
        assert "which executes the decision" in pending.review_request().why
        pending.approve()
        assert "Handed to" in pending.note
        assert asked.result(60)


@pytest.mark.parametrize(
    ("line", "code", "message_id"),
    [
        ("{nonsense", -32700, None),
        ('{"jsonrpc": "2.0", "id": 5, "method": "tools/list"', -32700, None),
        ("\x00\xff", -32700, None),
        ("[" * 10_000, -32700, None),
        ("[]", -32600, None),
        ("3", -32600, None),
        ('{"id": 5, "method": "tools/list"}', -32600, 5),
        ('{"jsonrpc": "2.0", "id": "a", "method": 3}', -32600, "a"),
        ('{"jsonrpc": "2.0", "id": true, "method": 3}', -32600, None),
        ('[{"jsonrpc": "2.0", "id": 7, "method": "ping"}]', -32600, None),
        (r'{"jsonrpc": "2.0", "id": 6, "method": "tools/call", "params": {"name": "\ud800"}}', -32700, 6),
    ],
)
def test_an_invalid_line_is_answered_with_an_error(raw, line, code, message_id):
    told = raw(line)
    assert (told["id"], told["error"]["code"]) == (message_id, code)
    assert raw(PING) == {"jsonrpc": "2.0", "id": 1, "result": {}}


def test_a_blank_line_is_ignored(raw):
    assert raw("\n\n" + PING)["result"] == {}


@pytest.mark.slow
def test_output_of_an_operation_is_not_sent_as_a_message(owner, served):
    code = "print('{}')\nimport os\nos.write(1, b'hello')\nos.system('echo hello')\npending.approve()"
    owner.register_operation(
        OperationSpec("shout", "Print.", {}, {"go": ActionDef("go", "", {}, code)}, unhandled="ask")
    )
    with ThreadPoolExecutor() as pool:
        asked = pool.submit(served.call, "fire_shout")
        in_the_inbox(owner).execute_tool("go", {})  # the only request
        assert asked.result(60)["status"] == "approved"
    until(lambda: "hello" in served.stderr)


@pytest.mark.slow
def test_the_error_in_a_notebook_shows_the_server_command(owner):
    async def cell():
        mcp_server(owner).run()

    with pytest.raises(McpError, match=r"mcp-server .*t.db"):
        anyio.run(cell)


def test_the_command_line_refuses_a_missing_store(tmp_path, capsys):
    assert main(["mcp-server", str(tmp_path / "none.db")]) == 2
    assert "there is no store" in capsys.readouterr().err
    assert list(tmp_path.glob("none*")) == []


@pytest.mark.slow
def test_the_command_line_ends_with_its_client(owner):
    command = [sys.executable, "-m", "tract_jupyter", "mcp-server", owner.location]
    done = subprocess.run(command, input="", capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.slow
def test_the_error_without_the_sdk_says_how_to_install_it(owner):
    code = f"""\
import sys
sys.modules["mcp"] = None
from tract_jupyter.__main__ import main
sys.exit(main(["mcp-server", {owner.location!r}]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "'tract_jupyter[mcp]'" in done.stderr
