"""The equations of docstrings as MathML, which browsers show without a script.

An equation is written in ASCII: `theta <- theta - h grad U(theta) + sqrt(2 h T) xi`. Greek letters have their names,
`_` and `^` set the next symbol or group lower and higher, and digits after a letter are an index. Everything else is
shown as it is written, so no line can fail.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.entities import html5

from markupsafe import escape

GREEK = {
    name: html5[f"{name};"]
    for name in (
        "alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu", "nu",
        "xi", "pi", "rho", "sigma", "tau", "phi", "chi", "psi", "omega",
        "Gamma", "Delta", "Theta", "Lambda", "Xi", "Pi", "Sigma", "Phi", "Psi", "Omega",
    )
}  # fmt: skip
LETTERS = {**GREEK, "lam": "λ", "grad": "∇", "sum": "∑", "prod": "∏", "inf": "∞"}
SIGNS = {
    "<-": "←", "->": "→", "<=": "≤", ">=": "≥", "+-": "±", "-": "−", "*": "·", "...": "…", "~": "∼", "'": "′",
}  # fmt: skip
PREFIX = re.compile(r"(d?)([A-Za-z]+)(\d*)")
TOKEN = re.compile(
    r"(?P<gap>\s{2,})|(?P<space>\s)|(?P<number>\d+(?:,\d{3})*(?:\.\d+)?|\.\d+)|(?P<name>[A-Za-z]+\d*)"
    r"|(?P<sign><-|->|<=|>=|\+-|\.\.\.)|(?P<code>`[^`]*`)|(?P<other>.)"
)
CLOSING = {"(": ")", "[": "]", "{": "}"}
DEEPEST = 20
"""Groups within groups that are looked into; deeper ones are shown as they are written."""


def markup(text: str) -> str:
    """Return the lines of an equation as a block of MathML, one line under the other."""
    lines = [line.rstrip() for line in text.splitlines()]
    indent = min((len(line) - len(line.lstrip()) for line in lines if line), default=0)
    rows = "".join(f"<mtr><mtd>{_row(line[indent:])}</mtd></mtr>" for line in lines if line)
    return f'<math display="block"><mtable columnalign="left">{rows}</mtable></math>'


def _row(line: str) -> str:
    tokens = [(str(match.lastgroup), match[0]) for match in TOKEN.finditer(line)]
    return _Reader(tokens).row()


class _Reader:
    """Reads the tokens (kind, text) of a line from left to right."""

    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self.tokens = tokens
        self.at = 0
        self.depth = 0

    def row(self, end: str = "") -> str:
        """Return the elements up to the closing bracket `end`, which stays, or to the end of the line."""
        return "".join(self._elements(end))

    def _elements(self, end: str) -> Iterator[str]:
        word = False
        while self.at < len(self.tokens):
            kind, text = self.tokens[self.at]
            if end and text == end:
                return
            if kind in {"gap", "space"}:
                self.at += 1
                words = word or (self._kind() == "name" and self._is_word())
                yield f'<mspace width="{min(len(text), 4) / 2:g}em"/>' if kind == "gap" else _space(words=words)
                continue
            word = kind == "name" and self._is_word()
            yield self._scripted()

    def _kind(self) -> str:
        return self.tokens[self.at][0] if self.at < len(self.tokens) else ""

    def _is_word(self) -> bool:
        text = self.tokens[self.at][1]
        return len(text) > 1 and text not in LETTERS and not text[-1].isdigit()

    def _scripted(self) -> str:
        """Return the next symbol with its index and its power."""
        base = self._symbol()
        scripts: dict[str, str] = {}
        while self.at < len(self.tokens) - 1 and (sign := self.tokens[self.at][1]) in {"_", "^"} - scripts.keys():
            self.at += 1
            scripts[sign] = self._symbol(bare=True)
        tag = {"_": "msub", "^": "msup"}
        if len(scripts) == 2:
            return f"<msubsup>{base}{scripts['_']}{scripts['^']}</msubsup>"
        for sign, script in scripts.items():
            return f"<{tag[sign]}>{base}{script}</{tag[sign]}>"
        return base

    def _symbol(self, *, bare: bool = False) -> str:
        """Return the next symbol or group. A group is without its brackets if `bare`, as an index or a power."""
        kind, text = self.tokens[self.at]
        self.at += 1
        if text in CLOSING and self.depth < DEEPEST and self._closed(text):
            self.depth += 1
            inner = self.row(CLOSING[text])
            self.at += 1
            self.depth -= 1
            return f"<mrow>{inner}</mrow>" if bare else f"<mrow>{_sign(text)}{inner}{_sign(CLOSING[text])}</mrow>"
        if text == "sqrt" and self._kind() == "other" and self.tokens[self.at][1] == "(":
            return f"<msqrt>{self._symbol(bare=True)}</msqrt>"
        if bare and text in {"-", "+"} and self.at < len(self.tokens):
            return f"<mrow>{_sign(text)}{self._symbol()}</mrow>"
        if kind == "name":
            return _name(text)
        if kind == "number":
            return f"<mn>{text}</mn>"
        return f"<mtext>{escape(text.strip('`'))}</mtext>" if kind == "code" else _sign(text)

    def _closed(self, opening: str) -> bool:
        """Return whether the group that begins here ends in this line, brackets of its kind within it included."""
        depth = 1
        for _, text in self.tokens[self.at :]:
            depth += (text == opening) - (text == CLOSING[opening])
            if not depth:
                return True
        return False


def _space(*, words: bool) -> str:
    return '<mspace width="0.3em"/>' if words else ""


def _name(text: str) -> str:
    match = PREFIX.fullmatch(text)
    letter, digits = text, ""
    if match and match[2] in LETTERS:
        letter, digits = f"{match[1]}{LETTERS[match[2]]}", match[3]
    elif match and match[3]:
        letter, digits = text.removesuffix(match[3]), match[3]
    letter = LETTERS.get(letter, letter)
    base = f"<mo>{letter}</mo>" if letter in {"∇", "∑", "∏"} else f"<mi>{escape(letter)}</mi>"
    return f"<msub>{base}<mn>{digits}</mn></msub>" if digits else base


def _sign(text: str) -> str:
    return f'<mo stretchy="false">{escape(SIGNS.get(text, text))}</mo>'
