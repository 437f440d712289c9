"""The table of reason codes, against the tables of MQTT 5 that paho has."""

import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.reasoncodes import ReasonCode

from edgemeta.daemon.mqtt.answers import _OF_A_MOMENT, Outcome, answer_of, is_final

CODES = [
    (kind, code)
    for code, names in ReasonCode.names.items()
    for kinds in names.values()
    for kind in kinds
    if kind in _OF_A_MOMENT
]


@pytest.mark.parametrize(("kind", "code"), [(kind, code) for kind, code in CODES if code >= 0x80])
def test_each_error_of_mqtt_5_speaks_of_a_moment_or_is_final(kind: int, code: int) -> None:
    reason = ReasonCode(kind, identifier=code)
    assert is_final(reason) == (code not in _OF_A_MOMENT[kind])
    if code in (0x80, 0x83, 0x97):
        assert not is_final(reason)
    if code in (0x87, 0x90, 0x95, 0x99, 0x9A, 0x9B):
        assert is_final(reason)


@pytest.mark.parametrize("kind", sorted(_OF_A_MOMENT))
def test_only_codes_of_the_packet_are_in_the_table(kind: int) -> None:
    assert {(kind, code) for code in _OF_A_MOMENT[kind]} <= set(CODES)


@pytest.mark.parametrize(
    ("code", "outcome"),
    [(0, Outcome.ACCEPTED), (0x10, Outcome.ACCEPTED), (0x97, Outcome.POSTPONED), (0x87, Outcome.REFUSED)],
)
def test_what_becomes_of_a_message(code: int, outcome: Outcome) -> None:
    assert answer_of(ReasonCode(PacketTypes.PUBACK, identifier=code)).outcome is outcome
