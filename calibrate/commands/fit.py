"""`kvcliff fit`: measurements, or a relative's profile, or a few figures of the target, into a device profile."""

from pathlib import Path
from typing import Any

import click


@click.command("fit")
@click.argument("tables", metavar="[TABLE]...", nargs=-1, type=click.Path(path_type=Path))
@click.option("--gpu", help="GPU whose rows are fitted; may be left out where the tables hold only one.")
@click.option("--scale-from", metavar="PROFILE", help="Start from this device profile, scaled by data-sheet peaks.")
@click.option("--anchor", "anchors", multiple=True, type=click.Path(path_type=Path),
              help="YAML with a few whole-step or end-to-end figures of the target system. Repeatable.")  # fmt: skip
@click.option("--out", metavar="FILE", type=click.Path(path_type=Path), help="Write the profile here (.yaml).")
@click.option("--name", help="Name of the profile.  [default: the file's]")
@click.option(
    "--date", type=click.DateTime(["%Y-%m-%d"]), help="Date the measurements were taken or read.  [default: today]"
)
@click.option("--note", "notes", multiple=True, help="A remark to keep in the profile. Repeatable.")
@click.option("--replicates", default=100, show_default=True, type=click.IntRange(0, 10_000),
              help="Bootstrap samples behind each interval.")  # fmt: skip
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Of sampling and folds.")
@click.option("--all-terms", is_flag=True, help="Print the assumed terms too.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(tables: tuple[Path, ...], *, all_terms: bool, as_json: bool, **options: Any) -> None:
    """Fit a device profile.

    TABLE is a measurement table of `kvcliff calibrate` or `kvcliff convert`, or a public file that `convert` reads.
    Terms no row determines keep an assumption with a wide range, or what --scale-from brings along. Prints, for
    each term, value and 95 % interval; for each group of rows the error on rows seen, on folds left out and on
    contexts left out; and with --anchor which terms the figures determine.
    """
    from calibrate.fitting.job import FitJob, run_job
    from calibrate.fitting.report import as_dict, print_report
    from calibrate.profile_file import check_suffix, write_profile

    if options["date"] is not None:
        options["date"] = options["date"].date().isoformat()
    job: FitJob = FitJob(tables=tables, **options)
    if job.out is not None:
        check_suffix(job.out)
    fitted = run_job(job)
    if job.out is not None:
        write_profile(job.out, fitted.profile)
    if as_json:
        import json

        click.echo(json.dumps(as_dict(fitted, job.out)))
    else:
        print_report(fitted, job.out, every_term=all_terms)
