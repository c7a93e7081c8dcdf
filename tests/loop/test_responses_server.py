"""The scripted Responses server: the SDK can read its replies, and it refuses invalid requests."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.llm import sdk

VECTORS = Path(__file__).parents[1] / "vectors"
HEADERS = {"content-type": "application/json", "authorization": "Bearer k"}
HI = {"role": "user", "content": "Hi"}
CALL = {"type": "function_call", "call_id": "a", "name": "look", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "a", "output": "sunny"}
REPLY = {
    "text": "Hello there", "reasoning": "Hm, let me think.", "chunk": {"text": 3},
    "calls": [{"name": "look", "args": {"city": "Rome"}}, {"name": "rest", "args": {}}],
}  # fmt: skip
ASKED = {"include": ["reasoning.encrypted_content"]}


def run(code, given):
    """Run code in another process and return its JSON output. Its files import each other by short names."""
    begin = f"import sys, json\nsys.path[:0] = {[str(VECTORS), str(VECTORS.parents[1])]!r}\nimport responses_server as r\n"
    ended = subprocess.run(
        [sys.executable, "-c", begin + code], input=json.dumps(given), capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


@pytest.mark.parametrize("quirks", [{}, {"interleave": True}])
def test_its_streams_are_read_by_the_sdk(quirks):
    code = (
        "given = json.load(sys.stdin)\n"
        "print(json.dumps([r.whole('openai', *given), [one for _, one in r.events('openai', *given)]]))"
    )
    whole, events = run(code, [{**REPLY, "quirks": quirks}, ASKED, "m", 1])
    read = sdk.read_by_sdk("/responses", sdk.responses_stream(*events))
    assert [item["type"] for item in read["output"]] == [
        "reasoning",
        "message",
        "function_call",
        "function_call",
    ]
    assert [item["id"] for item in read["output"]] == [item["id"] for item in whole["output"]]
    assert events[-1]["response"]["output"] == whole["output"]
    pieces = [one["delta"] for one in events if one["type"].endswith("output_text.delta")]
    assert "".join(pieces) == "Hello there"


JUDGED = (
    "first, bodies = json.load(sys.stdin)\n"
    "judge = r.Judge()\n"
    "judge.remember(r.output_of(*first, 1))\n"
    "headers = {'content-type': 'application/json', 'authorization': 'Bearer k'}\n"
    "print(json.dumps([list(judge.problems(headers, one, 'sk-1')) for one in bodies]))"
)


@pytest.fixture(scope="module")
def given():
    """The items of a reply."""
    return run("print(json.dumps(r.output_of(*json.load(sys.stdin), 1)))", [REPLY, ASKED])


@pytest.mark.slow
def test_invalid_requests_are_refused_with_the_reason(given):
    reasoning, message, first, second = given
    outputs = [{**OUTPUT, "call_id": one["call_id"]} for one in (first, second)]
    bare = {name: value for name, value in reasoning.items() if name != "encrypted_content"}
    tool = {"type": "function", "name": "look", "parameters": {"type": "object"}, "strict": False}

    def asking(*items, **more):
        return {"model": "m", "store": False, "input": [HI, *items], "tools": [tool], **more}

    fine = [asking(), asking(CALL, OUTPUT), asking(*given, *outputs)]
    wrong = {
        "have no output": asking(CALL),
        "have no output before": asking(CALL, HI),
        "open are": asking(CALL, OUTPUT, OUTPUT),
        "call_id 'a' twice": asking(CALL, OUTPUT, CALL, OUTPUT),
        "not complete or not in order": asking(message, first, second, *outputs),
        "something is between": asking(reasoning, message, first, CALL, second, *outputs, OUTPUT),
        "not as it was given": asking({**reasoning, "summary": []}, message, first, second, *outputs),
        "without the reasoning": asking(
            {name: value for name, value in first.items() if name != "id"}, outputs[0]
        ),
        "never given": asking({**CALL, "id": "fc_9"}, OUTPUT),
        "without encrypted_content": asking(bare, message, first, second, *outputs),
        "store is": {**asking(), "store": None},
        "nothing is kept": asking(previous_response_id="resp_1"),
        "stream_options without": asking(stream_options={"include_obfuscation": False}),
        "has no 'max_tokens'": asking(max_tokens=20),
        "the API key": asking({"role": "user", "content": "sk-1"}),
        "empty output": asking(CALL, {**OUTPUT, "output": ""}),
        "the tools changed": asking(tools=[{**tool, "name": "other"}]),
        "is strict": asking(tools=[{**tool, "strict": True}]),
        "nothing is asked": asking({"role": "assistant", "content": "Hi"}),
    }
    judged = run(JUDGED, [[REPLY, ASKED], [*fine, *wrong.values()]])
    assert judged[: len(fine)] == [[]] * len(fine)
    for word, found in zip(wrong, judged[len(fine) :], strict=True):
        assert any(word in one for one in found), (word, found)
