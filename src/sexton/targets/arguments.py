"""Arguments on their way to JSON and back, checked against the function's signature and types."""

import inspect
import math
import re
import typing
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from sexton.errors import ConfigurationError, InvalidJob, did_you_mean

_EMPTY = inspect.Parameter.empty
# An escaped NUL, and not a backslash before the letters u0000.
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


class ArgumentMismatch(Exception):
    """A payload that does not fit the function; trying again cannot help."""


class Arguments:
    """One function's arguments: by name, as a JSON object."""

    def __init__(
        self,
        function: Callable[..., Any],
        task: str,
        job_type: type,
        options: tuple[str, ...] = (),
    ) -> None:
        self.task = task
        self.options = options
        signature = inspect.signature(function)
        hints = _hints(function)
        parameters = list(signature.parameters.values())
        self.job_parameter = _job_parameter(parameters, hints, job_type)
        if self.job_parameter is not None:
            parameters = [each for each in parameters if each.name != self.job_parameter]
        self.open_ended = any(each.kind is each.VAR_KEYWORD for each in parameters)
        for each in parameters:
            if each.kind in (each.POSITIONAL_ONLY, each.VAR_POSITIONAL):
                raise ConfigurationError(
                    f"task {task!r}: parameter {each} cannot be given by name; "
                    "arguments are kept as a JSON object, so every one needs a name"
                )
        named = [each for each in parameters if each.kind is not each.VAR_KEYWORD]
        self.names = tuple(each.name for each in named)
        self._positional = tuple(
            each.name for each in named if each.kind is each.POSITIONAL_OR_KEYWORD
        )
        self._required = {each.name for each in named if each.default is _EMPTY}
        self._optional = [each.name for each in named if each.default is not _EMPTY]
        self._decode = self._decoder(named, hints).decode

    def _decoder(
        self, named: list[inspect.Parameter], hints: Mapping[str, Any]
    ) -> msgspec.json.Decoder[Any]:
        fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
        for each in named:
            kind = self._checked_type(each.name, hints.get(each.name, Any))
            if each.default is _EMPTY:
                fields.append((each.name, kind))
            else:
                fields.append((each.name, kind | msgspec.UnsetType, msgspec.UNSET))
        struct = msgspec.defstruct(
            "Arguments",
            fields,
            kw_only=True,
            forbid_unknown_fields=not self.open_ended,
        )
        return msgspec.json.Decoder(struct, dec_hook=_from_json)

    def _checked_type(self, name: str, kind: Any) -> Any:
        if kind is object:
            return Any
        try:
            msgspec.json.Decoder(msgspec.defstruct("Check", [(name, kind | msgspec.UnsetType)]))
            info = msgspec.inspect.type_info(kind)
        except TypeError:
            return Any  # a type that cannot be checked is not a type that cannot be used
        if isinstance(info, msgspec.inspect.CustomType) and not hasattr(kind, "model_validate"):
            raise ConfigurationError(
                f"task {self.task!r}: parameter {name} is a {kind!r}, which cannot be made from "
                "JSON; use a built-in type, a dataclass, a TypedDict or a pydantic model"
            )
        return kind

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """A call's arguments by name, or an error that says which is wrong."""
        if args:
            if len(args) > len(self._positional):
                raise InvalidJob(
                    f"task {self.task!r} takes {len(self._positional)} positional arguments, "
                    f"{len(args)} were given"
                )
            given = dict(zip(self._positional, args, strict=False))
            for name in kwargs:
                if name in given:
                    raise InvalidJob(f"task {self.task!r}: argument {name!r} was given twice")
            given |= kwargs
        else:
            given = dict(kwargs)
        if not self.open_ended:
            for name in given:
                if name not in self.names:
                    hint = did_you_mean(name, (*self.names, *self.options))
                    raise InvalidJob(f"task {self.task!r} has no argument {name!r}{hint}")
        if not self._required <= given.keys():
            missing = ", ".join(sorted(self._required - given.keys()))
            raise InvalidJob(f"task {self.task!r} also needs {missing}")
        return given

    def encode(self, given: Mapping[str, Any], limit: int) -> str:
        """The payload for these arguments; what it says must fit what the function takes."""
        payload = encode(given, f"task {self.task!r}", limit)
        try:
            self._decode(payload)
        except msgspec.ValidationError as error:
            raise InvalidJob(f"task {self.task!r}: {_readable(error)}") from None
        except Exception as error:
            raise InvalidJob(f"task {self.task!r}: {type(error).__name__}: {error}") from None
        return payload

    def decode(self, payload: str) -> dict[str, Any]:
        """The arguments a payload holds, with the function's own defaults left to the function."""
        try:
            arguments = msgspec.structs.asdict(self._decode(payload))
        except msgspec.ValidationError as error:
            raise ArgumentMismatch(
                f"the payload does not fit task {self.task!r}: {_readable(error)}"
            ) from None
        except Exception as error:  # nested too deeply, or refused by a type of the user's
            raise ArgumentMismatch(
                f"the payload does not fit task {self.task!r}: {type(error).__name__}: {error}"
            ) from None
        for name in self._optional:
            if arguments[name] is msgspec.UNSET:
                del arguments[name]
        if self.open_ended:
            everything = msgspec.json.decode(payload)
            arguments |= {
                name: value for name, value in everything.items() if name not in self.names
            }
        return arguments


