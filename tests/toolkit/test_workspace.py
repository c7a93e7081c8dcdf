"""The workspace: files that can be attached, tricks with paths, and the right to widen it."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from tests.attachments import pdf, png
from tests.review.scripted import ScriptedClient, call, reply
from tract_jupyter import Session, Tract
from tract_jupyter.exceptions import (
    AttachmentError,
    CodeDecisionError,
    ContentError,
    TractError,
    WorkspaceError,
)
from tract_jupyter.models import MOST_BYTES, AttachedFile
from tract_jupyter.review import Trust


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with other files next to it."""
    here = tmp_path / "work"
    (here / "data").mkdir(parents=True)
    (tmp_path / "outside.txt").write_text("secret")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a.txt").write_text("secret")
    (here / "data" / "a.txt").write_text("hello")
    (here / "dot.png").write_bytes(png(2, 3))
    monkeypatch.chdir(here)
    return here


@pytest.fixture
def t(folder):
    with Tract.open(model=lambda _, **__: "Yes.") as tract:
        yield tract


def refused(t, name, kind=AttachmentError, told="."):
    """Send a message with a file in each way. Check that it is refused and changes nothing."""
    head, events = t.head, len(t.events())
    t.models.use(lambda _, **__: "Yes.")
    for attach in (t.user, t.chat):
        with pytest.raises(kind, match=told) as caught:
            attach("look", attachments=[name])
    assert (t.head, len(t.events())) == (head, events)
    return str(caught.value)


def test_a_file_is_read_wherever_it_is_named_from(t, folder, monkeypatch):
    monkeypatch.setenv("HOME", str(folder))
    (folder / "link.txt").symlink_to("data/a.txt")
    names = [
        "data/a.txt",
        "./data/../data/a.txt",
        folder / "data" / "a.txt",
        Path("link.txt"),
        "~/data/a.txt",
    ]
    files = t.workspace.read(*names)
    assert {(one.attachment.name, one.data) for one in files} == {("data/a.txt", b"hello")}
    monkeypatch.chdir("/")  # the folder at the opening of the tract counts
    assert t.workspace.read("data/a.txt")[0].data == b"hello"


def test_a_hard_link_is_a_name_within_like_any_other(t, folder):
    """See docs/context.md: package managers make thousands of hard links, and other names cannot be found."""
    (folder / "hard.txt").hardlink_to(folder.parent / "outside.txt")
    assert t.workspace.read("hard.txt")[0].attachment.name == "hard.txt"


@pytest.mark.parametrize("name", ["../outside.txt", "../nothing.txt", "data/../../outside.txt", "/etc/passwd", "/nothing",
                                  "link.txt", "folder/a.txt", "folder/nothing.txt"])  # fmt: skip
def test_paths_outside_the_workspace_are_refused_even_if_missing(t, folder, name):
    (folder / "link.txt").symlink_to("../outside.txt")
    (folder / "folder").symlink_to("../elsewhere")
    told = refused(t, name, WorkspaceError, r"outside of the workspace \('work'\), so it was not read")
    assert told.startswith(repr(name))
    assert "copy it there. The user can add its folder to tract.workspace.roots" in told


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("nothing.txt", "there is no file 'nothing.txt'"),
        ("data/a.txt/b", "there is no file"),
        ("a\0b", "there is no file"),
        ("~nobody-of-that-name/a", "there is no file"),
        ("circle", "there is no file|was replaced"),
        (".", "is a folder"),
        ("data", "is a folder"),
        ("pipe", "is a pipe, a socket or a device"),
        ("socket", "is a pipe, a socket or a device"),
        ("empty.txt", "is empty"),
        ("photo.png", "the name of an image, but its content is text/plain"),
        ("program.txt", "neither text in UTF-8"),
        ("large.pdf", "3,700,001 bytes, but an image or a PDF can have at most 3,700,000"),
        ("key.txt", "a likely key in line 2, so it was not attached"),
        (7, "an attachment is a path"),
    ],
)
def test_files_that_cannot_be_attached_are_refused(t, folder, name, told):
    os.mkfifo(folder / "pipe")
    (folder / "circle").symlink_to("circle")
    (folder / "empty.txt").touch()
    (folder / "photo.png").write_text("no image")
    (folder / "program.txt").write_bytes(b"\x7fELF\0\1")
    (folder / "large.pdf").write_bytes(pdf(size=MOST_BYTES + 1))
    (folder / "key.txt").write_text("one\nkey = sk-" + "a1B2" * 12)
    with socket.socket(socket.AF_UNIX) as opened:
        opened.bind("socket")
        refused(t, name, told=told)


def test_the_user_decides_about_a_text_that_may_hold_a_secret(t, folder):
    (folder / "settings.ini").write_text("[db]\nuser = me\npassword = hunter22\n")
    with pytest.raises(
        AttachmentError, match=r"may contain a secret in line 3.*read\(PATH, send_anyway=True\)"
    ):
        t.user("Look", attachments=["settings.ini"])
    t.user("Look", attachments=t.workspace.read("settings.ini", send_anyway=True))
    (folder / "key.txt").write_text("sk-" + "a1B2" * 12)
    with pytest.raises(AttachmentError, match="a likely key in line 1"):
        t.workspace.read("key.txt", send_anyway=True)


