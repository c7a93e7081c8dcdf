"""Loading adds parts to IPython, and unloading removes them."""

import re
from pathlib import Path

import pytest

from tests.notebook.conftest import LOAD

MAGICS = {("line", "tract"), ("line", "tract_fire"), ("cell", "tract_operation")}


def registered(shell):
    magics = shell.ip.magics_manager.magics
    return {(kind, name) for kind in ("line", "cell") for name in magics[kind]}


def everything(shell):
    ip = shell.ip
    return (
        registered(shell),
        set(ip.user_ns),
        [c for c in ip.configurables if not type(c).__module__.startswith("IPython")],
        list(ip.input_transformers_cleanup),
        list(ip.Completer.custom_matchers),
        dict(ip.events.callbacks),
    )


def test_load_prints_one_line_and_opens_nothing(bare_shell, tmp_path):
    result = bare_shell.run(LOAD)
    assert result.ok
    assert result.text.count("\n") == 1
    assert "tract and tools are ready" in result.text
    assert registered(bare_shell) >= MAGICS
    assert not (tmp_path / ".tract").exists()


def test_the_store_is_opened_at_the_first_use(shell, tmp_path):
    assert "not opened yet" in shell.run("print(repr(tract))").text
    assert shell.run("tract.user('hello')").ok
    assert (tmp_path / ".tract" / "tract.db").is_file()
    assert "not opened yet" not in shell.run("print(repr(tract))").text


def test_the_store_is_in_the_notebooks_folder_wherever_a_cell_went(shell, tmp_path):
    (tmp_path / "data").mkdir()
    shell.run("import os; os.chdir('data')")
    assert shell.run("tract.user('hello')").ok
    assert (tmp_path / ".tract" / "tract.db").is_file()
    assert not (tmp_path / "data" / ".tract").exists()


def test_the_store_is_opened_from_a_folder_that_is_gone(shell, tmp_path):
    (tmp_path / "data").mkdir()
    shell.run("import os; os.chdir('data'); os.rmdir('../data')")
    assert shell.run("tract.user('hello')").ok
    assert (tmp_path / ".tract" / "tract.db").is_file()


def test_the_overview_shows_only_the_relative_path_of_the_store(shell, tmp_path):
    shell.run("tract.user('hello')")
    text = shell.run("%tract").text
    assert "tract in .tract/tract.db" in text
    assert str(tmp_path) not in text


@pytest.mark.parametrize("store", [":memory:", "{folder}/other/t.db", "sqlite:///{folder}/other.db"])
def test_a_memory_absolute_or_url_store_is_not_moved_to_the_folder(bare_shell, tmp_path, store):
    (tmp_path / "other").mkdir()
    bare_shell.ip.config.TractJupyter.store = store.format(folder=tmp_path)
    bare_shell.run(LOAD)
    assert bare_shell.run("tract.user('hello')").ok
    made = {path.name for path in tmp_path.rglob("*") if path.suffix == ".db" or ":" in path.name}
    assert made == ({store.rpartition("/")[2]} if "/" in store else set())


def test_displaying_or_listing_the_names_opens_nothing(shell, tmp_path):
    for cell in ("tract", "tools", "dir(tract)", "repr(tools)"):
        assert shell.run(cell).ok
    assert not (tmp_path / ".tract").exists()


def test_names_of_the_user_are_left_alone(bare_shell):
    bare_shell.run("tools = 'mine'")
    result = bare_shell.run(LOAD)
    assert "'tools' is already a variable, which stays unchanged" in result.text
    assert bare_shell.namespace["tools"] == "mine"
    bare_shell.run("%unload_ext tract_jupyter")
    assert bare_shell.namespace["tools"] == "mine"
    assert "tract" not in bare_shell.namespace


def test_the_names_are_configurable(bare_shell):
    bare_shell.ip.config.TractJupyter.tools_name = "ptc"
    bare_shell.run(LOAD)
    assert "ptc" in bare_shell.namespace
    assert "tools" not in bare_shell.namespace


def test_an_invalid_name_is_refused(shell, caplog):
    shell.run("%config TractJupyter.tools_name = 'a b'")
    assert "not a valid Python name" in caplog.text
    assert "'tools'" in shell.run("%config TractJupyter.tools_name").text


