"""`kvcliff validate steps`: whole steps, each predicted by a profile that did not see it."""

import shlex
from pathlib import Path

import click


@click.command("steps")
@click.argument("tables", metavar="TABLE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--profile", "profiles", multiple=True, help="Judge this device profile as it is, without refitting.")
@click.option("--check", is_flag=True, help="Exit with 1 if a limit is broken.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Of sampling in the fits.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="Folder for a page and a CSV row a step.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    tables: tuple[Path, ...], profiles: tuple[str, ...], *, check: bool, seed: int, out: Path | None, as_json: bool
) -> None:
    """Predict measured whole steps.

    TABLE is a measurement table or a public file that `kvcliff convert` reads: operations and whole steps. For each
    GPU with whole steps, operations are fitted once; then each step is predicted by a refinement that left it out,
    and again by one that left out every step of its model. Limits: 5 % and 12 % in the median, and no predicted
    step faster than light.
    """
    from calibrate.validation.steps import StepCheck, check_profile, cross_check
    from calibrate.validation.steps_report import as_dict, print_report, write_csv, write_page

    checks: list[StepCheck] = list(check_profile(tables, profiles) if profiles else cross_check(tables, seed=seed))
    if out is not None:
        write_csv(out / "steps.csv", checks)
        write_page(out / "steps.md", checks, shlex.join(["kvcliff", "validate", "steps", *(t.name for t in tables)]))
    if as_json:
        import json

        click.echo(json.dumps(as_dict(checks)))
    else:
        print_report(checks)
    broken = [line for one in checks for line in one.broken()]
    if check and broken:
        for line in broken:
            click.echo(f"kvcliff: check failed: {line}", err=True)
        raise SystemExit(1)
