import pytest

from r2med_ray.corpus.topics import is_trec_topics, read_trec_topics
from r2med_ray.errors import DataError

TOPICS = """
<top>
<num> Number: 301
<title> Topic: International
  Organized Crime, p < 0.05
<desc> Description:
Not read.
</top>

<top><num>302</num><title>Poliomyelitis</title></top>
"""


def test_topics_are_read_with_and_without_closing_tags(tmp_path):
    path = tmp_path / "topics.txt"
    path.write_text(TOPICS, encoding="utf-8")

    assert is_trec_topics(path)
    assert list(read_trec_topics(path)) == [
        (2, "301", "International Organized Crime, p < 0.05"),
        (10, "302", "Poliomyelitis"),
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("\n<top>\n<num>1\n<title> \n</top>", r"topics\.txt:2: the topic that starts here has no <title>"),
        ("<top>\n<num> Number:\n<title>a\n</top>", r"topics\.txt:1: the topic that starts here has no <num>"),
        ("<top>\n<num>1\n<title>a\n", r"topics\.txt:1: the topic that starts here has no </top>"),
        ("<top>\n<num>1\n<title>a\n<top>\n", r"topics\.txt:4: <top> inside the topic that starts in line 1"),
    ],
)
def test_a_topic_that_lacks_something_is_named(tmp_path, content, message):
    path = tmp_path / "topics.txt"
    path.write_text(content, encoding="utf-8")

    with pytest.raises(DataError, match=message):
        list(read_trec_topics(path))
