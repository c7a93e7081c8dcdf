"""PostgreSQL behaves like SQLite: the same transactions, errors and messages."""

from __future__ import annotations

import re
import subprocess
import sys
import threading

import pytest

from tract_jupyter import Tract
from tract_jupyter.exceptions import StoreCorruptError, StoreError, StoreLockedError, StoreReadOnlyError
from tract_jupyter.storage import Database


@pytest.fixture
def url(postgres_server):
    with postgres_server.database() as url:
        yield url


@pytest.fixture
def database(url):
    database = Database(url=url, lock_timeout=0.05)
    with database.write() as connection:
        connection.exec_driver_sql("CREATE TABLE notes (id serial PRIMARY KEY, text text UNIQUE)")
    yield database
    database.close()


def driver_url(url):
    return url.replace("+psycopg", "")


def connected(url):
    import psycopg  # if psycopg is missing, the server fixture has skipped or failed the test

    return psycopg.connect(driver_url(url), autocommit=True)


def note(connection, text):
    connection.exec_driver_sql("INSERT INTO notes (text) VALUES (%s)", (text,))


def notes(database):
    with database.read() as connection:
        return [row.text for row in connection.exec_driver_sql("SELECT text FROM notes ORDER BY id")]


def test_a_plain_address_takes_our_driver(url):
    database = Database(url=driver_url(url))
    assert database.dialect == "postgresql"
    assert database.location.startswith("postgresql://tract@/")
    database.close()


def test_the_location_does_not_show_a_password(url):
    with Tract.open(url=url.replace("tract@", "tract:hunter2@")) as tract:
        assert tract.location == tract.status().location
        assert "tract:***@" in tract.location
        assert "hunter2" not in repr(tract)


@pytest.mark.slow
def test_a_new_database_becomes_a_store_once(url):
    code = (
        "import sys; from tract_jupyter.storage.database import Database; Database(url=sys.argv[1]).close()"
    )
    starting = [subprocess.Popen([sys.executable, "-W", "error", "-c", code, url]) for _ in range(3)]
    assert [process.wait() for process in starting] == [0, 0, 0]
    Database(url=url).close()


def test_two_stores_in_two_schemas(url):
    with connected(url) as connection:
        connection.execute("CREATE SCHEMA one")
        connection.execute("CREATE SCHEMA two")
    stores = [
        Database(url=f"{url}&options=-csearch_path%3D{schema}", lock_timeout=0.05)
        for schema in ("one", "two")
    ]
    for store in stores:
        with store.write() as connection:
            connection.exec_driver_sql("CREATE TABLE notes (id serial PRIMARY KEY, text text UNIQUE)")
    with stores[0].write() as connection, stores[1].write():  # the two stores do not wait for each other
        note(connection, "of one")
    assert [notes(store) for store in stores] == [["of one"], []]
    for store in stores:
        store.close()


def test_tracts_of_two_schemas_share_nothing(url):
    with connected(url) as connection:
        connection.execute("CREATE SCHEMA one")
        connection.execute("CREATE SCHEMA two")
    one, two = (
        Tract.open(url=f"{url}&options=-csearch_path%3D{schema}", tract_id="a" * 32)
        for schema in ("one", "two")
    )
    with one, two:
        said = one.user("of one")
        assert (one.log(), two.log()) == ([said], [])
        assert [[m.content for m in tract.compile().messages] for tract in (one, two)] == [["of one"], []]


def test_a_postgres_database_of_another_program_is_refused(url):
    with connected(url) as connection:
        connection.execute("CREATE TABLE customers (name text)")
    with pytest.raises(
        StoreCorruptError, match="not a tract store .tables: customers.*another database or schema"
    ):
        Database(url=url)


SPY = """
CREATE FUNCTION spy() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
CREATE TRIGGER spy AFTER INSERT ON {table} EXECUTE FUNCTION spy();
"""


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        (SPY, "trigger spy on commits"),
        ("CREATE RULE spy AS ON INSERT TO {table} DO ALSO DELETE FROM events", "rule spy on commits"),
    ],
)
def test_a_store_with_a_trigger_or_rule_is_not_opened(url, statement, told):
    with Tract.open(url=url) as tract:
        with connected(url) as connection:
            connection.execute(statement.format(table="commits"))
        assert [one.problem for one in tract.verify()] == [f"{told} was not made by tract_jupyter"]
    with pytest.raises(StoreCorruptError, match=f"{told}\\..*nothing was changed") as refused:
        Tract.open(url=url)
    with connected(url) as connection:
        connection.execute(re.search(r"\((DROP .*)\)", str(refused.value))[1])
    with Tract.open(url=url) as tract:
        assert tract.verify() == []


