"""The metrics of this process, as a scraper reads them."""

from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client.parser import text_string_to_metric_families

from deltamirror.telemetry import metrics


def scraped() -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Every sample by its name and labels; a sample that is there twice is an error."""
    body, _ = metrics.exposition()
    samples = [s for family in text_string_to_metric_families(body.decode()) for s in family.samples]
    found = {(sample.name, frozenset(sample.labels.items())): sample.value for sample in samples}
    assert len(found) == len(samples)
    return found


def value(name: str, **labels: str) -> float:
    """One sample; 0 where there is none."""
    return scraped().get((name, frozenset(labels.items())), 0.0)


def labels_of(name: str, label: str) -> set[str]:
    """The values that a label of a metric has."""
    return {dict(labels)[label] for sample, labels in scraped() if sample == name}


@contextmanager
def own_labels() -> Iterator[None]:
    """Labels for the tables of this block, however many other tests of the process had."""
    metrics.limit_tables(0)
    metrics.limit_tables(100)
    try:
        yield
    finally:
        metrics.limit_tables(0)
        metrics.limit_tables(100)
