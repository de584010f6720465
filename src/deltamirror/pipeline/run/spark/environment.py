"""What local executors inherit from the process that starts Spark."""

from deltamirror.config import CONFIG_VARIABLE, Loaded, Settings, keys

__all__ = ["exported_environment"]


def exported_environment(loaded: Loaded) -> dict[str, str]:
    """The variables under which another process finds the settings of this one.

    To be put into ``os.environ`` before Spark starts: local executors are children of its JVM. The file is named, not
    quoted; of the values only those are given that a flag laid over the file. Variables that are set already
    are inherited anyway.
    """
    exported = {} if loaded.file is None else {CONFIG_VARIABLE: str(loaded.file.absolute())}
    for key in keys(Settings):
        if loaded.origins[key.path].startswith("--"):
            exported[key.variable] = str(getattr(getattr(loaded.settings, key.section), key.name))
    return exported
