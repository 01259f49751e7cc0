"""Layers that keep a state of fixed size: gated delta nets, KDA, Mamba 1 and 2, lightning attention, convolutions.

Shapes are those that vLLM allocates (its MambaStateShapeCalculator), of the whole model.
"""

from sim.catalog.config.keys import Keys
from sim.catalog.layers import STATE_DTYPES, RecurrentState
from sim.catalog.weights import Layer, Linear
from sim.errors import one_of

_LONGEST_DTYPE = 40


def recurrent_layer(keys: Keys, hidden_size: int) -> Layer:
    """Return a recurrent mixer of the sort that the config's keys describe.

    Raises CatalogError when none is described.
    """
    for key, reader in (
        ("linear_attn_config", _kda),
        ("linear_num_value_heads", _gated_delta_net),
        ("linear_attention", _lightning),
        ("conv_L_cache", _short_convolution),
    ):
        if key in keys:
            return reader(keys, hidden_size)
    if keys.count_or_none("mamba_version") == 1:
        return _mamba1(keys, hidden_size)
    return _mamba2(keys, hidden_size)


def _gated_delta_net(keys: Keys, hidden_size: int) -> Layer:
    key_heads, value_heads = keys.count("linear_num_key_heads"), keys.count("linear_num_value_heads")
    key_dim, value_dim = keys.count("linear_key_head_dim"), keys.count("linear_value_head_dim")
    keys_wide, values_wide = key_heads * key_dim, value_heads * value_dim
    channels = 2 * keys_wide + values_wide
    steps = _conv_steps(keys, "linear_conv_kernel_dim")
    state = RecurrentState(channels, steps, value_heads * key_dim * value_dim, _state_dtype(keys, "mamba_ssm_dtype"))
    return Layer(
        (state,),
        (
            Linear("linear_attn.in_proj_qkv", hidden_size * channels),
            Linear("linear_attn.in_proj_z", hidden_size * values_wide),
            Linear("linear_attn.in_proj_ba", hidden_size * 2 * value_heads, always_16bit=True),
            Linear("linear_attn.conv1d", channels * (steps + 1), always_16bit=True),
            Linear("linear_attn.out_proj", values_wide * hidden_size),
        ),
    )


def _kda(keys: Keys, hidden_size: int) -> Layer:
    """Read Kimi Delta Attention: three convolutions, a state in 32 bits, and low-rank gates."""
    config = keys.part("linear_attn_config")
    assert config is not None
    heads, dim = config.count("num_heads"), config.count("head_dim")
    wide, steps = heads * dim, _conv_steps(config, "short_conv_kernel_size")
    gate = hidden_size * wide if config.flag("use_full_rank_gate") else dim * (hidden_size + wide)
    names = ("q_proj", "k_proj", "v_proj", "o_proj")
    return Layer(
        (RecurrentState(3 * wide, steps, heads * dim * dim, "float32"),),
        (
            *(Linear(f"self_attn.{name}", hidden_size * wide) for name in names),
            Linear("self_attn.g_proj", gate),
            Linear("self_attn.f_proj", dim * (hidden_size + wide)),
            Linear("self_attn.b_proj", hidden_size * heads),
            Linear("self_attn.conv1d", 3 * wide * (steps + 1), always_16bit=True),
        ),
    )


def _lightning(keys: Keys, hidden_size: int) -> Layer:
    """Read lightning attention (MiniMax M1, Ling): a square state a head, no convolution."""
    heads = keys.count("num_attention_heads")
    dim = keys.count_or_none("head_dim") or hidden_size // heads
    wide = heads * dim
    return Layer(
        (RecurrentState(0, 0, heads * dim * dim),),
        (
            Linear("self_attn.qkv_proj", hidden_size * 3 * wide),
            Linear("self_attn.output_gate", hidden_size * wide),
            Linear("self_attn.out_proj", wide * hidden_size),
        ),
    )


def _short_convolution(keys: Keys, hidden_size: int) -> Layer:
    """Read a gated short convolution (LFM2), which keeps its last inputs and no state."""
    channels = keys.count_or_none("conv_dim") or hidden_size
    steps = _conv_steps(keys, "conv_L_cache")
    return Layer(
        (RecurrentState(channels, steps, 0),),
        (
            Linear("conv.in_proj", hidden_size * 3 * channels),
            Linear("conv.conv", channels * (steps + 1), always_16bit=True),
            Linear("conv.out_proj", channels * hidden_size),
        ),
    )


def _mamba2(keys: Keys, hidden_size: int) -> Layer:
    heads = keys.count_or_none("mamba_n_heads", "mamba_num_heads", "num_heads")
    if heads is None:
        raise keys.broken("mamba_n_heads", "is missing, and no other key says what the recurrent layers keep")
    head_dim = keys.count_or_none("mamba_d_head", "mamba_head_dim")
    if head_dim is None:
        inner = keys.count_or_none("mamba_d_ssm") or hidden_size * keys.count("mamba_expand", "expand")
        if inner % heads:
            raise keys.broken("mamba_d_head", f"is missing and {inner} channels / {heads} heads is not whole")
        head_dim = inner // heads
    inner = heads * head_dim
    groups = keys.count_or_none("mamba_n_groups", "n_groups") or 1
    elements = keys.count("mamba_d_state", "ssm_state_size", "state_size")
    steps = _conv_steps(keys, "mamba_d_conv", "conv_kernel")
    channels = inner + 2 * groups * elements
    dtype = _state_dtype(keys, "mamba_ssm_cache_dtype")
    return Layer(
        (RecurrentState(channels, steps, inner * elements, dtype),),
        (
            Linear("mixer.in_proj", hidden_size * (inner + channels + heads)),
            Linear("mixer.conv1d", channels * (steps + 1), always_16bit=True),
            Linear("mixer.out_proj", inner * hidden_size),
        ),
    )


def _mamba1(keys: Keys, hidden_size: int) -> Layer:
    inner = keys.count_or_none("intermediate_size") if "state_size" in keys else None
    inner = inner or hidden_size * keys.count("mamba_expand", "expand")
    elements = keys.count("mamba_d_state", "state_size")
    steps = _conv_steps(keys, "mamba_d_conv", "conv_kernel")
    rank = keys.count_or_none("mamba_dt_rank", "time_step_rank") or -(-hidden_size // 16)
    return Layer(
        (RecurrentState(inner, steps, inner * elements),),
        (
            Linear("mixer.in_proj", hidden_size * 2 * inner),
            Linear("mixer.conv1d", inner * (steps + 1), always_16bit=True),
            Linear("mixer.x_proj", inner * (rank + 2 * elements)),
            Linear("mixer.dt_proj", rank * inner),
            Linear("mixer.A_log", inner * elements, always_16bit=True),
            Linear("mixer.out_proj", inner * hidden_size),
        ),
    )


def _state_dtype(keys: Keys, key: str) -> str | None:
    """Return the type of a state, where the config says it."""
    name = keys.text(key)
    if name is not None and name not in STATE_DTYPES:
        raise keys.broken(key, one_of(name[:_LONGEST_DTYPE], STATE_DTYPES))
    return name


def _conv_steps(keys: Keys, *names: str) -> int:
    """Return how many past inputs a convolution keeps: its kernel less one."""
    return keys.count(*names) - 1
