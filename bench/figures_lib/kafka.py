"""The same load against Apache Kafka 4.2, at its best partition count."""
from .machine import worst

CONNECTIONS = 1000
PARTITIONS = (1, 8, 64, 256)
FLUSH_RATIO = 20.0
CACHE_RATIO = 8.0
CEILING_SHARE = 0.75


def best_of(run, label, *arguments):
    """Kafka's best cell over the partition counts; each count on a topic of its own."""
    system = run.system("kafka", *arguments)
    cells = []
    for count in PARTITIONS:
        cells.append(run.cell("load", f"{label}, {count} partitions", system, warmup=8,
                              connections=CONNECTIONS, partitions=count, topic=f"p{count}"))
    system.stop()
    return max(cells, key=lambda cell: cell["requests_per_s"])


def compare(run):
    """Twinlog before and after both of Kafka's rows; the worse of ours counts."""
    system = run.system("twinlog")
    ours = [run.cell("load", "twinlog", system, connections=CONNECTIONS, topic="before")]
    echo = [run.cell("ceiling", "echo", connections=CONNECTIONS)]
    system.stop()
    flush = best_of(run, "kafka flush.messages=1", "--flush")
    cache = best_of(run, "kafka page-cache ack")
    system.start()
    echo.append(run.cell("ceiling", "echo", connections=CONNECTIONS))
    ours.append(run.cell("load", "twinlog", system, connections=CONNECTIONS, topic="after"))
    system.stop()
    rate = worst(ours)["requests_per_s"]
    ratio = rate / flush["requests_per_s"]
    run.figure("rate / Kafka flush.messages=1, its best partition count", f">= {FLUSH_RATIO:.0f}",
               f"{ratio:.1f}", ratio >= FLUSH_RATIO,
               f"Kafka at {flush['setup']['partitions']} partitions")
    ratio = rate / cache["requests_per_s"]
    share = min(a["requests_per_s"] / b["requests_per_s"] for a, b in zip(ours, echo))
    run.figure("rate / Kafka page-cache ack, or share of the echo ceiling", ">= 8 or 0.75",
               f"{ratio:.1f}, {share:.2f}", ratio >= CACHE_RATIO or share >= CEILING_SHARE,
               f"Kafka at {cache['setup']['partitions']} partitions")
