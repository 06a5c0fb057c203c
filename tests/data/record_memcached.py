"""Record memcached-udp.pcap: a real memcached and a client, between two network namespaces of this machine.

    sudo apt-get install memcached tcpdump ethtool iproute2; sudo python3 tests/data/record_memcached.py

The file in the repository was recorded so with Debian's memcached 1.6.18 on amd64.
"""

import socket
import struct
import subprocess
import time
from pathlib import Path

HERE = Path(__file__).parent
SERVER, CLIENT = "10.0.0.2", "10.0.0.1"


def sets(key: str, value: bytes, flags: int = 0) -> bytes:
    return f"set {key} {flags} 0 {len(value)}\r\n".encode() + value + b"\r\n"


REQUESTS = [
    b"get nobody\r\n",
    sets("a", b"alpha"),
    b"get a\r\n",
    sets("a", b"another value", 4294967295),
    b"get a\r\n",
    sets("empty", b""),
    b"get empty\r\n",
    sets("lines", b"one\r\ntwo\r\n"),
    b"get a lines nobody empty a\r\n",
    sets("k" * 250, b"the longest key"),
    b"get " + b"k" * 250 + b"\r\n",
    # Answers of several datagrams.
    *(sets(f"long{i}", bytes([65 + i]) * 1300) for i in range(4)),
    b"get long0 long1 long2 long3\r\n",
    b"get long1\r\n",
    sets("edge", b"e" * 1376),
    b"get edge\r\n",
    sets("over", b"o" * 1377),
    b"get over\r\n",
    b"get long0 nobody a\r\n",
    # Errors.
    b"get\r\n",
    b"nonsense\r\n",
    b"set a 0 0\r\n",
    b"set a 0 0 5\r\ntoo long\r\n",
    b"get a\r\n",
    b"set a x 0 5\r\n12345\r\n",
    b"set " + b"k" * 251 + b" 0 0 2\r\n12\r\n",
    b"get " + b"k" * 251 + b"\r\n",
    b"set quiet 0 0 3 noreply\r\n123\r\n",
    b"get quiet\r\n",
]


def run(*words: str) -> None:
    subprocess.run(words, check=True)


def main() -> None:
    run("ip", "netns", "add", "wt-server")
    try:
        run("ip", "link", "add", "wt-c", "type", "veth", "peer", "name", "wt-s", "netns", "wt-server")
        run("ip", "addr", "add", f"{CLIENT}/24", "dev", "wt-c")
        run("ip", "link", "set", "wt-c", "up")
        inside = ("ip", "netns", "exec", "wt-server")
        run(*inside, "ip", "addr", "add", f"{SERVER}/24", "dev", "wt-s")
        run(*inside, "ip", "link", "set", "wt-s", "up")
        # Checksums as they are on a wire.
        run("ethtool", "-K", "wt-c", "tx", "off")
        run(*inside, "ethtool", "-K", "wt-s", "tx", "off")
        server = subprocess.Popen([*inside, "memcached", "-u", "root", "-l", SERVER, "-p", "0", "-U", "11211"])
        recorder = subprocess.Popen(
            ["tcpdump", "-i", "wt-c", "-U", "-w", str(HERE / "memcached-udp.pcap"), "udp port 11211"]
        )
        time.sleep(2)
        client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        client.bind((CLIENT, 4096))
        client.settimeout(0.05)
        for number, request in enumerate(REQUESTS):
            client.sendto(struct.pack(">HHHH", number + 1, 0, 1, 0) + request, (SERVER, 11211))
            try:
                while True:
                    client.recv(2048)
            except TimeoutError:
                pass
        time.sleep(1)
        recorder.terminate()
        recorder.wait()
        server.terminate()
        server.wait()
    finally:
        run("ip", "netns", "del", "wt-server")


if __name__ == "__main__":
    main()
