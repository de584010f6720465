"""What an operator does about each class of failure that keeps the mirror from publishing."""

from deltamirror.pipeline.policy import policy_of

__all__ = ["remedy"]


def remedy(code: str) -> str:
    """What to do about a failure of this class."""
    return policy_of(code).remedy
