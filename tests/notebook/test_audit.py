"""`tract-jupyter audit`: an export that a third party can verify, and what the verification finds."""

from __future__ import annotations

import hashlib
import json

import pytest

from tests.review.fakes import FakeChannel, click
from tract_jupyter import ActionDef, OperationSpec, Tract
from tract_jupyter.__main__ import main
from tract_jupyter.models import canonical_json


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
    file = tmp_path / "audit.jsonl"
    assert main(["audit", "export", str(tmp_path / "s.db"), "--out", str(file)]) == 0
    assert (
        hashlib.sha256(b"".join(file.read_bytes().splitlines(True)[:-1])).hexdigest()
        in capsys.readouterr().err
    )
    (tmp_path / "s.db").unlink()
    return file


def resealed(file, change):
    """Change a file as someone would who does not have the secret, and compute its digest again."""
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
    assert verified(export, capsys)[0] == 0  # no hash covers it: the page says so
    code, text = verified(export, capsys, "--secret", data_dir / "tract_jupyter" / "secret")
    assert code == 1
    assert "the export is not signed with this secret" in text
    assert "mallory" in text or "decision" in text


def test_a_file_that_is_no_whole_export_is_refused(export, capsys):
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
