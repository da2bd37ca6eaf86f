"""Kinds of first stages for tests of what tasks and systems share, each with a second first stage beside it."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit

from r2med_ray.first_stage import ShardedFirstStage
from r2med_ray.first_stages.lexical import LexicalFirstStage
from r2med_ray.first_stages.vectors import ApiFirstStage
from r2med_ray.indexing.bm25 import BM25_ROWS
from r2med_ray.models.catalog.call_policy import CallPolicy
from r2med_ray.models.catalog.services import ApiEncoderRow
from r2med_ray.settings.compat import Rules
from tests.failing_models import failing_stage
from tests.http_services import Service


class Sharing(NamedTuple):
    """Two first stages of two systems that share the artefacts of corpora."""

    stages: Callable[[Service, Path], Sequence[ShardedFirstStage]]
    query_sets: int | None
    """How many artefacts are made of two different sets of queries; None if nothing is made of queries."""


def _bm25(service: Service, folder: Path) -> Sequence[ShardedFirstStage]:
    plain = LexicalFirstStage(row=BM25_ROWS["bm25"], rules=Rules())
    return plain, replace(plain, row=plain.row.with_parameters(k1=2))


def _of_both_rules(first_stage: ShardedFirstStage) -> Sequence[ShardedFirstStage]:
    return first_stage, replace(first_stage, rules=Rules.of("r2med"))  # type: ignore[type-var]


def _service(service: Service, folder: Path) -> Sequence[ShardedFirstStage]:
    folder.mkdir(exist_ok=True)
    words = Tokenizer(WordLevel({"?": 0}, unk_token="?"))
    words.pre_tokenizer = WhitespaceSplit()
    words.save(str(folder / "tokenizer.json"))
    row = ApiEncoderRow(
        name="served",
        model="m",
        base_url=service.url,
        dimension=3,
        tokenizer=str(folder),
        max_length=100,
        max_input_tokens=100,
        batch_tokens=1000,
        batch_texts=10,
        calls=CallPolicy(max_in_flight=2, attempts=2, base_wait_s=0.01),
        usd_per_million_tokens=1,
    )
    return _of_both_rules(ApiFirstStage(row=row, rules=Rules()))


SHARING = {
    "terms": Sharing(_bm25, None),
    # The rules say how a query becomes one vector, so each of them has query vectors of its own.
    "vectors": Sharing(lambda service, folder: _of_both_rules(failing_stage("dense")), 4),
    "a service": Sharing(_service, 4),
    "sparse vectors": Sharing(lambda service, folder: _of_both_rules(failing_stage("sparse")), 2),
    "token vectors": Sharing(lambda service, folder: _of_both_rules(failing_stage("late interaction")), 2),
}
