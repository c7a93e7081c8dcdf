"""`python -m benchmarks [NAME]`. A slow machine is no failure: what is over its target is only marked so."""

from __future__ import annotations

import sys
from importlib import import_module

from benchmarks.places import temporary_home
from benchmarks.table import print_group, print_head, print_row

GROUPS = (
    "load",
    "operations",
    "review",
    "tools",
    "ptc",
    "llm",
    "runs",
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
)
# where all groups are run
_SHORTER: dict[str, tuple[object, ...]] = {
    "review": ((1_000, 10_000),),
    "llm": ((100, 1_000), 1_000),
    "store": ((1_000, 10_000),),
    "kill": (50,),
    "storm": (1, 100),
    "damage": (40,),
    "fuzz": (20,),
}


def main(wanted: list[str]) -> int:
    """Run the groups of these names, or all; 2 if there is no such group."""
    unknown = [name for name in wanted if name not in GROUPS]
    if unknown:
        print(f"no group {unknown[0]!r}; there are: {', '.join(GROUPS)}", file=sys.stderr)
        return 2
    print_head()
    with temporary_home():
        for name in wanted or GROUPS:
            print_group(name)
            size = () if wanted else _SHORTER.get(name, ())
            for row in import_module(f"benchmarks.{name}").rows(*size):
                print_row(row)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
