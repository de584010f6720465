"""The keys of a column's metadata that Delta and Spark give a meaning."""

from typing import Final

CHAR_VARCHAR: Final = "__CHAR_VARCHAR_TYPE_STRING"
COLUMN_ID: Final = "delta.columnMapping.id"
COMMENT: Final = "comment"
CURRENT_DEFAULT: Final = "CURRENT_DEFAULT"
EXISTS_DEFAULT: Final = "EXISTS_DEFAULT"
GENERATION_EXPRESSION: Final = "delta.generationExpression"
IDENTITY_EXPLICIT_INSERT: Final = "delta.identity.allowExplicitInsert"
IDENTITY_HIGH_WATER_MARK: Final = "delta.identity.highWaterMark"
IDENTITY_START: Final = "delta.identity.start"
IDENTITY_STEP: Final = "delta.identity.step"
INVARIANTS: Final = "delta.invariants"
NESTED_IDS: Final = "delta.columnMapping.nested.ids"
PHYSICAL_NAME: Final = "delta.columnMapping.physicalName"
TYPE_CHANGES: Final = "delta.typeChanges"
