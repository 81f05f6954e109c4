import pytest
import torch

from harness.tasks import Network
from tasks.networks.resnet import ResNet18, resnet50

pytestmark = pytest.mark.usefixtures("one_thread")


def test_the_networks_have_the_published_numbers_of_weights():
    assert Network(lambda: ResNet18(10)).dim == 11_173_962
    assert Network(lambda: ResNet18(100)).dim == 11_220_132
    assert Network(lambda: resnet50(1000)).dim == 25_557_032


def test_a_start_is_what_torch_draws_and_leaves_the_global_stream_alone():
    flat = Network(lambda: ResNet18(10, 4))
    generator = torch.Generator().manual_seed(3)
    before = torch.get_rng_state()
    weights, statistics = flat.start(generator), flat.first_statistics()
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(3)
    module = ResNet18(10, 4)
    torch.set_rng_state(before)
    named = flat.weights(weights)
    assert named.keys() == dict(module.named_parameters()).keys()
    assert all(torch.equal(named[name], leaf) for name, leaf in module.named_parameters())
    running = {name: leaf for name, leaf in module.named_buffers() if "num_batches" not in name}
    assert all(torch.equal(flat.statistics(statistics)[name], leaf) for name, leaf in running.items())


@pytest.mark.parametrize("kind", ["batch", "filter-response", "group"])
def test_gradients_and_statistics_are_those_of_a_plain_module_bit_for_bit(kind):
    flat = Network(lambda: ResNet18(10, 4, kind))
    weights, statistics = flat.start(torch.Generator().manual_seed(0)), flat.first_statistics()
    module = ResNet18(10, 4, kind)
    module.load_state_dict(flat.weights(weights) | flat.statistics(statistics), strict=False)
    module = module.to(memory_format=torch.channels_last).train()
    generator = torch.Generator().manual_seed(1)
    for _ in range(3):
        images = torch.randn(8, 3, 32, 32, generator=generator).contiguous(memory_format=torch.channels_last)
        module.zero_grad()
        module(images).square().sum().backward()
        x = weights.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(flat.forward(x, statistics, images, training=True).square().sum(), x)
        pieces = flat.weights(gradient)
        assert all(torch.equal(pieces[name], leaf.grad) for name, leaf in module.named_parameters())
    running = {name: leaf for name, leaf in module.named_buffers() if "num_batches" not in name}
    assert (kind == "batch") == bool(running)
    assert all(torch.equal(flat.statistics(statistics)[name], leaf) for name, leaf in running.items())


def test_evaluation_uses_the_statistics_and_leaves_them():
    flat = Network(lambda: ResNet18(10, 4))
    weights, statistics = flat.start(torch.Generator().manual_seed(0)), flat.first_statistics()
    images = torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    before = statistics.clone()
    together = flat.forward(weights, statistics, images, training=False)
    alone = torch.cat([flat.forward(weights, statistics, image[None], training=False) for image in images])
    assert torch.equal(statistics, before)
    torch.testing.assert_close(together, alone)
    assert not torch.allclose(together, flat.forward(weights, 2 * statistics, images, training=False))


@pytest.mark.parametrize("normalisation", ["batch", "group", "filter-response"])
def test_weights_cast_at_once_give_the_bits_of_autocast(normalisation):
    flat = Network(lambda: ResNet18(10, 2, normalisation))
    start, x = flat.start(torch.Generator().manual_seed(0)), torch.randn(4, 3, 16, 16)
    passes = []
    for low in (None, torch.bfloat16):
        weights, statistics = start.clone().requires_grad_(), flat.first_statistics()
        with torch.autocast("cpu", torch.bfloat16):
            outputs = flat.forward(weights, statistics, x, training=True, low=low)
        (gradient,) = torch.autograd.grad(outputs.float().logsumexp(1).mean(), weights)
        passes.append((outputs, gradient, statistics))
    assert all(map(torch.equal, *passes))