def test_code_that_runs_for_a_model_cannot_decide_it(t, folder):
    (folder / "settings.ini").write_text("password = hunter22\n")
    (folder / "plain.txt").write_text("hello\n")

    @t.tool(read_only=True)
    def send(name: str, anyway: bool) -> int:
        """Read a file."""
        return len(t.workspace.read(name, send_anyway=anyway))

    for name, anyway, told in [
        ("plain.txt", False, "1"), ("settings.ini", False, "may contain a secret"),
        ("plain.txt", True, "is the user's decision"), ("settings.ini", True, "is the user's decision"),
    ]:  # fmt: skip
        code = (
            f"try: print(tools.send(name={name!r}, anyway={anyway}))\nexcept Exception as error: print(error)"
        )
        assert told in t.scripts.run(code).text


def test_a_device_is_not_opened(t):
    t.workspace.roots = ["/dev"]
    with pytest.raises(AttachmentError, match="a device"):
        t.workspace.read("zero")


def test_a_file_that_cannot_be_read(t, monkeypatch):
    opens = os.open

    def fails(path, *args, **options):
        if path == "a.txt":
            raise PermissionError(13, "Permission denied")
        return opens(path, *args, **options)

    monkeypatch.setattr(os, "open", fails)
    refused(t, "data/a.txt", told="cannot be read: Permission denied; check its permissions")


def test_a_file_that_grows_while_it_is_read(t, monkeypatch):
    monkeypatch.setattr(os, "read", lambda opened, most: b"x" * most)
    refused(t, "data/a.txt", told="at most")


def test_many_files_are_refused_before_any_is_opened(t, folder, monkeypatch):
    for number in range(100):
        (folder / f"{number}.txt").write_text("x")
    monkeypatch.setattr(os, "open", None)
    with pytest.raises(
        AttachmentError, match="100 files are too many, because a message has at most 20 attachments"
    ):
        t.user("look", attachments=[f"{number}.txt" for number in range(100)])


@pytest.mark.parametrize("given", ["dot.png", Path("dot.png"), 3, {"dot.png"}])
def test_attachments_are_a_list(t, given):
    with pytest.raises(AttachmentError, match="attachments must be a list"):
        t.user("look", attachments=given)


# --- files replaced between the check and the read


def swapping(monkeypatch, after, path, put):
    """Replace a path as soon as a function has checked it."""
    looks, is_there = getattr(after, "stat" if after is os else "resolve"), path.exists()

    def swapped(one, *args, **options):
        found = looks(one, *args, **options)
        if str(one).endswith(path.name) and options.get("follow_symlinks") is not True and is_there:
            monkeypatch.undo()
            path.rename(path.with_name("moved"))
            put()
        return found

    monkeypatch.setattr(after, "stat" if after is os else "resolve", swapped)


@pytest.mark.parametrize("after", [os, Path], ids=["stat", "resolve"])
@pytest.mark.parametrize("what", ["link", "pipe", "folder"])
def test_a_file_that_is_swapped_in_between_is_not_read(t, folder, monkeypatch, after, what):
    path = folder / "data" / "a.txt"
    put = {
        "link": lambda: path.symlink_to(folder.parent / "outside.txt"),
        "pipe": lambda: os.mkfifo(path),
        "folder": path.mkdir,
    }[what]
    swapping(monkeypatch, after, path, put)
    with pytest.raises(AttachmentError, match="was replaced while it was read|is a folder|is a pipe"):
        t.workspace.read("data/a.txt")
    assert not path.is_file() or path.is_symlink()


def test_a_folder_that_becomes_a_link_in_between_is_not_followed(t, folder, monkeypatch):
    def put():
        (folder / "data").rename(folder / "before")
        (folder / "data").symlink_to(folder.parent / "elsewhere")

    looks = Path.resolve

    def swapped(path, *args, **options):
        found = looks(path, *args, **options)
        if path.name == "a.txt":
            monkeypatch.undo()
            put()
        return found

    monkeypatch.setattr(Path, "resolve", swapped)
    with pytest.raises(AttachmentError, match="there is no file"):
        t.workspace.read("data/a.txt")
    assert (folder / "data" / "a.txt").read_text() == "secret"


def test_a_root_that_becomes_a_link_in_between_is_not_followed(t, folder, monkeypatch):
    looks = Path.resolve

    def swapped(path, *args, **options):
        found = looks(path, *args, **options)
        if path.name == "a.txt":
            monkeypatch.undo()
            folder.rename(folder.with_name("before"))
            folder.symlink_to(folder.parent)
        return found

    (folder.parent / "a.txt").write_text("secret")
    monkeypatch.setattr(Path, "resolve", swapped)
    with pytest.raises(AttachmentError):
        t.workspace.read("a.txt")
    assert (folder / "a.txt").read_text() == "secret"


# --- the roots


