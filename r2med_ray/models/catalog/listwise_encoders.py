"""The rows of rerankers that search a second time: an encoder reads the query together with the best candidates."""

from collections.abc import Mapping

from pydantic import Field

from r2med_ray.models.catalog.encoders import EncoderRow
from r2med_ray.models.catalog.needs import Needs
from r2med_ray.models.catalog.row import Row


class ListwiseEncoderRow(Row):
    """An encoder that makes one more vector per query: of a prompt that shows the query with its best candidates.

    The candidates are ordered by their own vectors, which the same encoder has made; see `reranking.second_query`.
    """

    encoder: str
    """The catalogue's name of the encoder."""

    shown: int = Field(default=20, ge=1)
    """How many of the candidates the prompt shows. All of them are ordered."""

    passage_words: int = Field(default=300, ge=1)
    """Words of a passage that the prompt shows."""

    prefix: str = ""
    """The text before the prompt: marks of the encoder's chat template."""

    suffix: str = ""
    """The text after the prompt. The last of its tokens ends the text: no end token is added."""

    max_length: int = Field(default=8192, ge=2)
    """Tokens kept of the prompt, with the texts around it."""

    prompt: str | None = None
    """The name of a shipped prompt file, or the path of one of your own, from the folder of this file on, as in a row
    of `llm_rerankers`. If left out, it is `second-query`."""

    @property
    def named_rows(self) -> Mapping[str, str]:
        return {"encoders": self.encoder}

    def needs(self) -> Needs:
        return Needs()

    @property
    def how(self) -> str:
        return f"second query with {self.shown} candidates"

    @property
    def shown_model(self) -> str:
        return self.encoder

    @property
    def shown_length(self) -> str:
        return str(self.max_length)

    @property
    def shown_license(self) -> str:
        return ""

    @property
    def shown_memory(self) -> str:
        return ""

    def reads(self, encoder: EncoderRow) -> EncoderRow:
        """Return the row of the encoder as it reads the prompt: as it stands, without a prompt of its own."""
        changes = {"query_prompt": "", "query_max_length": self.max_length, "append_eos": False, "end_token": ""}
        return encoder.model_copy(update=changes)
