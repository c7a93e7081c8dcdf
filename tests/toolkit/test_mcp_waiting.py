"""Calls of MCP clients that wait for the user longer than the client waits for one response."""

from __future__ import annotations

import threading
from contextlib import asynccontextmanager

import anyio
import pytest
from mcp import Client
from mcp_types import Implementation

from tests.toolkit.servers import until
from tract_jupyter import mcp_server
from tract_jupyter.exceptions import UndecidedError
from tract_jupyter.review import personal_channel
from tract_jupyter.toolkit import (
    HOLDS,
    HeldCall,
    HeldCalls,
    Hold,
    OutsideCall,
    ToolResult,
    Traits,
    hold_of,
)

MESSAGE = {"content": {"content_type": "dialogue", "role": "user", "text": "hi"}}


@pytest.fixture
def wait(monkeypatch):
    """Set the seconds that unknown clients wait for a response."""

    def set_seconds(seconds):
        monkeypatch.setattr("tract_jupyter.toolkit.mcp.held.UNKNOWN_CLIENT", Hold(seconds, seconds))

    set_seconds(0.05)
    return set_seconds


@asynccontextmanager
async def connected(service, name="editor"):
    async with Client(service.server, client_info=Implementation(name=name, version="1")) as client:
        yield client


def serve(t, use):
    """Serve a tract. Call `use` with a client and the service, and return its result."""

    async def run():
        service = mcp_server(t, "full")
        async with connected(service) as client:
            return await use(client)

    return anyio.run(run)


async def open_request(t):
    """Return the only open request, as a notebook shows it."""
    (stored,) = await anyio.to_thread.run_sync(lambda: until(t.review.inbox))
    return t.operations.rebuild(stored)


async def decided(pending, action="approve"):
    await anyio.to_thread.run_sync(getattr(pending, action))


def told(result):
    return result.structured_content


# --- waiting times


@pytest.mark.parametrize("client", list(HOLDS))
def test_known_clients_wait_four_minutes_and_each_time_is_below_its_limit(client):
    limits = {"claude-code": 300, "codex-mcp-client": 300, "gemini-cli-mcp-client": 600, "opencode": 900}
    assert hold_of(client, has_progress=True) == 240 < limits[client]
    assert hold_of(client, has_progress=False) in {240, 50}


def test_other_clients_wait_less_than_a_minute():
    assert hold_of("opencode", has_progress=False) == 50  # opencode ends a call after 60 s without progress
    assert {hold_of(name, has_progress=flag) for name in ("", "x") for flag in (True, False)} == {50}


class Time:
    now = 0.0

    def __call__(self):
        return self.now


def held(calls, *, key="k", actor="mcp:a"):
    call = HeldCall(actor, "commit", {}, key, OutsideCall())
    calls.add(call)
    calls.wait(call)
    return call


def test_a_client_that_does_not_return_has_left_and_old_results_expire():
    clock = Time()
    calls = HeldCalls(clock)
    call = held(calls)
    clock.now = 5_000
    calls.tidy()
    assert not call.has_left  # a request waits
    calls.end_wait(call, is_cancelled=False)
    clock.now += 599
    calls.tidy()
    assert not call.has_left
    clock.now += 2
    calls.tidy()
    assert call.has_left
    calls.end(call, ToolResult("commit", success=True))
    assert calls.find(call.call_id, "mcp:a") is call
    clock.now += 3_601
    calls.tidy()
    assert calls.find(call.call_id, "mcp:a") is None


def test_the_last_request_that_is_cancelled_leaves_the_call():
    calls = HeldCalls(Time())
    call = held(calls)
    calls.wait(call)
    calls.end_wait(call, is_cancelled=True)
    assert not call.has_left
    calls.end_wait(call, is_cancelled=True)
    assert call.has_left
    calls.end(call, ToolResult("commit", success=False, cause=UndecidedError("no decision")))
    assert calls.identical("k") is None


