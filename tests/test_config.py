"""The configuration: every field, every check, and the flags that set it."""

import dataclasses
import json
import pathlib
import re
import subprocess
import sys

import pytest
from absl import flags
from ml_collections import config_flags

from configs import algorithms, quickstart
from rlvr_jax import command_line, tasks
from rlvr_jax import config as configs
from rlvr_jax.config import checks
from rlvr_jax.credit import CreditConfig

QUICKSTART = str(pathlib.Path(quickstart.__file__))
# How ml_collections loads a configuration file.
OLD_LOADER = pytest.mark.filterwarnings("ignore:.*load_module:DeprecationWarning")
ROOT = pathlib.Path(__file__).parent.parent


def fields_of(cls=configs.Config, prefix=""):
    """(path, default) of every field of every section."""
    for field in dataclasses.fields(cls):
        value = getattr(cls(), field.name)
        if dataclasses.is_dataclass(value):
            yield from fields_of(type(value), f"{prefix}{field.name}.")
        else:
            yield f"{prefix}{field.name}", value


FIELDS = dict(fields_of())
SECTIONS = [
    configs.Config,
    *(
        type(getattr(configs.Config(), f.name))
        for f in dataclasses.fields(configs.Config)
    ),
]
SECTIONS = [cls for cls in SECTIONS if dataclasses.is_dataclass(cls)]

# Other than the default, and valid together.
CHANGED = {
    "sandbox.require": ("seccomp", "files"),
    "algorithm": "mine",
    "model.path": "/some/where",
    "model.dtype": "bfloat16",
    "model.thinking": "off",
    "lora.targets": ("query", "value"),
    "tasks.source": "rows.jsonl",
    "tasks.format": "gsm8k",
    "tasks.eval_source": "held.jsonl",
    "tasks.difficulty": (0.25, 0.5),
    "tasks.too_long": "skip",
    "rollout.expand": "all",
    "rollout.feedback": "try again",
    "rollout.branching": (4, 2),
    "sampler.contexts": (2, 8),
    "sampler.context_lengths": (1000, 2000),
    "credit.backup": "mers",
    "credit.group": "prompt",
    "credit.baseline": "leave_one_out",
    "credit.scale": "none",
    "credit.ddof": 0,
    "credit.discount": 0.5,
    "credit.level": "trajectory",
    "credit.moments": "all",
    "credit.prune_score": "raw",
    "credit.pruning": "inter",
    "credit.weight": "calibrated",
    "rollout.overlong": 0.5,
    "objective.surrogate": "gspo",
    "objective.clip_low": 0.1,
    "objective.dual_clip": 3.0,
    "objective.kl": "k2",
    "objective.reduction": "group",
    "objective.old_log_probs": "recompute",
    "objective.tis": "response",
    "optimizer.schedule": "cosine",
    "optimizer.b1": 0.8,
    "optimizer.b2": 0.8,
    "eval.expand": "unsolved",
    "eval.top_p": 0.5,
    "eval.pass_at": (1, 2),
    "tasks.levels": (0.0, 1.0, 3.0),
    "tasks.verifier": "function",
    "tasks.verifier_functions": ("rewards.py:score", "rewards.py:length"),
    "tasks.verifier_weights": (1.0, 0.0),
}


def changed(path):
    """A valid value of a field that is not its default."""
    if path in CHANGED:
        return CHANGED[path]
    value = FIELDS[path]
    return not value if isinstance(value, bool) else value + 1


def read(config, path):
    for name in path.split("."):
        config = getattr(config, name)
    return config


def with_values(**values):
    """Defaults with some fields set, `rollout__prompts` being rollout.prompts."""
    config = configs.default_config()
    flat = {name.replace("__", "."): value for name, value in values.items()}
    nested = config.to_dict()
    for path, value in flat.items():
        *sections, name = path.split(".")
        place = nested
        for section in sections:
            place = place[section]
        place[name] = value
    return nested


@pytest.fixture
def parse_flags(monkeypatch):
    """A function from arguments to a checked configuration, as a command has it."""

    def parse(*arguments, file=None):
        argv = ["train", *([f"--config={file}"] if file else []), *arguments]
        # ml_collections looks there for the keys that it will override.
        monkeypatch.setattr(sys, "argv", argv)
        holder = flags.FlagValues()
        if file:
            flag = config_flags.DEFINE_config_file("config", flag_values=holder)
        else:
            values = configs.default_config()
            flag = config_flags.DEFINE_config_dict("config", values, flag_values=holder)
        command_line.parse_flags(argv, holder)
        return configs.parse(flag.value)

    return parse


