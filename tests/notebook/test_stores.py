"""`tract-jupyter verify STORE`, and the command line."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tract_jupyter import Tract, verify_store
from tract_jupyter.__main__ import main
from tract_jupyter.exceptions import StoreError
from tract_jupyter.runs.profile import OperationProfile, run_operation


@pytest.mark.parametrize("words", [[], ["verify"], ["other"], ["verify", "a", "b"]])
def test_bad_usage(words, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(words)
    assert stopped.value.code == 2
    assert "usage: tract-jupyter" in capsys.readouterr().err


def test_the_command_runs_as_a_module_without_ipython(tmp_path):
    path = tmp_path / "t.db"
    Tract.open(path).close()
    code = f"import sys, runpy; sys.argv = ['x', 'verify', {str(path)!r}]\ntry: runpy.run_module('tract_jupyter', run_name='__main__')\nexcept SystemExit as stop: print(stop.code, 'IPython' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1].startswith("0 False")
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("sqlite:///{}/none.db", "there is no store sqlite:///"),
        ("sqlite:///file:{}/none.db?uri=true", "there is no store sqlite:///"),
        ("{}/no folder/none.db", "there is no store"),
        ("sqlite:///{}/empty.db", "is not a store: the file is empty"),
        ("{}/empty.db", "is not a store: the file is empty"),
        ("{}/garbage.sqlite", "is not a store: it does not start like an SQLite file"),
        ("sqlite://", "a store in memory, which is always empty"),
        ("nonsense://x", "there is no driver for nonsense://x"),
        ("{}/" + "x" * 300 + ".db", "there is no store"),
    ],
)
def test_an_invalid_store_is_refused_and_not_created(tmp_path, capsys, text, told):
    (tmp_path / "empty.db").touch()
    (tmp_path / "garbage.sqlite").write_text("garbage")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    store = text.format(tmp_path)
    with pytest.raises(StoreError, match=re.escape(told)):
        verify_store(store)
    for command in ("verify", "mcp-server"):
        assert main([command, store]) == 2
        shown = capsys.readouterr()
        assert told in shown.err
        assert shown.out == ""
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_in_a_database_without_a_store_none_is_made(postgres_server, capsys):
    with postgres_server.database() as url:
        with pytest.raises(StoreError, match="there is no store in postgresql.*Nothing was changed"):
            verify_store(url)
        for command in ("verify", "mcp-server"):
            assert main([command, url]) == 2
            assert "there is no store" in capsys.readouterr().err
        database = url.partition("@/")[2].partition("?")[0]
        assert postgres_server.sql("SELECT 1 FROM pg_tables WHERE schemaname = 'public'", database) == []


def test_a_path_with_the_signs_of_a_url_is_a_path(tmp_path):
    path = tmp_path / "a?b%20c.db"
    with Tract.open(path) as tract:
        tract.user("x")
    assert [found.tract_id for found in verify_store(path)] == [tract.tract_id]
    assert [
        found.tract_id for found in verify_store(f"sqlite:///file:{tmp_path}/a%253Fb%252520c.db?uri=true")
    ]


def test_verify_lists_entries_of_other_users_but_not_as_damage(tmp_path, spec, monkeypatch, capsys):
    path = tmp_path / "t.db"
    with Tract.open(path) as tract:
        tract.register_operation(spec(name="own"))
        tract.fire("own", {"urls": []}, review=True).approve()
    assert verify_store(path)[0].unsigned == ()
    monkeypatch.setenv("TRACT_JUPYTER_SECRET", "ab" * 32)  # another user
    with Tract.open(path) as tract:
        tract.register_operation(spec(name="theirs"))
        tract.hooks.save_handler("theirs", "guard", "pending.reject('no')")
        tract.fire("theirs", {"urls": []}, review=True).approve(scope="always")
        waiting = tract.fire("theirs", {"urls": ["a"]}, review=True)
        tract.profiles.save(
            OperationProfile.of("mine", [run_operation("mood", text="x", into="system", order=1)])
        )
    monkeypatch.delenv("TRACT_JUPYTER_SECRET")
    (found,) = verify_store(path)
    assert found.damaged == ()
    assert [line.partition(":")[0].split()[0] for line in found.unsigned] == [
        "operation", "handler", "profile", "grant", "question", "question", "decision"
    ]  # fmt: skip
    told = "\n".join(found.unsigned)
    assert "operation 'theirs': you have not approved it here" in told
    assert f"question {waiting.pending_id[:8]} 'theirs': not signed by you" in told
    assert re.search(r"decision 1 on \w{8}, 'approve' of '\w+': not signed by you", told)
    assert "'own'" not in told
    assert main(["verify", str(path)]) == 0
    assert capsys.readouterr().out.count(f"{found.tract_id}: not yours: ") == len(found.unsigned)
