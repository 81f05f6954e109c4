"""SVG that can only be looked at: no scripts, no events, no HTML, no animation, no address outside the file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree as ET

SVG = "{http://www.w3.org/2000/svg}"
_ELEMENTS = frozenset(
    f"{SVG}{name}"
    for name in (
        "a", "circle", "clipPath", "defs", "desc", "ellipse", "feColorMatrix", "feComposite", "filter", "g", "image",
        "line", "linearGradient", "marker", "mask", "metadata", "path", "pattern", "polygon", "polyline",
        "radialGradient", "rect", "stop", "style", "svg", "symbol", "text", "textPath", "title", "tspan", "use",
    )
)  # fmt: skip
_DESCRIPTIONS = (
    "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}", "{http://creativecommons.org/ns#}",
    "{http://purl.org/dc/elements/1.1/}",
)  # fmt: skip
"""Namespaces of what matplotlib puts into <metadata>."""
_INSIDE = re.compile(r"\s*(#|data:image/png;base64,)")
_NAME = re.compile(r"(?!on)[a-z][a-z0-9-]*", re.IGNORECASE)
_OUTSIDE = re.compile(
    r"url\s*\(\s*['\"]?\s*(?!['\"#])|@import|\\|(expression|image-set|src)\s*\(|javascript:", re.IGNORECASE
)
"""Of a style or a value: an address that is not a part of this file. Backslashes would hide one."""


def cleaned(content: bytes) -> bytes:
    """An SVG file without what could act or load anything; the same bytes where it has nothing of the kind.

    Raises `ValueError` where it is no SVG, or declares entities.
    """
    text = content.decode()
    if "<!ENTITY" in text:
        raise ValueError("the SVG declares entities")
    try:
        root = ET.fromstring(content)  # noqa: S314 - no entities, so nothing expands
    except ET.ParseError as error:
        raise ValueError(f"the SVG does not parse: {error}") from None
    if root.tag != f"{SVG}svg":
        raise ValueError(f"the SVG begins with {root.tag!r:.80}")
    if "<?" not in text[1:] and not any(True for element in root.iter() for _ in _wrong(element)):
        return content  # without a processing instruction, which may name a style sheet
    for element in root.iter():
        for part in [*_wrong(element)]:
            if isinstance(part, str):
                del element.attrib[part]
            elif part is element:
                element.text = ""
            else:
                element.remove(part)
    ET.register_namespace("", SVG[1:-1])
    ET.register_namespace("xlink", "http://www.w3.org/1999/xlink")
    return b'<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="utf-8")


def _wrong(element: ET.Element) -> Iterator[str | ET.Element]:
    """What an element must not have: names of attributes, children, or itself where its text is a style that loads."""
    for name, value in element.attrib.items():
        local = name.rpartition("}")[2]
        if local.lower() == "href":
            if not _INSIDE.match(value):
                yield name
        elif not _NAME.fullmatch(local) or local in {"base", "src"} or _OUTSIDE.search(value):
            yield name
    yield from (child for child in element if child.tag not in _ELEMENTS and not _describes(child))
    if element.tag == f"{SVG}style" and _OUTSIDE.search(element.text or ""):
        yield element


def _describes(element: ET.Element) -> bool:
    return isinstance(element.tag, str) and element.tag.startswith(_DESCRIPTIONS)
