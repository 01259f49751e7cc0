"""One module a command, each exposing `command`; heavy imports wait until it runs."""
