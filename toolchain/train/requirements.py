"""What training needs besides this package."""

from edgemeta.toolchain.errors import MissingExtraError


def require_torch() -> None:
    """Raise MissingExtraError without PyTorch."""
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(
            "training needs PyTorch, which is not installed: pip install edgemeta[train]"
        ) from error
