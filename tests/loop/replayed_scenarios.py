"""Runs scenarios of `tests/vectors/loop` twice, recorded and replayed, and prints as JSON in what they differ.

    python tests/loop/replayed_scenarios.py openai|anthropic whole|stream sync|async AREA,AREA

A scenario that is stopped or killed from outside is left out, and one without a key, of which a replay needs none.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

from tract_jupyter import Tract

FOLDER = Path(__file__).parents[1] / "vectors"


class Opening:
    """Stands for `Tract` in the adapter: what is opened records, or replays."""

    def __init__(self, way, cassette):
        self.options = {way: cassette}

    def open(self, store):
        return Tract.open(store, **self.options)


def played(driver, scenario, variant, way, cassette):
    """Return what came of a scenario: (turns, effects, how many requests there were, root hash, what was left over)."""
    dialect, how, actor = variant
    kept, closing = [], driver.close

    def close(ctx):
        head, report = ctx.session.head, ctx.session.cassette.stop()
        kept.extend([head, list(report.unused)])
        closing(ctx)

    driver.connect.__globals__["Tract"] = Opening(way, cassette)
    driver.close = close
    try:
        observed, server = driver.run(scenario, dialect, how == "stream", actor)
    finally:
        driver.close = closing
    turns = [{name: told for name, told in turn.items() if name != "seconds"} for turn in observed["turns"]]
    assert server.key not in cassette.read_text()
    return turns, observed["effects"], len(server.requests), *kept


def main(*variant_and_areas):
    *variant, areas = variant_and_areas
    os.environ["LOOP_PRODUCT"] = str(FOLDER / "loop_product.py")
    sys.path.insert(0, str(FOLDER / "loop"))
    import driver

    differ = {}
    for scenario in driver.load():
        if (
            scenario["area"] not in areas.split(",")
            or {"kills", "cancel"} & set(scenario)
            or scenario.get("key") == "none"
        ):
            continue
        with tempfile.TemporaryDirectory() as folder:
            cassette = Path(folder, "talk.cassette.jsonl")
            turns, _, _, head, _ = played(driver, scenario, variant, "record", cassette)
            again = played(driver, scenario, variant, "replay", cassette)
        differ[scenario["id"]] = [] if again == (turns, [], 0, head, []) else [turns, head, *again]
    print(json.dumps(differ, default=str))


if __name__ == "__main__":
    main(*sys.argv[1:])
