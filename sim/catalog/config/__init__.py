"""Reads a Hugging Face config into the layers, sizes and weight scheme of a Model."""

from sim.catalog.config.files import read_config_file
from sim.catalog.config.reader import read_config

__all__ = ["read_config", "read_config_file"]
