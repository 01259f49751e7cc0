"""The one place where an experiment gets its step times: the profile that fits its device, or a roofline.

A roofline of a tensor-parallel engine is that of one GPU's slice of the model: heads, MLP and vocabulary divided.
Communication costs nothing there, which is wrong, and stands until profiles know it.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from calibrate.validation.e2e_experiments import Experiment
from calibrate.validation.e2e_names import catalog_gpu, catalog_model, kv_cache_dtype, weight_dtype
from sim.catalog import Gpu, Model
from sim.steptime.device import DeviceProfile
from sim.steptime.model import StepTimeModel, step_time_model
from sim.steptime.pricing import AUTO, ROOFLINE, Engine, device_profile_of, load_any, step_times
from sim.steptime.roofline import roofline_profile


class PricedBy(NamedTuple):
    """Step times, and the profile they come from."""

    steps: StepTimeModel
    profile: str


def step_model_for(experiment: Experiment, profiles: Sequence[str] = (AUTO,)) -> PricedBy:
    """Return the step times of the first profile that is of the experiment's GPU, and model and weights if it has such.

    "auto" is the shipped profile of the GPU; "roofline", and the end of the list, the data sheet.

    Raises a KvcliffError if a profile cannot be read or the experiment names something unknown.
    """
    gpu, model = catalog_gpu(experiment.gpu), catalog_model(experiment.model)
    weights, kv = weight_dtype(experiment.weight_dtype), kv_cache_dtype(experiment.kv_cache_dtype)
    engine = Engine(
        weight_dtype=weights,
        kv_cache_dtype=kv,
        tensor_parallel_size=experiment.tensor_parallel,
        expert_parallel_size=experiment.data_parallel if "expert parallel" in experiment.notes else 1,
        max_num_seqs=experiment.max_num_seqs or Engine().max_num_seqs,
        enforce_eager=experiment.enforce_eager,
    )
    for asked in profiles:
        if asked == ROOFLINE:
            break
        name = device_profile_of(gpu) if asked == AUTO else asked
        if name is not None and _fits(name, gpu, model, engine):
            return PricedBy(step_times(name, gpu, model, engine).steps, name)
    piece = _slice(model, experiment.tensor_parallel)
    return PricedBy(step_time_model(roofline_profile(gpu, piece, weights), gpu, piece, kv), ROOFLINE)


def _fits(name: str, gpu: Gpu, model: Model, engine: Engine) -> bool:
    profile = load_any(name)
    if isinstance(profile, DeviceProfile):
        return profile.gpu == gpu.name
    own = (profile.gpu, profile.model, profile.weight_dtype)
    return own == (gpu.name, model.name, engine.weight_dtype) and engine.tensor_parallel_size == 1


def _slice(model: Model, parallel: int) -> Model:
    def part(count: int) -> int:
        return max(1, count // parallel)

    experts = model.moe_intermediate_size
    return replace(
        model,
        num_attention_heads=part(model.num_attention_heads),
        num_key_value_heads=part(model.num_key_value_heads),
        intermediate_size=part(model.intermediate_size),
        vocab_size=part(model.vocab_size),
        moe_intermediate_size=None if experts is None else part(experts),
    )
