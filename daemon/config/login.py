"""The keys of a login, the same for the broker and for a camera."""

import re
from typing import Annotated, Protocol

from pydantic import Field, SecretStr

from edgemeta.daemon.config.section import PathText

_VARIABLE = re.compile(r"\$?\{\w+\}|!secret\b.*")
"""What other programs replace by a variable or a secret; such a text can be in a file."""

UserName = Annotated[str | None, Field(min_length=1, description="User name; null sends none.")]
UserNameFile = Annotated[PathText | None, Field(description="File whose first line is the user name.")]
UserNameVariable = Annotated[
    str | None, Field(min_length=1, description="Environment variable that holds the user name.")
]
Password = Annotated[
    SecretStr | None, Field(description="Password in plain text; `password_file` or `password_env` are safer.")
]
PasswordFile = Annotated[PathText | None, Field(description="File whose first line is the password.")]
PasswordVariable = Annotated[
    str | None, Field(min_length=1, description="Environment variable that holds the password.")
]


class Login(Protocol):
    """A section with the keys of a login."""

    @property
    def username(self) -> str | None:
        """User name."""

    @property
    def username_file(self) -> str | None:
        """File with the user name."""

    @property
    def username_env(self) -> str | None:
        """Environment variable with the user name."""

    @property
    def password(self) -> SecretStr | None:
        """Password."""

    @property
    def password_file(self) -> str | None:
        """File with the password."""

    @property
    def password_env(self) -> str | None:
        """Environment variable with the password."""


def keys_of_login(section: Login) -> tuple[list[str], list[str]]:
    """Return the keys that give the user name, and those that give the password.

    Raises ValueError for two of one, and for a variable.
    """
    names, passwords = (
        [key for key in (what, f"{what}_file", f"{what}_env") if getattr(section, key) is not None]
        for what in ("username", "password")
    )
    for given in (names, passwords):
        if len(given) > 1:
            raise ValueError(f"only one of {', '.join(given)}")
    password = section.password.get_secret_value() if section.password is not None else ""
    for key, value in (("username", section.username or ""), ("password", password)):
        if _VARIABLE.fullmatch(value):
            raise ValueError(f"`{key}_env` or `{key}_file` instead of a variable in `{key}`")
    return names, passwords
