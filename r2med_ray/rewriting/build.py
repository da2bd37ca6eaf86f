"""Builds the rewriter of one system for one task, as the row of its method says."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from r2med_ray.chat import LanguageModel
from r2med_ray.demands import QueryRewriter
from r2med_ray.errors import ConfigError
from r2med_ray.first_stage import FirstStage
from r2med_ray.rewriting.agents.search_agents import CONDENSE_PLACES, START_PLACES, SearchAgent
from r2med_ray.rewriting.live import LiveRewriter
from r2med_ray.rewriting.methods import BuildRewriter, Kind, Method, spelled
from r2med_ray.rewriting.own_rewriters import OwnRewriter
from r2med_ray.rewriting.prompts import PromptTask, load_prompt, load_shared_prompt
from r2med_ray.rewriting.published_limits import require_published_use
from r2med_ray.rewriting.replay import ReplayRewriter
from r2med_ray.settings.compat import Rules
from r2med_ray.settings.config import RewriterConfig
from r2med_ray.types import Task


def build_rewriter(
    config: RewriterConfig,
    *,
    task: Task,
    method: Method,
    model: LanguageModel | None,
    in_place: bool,
    tool: FirstStage | None,
    tool_inputs: Mapping[str, Any],
    rules: Rules,
    prompt: PromptTask,
    can_fetch: bool,
    system: str,
) -> QueryRewriter:
    """Return the rewriter of a system's queries.

    Args:
        config: the rewriter's settings in the benchmark file.
        task: the task whose queries are rewritten.
        method: the row of `config.method`.
        model: the row of `config.llm`; None if texts are replayed.
        in_place: whether the model's server lets the model go on within its own message.
        tool: the first stage that the model searches with, or whose results the model is shown; None for neither.
        tool_inputs: everything that changes what the tool finds, for artefact keys.
        rules: which side of each difference is used.
        prompt: the values by which the prompt is chosen.
        can_fetch: whether published texts can be fetched for the task.
        system: name of the system, for errors.

    Raises:
        ConfigError: a prompt, a generation set or a setting is wrong.
        NotAtHand: the generation set is not on this machine, and can't be fetched.
        OwnCodeError: the user's class that is the rewriter raised an error.
    """
    require_published_use(spelled(config.method), method.use, rules)
    if config.generations is not None:
        return ReplayRewriter(config, task=task, method=method, rules=rules, can_fetch=can_fetch)
    build = _BUILD[method.kind] if method.build is None else partial(OwnRewriter, method.build)
    return build(
        config,
        task=task,
        method=method,
        model=model,
        in_place=in_place,
        tool=tool,
        tool_inputs=tool_inputs,
        rules=rules,
        prompt=prompt,
        can_fetch=can_fetch,
        system=system,
    )


def _live(
    config: RewriterConfig,
    *,
    task: Task,
    method: Method,
    model: LanguageModel | None,
    tool: FirstStage | None,
    rules: Rules,
    prompt: PromptTask,
    **_: Any,
) -> LiveRewriter:
    return LiveRewriter(
        config,
        task=task,
        method=method,
        model=_given(model, config),
        prompt=load_prompt(spelled(config.method), prompt, method.places, config.prompts),
        tool=tool,
        rules=rules,
    )


def _agent(
    config: RewriterConfig,
    *,
    task: Task,
    method: Method,
    model: LanguageModel | None,
    in_place: bool,
    tool: FirstStage | None,
    tool_inputs: Mapping[str, Any],
    rules: Rules,
    system: str,
    **_: Any,
) -> SearchAgent:
    if tool is None:
        raise ConfigError(f"rewriter {spelled(config.method)}: it needs a tool, `agent: {{retriever: bm25}}`")
    return SearchAgent(
        config,
        task=task,
        method=method,
        model=_given(model, config),
        tool=tool,
        tool_inputs=tool_inputs,
        start=load_shared_prompt(spelled(config.method), START_PLACES, config.prompts),
        condense=load_shared_prompt("condense", CONDENSE_PLACES, config.prompts),
        in_place=in_place,
        rules=rules,
        system=system,
    )


_BUILD: Mapping[Kind, BuildRewriter] = {"live": _live, "agent": _agent}


def _given(model: LanguageModel | None, config: RewriterConfig) -> LanguageModel:
    if model is None:
        raise ConfigError(f"rewriter {spelled(config.method)}: it needs a language model, `llm: NAME`")
    return model
