"""Models by name: a profile's names are checked before the first request, and no key is stored anywhere."""

from __future__ import annotations

import copy
import logging
import pickle
import sys
from types import SimpleNamespace

import httpx
import pytest

from tests.llm.dialects import Messages, Said
from tests.llm.providers import Answer, provider
from tests.review.scripted import ScriptedClient
from tract_jupyter import Tract
from tract_jupyter.exceptions import (
    LLMConfigError,
    LLMRequestError,
    LLMResponseError,
    ProfileError,
    RunFailedError,
    UndecidedError,
)
from tract_jupyter.runs.profile import OperationBlock, OperationProfile, run_operation

KEY = "Zq7-not-of-any-known-shape-0042"


def aux(name="aux", kind="llm", **more):
    return run_operation(name, kind, order=1, text="Summarize.", tag=f"{name}_note", **more)


@pytest.fixture
def asked(tract):
    """A tract with a question and its own model. That model must not get requests for other models."""
    tract.configure_llm(ScriptedClient(*["On the mat."] * 9))
    tract.user("Where is it?")
    return tract


# --- names in operations


@pytest.mark.parametrize("named", [
    {"provider_ref": "nobody"}, {"credential_ref": "nothing"}, {"provider_ref": "own", "credential_ref": "nothing"},
    {"kind": "guard", "outputs": ["x"], "provider_ref": "nobody"},
])  # fmt: skip
def test_an_unknown_model_or_credential_is_refused_before_any_request(asked, named):
    """Neither the operation's prompt nor the main prompt is sent, and no run is stored."""
    own = ScriptedClient("mine")
    asked.models.add("own", own)
    profile = OperationProfile.of("p", [aux(**named)])
    with pytest.raises(
        ProfileError, match=r"the (model|credential) '.*is unknown, so no request was sent.*t\.models\.add"
    ):
        asked.generate(profile=profile)
    assert (asked.llm.asked, own.asked, asked.runs()) == ([], [], [])
    with pytest.raises(ProfileError) as caught:
        asked.profiles.save(profile)
    assert [rule for rule, _, _ in caught.value.problems] == ["unknown_model"]
    assert asked.profiles.list() == []


def test_saving_a_profile_checks_operations_in_blocks_and_disabled_ones(asked):
    """The user may enable them later. A run checks only its own operations."""
    profile = OperationProfile.of(
        "p", blocks=[OperationBlock.of("b", [aux(provider_ref="nobody", enabled=False)])]
    )
    with pytest.raises(ProfileError, match="nobody"):
        asked.profiles.save(profile)
    assert asked.generate(profile=profile).text == "On the mat."
    mismatch = OperationProfile.of("q", [aux(provider_ref="nobody", triggers="regenerate")])
    assert asked.generate(profile=mismatch).run.operations[0].skipped_reason == "trigger_mismatch"


def test_the_named_model_gets_the_request(asked):
    """The model is a client, or a function that returns a text or a whole response."""
    asked.models.add("client", ScriptedClient("one"))
    asked.models.add("text", lambda messages, **_: f"two: {messages[-1]['content']}")
    asked.models.add("whole", lambda _messages, **_: {"choices": [{"message": {"content": "three"}}]})
    profile = OperationProfile.of("p", [aux(name, provider_ref=name) for name in asked.models])
    asked.profiles.save(profile, activate=True)
    run = asked.generate().run
    said = {one.operation_id: one.outputs_summary["text"] for one in run.operations}
    assert said == {"client": "one", "text": "two: Summarize.", "whole": "three"}


def test_resuming_a_run_with_a_removed_model_is_refused(asked, spec):
    """A resume also checks the operations that have not ended."""
    asked.models.add("m", ScriptedClient("x"))
    asked.register_operation(spec(unhandled="ask"))
    check = run_operation(
        "check", "dynamic", order=1, operation="citation_check", tag="check", fields={"urls": ["u"]}
    )
    with pytest.raises(UndecidedError):
        asked.generate(profile=OperationProfile.of("p", [check, aux(provider_ref="m", after="check")]))
    asked.models.remove("m")
    with pytest.raises(ProfileError, match="'m'"):
        asked.runs.resume(asked.runs()[0].run_id)
    assert asked.llm.asked == []


# --- keys


def test_the_error_for_a_missing_key_shows_the_line_to_type(asked, monkeypatch):
    """Saving the profile is allowed, because the key may be set later or in another process."""
    monkeypatch.delenv("TEAM_KEY", raising=False)
    asked.models.add("team", base_url="http://127.0.0.1:9/v1", model="m", key_env="TEAM_KEY")
    asked.profiles.save(OperationProfile.of("p", [aux(provider_ref="team")]), activate=True)
    with pytest.raises(
        ProfileError, match=r"TEAM_KEY, which is not set; type .*os\.environ\['TEAM_KEY'\] = getpass"
    ):
        asked.generate()
    assert (asked.llm.asked, asked.runs()) == ([], [])
    assert "key from TEAM_KEY (not set)" in repr(asked.models)


