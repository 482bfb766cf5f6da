"""The whole check on a stand-in: true programs, memory by phase, advice, exit codes."""

import dataclasses
import json
import math
import pathlib
import subprocess
import sys
import types

import jax
import pytest

from rlvr_jax import capacity, compile_check
from rlvr_jax.capacity import check_capacity, model_shapes, programs, report
from rlvr_jax.capacity.memory import Phase
from rlvr_jax.capacity.plan import make_plan
from rlvr_jax.config import default_config
from rlvr_jax.models import parameter_count

from . import stand_in

ROOT = pathlib.Path(__file__).parents[2]
NAMES = ["accumulate", "apply", "unstack", "prefill", "decode"]


@pytest.fixture(scope="module")
def found():
    """The report of the stand-in's run, which fits."""
    return check_capacity(stand_in.config(), stand_in.MODEL, stand_in.topology())


def smaller(found, memory):
    """The same report on devices with less memory."""
    plan = dataclasses.replace(found.plan, topology=stand_in.topology(memory=memory))
    return dataclasses.replace(found, plan=plan)


def test_all_programs_of_a_step_are_compiled(found):
    assert [program.name for program in found.programs] == NAMES
    assert all(p.arguments and p.code >= 0 and not p.needed for p in found.programs)
    by_name = {program.name: program for program in found.programs}
    # Gradients and state take the place of what is donated.
    assert by_name["accumulate"].aliased >= found.phases[3].gradients
    assert by_name["apply"].aliased >= found.phases[4].optimizer
    # fsdp gathers weights and sums gradients; sampling has data 4 and tensor 2.
    assert by_name["accumulate"].collectives["all-gather"]["bytes"] > 0
    assert by_name["unstack"].collectives["all-gather"]["bytes"] > 0
    assert by_name["decode"].unknown_loops == 1


def test_memory_by_phase(found):
    assert [phase.program for phase in found.phases] == [
        "unstack",
        "prefill",
        "decode",
        "accumulate",
        "apply",
    ]
    first, decode, training = found.phases[0], found.phases[2], found.phases[3]
    # Norms alone are whole on every device.
    parameters = 4 * parameter_count(stand_in.MODEL)
    assert parameters / 8 < training.params < parameters / 6
    assert 2 * training.params <= training.optimizer < 2 * training.params + 100
    assert training.gradients == training.params
    # The sampler's copy is split by tensor 2 alone, and gone in training.
    assert parameters / 2 < decode.sampler_weights < parameters / 1.8
    assert training.sampler_weights == training.caches == 0 == first.caches
    assert decode.caches == found.plan.cache_bytes
    assert all(phase.reference == 0 for phase in found.phases)
    assert decode.peak == sum(dataclasses.astuple(decode)[1:])


def test_a_reference_policy_stays_in_memory():
    config = stand_in.config(objective__kl_coefficient=0.1)
    plan = make_plan(config, stand_in.MODEL, stand_in.topology())
    empty = {name: programs.Program(name, "x", 1, 0.0, 0.0, 0.0) for name in NAMES}
    found = capacity.memory.phases(plan, empty, params=5, optimizer=11)
    assert {phase.reference for phase in found} == {5}


def test_adapters_alone_have_masters_gradients_and_moments():
    changes = {"lora__rank": 2, "model__dtype": "bfloat16"}
    found = check_capacity(
        stand_in.config(**changes), stand_in.MODEL, stand_in.topology()
    )
    parameters = parameter_count(stand_in.MODEL)
    training = found.phases[3]
    # Two bytes each in eight parts, but for the norms.
    assert parameters / 4 < training.frozen < parameters / 3
    shapes = programs.make_plan_policy(found.plan).shapes()
    adapters = sum(leaf.size for leaf in jax.tree.leaves(shapes))
    # A and B lie in four and two parts, and each is whole on the others.
    assert 4 * adapters / 8 < training.params < 4 * adapters / 2
    assert training.gradients == training.params
    assert 2 * training.params <= training.optimizer < 2 * training.params + 100
    # The compiler's own arguments: rows and a temperature besides.
    arguments = found.programs[0].arguments
    held = training.params + training.gradients + training.frozen
    assert held < arguments < held + 20_000


