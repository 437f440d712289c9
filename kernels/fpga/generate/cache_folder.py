"""Where compiled simulations and synthesis counts are kept."""

import os
from pathlib import Path


def default_folder() -> Path:
    """Fpga in $EDGEMETA_CACHE, else in $XDG_CACHE_HOME/edgemeta, else in ~/.cache/edgemeta."""
    if os.environ.get("EDGEMETA_CACHE"):
        return Path(os.environ["EDGEMETA_CACHE"]) / "fpga"
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "edgemeta" / "fpga"
