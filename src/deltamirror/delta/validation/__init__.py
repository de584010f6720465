"""Checks of a writer's actions, one by one and as a commit, before anything is written."""

from deltamirror.delta.validation.block import PlainBlock, are_plain_removes, plain_block, plain_paths
from deltamirror.delta.validation.commit import OncePerCommit, check_actions
from deltamirror.delta.validation.rules import RULES, Rule
from deltamirror.delta.validation.table import TableRules

__all__ = [
    "RULES",
    "OncePerCommit",
    "PlainBlock",
    "Rule",
    "TableRules",
    "are_plain_removes",
    "check_actions",
    "plain_block",
    "plain_paths",
]
