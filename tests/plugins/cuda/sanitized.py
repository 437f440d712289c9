"""A short life of a session, to be run under compute-sanitizer: python sanitized.py MODEL"""

import sys

import numpy as np

from edgemeta.model import reference
from edgemeta.model.file import load
from edgemeta.model.zoo import find
from edgemeta.plugins.measure import random_image
from edgemeta.plugins.registry import choose

model = load(find(sys.argv[1]))
image = random_image(model)
session = choose("cuda").compile(model, {"tiles": "rule", "launch": "kernels"})
for batch in (image, np.concatenate([image, image]), image):
    assert np.array_equal(session.run(batch)[0], reference.run(model, batch)[0])
session.close()
