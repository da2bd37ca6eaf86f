"""A process that ended over a piece of work is counted, unless its node is gone."""

from r2med_ray.distributed.attempts import Count


def test_processes_that_ended_are_counted_per_piece_until_one_finishes_it() -> None:
    count = Count(lambda: {"n1", "n2"})

    assert [count.begin("shard 0", "n1"), count.begin("shard 0", "n2"), count.begin("shard 1", "n1")] == [0, 1, 0]
    count.finish("shard 0")
    assert [count.begin("shard 0", "n1"), count.begin("shard 1", "n1")] == [0, 1]


def test_a_process_that_went_with_its_node_is_not_counted() -> None:
    alive = {"n1", "n2"}
    count = Count(lambda: alive)
    count.begin("shard 0", "spot")
    count.begin("shard 0", "n2")

    # Of the two processes, the one on n2 ended by itself.
    assert count.begin("shard 0", "n1") == 1
    alive.remove("n2")
    assert count.begin("shard 0", "n1") == 1
