"""Animals: each function draws one on a fresh layer, facing left."""

import numpy as np

from edgemeta.plugins.drawn.painting import Colour, Layer, Points, lighter, one_of

HORSES: tuple[Colour, ...] = ((122, 70, 40), (150, 84, 44), (92, 58, 38), (70, 50, 42))
DEER: tuple[Colour, ...] = ((150, 104, 62), (134, 96, 62), (164, 122, 80))
FROGS: tuple[Colour, ...] = ((122, 118, 60), (104, 124, 52), (136, 104, 62))
CATS: tuple[Colour, ...] = ((128, 112, 92), (118, 116, 112), (142, 116, 86))
DOGS: tuple[Colour, ...] = ((166, 102, 56), (120, 76, 46), (190, 140, 84))
BIRDS: tuple[Colour, ...] = ((118, 92, 66), (96, 88, 82), (132, 84, 54))


def _legs(layer: Layer, legs: list[Points], widths: list[float], colour: Colour) -> None:
    for joints in legs:
        layer.limb(joints, widths, colour, relief=0.2)


def horse(rng: np.random.Generator) -> Layer:
    """Draw a brown horse standing sideways."""
    layer = Layer(rng)
    coat = one_of(rng, HORSES)
    dark = lighter(coat, 0.45)
    layer.ellipse(55, 90, 74, 6, (46, 60, 32), relief=0, soft=2)
    far = lighter(coat, 0.6)
    _legs(layer, [[(38, 56), (40, 72), (37, 88)], [(76, 54), (80, 72), (76, 88)]], [9, 4.5, 4], far)
    layer.blob([(80, 34), (88, 40), (92, 56), (93, 70), (89, 62), (86, 48)], dark)  # tail
    layer.blob(
        [(30, 38), (40, 37), (58, 39), (74, 34), (84, 38), (86, 50), (80, 58), (66, 60), (46, 61), (33, 60), (28, 50)],
        coat,
        relief=0.45,
    )
    layer.blob(
        [(24, 14), (30, 15), (40, 30), (46, 42), (36, 56), (28, 50), (24, 34), (20, 26)], coat, relief=0.2
    )  # neck
    layer.blob(
        [(25, 11), (29, 16), (25, 25), (15, 33), (10, 34), (9, 29), (16, 19), (21, 13)], coat, relief=0.3
    )  # head
    layer.blob([(25, 10), (31, 12), (40, 24), (47, 38), (42, 38), (33, 26), (27, 17)], dark, relief=0.1)  # mane
    layer.shape([(22, 13), (24, 6), (27, 13)], coat)
    _legs(layer, [[(35, 54), (33, 72), (33, 90)], [(78, 52), (84, 70), (83, 90)]], [10, 5, 4.5], coat)
    _legs(layer, [[(33, 80), (33, 90)], [(83, 80), (83, 90)]], [5, 5], dark)
    return layer


def deer(rng: np.random.Generator) -> Layer:
    """Draw a stag with antlers."""
    layer = Layer(rng)
    coat = one_of(rng, DEER)
    dark = lighter(coat, 0.4)
    layer.ellipse(56, 91, 66, 5, (60, 56, 34), relief=0, soft=2)
    _legs(layer, [[(42, 60), (43, 76), (42, 90)], [(74, 60), (77, 76), (75, 90)]], [6, 3, 2.6], dark)
    layer.blob(
        [(36, 46), (50, 44), (68, 44), (80, 46), (83, 55), (78, 64), (60, 65), (42, 66), (35, 58)], coat, relief=0.45
    )
    layer.ellipse(82, 52, 6, 9, (220, 204, 170))  # white rump
    layer.blob([(30, 30), (36, 31), (44, 46), (42, 62), (35, 60), (31, 46), (28, 37)], lighter(coat, 0.55), relief=0.2)
    layer.blob([(33, 27), (35, 33), (28, 38), (20, 40), (18, 37), (25, 31), (29, 27)], coat, relief=0.3)
    layer.shape([(34, 31), (42, 27), (37, 34)], coat)
    _legs(layer, [[(38, 60), (37, 76), (37, 91)], [(78, 58), (81, 75), (80, 91)]], [6.5, 3.2, 2.8], lighter(coat, 0.7))
    for tip, base in ((14, 31), (48, 35)):
        lean = tip - base
        layer.limb([(base, 28), (base + 0.8 * lean, 19), (base + lean, 3)], [3.2, 3.4, 1.6], dark, relief=0)
        for height, along in ((22, 0.5), (15, 0.85), (9, 0.95)):
            stem = base + along * lean
            layer.limb([(stem, height), (stem - 0.45 * lean, height - 9)], [2.8, 1.4], dark, relief=0)
    return layer


