"""Checks of a writer's actions, one by one and as a commit, before anything is written."""

from deltamirror.delta.validation.block import PlainBlock, plain_block
from deltamirror.delta.validation.commit import OncePerCommit, check_actions
from deltamirror.delta.validation.rules import RULES, Rule
from deltamirror.delta.validation.table import TableRules

__all__ = ["RULES", "OncePerCommit", "PlainBlock", "Rule", "TableRules", "check_actions", "plain_block"]
