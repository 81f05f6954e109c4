"""The pytest plugin beside projects that have packages of the names of ours."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("name", ["plugins", "tasks", "reports"])
def test_a_project_with_a_package_of_our_name_keeps_its_own(tmp_path, name):
    """pytest loads our plugin in every project of the environment, whatever it is about."""
    package = tmp_path / name
    package.mkdir()
    (package / "__init__.py").write_text("mine = 1\n")
    (tmp_path / "test_it.py").write_text(f"from {name} import mine\n\n\ndef test_it():\n    assert mine\n")
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--strict-markers", "test_it.py"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