def frog(rng: np.random.Generator) -> Layer:
    """Draw a frog sitting, seen from its front left."""
    layer = Layer(rng)
    skin = one_of(rng, FROGS)
    layer.ellipse(54, 80, 84, 12, (20, 22, 16), relief=0, soft=2)
    layer.blob(
        [(60, 50), (78, 52), (92, 66), (90, 78), (72, 82), (56, 78)], lighter(skin, 0.75), relief=0.4, mottle=0.15
    )
    layer.blob(
        [(12, 44), (20, 33), (34, 26), (52, 28), (72, 40), (86, 58), (84, 74), (62, 78), (38, 76), (22, 66), (13, 54)],
        skin,
        relief=0.4,
        mottle=0.18,
    )
    layer.blob(
        [(12, 48), (22, 52), (38, 54), (46, 64), (40, 76), (26, 72), (16, 60)], (196, 190, 140), relief=0.2
    )  # belly
    layer.limb([(12, 48), (24, 49), (40, 46)], [0.8, 1.6, 1], (54, 50, 28), relief=0)  # mouth
    layer.limb([(32, 60), (26, 72), (16, 83)], [10, 7, 6], lighter(skin, 0.9), relief=0.3)
    layer.limb([(52, 62), (48, 74), (40, 85)], [10, 7, 6], skin, relief=0.3)
    layer.blob([(60, 60), (74, 54), (88, 66), (86, 80), (66, 84), (54, 84), (62, 76)], skin, relief=0.4, mottle=0.15)
    layer.ellipse(29, 31, 14, 12, lighter(skin, 1.1), relief=0.4)
    layer.ellipse(28, 31, 8, 7.5, (20, 18, 12), relief=0)
    layer.ellipse(26, 29.5, 2.5, 2, (240, 240, 220), relief=0)
    return layer


def bird(rng: np.random.Generator) -> Layer:
    """Draw a small brown bird on a post."""
    layer = Layer(rng)
    plumage = one_of(rng, BIRDS)
    layer.shape([(40, 88), (62, 86), (66, 101), (36, 101)], (140, 120, 92), relief=0.2, mottle=0.15)
    layer.limb([(48, 76), (46, 88)], [2, 1.6], (90, 60, 40), relief=0)
    layer.limb([(56, 76), (55, 88)], [2, 1.6], (90, 60, 40), relief=0)
    layer.limb([(66, 64), (80, 78), (92, 92)], [12, 8, 6], lighter(plumage, 0.6))  # tail
    layer.blob(
        [(26, 24), (34, 18), (44, 22), (52, 34), (68, 52), (76, 68), (66, 78), (48, 78), (34, 66), (29, 46), (25, 34)],
        plumage,
        relief=0.4,
        mottle=0.08,
    )
    layer.blob(
        [(28, 36), (38, 40), (46, 58), (60, 76), (48, 79), (34, 66), (29, 48)], (206, 186, 150), relief=0.2, mottle=0.06
    )
    layer.blob(
        [(46, 38), (58, 46), (72, 64), (80, 78), (64, 72), (50, 56)], lighter(plumage, 0.65), relief=0.3, mottle=0.15
    )
    layer.shape([(27, 27), (14, 30), (27, 33)], (70, 60, 50), relief=0.2)
    layer.ellipse(33, 26, 4, 4, (16, 14, 12), relief=0)
    return layer