def test_the_defaults_parse_to_themselves():
    assert configs.parse(configs.default_config()) == configs.Config()


def test_every_field_is_reachable_by_flag(parse_flags):
    parsed = parse_flags(*(f"--config.{path}={changed(path)}" for path in FIELDS))
    for path, default in FIELDS.items():
        value = read(parsed, path)
        assert value == changed(path) != default, path
        assert type(value) is type(default), path


@pytest.mark.parametrize("cls", SECTIONS, ids=lambda cls: cls.__name__)
def test_every_field_is_named_in_the_docstring(cls):
    _, _, documented = cls.__doc__.partition("Attributes:")
    sections = {"model", "lora", "tasks", "rollout", "sampler", "credit", "objective"}
    sections |= {"update", "mesh", "optimizer", "eval", "checkpoint", "sandbox"}
    for field in dataclasses.fields(cls):
        if cls is configs.Config and field.name in sections:
            continue
        named = rf"(?m)(^ +|, |\. )({field.name})(, \w+)*: "
        assert re.search(named, documented), field.name


@pytest.mark.parametrize("algorithm", algorithms.SETTINGS)
def test_each_preset_sets_its_fields(algorithm):
    config = configs.default_config()
    config.update.row_length = 1024  # room for the branchings of the papers
    parsed = configs.parse(algorithms.apply(config, algorithm))
    assert parsed.algorithm == algorithm
    for path, value in algorithms.SETTINGS[algorithm].items():
        assert read(parsed, path) == value


@pytest.mark.parametrize("algorithm", algorithms.SETTINGS)
def test_each_preset_of_the_quickstart_parses(algorithm):
    parsed = configs.parse(quickstart.get_config(algorithm))
    assert parsed.algorithm == algorithm
    # A laptop's branching, and weights of its own; the rest is the preset's.
    own = {"rollout.branching", "rollout.feedback"}
    if algorithm not in quickstart.OWN_REDUCTION:
        own |= {"objective.reduction"}
        assert parsed.objective.reduction == "token"
    for path, value in algorithms.SETTINGS[algorithm].items():
        if path not in own:
            assert read(parsed, path) == value
    turns = len(algorithms.SETTINGS[algorithm]["rollout.branching"])
    assert parsed.rollout.layout.num_turns == turns


def test_the_quickstart_keeps_a_fixed_feedback_whole():
    parsed = configs.parse(quickstart.get_config("score"))
    tokenizer = tasks.load_tokenizer(configs.model_directory(parsed))
    ids = tokenizer.appendix_ids(parsed.rollout.feedback, closed=False)
    assert 0 < len(parsed.rollout.feedback) < len(ids)
    assert len(ids) <= parsed.rollout.max_feedback_tokens


def test_a_configuration_file_can_set_the_section_update():
    config = configs.default_config()
    config.update.rows = 3
    assert configs.parse(config).update.rows == 3


def test_an_unknown_preset():
    with pytest.raises(ValueError, match=r"algorithm must be one of grpo, .*got 'ppo'"):
        quickstart.get_config("ppo")


def test_what_a_run_keeps_is_the_whole_configuration():
    kept = json.loads(configs.to_json(configs.Config()))
    assert configs.parse(kept) == configs.Config()


@pytest.mark.parametrize(
    "values", [{"eval__pass_at": [1, 2]}, {"tasks__levels": [1, 2, 2]}]
)
def test_a_list_stands_for_a_tuple(values):
    parsed = configs.parse(with_values(**values))
    for name, value in values.items():
        assert read(parsed, name.replace("__", ".")) == tuple(value)


def test_a_whole_number_stands_for_a_float():
    rate = configs.parse(
        with_values(optimizer__learning_rate=1)
    ).optimizer.learning_rate
    assert type(rate) is float


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"steps": True}, r"steps must be of type int; got True"),
        ({"steps": 2.0}, r"steps must be of type int; got 2\.0"),
        (
            {"optimizer__learning_rate": True},
            r"optimizer\.learning_rate.*float; got True",
        ),
        ({"model__remat": 1}, r"model\.remat must be of type bool; got 1"),
        ({"model__path": None}, r"model\.path must be of type str; got None"),
        (
            {"rollout__branching": 8},
            r"rollout\.branching must be a tuple of int; got 8",
        ),
        ({"rollout__branching": (8, True)}, r"rollout\.branching must be of type int"),
        ({"rollout__branching": "(8,)"}, r"rollout\.branching must be a tuple of int"),
        ({"eval": 3}, r"eval must be a section of fields; got 3"),
        ({"nothing": 3}, r"unknown configuration key nothing; known are algorithm, "),
        (
            {"eval__turn": 3},
            r"unknown configuration key eval\.turn; known are eval\.ev",
        ),
    ],
)
def test_wrong_types_and_unknown_keys(values, message):
    with pytest.raises(ValueError, match=message):
        configs.parse(with_values(**values))


