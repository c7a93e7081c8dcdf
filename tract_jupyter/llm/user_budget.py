"""The administrator's budgets of each user: the usage of all kernels of a user, in a file in Jupyter's data directory.

The file has one row for each request: its day, tokens and cost. A request reserves its maximum before it is sent, so
kernels that work at the same time stay within the budget together. If a process dies during a request, the maximum
stays counted.
"""

from __future__ import annotations

import os
import sys
from contextlib import closing, contextmanager, suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from decimal import ROUND_CEILING, Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tract_jupyter.exceptions import AdminLimitError, LLMBudgetError
from tract_jupyter.llm.prices import Cost
from tract_jupyter.models import START_ENVIRONMENT, counted, make_private_folder, open_private, usd_text

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Iterator

    from tract_jupyter.llm.spending import CostLine
    from tract_jupyter.models import AdminLimits, Allowance

_SECONDS: Final = 10.0  # to wait for another kernel
_PER_USD: Final = 1_000_000_000
_LARGEST: Final = 10**15
"""The maximum of a row. The sum of the rows must fit into 64 bits."""
_TABLE: Final = (
    "CREATE TABLE IF NOT EXISTS usage (id INTEGER PRIMARY KEY, day TEXT NOT NULL, tokens INTEGER NOT NULL, "
    "nano_usd INTEGER NOT NULL)"
)

_IS_RESERVED: Final = ContextVar("is_reserved", default=False)


def take_reservation() -> bool:
    """Return True if a block of `reserving_user_budget` counts the next request of this thread. True only once.

    A callback during the request can send others, which this block does not count.
    """
    is_reserved = _IS_RESERVED.get()
    _IS_RESERVED.set(False)
    return is_reserved


@contextmanager
def reserving_user_budget(
    limits: AdminLimits, line: CostLine, used: list[CostLine]
) -> Iterator[Callable[[CostLine], None]]:
    """Reserve the maximum of a request in the budgets of this user while it runs.

    Yields:
        A function to call before a retry, with the usage of the failed try. It raises the same errors.

    Raises:
        LLMBudgetError: the request could exceed a budget, or its price is unknown and a budget is in US dollars.
        AdminLimitError: the usage cannot be stored, so nothing is sent.
    """
    if not limits.has_budget:
        yield lambda _used: None
        return
    failed: list[CostLine] = []
    row = _change(lambda usage: _reserve(usage, limits, line, []))

    def before_retry(used: CostLine) -> None:
        failed.append(used)
        _change(lambda usage: _reserve(usage, limits, line, failed, row))

    _IS_RESERVED.set(True)
    try:
        yield before_retry
    finally:
        _IS_RESERVED.set(False)
        with suppress(AdminLimitError):  # the maximum stays counted, and the reply is not lost
            _change(lambda usage: _store(usage, used, row))


def _change(change: Callable[[sqlite3.Connection], int]) -> int:
    """Change the file in one transaction."""
    import sqlite3  # most machines have no such budget

    file = _file()
    try:
        make_private_folder(file.parent)
        with open(file, "ab", opener=open_private):
            pass
        with closing(sqlite3.connect(file, timeout=_SECONDS, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(_TABLE)
            row = change(connection)
            connection.execute("COMMIT")
            return row
    except (sqlite3.Error, OSError) as error:
        raise AdminLimitError(
            f"the usage of this user cannot be stored in {file}: {error}. The administrator's limits have a budget, so "
            "nothing is sent. Make the file writable, or ask your administrator"
        ) from None


def _file() -> Path:
    """Return the file in Jupyter's data directory.

    The directory follows the environment at the start: a cell that changes a variable must not begin a new count.
    """
    given = START_ENVIRONMENT.get("JUPYTER_DATA_DIR")
    if given:
        folder = Path(given)
    elif sys.platform == "linux":  # as jupyter_core does, which reads os.environ
        share = START_ENVIRONMENT.get("XDG_DATA_HOME")
        folder = (Path(share) if share else _home() / ".local" / "share") / "jupyter"
    else:
        from jupyter_core.paths import jupyter_data_dir

        folder = Path(jupyter_data_dir())
    if not folder.is_absolute():  # a cell can change the working folder
        raise AdminLimitError(
            f"the usage of this user cannot be stored in {folder}: the path is relative. The administrator's limits "
            "have a budget, so nothing is sent. Set JUPYTER_DATA_DIR to an absolute path, and restart the server"
        )
    return folder / "tract_jupyter" / "usage.db"


def _home() -> Path:
    given = START_ENVIRONMENT.get("HOME")
    if given:
        return Path(given)
    import pwd

    return Path(pwd.getpwuid(os.getuid()).pw_dir)


def _reserve(
    usage: sqlite3.Connection, limits: AdminLimits, line: CostLine, failed: list[CostLine], row: int | None = None
) -> int:  # fmt: skip
    row = _store(usage, failed, row)
    now = datetime.now(UTC)
    for name, limit, first in (
        ("today", limits.per_day, f"{now:%Y-%m-%d}"),
        ("this month", limits.per_month, f"{now:%Y-%m}-01"),
    ):
        if limit is not None:
            _check(usage, limits.source, name, limit, first, line)
    return _store(usage, [*failed, line], row)


def _check(
    usage: sqlite3.Connection, source: str, name: str, limit: Allowance, first: str, line: CostLine
) -> None:
    tokens, nano_usd = usage.execute(
        "SELECT coalesce(sum(tokens), 0), coalesce(sum(nano_usd), 0) FROM usage WHERE day >= ?", (first,)
    ).fetchone()
    refused = "the request was not sent, because the administrator's limits"
    ask = f"({source}). Wait, send less, or ask your administrator for a larger budget"
    if limit.tokens is not None and tokens + line.tokens > limit.tokens:
        raise LLMBudgetError(
            f"{refused} allow {counted(limit.tokens, 'token')} {name}: you have used {tokens:,}, and the request needs "
            f"at most {line.tokens:,} {ask}"
        )
    if limit.usd is None:
        return
    if line.cost is None:
        raise LLMBudgetError(
            f"{refused} have a budget in US dollars, and the price of {line.model} is unknown ({source}). Use a model "
            f"with a known price, or set it, as in tract.models.price({line.model!r}, input=1, output=5)"
        )
    spent = Decimal(nano_usd) / _PER_USD
    if spent + line.cost.usd > Decimal(str(limit.usd)):
        raise LLMBudgetError(
            f"{refused} allow {usd_text(Decimal(str(limit.usd)))} {name}: you have spent {Cost(spent)}, and the "
            f"request could cost {usd_text(line.cost.usd)} {ask}"
        )


def _store(usage: sqlite3.Connection, lines: Iterable[CostLine], row: int | None) -> int:
    """Store the usage of a request in its row, or in a new one, and return the row's number."""
    lines = list(lines)
    tokens = min(sum(line.tokens for line in lines), _LARGEST)
    usd = sum((line.cost.usd for line in lines if line.cost is not None), Decimal(0))
    nano_usd = min(int((usd * _PER_USD).to_integral_value(ROUND_CEILING)), _LARGEST)
    if row is not None:
        usage.execute("UPDATE usage SET tokens = ?, nano_usd = ? WHERE id = ?", (tokens, nano_usd, row))
        return row
    day = f"{datetime.now(UTC):%Y-%m-%d}"
    added = usage.execute(
        "INSERT INTO usage (day, tokens, nano_usd) VALUES (?, ?, ?)", (day, tokens, nano_usd)
    )
    return added.lastrowid or 0
