"""Sampling in bfloat16: XLA's products on a CPU take some layouts only."""

import jax
import jax.numpy as jnp
import numpy as np

from rlvr_jax import models, sampling


def test_two_turns_agree_with_a_forward_pass():
    config = models.ModelConfig(
        family="llama",
        vocab_size=64,
        width=48,
        num_layers=2,
        num_heads=6,
        num_kv_heads=2,
        head_dim=8,
        mlp_width=64,
        tied=True,
        initializer_range=0.3,
    )
    model, params = models.init(config, jax.random.key(0))
    model = model.clone(dtype=jnp.bfloat16)
    buckets = sampling.Buckets(contexts=(2,), context_lengths=(32,), chunk=6)
    sampler = sampling.Sampler(model, buckets=buckets)
    settings = {"max_new_tokens": 4, "stop_ids": (), "key": jax.random.key(1)}
    contexts = [[5, 3, 9, 2, 8, 1, 7], [4] * 11]
    first = sampler.generate(
        params, contexts, context_ids=[0, 1], num_samples=2, **settings
    )
    second = sampler.extend(
        params,
        first,
        select=[(0, 1), (1, 0)],
        appendix=[[6, 2], [9]],
        context_ids=[2, 3],
        num_samples=1,
        **settings,
    )
    for row, branch, appendix in ((0, 1, [6, 2]), (1, 0, [9])):
        history = [*contexts[row], *first.tokens[row, branch].tolist(), *appendix]
        ids = np.array([[*history, *second.tokens[row, 0].tolist()]])
        table = jax.nn.log_softmax(models.logits(model, params, ids)[0])
        places = np.arange(len(history) - 1, ids.shape[1] - 1)
        wanted = np.asarray(table)[places, ids[0, len(history) :]]
        np.testing.assert_allclose(second.log_probs[row, 0], wanted, atol=0.15)
