"""Equations of docstrings as MathML: every symbol is kept, whatever is written, and every element is closed."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.contracts.registry import registry
from plugins.inspection.shown.offers import text
from plugins.nights.site.contents import paragraphs
from plugins.nights.site.equations import GREEK, markup


def shown(equation):
    """The symbols of a line, in their order, and the tags of its elements."""
    tree = ET.fromstring(markup(equation))  # noqa: S314 - our own
    return "".join(tree.itertext()), [element.tag for element in tree.iter()]


def test_a_step_of_sgld():
    symbols, tags = shown("    theta <- theta - h grad U(theta) + sqrt(2 h T - h^2 V) xi,    xi ~ N(0, I)")
    assert symbols == "θ←θ−h∇U(θ)+2hT−h2Vξ,ξ∼N(0,I)"
    assert (tags.count("msqrt"), tags.count("msup"), tags.count("mtr")) == (1, 1, 1)


@pytest.mark.parametrize(
    ("written", "tag", "symbols"),
    [("beta1^t", "msup", "β1t"), ("x_{t-M}", "msub", "xt−M"), ("G_i^2", "msubsup", "Gi2"), ("P^-1", "msup", "P−1"),
     ("u^(a b)", "msup", "uab"), ("dtheta_j", "msub", "dθj"), ("w1", "msub", "w1"), ("|g|^2", "msup", "|g|2")],
)  # fmt: skip
def test_indices_and_powers(written, tag, symbols):
    assert shown(written)[0] == symbols
    assert tag in shown(written)[1]


@given(st.text(alphabet="ab_^(){}[]|<->= \n'`\\&\"./2*+~ξ", max_size=40))
def test_whatever_is_written_is_shown_and_every_element_is_closed(written):
    symbols = shown(written)[0]
    letters = [letter for letter in symbols if letter.isalnum()]
    assert letters == [letter for letter in written if letter.isalnum()]


def test_deep_groups_do_not_recurse_without_end():
    assert shown("(" * 3000 + "x" + ")" * 3000)[0].count("(") == 3000
    assert shown("x = a^" + "-" * 3000)[0].count("\N{MINUS SIGN}") + shown("x = a^" + "-" * 3000)[0].count("-") == 3000


def test_the_equations_of_all_samplers_are_typeset():
    known = registry()
    for offer in known.offers("samplers"):
        if offer.distribution != "sgmcmc-bench":
            continue
        equations = [part for kind, part in paragraphs(text(offer)) if kind == "equation"]
        names = {name for part in equations for name in re.findall(r"[A-Za-z]+", part)} & GREEK.keys()
        page = unescape("".join(map(markup, equations)))
        assert not [name for name in names if re.search(rf"<mi>{name}</mi>", page)], offer.name
        assert page.count("_") == page.count("^") == 0, offer.name
