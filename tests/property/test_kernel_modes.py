"""The kernel compiled and the kernel interpreted give the same answers, byte by byte, to good bytes and to bad ones."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from tests.property.kernel_answers import all_answers
from tests.support.mutations import mutated_buffer
from tests.support.strategies import Model, models
from tidelog.record import kernel_mode
from tidelog.record.kernel import MODULES

ROOT = Path(__file__).parents[2]
BUFFERS = 300
SEED = 20_000


def sample_models(count: int) -> list[Model]:
    """The same models in every run."""
    found: list[Model] = []

    @settings(max_examples=count, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(models())
    def collect(model: Model) -> None:
        found.append(model)

    collect()
    return found


def test_the_other_kernel_gives_the_same_answers() -> None:
    other = "interpreted" if kernel_mode() == "compiled" else "compiled"
    kernel = ROOT / "src/tidelog/record/kernel"
    if other == "compiled" and not all(list(kernel.glob(f"{name}.*.so")) for name in MODULES):
        pytest.skip("there is no compiled kernel to compare with")
    samples = sample_models(30), [mutated_buffer(SEED, index) for index in range(BUFFERS)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.property.kernel_answers"],
        input=pickle.dumps(samples),
        cwd=ROOT,
        env=os.environ | {"TIDELOG_KERNEL": other if other == "interpreted" else ""},
        stdout=subprocess.PIPE,
        check=True,
    )
    mode, theirs = pickle.loads(done.stdout)
    assert mode == other
    ours = all_answers(samples)
    assert len(ours) == len(theirs) >= BUFFERS + 30
    for number, (own, foreign) in enumerate(zip(ours, theirs, strict=True)):
        assert own == foreign, f"sample {number}"