def test_activations_are_what_nothing_else_accounts_for():
    plan = make_plan(stand_in.config(), stand_in.MODEL, stand_in.topology())
    made = {name: programs.Program(name, "x", 1, 0.0, 0.0, 0.0) for name in NAMES}
    made["accumulate"] = dataclasses.replace(
        made["accumulate"], arguments=13, results=6, aliased=5, temporaries=7, code=4
    )
    accumulate = capacity.memory.phases(plan, made, params=5, optimizer=11)[3]
    # 13 + 6 - 5 + 7, of which parameters and gradients are 10.
    assert (accumulate.activations, accumulate.code) == (11, 4)
    assert accumulate.peak == 5 + 11 + 5 + 11 + 4


def test_what_fits_is_said_to(found):
    assert found.fits and found.advice == []
    text = found.to_text()
    assert text.endswith("It fits.")
    assert "data 1, fsdp 4, tensor 2" in text and "| decode |" in text


def test_json_has_every_number(found):
    summary = json.loads(found.to_json())
    assert summary["mesh"] == {"data": 1, "fsdp": 4, "tensor": 2}
    assert summary["fits"] is True and summary["peak"] == found.worst.peak
    assert summary["share"] == summary["peak"] / 2**30
    assert [program["name"] for program in summary["programs"]] == NAMES
    floors = [program["floor"] for program in summary["programs"]]
    largest = [max(f["compute"], f["memory"], f["interconnect"]) for f in floors]
    assert math.isclose(summary["floor_seconds"], sum(largest))


def test_the_floor_is_the_slowest_resource(found):
    program = dataclasses.replace(
        found.programs[0], runs=2, flops=3e12, traffic=1e11, collectives={}
    )
    floor = report.floor(program, stand_in.topology())
    assert (floor.compute, floor.memory, floor.interconnect) == (3.0, 1.0, 0.0)
    assert (floor.seconds, floor.bound) == (3.0, "compute")
    sends = {"all-gather": {"count": 1, "bytes": 2.5e10}}
    floor = report.floor(
        dataclasses.replace(program, collectives=sends), stand_in.topology()
    )
    assert (floor.interconnect, floor.bound) == (5.0, "interconnect")
    # Two devices that are one chip share all of its peaks.
    shared = dataclasses.replace(stand_in.topology(), num_chips=4)
    floor = report.floor(program, shared)
    assert (floor.compute, floor.memory) == (6.0, 2.0)


def test_too_little_memory_for_sampling(found):
    decode = dataclasses.replace(found.phases[2], caches=2**31)
    report = dataclasses.replace(found, phases=[*found.phases[:2], decode])
    assert not report.fits
    text = report.to_text()
    assert "Peak in decode: 2.00 of 1.00 GiB, 200%." in text
    assert "It does not fit. Try:" in text
    assert "rollout.prompts 2: half the caches; now 4" in text


def test_too_little_memory_for_training(found):
    plan = make_plan(
        stand_in.config(
            model__remat=False,
            update__rows=16,
            update__row_length=96,
            update__head_chunk=256,
            mesh__data=2,
            mesh__fsdp=2,
        ),
        stand_in.MODEL,
        stand_in.topology(),
    )
    worst = Phase("accumulate", params=10, activations=100)
    lines = report.advice(plan, worst)
    assert [line.split(":")[0] for line in lines] == [
        "model.remat True",
        "update.rows 8",
        "update.head_chunk 128",
        "update.row_length 64",
        "mesh.tensor 4 and mesh.fsdp 1",
        "mesh.data 1 and mesh.fsdp 4",
    ]
    full = report.advice(plan, Phase("apply", params=100, optimizer=200))
    assert full[-1].startswith("a larger slice: weights and optimizer take")


