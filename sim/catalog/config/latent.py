"""Multi-head latent attention (DeepSeek V2 on) and the indexer of its sparse form (V3.2, GLM-5)."""

from sim.catalog.config.keys import Keys
from sim.catalog.layers import IndexerKv, LatentKv, LayerKv
from sim.catalog.weights import WHOLE, Layer, Linear


def latent_layer(keys: Keys, hidden_size: int, *, indexes: bool) -> Layer:
    """Return a layer of latent attention alone; `indexes` where it has an indexer of its own."""
    heads = keys.count("num_attention_heads")
    rank, rope = keys.count("kv_lora_rank"), keys.size("qk_rope_head_dim")
    nope, value = keys.count("qk_nope_head_dim"), keys.count("v_head_dim")
    query_rank = keys.count_or_none("q_lora_rank")
    linears = [
        Linear("self_attn.kv_a_proj_with_mqa", hidden_size * (rank + rope), ways=WHOLE),
        Linear("self_attn.kv_b_proj", rank * heads * (nope + value)),
        Linear("self_attn.o_proj", heads * value * hidden_size),
    ]
    if query_rank is None:
        linears.append(Linear("self_attn.q_proj", hidden_size * heads * (nope + rope)))
    else:
        linears.append(Linear("self_attn.q_a_proj", hidden_size * query_rank, ways=WHOLE))
        linears.append(Linear("self_attn.q_b_proj", query_rank * heads * (nope + rope)))
    if keys.flag("mla_use_output_gate"):
        linears.append(Linear("self_attn.g_proj", hidden_size * heads * value))
    kv: LayerKv = (LatentKv(rank, rope),)
    if indexes and "index_head_dim" in keys:
        dim, index_heads = keys.count("index_head_dim"), keys.count("index_n_heads")
        kv = (*kv, IndexerKv(dim, keys.count_or_none("index_kpool") or 1))
        linears += [
            Linear("self_attn.indexer.wq_b", (query_rank or hidden_size) * index_heads * dim, ways=WHOLE),
            Linear("self_attn.indexer.wk", hidden_size * dim, ways=WHOLE),
            Linear("self_attn.indexer.weights_proj", hidden_size * index_heads, ways=WHOLE, always_16bit=True),
        ]
    return Layer(kv, tuple(linears), 2 * heads * (nope + rope + value))


def indexing_layers(keys: Keys, layers: int) -> list[bool]:
    """Return which layers pick tokens by an indexer of their own: GLM-5.2 shares one among four."""
    if "indexer_types" not in keys:
        return ["index_head_dim" in keys] * layers
    kinds = keys.per_layer("indexer_types", str, layers)
    return [kind != "shared" for kind in kinds]
