"""What each command of the CLI does; imported only when it runs."""
