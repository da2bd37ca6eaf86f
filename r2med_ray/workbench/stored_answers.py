"""What the store already answers. It reads; the only thing that it writes is what a part asks it to keep."""

from collections.abc import Callable
from pathlib import Path

from r2med_ray.corpus.loading import fetch_documents
from r2med_ray.demands import Ask, Demand, Fetch, Find, Keep, Read, Recall, Score
from r2med_ray.errors import OwnCodeError
from r2med_ray.first_stages.stored_cuts import run_cuts
from r2med_ray.first_stages.stored_speed import speeds_of
from r2med_ray.reranking.stored_scores import read_reranking, scores_key
from r2med_ray.retrieval.stored_runs import RUN_FILE, run_from_table, run_key
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.storage.listing import seconds_noted
from r2med_ray.types import Task
from r2med_ray.workbench.answers import Answer, KnownAnswer, RunAnswer, ScoresAnswer, TextsAnswer
from r2med_ray.workbench.runner import Runner
from r2med_ray.workbench.texts import Texts, named


class StoredAnswers:
    """Answers demands out of the store.

    Args:
        store: where artefacts are kept.
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
        self._texts = Texts(store, may_write=may_write)

    def look_up(self, part: str, demand: Demand) -> Answer:
        """Return the answer to a demand, as far as the store has it.

        Args:
            part: the name of the part that demands it.
            demand: anything but an `Expect`.

        Raises:
            ArtifactError: what is stored is damaged.
            DataError: documents are not in the corpus.
            NotAtHand: a published file is not here.
        """
        match demand:
            case Find():
                return self._run(demand)
            case Ask():
                keys = self._texts.keys(demand.model, demand.prompts)
                asked = Ask(model=demand.model, prompts=tuple(named(part, demand.prompts)))
                return TextsAnswer(asked, keys, self._texts.find(keys))
            case Score():
                return self._scores(demand)
            case Read():
                return KnownAnswer(fetch_documents(self._store, demand.task.corpus, demand.doc_ids))
            case Fetch():
                return KnownAnswer(self._fetch(demand.task, demand.file))
            case Recall():
                return KnownAnswer(self._store.find_all(demand.keys))
            case Keep():
                self._keep(demand)
                return KnownAnswer(None)
        raise OwnCodeError(f"{demand!r:.80} is no demand; a part yields what `r2med_ray.demands.Demand` lists")

    def _run(self, find: Find) -> RunAnswer:
        key = run_key(find.first_stage.inputs(find.task, self._runner.device), find.queries, find.k, find.among)
        artifact = self._store.find(key) if find.keep else None
        if artifact is None:
            return RunAnswer(find, key)
        run = run_from_table(find.first_stage.label, find.queries, artifact.table(RUN_FILE))
        answer = RunAnswer(find, key, run)
        answer.cuts = run_cuts(find.first_stage, find.queries, artifact)
        answer.seconds = seconds_noted("search", artifact)
        return answer

    def _scores(self, score: Score) -> ScoresAnswer:
        key = scores_key(self._runner.scoring_inputs(score.scorer), score.candidates, sees_scores=False)
        artifact = self._store.find(key)
        answer = ScoresAnswer(score, key, read_reranking(artifact) if artifact else None)
        if artifact:
            answer.speeds, answer.seconds = speeds_of(artifact), seconds_noted("rerank", artifact)
        return answer

    def _keep(self, keep: Keep) -> None:
        if self._may_write:
            with self._store.create(keep.key) as writer:
                for name, content in keep.files.items():
                    writer.write(name, content)