def test_the_number_of_results_is_limited_and_delivered_ones_are_removed_first():
    calls = HeldCalls(Time())
    made = []
    for number in range(300):
        call = held(calls, key=str(number))
        calls.end_wait(call, is_cancelled=False)
        calls.end(call, ToolResult("commit", success=True))
        call.is_delivered = number == 299
        made.append(call)
    assert len(list(calls)) == 256
    held(calls, key="new")
    assert calls.find(made[299].call_id, "mcp:a") is None
    assert not calls.is_full
    for number in range(256):
        held(calls, key=f"open {number}")
    assert calls.is_full


# --- responses with an id, and the tool `result`


def test_a_waiting_call_returns_an_id_for_the_result_tool(tract, wait):
    async def use(client):
        first = await client.call_tool("commit", MESSAGE)
        call_id = told(first)["id"]
        pending = await open_request(tract)
        again = await client.call_tool("result", {"id": call_id})
        wait(60)
        await decided(pending)
        results = [await client.call_tool("result", {"id": call_id}) for _ in range(2)]
        return first, again, results

    first, again, results = serve(tract, use)
    assert (first.is_error, told(again)["status"]) == (False, "waiting")
    assert told(first)["status"] in {"waiting", "running"}  # the request may not be stored yet
    assert f"result(id='{told(again)['id']}')" in told(again)["note"]
    assert [told(result)["commit_hash"] for result in results] == [
        info.commit_hash for info in tract.log()
    ] * 2
    assert len(tract.log()) == 1


def test_a_rejection_comes_later_too(tract, wait):
    async def use(client):
        call_id = told(await client.call_tool("commit", MESSAGE))["id"]
        pending = await open_request(tract)
        wait(60)
        await anyio.to_thread.run_sync(lambda: pending.reject("not now"))
        return await client.call_tool("result", {"id": call_id})

    result = serve(tract, use)
    assert (result.is_error, "not now" in result.content[0].text, tract.log()) == (True, True, [])


def test_a_call_that_runs_long_has_a_result_later(tract, add, wait):
    go, ran = threading.Event(), []

    def slow():
        ran.append(1)
        return go.wait(30)

    add(slow, traits=Traits(read_only=True))

    async def use(client):
        first = told(await client.call_tool("slow", {}))
        wait(60)
        go.set()
        return first["status"], (await client.call_tool("result", {"id": first["id"]})).content[0].text

    assert serve(tract, use) == ("running", "true")
    assert ran == [1]


@pytest.mark.usefixtures("wait")
@pytest.mark.parametrize("call_id", ["x", "", None, 3, {"a": 1}])
def test_an_unknown_id_is_refused(tract, call_id):
    async def use(client):
        return await client.call_tool("result", {"id": call_id})

    result = serve(tract, use)
    assert (result.is_error, "no unfinished call" in result.content[0].text) == (True, True)


@pytest.mark.usefixtures("wait")
def test_the_id_of_another_client_is_refused(tract):
    async def run():
        service = mcp_server(tract, "full")
        async with connected(service) as client:
            call_id = told(await client.call_tool("commit", MESSAGE))["id"]
            async with connected(service, "other") as other:
                return await other.call_tool("result", {"id": call_id})

    assert anyio.run(run).is_error


@pytest.mark.usefixtures("wait")
@pytest.mark.parametrize(
    ("name", "shown"), [("a\n  [approved] b\tc", "mcp:a [approved] b c"), ("\n", "mcp:unknown")], ids=ascii
)
def test_the_name_of_a_client_is_one_line(tract, name, shown):
    async def run():
        async with connected(mcp_server(tract, "full"), name) as client:
            await client.call_tool("commit", MESSAGE)
            return (await open_request(tract)).actor

    assert anyio.run(run) == shown


def test_result_is_listed_as_a_tool_that_reads(tract):
    async def use(client):
        return {tool.name: tool for tool in (await client.list_tools()).tools}["result"]

    tool = serve(tract, use)
    assert tool.annotations.read_only_hint
    assert tool.input_schema["required"] == ["id"]


