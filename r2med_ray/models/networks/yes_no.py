"""Yes-no models: language models that are asked whether a document fits a query.

The score is the logit of yes minus the logit of no. The sigmoid of this number is the probability of yes, if yes and
no are the only answers (Qwen3-Reranker, Zhang et al. 2025, arXiv 2506.05176, and examples/
qwen3_reranker_transformers.py of its repository).

Shape letters: N pairs of a call, B pairs of a micro-batch, T tokens of the longest one, D hidden size.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from r2med_ray.cuts import CutCounter, SideCuts
from r2med_ray.errors import ConfigError
from r2med_ray.models.catalog.devices import batch_limits
from r2med_ray.models.catalog.rerankers import RerankerRow
from r2med_ray.models.catalog.sources import locate
from r2med_ray.models.networks.checkpoints import longest_input
from r2med_ray.models.networks.loading import load_whole
from r2med_ray.models.networks.pair_cuts import PairCut, cut_inside, note_pairs, query_lengths
from r2med_ray.models.networks.passes import is_stateless, run_batches
from r2med_ray.models.networks.pooling import last
from r2med_ray.models.networks.token_budget import pad
from r2med_ray.models.networks.told import TextAround, tell_pairs


class YesNoScorer:
    """Scores pairs of any queries by the next token of a causal language model.

    Only two rows of the output layer are computed, those of the two answers, and only at the last position. They are
    computed in float32, because many candidates have equal logits in half precision.

    Args:
        row: how the checkpoint is used. A pair is cut to `max_length` by `pair_cuts.cut_pair`. Prefix, prompts and
            suffix are kept whole.
        device: `cpu`, `cuda`, ...
        token_budget: most padded tokens of a forward pass; on a CPU a pair is a pass of its own.

    Raises:
        ConfigError: an answer is not one token of the vocabulary, the texts around a pair leave no room for it, or
            the tokenizer doesn't say which characters a token holds; or see `sources.locate`.
        DataError, OwnCodeError: see `sources.locate` and `loading.load_whole`.
    """

    def __init__(self, row: RerankerRow, *, device: str, token_budget: int = 16_384) -> None:
        from transformers import AutoModelForCausalLM, AutoTokenizer

        folder = locate(row.model, row.revision)
        self._row = row
        self._tokenizer: Any = AutoTokenizer.from_pretrained(folder, trust_remote_code=row.trust_remote_code)
        settings = {"dtype": row.resolved_dtype(device), "trust_remote_code": row.trust_remote_code}
        load: Any = partial(AutoModelForCausalLM.from_pretrained, folder, **settings)
        model = load_whole(f"reranker {row.name!r}", load, allow_pickle=row.allow_pickle)
        self._decoder = model.to(device).eval().get_decoder()
        self._decoder.config.use_cache = False
        answers = [_token_of(answer, self._tokenizer, row.name) for answer in (row.yes, row.no)]
        self._answers_2D = model.get_output_embeddings().weight[answers].float()
        self._prefix, self._suffix = (
            self._tokenizer(text, add_special_tokens=False)["input_ids"] for text in (row.prefix, row.suffix)
        )
        longest = min(row.max_length, longest_input(self._tokenizer, model))
        if not self._tokenizer.is_fast:
            raise ConfigError(f"reranker {row.name!r}: its tokenizer doesn't say which characters a token holds")
        self._longest = longest
        self._most = longest - len(self._prefix) - len(self._suffix)
        self._around = sum(query_lengths(self._tokenizer, [row.query_prompt, row.document_prompt]))
        if self._most - self._around < 2:
            raise ConfigError(
                f"reranker {row.name!r}: prefix, prompts and suffix leave {max(0, self._most - self._around)} of its "
                f"{longest} tokens for a query and a document; give a larger `max_length`"
            )
        self._cuts = CutCounter()
        self._limits = batch_limits(device, token_budget, stateless=is_stateless(model))
        self._device = device

    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return the log-odds of yes for each (query, document), in the order of the pairs. No pairs give [].

        Raises:
            DataError: a pair doesn't fit into memory, even alone.
        """
        import torch

        if not pairs:
            return []
        tokens = self._pair_tokens(pairs)
        scores_N = torch.empty(len(pairs), dtype=torch.float32, device=self._device)

        def forward(batch: list[int]) -> None:
            rows = [tokens[position] for position in batch]
            mask_BT = torch.from_numpy(pad([[1] * len(row) for row in rows], 0)).to(self._device)
            ids_BT = torch.from_numpy(pad(rows, 0)).to(self._device)
            states_BTD = self._decoder(input_ids=ids_BT, attention_mask=mask_BT).last_hidden_state
            yes_B, no_B = (last(states_BTD, mask_BT).float() @ self._answers_2D.T).unbind(dim=1)
            scores_N[batch] = yes_B - no_B

        run_batches([len(row) for row in tokens], self._limits, forward)
        scores: list[float] = scores_N.tolist()
        return scores

    def take_cuts(self) -> SideCuts:
        """Return what was cut off the queries and documents of all pairs since the last call."""
        return self._cuts.take()

    def _pair_tokens(self, pairs: Sequence[tuple[str, str]]) -> list[list[int]]:
        """Return the tokens of each pair with all that is put around it, cut where they are too many."""
        begin, between = self._row.query_prompt, self._row.document_prompt
        texts = [f"{begin}{query}{between}{document}" for query, document in pairs]
        encoded = self._tokenizer(texts, add_special_tokens=False, truncation=False, verbose=False)
        tokens: list[list[int]] = list(encoded["input_ids"])
        lengths = [len(ids) for ids in tokens]
        cut: dict[int, PairCut] = {}
        for position, (query, _) in enumerate(pairs):
            if lengths[position] > self._most:
                ends = len(begin) + len(query)
                tokens[position], cut[position] = cut_inside(
                    encoded.encodings[position], (len(begin), ends), ends + len(between), self._most
                )
        counts = note_pairs(
            self._cuts,
            query_lengths(self._tokenizer, [query for query, _ in pairs]),
            lengths,
            cut,
            around=self._around,
            max_length=self._longest,
        )
        whole = [[*self._prefix, *ids, *self._suffix] for ids in tokens]
        around = [
            (TextAround(self._row.prefix + begin, query), TextAround(between, document, self._row.suffix))
            for query, document in pairs
        ]
        tell_pairs(self._tokenizer, around, whole, counts, self._longest)
        return whole


def _token_of(answer: str, tokenizer: Any, name: str) -> int:
    token: int | None = tokenizer.convert_tokens_to_ids(answer)
    if token is None or token == tokenizer.unk_token_id:
        raise ConfigError(f"reranker {name!r}: the answer {answer!r} is no token of its vocabulary")
    return token
