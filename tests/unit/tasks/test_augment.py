import numpy as np
import torch

from tasks.vision.augment import crop_and_flip, normalise


def test_crops_and_flips_equal_a_loop_over_images():
    generator = np.random.default_rng(0)
    images = generator.integers(1, 256, (50, 7, 6, 3), dtype=np.uint8)
    shift = generator.integers(0, 5, (50, 2), dtype=np.uint8)
    flip = generator.integers(0, 2, 50) > 0
    cuts = crop_and_flip(torch.from_numpy(images), torch.from_numpy(shift), torch.from_numpy(flip), 2).numpy()
    for image, (down, across), flipped, cut in zip(images, shift, flip, cuts, strict=True):
        padded = np.pad(image, ((2, 2), (2, 2), (0, 0)))
        expected = padded[down : down + 7, across : across + 6]
        assert np.array_equal(cut, expected[:, ::-1] if flipped else expected)
    assert 0 < flip.sum() < 50
    assert len(np.unique(shift)) == 5


def test_no_shift_and_no_flip_leave_images_as_they_are():
    images = torch.randint(0, 256, (5, 8, 8, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    shift = torch.full((5, 2), 4, dtype=torch.uint8)
    assert torch.equal(crop_and_flip(images, shift, torch.zeros(5, dtype=torch.bool), 4), images)


def test_normalised_images_are_those_of_the_usual_transforms():
    from torchvision.transforms import functional

    images = torch.randint(0, 256, (5, 8, 8, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    mean, sd = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)
    normalised = normalise(images.float(), mean, sd)
    assert normalised.is_contiguous(memory_format=torch.channels_last)
    for image, one in zip(images.numpy(), normalised, strict=True):
        torch.testing.assert_close(one, functional.normalize(functional.to_tensor(image), mean, sd), rtol=0, atol=1e-6)
