"""The plain reference loop: continuous batching without any feature, walking its lists once a step.

No cache, no blocks, no preemption, no records, no clock but a sum: what a first afternoon's simulator does. Rates
beside it tell a slow simulator from a slow machine.
"""

from collections import deque
from collections.abc import Sequence

from bench.requests import Row

STEP_S, TOKEN_S, KV_TOKEN_S = 0.01, 3e-5, 1e-8


def generated_tokens(rows: Sequence[Row], max_num_batched_tokens: int = 2048, max_num_seqs: int = 256) -> int:
    """Replay a trace; return how many tokens came out."""
    now_s, arrived, generated = 0.0, 0, 0
    waiting: deque[list[int]] = deque()  # tokens to prefill, to generate, in the cache
    running: list[list[int]] = []
    while arrived < len(rows) or waiting or running:
        if not waiting and not running:
            now_s = max(now_s, rows[arrived].arrival_s)
        while arrived < len(rows) and rows[arrived].arrival_s <= now_s:
            waiting.append([rows[arrived].prompt_tokens, rows[arrived].output_tokens, 0])
            arrived += 1
        budget, kv_tokens = max_num_batched_tokens, 0
        for request in running:
            chunk = min(request[0], budget) if request[0] else 1
            if request[0]:
                request[0] -= chunk
            else:
                kv_tokens += request[2]
            request[2] += chunk
            budget -= chunk
            if not request[0]:
                request[1] -= 1
                generated += 1
        while waiting and budget > 0 and len(running) < max_num_seqs:
            request = waiting.popleft()
            running.append(request)
            chunk = min(request[0], budget)
            request[0] -= chunk
            request[2] += chunk
            budget -= chunk
            if not request[0]:
                request[1] -= 1
                generated += 1
        now_s += STEP_S + (max_num_batched_tokens - budget) * TOKEN_S + kv_tokens * KV_TOKEN_S
        running = [request for request in running if request[0] or request[1]]
    return generated