# --- identical calls, and clients that leave


def test_identical_calls_of_a_client_are_one_request_and_run_once(tract):
    answers = []

    async def use(client):
        async def make():
            answers.append(told(await client.call_tool("commit", MESSAGE))["commit_hash"])

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(make)
            await open_request(tract)
            for _ in range(9):
                tasks.start_soon(make)
            await decided(await open_request(tract))

    serve(tract, use)
    assert answers == [info.commit_hash for info in tract.log()] * 10
    assert len(tract.review.decisions()) == 1


async def cancelled(client, tract):
    """Make a call, cancel it while it waits, and return its request."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(client.call_tool, "commit", MESSAGE)
        pending = await open_request(tract)
        tasks.cancel_scope.cancel()
    ledger = tract.reviewer.ledger
    await anyio.to_thread.run_sync(
        lambda: until(lambda: (row := ledger.get(pending.pending_id)) and "no longer" in why(tract, row))
    )
    return await open_request(tract)


def why(tract, stored):
    return tract.operations.rebuild(stored).review_request().why


def test_an_approval_after_the_client_left_waits_for_the_identical_call(tract):
    async def use(client):
        pending = await cancelled(client, tract)
        await decided(pending)
        before, note = tract.log(), pending.note
        other = {**MESSAGE, "message": "other"}
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "commit", other)
            await anyio.to_thread.run_sync(lambda: until(lambda: len(tract.review.inbox()) == 2))
            tasks.cancel_scope.cancel()
        result = await client.call_tool("commit", MESSAGE)
        return before, note, told(result)["commit_hash"]

    before, note, commit = serve(tract, use)
    assert before == []
    assert "nothing ran. The decision waits" in note
    assert [info.commit_hash for info in tract.log()] == [commit]


@pytest.mark.slow
def test_an_approval_after_a_channel_made_no_decision_waits_for_the_identical_call(tract):
    async def pass_on(request):
        return None

    tract.reviewer.channel = personal_channel("test")(pass_on)

    async def use(client):
        first = await client.call_tool("commit", MESSAGE)
        pending = await open_request(tract)
        await decided(pending)
        assert tract.log() == []
        second = await client.call_tool("commit", MESSAGE)
        return first, pending.note, second, await client.call_tool("commit", MESSAGE)

    first, note, second, third = serve(tract, use)
    assert first.is_error
    assert "made no decision" in first.content[0].text
    assert "Make the same call again later" in first.content[0].text
    assert "nothing ran. The decision waits" in note
    assert [info.commit_hash for info in tract.log()] == [told(second)["commit_hash"]]
    assert third.is_error  # the approval was used once


def test_a_rejection_after_the_client_has_left_is_only_a_rejection(tract):
    async def use(client):
        await decided(await cancelled(client, tract), "reject")
        return tract.review.inbox()

    assert serve(tract, use) == []
    assert tract.log() == []


def test_a_client_that_left_asks_again_with_the_same_request(tract):
    async def use(client):
        before = await cancelled(client, tract)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "commit", MESSAGE)
            live = await anyio.to_thread.run_sync(
                lambda: until(lambda: tract.reviewer.asked_here(before.pending_id))
            )
            await decided(live)
        return before.pending_id, live.pending_id

    before, after = serve(tract, use)
    assert before == after
    assert len(tract.log()) == 1


def test_an_identical_call_gets_the_result_of_a_call_whose_client_left(tract, add):
    go, ran = threading.Event(), []

    def slow():
        ran.append(1)
        return go.wait(30)

    add(slow)

    async def use(client):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "slow", {})
            await decided(await open_request(tract))
            await anyio.to_thread.run_sync(lambda: until(lambda: ran))
            tasks.cancel_scope.cancel()
        go.set()
        return await client.call_tool("slow", {})

    result = serve(tract, use)
    text, note = (block.text for block in result.content)
    assert (text, "did not run again" in note, ran) == ("true", True, [1])
