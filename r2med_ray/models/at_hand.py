"""Whether what a model needs is at hand before anything starts: its files, its key, a device that holds it."""

import importlib.util
import shutil
import subprocess
from collections.abc import Mapping

from r2med_ray.errors import NotAtHand
from r2med_ray.models.catalog.api_rows import ApiEncoderRow
from r2med_ray.models.catalog.catalog import Catalog
from r2med_ray.models.catalog.llm_reranker_rows import LlmRerankerRow
from r2med_ray.models.catalog.llm_rows import LanguageModelRow
from r2med_ray.models.catalog.rows import Row
from r2med_ray.models.catalog.sources import require_at_hand
from r2med_ray.models.services.api_calls import api_key
from r2med_ray.models.services.api_tokenizers import open_tokenizer

CHECKPOINTS: Mapping[str, str] = {
    "model": "revision",
    "document_model": "document_revision",
    "adapter": "adapter_revision",
}
"""Key of a row that names a checkpoint → the key with its commit."""

HOW_TO_GET_VLLM = (
    "install 'r2med-ray[llm]' on GPUs or 'r2med-ray[llm-cpu]' without, or give the model the `base_url` of a service"
)


class ModelsAtHand:
    """Answers for the rows of a catalogue; what a model lacks is found out once.

    No checkpoint is loaded or downloaded. A service's tokenizer is, for it is small and nothing else tells of it.

    Args:
        catalog: has the encoders that rerankers name.
        memory_gb: of the device that a model gets; None where it is not known, and then it is not asked for.
        device: `cpu` or `cuda`.
        ask_hub: also ask the Hub for what is not cached.
    """

    def __init__(self, catalog: Catalog, *, memory_gb: float | None, device: str, ask_hub: bool) -> None:
        self._catalog = catalog
        self._memory_gb = memory_gb
        self._device = device
        self._ask_hub = ask_hub
        self._missing: dict[str, NotAtHand | None] = {}

    def require(self, row: object) -> None:
        """Check a row; one that is none of the catalogue's, such as BM25's, needs nothing.

        Raises:
            NotAtHand: names what is missing, a row's commit included.
            ConfigError: a row names a folder without a checkpoint.
        """
        if not isinstance(row, Row):
            return
        key = row.model_dump_json()  # one name stands for two rows where `compat` changes it
        if key not in self._missing:
            try:
                self._check(row)
            except NotAtHand as error:
                self._missing[key] = error
            else:
                self._missing[key] = None
        if missing := self._missing[key]:
            raise NotAtHand(missing.what, str(missing))

    def _check(self, row: Row) -> None:
        if encoder := getattr(row, "encoder", None):
            self._check(self._catalog.encoders[encoder])
        elif isinstance(row, LlmRerankerRow):
            self._check(self._catalog.language_models[row.language_model])
        elif isinstance(row, LanguageModelRow) and row.is_served:
            _require_vllm(row)
            require_at_hand(row.model, row.revision, ask_hub=self._ask_hub)
            self._require_memory(row, shared_by=row.workers)
        elif hasattr(row, "key_variable"):
            api_key(row.key_variable)
            if isinstance(row, ApiEncoderRow):
                open_tokenizer(row.tokenizer, row.revision, ask_hub=self._ask_hub)
        else:
            for model, revision in CHECKPOINTS.items():
                if name := getattr(row, model, None):
                    require_at_hand(name, getattr(row, revision), ask_hub=self._ask_hub)
            self._require_memory(row)

    def _require_memory(self, row: Row, *, shared_by: int = 1) -> None:
        share = row.memory_gb / shared_by
        if self._memory_gb is not None and share > self._memory_gb:
            node = "" if self._device == "cuda" else " or a node"
            on_each = f" on each of {shared_by}" if shared_by > 1 else ""
            raise NotAtHand(
                f"a GPU{node} with {share:g} GB",
                f"{row.name} takes about {share:g} GB{on_each}, and the device {self._device!r} has "
                f"{self._memory_gb:.1f}",
            )


def _require_vllm(row: LanguageModelRow) -> None:
    if importlib.util.find_spec("vllm") is None:
        raise NotAtHand("vLLM", f"language model {row.name!r} is to be served: {HOW_TO_GET_VLLM}")


def gpu_memory_gb() -> float | None:
    """Return the memory of this machine's smallest GPU as its driver states it; None where it has no GPU."""
    command = shutil.which("nvidia-smi")
    if command is None:
        return None
    asked = [command, "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    answer = subprocess.run(asked, capture_output=True, text=True, check=False)
    sizes = [float(line) for line in answer.stdout.split() if answer.returncode == 0]
    return min(sizes) / 1024 if sizes else None
