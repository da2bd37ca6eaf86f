"""Checks before anything starts whether a model's needs are at hand: its files, its key, enough memory."""

import importlib.util
import shutil
import subprocess

from r2med_ray.errors import NotAtHand
from r2med_ray.models.catalog.load import Catalog
from r2med_ray.models.catalog.needs import Needs
from r2med_ray.models.catalog.pickles import require_no_pickles
from r2med_ray.models.catalog.row import Row
from r2med_ray.models.catalog.service_keys import api_key
from r2med_ray.models.catalog.sources import require_at_hand
from r2med_ray.models.services.tokenizers import open_tokenizer


class ModelsAtHand:
    """Checks rows of a catalogue; each row is checked once.

    Nothing is loaded or downloaded, with one exception: a service's tokenizer is loaded, because it is small and
    can't be checked otherwise.

    Args:
        catalog: holds the rows that other rows name, e.g. the encoder of a reranker.
        memory_gb: memory of the device that a model gets, in GB. None means that it is not known; it is then not
            checked.
        device: `cpu` or `cuda`.
        ask_hub: whether the Hub is asked for files that are not in its cache.
    """

    def __init__(self, catalog: Catalog, *, memory_gb: float | None, device: str, ask_hub: bool) -> None:
        self._catalog = catalog
        self._memory_gb = memory_gb
        self._device = device
        self._ask_hub = ask_hub
        self._missing: dict[str, NotAtHand | None] = {}

    def require(self, row: object) -> None:
        """Check a row and the rows that it names. A row that is not the catalogue's, such as BM25's, needs nothing.

        Raises:
            NotAtHand: something is missing, or a row lacks its commit; names what is missing.
            ConfigError: a row names a folder without a checkpoint, or weights that are pickles and not allowed.
        """
        if not isinstance(row, Row):
            return
        for each in row.rows_of(self._catalog):
            self._require(each)

    def _require(self, row: Row) -> None:
        key = row.model_dump_json()  # not the name: `compat` makes two rows of one name
        if key not in self._missing:
            try:
                self._check(row, row.needs())
            except NotAtHand as error:
                self._missing[key] = error
            else:
                self._missing[key] = None
        if missing := self._missing[key]:
            raise NotAtHand(missing.what, str(missing))

    def _check(self, row: Row, needs: Needs) -> None:
        for variable in needs.key_variables:
            api_key(variable)
        for tokenizer in needs.tokenizers:
            open_tokenizer(tokenizer.name, tokenizer.revision, ask_hub=self._ask_hub)
        for module in needs.modules:
            if importlib.util.find_spec(module.name) is None:
                raise NotAtHand(module.called, module.how)
        for checkpoint in needs.checkpoints:
            folder = require_at_hand(checkpoint.name, checkpoint.revision, ask_hub=self._ask_hub)
            if folder is not None and not row.may_read_pickles:
                require_no_pickles(f"model {row.name!r}", folder)
        if needs.memory_gb is not None and self._memory_gb is not None:
            self._require_memory(row.name, needs.memory_gb / needs.workers, needs.workers, self._memory_gb)

    def _require_memory(self, name: str, share_gb: float, workers: int, there_gb: float) -> None:
        if share_gb > there_gb:
            node = "" if self._device == "cuda" else " or a node"
            on_each = f" on each of {workers}" if workers > 1 else ""
            raise NotAtHand(
                f"a GPU{node} with {share_gb:g} GB",
                f"{name} takes about {share_gb:g} GB{on_each}, and the device {self._device!r} has {there_gb:.1f}",
            )


def gpu_memory_gb() -> float | None:
    """Return the memory of this machine's smallest GPU in GB, as the GPU's driver states it; None without a GPU."""
    command = shutil.which("nvidia-smi")
    if command is None:
        return None
    asked = [command, "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    answer = subprocess.run(asked, capture_output=True, text=True, check=False)
    sizes = [float(line) for line in answer.stdout.split() if answer.returncode == 0]
    return min(sizes) / 1024 if sizes else None
