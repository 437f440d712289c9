"""What the benchmark of clusters compares: the same launch with and without constants that are copied ahead."""

from benchmarks.cuda_cluster import without_room
from edgemeta.kernels.cuda.lowering import lower
from edgemeta.kernels.cuda.one_launch.plan import one_cluster, one_launch
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES
from edgemeta.model.file import load
from edgemeta.model.zoo import find


def test_without_room_nothing_is_copied_and_the_blocks_are_the_same() -> None:
    plan = lower(load(find("resnet8-cifar10")), ARCHITECTURES["sm_90"])
    for form in (one_launch, one_cluster):
        (copied,), (plain,) = form(plan).launches, form(without_room(plan)).launches
        assert (copied.grid, copied.block, copied.joins) == (plain.grid, plain.block, plain.joins)
        assert "copy_ahead<" in copied.source.text
        assert "copy_ahead<" not in plain.source.text
        assert plain.shared_bytes == max(launch.shared_bytes for launch in plan.launches)
