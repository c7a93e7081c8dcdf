"""Code that changes a database (TJ208), and code that only reads one."""

import pytest

from tract_jupyter.analysis import CodeAnalyzer

SQLITE = "import sqlite3\ncon = sqlite3.connect('shop.db')\n"
ALCHEMY = "from sqlalchemy import create_engine, text\ne = create_engine('sqlite:///shop.db')\n"
DUCK = "import duckdb\ncon = duckdb.connect('shop.db')\n"
MAY = "The statement is known only when it runs, and may change shop.db."
INSERTS = "INSERT adds rows to shop.db."

CHANGES = [
    (SQLITE + "con.execute('insert into t values (1)')", INSERTS),
    (SQLITE + "con.execute('update t set a = 1 where b = 2')", "UPDATE changes rows in shop.db."),
    (SQLITE + "con.execute('replace into t values (1)')", "REPLACE replaces rows in shop.db."),
    (SQLITE + "con.execute('create table t (a)')", "CREATE creates a table in shop.db."),
    (SQLITE + "con.execute('alter table t add column c')", "ALTER changes a table in shop.db."),
    (SQLITE + "con.executemany('insert into t values (?)', rows)", INSERTS),
    (SQLITE + "con.executescript('begin; insert into t values (1); commit')", INSERTS),
    (SQLITE + "con.executescript(script)", MAY),
    (SQLITE + "from pathlib import Path\ncon.executescript(Path('change.sql').read_text())", MAY),
    (SQLITE + "con.execute(open('change.sql').read())", MAY),
    (SQLITE + "import requests\ncon.executescript(requests.get('https://example.com/change.sql').text)", MAY),
    (ALCHEMY + "from pathlib import Path\nwith e.begin() as c:\n    c.execute(text(Path('change.sql').read_text()))", MAY),
    (SQLITE + "con.executescript(f'select 1; {rest}')", MAY),
    (SQLITE + "cur = con.cursor()\ncur.execute('insert into t values (1)')\ncon.commit()", INSERTS),
    (SQLITE + "sql = 'insert into t values (?)'\ncon.execute(sql, (1,))", INSERTS),
    (SQLITE + "con.execute(f'insert into {table} values (1)')", INSERTS),
    (SQLITE + "con.execute('insert into ' + table + ' values (1)')", INSERTS),
    (SQLITE + "con.execute('insert into {} values (1)'.format(table))", INSERTS),
    (SQLITE + "con.execute(sql)", MAY),
    (SQLITE + "con.execute(f'{verb} t')", MAY),
    (SQLITE + "q = 'select 1'\nif x:\n    q = given\ncon.execute(q)", MAY),
    (SQLITE + "for q in queries:\n    con.execute(q)", MAY),
    (SQLITE + "list(map(con.execute, queries))", MAY),
    (SQLITE + "getattr(con, 'execute')(given)", MAY),
    (SQLITE + "con.execute(' '.join(parts))", MAY),
    (SQLITE + "con.execute(' '.join(['insert', 'into', 't', 'values (1)']))", INSERTS),
    ("import sqlite3\ndef connect():\n    c = sqlite3.connect('shop.db')\n    return c\nconnect().execute('insert into t values (1)')", INSERTS),
    (SQLITE + "run = con.execute\nrun(given)", MAY),
    (SQLITE + "con.blobopen('t', 'a', 1)", "blobopen changes shop.db."),
    (SQLITE + "con.commit()", "commit changes shop.db."),
    (SQLITE + "sqlite3.connect('a.db').backup(con)", "backup replaces shop.db."),
    (SQLITE + "df.to_sql('t', con)", "to_sql writes a table to shop.db."),
    (SQLITE + "import pandas as pd\npd.read_sql(sql, con)", MAY),
    (SQLITE + "def add(c):\n    c.execute('insert into t values (1)')\nadd(con)", INSERTS),
    ("import sqlite3\nwith sqlite3.connect('shop.db') as c:\n    c.execute('insert into t values (1)')", INSERTS),
    ("import sqlite3\nsqlite3.connect('file:shop.db?mode=rwc', uri=True).execute('insert into t values (1)')", INSERTS),
    (
        ("import sqlite3\nclass Store:\n    def __init__(self):\n        self.con = sqlite3.connect('shop.db')\n"
        "    def add(self):\n        self.con.execute('insert into t values (1)')"),
        INSERTS,
    ),
    ("df.to_sql('t', 'sqlite:///shop.db')", "to_sql writes a table to shop.db."),
    ("df.write_database('t', 'sqlite:///shop.db')", "write_database writes a table to shop.db."),
    (ALCHEMY + "df.to_sql('t', e, if_exists='append')", "to_sql writes a table to shop.db."),
    (ALCHEMY + "with e.begin() as c:\n    c.execute(text('insert into t values (1)'))", INSERTS),
    (ALCHEMY + "with e.connect() as c:\n    c.execute(text(q))", MAY),
    (ALCHEMY + "from sqlalchemy import insert\nwith e.begin() as c:\n    c.execute(insert(t).values(a=1))", INSERTS),
    (ALCHEMY + "from sqlalchemy.orm import Session\nwith Session(e) as s:\n    s.add(x)\n    s.commit()", "add changes shop.db."),
    (ALCHEMY + "from sqlalchemy.orm import sessionmaker\ns = sessionmaker(bind=e)()\nu.a = 1\ns.commit()", "commit changes shop.db."),
    (ALCHEMY + "Base.metadata.create_all(e)", "create_all changes shop.db."),
    (DUCK + "con.execute('create table t as select 1')", "CREATE creates a table in shop.db."),
    (DUCK + "con.sql('insert into t values (1)')", INSERTS),
    (DUCK + "con.append('t', df)", "append changes shop.db."),
    ("import sqlite_utils\ndb = sqlite_utils.Database('shop.db')\ndb['t'].insert_all(rows)", "insert_all changes shop.db."),
    ("import psycopg\nwith psycopg.connect('dbname=shop') as c:\n    c.execute('insert into t values (1)')", "INSERT adds rows to a database."),
    (
        ("import psycopg2\nfrom psycopg2.extras import execute_values\nc = psycopg2.connect('')\n"
        "execute_values(c.cursor(), 'insert into t values %s', rows)"),
        "INSERT adds rows to a database.",
    ),
    ("c = connect_somewhere()\nc.execute('insert into t values (1)')", "INSERT adds rows to a database."),
]  # fmt: skip
READS = [
    SQLITE + "con.execute('select * from t').fetchall()",
    SQLITE + "con.execute('pragma table_info(t)')",
    SQLITE + "con.execute('with x as (select 1) select * from x')",
    SQLITE + "con.execute(f'select * from {table}')",
    SQLITE + "con.execute('select count(*) from ' + name)",
    SQLITE + "for q in ['select 1', 'select 2']:\n    con.execute(q)",
    SQLITE + "def run(q):\n    return con.execute(q)\nrun('select 1')",
    SQLITE + "import pandas as pd\npd.read_sql('select * from t', con)\npd.read_sql('t', con)",
    "import sqlite3\nc = sqlite3.connect(':memory:')\nc.execute('create table t (a)')\ndf.to_sql('t', c)",
    "import sqlite3\nc = sqlite3.connect('file:shop.db?mode=ro', uri=True)\nc.execute(q)",
    "import duckdb\nduckdb.sql('create table t as select 1')\nduckdb.connect().sql('insert into t values (1)')",
    "import duckdb\nduckdb.connect('shop.db', read_only=True).sql(q)",
    ALCHEMY + "with e.connect() as c:\n    c.execute(text('select 1'))",
    ALCHEMY + "from sqlalchemy import select\nfrom sqlalchemy.orm import Session\nwith Session(e) as s:\n"
    "    s.scalars(select(User).where(User.id == 1)).all()\n    s.query(User).filter_by(a=1).all()",
    ALCHEMY + "from sqlalchemy import inspect\ninspect(e).get_table_names()",
    "df.query('a > 0')",
    "Evaluator().execute(batches)",
    "print('insert into t values (1)')",
]


