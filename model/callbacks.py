"""What long work calls to say how far it is and what it leaves out."""

from collections.abc import Callable
from typing import TypeAlias

Progress: TypeAlias = Callable[[int, int], None]
"""Called with how much is done, and of how much: images, unless stated."""

Report: TypeAlias = Callable[[str], None]
"""Called with one sentence: what is left out, or has to be known."""
