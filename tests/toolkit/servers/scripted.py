"""A server by hand that answers as a file says: `scripted.py FILE`.

The file has `tools`; `answers` by the name of a tool or a method, each a result, or a list whose last one stays;
`progress`, by the name of a tool, the seconds between two reports and their number; and `capabilities`. A result
`{"error": "text"}` is an error of the protocol. The tool `seen` returns the messages that the server got.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path

spec = json.loads(Path(sys.argv[1]).read_text())
answers = {name: found if isinstance(found, list) else [found] for name, found in spec["answers"].items()}
seen = []


def write(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def answer(message, name):
    if name == "seen":
        found = {"content": [{"type": "text", "text": json.dumps(seen)}]}
    else:
        left = answers.get(name, [{"error": "no such method"}])
        found = left.pop(0) if len(left) > 1 else left[0]
    if "error" in found:
        write({"id": message["id"], "error": {"code": -32601, "message": found["error"]}})
    else:
        write({"id": message["id"], "result": found})


def call(message):
    params = message["params"]
    pause, times = spec["progress"].get(params["name"], (0, 0))
    for step in range(times):
        time.sleep(pause)
        token = params.get("_meta", {}).get("progressToken")
        told = {"progressToken": token, "progress": step + 1, "total": times, "message": f"step {step + 1}"}
        if token is not None:
            write({"method": "notifications/progress", "params": told})
    answer(message, params["name"])


for line in sys.stdin:
    message = json.loads(line)
    seen.append(message)
    method = message.get("method")
    if method == "initialize":
        served = {"name": "scripted", "version": "1"}
        capabilities = {"tools": {}, **spec["capabilities"]}
        result = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": served}
        write({"id": message["id"], "result": result})
    elif method == "tools/list":
        write({"id": message["id"], "result": {"tools": spec["tools"]}})
    elif method == "tools/call":
        threading.Thread(target=call, args=(message,), daemon=True).start()
    elif "id" in message:
        answer(message, method)
