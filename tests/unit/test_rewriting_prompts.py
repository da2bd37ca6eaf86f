from pathlib import Path

import pytest

from r2med_ray.errors import ConfigError
from r2med_ray.rewriting.methods import METHODS
from r2med_ray.rewriting.prompts import PromptTask, load_shared_prompt, numbered
from r2med_ray.rewriting.prompts import load_prompt as load

BIOLOGY = PromptTask(names=("Biology", "Stack-Biology"), family="qa")


def load_prompt(method, task, folder=None):
    return load(method, task, METHODS[method].places, folder)


def write(folder: Path, text: str, name: str = "hyde/default.txt") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize("family", ["qa", "evidence", "case", "default"])
@pytest.mark.parametrize("method", ["hyde", "query2doc", "lamer", "reason", "keywords", "diagnoses"])
def test_every_method_has_a_prompt_for_every_family(method, family):
    prompt = load_prompt(method, PromptTask(names=("any",), family=family))

    told = prompt.fill(query="acute pain", candidates="\n[1]. nerves")

    assert told.count("acute pain") == 1
    assert told.count("\n[1]. nerves") == METHODS[method].needs_candidates
    assert prompt.version == "1"
    assert "version" not in told


def test_a_family_without_a_file_gets_the_default():
    of_task = load_prompt("keywords", BIOLOGY)

    assert of_task == load_prompt("keywords", PromptTask(names=("any",)))
    assert load_prompt("keywords", PromptTask(names=("any",), family="case")) != of_task


@pytest.mark.parametrize(
    "text",
    ["{TEXT}", "{query} {candidates}", "{}", "{0}", "%s", "{{query}}", "{query!r:>9}", "\\1 \\g<0>", "{", "${query}"],
)
@pytest.mark.parametrize("method", ["hyde", "lamer"])
def test_a_query_is_put_in_as_it_is(method, text):
    prompt = load_prompt(method, BIOLOGY)
    before, _, after = prompt.fill(query="%%", candidates=text).partition("%%")

    assert prompt.fill(query=text, candidates=text) == f"{before}{text}{after}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("version: 1\nWrite.\nQ: {qery}\n", r"default\.txt:3: unknown place 'qery'\. Did you mean 'query'\?"),
        ("version: 1\n{query} {candidates}", r"default\.txt:2: unknown place 'candidates'"),
        ("version: 1\nWrite a passage.", r"default\.txt: the prompt has no place {query}"),
        ("Write a passage for {query}", r"default\.txt:1: expected `version: NAME`"),
    ],
)
def test_a_prompt_that_can_not_be_filled_is_refused_with_file_and_line(tmp_path, text, message):
    write(tmp_path, text)

    with pytest.raises(ConfigError, match=message):
        load_prompt("hyde", BIOLOGY, tmp_path)


def test_lamer_has_to_show_its_candidates(tmp_path):
    write(tmp_path, "version: 1\n{query}", "lamer/qa.txt")

    with pytest.raises(ConfigError, match=r"qa\.txt: the prompt has no place {candidates}"):
        load_prompt("lamer", BIOLOGY, tmp_path)


def test_a_method_without_prompts_is_refused_with_those_that_have_some(tmp_path):
    write(tmp_path, "version: 1\n{query}", "hyde/case.txt")

    with pytest.raises(ConfigError, match=r"no prompts for 'lamer'\. Known: hyde"):
        load_prompt("lamer", BIOLOGY, tmp_path)
    with pytest.raises(ConfigError, match=r"hyde: there is neither qa\.txt nor default\.txt"):
        load_prompt("hyde", BIOLOGY, tmp_path)
    with pytest.raises(ConfigError, match=r"unknown rewriting method 'hide'\. Did you mean 'hyde'"):
        load_prompt("hide", BIOLOGY)