def test_each_key_goes_to_its_own_address_alone(asked, monkeypatch):
    """OpenAI's key does not go to a local server, and a credential goes only to its own model."""
    monkeypatch.setenv("OPENAI_API_KEY", "openai-secret")
    monkeypatch.setenv("MINE", "mine-secret")
    with provider(Answer()) as here:
        asked.models.add("local", base_url=here.url, model="m")
        asked.models.add("other", base_url=here.url, model="m")
        asked.models.add_credential("mine", of="local", key_env="MINE")
        asked.generate(profile=OperationProfile.of("p", [aux(provider_ref="local")]))
        asked.generate(profile=OperationProfile.of("p", [aux(provider_ref="local", credential_ref="mine")]))
        asked.generate(profile=OperationProfile.of("p", [aux(credential_ref="mine")]))
        with pytest.raises(ProfileError, match="'mine' is a key of 'local', and is not sent to 'other'"):
            asked.generate(
                profile=OperationProfile.of("p", [aux(provider_ref="other", credential_ref="mine")])
            )
    sent = [headers.get("Authorization") for _, headers, _ in here.requests]
    assert sent == [None, "Bearer mine-secret", "Bearer mine-secret"]


def test_a_changed_key_counts_at_once(asked, monkeypatch):
    """The environment variable is read for each request."""
    with provider(Answer()) as here:
        asked.models.add("m", base_url=here.url, model="m", key_env="MINE")
        for key in ("first", "second"):
            monkeypatch.setenv("MINE", key)
            asked.generate(profile=OperationProfile.of("p", [aux(provider_ref="m")]))
    assert [headers["Authorization"] for _, headers, _ in here.requests] == ["Bearer first", "Bearer second"]


def test_the_keyring_is_used_if_it_is_installed(asked, monkeypatch):
    """Without the package or the entry, the error shows the line to type."""
    asked.models.add("m", base_url="http://127.0.0.1:9/v1", model="m", key_ring="openai/me")
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(LLMConfigError, match="%pip install keyring"):
        asked.models.client("m")
    kept = {}
    monkeypatch.setitem(sys.modules, "keyring", SimpleNamespace(get_password=lambda *entry: kept.get(entry)))
    with pytest.raises(
        LLMConfigError, match=r"keyring\.set_password\('openai', 'me', getpass\.getpass\(\)\)"
    ):
        asked.models.client("m")
    kept["openai", "me"] = KEY
    assert "with a key" in repr(asked.models.client("m"))
    assert "keyring openai/me (set)" in repr(asked.models)


@pytest.mark.parametrize(
    ("source", "credential", "advice"),
    [
        (
            {"key_env": "MINE"},
            None,
            "Check the key of model 'm', which comes from the environment variable MINE",
        ),
        (
            {"key_env": "MINE"},
            "c",
            "Check the key of credential 'c', which comes from the environment variable OTHER",
        ),
        (
            {},
            None,
            "Model 'm' sends no key: enter one with %tract model m --base-url URL --key, or set one",
        ),
    ],
)
def test_the_error_for_a_rejected_key_names_the_source_of_the_key(
    tract, monkeypatch, source, credential, advice
):
    monkeypatch.setenv("MINE", KEY)
    monkeypatch.setenv("OTHER", KEY)
    with provider(Answer({"error": "no"}, status=401)) as here:
        tract.models.add("m", base_url=here.url, model="m", **source)
        tract.models.add_credential("c", of="m", key_env="OTHER")
        with pytest.raises(LLMRequestError) as caught:
            tract.models.client("m", credential).chat([{"role": "user", "content": "x"}])
    assert advice in str(caught.value)
    assert "OPENAI_API_KEY" not in str(caught.value)


def test_a_registered_model_without_a_name_says_how_to_name_it(tract):
    tract.models.add("m", base_url="http://localhost:9/v1")
    with pytest.raises(
        LLMConfigError, match="no model is named; name one in the request, or .*tract.models.add"
    ):
        tract.models.client("m").chat([{"role": "user", "content": "x"}])


