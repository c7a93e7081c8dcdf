"""`%tract doctor` and `tract-jupyter doctor`: each failed check names its remedy, and nothing is changed."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from tract_jupyter import Tract
from tract_jupyter.__main__ import main
from tract_jupyter.rehearsal import Level
from tract_jupyter.review import Trust


def test_a_new_notebook(shell, tmp_path):
    result = shell.run("%tract doctor")
    assert result.ok
    assert "No check failed." in result.text
    assert "· model: no model is chosen\n    %tract model " in result.text
    assert "✓ store: .tract/tract.db, created at its first use" in result.text
    assert not (tmp_path / ".tract").exists()
    assert result.html.count("<tr") > 5


@pytest.mark.parametrize(
    ("level", "mark", "remedy"),
    [
        ("full", "✓", ""),
        ("basic", "·", "permit unprivileged user namespaces"),
        ("none", "·", "nothing is needed"),
    ],
)
def test_the_level_of_rehearsals(capsys, monkeypatch, level, mark, remedy):
    monkeypatch.setattr("tract_jupyter.rehearsal.probe", lambda: Level(level, "The reason."))
    main(["doctor"])
    text = capsys.readouterr().out
    assert f"{mark} rehearsal: The reason." in text
    assert remedy in text


@pytest.mark.parametrize(
    ("home", "found"),
    [
        ("", "✓ rehearsal: The reason. The copy cannot read the hidden files of your home folder."),
        ("below", "· rehearsal: There is none in {folder}, because it contains your home folder."),
    ],
)
def test_a_rehearsal_in_the_home_folder(capsys, monkeypatch, tmp_path, home, found):
    monkeypatch.setattr("tract_jupyter.rehearsal.probe", lambda: Level("full", "The reason."))
    monkeypatch.setenv("HOME", str(tmp_path / home))
    monkeypatch.chdir(tmp_path)
    main(["doctor"])
    assert found.format(folder=tmp_path) in capsys.readouterr().out


def test_an_existing_store(shell):
    shell.run("tract.user('hello')")
    text = shell.run("%tract doctor").text
    assert "✓ store: .tract/tract.db, " in text
    assert ", sound" in text
    assert "✓ disk: " in text


def test_a_model_without_a_key_never_shows_one(shell, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret-of-mine")
    shell.run("%tract model openai/gpt-6-luna")
    text = shell.run("%tract doctor").text
    assert "1 of 10 checks failed." in text or "1 of 9 checks failed." in text
    assert "✗ model: openai/gpt-6-luna has no key\n    %tract model openai/gpt-6-luna --key" in text
    shell.run("%tract model anthropic/claude-haiku-4-5")
    text = shell.run("%tract doctor").text
    assert "✓ model: claude-haiku-4-5 at " in text
    assert "ANTHROPIC_API_KEY (set)" in text
    assert "secret-of-mine" not in text


def test_an_invalid_address_of_the_model(shell, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "nonsense")
    shell.run("%config TractJupyter.model = 'openai/x'")
    assert "✗ model: " in shell.run("%tract doctor").text


def test_a_server_is_asked_only_on_request_and_without_a_key(shell, monkeypatch):
    asked = []

    class Server(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(dict(self.headers))
            self.send_response(401)
            self.end_headers()
            with suppress(OSError):  # the client leaves
                while True:
                    self.wfile.write(b" " * 100_000)

        def log_message(self, *_):
            pass

    monkeypatch.setenv("OPENAI_API_KEY", "secret-of-mine")
    with HTTPServer(("127.0.0.1", 0), Server) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        address = f"http://127.0.0.1:{server.server_port}/v1"
        shell.run(f"%tract model openai/gpt-6-luna --base-url {address}")
        shell.run("%tract doctor")
        assert not asked
        text = shell.run("%tract doctor --online").text
        server.shutdown()
        thread.join()
    assert f"✓ server: {address} answers (status 401 without a key)" in text
    assert len(asked) == 1
    assert "secret-of-mine" not in str(asked)
    text = shell.run("%tract doctor --online").text
    assert f"✗ server: {address} does not answer: " in text


def test_words_that_it_does_not_take(shell):
    assert "has no option '--onlin'. Did you mean '--online'?" in shell.run("%tract doctor --onlin").text
    assert "usage: %tract doctor [--online]; got now" in shell.run("%tract doctor now").text


def test_command_line(tmp_path, capsys):
    Tract.open(tmp_path / "t.db").close()
    assert main(["doctor", str(tmp_path / "t.db")]) == 0
    assert ", sound" in capsys.readouterr().out
    assert main(["doctor"]) == 0
    assert "store" not in capsys.readouterr().out
    assert main(["doctor", str(tmp_path / "none.db")]) == 1
    assert "✗ store: there is no store " in capsys.readouterr().out
    assert not (tmp_path / "none.db").exists()


def test_a_store_that_cannot_be_opened_is_not_called_missing(tmp_path, capsys):
    (tmp_path / "link.db").symlink_to(tmp_path / "none.db")
    for name, reason in ((".", "it is a folder"), ("link.db", "no regular file, or you may not read it")):
        assert main(["doctor", str(tmp_path / name)]) == 1
        assert reason in capsys.readouterr().out
    assert main(["doctor", "postgresql://a@[::1/db"]) == 1
    assert "✗ store: invalid database URL" in capsys.readouterr().out


@pytest.mark.skipif(os.name != "posix", reason="POSIX")
def test_a_pipe_is_refused_as_a_store_and_not_read(tmp_path, capsys):
    os.mkfifo(tmp_path / "pipe.db")
    assert main(["doctor", str(tmp_path / "pipe.db")]) == 1
    assert "no regular file" in capsys.readouterr().out


@pytest.mark.skipif(os.name != "posix", reason="POSIX")
def test_a_working_folder_that_was_deleted(tmp_path, capsys, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert main(["doctor"]) == 1
    text = capsys.readouterr().out
    assert "✗ rehearsal: the working folder was deleted\n    change to an existing folder" in text


def test_a_user_without_a_home_folder(capsys, monkeypatch):
    def no_home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr("pathlib.Path.home", no_home)
    assert main(["doctor"]) == 1
    text = capsys.readouterr().out
    assert "✗ rehearsal: a folder cannot be found: Could not determine home directory.\n    set HOME" in text


def test_a_model_that_the_administrator_does_not_allow(shell, admin_file, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret-of-mine")
    shell.run("%tract model openai/gpt-6-luna --base-url http://127.0.0.1:9/v1")
    admin_file.write_text('base_urls = ["https://gateway.example.org/v1"]')
    text = shell.run("%tract doctor --online").text
    assert "✗ model: " in text
    assert "https://gateway.example.org/v1" in text
    assert "server:" not in text


def test_a_model_of_anthropic_that_the_administrator_allows(shell, admin_file, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret-of-mine")
    admin_file.write_text('base_urls = ["https://api.anthropic.com/v1"]')
    shell.run("%tract model anthropic/claude-haiku-4-5")
    assert "✓ model: " in shell.run("%tract doctor").text


@pytest.mark.skipif(os.name != "posix", reason="POSIX")
def test_a_reader_that_ends_early(tmp_path):
    command = f"{shlex.quote(sys.executable)} -m tract_jupyter doctor | true"
    ran = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=True)
    assert "BrokenPipeError" not in ran.stderr


@pytest.mark.skipif(os.name != "posix", reason="POSIX modes")
def test_an_exposed_secret_and_store(tmp_path, capsys, data_dir):
    Tract.open(tmp_path / "t.db").close()
    trust = Trust()
    main(["doctor"])
    assert (
        f"✓ signing secret: none yet. Your first approval creates the file {trust.secret_file}"
        in capsys.readouterr().out
    )
    assert not trust.secret_file.exists()
    trust.for_project("x").sign("kind", {})
    secret = trust.secret_file
    assert secret.is_relative_to(data_dir)
    secret.chmod(0o644)
    (tmp_path / "t.db").chmod(0o644)
    assert main(["doctor", str(tmp_path / "t.db")]) == 1
    text = capsys.readouterr().out
    assert "✗ signing secret: the signing secret " in text
    assert "Run: chmod 600" in text
    assert f"· permissions: {tmp_path / 't.db'}: other users can access it" in text
