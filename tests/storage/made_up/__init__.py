"""A made-up version 0 of the store, and the script that leads from there to version 1.

In version 0 an event said `who` instead of `actor`, tags had no descriptions, and there were no profiles.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import NullPool, create_engine

from tract_jupyter import ActionDef, OperationSpec, Tract

SCRIPTS = Path(__file__).parent
USE = (
    "import pathlib; from tract_jupyter.storage import migrations; "
    f"migrations.SCRIPTS = pathlib.Path({str(SCRIPTS)!r}); "
)
"""Makes another process know the script, too."""
TAGS = "tract_id VARCHAR(64), tag VARCHAR(255), created_at VARCHAR(32)"
DOWN = (
    "ALTER TABLE events RENAME COLUMN actor TO who",
    f"CREATE TABLE old_tags ({TAGS})",
    "INSERT INTO old_tags SELECT tract_id, tag, created_at FROM tag_registry",
    "DROP TABLE tag_registry",
    "ALTER TABLE old_tags RENAME TO tag_registry",
    "DROP TABLE run_profiles",
    "UPDATE tract_meta SET value = '0' WHERE key = 'schema_version'",
)


def make_store(url: str) -> None:
    """Make a store of version 0 with two branches and an operation."""
    with Tract.open(url=url) as tract:
        tract.tags.register("fact", "what somebody said")
        tract.system("Answer briefly.")
        tract.user("What is a tract?", tags=["fact"])
        tract.branch("topic/one")
        tract.assistant("A versioned context.")
        tract.switch("main")
        tract.user("Größe, 中文, <|endoftext|> and 'quotes'")
        tract.register_operation(
            OperationSpec("ask", "Asks.", {}, {"ok": ActionDef("ok", "", {}, "pending.approve()")})
        )
    engine = create_engine(url, poolclass=NullPool)
    with engine.begin() as connection:
        for statement in DOWN:
            connection.exec_driver_sql(statement)
    engine.dispose()
