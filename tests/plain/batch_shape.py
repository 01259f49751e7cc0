"""The reference of `sim.engine.batch_shape`: the sums that price a batch, from a walk over all its requests."""

from plain.scheduler import Batch, ContinuousScheduler

from sim.steptime.batch import BatchShape


def batch_shape(batch: Batch, scheduler: ContinuousScheduler, *, count_shared: bool) -> BatchShape:
    """Return the batch in numbers; a row of one token is a decode row, whatever it belongs to.

    `count_shared` asks for the KV tokens that decode rows read more than once between them. Blocks in use are
    counted once, tables count them once a request; the difference is shared, and the decode rows' part of it
    is taken in proportion (exact where all running requests share one prefix).
    """
    tokens = sampled = decode_rows = decode_kv = prefill_kv = 0
    pairs = 0.0
    for _, count, before, samples in batch.scheduled:
        tokens += count
        sampled += samples
        if count == 1:
            decode_rows += 1
            decode_kv += before + 1
        else:
            pairs += count * (before + (count + 1) / 2)
            prefill_kv += before + count
    shared = _shared_tokens(scheduler, decode_rows) if count_shared and decode_rows > 1 else 0.0
    return BatchShape(tokens, sampled, pairs, decode_rows, decode_kv, shared, pairs > 0, prefill_kv)


def _shared_tokens(scheduler: ContinuousScheduler, decode_rows: int) -> float:
    running = scheduler.running
    if len(running) < 2:
        return 0.0
    in_tables = sum(request.num_blocks for request in running)
    saved = max(0, in_tables - (scheduler.pool.usable_blocks - scheduler.pool.num_free))
    return saved * scheduler.config.block_size * (decode_rows - 1) / (len(running) - 1)
