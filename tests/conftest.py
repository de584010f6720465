"""The fixtures live in ``tests/support``, one module for each thing that tests run against."""

pytest_plugins = [
    "tests.support.inventory",
    "tests.support.environment",
    "tests.support.golden",
    "tests.support.skips",
    "tests.support.examples",
    "tests.support.durations",
    "tests.support.scheduling",
    "tests.support.postgres",
    "tests.support.catalogs",
    "tests.support.emptied",
    "tests.support.lake",
    "tests.support.readers",
    "tests.support.postgres_proxy",
    "tests.support.s3_proxy",
    "tests.support.runners",
    "tests.support.azurite",
    "tests.support.s3_servers",
    "tests.support.stores",
    "tests.support.combinations",
]
