"""The administrator's limits of requests: what code in a notebook cannot widen through the public API."""

from __future__ import annotations

import json
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from jupyter_core.paths import jupyter_data_dir

from tests.llm.providers import REPLY, Answer, chunk, provider, sse
from tests.review.scripted import ScriptedClient, reply
from tract_jupyter import AnthropicClient, OpenAIClient, ResponsesClient, Tract
from tract_jupyter.exceptions import AdminLimitError, AttachmentError, LLMBudgetError, LLMRequestError
from tract_jupyter.llm import why_not_sent
from tract_jupyter.models import START_ENVIRONMENT, admin_limits

SECRET = "sk-proj-" + "a1B2c3D4" * 6
HI = [{"role": "user", "content": "Hi"}]
DOUBTFUL = "password = hunter2"


@pytest.fixture
def server():
    with provider(Answer()) as here:
        yield here


@pytest.fixture
def limited(tract, server, admin_file):
    """A tract whose requests may only go to the server, and only for its model."""
    admin_file.write_text(f'models = ["m-*"]\nbase_urls = ["{server.url}/"]')
    tract.models.use("m-1", base_url=server.url)
    return tract


def test_an_allowed_model_answers_streamed_and_whole(limited, server):
    assert limited.chat("Hi").text == "Hello"
    assert limited.generate().text == "Hello"
    limited.models.configure("m-2")
    assert limited.chat("Hi").text == "Hello"
    assert [body["model"] for body in server.bodies] == ["m-1", "m-1", "m-2"]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"model": "big"}, "'big'"),
        ({"models": ["m-1", "big"]}, "'big'"),
        ({"extra_body": {"model": "big"}}, "'big'"),
        ({"extra_body": {"models": ["m-1", "big"]}}, "'big'"),
        ({"models": ("m-1", "big")}, "'big'"),
        ({"fallbacks": ["big"]}, "'big'"),
        ({"fallbacks": [{"m-1": ["big"]}]}, "'big'"),
        ({"extra_body": {"extra_body": {"model": "big"}}}, "'big'"),
        ({"extra_body": {"router": [{"deployment_id": "big"}]}}, "'big'"),
        ({"extra_body": {"parameters": {"model": "big"}}}, "'big'"),
        ({"tools": [{"type": "image_generation", "model": "big"}]}, "'big'"),
    ],
)
def test_no_option_of_a_request_names_another_model(limited, server, options, problem):
    with pytest.raises(AdminLimitError, match=problem) as raised:
        limited.chat("Hi", **options)
    assert "They allow m-*" in str(raised.value)
    assert "Ask your administrator" in str(raised.value)
    assert server.requests == []


def test_a_field_of_a_tool_or_schema_names_no_model(limited, server):
    fields = {"type": "object", "properties": {"model": {"type": "string", "enum": ["big"]}}}
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"model": "big"}'}}
    client = limited.models.client_for("chat")
    client.chat(
        [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "1"},
        ],
        tools=[{"type": "function", "function": {"name": "f", "parameters": fields}}],
        response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": fields}},
    )
    assert len(server.requests) == 1


def test_other_allowed_models_are_sent(admin_file):
    admin_file.write_text('models = ["m-*"]')
    fallbacks = {"fallbacks": [{"model": "m-2"}], "provider": {"allow_fallbacks": True}}
    admin_limits().check_request("http://x/v1", "/", {"model": "m-1", **fallbacks, "models": ["m-3"]})


def widenings(t, url):
    """Ways of the public API to send a request elsewhere."""
    yield lambda: t.models.use("big", base_url=url)
    yield lambda: t.models.use("m-1", base_url=f"{url}/other")
    yield lambda: t.models.use("ollama/m-1")
    yield lambda: t.models.use(ScriptedClient(reply("Yes.")))
    yield lambda: t.models.use(lambda _messages, **_options: "Yes.")
    yield lambda: t.models.use(t.models.add("alias", base_url=url, model="big"))
    yield lambda: t.models.use(
        t.models.add("proxied", base_url=url, model="m-1", transport=httpx.HTTPTransport())
    )
    yield lambda: t.models.use(type("Mine", (OpenAIClient,), {})("m-1", base_url=url, api_key="k"))
    yield lambda: t.models.use(OpenAIClient("big", base_url=url, api_key="k"))
    yield lambda: t.models.configure("big")


