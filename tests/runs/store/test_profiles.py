"""Profiles in the store: signed by their user, and used only with a valid signature."""

from __future__ import annotations

from contextlib import closing

import pytest
from sqlalchemy import text

from tract_jupyter.exceptions import (
    ProfileError,
    RunError,
    StoreCorruptError,
    TrustError,
    UnknownProfileError,
)
from tract_jupyter.review import Trust
from tract_jupyter.runs import Profiles
from tract_jupyter.runs.profile import OperationBlock, OperationProfile, run_operation
from tract_jupyter.storage import Database, EventRows, RunProfileRows

TRACT = "1" * 32
SCENE = OperationProfile.of("scene", [run_operation("note", order=10, text="é")])
OTHER = OperationProfile.of("other")
DATA = SCENE.to_dict()


@pytest.fixture
def database(store_url):
    with closing(Database(url=store_url)) as database:
        yield database


@pytest.fixture
def make(database, tmp_path):
    """The profiles for a user."""

    def make(user="me", tract=TRACT):
        signer = Trust(tmp_path / user).for_tract("store", tract)
        return Profiles(database, RunProfileRows(tract), EventRows(tract), signer)

    return make


@pytest.fixture
def profiles(make):
    return make()


def change(database, statement, **values):
    with database.write() as connection:
        connection.execute(text(statement), values)


def test_a_profile_is_kept(make, profiles):
    """E19: a profile is data, and is read back unchanged."""
    profiles.save(SCENE)
    profiles.save(OTHER)
    assert make().get("scene") == SCENE
    assert [(one.name, one.is_active, one.quarantined) for one in profiles.list()] == [
        ("other", False, ""), ("scene", False, ""),
    ]  # fmt: skip
    assert make(tract="2" * 32).list() == []


def test_one_is_active(profiles):
    """E9: without an active profile, a run has no operations."""
    assert profiles.active is None
    profiles.save(SCENE, activate=True)
    profiles.save(OTHER)
    assert profiles.active == SCENE
    changed = OperationProfile.of("scene")
    profiles.save(changed)  # it remains active
    assert profiles.active == changed
    profiles.activate("other")
    assert [one.name for one in profiles.list() if one.is_active] == ["other"]
    profiles.deactivate()
    assert profiles.active is None


def test_a_profile_with_conflicting_blocks_cannot_be_activated(profiles):
    """E16: the activation fails, not the start of a run."""
    blocks = [OperationBlock.of(name, [run_operation("a", order=1, text="x", tag="same")]) for name in "xy"]
    clash = OperationProfile.of("clash", blocks=blocks)
    profiles.save(SCENE, activate=True)
    with pytest.raises(ProfileError, match="art.same is written by x:a, y:a"):
        profiles.save(clash, activate=True)
    assert [one.name for one in profiles.list()] == ["scene"]
    profiles.save(clash)
    with pytest.raises(ProfileError, match="art.same is written by x:a, y:a"):
        profiles.activate("clash")
    assert profiles.active == SCENE


def test_removing_one(profiles):
    """E9: also the active profile."""
    profiles.save(SCENE, activate=True)
    profiles.remove("scene")
    assert profiles.active is None
    for call in (profiles.remove, profiles.get, profiles.activate):
        with pytest.raises(UnknownProfileError, match="There is no profile 'scene'. Profiles: none"):
            call("scene")
    profiles.save(OperationProfile.of("Scene"))
    with pytest.raises(UnknownProfileError, match="Did you mean 'Scene'"):
        profiles.get("scene")


def test_another_users_profile_is_shown_and_not_used(make, profiles):
    """R27: operations of another user run only after the user has adopted them."""
    theirs = make("them")
    theirs.save(SCENE, activate=True)
    (listed,) = profiles.list()
    assert (listed.data, listed.is_active) == (DATA, True)
    assert "you have not saved it here" in listed.quarantined
    for call in (lambda: profiles.active, lambda: profiles.get("scene"), lambda: profiles.activate("scene")):
        with pytest.raises(RunError, match="is not used: you have not saved it here"):
            call()
    profiles.adopt(listed)
    assert profiles.active == SCENE
    assert profiles.list()[0].quarantined == ""
    with pytest.raises(RunError, match="is not used"):
        theirs.get("scene")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE run_profiles SET profile_json = replace(profile_json, '10', '11')",
        "UPDATE run_profiles SET name = 'other'",
        "UPDATE run_profiles SET signature = ''",
        "UPDATE run_profiles SET profile_json = '{'",
    ],
)
def test_a_changed_profile_is_not_used(database, profiles, statement):
    """R27: without the user's secret, operations cannot be added."""
    profiles.save(SCENE, activate=True)
    change(database, statement)
    (listed,) = profiles.list()
    assert listed.quarantined
    for call in (lambda: profiles.active, lambda: profiles.get(listed.name)):
        with pytest.raises(RunError, match="it was changed"):
            call()


def test_adopt_signs_only_the_version_that_was_read(database, make, profiles):
    """R27: a later change is not signed."""
    make("them").save(SCENE)
    (listed,) = profiles.list()
    make("them").save(OperationProfile.of("scene"))
    with pytest.raises(RunError, match="has changed since you read it"):
        profiles.adopt(listed)
    assert profiles.list()[0].quarantined
    change(database, "UPDATE run_profiles SET profile_json = '['")
    with pytest.raises(StoreCorruptError, match="'scene' is damaged"):
        profiles.adopt(profiles.list()[0])


def test_refusals(make, profiles, tmp_path):
    """E19: an operation that cannot be stored or signed changes nothing."""
    for wrong in ({"name": ""}, {"profile_id": "x", "name": "x", "operations": [{"order": float("nan")}]}, 5):
        with pytest.raises(ProfileError):
            profiles.save(wrong)
    (tmp_path / "broken").write_bytes(b"x")
    with pytest.raises(TrustError):
        make("broken").save(OTHER)
    assert profiles.list() == []


def test_changes_of_profiles_are_recorded_as_events(database, make, profiles):
    """R57: by name, without contents."""
    make("them").save(SCENE)
    profiles.adopt(profiles.list()[0])
    profiles.activate("scene")
    profiles.remove("scene")
    with database.read() as connection:
        noted = EventRows(TRACT).newest(connection, "run_profile.*", 9)
    assert [one.event_type.partition(".")[2] for one in noted] == ["removed", "activated", "adopted", "saved"]
    assert {tuple(one.data.items()) for one in noted} == {(("name", "scene"),)}
