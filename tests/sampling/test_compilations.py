"""After the warm-up nothing compiles, whatever the policy does."""

import jax
import pytest

from rlvr_jax import models, sampling

BUCKETS = sampling.Buckets(contexts=(2, 4), context_lengths=(32,), chunk=4)


@pytest.fixture
def compilations():
    """A list that grows by one entry per compiled program."""
    seen = []

    def listen(event: str, duration: float, **_: object) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            seen.append(duration)

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield seen
    jax.monitoring.clear_event_listeners()


@pytest.mark.parametrize("committed", [False, True])
def test_the_warm_up_compiles_what_it_declares_and_sampling_nothing(
    compilations, committed
):
    config = models.ModelConfig(
        family="llama",
        vocab_size=20,
        width=8,
        num_layers=1,
        num_heads=2,
        num_kv_heads=1,
        head_dim=4,
        mlp_width=8,
        tied=True,
    )
    model, params = models.init(config, jax.random.key(0))
    if committed:  # as weights are that were read from a file or a checkpoint
        params = jax.device_put(params, jax.devices()[0])
    sampler = sampling.Sampler(model, buckets=BUCKETS)
    key, other = jax.random.key(1), jax.random.key(2)
    # Functions without a model in them are shared by all samplers of a process.
    jax.clear_caches()
    jax.random.key(0)  # making keys compiles too, and is nobody's program
    compilations.clear()
    declared = list(
        sampling.warm_up(sampler, params, num_samples=(3, 1), max_new_tokens=6, turns=2)
    )
    assert len(set(declared)) == len(declared)
    assert len(compilations) == len(declared)
    compilations.clear()
    for count, stop_ids, temperature, limit in (
        (1, (), 1.0, 1),
        (2, (3,), 0.5, 6),
        (5, (0, 1, 2), 0.0, [1, 2, 3, 4, 5]),
        (3, range(8), 1.0, 6),
    ):
        settings = {"stop_ids": stop_ids, "temperature": temperature, "top_p": 0.9}
        first = sampler.generate(
            params,
            [[1] * (4 * m + 2) for m in range(count)],
            context_ids=range(count),
            num_samples=3,
            max_new_tokens=limit,
            key=key,
            **settings,
        )
        for select in ([], [(0, 0)], [(m, g) for m in range(count) for g in range(3)]):
            sampler.extend(
                params,
                first,
                select=select,
                appendix=[[4, 5, 6]] * len(select),
                context_ids=range(len(select)),
                num_samples=1,
                max_new_tokens=6,
                key=other,
                **settings,
            )
    assert compilations == []
