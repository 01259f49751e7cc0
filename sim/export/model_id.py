"""The name under which a server loads a model, and calls it."""

from sim.catalog.entries import find_entry
from sim.errors import CatalogError


def model_id(name: str) -> str:
    """Return the repository that the catalog knows for a model, or the name as it is."""
    if "/" in name:
        return name
    try:
        entry = find_entry("models.yaml", "model", name)
    except CatalogError:  # a config.json, or a name with a quantisation in it
        return name
    return next((alias for alias in entry.get("aliases", ()) if "/" in alias), name)
