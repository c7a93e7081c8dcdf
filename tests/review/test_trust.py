"""The secret that signs approvals."""

from __future__ import annotations

import stat
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tract_jupyter import Tract
from tract_jupyter.exceptions import TrustError
from tract_jupyter.review import Trust


@pytest.fixture
def trust(data_dir):
    return Trust()


def here(trust):
    """Return a signer for one place."""
    return trust.for_project("here")


def test_sign_and_verify(trust):
    signature = here(trust).sign("kind", "text")
    assert len(signature) == 64
    assert here(trust).verify("kind", "text", signature)
    assert here(Trust()).verify("kind", "text", signature)
    assert not here(trust).verify("kind", "text ", signature)
    assert not here(trust).verify("other", "text", signature)
    assert not here(trust).verify("kind", "text", signature[:-1])
    assert not here(trust).verify("kind", "text", "")
    assert not here(trust).verify("kind", "text", "é" * 64)


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX modes")
def test_the_secret_is_made_for_this_user_alone(trust, data_dir):
    assert trust.secret_file == data_dir / "tract_jupyter" / "secret"
    here(trust).sign("kind", "text")
    assert stat.S_IMODE(trust.secret_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(trust.secret_file.parent.stat().st_mode) == 0o700
    assert len(trust.secret_file.read_bytes()) == 32
    assert list(trust.secret_file.parent.iterdir()) == [trust.secret_file]


POSIX = pytest.mark.skipif(sys.platform == "win32", reason="POSIX modes")


@POSIX
@pytest.mark.parametrize("mode", [0o666, 0o644, 0o640, 0o660, 0o604, 0o602, 0o777, 0o610])
def test_a_secret_with_an_open_file_mode_is_refused(trust, mode):
    signature = here(trust).sign("kind", "text")
    trust.secret_file.chmod(mode)
    for use in (
        lambda: here(trust).sign("kind", "text"),
        lambda: here(Trust()).verify("kind", "text", signature),
    ):
        with pytest.raises(TrustError, match=rf"mode {mode:04o}\). Run: chmod 600 .*delete it"):
            use()
    assert stat.S_IMODE(trust.secret_file.stat().st_mode) == mode
    trust.secret_file.chmod(0o600)
    assert here(trust).verify("kind", "text", signature)


@POSIX
@pytest.mark.parametrize(
    ("folder", "mode", "is_refused"),
    [
        (".", 0o777, True), (".", 0o733, True), (".", 0o755, False), (".", 0o770, False), (".", 0o1777, False),
        ("..", 0o777, True), ("../..", 0o777, True), ("../..", 0o1777, False),
    ],
)  # fmt: skip
def test_a_secret_that_others_can_replace_is_refused(tmp_path, folder, mode, is_refused):
    file = tmp_path / "a" / "b" / "c" / "secret"
    signature = here(Trust(file)).sign("kind", "text")
    (file.parent / folder).resolve().chmod(mode)
    if is_refused:
        with pytest.raises(TrustError, match=rf"mode {mode:04o}\). Run: chmod o-w "):
            here(Trust(file)).verify("kind", "text", signature)
    else:
        assert here(Trust(file)).verify("kind", "text", signature)


@POSIX
def test_a_secret_behind_a_link_into_an_open_folder_is_refused(tmp_path):
    for name in ("open", "own"):
        (tmp_path / name).mkdir(mode=0o700)
    (tmp_path / "own" / "secret").symlink_to(tmp_path / "open" / "secret")
    here(Trust(tmp_path / "open" / "secret")).sign("kind", "text")
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(TrustError, match="chmod o-w"):
        here(Trust(tmp_path / "own" / "secret")).sign("kind", "text")


@POSIX
def test_an_exposed_secret_approves_nothing(trust, data_dir):
    here(trust).sign("kind", "text")
    trust.secret_file.chmod(0o666)
    with Tract.open() as tract:
        tract.tool(lambda x: x, name="f", description="Do.")
        result = tract.toolset("full", actor="agent").execute("f", {"x": 1})
    assert "chmod 600" in result.error


def test_new_folders_of_the_secret_are_private(tmp_path, modes):
    here(Trust(tmp_path / "a" / "b" / "secret")).sign("kind", "text")
    assert modes(tmp_path) == {"a": 0o700, "a/b": 0o700, "a/b/secret": 0o600}


def test_a_signature_is_for_one_place(trust):
    places = [
        trust.for_project("a"), trust.for_project("b"),
        trust.for_tract("a", "b"), trust.for_tract("b", "a"), trust.for_tract("a", "c"), trust.for_tract("ab", ""),
    ]  # fmt: skip
    signatures = [place.sign("kind", "text") for place in places]
    fits = [[place.verify("kind", "text", signature) for signature in signatures] for place in places]
    assert fits == [[row == column for column in range(len(places))] for row in range(len(places))]


def test_the_secret_signs_nothing_without_a_place():
    assert not {"sign", "verify"} & set(dir(Trust))


def test_a_value_without_a_json_form_does_not_verify(trust):
    here(trust).sign("kind", "text")
    assert not here(trust).verify("kind", ["\ud800", object()], "0" * 64)


def test_verifying_makes_no_secret(trust):
    assert not here(trust).verify("kind", "text", "0" * 64)
    assert not trust.secret_file.exists()


def test_secrets_differ(tmp_path):
    one, two = Trust(tmp_path / "one"), Trust(tmp_path / "two")
    assert here(one).sign("k", "t") != here(two).sign("k", "t")
    assert not here(two).verify("k", "t", here(one).sign("k", "t"))


@pytest.mark.parametrize("content", [b"", b"short", b"x" * 31])
def test_a_damaged_secret_is_refused(trust, content):
    here(trust).sign("kind", "text")
    trust.secret_file.write_bytes(content)
    for use in (lambda: here(trust).sign("k", "t"), lambda: here(trust).verify("k", "t", "0" * 64)):
        with pytest.raises(TrustError, match="damaged; delete it"):
            use()
    assert trust.secret_file.read_bytes() == content


def test_an_unreadable_secret_raises_an_error(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(TrustError, match="cannot be read"):
        here(Trust(tmp_path / "folder")).sign("k", "t")


def test_a_secret_that_cannot_be_created_raises_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    trust = Trust(tmp_path / "file" / "secret")
    with pytest.raises(TrustError, match="JUPYTER_DATA_DIR|cannot be read"):
        here(trust).sign("k", "t")


def test_many_make_it_at_once_and_agree(tmp_path):
    barrier = threading.Barrier(12)

    def sign(_):
        barrier.wait()
        return here(Trust(tmp_path / "made" / "secret")).sign("kind", "text")

    with ThreadPoolExecutor(12) as pool:
        assert len(set(pool.map(sign, range(12)))) == 1
    assert [file.name for file in (tmp_path / "made").iterdir()] == ["secret"]


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    return Trust(tmp_path_factory.mktemp("shared") / "secret")


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(text=TEXTS, other=TEXTS)
def test_a_signature_fits_one_text_only(shared, text, other):
    signature = here(shared).sign("kind", text)
    assert here(shared).verify("kind", text, signature)
    assert here(shared).verify("kind", other, signature) is (other == text)


# --- from the environment


def test_the_environment_takes_the_place_of_the_file(trust, tmp_path, monkeypatch):
    signature = here(trust).sign("kind", "text")
    monkeypatch.setenv("TRACT_JUPYTER_SECRET", trust.secret_file.read_bytes().hex() + "\n")
    trust.secret_file.unlink()
    assert here(trust).verify("kind", "text", signature)
    assert here(trust).sign("kind", "text") == signature
    assert not trust.secret_file.exists()
    assert trust.source == "the environment variable TRACT_JUPYTER_SECRET"
    monkeypatch.setenv("TRACT_JUPYTER_SECRET", "ab" * 32)
    assert not here(trust).verify("kind", "text", signature)


def test_a_file_that_was_named_counts_whatever_the_environment_says(tmp_path, monkeypatch):
    monkeypatch.setenv("TRACT_JUPYTER_SECRET", "ab" * 32)
    named = Trust(tmp_path / "mine")
    assert here(named).verify("k", "t", here(named).sign("k", "t"))
    assert not here(Trust()).verify("k", "t", here(named).sign("k", "t"))
    assert named.source == f"the file {tmp_path / 'mine'}"


@pytest.mark.parametrize("given", ["", "ab" * 31, "ab" * 32 + "c", "xy" * 32, "ab " * 32, "é" * 64])
def test_an_invalid_secret_in_the_environment_is_refused_without_showing_it(trust, monkeypatch, given):
    signature = here(trust).sign("kind", "text")
    monkeypatch.setenv("TRACT_JUPYTER_SECRET", given)
    for use in (
        lambda: here(trust).sign("kind", "text"),
        lambda: here(trust).verify("kind", "text", signature),
    ):
        with pytest.raises(TrustError, match="TRACT_JUPYTER_SECRET is set, but is not a secret") as caught:
            use()
        assert not given or given not in str(caught.value)
