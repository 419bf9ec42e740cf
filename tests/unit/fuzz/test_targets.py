"""Every fuzz target on its corpus, and on a few mutations of it; `make fuzz` runs the long campaigns."""

import os
import random

import pytest

from fuzz.mutations import mutate
from fuzz.targets import CORPUS, TARGETS

_MUTATIONS = 3000


def corpus_files() -> list[object]:
    return [
        pytest.param(name, path, id=f"{name}-{path.name}")
        for name in TARGETS
        for path in sorted((CORPUS / name).iterdir())
    ]


@pytest.mark.parametrize(("target", "path"), corpus_files())
def test_target_accepts_an_input_of_its_corpus(target, path):
    TARGETS[target](path.read_bytes())


@pytest.mark.parametrize("target", TARGETS)
def test_target_accepts_mutated_inputs(target):
    seed = random.randrange(2**32) if os.environ.get("QUINTET_EXPLORE") else 1
    for data in mutate(target, _MUTATIONS, seed):
        try:
            TARGETS[target](data)
        except Exception as error:
            pytest.fail(f"seed {seed}, input {data!r}: {error!r}")
