"""Configuration files and flags -> a checked `Config`."""

import dataclasses
import json
import types
import typing
from typing import Any

from absl import flags
from ml_collections import ConfigDict, config_flags

from rlvr_jax.config.checks import check
from rlvr_jax.config.sections import Config


class Settings(ConfigDict):
    """A ConfigDict whose `update` is the section of that name.

    ConfigDict has a method `update`, which would hide the section from configuration
    files and from flags.
    """

    @property
    def update(self) -> ConfigDict:
        """The section `update`."""
        return self["update"]


def default_config() -> Settings:
    """The defaults as a ConfigDict, for configuration files to change."""
    return Settings(dataclasses.asdict(Config()))


def define_flag() -> flags.FlagHolder:
    """Declares --config=FILE.py[:argument] and --config.section.field=value."""
    return config_flags.DEFINE_config_file(
        "config", None, "Configuration file, for example configs/quickstart.py:reapo."
    )


def parse(values: ConfigDict | dict[str, Any]) -> Config:
    """A checked `Config` from nested values.

    Raises:
        ValueError: an unknown key, a wrong type, or an impossible value; the message
            names the field, what was wanted and what came.
    """
    if isinstance(values, ConfigDict):
        values = values.to_dict()
    config = build(Config, values)
    check(config)
    return config


def to_json(config: Config) -> str:
    """The configuration as indented JSON, as a run keeps it."""
    return json.dumps(dataclasses.asdict(config), indent=2)


def build(cls: type, values: dict[str, Any], prefix: str = "") -> Any:
    """An instance of dataclass `cls` from a dict, with types checked.

    Args:
        cls: a dataclass whose fields are sections, plain values or tuples of them.
        values: field -> value; a section is a dict of its own.
        prefix: stands before field names in messages.

    Raises:
        ValueError: an unknown key or a wrong type; the message names the field.
    """
    fields = {field.name: field for field in dataclasses.fields(cls)}
    unknown = sorted(set(values) - set(fields))
    if unknown:
        raise ValueError(
            f"unknown configuration key {prefix}{unknown[0]}; known are"
            f" {', '.join(prefix + name for name in fields)}"
        )
    kinds = typing.get_type_hints(cls)
    parsed = {}
    for name, value in values.items():
        kind, path = kinds[name], f"{prefix}{name}"
        if dataclasses.is_dataclass(kind):
            if not isinstance(value, dict):
                raise ValueError(f"{path} must be a section of fields; got {value!r}")
            parsed[name] = build(kind, value, f"{path}.")
        else:
            parsed[name] = _convert(value, kind, path)
    return cls(**parsed)


def _convert(value: Any, kind: Any, path: str) -> Any:
    """`value` as `kind`: a whole number may stand for a float, a list for a tuple."""
    if isinstance(kind, types.GenericAlias):
        item = typing.get_args(kind)[0]
        if not isinstance(value, list | tuple):
            raise ValueError(
                f"{path} must be a tuple of {item.__name__}; got {value!r}"
            )
        return tuple(_convert(entry, item, path) for entry in value)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ValueError(f"{path} must be of type {kind.__name__}; got {value!r}")
    return value
