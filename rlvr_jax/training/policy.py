"""What is trained of a model, and how it makes the parameters of the model."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from rlvr_jax import models, sharding
from rlvr_jax.config import Config
from rlvr_jax.training.optimizer import matrices

Params = dict[str, Any]
# `fold_in`'s number for the start of adapters; steps of a run stay below.
ADAPTERS = 2**32 - 1


@dataclasses.dataclass(frozen=True)
class Policy:
    """All parameters are trained.

    Gradients, optimizer, checkpoints and the copy that is the reference policy hold
    what is trained; whoever computes with the model takes `whole` of it.

    Attributes:
        config: the model.
        frozen: parameters that no update changes, or their shapes.
    """

    config: models.ModelConfig
    frozen: Params | None = None

    def axes(self) -> Params:
        """Names of the axes of what is trained, see `models.logical_axes`."""
        return models.logical_axes(self.config)

    def init(self, key: jax.Array, shardings: Any = None) -> Params:
        """What a training from nothing starts with; consumes `key`."""
        return models.init(self.config, key, shardings=shardings)[1]

    def shapes(self) -> Params:
        """Shapes and types of what is trained."""
        return jax.eval_shape(self.init, jax.random.key(0))

    def whole(self, trained: Params, frozen: Params | None) -> Params:
        """Parameters of the model; computes nothing.

        Args:
            trained: the trained ones.
            frozen: those of this policy, as an argument: a compiled function would else
                hold them as constants.
        """
        return trained


@dataclasses.dataclass(frozen=True)
class LoraPolicy(Policy):
    """Adapters are trained, the model is frozen.

    Its matrices are kept in the compute type. Adapters start with B = 0, so what is
    trained at the start is the base: the reference policy costs a copy of them.

    Attributes:
        lora: the adapters.
    """

    lora: models.Lora = dataclasses.field(kw_only=True)

    def axes(self) -> Params:
        """See `Policy.axes`."""
        return models.adapter_axes(self.config, self.lora)

    def init(self, key: jax.Array, shardings: Any = None) -> Params:
        """Adapters that change nothing yet; consumes `key`."""
        return models.init_adapters(self.config, self.lora, key, shardings=shardings)

    def whole(self, trained: Params, frozen: Params | None) -> Params:
        """See `Policy.whole`; matrices with adapters are merged where they are used."""
        return models.adapt(frozen, trained, self.lora)


def stored_types(config: Config) -> dict[str, str]:
    """`dtype` and `vectors` of the start policy, as `models.load` takes them."""
    # A frozen matrix is never read but in the compute type; vectors are in float32.
    matrices = config.model.dtype if config.lora.rank else "float32"
    return {"dtype": matrices, "vectors": "float32"}


def start_shapes(
    config: Config, model: models.ModelConfig, mesh: jax.sharding.Mesh
) -> Params:
    """Shapes, types and places of the start policy's parameters on a mesh."""
    types = stored_types(config)
    places = sharding.parameter_shardings(
        mesh,
        models.logical_axes(model),
        sharding.TRAINING_RULES,
        num_kv_heads=model.num_kv_heads,
    )
    shapes = Policy(model).shapes()
    return jax.tree.map(
        lambda x, place, is_matrix: jax.ShapeDtypeStruct(
            x.shape, types["dtype" if is_matrix else "vectors"], sharding=place
        ),
        shapes,
        places,
        matrices(shapes),
    )


def make_policy(config: Config, model: models.ModelConfig, start: Params) -> Policy:
    """The policy of a run.

    Args:
        config: its section `lora` says what is trained.
        model: of the start policy.
        start: parameters of the start policy, or their shapes.
    """
    if not config.lora.rank:
        return Policy(model)
    lora = models.Lora(**dataclasses.asdict(config.lora))
    return LoraPolicy(model, start, lora=lora)


def start_of(
    policy: Policy, start: Params, *, seed: int, mesh: jax.sharding.Mesh | None
) -> Params:
    """What is trained, as it is before the first step.

    Args:
        policy: of the run.
        start: parameters of the start policy.
        seed: of the run.
        mesh: of the training; None is one device.
    """
    if policy.frozen is None:
        return start
    key = jax.random.fold_in(jax.random.key(seed), jnp.uint32(ADAPTERS))
    places = sharding.parameter_shardings(
        mesh,
        policy.axes(),
        sharding.TRAINING_RULES,
        num_kv_heads=policy.config.num_kv_heads,
    )
    return policy.init(key, places)
