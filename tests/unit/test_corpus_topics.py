import gzip
import json

import pytest

from r2med_ray.corpus.layouts import LAYOUTS, find_files
from r2med_ray.corpus.readers import read_queries
from r2med_ray.corpus.topics import is_trec_topics, read_trec_topics
from r2med_ray.errors import DataError
from r2med_ray.storage.ids import IdReader

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


def queries(path):
    return {query.query_id: query.text for query in read_queries(path, LAYOUTS["trec"], IdReader(path))}


# Two topics in the shape of each track's file; the texts are ours. `corpus.xml_topics` says what is asked.
TRACKS = {
    "clinical trials 2021 and 2022": (
        """<topics task="2021 TREC Clinical Trials">
  <topic number="1">
Patient is a 45-year-old man with a history of
anaplastic astrocytoma, blood pressure &lt; 90.
  </topic>
  <topic number="2">48 M with a cough.</topic>
</topics>
""",
        {
            "1": "Patient is a 45-year-old man with a history of anaplastic astrocytoma, blood pressure < 90.",
            "2": "48 M with a cough.",
        },
    ),
    "clinical trials 2023": (
        """<topics task="2023 TREC Clinical Trials">
<topic number="1" template="glaucoma">
    <field name="definitive diagnosis">open angle</field>
    <field name="intraocular pressure"/>
    <field name="visual acuity">0.3</field>
</topic>
<topic number="2" template="copd"><field name="age"></field></topic>
</topics>
""",
        {"1": "glaucoma; definitive diagnosis: open angle; visual acuity: 0.3", "2": "copd"},
    ),
    "precision medicine 2017": (
        """<?xml version="1.0" encoding="ISO-8859-1"?>
<topics task="2017 TREC Precision Medicine">
  <topic number="1">
    <disease>Liposarcoma</disease>
    <gene>CDK4 Amplification</gene>
    <demographic>38-year-old male</demographic>
    <other>GERD</other>
  </topic>
  <topic number="2">
    <disease>Colon cancer</disease> <gene>KRAS (G13D), BRAF (V600E)</gene>
    <demographic>52-year-old male</demographic> <other>None</other>
  </topic>
</topics>
""",
        {
            "1": "Liposarcoma CDK4 Amplification 38-year-old male GERD",
            "2": "Colon cancer KRAS (G13D), BRAF (V600E) 52-year-old male",
        },
    ),
    "precision medicine 2018 and 2019": (
        """<topics><topic number="1"><disease>melanoma</disease><gene>BRAF (V600E)</gene>
<demographic>64-year-old male</demographic></topic></topics>""",
        {"1": "melanoma BRAF (V600E) 64-year-old male"},
    ),
    "precision medicine 2020": (
        """<topics task="2020 TREC Precision Medicine"><topic number="1"><disease>Colorectal Cancer</disease>
<gene>ABL1</gene><treatment>Regorafenib</treatment></topic></topics>""",
        {"1": "Colorectal Cancer ABL1 Regorafenib"},
    ),
    "covid": (
        """<topics task="COVIDSearch2020" batch="5">
  <topic number="1">
    <query>coronavirus origin</query>
    <question>what is the origin of COVID-19</question>
    <narrative>seeking range of information</narrative>
  </topic>
</topics>""",
        {"1": "what is the origin of COVID-19"},
    ),
    "clinical decision support 2014 to 2016": (
        """<topics><topic number="1" type="diagnosis"><note>pt</note><description>A long case.</description>
<summary>58-year-old woman with <b>chest</b> pain.</summary></topic></topics>""",
        {"1": "58-year-old woman with chest pain."},
    ),
    "health misinformation": (
        """<topics><topic><number>101</number><query>ankle brace achilles tendonitis</query>
<description>Will wearing one help?</description></topic></topics>""",
        {"101": "ankle brace achilles tendonitis"},
    ),
}


@pytest.mark.parametrize("track", TRACKS)
@pytest.mark.parametrize("name", ["topics.xml", "topics.xml.gz"])
def test_topics_of_every_medical_track_are_queries(tmp_path, track, name):
    content, expected = TRACKS[track]
    path = tmp_path / name
    path.write_bytes(gzip.compress(content.encode()) if name.endswith(".gz") else content.encode())

    assert queries(path) == expected


