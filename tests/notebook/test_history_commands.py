"""`%tract` on the context and its history."""

import pytest

from tests.review.scripted import ScriptedClient


@pytest.fixture
def talk(shell):
    shell.run("a = tract.system('Be brief.')\nb = tract.user('Hello there')\nc = tract.assistant('Hi!')")
    return shell


def test_the_log_is_a_graph_with_the_content_behind_it(talk):
    talk.run("%tract branch aside HEAD\ntract.user('On the <side>')")
    result = talk.run("%tract log")
    assert "<svg" in result.html
    assert "On the &lt;side&gt;" in result.html
    for word in ("aside", "main", "Hello there", "Be brief."):
        assert word in result.text
        assert word in result.html
    assert "On the" not in talk.run("%tract switch main\n%tract log --current").text


def test_compile_shows_messages_and_a_token_bar(talk):
    result = talk.run("%tract compile")
    assert "Hello there" in result.html
    assert "Hi!" in result.text
    assert "Hi!" not in talk.run("%tract compile --at $b".replace("$b", talk.namespace["b"].short_hash)).text
    assert "Hello there" in talk.run("display(tract.compile())").html


def test_diff(talk):
    talk.run("tract.user('Goodbye', edit=b.commit_hash)")
    for line in (
        "%tract diff",
        f"%tract diff {talk.namespace['c'].short_hash} HEAD",
        "display(tract.diff())",
    ):
        result = talk.run(line)
        assert "Goodbye" in result.text
        assert "Hello there" in result.html


def test_branches(talk):
    assert "Switched to the new branch aside" in talk.run("%tract branch aside").text
    assert "aside" in talk.run("%tract branch").text
    assert "Switched to main" in talk.run("%tract switch -").text
    assert "detached" in talk.run(f"%tract checkout {talk.namespace['a'].short_hash}").text
    assert "HEAD is detached" in talk.run("tract.user('x')").error
    assert "Switched to main" in talk.run("%tract checkout main").text


def test_tags_and_priorities(talk):
    name = talk.namespace["b"].short_hash
    assert "is tagged greeting" in talk.run(f"%tract tag {name} greeting").text
    assert "greeting" in talk.run("%tract tag").text
    assert "is skip now" in talk.run(f"%tract skip {name} beside the point").text
    assert "Hello there" not in talk.run("%tract compile").text
    assert "is pinned now" in talk.run(f"%tract pin {name}").text
    assert "Hello there" in talk.run("%tract compile").text
    assert "is normal now" in talk.run(f"%tract unpin {name}").text


def test_undo_and_redo_show_the_change_before_they_move(talk):
    head = talk.namespace["tract"].head
    told = talk.run("%tract undo")
    assert "Nothing has moved yet" in told.text
    assert "Hi!" in told.text  # the messages that would be removed
    assert talk.namespace["tract"].head == head
    assert "Undone: main: commit" in talk.run("%tract undo --yes").text
    assert talk.namespace["tract"].head != head
    assert "Nothing has moved yet" in talk.run("%tract redo").text
    assert "Done again" in talk.run("%tract redo --yes").text
    assert talk.namespace["tract"].head == head


THINKING = """
def thinking(messages, **options):
    blocks = [{"type": "thinking", "thinking": "", "signature": "s"}, {"type": "text", "text": "Hm."}]
    raw = {"dialect": "anthropic", "model": "m", "blocks": blocks}
    return {"choices": [{"message": {"role": "assistant", "content": "Hm.", "provider_blocks": raw}}]}
tract.models.use(thinking)
tract.chat("Well?")
"""