def test_unload_restores_the_state_before_load(bare_shell):
    bare_shell.run("1")
    before = everything(bare_shell)
    bare_shell.run(LOAD)
    bare_shell.run("tract.user('x')")
    assert everything(bare_shell) != before
    assert bare_shell.run("%unload_ext tract_jupyter").ok
    assert everything(bare_shell) == before


def test_unload_keeps_a_name_that_the_user_reassigned(shell):
    shell.run("tools = 5")
    shell.run("%unload_ext tract_jupyter")
    assert shell.namespace["tools"] == 5


def test_reload_keeps_the_context(shell):
    shell.run("tract.user('hello')")
    assert shell.run("%reload_ext tract_jupyter").ok
    assert "hello" in shell.run("print(tract.compile().to_dicts())").text


def test_loading_twice_changes_nothing(shell):
    before = everything(shell)
    shell.run(LOAD)
    assert everything(shell) == before


def test_config_shows_the_settings(shell):
    assert "TractJupyter.store" in shell.run("%config TractJupyter").text


def test_another_store(bare_shell, tmp_path):
    bare_shell.ip.config.TractJupyter.store = str(tmp_path / "elsewhere.db")
    bare_shell.run(LOAD)
    bare_shell.run("tract.user('x')")
    assert (tmp_path / "elsewhere.db").is_file()


def test_an_invalid_store_gives_an_error_without_a_traceback(bare_shell, tmp_path):
    (tmp_path / "bad.db").write_bytes(b"this is no database, whatever its name says" * 100)
    bare_shell.ip.config.TractJupyter.store = str(tmp_path / "bad.db")
    bare_shell.run(LOAD)
    result = bare_shell.run("%tract")
    assert not result.ok
    assert "not a valid SQLite database" in result.text
    assert "Traceback" not in result.text


def test_the_store_can_be_named_before_the_context_is_used(shell, tmp_path):
    told = shell.run("%config TractJupyter.store = '.tract/mine.db'").text
    assert "stored in .tract/mine.db" in told
    shell.run("tract.user('x')")
    assert (tmp_path / ".tract" / "mine.db").exists()
    assert not (tmp_path / ".tract" / "tract.db").exists()


def test_a_cell_that_loads_and_sets_a_store_prints_the_place_once(bare_shell):
    told = bare_shell.run("%load_ext tract_jupyter\n%config TractJupyter.store = '.tract/mine.db'").text
    assert told.count("context is stored in") == 1
    assert "stored in .tract/mine.db" in told
    assert (
        "is stored in .tract/other.db"
        in bare_shell.run("%config TractJupyter.store = '.tract/other.db'").text
    )


def test_a_load_outside_of_a_cell_prints_the_place_at_once(bare_shell, capsys):
    bare_shell.ip.run_line_magic("load_ext", "tract_jupyter")
    assert "the context is stored in" in capsys.readouterr().out
    assert "stored in" not in bare_shell.run("1").text


def test_naming_another_store_later_says_when_it_counts(shell):
    shell.run("tract.user('x')")
    told = shell.run("%config TractJupyter.store = 'other.db'").text
    assert "stays in" in told
    assert "%reload_ext" in told
    assert shell.namespace["tract"].status().commit_count == 1


@pytest.fixture
def blocked(bare_shell, tmp_path):
    """A notebook in a folder that allows no store."""
    (tmp_path / ".tract").write_text("no folder")
    return bare_shell


def test_loading_reports_a_folder_that_cannot_be_written(blocked, tmp_path):
    before = set(tmp_path.iterdir())
    result = blocked.run(LOAD)
    assert result.ok
    assert ".tract/tract.db cannot be written: Not a directory" in result.text
    assert "Choose another place" in result.text
    assert set(tmp_path.iterdir()) == before
    again = blocked.run("%tract")
    assert "%config TractJupyter.store" in again.error


def test_loading_reports_a_folder_without_read_permission(bare_shell, monkeypatch):
    def refused(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "is_file", refused)
    bare_shell.ip.config.TractJupyter.store = "of_others/t.db"
    result = bare_shell.run(LOAD)
    assert result.ok
    assert "of_others/t.db cannot be written: Permission denied" in result.text


def test_the_suggested_commands_for_another_place_work(blocked, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    told = blocked.run(LOAD).text
    for line in re.findall(r"%\S+ [^;\n]*", told.partition("cannot be written")[2])[:2]:
        assert blocked.run(line).ok
    assert blocked.run("tract.user('hello')").ok
    assert (tmp_path / "home" / "tract.db").is_file()