def cat(rng: np.random.Generator) -> Layer:
    """Draw the face and breast of a tabby."""
    layer = Layer(rng)
    fur = one_of(rng, CATS)
    dark, pale = lighter(fur, 0.5), lighter(fur, 1.45)
    layer.blob(
        [(24, 70), (36, 58), (64, 58), (76, 70), (84, 101), (16, 101)], lighter(fur, 0.85), relief=0.2, mottle=0.15
    )
    layer.blob([(40, 72), (60, 72), (64, 101), (36, 101)], pale, relief=0.1, soft=1)
    for side in (-1, 1):
        layer.shape([(50 + side * 32, 8), (50 + side * 34, 42), (50 + side * 8, 26)], fur, relief=0.2)
        layer.shape([(50 + side * 29, 15), (50 + side * 30, 36), (50 + side * 16, 27)], (196, 150, 140), relief=0.1)
    layer.blob(
        [(18, 44), (26, 28), (50, 22), (74, 28), (82, 44), (80, 60), (66, 74), (50, 78), (34, 74), (20, 60)],
        fur,
        relief=0.3,
        mottle=0.25,
    )
    for x, lean in ((42, -3), (50, 0), (58, 3)):
        layer.limb([(x + lean, 24), (x, 38)], [3, 1.5], dark, relief=0, soft=0.4)
    for side in (-1, 1):
        for y in (50, 58):
            layer.limb([(50 + side * 31, y), (50 + side * 20, y + 3)], [2.5, 1.2], dark, relief=0, soft=0.4)
        layer.ellipse(50 + side * 15, 46, 13, 10, dark, angle=side * 12, relief=0, soft=0.4)
        layer.ellipse(50 + side * 15, 46, 10, 8.5, (160, 168, 84), angle=side * 12, relief=0.1)
        layer.ellipse(50 + side * 15, 46, 4, 8, (14, 14, 12), relief=0)
        layer.ellipse(50 + side * 7, 65, 17, 13, pale, relief=0.2, soft=0.5)
    layer.shape([(45, 57), (55, 57), (50, 62)], (196, 120, 110), relief=0.1)
    layer.limb([(50, 62), (50, 67)], [1, 1], dark, relief=0)
    layer.soften(1.6)
    return layer


def dog(rng: np.random.Generator) -> Layer:
    """Draw the head and breast of a spaniel."""
    layer = Layer(rng)
    fur = one_of(rng, DOGS)
    white: Colour = (236, 230, 222)
    layer.blob([(28, 66), (72, 66), (84, 101), (16, 101)], white, relief=0.2, mottle=0.06)
    layer.blob(
        [(26, 34), (34, 16), (50, 11), (66, 16), (74, 34), (72, 56), (62, 76), (50, 80), (38, 76), (28, 56)],
        fur,
        relief=0.3,
        mottle=0.06,
    )
    layer.blob(
        [(45, 12), (55, 12), (57, 36), (66, 58), (60, 74), (50, 79), (40, 74), (34, 58), (43, 36)],
        white,
        relief=0.2,
        soft=0.6,
    )
    for side in (-1, 1):
        layer.blob(
            [
                (50 + side * 22, 20),
                (50 + side * 34, 32),
                (50 + side * 38, 62),
                (50 + side * 32, 78),
                (50 + side * 25, 66),
                (50 + side * 23, 42),
            ],
            lighter(fur, 0.7),
            relief=0.3,
            mottle=0.1,
        )
        layer.ellipse(50 + side * 13, 40, 8, 8, (24, 16, 12), relief=0)
        layer.ellipse(50 + side * 13 - 1, 38.5, 2, 2, (230, 230, 230), relief=0)
    layer.ellipse(50, 60, 13, 9, (26, 22, 22), relief=0.2)
    layer.limb([(50, 64), (50, 70)], [1.2, 1.2], (60, 44, 40), relief=0)
    layer.limb([(41, 71), (50, 72), (59, 71)], [1, 1.6, 1], (70, 50, 46), relief=0)
    layer.soften(1.2)
    return layer
