"""A group of commands that answers a name it does not have with the nearest one."""

import click

from sim.errors import did_you_mean


class CommandGroup(click.Group):
    """Names are those of `list_commands`, however the commands are found."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return name, command and the rest of the arguments; raises UsageError with the nearest name."""
        if not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            known = self.list_commands(ctx)  # asked for only now: listing imports what a plain run does without
            near = did_you_mean(args[0], known)
            raise click.UsageError(f"no command {args[0]!r}{near}; there are {', '.join(known)}")
        return super().resolve_command(ctx, args)
