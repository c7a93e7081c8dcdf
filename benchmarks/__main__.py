"""`python -m benchmarks [NAME]`. A row over its target is only marked, because a slow machine is not a failure.

`python -m benchmarks counts` runs the groups whose rows are counts, `python -m benchmarks times` all others. Only the
others need a machine that does nothing else.
"""

from __future__ import annotations

import sys
from importlib import import_module
from itertools import chain
from typing import TYPE_CHECKING

from benchmarks.places import temporary_home

if TYPE_CHECKING:
    from collections.abc import Iterable

    from benchmarks.timing import Row

GROUPS = (
    "load",
    "operations",
    "review",
    "tools",
    "ptc",
    "llm",
    "runs",
    "templates",
    "mcp",
    "analysis",
    "fuzz",
    "panels",
    "notebook",
    "policies",
    "agents",
    "store",
    "kill",
    "storm",
    "damage",
    "rehearsal",
    "endpoint",
    "proof",
)
COUNTS = ("kill", "storm", "damage", "proof")
SEPARATE = ("notebook_cells", "outside_agents", "outside_waits")
"""Groups that run by name, or by the part before `_`: they need JupyterLab's extension, or install programs."""
# smaller sizes for a run of many groups
_SHORTER: dict[str, tuple[object, ...]] = {
    "review": ((1_000, 4_000),),
    "llm": ((100, 500), 500),
    "runs": ((1_000, 4_000), 40),
    "analysis": ((1_000, 5_000),),
    "store": ((1_000, 10_000),),
    "kill": (30,),
    "storm": (1, 100),
    "damage": (40,),
    "fuzz": (3,),
    "rehearsal": (40, 512, 12),
    "proof": (20, 12),
}


def main(wanted: list[str]) -> int:
    """Run the named groups and their parts, or many groups. Return 2 for an unknown group."""
    many = {"": GROUPS, "counts": COUNTS, "times": [group for group in GROUPS if group not in COUNTS]}
    if short := many.get(" ".join(wanted)):
        _run(short, _SHORTER)
        return 0
    groups = (*GROUPS, *SEPARATE)
    named = [[group for group in groups if f"{group}_".startswith(f"{name}_")] for name in wanted]
    if [] in named:
        unknown = wanted[named.index([])]
        print(f"no group {unknown!r}; there are: {', '.join(groups)}", file=sys.stderr)
        return 2
    _run(dict.fromkeys(chain(*named)), {})
    return 0


def _run(groups: Iterable[str], sizes: dict[str, tuple[object, ...]]) -> None:
    _print_head()
    for name in groups:
        print(f"{name}:", flush=True)
        with temporary_home():  # one for each group: two groups use the same names and seeds
            for row in import_module(f"benchmarks.{name}").rows(*sizes.get(name, ())):
                _print_row(row)


_LAYOUT = "{:<66} {:>10} {:<9} {:>7} {:>7}  {}"


def _print_head() -> None:
    print(_LAYOUT.format("name", "best", "unit", "target", "growth", ""))
    print("-" * 109, flush=True)


def _print_row(row: Row) -> None:
    target = "" if row.target is None else f"{row.target:g}"
    growth = "" if row.growth is None else f"x{row.growth:.2f}"
    columns = (f"  {row.name}", _number(row.shown), row.unit, target, growth, row.verdict)
    print(_LAYOUT.format(*columns), flush=True)


def _number(value: float) -> str:
    digits = 0 if value == int(value) or value >= 1_000 else 1 if value >= 10 else 2  # noqa: PLR2004 # places
    return f"{value:,.{digits}f}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
