"""`to_arviz` of other kinds of tasks: networks with functions by name, and without predictions of classes."""

import numpy as np
import pytest

import harness

pytest.importorskip("arviz_base")


@pytest.fixture
def results(tmp_path):
    settings = {"schedule.step_size": 1e-7, "run.thin": 1, "run.burn_in": 2}
    asked = {"seeds": [0], "chains": 2, "budget": "steps=8", "settings": settings}
    bench = harness.Bench(tmp_path)
    return bench.run("sgld", ["lda-small", "dln-1k"], **asked, workers=1, devices="cpu", draws="all")


def test_functions_come_before_predictions_and_what_has_neither_is_refused_by_name(results):
    posterior = results.to_arviz(task="lda-small").posterior
    expected = results.draws(task="lda-small").functions()
    assert {*posterior.data_vars} == expected.keys()
    np.testing.assert_array_equal(posterior["probability"], expected["probability"])
    with pytest.raises(harness.UsageError, match="dln-1k is a network whose function values cannot be made"):
        results.to_arviz(task="dln-1k")