def test_no_key_is_written_down_anywhere(tmp_path, monkeypatch, caplog):
    """Not in the store, a repr, a log, an event or an error, even if the provider repeats it."""
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("MINE", KEY)
    told = []
    echo = Answer({"error": {"message": f"bad key {KEY}"}}, status=401)
    with provider(Answer(), echo) as here, Tract.open(str(tmp_path / "t.db")) as tract:
        tract.configure_llm(ScriptedClient("one", "two"))
        tract.user("Hello")
        connection = tract.models.add("m", base_url=here.url, model="m", key_env="MINE")
        credential = tract.models.add_credential("c", of="m", key_env="MINE")
        profile = OperationProfile.of("p", [aux(provider_ref="m", credential_ref="c", required=True)])
        tract.profiles.save(profile, activate=True)
        told.append(tract.generate().run)
        with pytest.raises(RunFailedError) as caught:
            tract.generate()
        told += [caught.value, caught.value.run, caught.value.run.to_dict(), tract.models, dict(tract.models)]
        told += [
            connection,
            credential,
            tract.models.client("m", "c"),
            tract.models.client("m"),
            vars(tract).keys(),
        ]
        told += [one.to_dict() for run in tract.runs() for one in tract.runs.events(run.run_id)]
        told += [tract.profiles.list(), tract.log(), tract.verify()]
        assert here.requests[0][1]["Authorization"] == f"Bearer {KEY}"
        for use in (pickle.dumps, copy.deepcopy):
            with pytest.raises(LLMConfigError, match="cannot be pickled"):
                use(tract.models)
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    assert not any(KEY.encode() in content for content in files)
    assert KEY not in caplog.text + "".join(f"{one!r}{one!s}" for one in told)


@pytest.mark.parametrize("given", [
    {"key_env": KEY}, {"key_env": "sk-abcdefghijklmnopqrstuvwx"}, {"key_env": "AKIAIOSFODNN7EXAMPLE"}, {"key_ring": KEY},
    {"api_key": KEY}, {"key_env": "A", "key_ring": "a/b"}, {"base_url": f"https://me:{KEY}@host/v1"},
    {"base_url": "nonsense"}, {"base_url": 3}, {"model": " "}, {"model": 3}, {"timeout": -1}, {"colour": KEY},
    {"client": ScriptedClient(), "key_env": "MINE"}, {"client": ScriptedClient(), "base_url": "http://x/v1"},
    {"client": "gpt-6-luna"}, {"client": ScriptedClient},
])  # fmt: skip
def test_an_invalid_model_definition_is_refused_without_showing_its_values(tract, given):
    """A key in the wrong argument is not stored and not shown in the error."""
    with pytest.raises(LLMConfigError) as caught:
        tract.models.add("m", **given)
    assert KEY not in str(caught.value)
    assert "abcdefgh" not in str(caught.value)
    assert len(tract.models) == 0


# --- the registry


def test_models_are_listed_replaced_and_removed(tract):
    """The repr shows the address of each model and the source of its key."""
    assert repr(tract.models).startswith("No models yet: tract.models.use('openai/")
    tract.models.add("b", base_url="http://127.0.0.1:9/v1", model="qwen3")
    tract.models.add("a", ScriptedClient(), model="mine")
    tract.models.add_credential("c", of="b", key_env="SOME_KEY")
    assert list(tract.models) == ["a", "b"]
    assert repr(tract.models) == (
        "Models:\n  a: mine at your ScriptedClient, no key\n  b: qwen3 at http://127.0.0.1:9/v1, no key\n"
        "  c: another key of b, key from SOME_KEY (not set)"
    )
    with pytest.raises(LLMConfigError, match="already, at http"):
        tract.models.add("b", ScriptedClient())
    with pytest.raises(LLMConfigError, match="already"):
        tract.models.add_credential("c", of="b", key_env="OTHER")
    tract.models.add("b", base_url="http://127.0.0.1:8/v1", replace=True)
    assert tract.models["b"].base_url == "http://127.0.0.1:8/v1"
    tract.models.remove("b")
    assert (list(tract.models), tract.models.credentials) == (["a"], ())
    with pytest.raises(LLMConfigError, match=r"registered as 'b', so nothing was removed.*'a'"):
        tract.models.remove("b")
    with pytest.raises(LLMConfigError, match=r"model 'b' is unknown.*known models: 'a'"):
        tract.models.client("b")


@pytest.mark.parametrize("place", [{"base_url": "http://127.0.0.1:8/v1"}, {"client": ScriptedClient()}])
def test_a_credential_does_not_go_along_to_another_address(tract, place):
    """The credential belongs to the old address of the model."""
    tract.models.add("m", base_url="http://127.0.0.1:9/v1")
    tract.models.add_credential("c", of="m", key_env="PATH")
    tract.models.add("m", base_url="http://127.0.0.1:9/v1", model="qwen3", replace=True)
    assert tract.models.client("m", "c")
    tract.models.add("m", **place, replace=True)
    with pytest.raises(LLMConfigError, match=r"credential 'c' is unknown.*add_credential\('c', of='m'"):
        tract.models.client("m", "c")


