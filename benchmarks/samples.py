"""Samples for the measurements: an operation, a risky action of 30 lines, and a long cell."""

from __future__ import annotations

from tract_jupyter import ActionDef, OperationSpec

CHECK = OperationSpec(
    name="citation_check",
    description="Check that the sources can be fetched safely.",
    fields={
        "urls": {"type": "list[str]", "description": "Where the sources are.", "required": True},
        "verified": {"type": "bool", "default": False},
    },
    actions={
        "verify": ActionDef(
            name="verify",
            description="Look at every source.",
            params={"strict": "bool"},
            code="missing = [url for url in pending.fields['urls'] if not url.startswith('https://')]\n"
            "if missing and strict:\n"
            "    pending.reject(f'missing: {missing}')\n"
            "else:\n"
            "    pending.fields['verified'] = True\n"
            "    pending.approve()\n",
            defaults={"strict": False},
        )
    },
)

_RISKY_LINES = [
    "import os",
    "os.environ['TOKEN'] = pending.fields['urls'][0]",
    "import subprocess",
    "subprocess.run(['ls', '-l'], check=True)",
    "eval('1 + 1')",
]
_PLAIN_LINES = [
    f"total_{number} = sum(len(url) for url in pending.fields['urls'] if len(url) > {number})"
    for number in range(24)
]

RISKY = OperationSpec(
    name="risky",
    description="An action that a reviewer should look at.",
    fields=CHECK.fields,
    actions={
        "run": ActionDef(
            name="run",
            description="Do it.",
            params={},
            code="\n".join([*_RISKY_LINES, *_PLAIN_LINES, "pending.approve()"]) + "\n",
        )
    },
)

_BLOCK = """\
def summarise_{n}(rows, path="out_{n}.json", *, limit=10):
    '''Summarise the rows, and keep the summary.'''
    totals = {{}}
    for row in rows[:limit]:
        key = row.get("name", "unknown").strip().lower()
        totals[key] = totals.get(key, 0) + int(row["count"])
    best = max(totals, key=totals.get) if totals else None
    if best is not None and totals[best] > {n}:
        print(f"{{best}}: {{totals[best]:,}}")
    with open(path, "w") as file:
        json.dump(totals, file)
    response = requests.post("https://example.com/{n}", json=totals, timeout=10)
    response.raise_for_status()
    return pd.DataFrame(totals.items(), columns=["name", "count"]).sort_values("count")


frame_{n} = summarise_{n}(table)
files_{n} = [p for p in os.listdir(".") if p.endswith(".json")]
%timeit -n 1 summarise_{n}(table)
"""

LONG_CELL = "import json, os\nimport pandas as pd\nimport requests\n\n" + "\n".join(
    [_BLOCK.format(n=number) for number in range(50)]
)
"""1,000 lines and a few."""

_PLAIN_BLOCK = """\
def work_{n}(a, b=2):
    total = a + b * {n}
    for i in range(10):
        total += i
    if total > {n}:
        return total, a
    return None
rows_{n} = [1, {n}, 3]
r = work_{n}(rows_{n}[1])
table["k{n}"] = r
"""


def plain_cell(lines: int) -> str:
    """Ordinary lines of 20 characters or so, in which there is nothing to find."""
    return "".join(_PLAIN_BLOCK.format(n=number) for number in range(lines // 10))


REBINDING_CELL = "import pandas as pd\nframe = pd.read_csv('table.csv')\n" + "frame = clean(frame)\n" * 28
"""30 lines, as people write them: the same name again and again."""
