"""What an operator does about each class of failure that keeps the mirror from publishing."""

from deltamirror.pipeline.policy import policy_of
from deltamirror.txnlog.status import TableStatus

__all__ = ["guide", "remedy", "way_out"]


def remedy(code: str) -> str:
    """What to do about a failure of this class."""
    return policy_of(code).remedy


def guide(code: str) -> str:
    """Where the guides say more about it."""
    return f"docs/guides/{policy_of(code).guide}"


def way_out(table: TableStatus) -> str:
    """What ends the quarantine of a table."""
    if table.diverged_version is None:
        return f"`deltamirror repair {table.name}`"
    return (
        f"`deltamirror adopt {table.name}` takes in what somebody else wrote, from version {table.diverged_version} on"
    )
