"""The scripted model of `loop/server.py` in a third dialect: OpenAI's Responses, whole and streamed, as strictly judged.

What a scenario expects of `openai` holds here too: it is the same provider, in another form. Nothing is stored with it
(`store` is false), so each request brings all of the conversation, and items of an earlier reply come back as they were
given: complete, unchanged and in order, with what the model thought encrypted in its place.
"""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent / "loop"), str(Path(__file__).parents[2])]

import server  # noqa: E402 # of the given files, which import each other by these names

from tests.llm import sdk  # noqa: E402

REASONS = "gpt-6-luna"
"""The model of a scenario that has reasoning; the others are played by the model that they name."""
ENCRYPTED = "reasoning.encrypted_content"
INCOMPLETE = {"length": "max_output_tokens", "filter": "content_filter"}
PARTS = {"assistant": {"output_text", "refusal"}, "": {"input_text", "input_image", "input_file"}}
LEAST_TOKENS = 16  # of max_output_tokens
LONGEST_ID = 64
ROLES = {"function_call": "assistant", "reasoning": "assistant", "function_call_output": "tool"}


# --- what is asked


def items_of(body):
    """Return the items of a request; a text alone is a message of the user."""
    given = body.get("input")
    return [{"role": "user", "content": given}] if isinstance(given, str) else given


def text_of(content):
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text") or part.get("refusal") or "") for part in content or ())


def normalise(dialect, body):
    """Return the form in which the scenarios read the requests of each dialect."""
    out = []
    for item in items_of(body) or ():
        role = ROLES.get(item.get("type"), item.get("role"))
        if role != "assistant" or not out or out[-1]["role"] != "assistant":
            out.append({"role": role, "text": "", "calls": [], "results": [], "thinking": ""})
        add_item(out[-1], item)
    system = [one["text"] for one in out if one["role"] in {"system", "developer"}]
    tools = [
        {
            "name": tool.get("name"),
            "description": tool.get("description", ""),
            "schema": tool.get("parameters"),
        }
        for tool in body.get("tools") or ()
    ]
    return {
        "system": "\n".join([*filter(None, [body.get("instructions")]), *system]), "messages": out, "tools": tools,
        "stream": bool(body.get("stream")), "results": [result for one in out for result in one["results"]],
        "calls": [call for one in out for call in one["calls"]],
        "user_texts": [one["text"] for one in out if one["role"] == "user" and one["text"]],
        "assistant_texts": [one["text"] for one in out if one["role"] == "assistant" and one["text"]],
        "size": len(json.dumps(body, ensure_ascii=False)),
    }  # fmt: skip


def add_item(one, item):
    """Add an item to what somebody says."""
    kind = item.get("type", "message")
    if kind == "message":
        one["text"] += text_of(item.get("content"))
    elif kind == "function_call":
        try:
            arguments = json.loads(item.get("arguments") or "{}")
        except (ValueError, RecursionError):
            arguments = item.get("arguments")
        one["calls"].append({"id": item.get("call_id"), "name": item.get("name"), "args": arguments})
    elif kind == "function_call_output":
        one["results"].append({"id": item.get("call_id"), "text": text_of(item.get("output")), "error": None})
    elif kind == "reasoning":
        one["thinking"] += text_of(item.get("summary"))


