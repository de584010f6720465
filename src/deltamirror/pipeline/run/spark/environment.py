"""What local executors inherit from the process that starts Spark."""

from deltamirror.config import CONFIG_VARIABLE, Loaded, Settings, keys
from deltamirror.config.sources import FLAGS


def exported_environment(loaded: Loaded) -> dict[str, str]:
    """The variables under which another process finds the settings of this one.

    To be put into ``os.environ`` before Spark starts: local executors are children of its JVM. The file is named, not
    quoted; of the values only those are given that a flag laid over the file, and that executors use. Variables that
    are set already are inherited anyway.
    """
    exported = {} if loaded.file is None else {CONFIG_VARIABLE: str(loaded.file.absolute())}
    path = "catalog.url"
    if loaded.origins[path] == FLAGS[path]:
        variable = next(key.variable for key in keys(Settings) if key.path == path)
        exported[variable] = loaded.settings.catalog.url
    return exported
