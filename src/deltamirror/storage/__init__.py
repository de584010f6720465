"""Stores: where tables lie, and how objects are put, read, listed and deleted there."""
