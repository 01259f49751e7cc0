"""Names found in data files, looked up in the catalog: what is not there is None, never an error or a file."""

from functools import lru_cache

from sim.catalog import Gpu, Model, catalogued_model, load_gpu
from sim.errors import CatalogError


@lru_cache(maxsize=1024)
def known_gpu(name: str) -> Gpu | None:
    """Return the catalogued GPU of that name or alias."""
    try:
        return load_gpu(name)
    except CatalogError:
        return None


def catalog_name(gpu: str) -> str:
    """Return the catalog's name of a GPU; a name it does not know stays as it is."""
    known = known_gpu(gpu)
    return gpu if known is None else known.name


@lru_cache(maxsize=1024)
def known_model(name: str) -> Model | None:
    """Return the catalogued model of that name or alias; unlike `load_model`, never a folder that is called so."""
    try:
        return catalogued_model(name)
    except CatalogError:
        return None
