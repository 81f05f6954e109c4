"""Commands that install the harness name a folder or an address: it is on no package index.

`pip install 'sgmcmc-bench[tune]'` is right where the harness is installed: pip then installs what the extra needs.
"""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
FROM_AN_INDEX = re.compile(r"""pip install (-\S+ )*['"]?sgmcmc-bench(?![\w\[])""")


def test_no_command_installs_the_harness_from_an_index():
    assert FROM_AN_INDEX.search("run: pip install sgmcmc-bench")
    assert FROM_AN_INDEX.search("pip install --upgrade sgmcmc-bench, or")
    assert not FROM_AN_INDEX.search("pip install 'sgmcmc-bench[tune]'")
    files = [
        file
        for folder in ("docs", "harness", "plugins", "reports", "tasks", ".github")
        for ending in ("py", "md", "yml", "html", "ipynb")
        for file in sorted((ROOT / folder).rglob(f"*.{ending}"))
    ]
    assert len(files) > 100
    wrong = [file for file in [*files, *ROOT.glob("*.md")] if FROM_AN_INDEX.search(file.read_text(encoding="utf-8"))]
    assert not [str(file.relative_to(ROOT)) for file in wrong if file.name != "CHANGELOG.md"]
