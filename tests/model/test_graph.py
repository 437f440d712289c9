"""What a network says of its tensors."""

from edgemeta.model.graph import INPUT, readers_of
from edgemeta.model.layers import Add, Clamp, TensorType


def test_a_tensor_is_read_by_each_layer_that_names_it_and_once_more_as_an_output() -> None:
    kind = TensorType((1, 1, 1))
    layers = (Clamp("c", INPUT, kind, 0, 1), Add("s", ("c", "c"), kind, multipliers=(1, 1), shift=0, lo=0, hi=1))
    readers = readers_of(layers, ("s", "c"))
    assert [readers[name] for name in (INPUT, "c", "s", "absent")] == [1, 3, 1, 0]
