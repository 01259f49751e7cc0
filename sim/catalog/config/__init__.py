"""Reads a Hugging Face config into the layers, sizes and weight scheme of a Model."""

from sim.catalog.config.context import max_positions
from sim.catalog.config.files import read_config_file
from sim.catalog.config.keys import Keys
from sim.catalog.config.reader import read_config

__all__ = ["Keys", "max_positions", "read_config", "read_config_file"]