BIOGEN = [
    {"id": 116, "topic": "aspirin", "question": "Does aspirin help?", "narrative": "Long."},
    {"id": 117, "topic": "statins", "question": "Do statins help?", "narrative": "Long."},
]


@pytest.mark.parametrize(
    "content",
    [
        json.dumps({"topics": BIOGEN}, indent=2),
        json.dumps({"topics": BIOGEN}),
        json.dumps({"track": 'a "topics": [1] in a text', "topics": BIOGEN}),
        json.dumps(BIOGEN, indent=2),
        json.dumps(BIOGEN),
        "".join(json.dumps(topic) + "\n" for topic in BIOGEN),
        "".join(json.dumps({"topic_id": topic["id"], **topic}) + "\n" for topic in BIOGEN),
    ],
    ids=["object", "object in one line", "object with more", "list", "list in one line", "lines", "lines of 2025"],
)
def test_topics_of_biogen_ask_their_question(tmp_path, content):
    path = tmp_path / "BioGen2024topics-json.txt"
    path.write_text(content, encoding="utf-8")

    assert queries(path) == {"116": "Does aspirin help?", "117": "Do statins help?"}


def test_the_file_of_biogen_is_found_under_its_own_name(tmp_path):
    for name in ("BioGen2024topics-json.txt", "qrels.txt", "corpus.jsonl"):
        (tmp_path / name).touch()

    assert find_files(tmp_path, "trec", "test").queries.name == "BioGen2024topics-json.txt"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("<topics>\n<topic>a</topic>\n</topics>", r':2: this topic has no number; expected <topic number="1">'),
        ("\n<topics>\n<topic number='1'> </topic></topics>", r":3: topic '1', .*Clinical Trials 2021, has no text"),
        (
            "<topics>\n<topic number='1'><disease> </disease><gene>BRAF</gene></topic></topics>",
            r":2: topic '1', in the layout of TREC's track Precision Medicine, has no <disease>",
        ),
        (
            "<topics><topic number='1'><gist>a</gist></topic></topics>",
            r":1: topic '1' has the fields <gist>; expected those of one of TREC's tracks: Precision Medicine",
        ),
        ("<topics>\n<topic number='1'>a & b</topic></topics>", r":2: the XML topics are damaged: not well-formed"),
        (
            "<queries>\n<q>1</q></queries>",
            r":1: '<queries>' begins no topics; expected <top> blocks .*, XML .*BioGen",
        ),
        ("<topics></topics>", r": holds no queries; expected .*<top> blocks.*Clinical Trials 2023: <field>.*BioGen"),
        ('{"topics": {}}', r': the JSON has no list of topics; expected \{"topics": \[\.\.\.\]\}'),
        (
            f'{{"topics": [{{"n": {"9" * 5000}}}]}}',
            r": a number has more than 4300 digits, which is too long; expected <top> blocks",
        ),
        ('{\n"topics": [', r": is no JSON: .*; expected <top> blocks"),
        ('{"topics": [\n{"id": 1, "question": "a"},\n7]}', r":3: expected a topic as a JSON object, got int"),
        ('{"topics": [\n{"id": 1, "title": "a"}]}', r":2: no field contents or text or question; it has id, title"),
    ],
)
def test_topics_that_can_not_be_read_name_file_line_and_layout(tmp_path, content, message):
    path = tmp_path / "topics.txt"
    path.write_text(content, encoding="utf-8")

    with pytest.raises(DataError, match=rf"topics\.txt{message}"):
        queries(path)


@pytest.mark.parametrize(
    "header", ["topic\tquery", "Topic_ID\tQuestion", "number\ttitle", "query_id\ttext", "qid\tq"]
)
def test_a_header_of_a_tsv_is_no_query(tmp_path, header):
    path = tmp_path / "topics.tsv"
    path.write_text(f"{header}\n1\tfever\n2\trash\n", encoding="utf-8")

    assert queries(path) == {"1": "fever", "2": "rash"}


def test_a_first_query_that_only_looks_like_a_header_is_a_query(tmp_path):
    path = tmp_path / "topics.tsv"
    path.write_text("topic\tfever of unknown origin\n2\trash\n", encoding="utf-8")

    assert queries(path) == {"topic": "fever of unknown origin", "2": "rash"}
