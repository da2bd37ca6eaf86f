"""What trec_eval passes over in a run file: comments, and the fields after the tag. See `as_trec_eval`."""

import logging
from collections.abc import Iterable, Iterator
from pathlib import Path

_LOG = logging.getLogger(__name__)
_NUM_FIELDS = 6


def as_trec_eval_reads(path: Path, blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield blocks of whole lines without what trec_eval passes over. A comment becomes an empty line.

    One warning counts the comments and the lines that were cut after their tag.
    """
    num_comments = num_cut = 0
    for block in blocks:
        lines = block.split(b"\n")
        for index, line in enumerate(lines):
            fields = line.split()
            if line.lstrip().startswith(b"#"):
                lines[index] = b""
                num_comments += 1
            elif len(fields) > _NUM_FIELDS:
                lines[index] = b" ".join(fields[:_NUM_FIELDS])
                num_cut += 1
        yield b"\n".join(lines)
    if num_comments or num_cut:
        _LOG.warning(
            "%s: %d comments and the fields after the tag of %d lines were passed over", path, num_comments, num_cut
        )
