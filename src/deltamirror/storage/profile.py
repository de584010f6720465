"""Keys from the profiles of the AWS tools, which obstore does not read itself."""

import os
from configparser import ConfigParser, Error
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from deltamirror.errors import InvalidSettings, Unsupported

if TYPE_CHECKING:
    from obstore.store import S3Credential

DEFAULT: Final = "default"

_READ_AGAIN: Final = timedelta(minutes=5)
_BY_OTHER_MEANS: Final = ("credential_process", "role_arn", "sso_session", "sso_start_url")
_OWN_IDENTITY: Final = (
    "AWS_ACCESS_KEY_ID",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_SKIP_SIGNATURE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
)


@dataclass(frozen=True, slots=True)
class Profile:
    """One profile: called, it gives its keys as the files have them at that time."""

    name: str
    files: tuple[Path, Path]

    def __call__(self) -> "S3Credential":
        """The keys, to be asked for again after some minutes."""
        values = self.values()
        return {
            "access_key_id": values["aws_access_key_id"],
            "secret_access_key": values["aws_secret_access_key"],
            "token": values.get("aws_session_token"),
            "expires_at": datetime.now(UTC) + _READ_AGAIN,
        }

    def values(self) -> dict[str, str]:
        """What the files say about the profile; empty if they do not know it."""
        credentials, config = (_parsed(file) for file in self.files)
        section = self.name if self.name == DEFAULT else f"profile {self.name}"
        return {**_section(config, section), **_section(credentials, self.name)}

    @property
    def has_keys(self) -> bool:
        """Whether there are keys in it."""
        return {"aws_access_key_id", "aws_secret_access_key"} <= self.values().keys()


def find_profile(name: str | None) -> Profile | None:
    """The profile to use: the one that is named, or the environment's, or the default one if it has keys.

    None where the environment has keys or an identity of its own.
    """
    if name is None and any(os.environ.get(variable) for variable in _OWN_IDENTITY):
        return None
    chosen = name or os.environ.get("AWS_PROFILE")
    profile = Profile(chosen or DEFAULT, _files())
    if profile.has_keys:
        return profile
    if chosen:
        raise _unusable(profile)
    return None


def _files() -> tuple[Path, Path]:
    home = Path("~/.aws").expanduser()
    return (
        Path(os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or home / "credentials").expanduser(),
        Path(os.environ.get("AWS_CONFIG_FILE") or home / "config").expanduser(),
    )


def _parsed(file: Path) -> ConfigParser:
    parser = ConfigParser(interpolation=None, default_section="")
    try:
        parser.read(file, encoding="utf-8")
    except (Error, OSError, UnicodeDecodeError):
        # The parser's own words quote the line, which may be the one with the secret.
        raise InvalidSettings(f"{file}: not a file of AWS profiles", source=str(file)) from None
    return parser


def _section(parser: ConfigParser, name: str) -> dict[str, str]:
    return dict(parser[name]) if parser.has_section(name) else {}


def _unusable(profile: Profile) -> InvalidSettings | Unsupported:
    means = [key for key in _BY_OTHER_MEANS if key in profile.values()]
    if means:
        return Unsupported(
            f"the profile {profile.name!r} gets its keys by {means[0]}, which is not supported",
            hint=f'eval "$(aws configure export-credentials --profile {profile.name} --format env)"',
        )
    where = " nor ".join(map(str, profile.files))
    return InvalidSettings(
        f"neither {where} has keys of a profile {profile.name!r}",
        hint="correct `storage.profile`",
        key="storage.profile",
    )
