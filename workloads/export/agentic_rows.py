"""Sessions as AIPerf's multi-turn rows: the first row whole, those after it only what is new, ms to wait before each.

The server's own answer joins the context there, so a format row cannot say that an answer, or anything before it,
leaves the context again.
"""

from collections.abc import Iterable, Iterator

from workloads.errors import WorkloadError
from workloads.export.blocks import BlockNames
from workloads.export.conversation import Conversation, flattened
from workloads.export.mooncake import Row, milliseconds
from workloads.export.summary import Summary, counted


def agentic_rows(
    sessions: Iterable[Conversation], names: BlockNames, summary: Summary, *, clock: bool
) -> Iterator[Row]:
    """Yield the rows, one session after another; `clock`: times of sessions count from one start.

    Raises WorkloadError where a turn has no pause before it, since then nobody can tell when to send it.
    """
    clipped = turns = 0
    for session in flattened(sessions):
        context = 0
        name = session.name if session.turns[0].file is None else f"{session.turns[0].file}:{session.name}"
        for number, request in enumerate(session.turns):
            think_s = session.think_s(number)
            row: Row = {"session_id": name, "input_length": request.prompt_tokens}
            hit_tokens = 0
            if number:
                if think_s is None:
                    raise WorkloadError(
                        f"session {session.name[:60]!r}, turn {number + 1}: how long its client waited is not told, "
                        "and these rows need it; mooncake rows go by times alone"
                    )
                new = request.prompt_tokens - context
                turns += 1
                clipped += new < 1
                row["input_length"] = max(new, 1)
                row["output_length"] = request.output_tokens
                row["hash_ids"] = names.fresh(max(new, 1), (request.file, session.name, number))
                row["delay"] = milliseconds(think_s)
                hit_tokens = min(context, request.prompt_tokens)
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
    if clipped:
        share = counted(clipped, turns, "turns add less than the answer before them")
        summary.note(f"{share}, which these rows always keep: their prompts come out longer than they were")
