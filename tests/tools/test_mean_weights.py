"""Weights of two trainings of one network are averaged, layer by layer."""

from dataclasses import replace

import numpy as np
import pytest

from edgemeta.model.float_file import load_float_model
from edgemeta.model.layers import Conv
from edgemeta.model.zoo import find
from tools.mean_weights import mean


def test_the_mean_lies_between() -> None:
    model = load_float_model(find("resnet8-cifar10-float"))
    zeros = [
        replace(layer, weights=np.zeros_like(layer.weights)) if isinstance(layer, Conv) else layer
        for layer in model.layers
    ]
    found = mean(model, replace(model, layers=tuple(zeros)))
    for layer, own in zip(found.layers, model.layers, strict=True):
        if isinstance(layer, Conv):
            assert isinstance(own, Conv)
            np.testing.assert_array_equal(layer.weights, own.weights / 2)
    with pytest.raises(SystemExit, match="have other layers"):
        mean(replace(model, layers=model.layers[1:]), model)
