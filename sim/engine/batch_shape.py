"""From a scheduled batch to the sums that price it."""

from sim.scheduling.batch import Batch
from sim.scheduling.continuous import ContinuousScheduler
from sim.steptime.batch import BatchShape


def batch_shape(batch: Batch, scheduler: ContinuousScheduler, *, count_shared: bool) -> BatchShape:
    """Return the batch in numbers; a row of one token is a decode row, whatever it belongs to.

    `count_shared` asks for the KV tokens that decode rows read more than once between them.
    """
    decode_rows, decode_kv = batch.rows, batch.kv_tokens
    tokens = decode_rows + batch.padding_tokens
    sampled = decode_rows
    prefill_kv = 0
    pairs = batch.padding_pairs
    for entry in batch.scheduled:
        count, before = entry.tokens, entry.computed_before
        tokens += count
        sampled += entry.samples
        if count == 1:
            decode_rows += 1
            decode_kv += before + 1
        else:
            pairs += count * (before + (count + 1) / 2)
            prefill_kv += before + count
    shared = shared_tokens(scheduler, decode_rows) if count_shared else 0.0
    return BatchShape(tokens, sampled, pairs, decode_rows, decode_kv, shared, pairs > 0, prefill_kv)


def shared_tokens(scheduler: ContinuousScheduler, decode_rows: int) -> float:
    """Return the KV tokens that decode rows read more than once between them.

    Blocks in use are counted once, tables count them once a request; the difference is shared, and the decode rows'
    part of it is taken in proportion (exact where all running requests share one prefix). It stays the same while the
    same rows decode: a new block is counted on both sides.
    """
    requests = len(scheduler.running)
    if requests < 2 or decode_rows < 2:
        return 0.0
    return scheduler.shared_kv_tokens() * (decode_rows - 1) / (requests - 1)
