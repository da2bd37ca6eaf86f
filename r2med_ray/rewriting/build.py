"""Builds the rewriter of one system for one task, as the row of its method says."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Unpack

from r2med_ray.chat import LanguageModel
from r2med_ray.demands import QueryRewriter
from r2med_ray.errors import ConfigError
from r2med_ray.first_stage import FirstStage
from r2med_ray.rewriting.agents.ranking_agent import RankingAgent
from r2med_ray.rewriting.agents.search_agents import CONDENSE_PLACES, START_PLACES, SearchAgent
from r2med_ray.rewriting.live import LiveRewriter
from r2med_ray.rewriting.methods import METHODS, BuildRewriter, Kind, Method, RewriterArguments, spelled
from r2med_ray.rewriting.own_rewriters import OwnRewriter
from r2med_ray.rewriting.prompts import load_prompt, load_shared_prompt
from r2med_ray.rewriting.published_limits import require_one_text, require_published_use
from r2med_ray.rewriting.replay import ReplayRewriter
from r2med_ray.rewriting.rounds import WITHOUT_LIMIT, Rounds
from r2med_ray.settings.rewriter import RewriterConfig


def build_rewriter(config: RewriterConfig, **about: Unpack[RewriterArguments]) -> QueryRewriter:
    """Return the rewriter of a system's queries.

    Args:
        config: the rewriter's settings in the benchmark file.
        about: see `RewriterArguments`.

    Raises:
        ConfigError: a prompt, a generation set or a setting is wrong.
        NotAtHand: the generation set is not on this machine, and can't be fetched.
        OwnCodeError: the user's class that is the rewriter raised an error.
    """
    method, rules = about["method"], about["rules"]
    require_published_use(spelled(config.method), method.use, rules)
    if config.generations is not None:
        can_fetch = about["can_fetch"]
        return ReplayRewriter(config, task=about["task"], method=method, rules=rules, can_fetch=can_fetch)
    build = _BUILD[method.kind] if method.build is None else partial(OwnRewriter, method.build)
    return build(config, **about)


def _live(config: RewriterConfig, **about: Unpack[RewriterArguments]) -> LiveRewriter | Rounds:
    turns = _turns(config, about["method"])
    require_one_text(spelled(config.method), config.samples * len(turns), about["rules"])
    if len(turns) == 1:
        return _writer(config, about["method"], about)
    steps = [
        _writer(config.model_copy(update={**WITHOUT_LIMIT, "method": name}), method, about) for name, method in turns
    ]
    return Rounds(config, steps, task=about["task"].name)


def _turns(config: RewriterConfig, method: Method) -> Sequence[tuple[str, Method]]:
    """Return name and row of the method of each text that is written for a query, in their order."""
    own = method.turns(config) - bool(method.then)
    return [(config.method, method)] * own + ([(method.then, METHODS[method.then])] if method.then else [])


def _writer(config: RewriterConfig, method: Method, about: RewriterArguments) -> LiveRewriter:
    return LiveRewriter(
        config,
        task=about["task"],
        method=method,
        model=_given(about["model"], config),
        prompt=load_prompt(spelled(config.method), about["prompt"], method.places, config.prompts),
        tool=about["tool"],
        rules=about["rules"],
    )


def _agent(config: RewriterConfig, **about: Unpack[RewriterArguments]) -> SearchAgent:
    return SearchAgent(
        config,
        task=about["task"],
        method=about["method"],
        model=_given(about["model"], config),
        tool=_tool(about["tool"], config),
        tool_inputs=about["tool_inputs"],
        start=load_shared_prompt(spelled(config.method), START_PLACES, config.prompts),
        condense=load_shared_prompt("condense", CONDENSE_PLACES, config.prompts),
        in_place=about["in_place"],
        rules=about["rules"],
        system=about["system"],
    )


def _ranker(config: RewriterConfig, **about: Unpack[RewriterArguments]) -> RankingAgent:
    return RankingAgent(
        config,
        task=about["task"],
        model=_given(about["model"], config),
        tool=_tool(about["tool"], config),
        tool_inputs=about["tool_inputs"],
        start=load_prompt(spelled(config.method), about["prompt"], START_PLACES, config.prompts),
        system=about["system"],
    )


_BUILD: Mapping[Kind, BuildRewriter] = {"live": _live, "agent": _agent, "ranker": _ranker}


def _tool(tool: FirstStage | None, config: RewriterConfig) -> FirstStage:
    if tool is None:
        raise ConfigError(f"rewriter {spelled(config.method)}: it needs a tool, `agent: {{retriever: bm25}}`")
    return tool


def _given(model: LanguageModel | None, config: RewriterConfig) -> LanguageModel:
    if model is None:
        raise ConfigError(f"rewriter {spelled(config.method)}: it needs a language model, `llm: NAME`")
    return model