def test_the_roots_are_kept_with_the_tract(folder, tmp_path):
    with Tract.open(tmp_path / "s.db") as t:
        assert t.workspace.roots == (folder.resolve(),)
        assert repr(t.workspace) == f"<Workspace: {folder.resolve()}>"
        t.workspace.roots = ["data", tmp_path / "elsewhere", "data"]
    with Tract.open(tmp_path / "s.db") as t:
        assert t.workspace.roots == (folder / "data", tmp_path / "elsewhere")
        assert t.workspace.read("a.txt")[0].data == b"hello"
        assert t.workspace.read(tmp_path / "elsewhere" / "a.txt")[0].attachment.name == "a.txt"
        refused(t, folder / "dot.png", WorkspaceError, "outside of the workspace")
        assert t.events("settings.saved")[0].data["roots"] == [str(one) for one in t.workspace.roots]
        t.workspace.roots = []
        refused(t, "a.txt", WorkspaceError, r"\(no folder\)")


def test_w15_a_file_outside_is_refused_unless_its_root_is_granted(t, folder):
    outside = folder.parent / "elsewhere" / "a.txt"
    refused(t, outside, WorkspaceError, "outside of the workspace")
    t.workspace.roots = [*t.workspace.roots, outside.parent]
    assert t.user("look", attachments=[outside, "dot.png"]).message.startswith(
        "[a.txt, text/plain, 6 B] [dot.png,"
    )


def test_roots_signed_by_another_user_are_ignored(folder, tmp_path):
    with Tract.open(tmp_path / "s.db", trust=Trust(tmp_path / "theirs")) as t:
        t.workspace.roots = [tmp_path]
    with Tract.open(tmp_path / "s.db", trust=Trust(tmp_path / "mine")) as t:
        assert t.workspace.roots == ()


@pytest.mark.parametrize(("given", "told"), [
    ("data", "a list of folders, such as \\['data'\\]"), (["nothing"], "is not a folder"), (["dot.png"], "is not a folder"),
    ([7], "a root of the workspace must be a folder"), (["a\0"], "is not a folder"),
])  # fmt: skip
def test_invalid_roots_are_refused(t, given, told):
    before = t.workspace.roots
    with pytest.raises(AttachmentError, match=told):
        t.workspace.roots = given
    assert t.workspace.roots == before


def test_code_that_runs_for_a_model_can_narrow_but_not_widen_the_workspace(t, folder):
    @t.tool(read_only=True)
    def escape() -> str:
        """Widen it, and narrow it."""
        for name, value in (("roots", ["/"]), ("roots", ["data", "/etc"]), ("default", "/")):
            with pytest.raises(CodeDecisionError, match="only the user can add"):
                setattr(t.workspace, name, value)
        t.workspace.roots = [folder / "data"]
        return "tried"

    assert "tried" in t.scripts.run("print(tools.escape())").text
    assert t.workspace.roots == (folder / "data",)

    t.workspace.roots = [folder]
    t.models.use(ScriptedClient(reply(None, call("escape")), "Done."))
    assert t.chat("Go.", tools="full").text == "Done."
    assert [one.content for one in t.compile().messages if one.role == "tool"] == ["tried"]
    assert t.workspace.roots == (folder / "data",)


def test_a_child_has_the_roots_of_its_parents(folder, tmp_path):
    with Session.open(tmp_path / "s.db") as session:
        parent = session.create_tract(display_name="parent")
        parent.user("hello")
        child = session.spawn(parent, purpose="look")
        parent.workspace.roots = ["data"]
        assert child.workspace.roots == (folder / "data",)
        refused(child, folder / "dot.png", WorkspaceError)
        other = parent.beside("other", "main", "look")
        assert other.workspace.roots == (folder / "data",)
        child.workspace.roots = []
        assert (child.workspace.roots, parent.workspace.roots) == ((), (folder / "data",))


def test_a_file_read_by_one_tract_can_be_sent_by_another(t, folder):
    file = t.workspace.read("dot.png")
    with Tract.open() as other:
        other.workspace.roots = [folder / "data"]
        info = other.user("look", attachments=file)
        assert other.get_content(info.commit_hash)["attachments"] == [file[0].attachment.model_dump()]
        made = AttachedFile.of("made.txt", b"by hand")
        assert other.user("look", attachments=[made, "a.txt"]).message.startswith(
            "[made.txt, text/plain, 7 B] [a.txt,"
        )


def test_only_user_messages_can_have_attachments(t):
    for say in (t.assistant, t.system, t.reasoning):
        with pytest.raises(ContentError, match="only a (user message|message of the user) has attachments"):
            say("look", attachments=["dot.png"])
    for answer in (t.tool_result, t.propose_tool_result):
        with pytest.raises(ContentError, match="only a (user message|message of the user) has attachments"):
            answer("c1", "look", "sunny", attachments=["dot.png"])
    with pytest.raises(ContentError, match=r"chat\(None\) continues"):
        t.chat(None, attachments=["dot.png"])
    with pytest.raises(TractError):
        t.chat("", attachments=["dot.png"])
    assert t.head is None
