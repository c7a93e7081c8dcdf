"""An agent that speaks ACP on stdin and stdout and follows a script.

The script is JSON: {"modes": [...], "prompts": [[step, ...], ...], ...}. The steps of one prompt run in order. A step is
a list: a verb with its arguments. Steps are in `STEPS`. It imports little, so it starts in about 50 ms.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

SCRIPT = json.loads(sys.argv[1])
LOG = SCRIPT.get("log")
STATE = {"mode": SCRIPT.get("mode", "auto"), "requests": 0, "cancelled": False, "prompt": None}
WAITING = []  # messages that came while a step waited for another one


def send(**message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def log(**entry):
    if LOG:
        with Path(LOG).open("a") as file:
            file.write(json.dumps(entry) + "\n")


def update(kind, /, session="s1", **fields):
    send(method="session/update", params={"sessionId": session, "update": {"sessionUpdate": kind, **fields}})


def read():
    line = sys.stdin.readline()
    if not line:
        if SCRIPT.get("ignores_end"):
            time.sleep(60)
        sys.exit(0)
    message = json.loads(line)
    log(**message)
    return message


def answer_to(number):
    """Wait for the answer to a request of this agent."""
    while True:
        message = read()
        if number is not None and message.get("id") == number and "method" not in message:
            return message
        if message.get("method") == "session/cancel" and not SCRIPT.get("ignores_cancel"):
            STATE["cancelled"] = True
            if number is None:
                return {}
        elif message.get("method") != "session/cancel":
            WAITING.append(message)


def ask(call, options=None, does=None, refused="failed", meta=None):
    """Ask for permission, as real agents do; then do something if it is allowed."""
    STATE["requests"] += 1
    number = f"ask-{STATE['requests']}"
    options = options or [
        {"optionId": "allow-once", "name": "Yes", "kind": "allow_once"},
        {"optionId": "allow-always", "name": "Yes, allow all edits", "kind": "allow_always"},
        {"optionId": "reject", "name": "No", "kind": "reject_once"},
    ]
    send(
        id=number,
        method="session/request_permission",
        params={"sessionId": "s1", "toolCall": call, "options": options, **({"_meta": meta} if meta else {})},
    )
    outcome = answer_to(number).get("result", {}).get("outcome", {})
    log(outcome=outcome)
    chosen = next((one["kind"] for one in options if one["optionId"] == outcome.get("optionId")), "")
    if chosen.startswith("allow"):
        run(does or [])
        update(
            "tool_call_update",
            toolCallId=call["toolCallId"],
            status="completed",
            content=[{"type": "content", "content": {"type": "text", "text": "done"}}],
        )
    elif refused == "ends":  # as Codex and OpenCode: "No" ends the turn
        raise TurnEndError("cancelled")
    else:
        update("tool_call_update", toolCallId=call["toolCallId"], status=refused)


class TurnEndError(Exception):
    pass


def flood(kind, number, fields):
    for _ in range(number):
        update(kind, **fields)


def wait_for_cancel():
    answer_to(None)


def post(server, method, params, session=None):
    """Send a request to an MCP server, and return its result and the id of the session."""
    import urllib.request

    headers = {one["name"]: one["value"] for one in server["headers"]}
    headers |= {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    headers |= {"Mcp-Session-Id": session, "MCP-Protocol-Version": "2025-06-18"} if session else {}
    data = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    with urllib.request.urlopen(urllib.request.Request(server["url"], data, headers), timeout=60) as reply:
        text = reply.read().decode()
    last = [line.removeprefix("data:") for line in text.splitlines() if line.startswith(("data:", "{"))][-1]
    return json.loads(last), reply.headers.get("Mcp-Session-Id")


def served(method, params):
    """Send a request to the MCP server that it got."""
    server = STATE["servers"][0]
    client = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "fake", "version": "1"},
    }
    _, session = post(server, "initialize", client)
    return post(server, method, params, session)[0]


def tool(name, arguments):
    """Call a tool of the server."""
    log(tool=served("tools/call", {"name": name, "arguments": arguments}))


def sleep(seconds):
    time.sleep(seconds)


def wait_for(path):
    end = time.monotonic() + 20
    while not path.exists() and time.monotonic() < end:
        time.sleep(0.01)


def write(path, text):
    Path(path).write_text(text)


def mode(name):
    STATE["mode"] = name
    update("current_mode_update", currentModeId=name)


STEPS = {
    "text": lambda text: update("agent_message_chunk", content={"type": "text", "text": text}),
    "thought": lambda text: update("agent_thought_chunk", content={"type": "text", "text": text}),
    "update": lambda kind, fields: update(kind, **fields),
    "call": lambda fields: update("tool_call", **fields),
    "progress": lambda fields: update("tool_call_update", **fields),
    "ask": lambda fields: ask(**fields),
    "flood": flood,
    "calls": lambda number: [update("tool_call", toolCallId=f"c{one}") for one in range(number)],
    "large": lambda size: update("agent_message_chunk", content={"type": "text", "text": "x" * size}),
    "raw": lambda text: (sys.stdout.write(text + "\n"), sys.stdout.flush()),
    "request": lambda method, params: (
        send(id="r1", method=method, params=params),
        log(answer=answer_to("r1")),
    ),
    "wait": lambda path: wait_for(Path(path)),
    "answer": lambda number: log(answer=answer_to(number)),
    "notify": lambda method, params: send(method=method, params=params),
    "echo": lambda: update("agent_message_chunk", content={"type": "text", "text": STATE["prompt"]}),
    "tool": tool,
    "tools": lambda: log(tools=[one["name"] for one in served("tools/list", {})["result"]["tools"]]),
    "kernel": lambda code: tool("run_code", {"code": code}),
    "write": write,
    "remove": lambda path: Path(path).unlink(),
    "move": lambda path: Path.cwd().rename(path),
    "mode": mode,
    "sleep": sleep,
    "die": os._exit,
    "stderr": lambda text: (sys.stderr.write(text), sys.stderr.flush()),
    "spawn": lambda *command: log(child=subprocess.Popen(command, start_new_session=True).pid),
    "cancelled": wait_for_cancel,
    "stop": lambda reason: (_ for _ in ()).throw(TurnEndError(reason)),
    "env": lambda: log(env=dict(os.environ), options=sys.argv[2:]),
}


def run(steps):
    for verb, *arguments in steps:
        STEPS[verb](*arguments)


def prompt(params):
    STATE["cancelled"], STATE["prompt"] = False, params["prompt"][-1].get("text")
    prompts = SCRIPT.get("prompts", [])
    steps = prompts.pop(0) if prompts else [["text", "Done."]]
    try:
        run(steps)
    except TurnEndError as end:
        return {"stopReason": str(end)}
    reason = "cancelled" if STATE["cancelled"] else "end_turn"
    return {"stopReason": reason, **({"usage": SCRIPT["usage"]} if "usage" in SCRIPT else {})}


def modes():
    names = SCRIPT.get("modes", ["auto", "default"])
    if SCRIPT.get("config"):
        return {
            "configOptions": [
                {"id": "m", "category": "mode", "type": "select", "currentValue": STATE["mode"]}
            ]
        }
    available = [{"id": name, "name": name} for name in names]
    return {"modes": {"currentModeId": STATE["mode"], "availableModes": available}} if names else {}


def result_of(method, params):
    if method in SCRIPT.get("dies_at", []):
        os._exit(3)
    if method in SCRIPT.get("errors", {}):
        return None
    if method == "initialize":
        can = {
            "loadSession": SCRIPT.get("loads", False),
            "mcpCapabilities": {"http": True},
            "promptCapabilities": {"image": True, "embeddedContext": True},
        }
        return {
            "protocolVersion": SCRIPT.get("version", 1),
            "agentCapabilities": can,
            "authMethods": SCRIPT.get("login", []),
        }
    if method == "session/new":
        STATE["servers"] = params["mcpServers"]
        return {"sessionId": "s1", **modes()}
    if method == "session/load":
        STATE["mode"] = SCRIPT.get("mode_after_load", "auto")
        update("agent_message_chunk", content={"type": "text", "text": "replayed"})
        return modes()
    if method == "session/set_mode":
        run(SCRIPT.get("before_mode", []))
    if method == "session/set_mode" and not SCRIPT.get("ignores_mode"):
        STATE["mode"] = params["modeId"]
    elif method == "session/set_mode":
        mode(STATE["mode"])
    if method == "session/set_config_option":
        STATE["mode"] = STATE["mode"] if SCRIPT.get("ignores_mode") else params["value"]
        return modes()
    return prompt(params) if method == "session/prompt" else {}


if SCRIPT.get("ignores_end"):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
while True:
    message = WAITING.pop(0) if WAITING else read()
    if "id" in message and "method" in message:
        result = result_of(message["method"], message.get("params", {}))
        if result is None:
            send(id=message["id"], error=SCRIPT["errors"][message["method"]])
        else:
            send(id=message["id"], result=result)