def test_sampling_that_does_not_fit_is_split_further():
    config = stand_in.config(
        mesh__fsdp=8, mesh__tensor=1, sampler__contexts=(16,), rollout__prompts=1
    )
    plan = make_plan(config, stand_in.MODEL, stand_in.topology())
    lines = report.advice(plan, Phase("decode", sampler_weights=50, activations=50))
    assert lines == [
        "sampler.contexts (8,): smaller waves; now 16",
        "mesh.tensor 2 and mesh.fsdp 4: the sampler's weights in 2 parts; now 1",
    ]


def test_a_program_that_the_compiler_refuses(found, monkeypatch):
    message = (
        "RESOURCE_EXHAUSTED: E1000: CompileTimeHbmOom: Ran out of memory on HBM, the"
        " total memory required for HLO temporaries (17.50G) exceeds available HBM"
        " (15.75G). HLO module: jit_add."
    )
    assert programs.needed_bytes(message) == 17.5 * 2**30
    assert programs.needed_bytes("INTERNAL: no such luck") is None

    class Refused:
        def compile(self):
            raise jax.errors.JaxRuntimeError(message)

    nothing = programs.work.Work(0.0, 0.0, 0.0)
    program = programs.measure(
        "accumulate",
        Refused(),
        compiled_for="x",
        runs=1,
        work_done=nothing,
        num_devices=8,
    )
    assert program.needed == program.peak == 17.5 * 2**30
    refused = dataclasses.replace(found, programs=[program, *found.programs[1:]])
    assert not refused.fits
    assert "The compiler refused accumulate: out of memory." in refused.to_text()


def test_other_failures_of_the_compiler_are_not_hidden():
    class Broken:
        def compile(self):
            raise jax.errors.JaxRuntimeError("INTERNAL: no such luck")

    nothing = programs.work.Work(0.0, 0.0, 0.0)
    with pytest.raises(jax.errors.JaxRuntimeError, match="no such luck"):
        programs.measure(
            "apply",
            Broken(),
            compiled_for="x",
            runs=1,
            work_done=nothing,
            num_devices=8,
        )


def test_a_model_by_name_or_by_folder(tmp_path):
    config = stand_in.config()
    assert model_shapes(config, "qwen3-4b").width == 2560
    assert model_shapes(config).family == "llama"  # the package's own folder
    named = stand_in.config(model__path="models/Qwen3-0.6B")
    assert model_shapes(named).num_layers == 28
    with pytest.raises(ValueError, match=r"qwen3-4b.*got 'nothing'"):
        model_shapes(stand_in.config(model__path="models/nothing"))


@pytest.mark.parametrize(("memory", "code"), [(2**30, None), (2**10, 1)])
def test_exit_codes_of_the_command(found, monkeypatch, capsys, tmp_path, memory, code):
    monkeypatch.setattr(
        capacity, "load_topology", lambda name: stand_in.topology(memory=memory)
    )
    monkeypatch.setattr(
        capacity,
        "check_capacity",
        lambda config, model, topology, compiled: smaller(found, memory),
    )
    file = tmp_path / "report.json"
    for name, value in {
        "_CONFIG": default_config(),
        "_MODEL": None,
        "_TOPOLOGY": "v5e:2x4",
        "_JSON": str(file),
    }.items():
        holder = types.SimpleNamespace(value=value)
        monkeypatch.setattr(compile_check, name, holder)
    if code is None:
        compile_check.main()
    else:
        with pytest.raises(SystemExit) as stopped:
            compile_check.main()
        assert stopped.value.code == code
    assert "| accumulate |" in capsys.readouterr().out
    assert json.loads(file.read_text())["fits"] is (code is None)


def test_bad_input_is_one_line_and_exit_code_2():
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "rlvr_jax.compile_check",
            "--config=configs/pods.py:qwen3_4b_murphy",
            "--topology=v9:8x8",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2 and done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: topology 'v9:8x8': the chip must be one of v4, v5e")