@pytest.fixture
def workspace(tmp_path):
    (tmp_path / "shop.db").write_text("x")
    return tmp_path


def found(code, root, *before):
    findings = CodeAnalyzer(root).analyze(code, cells_before=before).findings
    return [finding for finding in findings if finding.code == "TJ208"]


@pytest.mark.parametrize(("code", "reason"), CHANGES)
def test_a_change_names_the_statement_and_the_file(workspace, code, reason):
    (finding,) = found(code, workspace)
    assert finding.reason == reason
    assert finding.level == "medium"  # the file exists, or the database is not a file
    assert finding.paths == (("shop.db",) if "shop.db" in reason else ())


@pytest.mark.parametrize("code", READS)
def test_code_that_only_reads_is_not_reported(workspace, code):
    assert found(code, workspace) == []


def test_a_new_database_is_less(tmp_path):
    (finding,) = found(SQLITE + "con.execute('create table t (a)')", tmp_path)
    assert finding.level == "low"


def test_the_connection_of_an_earlier_cell(workspace):
    (finding,) = found("con.execute('insert into t values (1)')", workspace, SQLITE)
    assert (finding.reason, finding.level) == (INSERTS, "medium")


def test_a_destructive_call_is_reported_by_only_one_rule(workspace):
    code = SQLITE + "con.execute('drop table t')\ndf.to_sql('u', con, if_exists='replace')"
    assert found(code, workspace) == []
    reasons = {f.reason for f in CodeAnalyzer(workspace).analyze(code).findings if f.code == "TJ206"}
    assert reasons == {"DROP removes a table from shop.db.", "to_sql replaces a table in shop.db."}
