"""Published models by name: their sizes and their numbers of parameters."""

import json

import jax
import numpy as np
import pytest

from rlvr_jax import models
from rlvr_jax.models.shapes import SERIES, SHAPES

# Stored parameters as the models' pages say, in billions; a tied head counts once.
PUBLISHED = {
    "smollm2-135m": 0.1345,
    "llama3.2-1b": 1.2358,
    "llama3.2-3b": 3.2127,
    "llama3.1-8b": 8.0303,
    "llama3.1-70b": 70.554,
    "qwen2.5-0.5b": 0.494,
    "qwen2.5-1.5b": 1.5437,
    "qwen2.5-3b": 3.0859,
    "qwen2.5-7b": 7.6156,
    "qwen2.5-14b": 14.770,
    "qwen2.5-32b": 32.764,
    "qwen3-0.6b": 0.596,
    "qwen3-1.7b": 1.7206,
    "qwen3-4b": 4.0225,
    "qwen3-8b": 8.1907,
    "qwen3-14b": 14.768,
    "qwen3-32b": 32.762,
    "olmo2-1b": 1.4849,
    "olmo2-7b": 7.2986,
    "olmo2-13b": 13.716,
    "olmo2-32b": 32.234,
}


def test_every_series_is_used():
    assert SHAPES.keys() == PUBLISHED.keys()
    assert {name.partition("-")[0] for name in SHAPES} == SERIES.keys()


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_are_as_many_as_published(name):
    count = models.parameter_count(models.named_config(name))
    assert count == pytest.approx(PUBLISHED[name] * 1e9, rel=1e-2)


@pytest.mark.parametrize("name", PUBLISHED)
def test_named_configurations_survive_their_file(name):
    config = models.named_config(name)
    fields = json.loads(json.dumps(config.to_hf()))
    assert models.ModelConfig.from_hf(fields) == config


def test_the_count_is_that_of_the_arrays():
    config = models.named_config("qwen3-0.6b")
    token = jax.ShapeDtypeStruct((1, 1), np.int32)
    model = models.Decoder(config)
    shapes = jax.eval_shape(model.init, jax.random.key(0), token, token, token)
    sizes = [x.size for x in jax.tree.leaves(shapes["params"])]
    assert sum(sizes) == models.parameter_count(config)


def test_smollm2_as_its_file_says():
    config = models.named_config("smollm2-135m")
    assert config.to_hf()["rope_theta"] == 100000.0
    assert (config.width, config.num_layers, config.tied) == (576, 30, True)


def test_unknown_name():
    with pytest.raises(
        ValueError, match=r"name: wanted one of .*'qwen3-8b'.*, got 'x'"
    ):
        models.named_config("x")
