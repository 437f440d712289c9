"""Verilog of a whole network: `edgemeta_network`, engines and streams, and the parameters of `edgemeta_accelerator`."""

import math
import re
from collections.abc import Mapping
from importlib import resources

from edgemeta.kernels.fpga.generate.engines import Engine
from edgemeta.kernels.fpga.generate.network import Network
from edgemeta.model.graph import INPUT

_LOAD = ".load_valid(load_valid), .load_memory(load_memory), .load_row(load_row), .load_word(load_word)"


def rtl_sources() -> dict[str, str]:
    """Text of every engine's file by name."""
    folder = resources.files("edgemeta.kernels.fpga") / "rtl"
    return {each.name: each.read_text("utf-8") for each in sorted(folder.iterdir(), key=lambda file: file.name)}


def serial_credits() -> int:
    """Images that a serial line keeps in block RAM, as rtl/serial.sv says."""
    return int(re.findall(r"parameter integer CREDITS = (\d+)", rtl_sources()["serial.sv"])[0])


def network_source(network: Network, folder: str = "memories") -> str:
    """Module `edgemeta_network`; memories are read from `folder`, relative to where the tools run, or absolute."""
    streams = _Streams(network)
    numbers = memory_numbers(network)
    body = [streams.instance(engine, numbers, folder) for engine in network.engines]
    last = streams.source(network.engines[-1].name)
    return "\n".join(
        [
            f"// Network {_printable(network.model.name)}, digest {network.model.digest or 'none'}. Generated.",
            "`default_nettype none",
            *_network_ports(network),
            *streams.declarations(),
            "",
            *body,
            f"    assign out_data = {last}_data;",
            f"    assign out_valid = {last}_valid;",
            f"    assign {last}_ready = out_ready;",
            "endmodule",
            "`default_nettype wire",
            "",
        ]
    )


def network_stub(network: Network) -> str:
    """Module `edgemeta_network` without contents, for synthesis of what lies around it."""
    return "\n".join(["(* blackbox *)", *_network_ports(network), "endmodule", ""])


def _network_ports(network: Network) -> list[str]:
    return [
        "module edgemeta_network (",
        "    input  wire clk,",
        "    input  wire rst,",
        "    input  wire [7:0] in_data,",
        "    input  wire in_valid,",
        "    output wire in_ready,",
        f"    output wire [{network.engines[-1].out_bits - 1}:0] out_data,",
        "    output wire out_valid,",
        "    input  wire out_ready,",
        "    input  wire load_valid,",
        "    input  wire [15:0] load_memory,",
        "    input  wire [15:0] load_row,",
        f"    input  wire [{network.load_bits - 1}:0] load_word",
        ");",
    ]


def memory_numbers(network: Network) -> dict[tuple[str, str], int]:
    """Number of every memory, for loading, by engine and suffix."""
    numbers: dict[tuple[str, str], int] = {}
    for engine in network.engines:
        for memory in engine.memories:
            numbers[engine.name, memory.suffix] = len(numbers)
    return numbers


def memory_files(network: Network) -> dict[str, str]:
    """Text of every memory by the name of its file."""
    position = {engine.name: at for at, engine in enumerate(network.engines)}
    return {
        f"{_label(position[engine.name])}_{memory.suffix}.mem": memory.text()
        for engine in network.engines
        for memory in engine.memories
    }


def _label(position: int) -> str:
    return f"e{position:02}"


def _printable(name: str) -> str:
    return name.encode("ascii", "replace").decode()