class Judge:
    """What is wrong with the requests of one conversation: what the API refuses, or documents as wrong."""

    def __init__(self):
        self.tools = None
        self.replies = []  # the items of each
        self.place_of = {}  # item id: (reply, place)

    def remember(self, output):
        for place, item in enumerate(output):
            self.place_of[item["id"]] = (len(self.replies), place)
        self.replies.append(output)

    def problems(self, headers, body, key):
        if not isinstance(body, dict):
            return ["body is not a JSON object"]
        text = json.dumps(body, ensure_ascii=False)
        bad = [f"SDK types: {' '.join(told.split())[:400]}" for told in sdk.problems_of("/responses", body)]
        if key and key in text:
            bad.append("the API key is in the body")
        if re.search("[\ud800-\udfff]", text):
            bad.append("a lone surrogate in the body")
        if not str(headers.get("content-type", "")).startswith("application/json"):
            bad.append("content-type is not application/json")
        if not str(headers.get("authorization", "")).startswith("Bearer "):
            bad.append("no Authorization: Bearer header")
        items = items_of(body)
        if not isinstance(items, list) or not items or not all(isinstance(item, dict) for item in items):
            return [*bad, "input is empty, or no list of items"]
        return [
            *bad,
            *self._options(body),
            *self._tools(body),
            *self._pairs(items),
            *self._as_given(items),
        ]

    def _options(self, body):
        if not isinstance(body.get("model"), str) or not body["model"]:
            yield "no model"
        if body.get("store") is not False:
            yield f"store is {body.get('store')!r}: the conversation would be kept by the provider"
        for name in ("previous_response_id", "conversation"):
            if body.get(name) is not None:
                yield f"{name} with store=false: nothing is kept that it could name"
        if body.get("stream_options") is not None and body.get("stream") is not True:
            yield "stream_options without stream"
        if "instructions" in body and not str(body["instructions"]).strip():
            yield "empty instructions"
        if len(set(body.get("include") or ())) != len(body.get("include") or ()):
            yield "include names something twice"
        limit = body.get("max_output_tokens")
        if limit is not None and (not isinstance(limit, int) or limit < LEAST_TOKENS):
            yield f"max_output_tokens is {limit!r}"
        if "tools" not in body and body.get("tool_choice") not in {None, "none"}:
            yield "tool_choice without tools"

    def _tools(self, body):
        tools = body.get("tools", [])
        if not tools and "tools" in body:
            yield "tools is empty"
        names = [tool.get("name") for tool in tools]
        if len(set(names)) != len(names):
            yield f"a tool twice: {names}"
        for tool in tools:
            name, schema = tool.get("name"), tool.get("parameters")
            if tool.get("type") != "function" or not server.NAME["openai"].match(str(name)):
                yield f"tool {name!r} of type {tool.get('type')!r}"
            if not isinstance(schema, dict) or schema.get("type") != "object":
                yield f"parameters of {name!r} are not of type object"
                continue
            if tool.get("strict") is not False and (
                schema.get("additionalProperties") is not False
                or set(schema.get("required", ())) != set(schema.get("properties", ()))
            ):
                yield f"tool {name!r} is strict, and its parameters are not"
            server_tools = []
            server._tools("anthropic", {"tools": [{"name": name, "input_schema": schema}]}, server_tools, [])
            yield from server_tools
        if self.tools is None:
            self.tools = tools
        elif tools != self.tools:
            yield "the tools changed within the conversation"

    def _pairs(self, items):
        """Each call is answered once, before anything else is said."""
        open_ids, seen = [], set()
        for place, item in enumerate(items):
            kind, where = item.get("type", "message"), f"item {place}"
            if kind == "message":
                if open_ids:
                    yield f"{where}: the calls {open_ids} have no output before it"
                    open_ids = []
                yield from self._message(where, item)
            elif kind == "function_call":
                yield from self._call(where, item, seen)
                open_ids.append(item.get("call_id"))
            elif kind == "function_call_output":
                yield from self._output(where, item, open_ids)
            elif kind != "reasoning":
                yield f"{where}: type {kind!r}"
        if open_ids:
            yield f"the calls {open_ids} have no output"
        last = items[-1]
        if last.get("role") != "user" and last.get("type") != "function_call_output":
            yield f"the last item is {last.get('type')} of role {last.get('role')!r}: nothing is asked"

    def _call(self, where, item, seen):
        given = item.get("call_id")
        if not isinstance(given, str) or not 0 < len(given) <= LONGEST_ID:
            yield f"{where}: call_id {given!r}"
        if given in seen:
            yield f"{where}: call_id {given!r} twice"
        if not server.NAME["openai"].match(str(item.get("name"))):
            yield f"{where}: call of name {item.get('name')!r}"
        if not isinstance(item.get("arguments"), str):
            yield f"{where}: arguments are no string"
        seen.add(given)

    def _output(self, where, item, open_ids):
        given = item.get("call_id")
        if given in open_ids:
            open_ids.remove(given)
        else:
            yield f"{where}: output of {given!r}, open are {open_ids}"
        if not text_of(item.get("output")):
            yield f"{where}: empty output"

    def _message(self, where, item):
        role, content = item.get("role"), item.get("content")
        if role not in {"user", "assistant", "system", "developer"}:
            yield f"{where}: role {role!r}"
        if not content or (isinstance(content, str) and not content.strip()):
            yield f"{where} ({role}): empty content"
        for part in content if isinstance(content, list) else ():
            if part.get("type") not in PARTS["assistant" if role == "assistant" else ""]:
                yield f"{where} ({role}): part of type {part.get('type')!r}"

    def _thoughts(self, items):
        """What the model thought before it called comes back with the calls."""
        called = {item.get("call_id") for item in items if item.get("type") == "function_call"}
        there = {item.get("id") for item in items}
        for output in self.replies:
            thoughts = {item["id"] for item in output if item.get("encrypted_content")}
            if called & {item.get("call_id") for item in output} - {None} and not thoughts <= there:
                yield f"calls came back without the reasoning before them, {sorted(thoughts)}"

    def _as_given(self, items):
        """Items that a reply had come back as they were: all of them, in order, side by side."""
        known = [
            (place, *self.place_of[item["id"]])
            for place, item in enumerate(items)
            if item.get("id") in self.place_of
        ]
        for item in items:
            if item.get("type") == "reasoning" and not item.get("encrypted_content"):
                yield f"reasoning {item.get('id')!r} without encrypted_content: it is not stored"
            if item.get("id") and item["id"] not in self.place_of:
                yield f"item {item['id']!r} was never given"
        yield from self._thoughts(items)
        for place, reply, at in known:
            given, item = self.replies[reply][at], items[place]
            # an id that came twice, and a name that no tool can have, are sent otherwise
            free = {"call_id", "name"} if given["type"] == "function_call" else set()
            if any(item.get(name) != given.get(name) for name in {*item, *given} - free):
                yield f"item {item['id']!r} is not as it was given"
        for reply in {reply for _, reply, _ in known}:
            places = [place for place, its, _ in known if its == reply]
            if [at for _, its, at in known if its == reply] != list(range(len(self.replies[reply]))):
                yield f"the items of reply {reply + 1} are not complete or not in order"
            elif places != list(range(places[0], places[0] + len(places))):
                yield f"something is between the items of reply {reply + 1}"


