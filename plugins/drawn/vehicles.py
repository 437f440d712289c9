"""Things that carry people: each function draws one on a fresh layer, facing left."""

import numpy as np

from edgemeta.plugins.drawn.painting import Colour, Layer, lighter, one_of

GLASS: Colour = (48, 58, 70)
RUBBER: Colour = (28, 28, 30)
STEEL: Colour = (170, 172, 176)
CAR_PAINTS: tuple[Colour, ...] = ((190, 34, 34), (38, 84, 176), (30, 120, 130), (176, 180, 188), (214, 160, 30))
CAB_PAINTS: tuple[Colour, ...] = ((182, 40, 36), (40, 80, 160), (224, 120, 30), (214, 214, 210), (36, 110, 70))
AIRLINES: tuple[Colour, ...] = ((60, 74, 130), (170, 44, 44), (40, 110, 110))
FUNNELS: tuple[Colour, ...] = ((190, 62, 46), (224, 170, 40), (40, 60, 110))


def _wheel(layer: Layer, x: float, y: float, diameter: float) -> None:
    layer.ellipse(x, y, diameter, diameter * 1.05, RUBBER, relief=0.2)
    layer.ellipse(x, y, diameter * 0.55, diameter * 0.58, STEEL, relief=0.2)


def airplane(rng: np.random.Generator) -> Layer:
    """Draw a white airliner from the side, climbing a little."""
    layer = Layer(rng)
    white: Colour = (232, 234, 238)
    grey: Colour = (120, 126, 138)
    stripe = one_of(rng, AIRLINES)
    layer.shape([(58, 50), (72, 46), (86, 33), (80, 34), (62, 45)], grey)  # far wing
    layer.blob(
        [(5, 52), (9, 47), (20, 44), (50, 43), (78, 44), (95, 43), (93, 47), (80, 52), (55, 56), (20, 57), (8, 56)],
        white,
        relief=0.45,
    )
    layer.shape([(76, 45), (90, 24), (96, 24), (94, 45)], stripe, relief=0.1)  # fin
    layer.shape([(82, 46), (97, 41), (99, 44), (90, 49)], grey)  # tailplane
    layer.shape([(36, 52), (54, 50), (74, 66), (70, 68), (60, 66)], grey, relief=0.4)  # near wing
    layer.ellipse(46, 61, 12, 6.5, (96, 102, 116))  # engine
    layer.limb([(12, 50), (88, 47)], [1.6, 1.6], stripe, relief=0)  # windows
    layer.shape([(7, 49), (11, 47.5), (13, 49), (8, 51)], GLASS, relief=0)
    return layer


def ship(rng: np.random.Generator) -> Layer:
    """Draw a white passenger ship with a dark hull."""
    layer = Layer(rng)
    white: Colour = (238, 238, 236)
    layer.ellipse(50, 71, 96, 7, (200, 216, 226), relief=0, soft=1.5)  # foam
    layer.shape([(2, 54), (16, 57), (95, 56), (92, 70), (12, 71)], (44, 52, 84), relief=0.3)
    layer.shape([(2, 53), (16, 56), (95, 55), (94, 58), (14, 60)], white, relief=0)
    layer.shape([(20, 46), (88, 45), (90, 56), (16, 57)], white, relief=0.2)
    layer.shape([(27, 37), (78, 37), (82, 46), (22, 46)], white, relief=0.2)
    layer.shape([(32, 30), (56, 30), (58, 38), (29, 38)], white, relief=0.2)
    for y, left, right in ((50.5, 22, 86), (42, 28, 76), (34, 33, 54)):
        layer.limb([(left, y), (right, y)], [2.2, 2.2], GLASS, relief=0)
    layer.shape([(62, 24), (71, 24), (73, 38), (62, 38)], one_of(rng, FUNNELS), relief=0.2)  # funnel
    layer.limb([(42, 31), (42, 14)], [1.6, 0.8], (90, 92, 98), relief=0)  # mast
    layer.limb([(37, 20), (47, 20)], [1, 1], (90, 92, 98), relief=0)
    return layer


def automobile(rng: np.random.Generator) -> Layer:
    """Draw a small car seen from its front left."""
    layer = Layer(rng)
    paint = one_of(rng, CAR_PAINTS)
    layer.ellipse(52, 78, 92, 10, (50, 48, 48), relief=0, soft=2)  # shadow
    layer.blob(
        [
            (4, 62),
            (8, 52),
            (24, 48),
            (34, 33),
            (56, 29),
            (78, 32),
            (92, 48),
            (96, 60),
            (94, 72),
            (60, 77),
            (20, 77),
            (6, 72),
        ],
        paint,
        relief=0.5,
    )
    layer.shape([(29, 48), (38, 35), (54, 33), (54, 48)], GLASS, relief=0.3)
    layer.shape([(57, 48), (57, 33), (74, 35), (85, 47)], GLASS, relief=0.3)
    layer.limb([(10, 56), (94, 55)], [1, 1], lighter(paint, 0.55), relief=0)
    layer.ellipse(10, 61, 9, 6, (240, 240, 230), angle=-20)  # lamp
    layer.shape([(4, 68), (14, 70), (14, 74), (6, 73)], RUBBER, relief=0)
    _wheel(layer, 26, 74, 18)
    _wheel(layer, 79, 73, 18)
    return layer


def truck(rng: np.random.Generator) -> Layer:
    """Draw a lorry: a cab with a white box behind."""
    layer = Layer(rng)
    paint = one_of(rng, CAB_PAINTS)
    layer.ellipse(52, 84, 98, 8, (46, 46, 46), relief=0, soft=2)
    layer.shape([(36, 20), (97, 26), (97, 72), (36, 76)], (226, 226, 224), relief=0.15)
    layer.shape([(36, 20), (97, 26), (97, 30), (36, 25)], (176, 178, 182), relief=0)
    layer.shape([(34, 74), (97, 70), (97, 76), (34, 80)], (60, 60, 64), relief=0)
    layer.shape([(5, 34), (33, 30), (35, 78), (5, 79)], paint, relief=0.25)
    layer.shape([(7, 38), (20, 37), (20, 51), (7, 52)], GLASS, relief=0.2)
    layer.shape([(23, 36.5), (32, 36), (32, 50), (23, 51)], GLASS, relief=0.2)
    layer.shape([(6, 60), (20, 60), (20, 70), (6, 71)], (70, 70, 74), relief=0)
    layer.ellipse(8, 74, 4, 4, (250, 246, 220))
    layer.ellipse(19, 74, 4, 4, (250, 246, 220))
    for x in (27, 68, 86):
        _wheel(layer, x, 80, 15)
    return layer
