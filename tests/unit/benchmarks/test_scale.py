from benchmarks import ROOT
from benchmarks.parts import scale


def test_scale_benchmark_draws_into_build_folder():
    assert scale.CURVE.parent == ROOT / "build"
