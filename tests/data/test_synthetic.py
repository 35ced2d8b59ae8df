import hashlib
from pathlib import Path

import numpy as np
import pytest

from edgeseg.base.errors import UsageError
from edgeseg.data.datasets import load_batches, open_dataset
from edgeseg.data.synthetic.scene import KINDS, SceneGenerator, write_dataset

SIZES = [(256, 256), (96, 64), (32, 32)]


@pytest.fixture(scope="module")
def scene() -> SceneGenerator:
    return SceneGenerator(seed=3)


@pytest.mark.parametrize("size_hw", SIZES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_defect_changes_its_mask_and_nothing_else(size_hw, kind):
    scene = SceneGenerator(size_hw=size_hw, seed=1)
    for index in range(12):
        good = scene.good(index).astype(int)
        frame, mask = scene.defective(index, kind)
        assert frame.shape == (*size_hw, 3)
        assert frame.dtype == np.uint8
        assert mask.shape == size_hw
        change = np.abs(frame.astype(int) - good).max(axis=2)
        assert (change[~mask] == 0).all()
        assert mask.any()
        # 6 grey levels before rounding, and both frames carry the same noise.
        assert change[mask].min() >= 5


def test_defects_are_neither_dust_nor_the_whole_part(scene):
    for kind in KINDS:
        shares = [scene.defective(index, kind)[1].mean() for index in range(40)]
        assert min(shares) > 1e-4
        assert max(shares) < 0.1


def test_frames_do_not_depend_on_the_order_they_are_asked_for(scene):
    forward = [scene.good(index) for index in range(4)]
    other = SceneGenerator(seed=3)
    other.defective(2, "stain")
    for index in (3, 0, 2, 1):
        np.testing.assert_array_equal(other.good(index), forward[index])
    for kind in KINDS:
        np.testing.assert_array_equal(
            other.defective(5, kind)[0], SceneGenerator(seed=3).defective(5, kind)[0]
        )


def test_every_frame_is_another(scene):
    frames = [scene.good(index) for index in range(20)]
    frames += [scene.defective(index, kind)[0] for index in range(5) for kind in KINDS]
    frames += [SceneGenerator(seed=4).good(0)]
    assert len({frame.tobytes() for frame in frames}) == len(frames)


def test_good_frames_vary_by_pose_light_and_noise_but_stay_alike(scene):
    frames = np.stack([scene.good(index) for index in range(30)]).astype(float)
    assert 1 < frames.mean(axis=(1, 2, 3)).std() < 12  # light
    assert frames.std(axis=0).mean() < 15  # the same part in nearly the same place
    table = frames[:, :20, :20]  # a corner shows the table alone
    noise = (table - table.mean(axis=(1, 2, 3), keepdims=True)).std(axis=0).mean()
    assert 1 < noise < 4


def test_pixels_are_well_exposed(scene):
    frame = scene.good(0)
    assert (frame == 255).mean() < 0.01
    assert (frame == 0).mean() < 0.01
    assert frame.std() > 40


def test_requests_that_cannot_be_meant(scene):
    with pytest.raises(UsageError, match="unknown defect 'rust': expected one of scratch, stain"):
        scene.defective(0, "rust")
    with pytest.raises(UsageError, match="scene of 8x64: expected at least 32x32"):
        SceneGenerator(size_hw=(8, 64))


def write_small(root: Path, **options: int) -> None:
    write_dataset(root, size_hw=(48, 64), train=3, test_good=2, test_defective=1, **options)


def digest(root: Path) -> dict[str, str]:
    return {
        path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*.png"))
    }


def test_dataset_opens_as_mvtec(tmp_path):
    root = tmp_path / "new" / "gear"
    write_small(root)
    data = open_dataset(root)
    assert (data.name, data.layout) == ("gear", "mvtec")
    assert (len(data.train), len(data.test)) == (3, 2 + len(KINDS))
    assert {sample.kind for sample in data.test} == {"good", *KINDS}
    (batch,) = load_batches(data.test, size_hw=(48, 64), batch_size=50)
    assert [bool(mask.any()) for mask in batch.masks] == [s.label == 1 for s in batch.samples]
    scene = SceneGenerator(size_hw=(48, 64))
    (train,) = load_batches(data.train, size_hw=(48, 64), batch_size=3)
    np.testing.assert_array_equal(train.frames, [scene.good(index) for index in range(3)])
    assert sorted(path.name for path in root.parent.iterdir()) == ["gear"]


def test_dataset_is_reproducible_and_has_no_frame_twice(tmp_path):
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        write_small(tmp_path / name, seed=seed)
    assert digest(tmp_path / "a") == digest(tmp_path / "b")
    assert digest(tmp_path / "a") != digest(tmp_path / "c")
    assert len(set(digest(tmp_path / "a").values())) == len(digest(tmp_path / "a"))


def test_dataset_replaces_its_own_and_refuses_others(tmp_path):
    write_small(tmp_path / "gear", seed=0)
    first = digest(tmp_path / "gear")
    write_small(tmp_path / "gear", seed=1)
    assert digest(tmp_path / "gear") != first
    (tmp_path / "mine").mkdir()
    write_small(tmp_path / "mine")  # an empty folder may be filled
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("ten years")
    with pytest.raises(UsageError, match="other: exists and was not written by edgeseg"):
        write_small(tmp_path / "other")
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["thesis.txt"]


def test_an_interrupted_dataset_leaves_the_old_one(tmp_path, monkeypatch):
    write_small(tmp_path / "gear")
    before = digest(tmp_path / "gear")

    def fail(self: SceneGenerator, index: int, kind: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(SceneGenerator, "defective", fail)
    with pytest.raises(KeyboardInterrupt):
        write_small(tmp_path / "gear", seed=5)
    assert digest(tmp_path / "gear") == before
    assert [path.name for path in tmp_path.iterdir()] == ["gear"]