@pytest.mark.parametrize(
    "statement", [SPY, "CREATE RULE spy AS ON INSERT TO {table} DO ALSO DELETE FROM theirs"]
)
def test_foreign_tables_in_the_schema_are_ignored(url, statement):
    Tract.open(url=url).close()
    with connected(url) as connection:
        connection.execute(f"CREATE TABLE theirs (x text); {statement.format(table='theirs')}")
    with Tract.open(url=url) as tract:
        tract.user("x")
        assert tract.verify() == []


def test_a_reader_sees_one_moment(database):
    with database.read() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM notes").scalar() == 0
        in_thread(lambda: write(database, "later"))
        assert connection.exec_driver_sql("SELECT count(*) FROM notes").scalar() == 0
    assert notes(database) == ["later"]


def write(database, text):
    with database.write() as connection:
        note(connection, text)


def in_thread(function):
    raised = []

    def run():
        try:
            function()
        except Exception as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]


def test_writers_take_turns(database):
    with database.write():
        with pytest.raises(StoreLockedError, match="locked by another process; nothing was written"):
            in_thread(lambda: write(database, "x"))
        assert notes(database) == []
    in_thread(lambda: write(database, "x"))
    assert notes(database) == ["x"]


def test_a_reader_cannot_write(database):
    with pytest.raises(StoreReadOnlyError, match="your database user"), database.read() as connection:
        note(connection, "x")


def test_an_error_that_was_swallowed_still_undoes_everything(database):
    def swallow():
        with database.write() as connection:
            note(connection, "x")
            with pytest.raises(Exception, match="unique"):
                note(connection, "x")

    with pytest.raises(StoreError, match="nothing was written"):
        swallow()
    assert notes(database) == []


def test_an_error_in_a_savepoint_keeps_the_outer_transaction(database):
    with database.write() as connection:
        note(connection, "x")
        with pytest.raises(Exception, match="unique"), connection.begin_nested():
            note(connection, "x")
    assert notes(database) == ["x"]


def end_connections(url):
    with connected(url) as connection:
        others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        return connection.execute(f"SELECT pg_terminate_backend(pid, 5000) {others}").fetchall()


def test_a_connection_lost_at_rest_is_made_again(database, url, caplog):
    assert end_connections(url)
    write(database, "x")
    assert end_connections(url)
    assert notes(database) == ["x"]
    assert caplog.text == ""


def test_a_connection_lost_in_a_transaction_raises_an_error(database, url, caplog):
    def lose():
        with database.write() as connection:
            note(connection, "x")
            end_connections(url)
            note(connection, "y")

    with pytest.raises(StoreError, match="connection.*nothing was written"):
        lose()
    write(database, "z")
    assert notes(database) == ["z"]
    assert caplog.text == ""


def test_a_connection_lost_at_the_end_leaves_it_open(database, url, caplog):
    def lose():
        with database.write() as connection:
            note(connection, "x")
            end_connections(url)

    with pytest.raises(StoreError, match="the change may or may not be stored"):
        lose()
    assert notes(database) == []
    assert caplog.text == ""


@pytest.mark.parametrize(("change", "match"), [
    (("tract@/", "nobody@/"), "no connection to .*nobody.*Check"),
    (("tract@/t", "tract@/none"), "no connection to .*none.*Check"),
    (("host=", "host=/nowhere"), "no connection to .*nothing was written"),
])  # fmt: skip
def test_a_failed_connection_raises_an_error_with_the_reason(url, change, match):
    with pytest.raises(StoreError, match=match):
        Database(url=url.replace(*change))


def test_a_database_user_with_read_access_cannot_write(url):
    Database(url=url).close()
    with connected(url) as connection:
        connection.execute("CREATE ROLE reader LOGIN")
        connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
        try:
            database = Database(url=url.replace("tract@", "reader@"))
            with pytest.raises(StoreReadOnlyError), database.write() as reading:
                reading.exec_driver_sql("DELETE FROM events")
            database.close()
        finally:
            connection.execute("DROP OWNED BY reader")
            connection.execute("DROP ROLE reader")


def test_closing_ends_every_connection(url):
    database = Database(url=url)
    in_thread(lambda: database.read().__enter__())  # left by an ended thread
    with database.read():
        pass
    database.close()
    with connected(url) as connection:  # the server notices it a moment later
        others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        for _ in range(100):
            if not connection.execute(f"SELECT pg_sleep(0.05) {others}").fetchall():
                return
    raise AssertionError("a connection is left")
