"""Runs the scenarios of `loop/` and our own of `loop_scenarios.json` with `loop/driver.py`, in three dialects.

    python tests/vectors/loop_driver.py [--wire responses] [options of loop/driver.py]

`--wire responses` has `openai` speak Responses. Each request is judged by the official SDK as well, down to the keys.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "loop"), str(HERE.parents[1])]
os.environ.setdefault("LOOP_PRODUCT", str(HERE / "loop_product.py"))

import driver  # noqa: E402 # of the given files, which import each other by these names
import play  # noqa: E402
import server  # noqa: E402

from tests.llm import sdk  # noqa: E402
from tests.vectors.responses_server import ResponsesServer  # noqa: E402

OWN = HERE / "loop_scenarios.json"
CHAT_ONLY = {"BUD-09"}
"""What only chat completions have: usage in a stream has to be asked for."""
given_check, given_load = driver.check, play.load


def load():
    """Return the given scenarios and our own."""
    found = [*given_load(), *json.loads(OWN.read_text(encoding="utf-8"))]
    if os.environ.get("LOOP_WIRE") == "responses":
        return [one for one in found if one["id"] not in CHAT_ONLY]
    return found


def check(scenario, dialect, stream, observed, server):
    """Check as the given files do, and have the SDK judge each request."""
    responses = isinstance(server, ResponsesServer)
    judged = [] if scenario.get("allow_violations") else [
        f"request {one['n']}: {problem}"
        for one in server.requests
        if isinstance(one["body"], dict)
        for problem in sdk.problems_of(one["path"], one["body"])
    ]  # fmt: skip
    for one in server.requests if responses and scenario["expect"].get("stable_prefix") else ():
        one["body"] |= {"messages": one["body"]["input"], "system": one["body"].get("instructions")}
    fails, warns = given_check(scenario, dialect, stream, observed, server)
    return [*judged, *fails], warns


driver.load, driver.check = load, check
driver.__file__ = __file__  # second processes are begun with it


def warm_up():
    """Import what the server judges with, so that no request waits for it while a turn's seconds are counted."""
    import jsonschema

    assert jsonschema
    for dialect in ("openai", "anthropic"):
        server.validate(dialect, {}, {"messages": []}, "")


def main(words):
    """Run what is asked for; returns 1 if something fails."""
    if "--wire" in words:
        place = words.index("--wire")
        os.environ["LOOP_WIRE"] = words[place + 1]
        del words[place : place + 2]
    if os.environ.get("LOOP_WIRE") == "responses":
        driver.ModelServer = ResponsesServer
    if words[:1] == ["--child"]:
        return driver.child(words[1:])
    warm_up()
    sys.argv[1:] = [
        *words,
        *([] if "--dialect" in words or "LOOP_WIRE" not in os.environ else ["--dialect", "openai"]),
    ]
    return driver.main()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
