"""The tables of the catalog: creating and dropping them, and reading their versions."""
