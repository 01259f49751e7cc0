"""A misspelt command gets the nearest name, wherever it belongs; a group alone shows its help."""

import pytest
from click.testing import CliRunner

from sim.cli import main


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("fitt",), "no command 'fitt' (did you mean 'fit'?)"),
        (("rum", "scenario.yaml"), "no command 'rum' (did you mean 'run'?)"),
        (("validate", "stepz"), "no command 'stepz' (did you mean 'steps'?)"),
    ],
)
def test_a_misspelt_command_gets_the_nearest_name(arguments: tuple[str, ...], said: str) -> None:
    """In one line, with exit code 2."""
    result = CliRunner().invoke(main, list(arguments))
    assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)
    assert said in result.stderr


@pytest.mark.parametrize("arguments", [(), ("validate",)])
def test_a_group_alone_shows_its_help_line_by_line(arguments: tuple[str, ...]) -> None:
    """Not run together into one line as an error is."""
    result = CliRunner().invoke(main, list(arguments))
    assert result.exit_code == 2
    assert "\nCommands:\n" in result.output


def test_every_command_is_summed_up_in_one_whole_line() -> None:
    """What a newcomer starts with comes first."""
    lines = CliRunner().invoke(main, ["--help"]).stdout.partition("Commands:\n")[2].splitlines()
    assert [line.split()[0] for line in lines][:2] == ["run", "sweep"]
    assert all(line.endswith(".") and not line.endswith("...") for line in lines)