class _Streams:
    """Names of the streams between engines, with the forks and FIFOs on their way."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._label = {engine.name: _label(at) for at, engine in enumerate(network.engines)} | {INPUT: "image"}
        readers: dict[str, list[tuple[str, int]]] = {name: [] for name in self._label}
        for engine in network.engines:
            for number, name in enumerate(engine.reads):
                readers[name].append((engine.name, number))
        self._readers = readers
        self._bits: Mapping[str, int] = {INPUT: 8} | {engine.name: engine.out_bits for engine in network.engines}

    def source(self, name: str) -> str:
        """Stream that the engine `name` writes."""
        return f"s_{self._label[name]}"

    def _branch(self, name: str, reader: tuple[str, int]) -> str:
        """Stream that a reader takes, behind the fork of tensor `name`."""
        if len(self._readers[name]) == 1:
            return self.source(name)
        return f"{self.source(name)}_{'ab'[self._readers[name].index(reader)]}"

    def _arriving(self, name: str, reader: tuple[str, int]) -> str:
        """Stream at a reader's port, behind the FIFO if there is one."""
        branch = self._branch(name, reader)
        return f"{branch}_late" if reader in self._network.fifos else branch

    def declarations(self) -> list[str]:
        """Wires of all streams, the input's connection, forks and FIFOs."""
        lines = []
        for name, readers in self._readers.items():
            source = self.source(name)
            lines += self._wires(source, self._bits[name])
            if name == INPUT:
                lines.append(
                    f"    assign {source}_data = in_data, {source}_valid = in_valid, in_ready = {source}_ready;"
                )
            if len(readers) == 2:
                a, b = (self._branch(name, reader) for reader in readers)
                lines += [*self._wires(a, self._bits[name]), *self._wires(b, self._bits[name])]
                lines.append(
                    f"    edgemeta_fork #(.WIDTH({self._bits[name]})) fork_{self._label[name]} (.clk(clk), .rst(rst), "
                    f"{_port('in', source)}, {_port('a', a)}, {_port('b', b)});"
                )
            for reader in readers:
                depth = self._network.fifos.get(reader)
                if depth is None:
                    continue
                branch, late = self._branch(name, reader), self._arriving(name, reader)
                lines += self._wires(late, 8)
                lines.append(
                    f'    edgemeta_fifo #(.WIDTH(8), .DEPTH({depth}), .STYLE("block")) '
                    f"fifo_{self._label[reader[0]]}_{reader[1]} (.clk(clk), .rst(rst), "
                    f"{_port('in', branch)}, {_port('out', late)});"
                )
        return lines

    def instance(self, engine: Engine, numbers: Mapping[tuple[str, str], int], folder: str) -> str:
        """The engine with its parameters and connections."""
        label = self._label[engine.name]
        parameters = dict(engine.parameters)
        if engine.memories:
            first = numbers[engine.name, engine.memories[0].suffix]
            parameters |= {"FILE": f"{folder}/{label}", "NUMBER": first, "LOAD": self._network.load_bits}
        values = ", ".join(f".{key}({literal(value)})" for key, value in parameters.items())
        inputs = [self._arriving(name, (engine.name, number)) for number, name in enumerate(engine.reads)]
        names = ["in"] if len(inputs) == 1 else ["a", "b"]
        ports = [_port(name, stream) for name, stream in zip(names, inputs, strict=True)]
        ports.append(_port("out", self.source(engine.name)))
        if engine.module != "edgemeta_clamp":
            ports.insert(0, ".clk(clk), .rst(rst)")
        if engine.memories:
            ports.append(_LOAD)
        layers = _printable(", ".join(engine.layers))
        return (
            f"    // {layers}\n    {engine.module} #({values}) {label} (\n        " + ",\n        ".join(ports) + ");\n"
        )

    def _wires(self, stream: str, bits: int) -> list[str]:
        return [f"    wire [{bits - 1}:0] {stream}_data; wire {stream}_valid, {stream}_ready;"]


def _port(name: str, stream: str) -> str:
    return ", ".join(f".{name}_{part}({stream}_{part})" for part in ("data", "valid", "ready"))


def literal(value: int | str) -> str:
    """A parameter's value."""
    return f'"{value}"' if isinstance(value, str) else str(value)


def accelerator_source(network: Network) -> str:
    """Module `edgemeta_accelerator` (rtl/accelerator.sv) with the network's parameters."""
    return _with_parameters("accelerator.sv", _parameters(network))


def board_source(network: Network, divider: int) -> str:
    """Module `edgemeta_board` (rtl/board.sv) with the network's parameters. divider: clocks per bit of its line."""
    return _with_parameters("board.sv", {**_parameters(network), "DIVIDER": divider})


def _parameters(network: Network) -> Mapping[str, int | str]:
    model = network.model
    digest = bytes.fromhex(model.digest or "00" * 32)
    return {
        "DIGEST": f"256'h{int.from_bytes(digest, 'little'):064x}",
        "IN_WORDS": math.prod(model.input.shape),
        "OUT_WORDS": math.prod(model.output_types[0].shape),
        "OUT": network.engines[-1].out_bits,
        "LOAD": network.load_bits,
    }


def _with_parameters(file: str, parameters: Mapping[str, int | str]) -> str:
    source = rtl_sources()[file]
    for name, value in parameters.items():
        source = re.sub(rf"(parameter \S+ {name} = )[\w']+", rf"\g<1>{value}", source)
    return source
