"""Pings from given addresses, and a listener that notes by which ports of an optical switch each request comes in.

ping.py send SOURCE>TARGET ...      prints those that were answered, as JSON
ping.py watch                       prints `ready`, and once its input ends {SOURCE>TARGET: [ports in order]} as JSON
"""

from __future__ import annotations

import json
import select
import socket
import struct
import sys
import time

REQUEST, REPLY = 8, 0
OUTGOING = 4
TRIES, WAIT_S = 5, 1.0


def checksum(data: bytes) -> int:
    """Of ICMP (RFC 1071)."""
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total >> 16) + (total & 0xFFFF)
    return ~(total + (total >> 16)) & 0xFFFF


def request(text: str) -> bytes:
    """An echo request that carries a text."""
    payload = text.encode() + b" " * (len(text) % 2)
    head = struct.pack("!BBHHH", REQUEST, 0, 0, 7106, 1)
    return struct.pack("!BBHHH", REQUEST, 0, checksum(head + payload), 7106, 1) + payload


def send(ways: list[str]) -> list[str]:
    """Those that were answered."""
    answered = []
    for way in ways:
        source, target = way.split(">")
        with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as opened:
            opened.bind((source, 0))
            opened.settimeout(WAIT_S)
            for _ in range(TRIES):
                opened.sendto(request(way), (target, 0))
                if _answer(opened, way):
                    answered.append(way)
                    break
    return answered


def _answer(opened: socket.socket, way: str) -> bool:
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        try:
            packet = opened.recv(2048)
        except TimeoutError:
            return False
        body = packet[(packet[0] & 15) * 4 :]
        if body[0] == REPLY and body[8:].decode(errors="replace").strip() == way:
            return True
    return False


def watch() -> dict[str, list[str]]:
    """Ports by which the last request of each way came in."""
    seen: dict[str, list[str]] = {}
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0003)) as opened:
        print("ready", flush=True)
        while True:
            ready, _, _ = select.select([opened, sys.stdin], [], [])
            if opened in ready:
                frame, (port, _, kind, *_) = opened.recvfrom(2048)
                body = frame[14 + (frame[14] & 15) * 4 :] if len(frame) > 34 else b""
                if kind != OUTGOING and frame[12:14] == b"\x08\x00" and frame[23] == 1 and body[0] == REQUEST:
                    seen.setdefault(body[8:].decode(errors="replace").strip(), []).append(port)
            elif sys.stdin in ready:
                return seen


if __name__ == "__main__":
    print(json.dumps(send(sys.argv[2:]) if sys.argv[1] == "send" else watch()))
