"""The matrices of one layer: their sizes, how ranks split them, and how many of them a token meets.

Names are those of checkpoints, since quantisation lists what it leaves out by name. Norms, biases and rotary
tables are left out (under 0.1 % of the weights of every catalogued model).
"""

from dataclasses import dataclass

from sim.catalog.layers import LayerKv

WHOLE = 1  # `ways` of a matrix that every rank holds


@dataclass(frozen=True, slots=True)
class Linear:
    """`copies` matrices of `params` weights each; more than one copy means experts."""

    name: str  # within its layer: self_attn.q_proj
    params: int
    copies: int = 1
    active: int = 1  # copies that one token meets
    ways: int | None = None  # most tensor-parallel ranks it is split over; None: as many as there are
    expert_width: int = 0  # the intermediate size of an expert, which some kernels pad
    always_16bit: bool = False  # routers, convolutions: no checkpoint quantises them

    def rank_params(self, tensor_parallel_size: int, expert_parallel_size: int | None = None) -> float:
        """Return the weights one rank holds; experts are dealt out whole where expert_parallel_size is given."""
        if self.copies > 1 and expert_parallel_size is not None:
            return self.params * -(-self.copies // expert_parallel_size)
        ways = tensor_parallel_size if self.ways is None else min(self.ways, tensor_parallel_size)
        return self.params * self.copies / ways


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer: what it keeps of the tokens before, its matrices, and the price of attention."""

    kv: LayerKv
    linears: tuple[Linear, ...]
    pair_flops: int = 0  # of one (query, key) pair: 2 an element of scores and of weighted values

    @property
    def params(self) -> int:
        """Weights of all matrices, every expert included."""
        return sum(linear.params * linear.copies for linear in self.linears)

    @property
    def active_params(self) -> int:
        """Weights that one token meets."""
        return sum(linear.params * linear.active for linear in self.linears)


def dense_mlp(hidden_size: int, width: int, *, prefix: str = "mlp", gated: bool = True) -> tuple[Linear, ...]:
    """Return a feed-forward block: gate, up and down, or up and down."""
    names = ("gate_proj", "up_proj", "down_proj") if gated else ("up_proj", "down_proj")
    return tuple(Linear(f"{prefix}.{name}", hidden_size * width) for name in names)


def expert_mlps(
    hidden_size: int, width: int, experts: int, experts_per_token: int, *, prefix: str = "mlp", matrices: int = 3
) -> tuple[Linear, ...]:
    """Return routed experts; their matrices count as one, since no scheme tells them apart."""
    return (
        Linear(
            f"{prefix}.experts.0.up_proj".lstrip("."),
            matrices * hidden_size * width,
            copies=experts,
            active=experts_per_token,
            expert_width=width,
        ),
    )


def router(hidden_size: int, experts: int, *, prefix: str = "mlp") -> Linear:
    """Return the matrix that picks experts: in 16 bits, on every rank."""
    return Linear(f"{prefix}.gate".lstrip("."), hidden_size * experts, ways=WHOLE, always_16bit=True)


def grouped_attention(
    hidden_size: int,
    heads: int,
    kv_heads: int,
    key_dim: int,
    value_dim: int,
    *,
    gated: bool = False,
    value_is_key: bool = False,
    prefix: str = "self_attn",
) -> tuple[Linear, ...]:
    """Return the projections of attention with KV heads; a gate doubles the query's."""
    query = hidden_size * heads * key_dim * (2 if gated else 1)
    found = [
        Linear(f"{prefix}.q_proj", query),
        Linear(f"{prefix}.k_proj", hidden_size * kv_heads * key_dim, ways=kv_heads),
        Linear(f"{prefix}.o_proj", heads * value_dim * hidden_size),
    ]
    if not value_is_key:
        found.append(Linear(f"{prefix}.v_proj", hidden_size * kv_heads * value_dim, ways=kv_heads))
    return tuple(found)
