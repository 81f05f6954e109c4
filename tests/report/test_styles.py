"""One colour a method in all figures, whatever else is in the figure or installed."""

import itertools

import matplotlib as mpl
import numpy as np

from harness import registry
from reports.figures.styles import COLOURS, MARKERS, ORDER, OUTSIDE, look, looks

VISION = (  # normal, and without the long, medium or short waves: Machado, Oliveira and Fernandes 2009
    np.eye(3),
    [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
)


def lab(linear):
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ linear
    f = np.cbrt(xyz / np.array([0.9505, 1, 1.089]))
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def test_the_colours_are_told_apart_with_any_colour_vision():
    srgb = np.array([mpl.colors.to_rgb(colour) for colour in COLOURS])
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    for matrix in VISION:
        seen = [lab(np.clip(np.asarray(matrix) @ colour, 0, 1)) for colour in linear]
        assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2)) > 13


def test_every_built_in_method_has_a_look_of_its_own():
    names = {o.name for kind in ("samplers", "methods") for o in registry().offers(kind)}
    assert names <= set(ORDER)
    assert len({tuple(look(name).values()) for name in ORDER}) == len(ORDER) <= len(COLOURS) * len(MARKERS)


def test_a_look_depends_on_the_method_alone():
    alone = looks(["sgld"])["sgld"]
    crowd = looks([*ORDER, "my-sampler", "another"])
    assert crowd["sgld"] == alone
    assert {label: style["color"] for label, style in crowd.items()} == {label: look(label)["color"] for label in crowd}
    assert look("my-sampler")["marker"] in OUTSIDE
    assert not set(OUTSIDE) & set(MARKERS)


def test_rows_of_one_method_share_its_colour_and_differ_in_stroke():
    by_label = looks(["sgld (schedule.step_size=0.1)", "sgld (schedule.step_size=0.2)", "hmc"])
    one, two = (style for label, style in by_label.items() if label.startswith("sgld"))
    assert one["color"] == two["color"] != by_label["hmc"]["color"]
    assert one["linestyle"] != two["linestyle"]
    many = looks([f"sgld (schedule.step_size={k})" for k in range(12)])
    assert len({str(style) for style in many.values()}) == 12