@pytest.mark.parametrize("given", [
    {"name": "", "of": "m"}, {"name": "c", "of": "nobody"}, {"name": "c", "of": "own"}, {"name": "c", "of": "m", "key_env": None},
])  # fmt: skip
def test_an_invalid_credential_is_refused(tract, given):
    """A credential needs a model with an address, and the source of its key."""
    tract.models.add("m", base_url="http://127.0.0.1:9/v1")
    tract.models.add("own", ScriptedClient())
    with pytest.raises(LLMConfigError):
        tract.models.add_credential(**{"key_env": "MINE", **given})
    assert tract.models.credentials == ()


def test_openai_is_the_usual_address_with_its_usual_key(tract):
    assert str(tract.models.add("gpt", model="gpt-6-luna")).startswith(
        "gpt: gpt-6-luna at https://api.openai.com/v1, key from OPENAI"
    )


@pytest.mark.parametrize(
    ("written", "dialect", "place"),
    [
        ("anthropic/claude-sonnet-5-5", "anthropic", "https://api.anthropic.com"),
        ("openai/gpt-6-luna", "responses", "https://api.openai.com/v1"),
        ("ollama/qwen3", "chat", "http://127.0.0.1:11434/v1"),
    ],
)
def test_add_and_use_accept_the_same_model_names(tract, monkeypatch, written, dialect, place):
    for name in ("ANTHROPIC_BASE_URL", "OPENAI_BASE_URL", "OLLAMA_HOST"):
        monkeypatch.delenv(name, raising=False)
    added, used = tract.models.add("one", written, timeout=5), tract.models.use(written)
    assert (added.dialect, added.base_url, added.model, added.key) == (
        used.dialect, used.base_url, used.model, used.key,
    )  # fmt: skip
    assert (added.dialect, added.base_url) == (dialect, place)
    assert tract.models.add("one", model=written, replace=True).dialect == dialect


def test_an_added_model_is_asked_in_its_dialect(tract):
    with provider(Answer(Messages.whole(Said("Hello.")))) as there:
        tract.models.add("clever", "anthropic/claude-sonnet-5-5", base_url=there.root, key_env="NO_KEY_HERE")
        tract.models.add("given", "m", base_url=there.root, dialect="anthropic")
        tract.models.use("given")
        assert tract.chat("Hi").text == "Hello."
    assert [path for path, _, _ in there.requests] == ["/v1/messages"]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"client": "anthropic/x", "model": "y"}, "pass only one"),
        ({"client": "claude"}, "PROVIDER/NAME"),
        ({"client": "anthropic/x", "temprature": 1}, "dialect 'anthropic' does not accept all of these options: temprature"),
        ({"client": "anthropic/x", "dialect": "soap"}, "dialect must be"),
    ],
)  # fmt: skip
def test_the_error_for_an_invalid_model_gives_the_reason(tract, given, told):
    with pytest.raises(LLMConfigError, match=told):
        tract.models.add("one", **given)


async def asynchronous(messages, **options):
    """An async function, which cannot be used as a model."""


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (lambda: "x", "\\(messages, \\*\\*options\\), but this one does not"),
        (asynchronous, "an async function cannot be a client"),
    ],
)
def test_a_function_that_cannot_be_asked_is_refused_when_it_is_chosen(tract, function, told):
    with pytest.raises(LLMConfigError, match=told):
        tract.models.use(function)


@pytest.mark.parametrize("given", [None, 3, [1], object()])
def test_the_error_for_an_invalid_return_value_describes_it(tract, given):
    tract.models.use(lambda messages, **options: given)
    with pytest.raises(LLMResponseError, match="your function returned .* Return the text of the reply"):
        tract.chat("Hi")
    assert tract.compile().messages == ()


@pytest.mark.parametrize("given", [{}, {"choices": []}, {"error": "spent"}])
def test_the_error_for_a_response_without_a_message_shows_the_required_shape(tract, given):
    tract.models.use(lambda messages, **options: given)
    with pytest.raises(LLMResponseError, match="A client must return {'choices': \\[{'message'"):
        tract.chat("Hi")


def test_the_error_for_an_unreachable_ollama_says_how_to_start_it(tract):
    def refuses(request):
        raise httpx.ConnectError("refused")

    transport = httpx.MockTransport(refuses)
    tract.models.add(
        "quick", "ollama/qwen3", base_url="http://127.0.0.1:11434/v1", max_retries=0, transport=transport
    )
    tract.models.use("quick")
    with pytest.raises(LLMRequestError, match="Start it with ollama serve"):
        tract.chat("Hi")
