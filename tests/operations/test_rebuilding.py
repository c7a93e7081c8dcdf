"""Rebuilding pendings from a store with arbitrary damage."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest

from tract_jupyter import Tract
from tract_jupyter.exceptions import TractError

DAMAGE = [{}, [], None, {"a": 5}, {"x": None}, {"x": [None]}, {"spec": 7, "handler": 7}, {"spec": None, "handler": None},
          {"spec": "{", "handler": "{"}, {"spec": "7", "handler": "7"}, {"spec": {}, "handler": {}}]  # fmt: skip
KINDS = {
    "operation": lambda t, spec: t.propose_operation(spec(name="other")),
    "handler": lambda t, spec: t.hooks.propose_handler("gc", "all", "pending.approve()"),
    "fired": lambda t, spec: t.fire("note", {"x": 1}, review=True),
}


@pytest.fixture
def asked(tmp_path, spec):
    """Write two requests, the first of the given kind. Set a column of the first to a value."""

    def make(kind, column, value):
        with Tract.open(tmp_path / "t.db") as t:
            t.register_operation(spec(name="note", fields={"x": {"type": "int", "required": True}}))
            for pending in (KINDS[kind](t, spec), t.fire("note", {"x": 2}, review=True)):
                t.reviewer.keep(pending)
            first = t.review.inbox()[0].pending_id
        with closing(sqlite3.connect(tmp_path / "t.db")) as connection, connection:
            connection.execute(
                f"UPDATE pendings SET {column} = ? WHERE pending_id = ?", (json.dumps(value), first)
            )
        return tmp_path / "t.db"

    return make


@pytest.mark.slow
@pytest.mark.parametrize("value", DAMAGE, ids=json.dumps)
@pytest.mark.parametrize("kind", KINDS)
def test_unreadable_fields_raise_an_error_and_do_not_hide_other_requests(asked, kind, value):
    with Tract.open(asked(kind, "fields_json", value)) as t:
        first, second = t.review.inbox()
        with pytest.raises(TractError):
            t.operations.rebuild(first)
        assert t.operations.rebuild(second).review_request().title == "note"


SHOWN = [{}, {"title": 5}, {"actions": [{}]}, {"actions": [[]]}, {"code": [{"findings": [{}]}]}, {"code": None},
         {"tables": [{"rows": [{}]}]}, {"fields": [{}]}, {"subject": {}}]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("change", SHOWN, ids=json.dumps)
def test_an_unreadable_stored_display_raises_an_error(asked, change):
    path = asked("fired", "origin", None)
    with closing(sqlite3.connect(path)) as connection, connection:
        (row,) = connection.execute(
            "SELECT request_json FROM pendings ORDER BY created_at LIMIT 1"
        ).fetchone()
        data = json.loads(row)
        data["request"] = {**data["request"], **change} if change else {}
        connection.execute("UPDATE pendings SET request_json = ?, resumable = 0", (json.dumps(data),))
    with Tract.open(path) as t:
        for stored in t.review.inbox():
            with pytest.raises(TractError):
                t.operations.rebuild(stored)
