"""A row under another schedule than the study's is not tuned, whatever settings of the sampler the study has."""

from __future__ import annotations

from harness import registry
from harness.runs.settings import find_pair, resolve, with_study
from plugins.tuning import studies


def resolved(tmp_path, schedule, study="tuned"):
    """The settings of psgld on a task at the study's settings, under a schedule."""
    known = studies.load(registry(), tmp_path, study)
    pair = with_study(registry(), find_pair(registry(), "psgld", "gaussian2d"), known, "quick", {})
    return resolve(registry(), pair, {"schedule": schedule} if schedule else {}, "quick")


def test_the_settings_of_a_study_are_for_its_schedule(tmp_path):
    tuned = resolved(tmp_path, "")
    assert "tuned" in {origin.provenance for origin in tuned.origins.values()}
    assert resolved(tmp_path, tuned.schedule.name).origins == tuned.origins
    assert tuned.schedule.name != "polynomial"
    assert resolved(tmp_path, "polynomial").origins == resolved(tmp_path, "polynomial", "one-setting").origins
