"""Runs scenarios of `tests/vectors/loop` twice, recorded and replayed, and prints as JSON in what they differ.

    python tests/loop/replayed_scenarios.py DIALECT whole|stream sync|async AREA,AREA
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "vectors"
SECONDS = {"seconds"}


def main(dialect, how, actor, areas):
    os.environ["LOOP_PRODUCT"] = str(FOLDER / "loop_product.py")
    sys.path.insert(0, str(FOLDER / "loop"))
    import driver

    from tract_jupyter import Tract

    product = sys.modules[driver.connect.__module__] if driver.connect.__module__ in sys.modules else None
    names = driver.connect.__globals__ if product is None else vars(product)
    differences = {}
    for scenario in driver.load():
        if scenario["area"] not in areas or scenario.get("kills") or scenario.get("cancel"):
            continue
        with tempfile.TemporaryDirectory() as folder:
            cassette, heads, found = Path(folder, "talk.cassette.jsonl"), [], []
            for way in ("record", "replay"):

                class Opened:
                    @staticmethod
                    def open(store, way=way):
                        return Tract.open(store, **{way: cassette})

                names["Tract"] = Opened
                closed = names["close"]

                def close(ctx, closed=closed):
                    heads.append((ctx.session.head, str(ctx.session.cassette.report)))
                    if ctx.session.cassette.is_recording:
                        ctx.session.cassette.stop()
                    report = ctx.session.cassette.stop()
                    heads[-1] += (() if report is None else report.unused,)
                    closed(ctx)

                driver.close = close
                observed, server = driver.run(scenario, dialect, how == "stream", actor)
                turns = [{name: value for name, value in turn.items() if name not in SECONDS} for turn in observed["turns"]]
                found.append((turns, observed["effects"], [r for r in server.requests]))
            (first, _, _), (second, effects, requests) = found
            wrong = []
            if first != second:
                wrong.append(["turns", first, second])
            if effects:
                wrong.append(["effects", str(effects)])
            if requests:
                wrong.append(["requests", len(requests)])
            if len(heads) == 2 and heads[0][0] != heads[1][0]:  # recorded, replayed
                wrong.append(["heads", *heads])
            if server.key in cassette.read_text():
                wrong.append(["key"])
            differences[scenario["id"]] = wrong
    print(json.dumps(differences, default=str))


if __name__ == "__main__":
    main(*sys.argv[1:4], sys.argv[4].split(","))
