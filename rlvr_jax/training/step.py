"""The jitted train step: gradients of micro-batches added up, then one update."""

import dataclasses
import functools
from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from rlvr_jax import models, sharding
from rlvr_jax.config import ObjectiveSection, OptimizerSection
from rlvr_jax.objective import TargetTokens, policy_loss
from rlvr_jax.packing import TrainBatch
from rlvr_jax.training.optimizer import (
    learning_rate,
    make_optimizer,
    optimizer_shardings,
)
from rlvr_jax.training.policy import Policy

Params = dict[str, Any]


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["params", "opt_state", "step"],
    meta_fields=[],
)
@dataclasses.dataclass(frozen=True)
class TrainState:
    """What an update changes.

    Attributes:
        params: what is trained, float32.
        opt_state: of the optimizer.
        step: int32 scalar, training steps done; the schedule reads it.
    """

    params: Params
    opt_state: Any
    step: jax.Array


class TrainStep:
    """The compiled update of one model.

    The loss is a sum over tokens whose weights were fixed before, so that any split
    into micro-batches adds up to the same gradient. Their number is a loop on the host:
    it compiles nothing and needs no buffer of all rows.

    Args:
        model: the decoder.
        objective: the loss.
        optimizer: AdamW and its schedule.
        num_steps: length of the schedule, in training steps.
        head_chunk: targets per row that the head computes at a time.
        mesh: where it runs; None is one device.
        policy: what is trained; None is all parameters.
    """

    def __init__(
        self,
        model: models.Decoder,
        *,
        objective: ObjectiveSection,
        optimizer: OptimizerSection,
        num_steps: int,
        head_chunk: int,
        mesh: jax.sharding.Mesh | None = None,
        policy: Policy | None = None,
    ) -> None:
        self._policy = policy or Policy(model.config)
        self._model, self._objective, self._chunk = model, objective, head_chunk
        self._mesh = mesh
        self._optimizer = make_optimizer(optimizer)
        self._learning_rate = learning_rate(optimizer, num_steps)
        self.shardings = self._shardings()
        state, sums, rows = self.shardings, None, None
        if mesh is not None:
            sums, rows = sharding.whole(mesh), sharding.row_sharding(mesh)
        self._zeros = self._jit(
            lambda tree: jax.tree.map(jnp.zeros_like, tree), state.params
        )
        self._accumulate = self._jit(
            self._add_gradients, (state.params, sums), donate_argnums=1
        )
        self._apply = self._jit(
            self._update, None if mesh is None else (state, sums), donate_argnums=0
        )
        self._advance = self._jit(
            lambda state: dataclasses.replace(state, step=state.step + 1),
            None if mesh is None else state,
            donate_argnums=0,
        )
        self._score = self._jit(lambda *arguments: self._log_probs(*arguments)[0], rows)

    def _jit(
        self, function: Callable[..., Any], shardings: Any, **options: Any
    ) -> Callable[..., Any]:
        """`function` compiled for the mesh, its results where `shardings` says."""
        compiled = jax.jit(function, out_shardings=shardings, **options)

        def call(*arguments: Any) -> Any:
            with sharding.use(self._mesh):
                return compiled(*arguments)

        def lower(*arguments: Any) -> jax.stages.Lowered:
            with sharding.use(self._mesh):
                return compiled.lower(*arguments)

        call.lower = lower
        return compiled if self._mesh is None else call

    def _shardings(self) -> TrainState:
        """Where each array of the state lies; a state of None without a mesh."""
        mesh = self._mesh
        if mesh is None:
            return TrainState(None, None, None)
        config = self._model.config
        params = sharding.parameter_shardings(
            mesh,
            self._policy.axes(),
            sharding.TRAINING_RULES,
            num_kv_heads=config.num_kv_heads,
        )
        opt_state = optimizer_shardings(
            self._optimizer, self._policy.shapes(), params, sharding.whole(mesh)
        )
        return TrainState(params, opt_state, sharding.whole(mesh))

    def init(self, params: Params) -> TrainState:
        """The state of step 0; takes over `params`.

        Everything is committed to its device, as a restored checkpoint is: arrays that
        are free to move would count as other arguments and compile an update anew.
        """
        places = self.shardings
        if self._mesh is not None:
            params = jax.device_put(params, places.params)
        start = jax.jit(self._optimizer.init, out_shardings=places.opt_state)
        state = TrainState(params, start(params), jnp.zeros((), jnp.int32))
        if self._mesh is None:
            return jax.tree.map(lambda x: jax.device_put(x, x.sharding), state)
        step = jax.jit(lambda: jnp.zeros((), jnp.int32), out_shardings=places.step)()
        return dataclasses.replace(state, step=step)

    def state_shapes(self) -> TrainState:
        """Shapes, types and places of a state on the mesh, without making one."""
        params = self._policy.shapes()
        opt_state = jax.eval_shape(self._optimizer.init, params)
        step = jax.ShapeDtypeStruct((), jnp.int32)
        return sharding.shapes(TrainState(params, opt_state, step), self.shardings)

    def lower(
        self, rows: TrainBatch, temperature: float
    ) -> dict[str, jax.stages.Lowered]:
        """The programs of an update on the mesh, ready to be compiled.

        Args:
            rows: one micro-batch of all processes; only its shapes are read.
            temperature: of the sampling.

        Returns:
            `accumulate`, run for each micro-batch, and `apply`.
        """
        state = self.state_shapes()
        rows = sharding.shapes(rows, sharding.row_sharding(self._mesh))
        params, frozen = state.params, self._policy.frozen
        return {
            "accumulate": self._accumulate.lower(
                params, params, rows, temperature, frozen
            ),
            "apply": self._apply.lower(state, params),
        }

    def gradients(
        self, params: Params, rows: Iterable[TrainBatch], temperature: float
    ) -> tuple[Params, dict[str, jax.Array]]:
        """Gradient and metric sums of the whole batch, micro-batch after micro-batch.

        Args:
            params: what is trained.
            rows: micro-batches of one shape, as many in each process, which gives its
                own part of the rows.
            temperature: of the sampling.

        Returns:
            (gradients, sums): sums as in `objective.policy_loss`, and `loss`.
        """
        gradients, sums = self._zeros(params), None
        for part in rows:
            part = sharding.put_rows(self._mesh, part)
            gradients, more = self._accumulate(
                params, gradients, part, temperature, self._policy.frozen
            )
            sums = more if sums is None else {k: sums[k] + more[k] for k in sums}
        return gradients, sums or {}

    def score(self, params: Params, rows: TrainBatch, temperature: float) -> np.ndarray:
        """Log-probs float32 [R, K] of this process's targets of a micro-batch."""
        rows = sharding.put_rows(self._mesh, rows)
        frozen = self._policy.frozen
        return sharding.own_rows(self._score(params, rows, temperature, frozen))

    def update(
        self, state: TrainState, gradients: Params
    ) -> tuple[TrainState, dict[str, jax.Array]]:
        """One optimizer update; consumes `state`. Metrics: grad/norm, optim/lr.

        `step` stays: several updates may belong to one training step.
        """
        return self._apply(state, gradients)

    def advance(self, state: TrainState) -> TrainState:
        """The state with its training step counted; consumes its argument."""
        return self._advance(state)

    def _log_probs(
        self,
        params: Params,
        rows: TrainBatch,
        temperature: jax.Array,
        frozen: Params | None,
    ) -> tuple[jax.Array, jax.Array]:
        """(log_probs, entropy) of the targets, float32 [R, K]."""
        params = self._policy.whole(params, frozen)
        hidden = self._model.apply(
            {"params": params}, rows.tokens, rows.positions, rows.last_reader
        )
        return models.target_log_probs(
            self._model,
            params,
            hidden,
            rows.source,
            rows.target,
            temperature,
            chunk=self._chunk,
        )

    def _add_gradients(
        self,
        params: Params,
        gradients: Params,
        rows: TrainBatch,
        temperature: jax.Array,
        frozen: Params | None = None,
    ) -> tuple[Params, dict[str, jax.Array]]:
        objective = self._objective

        def loss(params: Params) -> tuple[jax.Array, dict[str, jax.Array]]:
            log_probs, entropies = self._log_probs(params, rows, temperature, frozen)
            live = objective.old_log_probs == "live"
            with_reference = objective.kl_coefficient > 0
            with_entropy = objective.entropy_coefficient > 0
            tokens = TargetTokens(
                log_probs=log_probs,
                old_log_probs=None if live else rows.old_log_probs,
                behavior_log_probs=rows.behavior_log_probs,
                ref_log_probs=rows.ref_log_probs if with_reference else None,
                entropies=entropies if with_entropy else None,
                advantages=rows.advantages,
                weights=rows.weights,
                response_id=rows.response_id,
                loss_mask=rows.loss_mask,
            )
            return policy_loss(
                tokens,
                surrogate=objective.surrogate,
                clip_low=objective.clip_low,
                clip_high=objective.clip_high,
                dual_clip=objective.dual_clip or None,
                kl=objective.kl,
                kl_coefficient=objective.kl_coefficient,
                entropy_coefficient=objective.entropy_coefficient,
                tis=objective.tis,
                tis_cap=objective.tis_cap,
            )

        (value, sums), more = jax.value_and_grad(loss, has_aux=True)(params)
        return jax.tree.map(jnp.add, gradients, more), {**sums, "loss": value}

    def _update(
        self, state: TrainState, gradients: Params
    ) -> tuple[TrainState, dict[str, jax.Array]]:
        rate = jnp.asarray(self._learning_rate(state.step), jnp.float32)
        updates, opt_state = self._optimizer.update(
            gradients, state.opt_state, state.params
        )
        params = jax.tree.map(
            lambda param, change: param - rate * change, state.params, updates
        )
        metrics = {"grad/norm": optax.tree.norm(gradients), "optim/lr": rate}
        return TrainState(params, opt_state, state.step), metrics
