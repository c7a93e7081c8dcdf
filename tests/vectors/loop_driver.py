"""Runs the scenarios of `loop/` and our own of `loop_scenarios.json` with `loop/driver.py`, in three dialects.

    python tests/vectors/loop_driver.py [--wire responses] [--commits FILE] [options of loop/driver.py]

`--wire responses` has `openai` speak Responses. `--commits` writes what was committed and done in each variant, where
calls have the same ids in all dialects. Each request is judged by the official SDK as well, down to the keys.
"""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "loop"), str(HERE.parents[1])]
os.environ.setdefault("LOOP_PRODUCT", str(HERE / "loop_product.py"))

import driver  # noqa: E402 # of the given files, which import each other by these names
import play  # noqa: E402
import server  # noqa: E402

from tests.llm import sdk  # noqa: E402
from tests.vectors.forked import Forking  # noqa: E402
from tests.vectors.responses_server import ResponsesServer  # noqa: E402

OWN = HERE / "loop_scenarios.json"
CHAT_ONLY = {"BUD-09"}
"""What only chat completions have: usage in a stream has to be asked for."""
given_check, given_load, given_close = driver.check, play.load, driver.close
given_prepare = driver.prepare
histories, done = {}, {}


def load():
    """Return the given scenarios and our own."""
    found = [*given_load(), *json.loads(OWN.read_text(encoding="utf-8"))]
    if os.environ.get("LOOP_WIRE") == "responses":
        found = [one for one in found if one["id"] not in CHAT_ONLY]
    return [with_ids(one) for one in found] if "LOOP_COMMITS" in os.environ else found


def named(place, calls):
    return [{"wire_id": f"call_{call.get('id', f'{place}_{at}')}", **call} for at, call in enumerate(calls)]


def with_ids(scenario):
    """Return a scenario whose calls have the same ids in each dialect."""
    script = [
        {**entry, "calls": named(place, entry.get("calls", ()))}
        for place, entry in enumerate(scenario["script"])
    ]
    return {**scenario, "script": script}


def close(ctx):
    """Close the session, and keep what was committed."""
    t, key = ctx.session, f"{ctx.scenario['id']} {'stream' if ctx.stream else 'whole'}"
    histories[key] = [
        [info.content_type, str(info.operation), info.content_hash, t.get_content(info.commit_hash)]
        for info in reversed(t.log(limit=None))
    ]
    given_close(ctx)


def check(scenario, dialect, stream, observed, server):
    """Check as the given files do, and have the SDK judge each request."""
    responses = isinstance(server, ResponsesServer)
    judged = [] if scenario.get("allow_violations") else [
        f"request {one['n']}: {problem}"
        for one in server.requests
        if isinstance(one["body"], dict)
        for problem in sdk.problems_of(one["path"], one["body"])
    ]  # fmt: skip
    effects = [[one["tool"], one["args"]] for one in observed["effects"]]
    done[f"{scenario['id']} {'stream' if stream else 'whole'}"] = effects
    for one in server.requests if responses and scenario["expect"].get("stable_prefix") else ():
        one["body"] |= {"messages": one["body"]["input"], "system": one["body"].get("instructions")}
    fails, warns = given_check(scenario, dialect, stream, observed, server)
    return [*judged, *fails], warns


def prepare(actor, scenario, dialect, stream, given_actor, *more):
    """Prepare as the given files do; what is killed, too, is sync or async as it is asked for."""
    return given_prepare(scenario, dialect, stream, actor, *more)


def warm_up():
    """Import what the server judges with, so that no request waits for it while a turn's seconds are counted."""
    import jsonschema

    assert jsonschema
    for dialect in ("openai", "anthropic"):
        server.validate(dialect, {}, {"messages": []}, "")
    for path in ("/chat/completions", "/responses", "/messages"):
        for streams in (True, False):
            sdk.problems_of(path, {"stream": streams})


def run(*words):
    """Run what is asked for, in the process of a `Forker`."""
    return main(list(words))


def main(words):
    """Run what is asked for; returns 1 if something fails."""
    kept = None
    if "--commits" in words:
        place = words.index("--commits")
        kept = os.environ["LOOP_COMMITS"] = words[place + 1]
        del words[place : place + 2]
    if "--wire" in words:
        place = words.index("--wire")
        os.environ["LOOP_WIRE"] = words[place + 1]
        del words[place : place + 2]
    if os.environ.get("LOOP_WIRE") == "responses":
        driver.ModelServer = ResponsesServer
    driver.load, driver.check, driver.close = load, check, close
    driver.prepare = partial(prepare, words[words.index("--actor") + 1] if "--actor" in words else "sync")
    driver.subprocess = Forking(driver.child)
    warm_up()
    if "LOOP_WIRE" in os.environ and "--dialect" not in words:
        words += ["--dialect", "openai"]
    sys.argv[1:] = words
    ended = driver.main()
    if kept is not None:
        Path(kept).write_text(json.dumps({"commits": histories, "effects": done}), encoding="utf-8")
    return ended


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
