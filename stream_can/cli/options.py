"""Settings as options of a command, with their help texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, make_dataclass
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Group, Parameter

from stream_can.app.loading import counts_of
from stream_can.app.settings import Option
from stream_can.cli.arguments import Whole
from stream_can.method.settings import SETTINGS, kind_of
from stream_can.method.settings_help import sentence
from stream_can.recording.names import listed

# Options are text, which `load` converts, except switches and repeatable ones.
KINDS: dict[type, Any] = {bool: bool | None, dict: list[str] | None}
CORRECTOR = Group(
    "Corrector", help="Start with the defaults; docs/method.md explains each setting."
)


def _option(name: str) -> Any:
    kind = {int: Whole, float: float, bool: bool}.get(kind_of(name), str)
    return Annotated[kind | None, Parameter(help=sentence(name))]


@dataclass(frozen=True, kw_only=True)
class _Options:
    """Corrector settings as options, lists comma-separated; None means not given."""

    train_counts: str | None = None
    """Training rows per class, in the order of the classes or by name: cat=900,dog=80,eel=20."""
    if TYPE_CHECKING:
        segments: str | None = None

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return [] if self.segments is None else listed(self.segments)

    def settings(self) -> dict[str, Any]:
        """The settings that were given, as keyword arguments of Corrector."""
        typed = {name: value for name, value in vars(self).items() if value is not None}
        if "train_counts" in typed:
            typed["train_counts"] = counts_of(typed["train_counts"])
        return {
            name: listed(value) if name in SETTINGS and kind_of(name) is list else value
            for name, value in typed.items()
        }


if TYPE_CHECKING:

    class CorrectorOptions(_Options):
        """An option for each setting."""

else:
    CorrectorOptions = Parameter(name="*", group=CORRECTOR)(
        make_dataclass(
            "CorrectorOptions",
            [(name, _option(name), None) for name in SETTINGS],
            bases=(_Options,),
            frozen=True,
            kw_only=True,
            namespace={"__module__": __name__},
        )
    )
NO_OPTIONS = CorrectorOptions()


def typed_options(
    settings: Iterable[Option], module: str, names: Mapping[str, list[str]] | None = None
) -> Any:
    """Create the dataclass of a command's options: every setting, None where not given.

    Parameters
    ----------
    settings
        The settings.
    module
        The command's module.
    names
        All names of settings that also have a short option.
    """
    short = names or {}
    fields = [
        (
            setting.name,
            Annotated[
                KINDS.get(setting.kind, str | None),
                Parameter(
                    name=short.get(setting.name),
                    help=setting.help,
                    negative=None if setting.kind is bool else "",
                ),
            ],
            None,
        )
        for setting in settings
    ]
    # Without a module, Python 3.11 attributes it to its own library.
    return make_dataclass("TypedOptions", fields, kw_only=True, namespace={"__module__": module})
