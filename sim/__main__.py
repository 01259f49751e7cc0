"""`python -m sim` is `kvcliff`."""

from sim.cli import main

main()
