"""A PostgreSQL server of the tests' own: one for a run, shared by its workers, gone with the last of them."""

from __future__ import annotations

import fcntl
import json
import os
import pwd
import shutil
import subprocess
import tempfile
import uuid
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy

# nothing here outlives the run, so nothing needs to reach the disk
FAST = [
    "fsync=off",
    "synchronous_commit=off",
    "full_page_writes=off",
    "shared_buffers=32MB",
    "max_connections=60",
]
LOCALE = ["--encoding=UTF8", "--locale=C", "--auth=trust", "--username=tract", "--no-sync"]


def binaries() -> Path | None:
    """The folder of initdb and pg_ctl; Debian keeps it out of the PATH."""
    found = shutil.which("initdb")
    places = [Path(found).parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return places[-1] if places and (places[-1] / "initdb").exists() else None


def why_not() -> str | None:
    """Why there is no server, None if there can be one."""
    if binaries() is None:
        return "PostgreSQL is not installed (Debian: apt-get install postgresql)"
    try:
        import psycopg  # noqa: F401
    except ImportError as error:
        return f"psycopg is not installed: {error}"
    return None


class Server:
    """A running server; reached through a socket in its folder, without a port or password."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def url(self, database: str) -> str:
        return f"postgresql+psycopg://tract@/{database}?host={self.folder}"

    def sql(self, statement: str, database: str = "postgres") -> list:
        engine = sqlalchemy.create_engine(
            self.url(database), isolation_level="AUTOCOMMIT", poolclass=sqlalchemy.NullPool
        )
        with engine.connect() as connection:
            result = connection.exec_driver_sql(statement)
            return list(result) if result.returns_rows else []

    @contextmanager
    def database(self, template: str = "template0"):
        """The URL of a fresh database, dropped in the end."""
        name = f"t{uuid.uuid4().hex}"
        self.sql(f"CREATE DATABASE {name} TEMPLATE {template}")
        yield self.url(name)
        self.sql(f"DROP DATABASE {name} WITH (FORCE)")

    @classmethod
    def start(cls) -> Server:
        server = cls(Path(tempfile.mkdtemp(prefix="tract-pg-")))
        if os.geteuid() == 0:
            os.chown(server.folder, *_owner())
        try:
            server.run("initdb", *LOCALE, "-D", "data")
            options = ["-c listen_addresses=", f"-k {server.folder}", *(f"-c {option}" for option in FAST)]
            server.run("pg_ctl", "start", "-w", "-D", "data", "-l", "log", "-o", " ".join(options))
        except BaseException:
            shutil.rmtree(server.folder)
            raise
        return server

    def stop(self) -> None:
        self.run("pg_ctl", "stop", "-m", "immediate", "-D", "data")
        shutil.rmtree(self.folder)

    def run(self, program: str, *arguments: str) -> None:
        options = {}
        if os.geteuid() == 0:  # which PostgreSQL refuses
            options = dict(zip(("user", "group"), _owner(), strict=True), extra_groups=[])
        command = [str(binaries() / program), *arguments]
        # to a file: the server inherits it, and a pipe would never end
        with (self.folder / "output").open("w+") as output:
            streams = {"stdout": output, "stderr": subprocess.STDOUT, "stdin": subprocess.DEVNULL}
            ended = subprocess.run(command, cwd=self.folder, check=False, **streams, **options)
            output.seek(0)
            assert ended.returncode == 0, output.read()


def _owner() -> tuple[int, int]:
    try:
        user = pwd.getpwnam("postgres")
    except KeyError:
        user = pwd.getpwnam("nobody")
    return user.pw_uid, user.pw_gid


@contextmanager
def shared_server(folder: Path):
    """The server of this run: the first user starts it, the last one stops it.

    Args:
        folder: one that all workers of the run, and only they, know.
    """
    record = folder / "postgres.json"
    with _locked(folder):
        users, place = json.loads(record.read_text()) if record.exists() else (0, None)
        server = Server(Path(place)) if users else Server.start()
        record.write_text(json.dumps([users + 1, str(server.folder)]))
        if not users:
            _make_template(server)
    try:
        yield server
    finally:
        with _locked(folder):
            users, place = json.loads(record.read_text())
            record.write_text(json.dumps([users - 1, place]))
            if users == 1:
                server.stop()


def _make_template(server: Server) -> None:
    """An empty store that tests copy: quicker than making the tables each time."""
    from tract_jupyter.storage import Database

    server.sql("CREATE DATABASE tract_store TEMPLATE template0")
    Database(url=server.url("tract_store")).close()


@contextmanager
def _locked(folder: Path):
    with (folder / "postgres.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
