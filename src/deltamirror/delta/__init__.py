"""The Delta protocol as a pure library: values and functions, no I/O and no clock."""