# --- what is answered


def usage_of(reply, body):
    if reply.get("quirks", {}).get("no_usage"):
        return None
    found = server.usage_of("openai", reply, body)
    return {
        "input_tokens": found["prompt_tokens"], "output_tokens": found["completion_tokens"],
        "total_tokens": found["total_tokens"],
        "input_tokens_details": {"cached_tokens": found["prompt_tokens_details"]["cached_tokens"], "cache_write_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }  # fmt: skip


def output_of(reply, body, number):
    """Return the items of a reply."""
    items = []
    finish = reply.get("finish")
    last = "incomplete" if finish in INCOMPLETE else "completed"
    if reply.get("reasoning"):
        item = {
            "id": f"rs_{number}", "type": "reasoning",
            "summary": [{"type": "summary_text", "text": reply["reasoning"]}],
        }  # fmt: skip
        if ENCRYPTED in (body.get("include") or ()):
            item["encrypted_content"] = f"gAAAA-{number}-{len(reply['reasoning'])}"
        items.append(item)
    if reply.get("text"):
        part = {"type": "output_text", "text": reply["text"], "annotations": [], "logprobs": []}
        items.append(
            {
                "id": f"msg_{number}",
                "type": "message",
                "role": "assistant",
                "status": "completed",
                "content": [part],
            }
        )
    for place, call in enumerate(reply.get("calls") or (), 1):
        items.append(
            {
                "id": f"fc_{number}_{place}", "type": "function_call", "name": call["name"], "status": "completed",
                "call_id": server.wire_id("openai", call, place), "arguments": server.arguments(call),
            }
        )  # fmt: skip
    if items and "status" in items[-1]:
        items[-1]["status"] = last
    return [] if reply.get("empty_choices") else items


def whole(dialect, reply, body, model, number):
    """Return a whole reply."""
    finish = reply.get("finish")
    odd = finish not in {None, "stop", "tool", *INCOMPLETE}
    return {
        "id": f"resp_{number}", "object": "response", "created_at": int(time.time()), "model": model,
        "status": "incomplete" if finish in INCOMPLETE else "completed", "error": None,
        "incomplete_details": {"reason": INCOMPLETE.get(finish, finish)} if finish in INCOMPLETE or odd else None,
        "instructions": body.get("instructions"), "metadata": {}, "parallel_tool_calls": True, "store": False,
        "temperature": 1.0, "top_p": 1.0, "tool_choice": body.get("tool_choice", "auto"), "tools": body.get("tools", []),
        "output": output_of(reply, body, number), "usage": usage_of(reply, body),
    }  # fmt: skip


FIELDS = {
    "reasoning": ("reasoning_summary_text", {"summary_index": 0}, "text"),
    "message": ("output_text", {"content_index": 0}, "text"),
    "function_call": ("function_call_arguments", {}, "arguments"),
}


def item_events(item, index, chunk):
    """Return the events of one item: those that begin it, its deltas, and those that end it."""
    kind = item["type"]
    name, where, field = FIELDS[kind]
    at = {"item_id": item["id"], "output_index": index, **where}
    status = {"status": "in_progress"} if "status" in item else {}
    empty = {"reasoning": {"summary": []}, "message": {"content": []}, "function_call": {"arguments": ""}}[
        kind
    ]
    first = {**item, **status, **empty}
    first.pop("encrypted_content", None)
    begins = [{"type": "response.output_item.added", "output_index": index, "item": first}]
    ends = [{"type": "response.output_item.done", "output_index": index, "item": item}]
    if kind == "function_call":
        text, size = item["arguments"], chunk.get("args", 5)
        ends.insert(0, {"type": f"response.{name}.done", **at, "arguments": text, "name": item["name"]})
    else:
        part = item["summary" if kind == "reasoning" else "content"][0]
        text, size = part["text"], chunk.get("text", 7)
        parts = "reasoning_summary_part" if kind == "reasoning" else "content_part"
        begins.append({"type": f"response.{parts}.added", **at, "part": {**part, "text": ""}})
        logs = {"logprobs": []} if kind == "message" else {}
        ends[:0] = [
            {"type": f"response.{name}.done", **at, field: text, **logs},
            {"type": f"response.{parts}.done", **at, "part": part},
        ]
    logs = {"logprobs": []} if kind == "message" else {}
    deltas = [
        {"type": f"response.{name}.delta", **at, "delta": one, **logs} for one in server.pieces(text, size)
    ]
    return begins, deltas if text else [], ends


def events(dialect, reply, body, model, number):
    """Return the events of a stream, as (name, payload); a payload that is a text is sent as it is."""
    quirks, full = reply.get("quirks", {}), whole(dialect, reply, body, model, number)
    begun = {**full, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
    out = [{"type": f"response.{name}", "response": begun} for name in ("created", "in_progress")]
    items = [item_events(item, index, reply.get("chunk", {})) for index, item in enumerate(full["output"])]
    if quirks.get("interleave"):
        out += [one for begins, _, _ in items for one in begins]
        left = [list(deltas) for _, deltas, _ in items]
        while any(left):
            out += [deltas.pop(0) for deltas in left if deltas]
        out += [one for _, _, ends in items for one in ends]
    else:
        out += [one for item in items for part in item for one in part]
    if quirks.get("unknown_events"):
        out.insert(2, {"type": "weather_report", "sky": "clear"})
    if not quirks.get("no_finish"):
        out.append({"type": f"response.{full['status']}", "response": full})
    numbered = [(one["type"], {**one, "sequence_number": place}) for place, one in enumerate(out)]
    if quirks.get("comments"):
        numbered = [both for one in numbered for both in (one, (None, ": keep-alive\n\n"))]
    return numbered


class ResponsesServer(server.ModelServer):
    """A scripted model that speaks Responses, as OpenAI does."""

    paths = {"openai": "/responses"}

    def __init__(self, scenario, dialect, **given):
        super().__init__(scenario, dialect, **given)
        if any(entry.get("reasoning") for entry in scenario["script"]):
            self.model = REASONS
        self.judge = Judge()

    normalise = staticmethod(normalise)

    def validate(self, dialect, headers, body, key):
        with self.lock:
            return list(self.judge.problems(headers, body, key)), []

    def whole(self, *given):
        reply = whole(*given)
        self._remember(reply["output"])
        return reply

    def events(self, dialect, reply, body, model, number):
        self._remember(output_of(reply, body, number))
        return events(dialect, reply, body, model, number)

    def _remember(self, output):
        with self.lock:
            self.judge.remember(output)
