"""Past the knee, and beside clients that behave badly."""
import resource
import socket
import struct
import threading

from .steady import rate

LADDER = (125, 250, 500, 1000, 2000)
KNEE_SHARE = 0.95
OVERSHOOT = 4
OVERLOAD_SHARE = 0.90
RETURN_SHARE = 0.95
DISTURBED_SHARE = 0.90
STORM_CONNECTIONS = 5000


def knee(run, system):
    """The fewest connections that reach (nearly) the highest rate, and their cell."""
    cells = [run.cell("load", f"ladder {count}", system, connections=count, topic=f"l{count}")
             for count in LADDER]
    peak = max(rate(cell) for cell in cells)
    for count, cell in zip(LADDER, cells):
        if rate(cell) >= KNEE_SHARE * peak:
            return count, peak
    raise AssertionError("the highest is one of them")


def overload(run):
    """Four times the knee, the second after it, and three kinds of bad company."""
    raise_descriptor_limit()
    system = run.system("twinlog")
    count, peak = knee(run, system)
    over = run.cell("load", f"overload {OVERSHOOT * count}", system, connections=OVERSHOOT * count,
                    topic="over")
    after = run.cell("load", f"a second later {count}", system, connections=count, topic="after",
                     warmup=1, duration=3)
    run.figure(f"rate at {OVERSHOOT} times the knee ({count}) / peak", f">= {OVERLOAD_SHARE:.2f}",
               f"{rate(over) / peak:.2f}", rate(over) >= OVERLOAD_SHARE * peak)
    run.figure("rate from one second after the overload on / peak", f">= {RETURN_SHARE:.2f}",
               f"{rate(after) / peak:.2f}", rate(after) >= RETURN_SHARE * peak)
    for name, company in (("a client that reads nothing", reads_nothing),
                          ("a client that sends a byte a second", drips),
                          (f"a client that opens {STORM_CONNECTIONS} connections", storms)):
        disturbed(run, system, count, name, company)
    system.stop()


def disturbed(run, system, count, name, company):
    """The same cell without and with the company."""
    alone = run.cell("load", "alone", system, connections=count, topic=f"{company.__name__}-0")
    stop = threading.Event()
    guest = threading.Thread(target=company, args=(system.port, stop))
    guest.start()
    try:
        beside = run.cell("load", f"beside {name}", system, connections=count,
                          topic=f"{company.__name__}-1")
    finally:
        stop.set()
        guest.join()
    share = rate(beside) / rate(alone)
    run.figure(f"rate beside {name} / alone", f">= {DISTURBED_SHARE:.2f}", f"{share:.2f}",
               share >= DISTURBED_SHARE)


def metadata_request():
    """Metadata version 1 for all topics."""
    body = struct.pack(">hhih4si", 3, 1, 1, 4, b"test", -1)
    return struct.pack(">i", len(body)) + body


def reads_nothing(port, stop):
    """Asks for as much as the socket takes, and reads none of it."""
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.setblocking(False)
        while not stop.wait(0.01):
            try:
                client.send(metadata_request() * 100)
            except BlockingIOError:
                pass
            except OSError:
                return


def drips(port, stop):
    """A request whose bytes come one a second."""
    with socket.create_connection(("127.0.0.1", port)) as client:
        for byte in metadata_request():
            if stop.wait(1):
                return
            client.send(bytes([byte]))
        stop.wait()


def storms(port, stop):
    """Opens connections as fast as it can and keeps them."""
    clients = []
    try:
        while len(clients) < STORM_CONNECTIONS and not stop.is_set():
            clients.append(socket.create_connection(("127.0.0.1", port)))
        stop.wait()
    finally:
        for client in clients:
            client.close()


def raise_descriptor_limit():
    """The storm needs thousands of descriptors in this process."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