@pytest.mark.parametrize("number", range(10))
def test_no_other_choice_of_a_model_is_sent(limited, server, number):
    list(widenings(limited, server.url))[number]()
    with pytest.raises(AdminLimitError, match="the administrator's limits do not allow"):
        limited.chat("Hi")
    assert server.requests == []


def test_a_client_alone_is_limited_too(limited, server):
    client = OpenAIClient("big", base_url=server.url, api_key="k")
    with pytest.raises(AdminLimitError):
        client.chat([{"role": "user", "content": "Hi"}])
    with pytest.raises(AdminLimitError):
        list(client.stream([{"role": "user", "content": "Hi"}]))
    assert server.requests == []


@pytest.fixture
def other_server():
    with provider(Answer()) as here:
        yield here


def test_the_address_counts_when_the_request_is_sent(server, other_server, admin_file):
    admin_file.write_text(f'base_urls = ["{server.url}"]')
    client = OpenAIClient("m-1", base_url=server.url, api_key="k")
    pieces = client.stream(HI)
    client.base_url = other_server.url
    with pytest.raises(AdminLimitError, match="requests to"):
        list(pieces)
    client.base_url, client.path = server.url.removesuffix("/v1"), "/v1/../other"
    with pytest.raises(AdminLimitError, match="requests to"):
        client.chat(HI)
    assert server.requests == other_server.requests == []


def test_a_path_does_not_change_the_host(server, admin_file):
    admin_file.write_text('base_urls = ["http://user"]')
    client = OpenAIClient("m-1", base_url="http://user", api_key="k")
    client.path = server.url.replace("http://", "@") + "/chat/completions"
    with pytest.raises(AdminLimitError, match="requests to"):
        client.chat(HI)
    assert server.requests == []


@pytest.mark.parametrize("limits", ["models = ['z']", "budget.day.tokens = 10", "modles = []"])
def test_limits_of_after_the_call_of_stream_count(server, admin_file, limits):
    pieces = OpenAIClient("m-1", base_url=server.url, api_key="k").stream(HI)
    admin_file.write_text(limits)
    with pytest.raises(AdminLimitError):
        list(pieces)
    assert server.requests == []


@pytest.mark.parametrize("client", [OpenAIClient, AnthropicClient, ResponsesClient])
def test_the_address_with_the_version_allows_each_dialect(admin_file, client):
    admin_file.write_text('base_urls = ["http://127.0.0.1:9/v1"]')
    for url in ("http://127.0.0.1:9/v1", "http://127.0.0.1:9/v1/"):
        with pytest.raises(LLMRequestError, match="reach|connect"):
            client("m-1", base_url=url, api_key="k", max_retries=0).chat(HI)
    with pytest.raises(AdminLimitError):
        client("m-1", base_url="http://127.0.0.1:9/v2", api_key="k").chat(HI)


def test_the_address_of_anthropic_may_leave_out_the_version(admin_file):
    admin_file.write_text('base_urls = ["http://127.0.0.1:9"]')
    with pytest.raises(LLMRequestError, match="reach|connect"):
        AnthropicClient("m-1", base_url="http://127.0.0.1:9", api_key="k", max_retries=0).chat(HI)
    with pytest.raises(AdminLimitError):
        OpenAIClient("m-1", base_url="http://127.0.0.1:9/v1", api_key="k").chat(HI)


def test_a_broken_file_refuses_all_requests(tract, server, admin_file):
    admin_file.write_text("modles = []")
    tract.models.use("m-1", base_url=server.url)
    with pytest.raises(AdminLimitError, match="line 1: unknown name 'modles'"):
        tract.chat("Hi")
    tract.models.use(ScriptedClient(reply("Yes.")))
    with pytest.raises(AdminLimitError, match="unknown name"):
        tract.chat("Hi")
    assert server.requests == []


# --- budgets


def test_a_budget_counts_the_requests_of_all_kernels_and_sessions(tract, server, admin_file, data_dir):
    admin_file.write_text("budget.day.tokens = 4_400")
    with Tract.open() as other:
        for each in (tract, other):
            each.models.use("m-1", base_url=server.url)
            each.costs.set_budget(tokens=1_000_000)  # the user's budget is another limit
        assert tract.chat("Hi", max_tokens=4_000).text == "Hello"
        with pytest.raises(LLMBudgetError, match="allow 4,400 tokens today: you have used 4,"):
            other.chat("x " * 1_000, max_tokens=4_000)
        other.costs.remove_budget()
        with pytest.raises(LLMBudgetError, match="Ask|ask your administrator"):
            other.chat("x " * 1_000, max_tokens=4_000)
        assert (
            other.chat("Hi", max_tokens=4_000).text == "Hello"
        )  # the reply's 4 tokens count, not the maximum
    assert len(server.requests) == 2
    assert (data_dir / "tract_jupyter" / "usage.db").stat().st_mode & 0o77 == 0


