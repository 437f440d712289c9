"""Epilogue as in the paper: a shift, a clamp and one lookup in the channel's table of 256 entries.

A model that requantizes by multipliers has no tables; it uses the forms of our own kernels.
"""

from collections.abc import Sequence

import numpy as np

from edgemeta.kernels.cuda.plan import epilogue
from edgemeta.kernels.cuda.plan.epilogue import Epilogue, Form
from edgemeta.kernels.cuda.plan.kernel import Tensors
from edgemeta.kernels.cuda.plan.launch_plan import Constant
from edgemeta.kernels.lowering.requantization import fold_clamps, product_accumulators
from edgemeta.model.layers import Clamp, Conv, ShiftTable


def paper_epilogue(
    prefix: str, conv: Conv, tensors: Tensors, padded: int, scale_bits: int = 0, clamps: Sequence[Clamp] = ()
) -> Epilogue:
    """Epilogue of a convolution with `clamps` after it; arguments as in `make_epilogue`."""
    sums = product_accumulators(conv, tensors.types[conv.input])
    form = fold_clamps(conv.requantize, clamps)
    end = epilogue.make_epilogue(prefix, conv.name, form, conv.output, sums, padded, scale_bits)
    if not isinstance(form, ShiftTable):
        return end
    channels = conv.output.shape[2]
    rows = np.zeros((padded, 8), np.int64)
    rows[:channels, 0] = sums.start << scale_bits
    rows[:channels, 2] = form.shift
    table = np.zeros((max(padded, 2), 256), np.uint8)
    table[:channels] = form.table.view(np.uint8)
    return Epilogue(
        tuple((name, int(Form.TABLE) if name == f"{prefix}_FORM" else value) for name, value in end.defines),
        Constant(f"{conv.name}.channels", rows.astype(np.uint32).view(np.int32)),
        Constant(f"{conv.name}.table", table),
    )
