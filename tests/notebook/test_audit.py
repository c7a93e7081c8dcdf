"""`tract-jupyter audit`: an export that a third party can verify, and what the verification finds."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import warnings
from pathlib import Path

import pytest

from tests.review.fakes import FakeChannel, click
from tract_jupyter import ActionDef, OperationSpec, Tract
from tract_jupyter.__main__ import main
from tract_jupyter.models import canonical_json
from tract_jupyter.runs.profile import OperationProfile


@pytest.fixture
def export(tmp_path, capsys):
    """The lines of an export of a store with a decision, and its file."""
    with Tract.open(tmp_path / "s.db") as tract:
        tract.user("Hello")
        tract.user("More")
        tract.reviewer.channel = FakeChannel(lambda ticket: click(ticket, "go"))
        go = ActionDef("go", "Do it.", {}, "pending.approve()")
        tract.register_operation(OperationSpec("deploy", "Deploy it.", {}, {"go": go}))
        tract.reviewer.decide_now(tract.fire("deploy", review=True))
        tract.effects.turn_moved("a turn", "main", "its tip")
    file = tmp_path / "audit.jsonl"
    assert main(["audit", "export", str(tmp_path / "s.db"), "--out", str(file)]) == 0
    assert (
        hashlib.sha256(b"".join(file.read_bytes().splitlines(True)[:-1])).hexdigest()
        in capsys.readouterr().err
    )
    (tmp_path / "s.db").unlink()
    return file


def resealed(file, change):
    """Change a file without the secret, and recompute its digest."""
    *lines, end = (json.loads(line) for line in file.read_text().splitlines())
    change(lines)
    texts = [canonical_json(line) + "\n" for line in lines]
    end["end"] |= {"lines": len(texts), "sha256": hashlib.sha256("".join(texts).encode()).hexdigest()}
    file.write_text("".join([*texts, canonical_json(end) + "\n"]))


def rows(lines, table):
    return [line["row"] for line in lines if line.get("table") == table]


def verified(file, capsys, *more):
    code = main(["audit", "verify", str(file), *map(str, more)])
    captured = capsys.readouterr()
    return code, captured.out + captured.err


def test_a_third_party_verifies_it_without_the_secret_and_with_it(export, capsys, data_dir, monkeypatch):
    secret = data_dir / "tract_jupyter" / "secret"
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(data_dir / "of-another-user"))
    code, text = verified(export, capsys)
    assert (code, "No problem found." in text, "Signatures: not checked" in text) == (0, True, True)
    assert "commits 2, pendings 1, decisions 1" in text
    code, text = verified(export, capsys, "--secret", secret)
    assert (code, "Signatures: checked" in text) == (0, True), text
    assert "Not covered: the other columns, such as errors and origins, and other events" in text
    assert export.stat().st_mode & 0o77 == 0


def test_a_changed_text_and_a_removed_commit_are_found(export, capsys):
    before = export.read_text()
    export.write_text(before.replace("Hello", "Hallo"))
    code, text = verified(export, capsys)
    assert code == 1
    assert "the file was changed after the export" in text
    export.write_text(before)
    resealed(export, lambda lines: [row["payload"].update(utf8="{}") for row in rows(lines, "blobs")])
    code, text = verified(export, capsys)
    assert code == 1
    assert "is damaged" in text
    assert "digest" not in text
    export.write_text(before)
    resealed(export, lambda lines: lines.remove(next(x for x in lines if x.get("table") == "commits")))
    assert verified(export, capsys)[0] != 0


def test_a_changed_decision_needs_the_secret(export, capsys, data_dir):
    resealed(export, lambda lines: rows(lines, "decisions")[0].update(decided_by="mallory"))
    assert verified(export, capsys)[0] == 0  # no hash covers it, as documented
    code, text = verified(export, capsys, "--secret", data_dir / "tract_jupyter" / "secret")
    assert code == 1
    assert "the export is not signed with this secret" in text
    assert "mallory" in text or "decision" in text


def in_json(row, name, change):
    """Change a column that holds JSON."""
    data = json.loads(row[name])
    change(data)
    row[name] = canonical_json(data)


def title(data):
    data["request"]["title"] = "Read a file"


def branch(data):
    data["branch"] = "other"


@pytest.mark.parametrize(
    ("table", "change", "problem"),
    [
        ("pendings", lambda row: in_json(row, "request_json", title), "question "),
        ("pendings", lambda row: row.update(status="rejected"), "outcome 'rejected' of "),
        ("pendings", lambda row: row.update(executed_at=None), "outcome 'approved' of "),
        ("decisions", lambda row: row.update(action="approve"), "decision 1 on "),
        ("decisions", lambda row: row.update(reason="forged"), "decision 1 on "),
    ],
)
def test_changes_of_requests_outcomes_decisions_and_effects_are_found(
    export, capsys, data_dir, table, change, problem
):
    secret = data_dir / "tract_jupyter" / "secret"

    def forge(lines):
        change(rows(lines, table)[-1])

    resealed(export, forge)
    code, text = verified(export, capsys, "--secret", secret)
    assert code == 1
    (found,) = [line for line in text.splitlines() if "not signed by you" in line]
    assert f": {problem}" in found


@pytest.mark.parametrize(
    ("table", "change", "problem"),
    [
        ("settings", lambda row: row.update(settings_json="{}"), "settings 'autonomy'"),
        ("settings", lambda row: row.update(name="other"), "settings 'other'"),
        ("policies", lambda row: row.update(name="other"), "policy 'other'"),
        (
            "policies",
            lambda row: in_json(row, "policy_json", lambda data: data.update(on=False)),
            "policy 'auto-pin'",
        ),
        (
            "run_events",
            lambda row: in_json(row, "data_json", lambda data: data.update(branch="x")),
            "start of run",
        ),
    ],
)
def test_changes_of_settings_policies_and_runs_are_found(tmp_path, capsys, data_dir, table, change, problem):
    with Tract.open(tmp_path / "s.db", model=lambda messages, **options: "Fine.") as tract:
        tract.user("Hello")
        tract.autonomy.ceiling = "collaborative"
        tract.policies.add("pin", patterns=["KEEP"])
        tract.generate(profile=OperationProfile.of("p"))
    file = tmp_path / "audit.jsonl"
    assert main(["audit", "export", str(tmp_path / "s.db"), "--out", str(file)]) == 0
    secret = data_dir / "tract_jupyter" / "secret"
    code, text = verified(file, capsys, "--secret", secret)
    assert code == 0, text
    resealed(file, lambda lines: change(rows(lines, table)[0]))
    code, text = verified(file, capsys, "--secret", secret)
    assert code == 1
    (found,) = [line for line in text.splitlines() if "not signed by you" in line]
    assert f": {problem}" in found


def test_an_incomplete_or_invalid_export_is_refused(export, capsys):
    text = export.read_text()
    for damaged in (
        text[: len(text) // 2],
        "\n".join(text.splitlines()[:-1]),
        text.replace('"audit":1', '"audit":2'),
        text.replace('"table":"commits"', '"table":"sqlite_master"'),
        "",
        "[1]\n",
    ):
        export.write_text(damaged)
        code, message = verified(export, capsys)
        assert code == 2
        assert "tract-jupyter:" in message


def test_the_report_has_the_digest_of_the_lines(export, capsys):
    lines = export.read_bytes().splitlines(True)[:-1]
    assert f"SHA-256: {hashlib.sha256(b''.join(lines)).hexdigest()}\n" in verified(export, capsys)[1]


def test_a_missing_secret_is_an_error_of_the_command_and_not_of_the_export(export, capsys, tmp_path):
    code, text = verified(export, capsys, "--secret", tmp_path / "typo")
    assert (code, "there is no signing secret" in text) == (2, True)
    assert not (tmp_path / "typo").exists()


def lose_the_tract(lines):
    lines[:] = [line for line in lines if line.get("table") != "tracts"]


def add_a_content(lines):
    row = {"content_hash": "a" * 64, "payload": {"utf8": "forged"}}
    lines.insert(1, {"table": "blobs", "row": row})


def rename_the_store(lines):
    lines[0]["store_id"] = "b" * 32


def make_a_cycle(lines):
    first = rows(lines, "commits")[0]
    first["parent_hash"] = first["commit_hash"]


def add_lines_to_the_report(lines):
    for line in lines[1:]:
        line["row"] |= {"tract_id": "x\nNo problem found.\n"} if "tract_id" in line["row"] else {}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lose_the_tract, "commits has rows of the tract"),
        (add_a_content, "content aaaaaaaaaaaa is damaged"),
        (rename_the_store, "the first line names another store than the rows"),
        (make_a_cycle, "its generation does not follow its parent's"),
        (add_lines_to_the_report, "x No problem found. : "),
    ],
)
def test_a_change_outside_the_tracts_is_found_without_the_secret(export, capsys, change, problem):
    resealed(export, change)
    code, text = verified(export, capsys)
    assert code == 1
    assert problem in text
    assert "No problem found." not in text.splitlines()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"exported_at":"', '"exported_at":"2026\\nNo problem found.\\n'),
        ('"exported_at":', '"of":'),
        ('"store_id":', '"of":'),
        ('"store_id":"', '"store_id":"x'),
        ('"audit":1', '"audit":1,"audit":1'),
        ('"decided_by":', '"decided_by":"alice","decided_by":'),
        ('"decided_by":', '"decided_by" :'),
        ('"generation":0', f'"generation":{"[" * 100_000}'),
        ('"message":"', '"message":"\\ud800'),
        ('"signature":"', '"signature":5,"x":"'),
    ],
)
def test_a_hostile_line_is_an_error_of_the_format(export, capsys, before, after):
    text = export.read_text()
    head, _, end = text.rpartition("\n{")
    place = end if before == '"signature":"' else head  # the signature is in the last line
    assert before in place
    changed = place.replace(before, after, 1)
    export.write_text(f"{head}\n{{{changed}" if place is end else f"{changed}\n{{{end}")
    code, message = verified(export, capsys)
    assert code == 2, message
    assert "No problem found." not in message.splitlines()


def test_a_forged_id_of_the_store_adds_nothing_to_the_report(export, capsys):
    forged = "x, exported 2026\nSHA-256: 5c10\nSignatures: checked\nNo problem found.\n\x1b[2J"

    def forge(lines):
        lines[0]["store_id"] = forged
        for row in rows(lines, "tract_meta"):
            row["value"] = forged if row["key"] == "store_id" else row["value"]

    resealed(export, forge)
    code, text = verified(export, capsys)
    assert code == 2
    assert "store_id is not an id of the format" in text
    assert len(text.splitlines()) == 1
    assert "\x1b" not in text


def change_a_hash(lines):
    rows(lines, "commits")[1]["commit_hash"] = "0" * 64


def drop_commit(number):
    def drop(lines):
        row = rows(lines, "commits")[number]
        lines.remove({"table": "commits", "row": row})

    return drop


def repeat_a_commit(lines):
    lines.insert(len(lines), {"table": "commits", "row": rows(lines, "commits")[0]})


def set_value(table, column, value):
    def change(lines):
        rows(lines, table)[0][column] = value

    return change


def drop_a_column(lines):
    del rows(lines, "events")[0]["id"]


def add_a_column(lines):
    rows(lines, "events")[0]["more"] = 1


def newer_tables(lines):
    for row in rows(lines, "tract_meta"):
        row["value"] = "999" if row["key"] == "schema_version" else row["value"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (change_a_hash, "it refers to a row that is missing"),
        (drop_commit(0), "it refers to a row that is missing"),
        (drop_commit(-1), "it refers to a row that is missing"),
        (repeat_a_commit, "UNIQUE constraint failed"),
        (set_value("events", "id", None), "the value of id has a wrong type"),
        (set_value("events", "id", "x"), "the value of id has a wrong type"),
        (set_value("events", "id", True), "the value of id has a wrong type"),
        (set_value("events", "actor", None), "the value of actor has a wrong type"),
        (set_value("commits", "generation", 2**70), "OverflowError"),
        (set_value("blobs", "payload", None), "NOT NULL constraint failed"),
        (set_value("pendings", "resumable", 7), "not None, True, or False"),
        (drop_a_column, "it has not exactly the columns of the table: id"),
        (add_a_column, "it has not exactly the columns of the table: more"),
        (newer_tables, ""),
        (set_value("commits", "created_at", "yesterday"), ""),
        (set_value("tracts", "created_at", "yesterday"), None),
        (set_value("refs", "name", "\x1b[2J\n"), None),
    ],
)
def test_rows_that_no_store_has_are_a_failed_check(export, capsys, change, why):
    resealed(export, change)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        code, text = verified(export, capsys)
    if why is not None:  # otherwise no check covers the value
        assert code == 1, text
    assert code in (0, 1)
    assert "SHA-256: " in text
    assert not any(
        word in text for word in ("audit.db", "gc ", "Traceback", "Restore a backup", "\x1b", "INSERT")
    )
    if why:
        (line,) = [line for line in text.splitlines() if line.startswith("The rows are not whole: line ")]
        assert why in line


def test_an_export_replaces_no_file_and_a_failed_one_leaves_none(tmp_path, capsys):
    with Tract.open(tmp_path / "s.db") as tract:
        tract.user("Hello")
    (tmp_path / "damaged.db").write_text("x")
    (tmp_path / "there").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    before = sorted(tmp_path.iterdir())
    for store, out, problem in (
        ("s.db", "there", "exists"),
        ("s.db", "link", "exists"),
        ("s.db", "missing/out", "No such file or directory"),
        ("s.db", "there/out", "Not a directory"),
        ("s.db", "n" * 300, "File name too long"),
        ("missing.db", "new", "there is no store"),
        ("damaged.db", "new", "is not a store"),
    ):
        assert main(["audit", "export", str(tmp_path / store), "--out", str(tmp_path / out)]) == 2
        assert problem in capsys.readouterr().err
    assert sorted(tmp_path.iterdir()) == before
    assert (tmp_path / "there").read_text() == "mine"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has a device that is always full")
def test_a_full_disk_is_a_clear_error(tmp_path, capsys, monkeypatch):
    with Tract.open(tmp_path / "s.db") as tract:
        tract.user("Hello")
    before = sorted(tmp_path.iterdir())
    place = tmp_path / "out"

    def full(path, flags):
        os.close(os.open(path, flags))
        return os.open("/dev/full", os.O_WRONLY)

    monkeypatch.setattr("tract_jupyter.notebook.audit.open_private", full)
    assert main(["audit", "export", str(tmp_path / "s.db"), "--out", str(place)]) == 2
    assert "No space left on device" in capsys.readouterr().err
    assert sorted(tmp_path.iterdir()) == before
    out = Path("/dev/full").open("w")  # noqa: SIM115 # closing it fails
    monkeypatch.setattr(sys, "stdout", out)
    assert main(["audit", "export", str(tmp_path / "s.db")]) == 2
    assert "the standard output: No space left on device" in capsys.readouterr().err
    with pytest.raises(OSError, match="No space"):
        out.close()


@pytest.mark.skipif(os.name != "posix", reason="POSIX")
def test_only_a_regular_file_is_read(tmp_path, capsys):
    os.mkfifo(tmp_path / "pipe")
    for file, why in (
        ("/dev/zero", "not a regular file"),
        (tmp_path / "pipe", "not a regular file"),
        (tmp_path, "not a regular file"),
        (tmp_path / "missing", "No such file"),
    ):
        code, text = verified(file, capsys)
        assert code == 2
        assert why in text
