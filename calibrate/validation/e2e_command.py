"""`kvcliff validate e2e`: real serving runs replayed through the simulator, and how far off it is."""

from pathlib import Path

import click


@click.command("e2e")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--profile",
    "profiles",
    metavar="NAME",
    multiple=True,
    help="Step-time profile, by name or path; repeatable. An experiment takes the first that fits its device, else "
    'the shipped profile of its GPU, else a roofline; "roofline" forces that.',
)
@click.option("--only", metavar="PREFIX", multiple=True, help="Experiments whose id starts like this; repeatable.")
@click.option("--limit-requests", type=click.IntRange(1), help="Replay only the first requests of each load level.")
@click.option(
    "--warm-up-requests",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="First requests of a recorded run that count on neither side: new servers stop to compile.",
)
@click.option(
    "--seeds", type=click.IntRange(1, 100), default=2, show_default=True, help="Replicates of drawn arrivals."
)
@click.option("--jobs", type=click.IntRange(1, 64), default=1, show_default=True, help="Experiments at a time.")
@click.option("--fit-clients", is_flag=True, help="Print the client overhead of each source that fits best, and stop.")
@click.option("--check", is_flag=True, help="Exit with 1 if a required source breaks a limit.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="Folder for the page, CSV and chart.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
def command(
    folder: Path,
    *,
    profiles: tuple[str, ...],
    only: tuple[str, ...],
    limit_requests: int | None,
    warm_up_requests: int,
    seeds: int,
    jobs: int,
    out: Path | None,
    fit_clients: bool,
    check: bool,
    as_json: bool,
) -> None:
    """Replay the end-to-end runs in DIR and print errors by metric, regime and source.

    DIR holds e2e_experiments.csv, e2e_points.csv and per-request files. Where requests were recorded they are sent
    again as they were; elsewhere the loop that the experiment's row describes is.
    """
    from calibrate.validation.e2e_run import E2eRequest, run_e2e

    request = E2eRequest(
        folder=folder,
        profiles=profiles,
        only=only,
        limit=limit_requests,
        warm_up=warm_up_requests,
        seeds=seeds,
        jobs=jobs,
        out=out,
        fit_clients=fit_clients,
        as_json=as_json,
    )
    broken = run_e2e(request)
    if check and broken:
        for line in broken:
            click.echo(f"kvcliff: limit not held: {line}", err=True)
        raise click.exceptions.Exit(1)
