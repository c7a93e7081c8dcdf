"""Attachments in the store: stored once, shared by copies, kept while they are in use, verified."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from sqlalchemy import select

from tests.attachments import pdf, png
from tract_jupyter import Session, Tract
from tract_jupyter.context import ApproximateCounter
from tract_jupyter.exceptions import BudgetExceededError, ContentError, StoreReferenceError
from tract_jupyter.models import AttachedFile, BudgetAction, TokenBudget, canonical_json, sha256
from tract_jupyter.storage import schema

DOT = AttachedFile.of("dot.png", png(2, 3))
PAPER = AttachedFile.of("paper.pdf", pdf(2))
NOTES = AttachedFile.of("notes.md", b"# Notes\n")
FILES = [DOT, PAPER, NOTES]


def kept(tract):
    """Return the attachments whose bytes are in the store."""
    with tract._repository.database.read() as connection:
        found = set(connection.scalars(select(schema.blobs.c.content_hash)))
    return {one.attachment.name for one in FILES if one.attachment.sha256 in found}


def sent(tract):
    """Return the part types of each message for the model."""
    return [
        [part["type"] for part in one["content"]] if isinstance(one["content"], list) else one["content"]
        for one in tract.compile().to_dicts()
    ]


def test_content_without_attachments_keeps_its_hash(tract):
    info = tract.user("Hi", name="ann")
    payload = canonical_json({"content_type": "dialogue", "name": "ann", "role": "user", "text": "Hi"})
    assert info.content_hash == sha256(payload.encode())
    same = {"content_type": "dialogue", "role": "user", "text": "Hi", "name": "ann", "attachments": []}
    assert tract.commit(same).content_hash == info.content_hash
    assert tract.commit(same, attachments=[]).content_hash == info.content_hash
    assert tract.compile().to_dicts()[0] == {"role": "user", "content": "Hi", "name": "ann"}


def test_a_message_keeps_its_attachments(tract):
    info = tract.user("Look", attachments=FILES)
    content = tract.get_content(info.commit_hash)
    assert content["attachments"] == [one.attachment.model_dump() for one in FILES]
    assert info.message.startswith(f"[dot.png, image/png, {len(DOT.data)} B] [paper.pdf, application/pdf,")
    (message,) = tract.compile().messages
    assert (message.content, message.attachments) == ("Look", tuple(one.attachment for one in FILES))
    assert sent(tract) == [["image_url", "file", "text", "text"]]
    blocks = tract.compile().to_anthropic()["messages"][0]["content"]
    assert [one["type"] for one in blocks] == ["image", "document", "text", "text"]
    for shown in (tract.show(info.commit_hash), tract.compile().messages[0].told):
        assert shown.endswith("[notes.md, text/markdown, 8 B]\nLook")
    assert tract.verify() == []


def test_attachments_are_read_after_reopening_the_store(tmp_path):
    with Tract.open(tmp_path / "s.db") as tract:
        tract.user("Look", attachments=FILES)
        before = tract.compile().to_dicts()
    with Tract.open(tmp_path / "s.db") as tract:
        assert tract.compile().to_dicts() == before
        assert tract.compile().to_anthropic()["messages"]


def test_the_same_file_is_kept_once(tract):
    renamed = AttachedFile.of("other.png", DOT.data)
    with tract.batch():
        for file in (DOT, renamed, DOT):
            tract.user("Look", attachments=[file, file])
    with tract._repository.database.read() as connection:
        found = connection.scalars(select(schema.blobs.c.payload)).all()
    assert found.count(DOT.data) == 1
    assert sent(tract) == [["image_url", "image_url", "text"]] * 3


def test_the_token_count_includes_attachments(tract):
    count = tract.tokenizer.count_text
    info = tract.user("Look", attachments=FILES)
    assert info.token_count == count("Look") + 85 + 4_000 + count(NOTES.text)
    assert tract.compile().token_count == info.token_count + 7
    assert info.context_tokens == info.token_count + 7


class Exact(ApproximateCounter):
    name = "exact"


def test_only_images_and_pdfs_make_an_estimate():
    with Tract.open(tokenizer=Exact()) as tract:
        assert tract.user("Look", attachments=[NOTES]).token_counter == "exact"
        assert (tract.compile().token_source, "≈" in str(tract.status())) == ("exact", False)
        assert tract.user("Look", attachments=[DOT]).token_counter == "approximate"
        assert tract.compile().token_source == "approximate"
        assert tract.status().tokens.startswith("≈")


@pytest.mark.own_store
def test_a_budget_counts_attachments(tract):
    tract.budget = TokenBudget(1_000, BudgetAction.REJECT)
    tract.user("Look", attachments=[DOT])
    head = tract.head
    for attempt in (lambda: tract.user("Look", attachments=[PAPER]), lambda: in_batch(tract)):
        with pytest.raises(BudgetExceededError):
            attempt()
    assert (tract.head, kept(tract)) == (head, {"dot.png"})


def in_batch(tract):
    with tract.batch():
        tract.user("Look", attachments=[NOTES])
        tract.user("Look", attachments=[PAPER])


# --- by reference


def test_content_can_refer_to_attachments_of_the_tract(tract):
    first = tract.user("Look", attachments=[DOT, NOTES])
    again = tract.commit(tract.get_content(first.commit_hash))
    assert (again.content_hash, again.token_count) == (first.content_hash, first.token_count)
    more = tract.commit({**tract.get_content(first.commit_hash), "text": "And?"}, attachments=[PAPER])
    assert [one["name"] for one in tract.get_content(more.commit_hash)["attachments"]] == [
        "dot.png",
        "notes.md",
        "paper.pdf",
    ]
    tract.user("Without", edit=first.commit_hash)
    assert tract.restore(first.commit_hash).content_hash == first.content_hash
    assert tract.compile().messages[0].attachments == (DOT.attachment, NOTES.attachment)


def test_a_message_can_consist_only_of_attachments(tract):
    tract.user("", attachments=[DOT])
    assert sent(tract) == [["image_url"]]
    assert tract.compile().to_anthropic()["messages"][0]["content"][0]["type"] == "image"
    changes = tract.toolset("full").execute("diff", {}).output
    assert "[dot.png, image/png, 68 B]" in str(changes)


def test_a_batch_can_refer_to_its_own_new_attachments(tract):
    with tract.batch():
        first = tract.user("Look", attachments=[DOT])
        tract.commit(tract.get_content(first.commit_hash))
    assert sent(tract) == [["image_url", "text"]] * 2


def test_a_hash_alone_gives_no_access_to_stored_bytes(tract):
    secret = tract.system("The password is swordfish.")
    with tract._repository.database.read() as connection:
        query = select(schema.blobs.c.payload).where(schema.blobs.c.content_hash == secret.content_hash)
        size = len(connection.scalar(query))
    stolen = {"name": "a.txt", "media_type": "text/plain", "sha256": secret.content_hash, "size": size}
    content = {"content_type": "dialogue", "role": "user", "text": "x", "attachments": [stolen]}
    with pytest.raises(ContentError, match=r"no attachment \[a.txt, text/plain, \d+ B\]"):
        tract.commit(content)
    tract.user("Look", attachments=[DOT])
    for change in ({"name": "other.png"}, {"media_type": "text/plain"}, {"size": 1}):
        named = {**content, "attachments": [{**DOT.attachment.model_dump(), **change}]}
        with pytest.raises(ContentError, match="this tract has no attachment"):
            tract.commit(named)
    assert tract.toolset("full").execute("commit", {"content": content}).success is False


def test_an_attachment_of_another_tract_is_not_at_hand(tmp_path):
    with Session.open(tmp_path / "s.db") as session:
        one, other = session.create_tract(), session.create_tract()
        info = one.user("Look", attachments=[DOT])
        with pytest.raises(ContentError, match="this tract has no attachment"):
            other.commit(one.get_content(info.commit_hash))
        other.user("Look", attachments=[DOT])
        other.commit(one.get_content(info.commit_hash))


# --- copies


def test_copied_messages_keep_their_attachments(tract):
    tract.user("begin")
    tract.branch("side")
    tract.user("Look", attachments=[DOT])
    looked = tract.head
    tract.branch("picked", source="main")
    tract.import_commits([looked])
    assert sent(tract) == ["begin", ["image_url", "text"]]
    tract.switch("main")
    tract.user("meanwhile")
    tract.merge("side")
    assert sent(tract) == ["begin", "meanwhile", ["image_url", "text"]]
    tract.switch("side")
    tract.branch("based", source=looked)
    tract.branch("base", source=tract.log(all_branches=True)[-1].commit_hash)
    tract.user("base")
    tract.switch("based")
    tract.rebase("base")
    assert sent(tract) == ["begin", "base", ["image_url", "text"]]
    assert tract.verify() == []


def test_a_conflict_may_keep_the_attachments_with_another_text(tract):
    first = tract.user("Look", attachments=[DOT])
    tract.branch("side")
    tract.commit(
        {**tract.get_content(first.commit_hash), "text": "side"},
        operation="edit",
        edit_target=first.commit_hash,
    )
    tract.switch("main")
    tract.commit(
        {**tract.get_content(first.commit_hash), "text": "main"},
        operation="edit",
        edit_target=first.commit_hash,
    )
    from tract_jupyter.models import Resolution

    tract.merge("side", resolver=lambda _: Resolution.content("both"))
    (message,) = tract.compile().messages
    assert (message.content, message.attachments) == ("both", (DOT.attachment,))


@pytest.mark.parametrize("inheritance", ["full_clone", "head_snapshot"])
def test_a_child_that_inherits_them(tmp_path, inheritance):
    with Session.open(tmp_path / "s.db") as session:
        parent = session.create_tract()
        parent.user("Look", attachments=[DOT])
        child = session.spawn(parent, purpose="look", inheritance=inheritance)
        if inheritance == "full_clone":
            assert sent(child) == [["image_url", "text"]]
            child.commit(parent.get_content(parent.head))  # the child has the attachment now
        else:
            assert f"[dot.png, image/png, {len(DOT.data)} B]" in child.compile().messages[0].content
        assert child.verify() == []


def test_a_summarizer_gets_the_attachments(tract):
    asked = []

    def summarizer(messages, *_):
        asked.extend(messages)
        return "A dot."

    info = tract.user("Look " * 50, attachments=[DOT])
    result = tract.compress(summarizer=summarizer)
    assert asked[0].attachments == (DOT.attachment,)
    tract.expand(result.summary_commits[0])
    assert tract.compile().messages[0].attachments == (DOT.attachment,)
    assert tract.get_commit(info.commit_hash).content_hash == info.content_hash


def test_a_diff_sees_that_only_an_attachment_differs(tract):
    first = tract.user("Look", attachments=[DOT])
    tract.user("Look", attachments=[PAPER], edit=first.commit_hash)
    assert [one.kind for one in tract.diff(first.commit_hash).message_diffs] == ["changed"]


# --- exports


def test_an_export_names_them_and_has_no_bytes(tract):
    tract.user("Look", attachments=FILES)
    assert "base64" not in str(tract.toolset("full").execute("compile", {}).output)


# --- garbage collection


def now(tract):
    return tract.gc(orphan_retention_days=0)


@pytest.mark.own_store
def test_the_bytes_go_with_the_last_commit_that_has_them(tract):
    tract.user("stays", attachments=[DOT])
    tract.user("goes", attachments=[DOT, PAPER])
    tract.user("goes", attachments=[NOTES])
    tract.undo()
    tract.undo()
    result = now(tract)
    assert (len(result.commits), result.blobs) == (2, 4)
    assert result.bytes > len(PAPER.data) + len(NOTES.data)
    assert kept(tract) == {"dot.png"}
    assert sent(tract) == [["image_url", "text"]]
    assert tract.verify() == []


@pytest.mark.own_store
def test_gc_keeps_bytes_that_are_both_an_attachment_and_a_content(tract):
    lost = tract.user("the same")
    payload = canonical_json(tract.get_content(lost.commit_hash)).encode()
    tract.undo()
    file = AttachedFile.of("same.json", payload)
    assert file.attachment.sha256 == lost.content_hash
    tract.user("Look", attachments=[file])
    assert len(now(tract).commits) == 1
    assert file.data.decode() in tract.compile().to_dicts()[0]["content"][0]["text"]
    said = tract.user("the same")
    tract.undo()
    tract.undo()
    tract.user("the same")
    now(tract)
    assert tract.get_commit(tract.head).content_hash == said.content_hash
    assert tract.verify() == []


@pytest.mark.own_store
def test_gc_keeps_attachments_of_another_tract(tmp_path):
    with Session.open(tmp_path / "s.db") as session:
        parent = session.create_tract()
        parent.user("begin")
        parent.user("Look", attachments=[DOT])
        child = session.spawn(parent, purpose="look", inheritance="full_clone")
        parent.undo()
        now(parent)
        assert kept(parent) == {"dot.png"}
        assert sent(child)[-1] == ["image_url", "text"]


def test_importing_a_commit_with_a_removed_attachment_is_refused(tmp_path):
    with Tract.open(tmp_path / "s.db") as tract:
        tract.user("begin")
        tract.branch("side")
        looked = tract.user("Look", attachments=[DOT]).commit_hash
        tract.switch("main")
        remove(tmp_path / "s.db", DOT)
        with pytest.raises(StoreReferenceError, match="an attachment of this commit was removed"):
            tract.import_commits([looked])
        assert len(tract.compile()) == 1
        tract.user("Look", attachments=[DOT])  # adding the file again repairs it
        tract.import_commits([looked])


# --- damage


def remove(path, file):
    change(path, "DELETE FROM blobs WHERE content_hash = ?", file)


def change(path, statement, file):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement, [file.attachment.sha256])
        connection.commit()


@pytest.mark.parametrize(("statement", "told"), [
    ("UPDATE blobs SET payload = CAST('x' AS BLOB) WHERE content_hash = ?", "is damaged"),
    ("DELETE FROM blobs WHERE content_hash = ?", "is missing"),
])  # fmt: skip
def test_verify_finds_damage(tmp_path, statement, told):
    with Tract.open(tmp_path / "s.db") as tract:
        info = tract.user("Look", attachments=[DOT, NOTES])
    change(tmp_path / "s.db", statement, DOT)
    with Tract.open(tmp_path / "s.db") as tract:
        (damage,) = tract.verify()
        assert damage.where == DOT.attachment.sha256
        assert damage.problem.startswith(f"the attachment {DOT.attachment} of commit {info.commit_hash[:12]}")
        assert told in damage.problem
        assert len(tract.compile()) == 1  # parts that are not sent stay readable
        with pytest.raises(Exception, match=told):
            tract.compile().to_dicts()
