"""Terms as NanoR2MED's BM25 lists have them."""

import subprocess
import sys

from nltk.stem import PorterStemmer

from r2med_ray.indexing.analyzers import ANALYZERS
from r2med_ray.indexing.porter_stop import ANALYZER, STOP_WORDS

analyze = ANALYZERS[ANALYZER].analyze


def test_the_list_has_74_lower_case_words() -> None:
    assert len(STOP_WORDS) == 74
    assert all(word.isascii() and word == word.lower() for word in STOP_WORDS)


def test_only_ascii_letters_and_digits_make_a_token() -> None:
    # The apostrophe ends a token, so "s" is a token of one letter. "β" and "é" don't count as letters here.
    assert analyze("The patient's IL-6, naïve β-cells x") == ["patient", "s", "il", "6", "na", "ve", "cell", "x"]


def test_stop_words_go_before_stemming() -> None:
    # "hers" is a stop word. "hering" is none, although stemming first cuts it to "her", so its stem stays.
    assert analyze("Hers WAS hering not") == ["here", "not"]


def test_the_stemmer_is_nltks_in_its_default_mode() -> None:
    # NLTK's own list turns "dying" into "die". Porter's rules, and Lucene's, turn it into "dy".
    assert analyze("dying skies generalizations") == ["die", "sky", "gener"]
    assert analyze("dying") == [PorterStemmer().stem("dying")]
    assert ANALYZERS["lucene-english-1"].analyze("dying") == ["dy"]


def test_nltk_is_not_imported_before_the_first_word_is_stemmed() -> None:
    program = "import sys; import r2med_ray.indexing.bm25; assert 'nltk' not in sys.modules"

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
