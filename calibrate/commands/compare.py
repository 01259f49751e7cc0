"""`kvcliff compare`: a scenario beside load tests that somebody ran."""

from pathlib import Path
from typing import Any

import click

TERMS = ("kv_blocks", "prefill", "decode", "host", "client")


@click.command("compare")
@click.argument("scenario", type=click.Path(path_type=Path))
@click.argument("measured", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override one key of the scenario. Repeatable."
)
@click.option(
    "--seeds", type=click.IntRange(1, 100), default=2, show_default=True, help="Replicates where something is drawn."
)
@click.option("--jobs", type=click.IntRange(1, 1024), help="Worker processes; 1: none.  [default: one a core]")
@click.option(
    "--limit-requests",
    "limit",
    metavar="N",
    type=click.IntRange(1),
    help="Send only the first N requests of each load point.",
)
@click.option("--quick", is_flag=True, help="Skip the search for what explains the gap.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="Folder for chart and CSV.")
@click.option("--refit", metavar="OUT.yaml", type=click.Path(path_type=Path),
              help="Write what explains the gap as a profile, or as a scenario where it is KV blocks.")  # fmt: skip
@click.option(
    "--term", "refit_term", type=click.Choice(TERMS), help="Write this term with --refit, whatever explains the gap."
)
@click.option("--check", is_flag=True, help="Exit with 1 if the errors exceed --error-max.")
@click.option("--error-max", type=click.FloatRange(0, min_open=True), default=0.2, show_default=True,
              help="Most median |error|; a group of metrics may be off by 1 + twice that.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
def command(*, check: bool, **options: Any) -> None:
    """Set predictions beside load tests and explain the gap.

    MEASURED are result files or folders, of `vllm bench serve --save-result` and other tools. The same load is
    simulated (lengths, concurrency, rate, listed requests; what a file leaves open is assumed and said), errors are
    printed by metric and load point, and one term at a time is re-fitted: KV blocks, prefill rate, decode bandwidth,
    host time a step, client.

    \b
      kvcliff compare scenarios/l4-qa-2k.yaml bench.json --out out/compare
      kvcliff compare scenario.yaml results/ --refit mine.yaml
    """  # noqa: D301 - click's mark for lines that stay as they are
    from calibrate.compare.run import CompareOptions, run_compare

    if options["quick"] and options["refit"] is not None:
        raise click.UsageError("--refit needs the search that --quick skips")
    broken = run_compare(CompareOptions(**options))
    if check and broken:
        for line in broken:
            click.echo(f"kvcliff: check failed: {line}", err=True)
        raise click.exceptions.Exit(1)