def test_a_new_day_and_a_new_month_begin_at_zero(tract, server, admin_file, monkeypatch):
    from datetime import UTC, datetime

    class Clock(datetime):
        today = datetime(2026, 1, 30, 12, tzinfo=UTC)

        @classmethod
        def now(cls, tz=None):
            return cls.today

    monkeypatch.setattr("tract_jupyter.llm.user_budget.datetime", Clock)
    server.answers[:] = [Answer({**REPLY, "usage": {"prompt_tokens": 300, "completion_tokens": 1}})]
    admin_file.write_text("budget.day.tokens = 500\nbudget.month.tokens = 800")
    tract.models.use("m-1", base_url=server.url)

    def ask(month, day):
        Clock.today = datetime(2026, month, day, 12, tzinfo=UTC)
        with Tract.open() as own:
            own.models.use("m-1", base_url=server.url)
            own.chat("Hi", max_tokens=200)

    ask(1, 28)
    with pytest.raises(LLMBudgetError, match="today"):
        ask(1, 28)
    ask(1, 29)
    with pytest.raises(LLMBudgetError, match="this month"):
        ask(1, 30)
    ask(2, 1)


def test_dollars_count_at_list_prices_that_the_user_cannot_change(tract, server, admin_file):
    admin_file.write_text("budget.day.usd = 0.001")
    tract.models.use("openai/gpt-6-luna", base_url=server.url, api_key="k")
    tract.models.price("openai/gpt-6-luna", input=0, output=0)
    with pytest.raises(LLMBudgetError, match="0.0010 USD today: you have spent 0.00 USD"):
        tract.chat("Hi", max_tokens=10_000)
    assert tract.chat("Hi", max_tokens=10).text == "Hello"
    tract.models.use("unknown-1", base_url=server.url)
    tract.models.price("unknown-1", input=0, output=0)
    with pytest.raises(LLMBudgetError, match="the price of unknown-1 is unknown"):
        tract.chat("Hi", max_tokens=10)
    tract.models.use(ScriptedClient(reply("Yes.", usage={"cost": 0.0})))
    with pytest.raises(AdminLimitError, match="your own object"):
        tract.chat("Hi", max_tokens=10)


@pytest.mark.parametrize("count", [10**400, 10**19, 10**12], ids=["400", "19", "12"])
def test_a_server_that_reports_impossible_numbers_loses_no_reply(tract, server, admin_file, data_dir, count):
    """The file has 64-bit numbers. Their sum must fit."""
    usage = {"prompt_tokens": count, "completion_tokens": count}
    server.answers[:] = [Answer({**REPLY, "usage": usage})]
    admin_file.write_text(f"budget.day.tokens = {10**16}\nbudget.day.usd = {10**12}")
    tract.models.use("openai/gpt-6-luna", base_url=server.url, api_key="k")
    for _ in range(3):
        assert tract.chat("Hi", max_tokens=10).text == "Hello"
    with closing(sqlite3.connect(data_dir / "tract_jupyter" / "usage.db")) as connection:
        (tokens,) = connection.execute("SELECT sum(tokens) FROM usage").fetchone()
    assert tokens == (6 * count if count == 10**12 else tokens)
    assert 0 < tokens <= 6 * 10**12


@pytest.mark.parametrize("match", ["cannot be stored", "relative"])
def test_nothing_is_sent_if_the_usage_cannot_be_stored(
    tract, server, admin_file, data_dir, monkeypatch, match
):
    admin_file.write_text("budget.month.tokens = 100_000")
    if match == "relative":
        monkeypatch.setitem(START_ENVIRONMENT, "JUPYTER_DATA_DIR", "data")
    else:
        (data_dir / "tract_jupyter" / "usage.db").mkdir(parents=True)
    tract.models.use("m-1", base_url=server.url)
    with pytest.raises(AdminLimitError, match=match):
        tract.chat("Hi", max_tokens=10)
    assert server.requests == []


