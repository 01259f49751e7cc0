"""A load as inference-perf's `conversation_replay`: distributions of conversations, and stages of how many at once.

The tool draws conversations of its own from the distributions: the load is the same in kind, not turn by turn.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from workloads.agent import AgentWorkload
from workloads.errors import WorkloadError
from workloads.export.blocks import BlockNames
from workloads.export.conversation import Conversation, flattened
from workloads.export.shape import Shape, shape_from, shape_of
from workloads.export.summary import Summary, counted

_PROBE_TOKENS = 16  # blocks in which a shared front is looked for


class Conversations(NamedTuple):
    """How conversations are drawn; `mean_turns` is what a stage's requests are counted by."""

    shared_tokens: int
    own_tokens: Shape | None  # of the prompt's front, beside the turns
    turns: Shape
    input_tokens: Shape
    output_tokens: Shape
    pause_s: Shape | None
    mean_turns: float


class Stage(NamedTuple):
    """So many conversations at once, until so many requests were sent."""

    sessions: int
    requests: int


def check_answers_return(workload: object) -> None:
    """Raise WorkloadError if answers do not come back in the next prompt, as they always do in tools that talk."""
    if not getattr(workload, "keeps_output", True):
        raise WorkloadError(
            "keeps_output is false, and this tool always sends answers back; mooncake and weka hold such prompts"
        )


def of_workload(workload: AgentWorkload) -> Conversations:
    """Return the distributions a workload draws from; raises WorkloadError for one that the tool has no name for."""
    pauses = workload.think_s.mean > 0
    return Conversations(
        shared_tokens=workload.shared_prefix_tokens,
        own_tokens=None,
        turns=shape_of(workload.turns, 1),
        input_tokens=shape_of(workload.new_tokens, 1),
        output_tokens=shape_of(workload.output_tokens, 1),
        pause_s=shape_of(workload.think_s, 0) if pauses else None,
        mean_turns=workload.turns.mean,
    )


def fitted(sessions: Sequence[Conversation], summary: Summary) -> Conversations:
    """Return distributions with the means and deviations of recorded sessions, subagents among them."""
    every = list(flattened(sessions))
    shared = _shared_front(every)
    new, pauses, unknown = [], [], 0
    for session in every:
        for number, turn in enumerate(session.turns):
            summary.add(turn)
            if number:
                before = session.turns[number - 1]
                new.append(turn.prompt_tokens - before.prompt_tokens - before.output_tokens)
                pause = session.think_s(number)
                unknown += pause is None
                pauses += [] if pause is None else [pause]
    if unknown:
        summary.note(counted(unknown, len(new), "pauses are not told by the trace and left out"))
    shrinking = sum(1 for tokens in new if tokens < 1)
    if shrinking:
        summary.note(
            counted(shrinking, len(new), "turns add less than the answer before them: they count as adding 1 token")
        )
    added = [max(tokens, 1) for tokens in new] or [1]
    typical = sorted(added)[len(added) // 2]
    own = [max(session.turns[0].prompt_tokens - shared - typical, 0) for session in every]
    turns = [float(len(session.turns)) for session in every]
    return Conversations(
        shared_tokens=shared,
        own_tokens=shape_from(own, 0) if any(own) else None,
        turns=shape_from(turns, 1),
        input_tokens=shape_from(added, 1),
        output_tokens=shape_from([turn.output_tokens for session in every for turn in session.turns], 1),
        pause_s=shape_from(pauses, 0) if any(pauses) else None,
        mean_turns=sum(turns) / len(turns),
    )


def _shared_front(sessions: Sequence[Conversation]) -> int:
    """Return what most sessions have in common with one before them at their start."""
    names = BlockNames(_PROBE_TOKENS)
    hits = sorted(names.of(session.turns[0]).hit_tokens for session in sessions)
    return hits[len(hits) // 2] if len(hits) > 1 else sessions[0].turns[0].shared_tokens


def replay_document(
    conversations: Conversations,
    stages: Sequence[Stage],
    *,
    model: str,
    sessions: int,
    seed: int,
    max_model_len: int | None,
) -> dict[str, Any]:
    """Return the tool's whole configuration, for a server on this machine's port 8000."""
    drawn = {
        "dynamic_system_prompt_len": conversations.own_tokens,
        "turns_per_conversation": conversations.turns,
        "input_tokens_per_turn": conversations.input_tokens,
        "output_tokens_per_turn": conversations.output_tokens,
        "tool_call_latency_sec": conversations.pause_s,
    }
    replay: dict[str, Any] = {
        "seed": seed,
        "num_conversations": sessions,
        "shared_system_prompt_len": conversations.shared_tokens,
        **{name: shape for name, shape in drawn.items() if shape is not None},
    }
    if max_model_len is not None:
        replay["max_model_len"] = max_model_len
    return {
        "load": {
            "type": "concurrent",
            "stages": [{"num_requests": stage.requests, "concurrency_level": stage.sessions} for stage in stages],
        },
        "api": {"type": "completion", "streaming": True},
        "server": {
            "type": "vllm",
            "model_name": model,
            "base_url": "http://localhost:8000",
            "ignore_eos": True,
        },
        "tokenizer": {"pretrained_model_name_or_path": model},
        "data": {"type": "conversation_replay", "conversation_replay": replay},
    }
