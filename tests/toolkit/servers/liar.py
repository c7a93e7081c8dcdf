"""A server by hand that misbehaves in the ways its arguments name: `liar.py WAY [NUMBER]`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

way = sys.argv[1]
number = int(sys.argv[2]) if len(sys.argv) > 2 else 0
OBJECT = {"type": "object", "properties": {"n": {"type": "integer"}}}


def tool(name="go", schema=OBJECT, **more):
    return {"name": name, "description": "Goes.", "inputSchema": schema, **more}


LISTS = {
    "twins": [tool("go"), tool("twin"), tool("twin", {"type": "object"})],
    "same_in_python": [tool("go"), tool("a-b"), tool("a_b")],
    "names": [tool("go"), tool(""), tool("x" * 1_000), tool("a\nb"), tool("a\u202eb"), tool("class"), tool("__dict__"),
              tool("list_tools"), tool("é"), tool("with space"), tool("db.query")],
    "schemas": [tool("go"), tool("deep", {"type": "object", "properties": {"x": {"type": 3}}}),
                tool("remote", {"type": "object", "$ref": "http://127.0.0.1:9/x.json"})],
    "no_json": [tool("go"), tool("nan", outputSchema={"type": "object", "minimum": float("nan")})],
    "crowd": [tool(f"t{i}") for i in range(1_001)],
    "heavy": [tool(f"t{i:02}", {"type": "object", "properties": {"p": {"enum": [*range(4_900)]}}}) for i in range(12)],
    "no_list": {"tools": 3},
    "hints": [tool("reads", annotations={"readOnlyHint": True, "openWorldHint": False}), tool("go"),
              tool("destroys", annotations={"destructiveHint": True, "openWorldHint": False})],
}  # fmt: skip


def write(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def listed(params, times):
    if way == "endless":
        return {"tools": [tool(f"t{times}_{i}") for i in range(100)], "nextCursor": str(times)}
    if way == "changes_later":
        times = len(list(Path.cwd().iterdir()))
        Path(f"started_{times}").touch()
    if way in {"changes", "changes_later"} and times:
        return {"tools": [tool("go", {"type": "object", "properties": {"m": {"type": "string"}}})]}
    found = LISTS.get(way, [tool()])
    return found if isinstance(found, dict) else {"tools": found}


def called(params):
    if way == "big":
        return {"content": [{"type": "text", "text": "x" * number}]}
    answer = {"content": [{"type": "text", "text": json.dumps(params.get("arguments"))}]}
    return ANSWERS.get(way, answer)


ANSWERS = {
    "image": {"content": [
        {"type": "text", "text": "look:"}, {"type": "image", "data": "QUJD" * number, "mimeType": "image/png"},
        {"type": "resource", "resource": {"uri": "a://b", "blob": "QUJD"}},
        {"type": "resource", "resource": {"uri": "a://b", "text": "written"}},
        {"type": "resource_link", "name": "c", "uri": "c://d"},
    ]},
    "no_answer": {"content": 3},
    "error_without_words": {"content": [], "isError": True},
    "empty": {"content": []},
    "error_dict": {"content": [], "structuredContent": {"error": "is only a name"}},
    "pid": {"content": [{"type": "text", "text": str(os.getpid())}]},
}  # fmt: skip


if way == "dies_at_start":
    sys.exit("no configuration here")
if way == "hangs":
    print("still loading", file=sys.stderr, flush=True)
    time.sleep(600)
if way == "deaf":  # does not end when its stdin does, nor when it is asked to
    import signal

    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if way == "parent":
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    ANSWERS["parent"] = {"content": [{"type": "text", "text": str(child.pid)}]}
if way == "chatty":
    sys.stderr.write("e" * 3_000_000)
    print("Hello, I am a forgotten print!")

times = 0
for line in sys.stdin:
    message = json.loads(line)
    method, id_ = message.get("method"), message.get("id")
    if method == "initialize":
        write({"id": id_, "result": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {"listChanged": True}},
                                     "serverInfo": {"name": "liar", "version": "1"}}})  # fmt: skip
    elif method == "tools/list":
        write({"id": id_, "result": listed(message.get("params") or {}, times)})
        times += 1
    elif method == "tools/call":
        if way == "dies":
            print("out of memory", file=sys.stderr, flush=True)
            os._exit(3)
        if way == "closes":
            os.close(1)
            time.sleep(600)
        if way == "silent":
            continue
        if way == "endless_line":
            while True:
                sys.stdout.write("x" * 1_000_000)
        if way in {"changes", "says_so"}:
            write({"method": "notifications/tools/list_changed"})
        if way == "garbage":
            print("{not json")
        write({"id": id_, "result": called(message["params"])})
        if way in {"dies_after", "changes_later"}:
            os._exit(0)
    elif id_ is not None:
        write({"id": id_, "error": {"code": -32601, "message": "no such method"}})
if way == "deaf":
    time.sleep(600)