@pytest.mark.parametrize(
    "sends", [lambda client: client.chat, lambda client: lambda m: list(client.stream(m))]
)
def test_a_client_alone_is_not_counted_and_so_refused(tract, server, admin_file, sends):
    admin_file.write_text("budget.day.tokens = 100_000")
    client = OpenAIClient("m-1", base_url=server.url, api_key="k")
    with pytest.raises(AdminLimitError, match=r"not counted .* Use tract\.chat"):
        sends(client)(HI)
    tract.models.use(client)
    assert tract.chat("Hi", max_tokens=10).text == "Hello"
    assert tract.models.client_for("chat").chat(HI, max_tokens=10)
    with pytest.raises(AdminLimitError, match="not counted"):
        sends(client)(HI)
    assert len(server.requests) == 2


def test_a_counted_request_counts_no_other_one(tract, admin_file):
    admin_file.write_text("budget.day.tokens = 100_000")
    refused = []
    with provider(Answer(sse(chunk({"content": "Hello"}), chunk(finish="stop")))) as server:
        client = OpenAIClient("m-1", base_url=server.url, api_key="k")
        tract.models.use(client)

        def ask(_delta):
            try:
                client.chat(HI)
            except AdminLimitError as error:
                refused.append(error)

        tract.models.client_for("chat").chat(HI, max_tokens=10, on_delta=ask)
        assert refused
        assert len(server.requests) == 1


