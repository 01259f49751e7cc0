"""Where step times come from, whatever kind of profile is named: one call for scenarios and validation alike."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from sim.catalog import Gpu, Model, load_gpu
from sim.errors import CatalogError, ProfileError
from sim.steptime.compose import device_step_time_model
from sim.steptime.device import SIXTEEN_BIT, DeviceProfile, decode_device, device_gpu, weight_family
from sim.steptime.model import StepTimeModel, step_time_model
from sim.steptime.profile import (
    Frontend,
    Profile,
    Provenance,
    Term,
    decode_profile,
    kv_family,
    profile_names,
    read_profile,
)
from sim.steptime.roofline import roofline_profile

ROOFLINE = "roofline"
AUTO = "auto"  # the shipped profile of the GPU, else a roofline
AnyProfile = Profile | DeviceProfile
MOST_GRAPHED_TOKENS = 512  # vLLM captures CUDA graphs up to twice max_num_seqs, and never beyond this


@dataclass(frozen=True, slots=True)
class Engine:
    """What of the engine's settings decides the cost of a step."""

    weight_dtype: str = "auto"
    kv_cache_dtype: str = "auto"
    tensor_parallel_size: int = 1
    expert_parallel_size: int = 1
    max_num_seqs: int = 256
    enforce_eager: bool = False

    @property
    def cuda_graph_tokens(self) -> int:
        """The largest batch that a CUDA graph holds."""
        return 0 if self.enforce_eager else min(2 * self.max_num_seqs, MOST_GRAPHED_TOKENS)


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Priced steps, and what their prices rest on."""

    steps: StepTimeModel
    name: str
    provenance: Provenance
    frontend: Frontend
    costs: Mapping[str, Term] = field(default_factory=dict)  # around the forward pass, as far as the profile knows them
    assumed: tuple[str, ...] = ()  # what of a device profile prices this engine though nobody measured it


def step_times(profile_name: str, gpu: Gpu, model: Model, engine: Engine) -> StepTimes:
    """Return step times by profile: "auto", "roofline", a shipped name, or a YAML file of either kind.

    Raises ProfileError if there is none, or it is of another GPU, model or weight dtype, or lacks a dtype asked for.
    """
    return price(find_profile(profile_name, gpu), gpu, model, engine, asked=profile_name)


def find_profile(name: str, gpu: Gpu) -> AnyProfile | None:
    """Return the profile of that name, or for "auto" the shipped one of the GPU; None is a roofline.

    Raises ProfileError if there is none, or it is broken.
    """
    shipped = device_profile_of(gpu) if name == AUTO else name
    return None if shipped in {None, ROOFLINE} else load_any(shipped)


def price(profile: AnyProfile | None, gpu: Gpu, model: Model, engine: Engine, *, asked: str) -> StepTimes:
    """Return step times by a profile; a roofline says if it stands in for what was `asked`.

    Raises ProfileError if the profile is of another GPU, model or weight dtype, or lacks a dtype asked for.
    """
    if isinstance(profile, DeviceProfile):
        return _of_device(profile, gpu, model, engine)
    if profile is not None:
        _one_gpu(profile.name, engine)
        _check_weight_dtype(profile, model, engine.weight_dtype)
        return _of_model(profile, gpu, model, engine)
    _one_gpu(ROOFLINE, engine)
    found = _of_model(roofline_profile(gpu, model, engine.weight_dtype), gpu, model, engine)
    return replace(found, assumed=(f"everything, for no profile of {gpu.name} is shipped",) if asked == AUTO else ())


def device_profile_of(gpu: Gpu) -> str | None:
    """Return the name of the shipped device profile of a GPU: it is named after one of the GPU's own names."""
    for name in profile_names():
        with suppress(CatalogError):
            if load_gpu(name).name == gpu.name:
                return name
    return None


def find_gpu(name: str, profile_name: str) -> Gpu:
    """Return the GPU a scenario names: of the catalog, or the device that its profile was measured on.

    Raises CatalogError for a name that neither knows.
    """
    try:
        return load_gpu(name)
    except CatalogError:
        if profile_name in {AUTO, ROOFLINE}:
            raise
        profile = load_any(profile_name)
        if isinstance(profile, DeviceProfile) and profile.hardware is not None and profile.gpu == name:
            return device_gpu(profile)
        raise


def load_any(name_or_path: str) -> AnyProfile:
    """Return a profile of either kind; a device profile says `kind: device`."""
    document = read_profile(name_or_path)
    return decode_device(document) if document.data.get("kind") == "device" else decode_profile(document)


def _of_model(profile: Profile, gpu: Gpu, model: Model, engine: Engine) -> StepTimes:
    steps = step_time_model(profile, gpu, model, engine.kv_cache_dtype)
    return StepTimes(steps, profile.name, profile.provenance, profile.frontend)


def _of_device(profile: DeviceProfile, gpu: Gpu, model: Model, engine: Engine) -> StepTimes:
    if profile.gpu.lower() != gpu.name.lower():
        raise ProfileError(f"profile {profile.name!r} is of gpu {profile.gpu}, the scenario asks for {gpu.name}")
    steps = device_step_time_model(
        profile,
        gpu,
        model,
        engine.weight_dtype,
        engine.kv_cache_dtype,
        tensor_parallel_size=engine.tensor_parallel_size,
        expert_parallel_size=engine.expert_parallel_size,
        cuda_graph_tokens=engine.cuda_graph_tokens,
    )
    assumed = tuple(_assumed_parts(profile, model, engine))
    return StepTimes(steps, profile.name, profile.provenance, profile.frontend, profile.costs, assumed)


def _assumed_parts(profile: DeviceProfile, model: Model, engine: Engine) -> Iterator[str]:
    """Name the operations this engine runs whose rates in the profile are assumed."""
    own = model.weight_dtype if engine.weight_dtype == "auto" else engine.weight_dtype
    weights, family = weight_family(own), kv_family(engine.kv_cache_dtype)
    rates = {f"{weights} products": profile.linear[weights].bytes_per_s}
    attention = profile.attention[family]
    rates[f"{family} prefill attention"] = attention.prefill_flops_per_s
    rates[f"{family} decode attention"] = attention.decode_bytes_per_s
    if model.num_experts:
        rates[f"{weights} experts"] = profile.experts[weights].bytes_per_s
    if engine.tensor_parallel_size > 1:
        rates["all-reduce"] = profile.links[str(engine.tensor_parallel_size)].bytes_per_s
    rates["what a step costs beyond its operations"] = profile.composition.step_s
    yield from (name for name, term in rates.items() if term.source == "assumed")


def _one_gpu(name: str, engine: Engine) -> None:
    if engine.tensor_parallel_size > 1:
        raise ProfileError(
            f"profile {name!r} prices one GPU, not tensor_parallel_size {engine.tensor_parallel_size}; "
            "name a device profile"
        )


def _check_weight_dtype(profile: Profile, model: Model, asked: str) -> None:
    own, wanted = (model.weight_dtype if name == "auto" else name for name in (profile.weight_dtype, asked))
    if own != wanted and not {own, wanted} <= set(SIXTEEN_BIT):
        raise ProfileError(
            f"profile {profile.name!r} is of weight_dtype {profile.weight_dtype}, the scenario asks for {asked}"
        )
