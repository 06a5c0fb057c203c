"""Help of commands with many options, by what the options are about."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand

# Sections and their options, by parameter. What is in none is the command's own, and comes first.
SECTIONS: dict[str, tuple[str, ...]] = {
    "Load": (
        "packet_size", "rate", "arrivals", "flows", "flow_spread", "flow_vary", "ip", "clients", "think", "timeout",
        "store", "iperf", "peer", "timestamp_offset",
    ),
    "Trace to send": ("replay", "speed", "loops", "lenient", "key"),
    "Machine": ("platform", "nic", "ports", "queues", "cores", "changes", "seed"),
    "Software": (
        "app_args", "app_commands", "dpdk", "kernel_args", "ethtool", "guest_limit", "engine", "model",
    ),
    "Program of yours": ("files", "role", "kernel", "hugepages"),
    "Measurement": ("duration", "warmup", "follow", "interval", "drop_classes"),
    "Output": ("out", "json_output", "with_profile", "capture", "trace"),
    "Other": ("boot", "every_turn", "help"),
}  # fmt: skip
OWN = "Options"


class Sectioned(TyperCommand):
    """A command whose help has its options in sections."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, then options by section, in the order of ``SECTIONS``."""
        section_of = {name: section for section, names in SECTIONS.items() for name in names}
        found: dict[str, dict[str, tuple[str, str]]] = {name: {} for name in ("Arguments", OWN, *SECTIONS)}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                is_argument = parameter.param_type_name == "argument"
                section = "Arguments" if is_argument else section_of.get(str(parameter.name), OWN)
                found[section][str(parameter.name)] = record
        for section, records in found.items():
            order = [name for name in SECTIONS.get(section, records) if name in records]
            if order:
                with formatter.section(section):
                    formatter.write_dl([records[name] for name in order])
