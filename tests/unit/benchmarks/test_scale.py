from benchmarks import ROOT, scale


def test_a_benchmark_draws_into_the_build_folder_and_not_over_a_tracked_picture():
    assert scale.CURVE.parent == ROOT / "build"