def test_a_prompt_that_all_tasks_share_is_that_of_its_folder(tmp_path):
    write(tmp_path, "version: 2\nAgent: {query}", "search-o1/default.txt")

    assert load_shared_prompt("search-o1", ("query",), tmp_path).fill(query="q") == "Agent: q"
    assert load_shared_prompt("search-r1", ("query",)).fill(query="my question").endswith("my question")
    with pytest.raises(ConfigError, match=r"prompt .*condense/default\.txt: No such file"):
        load_shared_prompt("condense", ("query",), tmp_path)


def test_lamer_candidates_are_numbered_and_cut_as_published():
    # generate_hypothetical_doc.py turns each run of newlines and spaces into one space, puts `[i]. ` before each
    # candidate, from 1, and a line break before that
    assert numbered(["a\nb  c d", "e"], words=3) == "\n[1]. a b c\n[2]. e"
    assert numbered([], words=3) == ""


def checkout(
    folder: Path, instructions: str, examples: str = "Example = {'Stack-Biology': 'Post: a\\nPassage: b'}"
) -> Path:
    write(folder, instructions, "src/instrcution.py")
    write(folder, examples, "src/example.py")
    return folder


INSTRUCTIONS = """
from example import Example
raise SystemExit("never executed")
e5_q = {"x": f"{y}"}
hyde = {
    "Stack-Biology": "Write.\\nPost: {TEXT}\\nPassage: ",
}
query2doc = {
    "Stack-Biology": "{EXAMPLE}\\nPost: {TEXT}".format(EXAMPLE=Example["Stack-Biology"], TEXT="{TEXT}"),
    "PMCPatients": "Write.\\n" + "{EXAMPLE} {TEXT}".format(EXAMPLE=Example["PMCPatients"], TEXT="{TEXT}"),
    "PMC-Treat": f"{TEXT}",
    "MedQA-Diag": "{TEXT" + "} {brca}",
    "MedXpertQA-Exam": "Write.",
}
lamer = {"Stack-Biology": "{TEXT} {PASSAGE}"}
"""


def test_r02_r2meds_repository_is_read_under_old_names_and_not_executed(tmp_path):
    folder = checkout(tmp_path, INSTRUCTIONS)

    assert load_prompt("hyde", BIOLOGY, folder).fill(query="{TEXT}") == "Write.\nPost: {TEXT}\nPassage: "
    assert load_prompt("query2doc", BIOLOGY, folder).fill(query="q") == "Post: a\nPassage: b\nPost: q"
    exam = load_prompt("query2doc", PromptTask(names=("MedQA-Diag",)), folder)
    assert exam.fill(query="q") == "q {brca}"
    assert load_prompt("lamer", BIOLOGY, folder).fill(query="q", candidates="\n[1]. c") == "q \n[1]. c"


@pytest.mark.parametrize(
    ("method", "names", "message"),
    [
        (
            "hyde",
            ("Biologie",),
            r"instrcution\.py:5: no prompt of 'hyde' for task 'Biologie'\. Did you mean 'Stack-Biology'",
        ),
        (
            "reason",
            ("Biology",),
            r"instrcution\.py: no prompts for 'reason'\.(.*) Known: e5_q, hyde, query2doc, lamer",
        ),
        (
            "query2doc",
            ("PMC-Treatment", "PMC-Treat"),
            r"instrcution\.py:11: can't be read without running it: f'{TEXT}'",
        ),
        ("query2doc", ("MedXpertQA-Exam",), r"instrcution\.py:13: the prompt has no place {TEXT}"),
        (
            "query2doc",
            ("PMCPatients",),
            r"instrcution\.py:10: can't be read without running it: Example\['PMCPatients'\]",
        ),
    ],
)
def test_what_r2meds_repository_does_not_say_is_an_error(tmp_path, method, names, message):
    with pytest.raises(ConfigError, match=message):
        load_prompt(method, PromptTask(names=names), checkout(tmp_path, INSTRUCTIONS))
