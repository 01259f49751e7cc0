"""Sessions as AIPerf's multi-turn rows: the first row whole, those after it only what is new, ms to wait before each.

The server's own answer joins the context there, so a format row cannot say that an answer, or anything before it,
leaves the context again.
"""

from collections.abc import Iterator, Sequence

from workloads.errors import WorkloadError
from workloads.export.blocks import BlockNames
from workloads.export.conversation import Conversation, flattened
from workloads.export.mooncake import Row, milliseconds
from workloads.export.summary import Summary, counted


def agentic_rows(
    sessions: Sequence[Conversation], names: BlockNames, summary: Summary, *, clock: bool
) -> Iterator[Row]:
    """Yield the rows, one session after another; `clock`: times of sessions count from one start.

    Raises WorkloadError where no turn has a pause before it, since then nobody can tell when to send any.
    """
    clipped = unknown = further = 0
    flat = list(flattened(sessions))
    if clock:  # readers want times to ascend, and a subagent may begin after the next session
        flat.sort(key=lambda session: session.turns[0].at_s or 0.0)
    for session in flat:
        context = 0
        for number, request in enumerate(session.turns):
            row: Row = {"session_id": session.name, "input_length": request.prompt_tokens}
            if number:
                new = request.prompt_tokens - context
                row["input_length"] = max(new, 1)
                row["output_length"] = request.output_tokens
                row["hash_ids"] = names.fresh(max(new, 1), (session.name, number))
                think_s = session.think_s(number)
                row["delay"] = milliseconds(think_s or 0.0)
                further, clipped, unknown = further + 1, clipped + (new < 1), unknown + (think_s is None)
                hit_tokens = min(session.turns[number - 1].prompt_tokens, request.prompt_tokens)
            else:
                row["output_length"] = request.output_tokens
                row["hash_ids"], hit_tokens = names.of(request)
                if clock and request.at_s is not None:
                    row["timestamp"] = milliseconds(request.at_s)
            summary.add(request, hit_tokens)
            context = max(request.prompt_tokens, context + 1) + request.output_tokens
            yield row
        if session.children:
            summary.note("subagents are sessions of their own, which nobody waits for")
    if unknown and unknown == further:
        raise WorkloadError(
            "how long clients waited before their next turn is not told, and these rows need it; mooncake rows go by "
            "times alone"
        )
    if unknown:
        summary.note(f"{counted(unknown, further, 'pauses are not told')}: they are 0")
    if clipped:
        share = counted(clipped, further, "turns add less than the answer before them")
        summary.note(f"{share}, which these rows always keep: their prompts come out longer than they were")