def encode(value: Any, where: str, limit: int) -> str:
    """JSON text that PostgreSQL's jsonb takes, or an error that says what is wrong with it."""
    try:
        raw = _encode(value)
        text = raw.decode()
    except Exception as error:  # whatever a type of the user's raises when it is looked at
        raise InvalidJob(f"{where}: {_not_json(value)} ({error})") from None
    if len(raw) > limit:
        raise InvalidJob(
            f"{where}: {len(raw):,} bytes of JSON are more than the {limit:,} allowed; "
            "keep the data elsewhere and pass a reference to it"
        )
    if "\\u0000" in text and _NUL.search(text):
        raise InvalidJob(f"{where}: a string holds a NUL character, which PostgreSQL cannot keep")
    if "null" in text and _has_nan(value):
        raise InvalidJob(f"{where}: NaN and infinity are not JSON; pass None or a string")
    return text


def _to_json(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    raise TypeError(f"{type(value).__name__} is not JSON")


def _from_json(kind: Any, value: Any) -> Any:
    if hasattr(kind, "model_validate"):
        return kind.model_validate(value)
    raise TypeError(f"{kind!r} cannot be made from JSON")


_encode = msgspec.json.Encoder(enc_hook=_to_json).encode


def _not_json(value: Any) -> str:
    """Name the argument at fault, not just the type."""
    if isinstance(value, Mapping):
        for name, part in value.items():
            try:
                _encode(part).decode()
            except Exception:
                return f"argument {name!r} of type {type(part).__name__} is not JSON"
    return f"{type(value).__name__} is not JSON"


def _has_nan(value: Any) -> bool:
    """Without recursion, as what msgspec could encode may be nested deeper than we can call."""
    to_look_at = [value]
    while to_look_at:
        match to_look_at.pop():
            case float() as number if not math.isfinite(number):
                return True
            case Mapping() as mapping:
                to_look_at += mapping.values()
            case list() | tuple() | set() | frozenset() as several:
                to_look_at += several
    return False


def _readable(error: msgspec.ValidationError) -> str:
    """'Expected `int`, got `str` - at `$.n`' becomes 'argument n: expected int, got str'."""
    text = str(error)
    what, at, path = text.rpartition(" - at `$")
    if at:
        name = path.rstrip("`").lstrip(".")
        text = f"argument {name}: {what[:1].lower()}{what[1:]}" if name else what
    return text.replace("`", "")


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function)
    except Exception:
        # A name that only a type checker can resolve: take the annotations that are types.
        raw = getattr(function, "__annotations__", {})
        return {name: kind for name, kind in raw.items() if not isinstance(kind, str)}


def _job_parameter(
    parameters: list[inspect.Parameter], hints: Mapping[str, Any], job_type: type
) -> str | None:
    for each in parameters:
        hint = hints.get(each.name, each.annotation)
        if hint in (job_type, job_type.__name__) or job_type in typing.get_args(hint):
            return each.name
    first = parameters[0] if parameters else None
    if first is not None and first.name == "job" and first.annotation is _EMPTY:
        return first.name
    return None