@pytest.mark.parametrize("path", checks.CHOICES)
def test_a_choice_names_what_there_is(path):
    first = checks.CHOICES[path][0]
    with pytest.raises(
        ValueError, match=rf"{path} must be one of .*{first}.*got 'odd'"
    ):
        configs.parse(with_values(**{path.replace(".", "__"): "odd"}))


@pytest.mark.parametrize("path", checks.POSITIVE)
def test_a_size_must_be_above_zero(path):
    zero = type(FIELDS[path])(0)
    with pytest.raises(ValueError, match=rf"{path} must be above 0; got 0"):
        configs.parse(with_values(**{path.replace(".", "__"): zero}))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"mesh__fsdp": 0}, r"mesh\.fsdp must be 1 or more, or -1 for all .*; got 0"),
        ({"mesh__tensor": -2}, r"mesh\.tensor must be 1 or more, or -1 .*; got -2"),
        (
            {"mesh__data": -1, "mesh__tensor": -1},
            r"mesh\.tensor: one of them may be -1; got \(-1, 1, -1\)",
        ),
    ],
)
def test_a_mesh_that_cannot_be(values, message):
    with pytest.raises(ValueError, match=message):
        configs.parse(with_values(**values))


def test_one_size_of_a_mesh_may_be_the_rest():
    mesh = configs.parse(with_values(mesh__fsdp=-1, mesh__tensor=2)).mesh
    assert mesh.sizes == (1, -1, 2)


def test_not_a_number_is_no_temperature():
    with pytest.raises(
        ValueError, match=r"rollout\.temperature must be above 0; got n"
    ):
        configs.parse(with_values(rollout__temperature=float("nan")))


@pytest.mark.parametrize("path", checks.NOT_NEGATIVE)
def test_a_limit_must_not_be_negative(path):
    value = type(FIELDS[path])(-1)
    with pytest.raises(ValueError, match=rf"{path} must be 0 or more; got -1"):
        configs.parse(with_values(**{path.replace(".", "__"): value}))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"rollout__branching": ()}, r"branching must hold one integer >= 1 per turn"),
        ({"rollout__branching": (8, 0)}, r"branching must hold one integer >= 1"),
        (
            {"rollout__branching": (2, 2, 2), "update__row_length": 255},
            r"update\.row_length must hold the longest path of 3 turns, 256 .*got 255",
        ),
        (
            {"update__target_length": 31},
            r"target_length must be at least rollout\.max_response_tokens 32; got 31",
        ),
        (
            {"rollout__prompts": 3, "update__minibatches": 4},
            r"update\.minibatches must be at most rollout\.prompts 3; got 4",
        ),
        (
            {"update__epochs": 2},
            r"'live' needs one epoch and one mini-batch; got 2 and 1",
        ),
        (
            {"update__minibatches": 2},
            r"'live' needs one .*got 1 and 2: use 'sampler' or",
        ),
        ({"lora__targets": ()}, r"lora\.targets must be some of \('query', .*got \(\)"),
        ({"lora__targets": ("embed",)}, r"lora\.targets must be .*got \('embed',\)"),
        ({"lora__targets": ("up", "up")}, r"each once; got \('up', 'up'\)"),
        ({"rollout__overlong": 1.5}, r"rollout\.overlong must be a share .*got 1\.5"),
        ({"objective__clip_low": 1.5}, r"objective\.clip_low must be at most 1; got 1"),
        (
            {"objective__dual_clip": 0.5},
            r"dual_clip must be 0 \(none\) or above 1; got",
        ),
        (
            {"objective__dual_clip": 3.0, "objective__surrogate": "cispo"},
            r"dual_clip 3\.0 needs the surrogate 'clip' or 'gspo'; got 'cispo'",
        ),
        (
            {"objective__tis": "token", "objective__old_log_probs": "sampler"},
            r"objective\.tis 'token' compares .*old_log_probs is 'sampler': use 'rec",
        ),
        ({"tasks__verifier": "function"}, r"needs tasks\.verifier_functions.*got none"),
        (
            {"tasks__verifier_functions": ("m:f",)},
            r"functions \('m:f',\) need tasks\.verifier 'function'; got ''",
        ),
        (
            {
                "tasks__verifier": "function",
                "tasks__verifier_functions": ("m:f",),
                "tasks__verifier_weights": (1.0, 2.0),
            },
            r"verifier_weights must be one for each .*, 1, or none; got \(1\.0, 2\.0\)",
        ),
        ({"objective__kl": "k1"}, r"objective\.kl must be one of .*got 'k1'"),
        ({"eval__pass_at": (1, 5)}, r"eval\.pass_at .*eval\.samples 4; got \(1, 5\)"),
        ({"eval__pass_at": (0, 1)}, r"eval\.pass_at .*eval\.samples 4; got \(0, 1\)"),
        (
            {"sampler__context_lengths": (64, 223)},
            r"context_lengths must reach the longest context, 224 tokens; got \(64, 22",
        ),
        ({"eval__top_p": 0.0}, r"eval\.top_p must be in \(0, 1\]; got 0\.0"),
        ({"eval__top_p": 1.5}, r"eval\.top_p must be in \(0, 1\]; got 1\.5"),
        ({"optimizer__b1": 1.0}, r"optimizer\.b1 must be in \[0, 1\); got 1\.0"),
        ({"optimizer__b2": -0.5}, r"optimizer\.b2 must be in \[0, 1\); got -0\.5"),
        ({"credit__backup": "max"}, r"backup must be one of"),
        ({"credit__discount": 1.5}, r"discount must be"),
        ({"credit__ddof": 2}, r"ddof must be 0 or 1; got 2"),
        ({"credit__epsilon": 0.0}, r"epsilon must be > 0; got 0"),
    ],
)
def test_what_cannot_work(values, message):
    with pytest.raises(ValueError, match=message):
        configs.parse(with_values(**values))


