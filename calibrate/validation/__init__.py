"""Profiles and the simulator against what was really measured."""