def test_a_change_that_drops_reasoning_is_announced_before(talk):
    talk.run(THINKING)
    name = talk.namespace["b"].short_hash
    result = talk.run(f"%tract skip {name} beside the point").text
    assert "the reasoning of 1 reply is no longer sent" in result
    assert f"Nothing has changed yet: %tract skip {name} beside the point --yes does it." in result
    assert "is pinned now" in talk.run(f"%tract pin {name}").text
    assert "is skip now" in talk.run(f"%tract skip {name} beside the point --yes").text
    told = talk.run("%tract model openai/gpt-6-luna").text
    assert "With another model than before, the reasoning of 1 reply is no longer sent" in told


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("diff a b c", "usage: %tract "),
        ("diff nowhere", "there is no commit"),
        ("compile --at", "usage: %tract "),
        ("switch", "usage: %tract "),
        ("switch mian", "Did you mean 'main'"),
        ("branch a..b", "invalid branch name"),
        ("branch main", "already"),
        ("checkout 00000000", "there is no commit"),
        ("tag HEAD", "adds a tag"),
        ("pin", "name a commit"),
        ("pin nowhere", "there is no commit"),
        ("undo now", "takes no arguments"),
        ("undo -y", "%tract undo has no option '-y'; %tract help undo lists its options"),
        ("chat redo -y", "%tract chat redo has no option '-y'; %tract help chat lists its options"),
        ("redo", "nothing to redo"),
        ("log all", "takes one number"),
        (
            "log --all",
            "%tract log has no option '--all'. Did you mean '--cell'? Usage: %tract log [N] [--current] [--events] [--cell [ID]]",
        ),
        ("undo --yse", "no option '--yse'. Did you mean '--yes'? Usage: %tract undo [--yes]"),
        ("redo --nosuch", "no option '--nosuch'. Usage: %tract redo [--yes]"),
        ("compile --nosuch", "no option '--nosuch'. Usage: %tract compile [--at COMMIT]"),
        (
            "run --nosuch",
            "no option '--nosuch'. Usage: %tract run [ID] [--prompt | --resume | --replay], run --dry",
        ),
        ("run zzz", "There is no run 'zzz'. tract.runs() or %tract runs lists them."),
        ("status --nosuch", "no option '--nosuch'. Usage: %tract status"),
    ],
)
def test_an_invalid_command_gives_an_error_without_a_traceback(talk, line, told):
    result = talk.run(f"%tract {line}")
    assert not result.ok
    assert told in result.error
    assert "Traceback" not in result.text


def test_on_an_empty_context(shell):
    assert "No commits yet" in shell.run("%tract log").text
    assert "no commits" in shell.run("%tract branch").text
    assert "nothing to undo" in shell.run("%tract undo").error
    assert shell.run("%tract compile").ok
    assert shell.run("%tract diff").ok


def test_a_branch_in_quotes_is_refused_whole(talk):
    assert "invalid branch name 'a b'" in talk.run('%tract branch "a b"').error


def test_help_explains_one_command(shell):
    text = shell.run("%tract help undo").text
    assert "%tract undo" in text
    assert "%tract inbox" not in text
    assert "no command 'und'. Did you mean 'undo'?" in shell.run("%tract help und").error
    assert "no command 'history'. Did you mean 'log'?" in shell.run("%tract history").error
    assert "usage: %tract help [COMMAND]" in shell.run("%tract help undo redo").error


def test_the_log_tells_events_only_when_asked(talk):
    talk.run(
        "tract.branch('aside'); tract.user('On the side'); tract.switch('main'); tract.user('On the main')"
    )
    talk.run("tract.merge('aside')")
    assert "Events" not in talk.run("%tract log").html
    result = talk.run("%tract log --events")
    for told in ("merged aside into main", "just now", "user"):
        assert told in result.html
        assert told in result.text


def test_compress_first_shows_the_replaced_messages_and_the_tokens(talk):
    tract = talk.namespace["tract"]
    tract.configure_llm(ScriptedClient("A greeting."))
    before = tract.head
    first = talk.namespace["b"].short_hash
    told = talk.run(f"%tract compress {first}").text
    assert "2 messages become 1 summary" in told
    assert "tokens" in told
    assert "Hello there" in told  # the beginning of the messages
    assert f"Nothing has changed yet: %tract compress {first} --yes does it" in told
    assert tract.head == before
    assert "2 commits became 1 summary" in talk.run(f"%tract compress {first} --yes").text
    assert "A greeting." in talk.run("%tract compile").text
    talk.run("%tract undo --yes")
    assert tract.head == before


def test_an_invalid_compress_changes_nothing(talk):
    assert "compress [FROM [TO]]" in talk.run("%tract compress a b c").error
    assert talk.run("%tract compress abcdefab").error
    before = talk.namespace["tract"].head
    assert talk.run("%tract compress --yes").error  # there is no model to write the summary
    assert talk.namespace["tract"].head == before
