"""Finding the application that APP names, and saying what is wrong when it is not there."""

import importlib
import os
import pkgutil
import sys
import traceback
from pathlib import Path
from types import ModuleType

from sexton import Sexton
from sexton.errors import ConfigurationError, did_you_mean


def locate(name: str) -> Sexton:
    """The application of `module:attribute`, with the current folder importable."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    module_name, _, attribute = name.partition(":")
    _check_spelling(name, module_name)
    module = _imported(module_name, here)
    found = _applications(module)
    if not attribute:
        raise ConfigurationError(
            f"APP is a module and an attribute, like {module_name}:{(found or ['app'])[0]}"
            f"{_listed(module_name, found)}"
        )
    value: object = module
    for part in attribute.split("."):
        if not hasattr(value, part):
            hint = did_you_mean(part, found) or _listed(module_name, found)
            raise ConfigurationError(f"module {module_name!r} has no {attribute!r}{hint}")
        value = getattr(value, part)
    if not isinstance(value, Sexton):
        raise ConfigurationError(
            f"{name} is a {type(value).__name__}, not a Sexton{_listed(module_name, found)}"
        )
    return value


def _check_spelling(name: str, module: str) -> None:
    if module.endswith(".py") or os.sep in module:
        dotted = module.removesuffix(".py").replace(os.sep, ".").strip(".")
        raise ConfigurationError(f"APP is a module, not a file: write {dotted}:app")
    if not all(part.isidentifier() for part in module.split(".")):
        raise ConfigurationError(f"{name!r} is not module:attribute; write it like my_module:app")


def _imported(name: str, here: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name + ".").startswith(error.name + "."):
            raise _failed(name, error) from error
        nearby = [each.name for each in pkgutil.iter_modules([here])]
        hint = did_you_mean(name, nearby)
        raise ConfigurationError(
            f"no module {error.name!r}, neither in {here} nor among the installed packages{hint}"
        ) from error
    except (Exception, SystemExit) as error:
        raise _failed(name, error) from error


def _failed(name: str, error: BaseException) -> ConfigurationError:
    """Where in the user's own code, because that is what has to change."""
    where = ""
    if isinstance(error, SyntaxError):
        where = f"{error.filename}, line {error.lineno}: "
    else:
        frames = traceback.extract_tb(error.__traceback__)
        own = [each for each in frames if "importlib" not in each.filename]
        if len(own) > 1:
            where = f"{own[-1].filename}, line {own[-1].lineno}: "
    text = error.msg if isinstance(error, SyntaxError) else error
    return ConfigurationError(
        f"importing {name!r} failed at {where}{type(error).__name__}: {text} (--debug shows more)"
    )


def _applications(module: ModuleType) -> list[str]:
    return [name for name, value in vars(module).items() if isinstance(value, Sexton)]


def _listed(module: str, found: list[str]) -> str:
    if not found:
        return f"; there is no Sexton in {module!r}: make one with app = Sexton()"
    return "; there is " + ", ".join(f"{module}:{name}" for name in found)
