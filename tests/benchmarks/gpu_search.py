"""GV1: exact search over float16 vectors in the memory of one device, by FAISS if it can, or else by torch alone.

Shape letters: Q queries, N documents, D embedding size, B documents of a block, G groups of a block, S documents of a
group, K neighbours.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import faiss
import numpy as np
import psutil
import torch
from torch import Tensor

from r2med_ray.indexing.dense import DenseIndex
from tests.benchmarks.findings import Measured
from tests.benchmarks.gpu_bench import Bench

GROUP = 32
BLOCK = 1 << 20
CHECKED = 4
BATCH_S = 0.1
SHARE_OF_MEMORY = 0.7
ROUNDING = 5e-4
"""More than float16 rounds a product of unit vectors by, twice."""


def search(bench: Bench) -> None:
    sizes, with_faiss = bench.sizes, faiss.get_num_gpus() > 0
    count = min(sizes.vectors, rows_in_memory(bench, with_faiss=with_faiss))
    documents_ND = random_vectors(count, sizes.dim, bench.device, seed=1)
    queries_QD = random_vectors(sizes.queries, sizes.dim, bench.device, seed=2)
    checked_QD = queries_QD[:CHECKED].float()
    true_QN = torch.cat([(block_BD.float() @ checked_QD.T).cpu() for block_BD in documents_ND.split(BLOCK)]).T
    if with_faiss:
        vectors, asked = documents_ND.cpu().numpy(), queries_QD.cpu().numpy()
        del documents_ND
        torch.cuda.empty_cache()
        ask: Callable[[], Any] = partial(
            DenseIndex.build([str(row) for row in range(count)], vectors).search, asked, sizes.found
        )
        rows = [[int(hit.doc_id) for hit in ranking] for ranking in ask()[:CHECKED]]
    else:
        ask = partial(nearest, documents_ND, queries_QD, sizes.found)
        rows = ask()[1][:CHECKED].tolist()
    require_nearest(bench, true_QN, rows)
    by = "FAISS in float32" if with_faiss else "torch in float16"
    what = f"search by {by}: {count:,} x {sizes.dim}, {sizes.queries} queries, the best {sizes.found}"
    operations = 2 * sizes.queries * count * sizes.dim
    seconds, _ = bench.timed(what, lambda: (ask(), bench.wait()), sizes.queries, "queries", operations)
    if count < sizes.vectors:
        bench.findings.leave_out("GV1", f"the memory holds {count:,} of {sizes.vectors:,} vectors")
    else:
        bench.findings.add("GV1", Measured(*(each(seconds) / BATCH_S for each in (min, min, max))))


def rows_in_memory(bench: Bench, *, with_faiss: bool) -> int:
    """Return how many vectors the memory holds beside the scores of a block; FAISS has them in float32 here, too."""
    torch.cuda.empty_cache()
    free = SHARE_OF_MEMORY * (torch.cuda.mem_get_info()[0] if bench.device == "cuda" else 2**30)
    rows = free / bench.sizes.dim / (4 if with_faiss else 2)
    here = SHARE_OF_MEMORY * psutil.virtual_memory().available / bench.sizes.dim / (4 + 2)
    return int(min(rows, here) if with_faiss else rows)


def require_nearest(bench: Bench, true_QN: Tensor, rows: list[list[int]]) -> None:
    """Check that no product of a document that was found is below the k-th by more than float16's rounding."""
    worst = -np.inf
    for true_N, found in zip(true_QN, rows, strict=True):
        if len(set(found)) != min(bench.sizes.found, len(true_N)):
            bench.findings.gate(f"search: {len(set(found))} different documents are found", holds=False)
        worst = max(worst, float(true_N.topk(len(found)).values[-1] - true_N[found].min()))
    bench.findings.gate(f"search: what is found is at most {worst:.1e} below the k-th", holds=worst <= ROUNDING)


def random_vectors(count: int, dim: int, device: str, seed: int) -> Tensor:
    """Return float16 of shape (count, dim). The vectors have about unit length."""
    generator = torch.Generator(device).manual_seed(seed)
    vectors = torch.empty(count, dim, dtype=torch.float16, device=device)
    for block in vectors.split(BLOCK):
        block.normal_(std=dim**-0.5, generator=generator)
    return vectors


def nearest(documents_ND: Tensor, queries_QD: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the k best products of each query, in float16 and descending, and their positions: (Q, K) each.

    Of a block, only the k groups with the highest scores are looked into: no document of another group has a score
    above the k highest scores of the groups.
    """
    best = [_best_of_block(queries_QD, block_BD, start, k) for start, block_BD in _blocks(documents_ND)]
    scores, positions = (torch.cat(parts, dim=1) for parts in zip(*best, strict=True))
    scores_QK, places_QK = scores.topk(min(k, scores.shape[1]))
    return scores_QK, positions.gather(1, places_QK)


def _best_of_block(queries_QD: Tensor, block_BD: Tensor, start: int, k: int) -> tuple[Tensor, Tensor]:
    scores_QB = queries_QD @ block_BD.T
    wanted, size = min(k, len(block_BD)), GROUP if len(block_BD) % GROUP == 0 else 1
    grouped_QGS = scores_QB.view(len(queries_QD), -1, size)
    groups_QK = grouped_QGS.amax(dim=2).topk(min(wanted, grouped_QGS.shape[1]), sorted=False).indices
    kept_QKS = grouped_QGS.gather(1, groups_QK[:, :, None].expand(-1, -1, size))
    scores_QK, places_QK = kept_QKS.flatten(1).topk(wanted)
    groups_of_QK = groups_QK.gather(1, places_QK // size)
    return scores_QK, start + groups_of_QK * size + places_QK % size


def _blocks(documents_ND: Tensor) -> Iterator[tuple[int, Tensor]]:
    for number, block_BD in enumerate(documents_ND.split(BLOCK)):
        yield number * BLOCK, block_BD