def test_sizes_at_their_limits_work():
    configs.parse(
        with_values(
            rollout__branching=(2, 2, 2),
            update__row_length=256,
            update__target_length=32,
            eval__pass_at=(4,),
            sampler__context_lengths=(224,),
        )
    )


def test_the_longest_context_is_of_the_longer_of_training_and_evaluation():
    deep = configs.parse(with_values(rollout__branching=(1,) * 4, eval__turns=2))
    assert deep.longest_context() == 64 + 3 * (32 + 48)
    late = configs.parse(with_values(rollout__branching=(1,), eval__turns=5))
    assert late.longest_context() == 64 + 4 * (32 + 48) == late.context_lengths()[0]


def test_credit_is_nested_as_it_is():
    assert configs.parse(configs.default_config()).credit == CreditConfig()


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "rlvr_jax.train", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )


def test_a_dry_run_prints_the_resolved_configuration():
    done = run(
        "--config=configs/quickstart.py:reapo",
        "--config.rollout.branching=(2, 3)",
        "--dry_run",
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rollout"]["branching"] == [2, 3]
    assert json.loads(done.stdout)["credit"]["group"] == "prompt"


def test_a_command_line_that_cannot_be_read_is_one_line():
    done = run("--config=configs/quickstart.py", "--config.rollout.brnching=(2,)")
    assert done.returncode == 2
    assert re.fullmatch(r"error: .+brnching.+\n", done.stderr), done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--config.foo=1"], r"unknown configuration key .*'foo'"),
        (["--config.eval.turn=1"], r"unknown configuration key .*'turn'"),
        (["--config.steps=many"], r"--config\.steps=many: invalid literal"),
        (["more"], r"unexpected argument 'more'; wanted --name=value"),
        (["--nothing=3"], r"Unknown command line flag 'nothing'"),
    ],
)
@OLD_LOADER
def test_flags_that_cannot_be_read(parse_flags, arguments, message):
    with pytest.raises(ValueError, match=message) as caught:
        parse_flags(*arguments, file=QUICKSTART)
    assert "\n" not in str(caught.value)


@OLD_LOADER
def test_a_preset_that_is_not_there(parse_flags):
    with pytest.raises(ValueError, match=r"ppo: Error .*algorithm must be .*got 'ppo'"):
        parse_flags(file=f"{QUICKSTART}:ppo")


@OLD_LOADER
def test_a_configuration_file_that_is_not_there(parse_flags):
    with pytest.raises(OSError, match=r"configs/none\.py"):
        parse_flags(file="configs/none.py")
