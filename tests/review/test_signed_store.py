"""The store of signed items: a declared kind can be signed, quarantined, adopted and revoked."""

from __future__ import annotations

from contextlib import closing, suppress
from typing import NamedTuple

import pytest
from sqlalchemy import Column, MetaData, Table, Text

from tract_jupyter.exceptions import SpecError
from tract_jupyter.review import ActiveStore, Trust
from tract_jupyter.storage import Database, EventRows, SignedRows

TRACT = "1" * 32
table = Table(
    "rules",
    MetaData(),
    Column("tract_id", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("text", Text),
    Column("signature", Text),
    Column("created_at", Text),
)


class StoredRule(NamedTuple):
    """A stored rule."""

    name: str
    text: str
    signature: str = ""


class RuleRows(SignedRows[StoredRule]):
    """The rules of one tract."""

    table = table
    row = StoredRule
    order = ("name",)


class Rules(ActiveStore[StoredRule, str, str]):
    """A kind of signed items: a rule is a text that begins with its name."""

    kind = noun = signed_as = "rule"

    def __init__(self, *parts):
        super().__init__(*parts)
        self.active = {}

    def content(self, row):
        return [row.name, row.text]

    def read(self, row):
        if not row.text:
            raise SpecError("it is empty")
        return row.text

    def key_of(self, item):
        return item.split()[0]

    def active_item(self, key):
        return self.active.get(key)

    def require(self, key):
        if key not in self.active:
            raise SpecError(f"no rule {key!r}")

    def attach(self, item):
        self.active[self.key_of(item)] = item

    def detach(self, key):
        self.active.pop(key, None)

    def add(self, text):
        row = self.sign(StoredRule(text.split()[0], text))
        with self.database.write() as connection:
            self.put(connection, row, "activated", {"name": row.name})
        self.take_on(row.name, lambda: self.attach(text))


@pytest.fixture
def opened(tmp_path):
    """Open the rules again in a process of this user or of another user."""
    with closing(Database(str(tmp_path / "rules.db"))) as database:
        with database.write() as connection:
            table.create(connection)

        def make(user="me"):
            signer = Trust(tmp_path / user).for_tract("store", TRACT)
            rules = Rules(database, RuleRows(TRACT), EventRows(TRACT), signer)
            rules.look_again()
            return rules

        yield make


def change(rules, **values):
    with rules.database.write() as connection:
        connection.execute(table.update().values(**values))


def events(rules):
    with rules.database.read() as connection:
        return [event.event_type for event in EventRows(TRACT).newest(connection, "rule.*", 10)]


def test_items_signed_by_this_user_are_active_in_every_process(opened):
    rules = opened()
    rules.add("first of all")
    assert (rules.active, opened().active) == ({"first": "first of all"},) * 2
    assert events(rules) == ["rule.activated"]


def test_items_signed_by_another_user_are_quarantined_and_can_be_adopted(opened):
    opened("somebody").add("first of all")
    rules = opened()
    assert rules.active == {}
    assert "you have not approved it here" in rules.quarantined["first"]
    assert "or your signing secret is a new one" in rules.quarantined["first"]
    rules.add(rules.to_review("first"))
    assert (rules.active, rules.quarantined, opened().quarantined) == ({"first": "first of all"}, {}, {})


@pytest.mark.parametrize("values", [{"text": "first and last"}, {"signature": ""}, {"signature": "0" * 64}])
def test_a_changed_item_is_quarantined(opened, values):
    opened().add("first of all")
    rules = opened()
    change(rules, **values)
    rules.look_again()
    assert (rules.active, list(rules.quarantined)) == ({}, ["first"])


def test_a_signed_row_under_another_name_is_quarantined(opened):
    rules = opened()
    row = rules.sign(StoredRule("second", "first of all"))
    with rules.database.write() as connection:
        rules.rows.replace(connection, row)
    assert opened().quarantined == {"second": "it is stored as 'second' but calls itself 'first'"}


def test_an_unreadable_item_is_quarantined_with_the_reason(opened):
    rules = opened()
    row = rules.sign(StoredRule("first", ""))
    with rules.database.write() as connection:
        rules.rows.replace(connection, row)
    rules.look_again()
    assert rules.quarantined == {"first": "it is empty"}
    with pytest.raises(SpecError, match="the stored rule 'first' cannot be read: it is empty"):
        rules.to_review("first")


def test_revoked_items_wait_for_review_and_removed_items_are_gone(opened):
    rules = opened()
    rules.add("first of all")
    rules.revoke("first")
    assert (rules.active, rules.quarantined) == ({}, {"first": "you took its approval back"})
    assert (opened().active, list(opened().quarantined)) == ({}, ["first"])
    assert rules.to_review("first") == "first of all"
    rules.remove("first")
    assert (rules.quarantined, rules.all(), opened().quarantined) == ({}, [], {})
    assert events(rules) == ["rule.removed", "rule.revoked", "rule.activated"]
    for call in (rules.revoke, rules.remove):
        with pytest.raises(SpecError, match="no rule 'first'"):
            call("first")
    with pytest.raises(SpecError, match="no stored rule 'first' waits for review"):
        rules.to_review("first")


def test_a_rollback_restores_active_and_quarantined_items(opened):
    rules = opened()
    rules.add("first of all")

    def fail(text):
        with suppress(ZeroDivisionError), rules.database.write():
            rules.add(text)
            _ = 1 / 0

    fail("first and last")
    fail("second")
    assert rules.active == opened().active == {"first": "first of all"}
    opened("somebody").add("third")
    rules.look_again()
    fail("third")
    assert "you have not approved it here" in rules.quarantined["third"]
    assert list(rules.active) == ["first"]
