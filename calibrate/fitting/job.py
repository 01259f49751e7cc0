"""One run of `kvcliff fit`: read tables, choose a start, fit, hold against anchors, sign."""

import datetime as dt
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pandas as pd

from calibrate.anchors import Anchor, load_anchor, of_gpu
from calibrate.fitting.anchored import AnchorFit, fit_anchors
from calibrate.fitting.device import DeviceFit, Progress, fit_device, signed
from calibrate.fitting.hardware import measured_hardware
from calibrate.fitting.start import assumed_device, scaled_device
from calibrate.importers.conversion import Converted, convert_files
from calibrate.known import catalog_name, known_gpu
from sim.catalog import Gpu, load_gpu
from sim.errors import MeasurementError, ProfileError, did_you_mean
from sim.steptime.device import DeviceProfile, Hardware, check_peaks, device_gpu
from sim.steptime.pricing import load_any

CPU = "cpu:"  # how `kvcliff calibrate` begins the name of a CPU


@dataclass(frozen=True, slots=True, kw_only=True)
class FitJob:
    """What was asked for."""

    tables: tuple[Path, ...]
    gpu: str | None = None
    scale_from: str | None = None
    anchors: tuple[Path, ...] = ()
    out: Path | None = None
    name: str | None = None
    date: str | None = None
    notes: tuple[str, ...] = ()
    replicates: int = 100
    seed: int = 0

    def command(self) -> str:
        """Return the command line that asks for this, without folders that are somebody's own."""
        words = ["kvcliff", "fit", *(path.name for path in self.tables)]
        for flag, value in (("--gpu", self.gpu), ("--scale-from", self.scale_from)):
            words += [flag, value] if value else []
        for path in self.anchors:
            words += ["--anchor", path.name]
        return shlex.join(words)


@dataclass(frozen=True, slots=True)
class Fitted:
    """A signed profile, and how it came about."""

    profile: DeviceProfile
    converted: Sequence[Converted]
    fit: DeviceFit | None
    anchored: AnchorFit | None


def run_job(job: FitJob) -> Fitted:
    """Fit a profile.

    Raises MeasurementError for tables that cannot be used, ProfileError for a donor or an anchor that cannot,
    CatalogError for an unknown GPU.
    """
    if not (job.tables or job.scale_from or job.anchors):
        raise ProfileError("nothing to fit: give a measurement table, an --anchor, or --scale-from with a profile")
    anchors = [load_anchor(path) for path in job.anchors]
    converted = list(convert_files(job.tables))
    _some_row_left(converted)
    gpu, hardware, table = _rows_of_gpu(job, converted, anchors)
    of_gpu(dict(zip(job.anchors, anchors, strict=True)), gpu)
    start = _start(job, gpu, hardware)
    with _progress() as progress:
        fit = None
        if len(table):
            fit = fit_device(start, gpu, table, replicates=job.replicates, seed=job.seed, progress=progress)
        profile = start if fit is None else fit.profile
        anchored = None
        if anchors:
            anchored = fit_anchors(profile, gpu, anchors)
            progress("anchors")
            profile = anchored.profile
    signed_profile = _sign(job, profile, fit, anchored, table, anchors, start)
    check_peaks(signed_profile, gpu, signed_profile.name)
    return Fitted(signed_profile, converted, fit, anchored)


def _some_row_left(converted: Sequence[Converted]) -> None:
    if converted and not any(len(one.table.frame) for one in converted):
        first = [f"; first: line {row.line}: {row.reason}" for one in converted for row in one.table.rejected[:1]]
        raise MeasurementError(f"{converted[0].path}: no row is left to fit{''.join(first[:1])}")


def _rows_of_gpu(
    job: FitJob, converted: Sequence[Converted], anchors: Sequence[Anchor]
) -> tuple[Gpu, Hardware | None, pd.DataFrame]:
    frames = [one.table.frame for one in converted]
    table = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame({"gpu": []})
    table = table.assign(gpu=table["gpu"].map(catalog_name))
    present = sorted(table["gpu"].unique()) if len(table) else []
    name = job.gpu or (present[0] if len(present) == 1 else anchors[0].gpu if anchors and not present else None)
    if name is None:
        held = f"the tables hold rows of {', '.join(present)}; name one" if present else "name the GPU to fit for"
        raise MeasurementError(f"--gpu: {held}")
    hardware = None
    if name in present and known_gpu(name) is None:
        comments = tuple(line for one in converted for line in one.table.comments)
        hardware = measured_hardware(table[table["gpu"] == name], comments)
    gpu = load_gpu(name) if hardware is None else hardware.gpu(name)
    if not len(table):
        return gpu, None, table
    own = table[(table["gpu"] == gpu.name) & (table["label"] != "bound")]
    if not len(own):
        raise MeasurementError(
            f"--gpu {name}: no row of {gpu.name}; the tables hold {', '.join(present)}{did_you_mean(name, present)}"
        )
    return gpu, hardware, own


def _start(job: FitJob, gpu: Gpu, hardware: Hardware | None) -> DeviceProfile:
    if job.scale_from is None:
        return assumed_device(gpu, hardware)
    donor = load_any(job.scale_from)
    if not isinstance(donor, DeviceProfile):
        raise ProfileError(f"--scale-from {job.scale_from}: is of one model, {donor.model}; give a device profile")
    if donor.gpu.startswith(CPU) != gpu.name.startswith(CPU):
        raise ProfileError(f"--scale-from {job.scale_from}: is of {donor.gpu}; a CPU's kernels say nothing of a GPU's")
    return msgspec.structs.replace(scaled_device(donor, device_gpu(donor), gpu), hardware=hardware)


def _sign(  # noqa: PLR0917 - the parts of a job, each once
    job: FitJob,
    profile: DeviceProfile,
    fit: DeviceFit | None,
    anchored: AnchorFit | None,
    table: pd.DataFrame,
    anchors: Sequence[Anchor],
    start: DeviceProfile,
) -> DeviceProfile:
    sources = list(dict.fromkeys(table["source"])) if len(table) else []
    sources += [anchor.source or f"anchor of {anchor.gpu}, {anchor.model}" for anchor in anchors]
    sources += start.provenance.sources
    residuals = dict(fit.residuals) if fit is not None else {}
    if anchored is not None:
        residuals |= {label: after / given - 1 for label, (given, _, after) in anchored.figures.items()}
    name = job.name or (job.out.stem if job.out is not None else profile.name)
    date = job.date or dt.datetime.now(tz=dt.UTC).date().isoformat()
    notes = [*start.provenance.notes, *job.notes, *(fit.remarks() if fit is not None else ())]
    return signed(profile, residuals, name=name, made_by=job.command(), date=date, sources=sources, notes=notes)


@contextmanager
def _progress() -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import Progress as Bar
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    console = Console(stderr=True)
    with Bar(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("fitting", total=None)
        yield lambda done: bar.update(task, description=f"fitted {done}")
