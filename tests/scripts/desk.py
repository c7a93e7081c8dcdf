"""A desk with tools that write down how they were called."""

from __future__ import annotations

from sqlalchemy import text

from tract_jupyter import Tract
from tract_jupyter.toolkit import Permission

NO_MORE = "if not go_on: raise ValueError('not yet')"
FAILS = f"a = tools.look(n=1)\nb = tools.put(n=2)\n{NO_MORE}\nc = tools.put(n=3)\n(a, b, c)"


class Desk:
    """A tract with tools that write down how they were called, as one of several processes on a store has it."""

    def __init__(self, tract: Tract, made: list[str]) -> None:
        self.tract = tract
        self.made = made
        tract.executor.permission = lambda *_: Permission.ALLOW
        self.variables = tract.scripts.notebooks.namespace("main")
        self.variables["go_on"] = False
        tract.tool(self.look, name="look", read_only=True)
        tract.tool(self.put, name="put")

    def look(self, n: int) -> dict[str, int]:
        """Read something."""
        self.made.append(f"look {n}")
        return {"was": len(self.made)}

    def put(self, n: int) -> str:
        """Write something."""
        self.made.append(f"put {n}")
        if n < 0:
            raise ValueError("no room")
        return f"put {n}"

    def run(self, code: str, **options):
        return self.tract.scripts.run(code, **options)

    def rows(self) -> int:
        with self.tract._repository.database.read() as connection:
            return connection.execute(text("SELECT count(*) FROM script_calls")).scalar()