def test_a_changed_variable_begins_no_new_count(tract, server, admin_file, data_dir, tmp_path, monkeypatch):
    admin_file.write_text("budget.day.tokens = 100_000")
    tract.models.use("m-1", base_url=server.url)
    for name in ("JUPYTER_DATA_DIR", "HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    tract.chat("Hi", max_tokens=10)
    assert (data_dir / "tract_jupyter" / "usage.db").exists()
    assert not list(tmp_path.glob("**/usage.db"))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other folders")
@pytest.mark.parametrize("given", [{"HOME": ""}, {"HOME": "", "XDG_DATA_HOME": "/share"}])
def test_the_count_is_in_the_data_folder_of_jupyter(tract, server, admin_file, tmp_path, monkeypatch, given):
    admin_file.write_text("budget.day.tokens = 100_000")
    tract.models.use("m-1", base_url=server.url)
    monkeypatch.delenv("JUPYTER_DATA_DIR")
    monkeypatch.delitem(START_ENVIRONMENT, "JUPYTER_DATA_DIR")
    for name, place in given.items():
        monkeypatch.setenv(name, f"{tmp_path}{place}")
        monkeypatch.setitem(START_ENVIRONMENT, name, f"{tmp_path}{place}")
    tract.chat("Hi", max_tokens=10)
    assert (Path(jupyter_data_dir()) / "tract_jupyter" / "usage.db").exists()
    assert list(tmp_path.glob("**/usage.db"))


def test_a_failed_try_counts(tract, admin_file):
    admin_file.write_text("budget.day.tokens = 6_000")
    with provider(Answer({"error": {"message": "busy"}}, 503), Answer()) as server:
        tract.models.use(OpenAIClient("m-1", base_url=server.url, api_key="k", backoff=0))
        assert tract.chat("Hi", max_tokens=4_000).text == "Hello"
        assert len(server.requests) == 2


# --- redaction


def test_redaction_removes_secrets_from_all_that_is_sent(tract, server, admin_file):
    admin_file.write_text("redaction = true")
    tract.models.use("m-1", base_url=server.url)
    tract.system(f"Use {SECRET}.")
    assert tract.chat(f"My {DOUBTFUL}\nHow are you?").text == "Hello"
    (body,) = server.bodies
    sent = str(body["messages"])
    assert SECRET not in sent
    assert "hunter2" not in sent
    assert sent.count("[redacted]") == 2
    assert "How are you?" in sent
    assert SECRET in tract.compile().messages[0].content  # the history is not changed


def test_redaction_covers_tools_options_and_attached_texts(tract, server, admin_file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text(f"{DOUBTFUL}\nThe end.")
    tract.workspace.roots = [tmp_path]
    look = tract.workspace.read("notes.txt", send_anyway=True)
    tract.user("Look", attachments=look)
    admin_file.write_text("redaction = true")
    tract.models.use("m-1", base_url=server.url)

    @tract.tool
    def look_up(city: str, key: str = SECRET) -> str:
        """Look up a city."""
        return city + key

    seen = []

    def own(messages, **options):
        seen.append((messages, options))
        return "Hello"

    tract.chat("And?", tools="self", metadata={"key": SECRET})
    tract.models.use(own)
    tract.chat("And?", tools="self", metadata={"key": SECRET})
    for sent in (str(server.bodies), str(seen)):
        assert "look_up" in sent
        assert "The end." in sent
        assert SECRET not in sent
        assert "hunter2" not in sent


def test_redaction_holds_for_a_client_alone(server, admin_file):
    admin_file.write_text("redaction = true")
    client = OpenAIClient("m-1", base_url=server.url, api_key="k")
    client.chat([{"role": "user", "content": f"Use {SECRET}."}])
    assert [body["messages"][0]["content"] for body in server.bodies] == ["Use [redacted]."]


PLACES = [
    {"name": SECRET},
    {"reasoning_content": SECRET, "refusal": SECRET},
    {"content": ({"type": "text", "text": SECRET},)},
    {"content": [SECRET]},
    {"content": [{"type": "text", "text": "Hi", "title": SECRET}]},
    {"content": [{"type": "image_url", "image_url": {"url": f"https://example.org/?key={SECRET}"}}]},
    {"content": [{"type": "file", "file": {"filename": f"{SECRET}.pdf", "file_data": "QUJD"}}]},
    {"role": "assistant", "tool_calls": (
        {"id": "c1", "type": "function", "function": {"name": "f", "arguments": f'{{"a": "{SECRET}"}}'}},
    )},
]  # fmt: skip


@pytest.fixture
def sent():
    """The bodies of requests that are not valid for every provider."""
    return []


@pytest.fixture
def transport(sent):
    def answer(request):
        sent.append(json.loads(request.content))
        return httpx.Response(200, json=REPLY)

    return httpx.MockTransport(answer)


@pytest.mark.parametrize("fields", PLACES)
def test_redaction_covers_each_field_of_a_message(transport, sent, admin_file, fields):
    admin_file.write_text("redaction = true")
    client = OpenAIClient("m-1", base_url="http://x/v1", api_key="k", transport=transport)
    client.chat([{"role": "user", "content": "Hi", **fields}, *HI])
    (body,) = sent
    assert SECRET not in str(body)
    assert "[redacted]" in str(body)


@pytest.mark.parametrize(
    "part",
    [
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": SECRET}},
        {"type": "search_result", "source": "x", "title": "y", "content": [{"type": "text", "text": SECRET}]},
    ],
)
def test_redaction_covers_parts_of_another_dialect(admin_file, part):
    admin_file.write_text("redaction = true")
    with provider(Answer({"error": {"message": "no"}}, 400)) as server:
        client = AnthropicClient("m-1", base_url=server.url, api_key="k")
        with pytest.raises(LLMRequestError):
            client.chat([{"role": "user", "content": [{"type": "text", "text": "Hi"}, part]}])
        (body,) = server.bodies
    assert SECRET not in str(body)
    assert "[redacted]" in str(body)


def test_redaction_covers_tuples_and_keeps_the_model_and_media(transport, sent, admin_file):
    admin_file.write_text("redaction = true")
    image = "data:image/png;base64," + "sk+proj/" * 200
    client = OpenAIClient(SECRET, base_url="http://x/v1", api_key="k", transport=transport)
    client.chat(
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": image}}]}],
        tools=({"type": "function", "function": {"name": "f", "description": SECRET}},),
        stop=("a", SECRET),
    )
    (body,) = sent
    assert body.pop("model") == SECRET
    assert SECRET not in str(body)
    assert image in str(body)


def test_redaction_covers_the_name_of_a_user(tract, server, admin_file):
    admin_file.write_text("redaction = true")
    tract.models.use("m-1", base_url=server.url)
    tract.user("Hi", name=SECRET)
    assert tract.generate().text == "Hello"
    assert SECRET not in str(server.bodies)


def test_redaction_takes_back_the_decision_to_send_anyway(tract, admin_file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text(DOUBTFUL)
    tract.workspace.roots = [tmp_path]
    assert why_not_sent(DOUBTFUL, send_anyway=True) == ""
    assert tract.workspace.read("notes.txt", send_anyway=True)
    admin_file.write_text("redaction = true")
    assert why_not_sent(DOUBTFUL, send_anyway=True)
    with pytest.raises(AttachmentError):
        tract.workspace.read("notes.txt", send_anyway=True)
