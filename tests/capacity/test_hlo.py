"""Compiled text: instructions, and how often each computation runs."""

import jax
import jax.numpy as jnp
import pytest

from rlvr_jax.capacity import hlo

# In the form of the TPU compiler: no trip count is written beside the loop, the counter
# goes through a copy, and a fusion adds to it.
TEXT = """HloModule example, is_scheduled=true

%add_two (p: s32[]) -> s32[] {
  %p = s32[]{:T(128)} parameter(0)
  %two = s32[]{:T(128)} constant(2)
  ROOT %sum = s32[]{:T(128)} add(%p, %two)
}

%body (state: (f32[8], s32[], /*index=2*/s32[])) -> (f32[8], s32[], s32[]) {
  %state = (f32[8]{0:T(256)S(1)}, s32[]{:T(128)}, /*index=2*/s32[]) parameter(0)
  %x = f32[8]{0:T(256)S(1)} get-tuple-element(%state), index=0
  %i = s32[]{:T(128)} get-tuple-element(%state), index=1
  %limit = s32[]{:T(128)} get-tuple-element(%state), index=2
  %next = s32[]{:T(128)} fusion(%i), kind=kLoop, calls=%add_two
  ROOT %out = (f32[8]{0}, s32[], /*index=2*/s32[]) tuple(%x, %next, /*index=2*/%limit)
}

%condition (state.1: (f32[8], s32[], s32[])) -> pred[] {
  %state.1 = (f32[8]{0}, s32[], s32[]) parameter(0)
  %i.1 = s32[] get-tuple-element(%state.1), index=1
  %limit.1 = s32[] get-tuple-element(%state.1), index=2
  ROOT %lt = pred[]{:T(512)} compare(%i.1, %limit.1), direction=LT
}

ENTRY %main (a: f32[8]) -> f32[8] {
  %a = f32[8]{0} parameter(0)
  %start = s32[] constant(3)
  %moved = s32[] copy(%start)
  %ten = s32[] constant(10)
  %init = (f32[8]{0}, s32[], s32[]) tuple(%a, %moved, %ten)
  %loop = (f32[8]{0}, s32[], s32[]) while(%init), condition=%condition, body=%body
  ROOT %result = f32[8]{0} get-tuple-element(%loop), index=0
}
"""


def test_instructions_of_a_tpu_program():
    module = hlo.parse(TEXT)
    assert module.entry == "main"
    loop = module.instruction("main", "loop")
    assert (loop.opcode, loop.operands) == ("while", ("init",))
    assert loop.arrays == [32, 4, 4]
    assert loop.called("body") == ["body"]
    root = next(i for i in module.computations["body"] if i.is_root)
    assert root.operands == ("x", "next", "limit")


def test_turns_follow_from_start_step_and_limit():
    times, unknown = hlo.executions(hlo.parse(TEXT))
    # 3, 5, 7, 9 are below 10.
    assert times["body"] == 4 and times["add_two"] == 4
    assert unknown == []


def test_a_limit_that_is_data_is_unknown():
    text = TEXT.replace("%ten = s32[] constant(10)", "%ten = s32[] reduce(%a, %start)")
    times, unknown = hlo.executions(hlo.parse(text))
    assert times["body"] == 1 and unknown == ["loop"]


def test_a_trip_count_that_is_written_counts():
    said = 'body=%body, backend_config={"known_trip_count":{"n":"7"}}'
    times, _ = hlo.executions(hlo.parse(TEXT.replace("body=%body\n", said + "\n")))
    assert times["body"] == 7


def test_loops_in_loops_multiply():
    def inner(x, _):
        return jax.lax.fori_loop(0, 5, lambda i, y: jnp.sin(y @ y), x), None

    compiled = jax.jit(lambda x: jax.lax.scan(inner, x, None, length=3)[0])
    text = compiled.lower(jnp.ones((8, 8))).compile().as_text()
    times, unknown = hlo.executions(hlo.parse(text))
    assert max(times.values()) == 15 and unknown == []


def test_a_loop_on_data_is_named():
    compiled = jax.jit(
        lambda x: jax.lax.while_loop(lambda y: y.sum() < 9, lambda y: y + 1, x)
    )
    text = compiled.lower(jnp.ones((8, 8))).compile().as_text()
    assert len(hlo.executions(hlo.parse(text))[1]) == 1


def test_text_that_is_no_program():
    with pytest.raises(ValueError, match="compiled module with an ENTRY"):
        hlo.parse("nothing")
