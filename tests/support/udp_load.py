"""A host that sends UDP to many addresses, each at a rate, and counts what arrives by source.

python udp_load.py SECONDS RECEIVE... -- SOURCE=TARGET=MBIT...; prints Mbit/s on the wire by source and own address,
without the first second.
"""

from __future__ import annotations

import json
import select
import socket
import sys
import time
from collections import defaultdict
from contextlib import suppress

PORT = 5400
PAYLOAD = bytes(1400)
FRAME_BITS = 8 * (1400 + 42)


def main(words: list[str]) -> None:
    """Send and receive for some seconds."""
    seconds = float(words[0])
    split = words.index("--")
    own = {_bound(address, PORT): address for address in words[1:split]}
    ways = [word.split("=") for word in words[split + 1 :]]
    out = [(_bound(source, 0), target, float(mbit) * 1e6 / FRAME_BITS) for source, target, mbit in ways]
    sent = [0] * len(out)
    got: dict[str, int] = defaultdict(int)
    start = time.monotonic()
    while (passed := time.monotonic() - start) < seconds:
        for k, (sender, target, frames_per_s) in enumerate(out):
            due = int(passed * frames_per_s)
            for _ in range(max(sent[k], due - 20), due):
                with suppress(OSError):  # its queue is full
                    sender.sendto(PAYLOAD, (target, PORT))
            sent[k] = due
        ready, _, _ = select.select(list(own), [], [], 0.001)
        for one in ready:
            with suppress(BlockingIOError):
                while True:
                    _, (source, _) = one.recvfrom(2048)
                    got[f"{source}>{own[one]}"] += passed > 1
    print(json.dumps({key: count * FRAME_BITS / 1e6 / (seconds - 1) for key, count in got.items()}))


def _bound(address: str, port: int) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.setblocking(False)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    made.bind((address, port))
    return made


if __name__ == "__main__":
    main(sys.argv[1:])
