"""Completion and help, requested from a real kernel like a front end does."""

import pytest

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]
DEFINE = '''%%tract_operation citation_check --activate
"""Verify source URLs."""
urls: Annotated[list[str], "URLs to verify"]
verified: bool = False
def verify(pending):
    pending.approve()
'''


@pytest.fixture(scope="module", autouse=True)
def operation(kernel):
    assert kernel.run(DEFINE).ok


def test_subcommands(kernel):
    assert {"status", "log", "ops", "tools", "inbox", "help"} <= set(kernel.complete("%tract "))
    assert kernel.complete("%tract lo") == ["log", "looking"]
    assert kernel.complete("%tract help lo") == ["log", "looking"]
    assert not {"log", "looking"} & set(kernel.complete("%tract help log "))


@pytest.mark.parametrize("magic", ["chat", "run", "propose", "orchestrate"])
def test_the_model_of_one_turn_completes_like_the_model_of_all(kernel, magic):
    assert kernel.complete(f"%%tract_{magic} --model op") == kernel.complete("%tract model op")
    assert "openai/gpt-6-luna" in kernel.complete(f"%%tract_{magic} --model ")


def test_files_complete_as_paths_without_keywords(kernel):
    assert kernel.run("import os; os.makedirs('birds/small'); _ = open('birds/seen.csv', 'w').close()").ok
    assert kernel.complete("%%tract_chat --files bi") == ["birds/"]
    assert kernel.complete("%%tract_chat --files a.csv birds/") == ["birds/seen.csv", "birds/small/"]


def test_rules_and_the_options_of_a_check(kernel):
    assert {"TJ101", "TJ903"} <= set(kernel.complete("%tract rules "))
    assert kernel.complete("%tract rules TJ50") == ["TJ501", "TJ502", "TJ503"]
    assert not {"TJ101", "TJ102"} & set(kernel.complete("%tract rules TJ101 "))
    assert kernel.complete("%%tract_check --s") == ["--strict"]


def test_operations_fields_and_options(kernel):
    assert kernel.complete("%tract_fire cit") == ["citation_check"]
    assert kernel.complete("p = %tract_fire cit") == ["citation_check"]
    assert set(kernel.complete("%tract_fire citation_check ")) == {
        "urls=",
        "verified=",
        "--fields",
        "--review",
    }
    assert kernel.complete("%tract_fire citation_check urls=[] v") == ["verified="]
    assert "--json" in kernel.complete("%%tract_operation x --")


def test_tools_complete_and_are_live(kernel):
    offered = kernel.complete("tools.")
    assert any(match.endswith("commit") for match in offered)
    assert any(match.endswith("fire_citation_check") for match in offered)
    assert any(match.endswith("list_tools") for match in offered)


def test_a_variable_of_the_same_name_completes_as_itself(kernel):
    kernel.run("keep, tools = tools, 'text'")
    assert any(match.endswith("startswith") for match in kernel.complete("tools.starts"))
    kernel.run("tools = keep")


def test_the_context_completes(kernel):
    assert any(match.endswith("compile") for match in kernel.complete("tract.com"))


def test_other_lines_are_left_alone(kernel):
    kernel.run("tract_fires = 1")
    assert "tract_fires" in kernel.complete("tract_fir")
    assert not [m for m in kernel.complete("x = 1 ") if m in {"status", "log"}]


def test_help_shows_signature_and_docs(kernel):
    text = kernel.inspect("tools.commit")
    assert "operation" in text
    assert "Add a commit to the context" in text
    text = kernel.inspect("tools.fire_citation_check")
    assert "urls" in text
    assert "URLs to verify" in text
    assert "Add a commit to the current branch" in kernel.inspect("tract.commit")


def test_the_magics_explain_themselves(kernel):
    assert "--activate" in kernel.run("%%tract_operation?").pager
    assert "%tract inbox" in kernel.run("%tract?").pager
    assert "--review" in kernel.run("%tract_fire?").pager


def test_pending_ids_and_their_actions_complete(kernel):
    kernel.run("%%tract_operation later --activate\ndef go(pending):\n    pending.approve()\n")
    kernel.run("p = tract.fire('later', review=True); tract.reviewer.keep(p)")
    name = kernel.run("print(p.pending_id[:8])").text.strip()
    assert {"go", "approve", "reject"} <= set(kernel.complete(f"%tract decide {name} "))
