"""What tells whose machine it is does not stay in a text; the rest does."""

import os
import pwd
import socket

import pytest

from edgemeta.cli.doctor.names import own_names, without_names


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("the library /home/alice/lib/x.so is missing", "the library <path> is missing"),
        ("'/mnt/disk' and ~/models/a.bin: gone", "'<path>' and <path>: gone"),
        ("broker 192.168.1.20:1883 refused", "broker <address>:1883 refused"),
        ("no route to fe80::1ff:fe23:4567:890a%eth0", "no route to <address>"),
        ("no route to 2001:db8::1", "no route to <address>"),
        ("from de:ad:be:ef:00:01 and 00-11-22-33-44-55", "from <address> and <address>"),
        ("mail to alice@example.org", "mail to <address>"),
        ("serial 1000000012345678", "serial <number>"),
        ("uuid 123e4567-e89b-12d3-a456-426614174000", "uuid <number>"),
        ("gate.example.org is not gate2, but gate", "<name> is not gate2, but <name>"),
        (
            "Raspberry Pi 4 Model B Rev 1.4, 3/4 of 1280x720, C++17",
            "Raspberry Pi 4 Model B Rev 1.4, 3/4 of 1280x720, C++17",
        ),
        ("LiteRT 2.3.0: ended (SIGILL), sm_87, 0xd08, resnet8-cifar10", None),
    ],
)
def test_placeholders(text: str, left: str | None) -> None:
    assert without_names(text, {"gate", "gate.example.org"}) == (text if left is None else left)


def test_this_machine_is_known() -> None:
    found = own_names()
    assert socket.gethostname() in found
    assert pwd.getpwuid(os.getuid()).pw_name in found
