"""Run files are read as columns, and a piece holds whole queries, wherever the file is cut."""

import threading

import pytest

from r2med_ray.errors import DataError
from r2med_ray.evaluation.run_columns import ScatteredQueryError, read_pieces, read_rows
from r2med_ray.evaluation.run_lines import BLOCK_BYTES


@pytest.fixture
def big_run(tmp_path):
    """A function that writes a run of three blocks with 100 lines per query and the given last line."""

    def write(last_line):
        path = tmp_path / "run.trec"
        num_lines = 2 * BLOCK_BYTES // 400
        lines = [f"query-{i // 100} Q0 document/{i % 977:09d} 1 {i % 7}.5 {360 * 't'}" for i in range(num_lines)]
        path.write_text("\n".join([*lines, last_line, ""]))
        return path

    return write


def test_pieces_hold_whole_queries_in_the_order_of_the_whole_run(big_run):
    path = big_run("query-last Q0 d 1 1 tag")

    pieces = list(read_pieces(path))
    rankings = {query_id: hits for piece in pieces for query_id, hits in piece.to_rankings().items()}

    assert len(pieces) > 2
    assert sum(len(piece.query_ids) for piece in pieces) == len(rankings)
    assert rankings == read_rows(path).to_rankings()


def test_a_query_that_comes_again_is_noticed(big_run):
    path = big_run("query-0 Q0 d 1 1 tag")

    with pytest.raises(ScatteredQueryError):
        list(read_pieces(path))
    # the query has 100 lines at the top and one at the end
    assert len(read_rows(path).to_rankings()["query-0"]) == 101


def test_an_error_in_a_later_block_comes_after_the_pieces_before_it_and_no_thread_is_left(big_run):
    path = big_run("query-last Q0 d 1 high tag")
    threads = threading.active_count()
    pieces = read_pieces(path)

    assert next(pieces).query_ids[0] == "query-0"
    with pytest.raises(DataError, match=f"run.trec:{2 * BLOCK_BYTES // 400 + 1}: query 'query-last'"):
        list(pieces)
    assert threading.active_count() == threads


def test_who_reads_no_further_leaves_no_thread(big_run):
    threads = threading.active_count()
    pieces = read_pieces(big_run("query-last Q0 d 1 1 tag"))

    next(pieces)
    pieces.close()

    assert threading.active_count() == threads


def test_a_query_that_comes_again_inside_one_block_is_read_once(tmp_path):
    path = tmp_path / "run.trec"
    path.write_text("q Q0 a 1 1 t\np Q0 a 1 1 t\nq Q0 b 1 2 t\np Q0 b 1 2 t\n")

    # the only possible cut is before the last line, and p has lines on both sides of this cut
    with pytest.raises(ScatteredQueryError):
        list(read_pieces(path))
    assert {q: [hit.doc_id for hit in hits] for q, hits in read_rows(path).to_rankings().items()} == {
        "q": ["b", "a"],
        "p": ["b", "a"],
    }


ODD = (
    "queries have a rank twice or no rank 1: of three fields the last is read as a rank, and 1 is the best; if they "
    "are scores, write six fields"
)
both_ways = pytest.mark.parametrize(
    "read", [read_rows, lambda path: list(read_pieces(path))], ids=["whole", "pieces"]
)


@both_ways
@pytest.mark.parametrize("blank", ["\t", "  "])  # read in columns, and line by line
def test_ranks_that_may_be_scores_are_counted_aloud(tmp_path, caplog, read, blank):
    # q1 has no rank 1, q2 has rank 1 twice, q3 has rank 7 twice after rank 1; q4 has ranks, in any order, with a gap.
    ranks = {"q1": [97, 12], "q2": [1, 1], "q3": [7, 1, 7], "q4": [3, 1, 5]}
    lines = [blank.join((q, f"d{n}", str(rank))) for q, of_q in ranks.items() for n, rank in enumerate(of_q)]
    path = tmp_path / "run.tsv"
    path.write_text("\n".join([*lines, ""]))

    read(path)

    assert [record.message for record in caplog.records] == [f"{path}: 3 {ODD}, e.g. 'q1', 'q2', 'q3'"]


@both_ways
@pytest.mark.parametrize(
    "content", ["q d 2\nq e 1\np d 1\n", "q Q0 d 1 7 t\nq Q0 e 1 7 t\n"], ids=["ranks", "scores"]
)
def test_ranks_from_one_on_and_scores_of_any_kind_need_no_warning(tmp_path, caplog, read, content):
    (tmp_path / "run").write_text(content)

    read(tmp_path / "run")

    assert caplog.records == []


def test_a_rank_only_run_of_many_blocks_is_warned_of_once(tmp_path, caplog):
    path = tmp_path / "run"
    path.write_text("".join(f"q{i // 100}\tdocument-{i}\t{i % 100 + 2}\n" for i in range(200_000)))

    # more than two blocks; the ranks of each of the 2000 queries are 2 to 101
    assert len(list(read_pieces(path))) > 2
    assert [record.message for record in caplog.records] == [f"{path}: 2000 {ODD}, e.g. 'q0', 'q1', 'q2'"]


@pytest.mark.parametrize("read", [read_rows, lambda path: list(read_pieces(path))], ids=["whole", "pieces"])
def test_a_document_that_is_ranked_twice_is_named_with_its_line(tmp_path, read):
    path = tmp_path / "run.trec"
    path.write_text("p Q0 d 1 2 t\nq Q0 d 1 2 t\n\nq Q0 d 2 1 t\n")

    with pytest.raises(DataError, match=rf"{path}:4: query 'q' has document 'd' for the second time, after line 2"):
        read(path)
