"""What the store already answers. It reads; the only thing that it writes is what a part asks it to keep."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from r2med_ray.corpus.loading import fetch_documents
from r2med_ray.demands import Ask, Demand, Fetch, Find, Keep, Read, Recall, Score
from r2med_ray.reranking.stored_scores import read_reranking, scores_key
from r2med_ray.retrieval.stored_runs import RUN_FILE, run_from_table, run_key
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.types import Task
from r2med_ray.workbench.lacks import LackingRun, LackingScores, LackingTexts
from r2med_ray.workbench.parts import Part
from r2med_ray.workbench.runner import Runner
from r2med_ray.workbench.texts import Texts, named


class StoredAnswers:
    """Answers demands out of the store.

    Args:
        store: of the artefacts.
        runner: says what names answers: devices, and what scorers are made of.
        fetch: gets a published file of a task.
        may_write: False for a plan, which keeps nothing.
    """

    def __init__(
        self, store: ArtifactStore, runner: Runner, fetch: Callable[[Task, str], Path], *, may_write: bool = True
    ) -> None:
        self._store = store
        self._runner = runner
        self._fetch = fetch
        self._may_write = may_write
        self._texts = Texts(store)

    def look_up(self, part: Part[Any], demand: Demand) -> Any:
        """Return the answer to a demand, or a `Lack` that says what is missing.

        Raises:
            ArtifactError: what is stored is damaged.
            NotAtHand: a published file is not here.
        """
        match demand:
            case Find():
                return self._run(part, demand)
            case Ask():
                return self._texts_of(part, demand)
            case Score():
                return self._scores(part, demand)
            case Read():
                return fetch_documents(self._store, demand.task.corpus, demand.doc_ids)
            case Fetch():
                return self._fetch(demand.task, demand.file)
            case Recall():
                return [self._store.find(key) for key in demand.keys]
            case Keep():
                return self._keep(demand)
        raise AssertionError(f"{demand!r} is no demand")

    def _run(self, part: Part[Any], find: Find) -> Any:
        key = run_key(find.stage.inputs(find.task, self._runner.device), find.queries, find.k)
        artifact = self._store.find(key) if find.keep else None
        if artifact is None:
            return LackingRun(find, key)
        part.artifacts.append(key.name)
        return run_from_table(find.stage.label, find.queries, artifact.table(RUN_FILE))

    def _texts_of(self, part: Part[Any], ask: Ask) -> Any:
        keys = self._texts.keys(ask.model, ask.prompts)
        found = self._texts.find(keys)
        lack = LackingTexts(Ask(model=ask.model, prompts=tuple(named(part.name, ask.prompts))), keys, found)
        return lack.answer() if lack.is_filled else lack

    def _scores(self, part: Part[Any], score: Score) -> Any:
        key = scores_key(self._runner.scoring_inputs(score.scorer), score.candidates, sees_scores=False)
        artifact = self._store.find(key)
        if artifact is None:
            return LackingScores(score, key)
        part.artifacts.append(key.name)
        return read_reranking(artifact)

    def _keep(self, keep: Keep) -> None:
        if self._may_write:
            with self._store.create(keep.key) as writer:
                for name, content in keep.files.items():
                    writer.write(name, content)
