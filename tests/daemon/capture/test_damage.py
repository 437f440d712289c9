"""Damaged pictures: counted over openings, and whether they last."""

from edgemeta.daemon.capture.damage import Damage
from edgemeta.daemon.runtime.clock import NS


def test_a_burst_is_one_incident() -> None:
    damage = Damage()
    for number in range(50):
        damage.add(number, number * NS // 50)
    assert (damage.total, damage.lasts) == (49, False)


def test_damage_that_comes_again_lasts_until_it_is_over() -> None:
    damage = Damage()
    said = []
    for second in range(60):
        damage.add(min(second // 2, 10), second * NS)
        said.append(damage.lasts)
    assert said.index(True) <= 8
    last = 20
    assert all(said[8 : last + 29])
    assert not said[last + 31]


def test_damage_once_a_minute_does_not_last() -> None:
    damage = Damage()
    for second in range(1000):
        damage.add(second // 60, second * NS)
        assert not damage.lasts


def test_a_source_that_is_opened_again_counts_from_0() -> None:
    damage = Damage()
    damage.add(5, 0)
    damage.begin()
    damage.add(2, NS)
    assert damage.total == 7
