"""Everything here needs PyTorch."""

import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install edgemeta[train]")
