"""Types of what goes into an engine and comes out of it. Made by scripts/models.py; not written by hand."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypeAlias, TypedDict

CoreKind: TypeAlias = Literal["out-of-order", "in-order"]


class DispatchLimits(TypedDict):
    """
    Instructions a cycle that dispatch sends to pipes of a kind; 0: as many as `dispatch_width`. An instruction counts as
    its class's unit, whatever pipes that may share.
    """

    integer: int
    multiply: int
    vector_first: int
    vector_last: int
    memory: int


class Units(TypedDict):
    """
    Execution pipes.
    """

    branch: int
    integer: int
    multiply: int
    multiply_takes_integer: bool
    vector: int
    load: int
    store: int
    load_store: int


Unit: TypeAlias = Literal[
    "none", "branch", "integer", "multiply", "vector", "vector-first", "vector-last", "load", "store"
]


Direction: TypeAlias = Literal["bimodal", "gshare", "bi-mode", "tage"]


class Tlb(TypedDict):
    """
    Address translation.
    """

    l1i_entries: int
    l1d_entries: int
    l2_entries: int
    l2_ways: int
    l2_latency: int
    walk_cache_entries: int
    walk_latency: int


CacheIndex: TypeAlias = Literal["virtual", "physical"]


Replacement: TypeAlias = Literal["lru", "random", "pseudo-lru", "rrip"]


PrefetcherKind: TypeAlias = Literal["off", "next-line", "stride", "stream", "best-offset", "spatial"]


Inclusion: TypeAlias = Literal["inclusive", "non-inclusive", "exclusive", "mostly-exclusive"]


class WriteStreaming(TypedDict):
    """
    Write streaming (Arm's name): stores that go on overwriting whole lines which the L1D does not have no longer read them.
    """

    after: str
    zeroes_after: str
    llc_after: str
    memory_after: str
    patience: int


Beyond: TypeAlias = Literal["oldest", "memory"]


Stash: TypeAlias = Literal["none", "completions", "all"]


DeviceReads: TypeAlias = Literal["share", "snapshot"]


Refresh: TypeAlias = Literal["rank", "bank"]


PagePolicy: TypeAlias = Literal["open", "closed", "timed"]


Mapping: TypeAlias = Literal["group-interleaved", "row-contiguous"]


class Io(TypedDict):
    """
    Cores' accesses to devices.
    """

    mmio_write_latency: str
    mmio_read_latency: str
    write_combining: bool


class Pcie(TypedDict):
    """
    PCIe links as the machine configures them, and the root complex behind them.
    """

    max_payload: int
    max_read_request: int
    read_completion_boundary: int
    write_overhead: int
    read_overhead: int
    completion_overhead: int
    dllp_size: int
    dllp_interval: int
    idle_percent: int
    latency: str
    tags: int
    posted_headers: int
    posted_data: int
    non_posted_headers: int


class Bus(TypedDict):
    """
    A plain I/O bus, as gem5 has it.
    """

    width: int
    frequency: str
    header_cycles: int
    half_duplex: bool
    requests_share: bool
    latency: str
    outstanding: int


Walks: TypeAlias = Literal["timed", "read"]


IoPath: TypeAlias = Literal["pcie", "bus"]


Interface: TypeAlias = Literal["8254x", "82599", "qdma", "connectx-6dx", "connectx-7"]


UserLogic: TypeAlias = Literal["wire", "generator"]


class Mlx5(TypedDict):
    """
    A ConnectX: how far it reads ahead, and how fast a queue sends.
    """

    write_combining: bool
    record_before_requests: bool
    receive_requests_ahead: int
    send_blocks_a_read: int
    send_blocks_ahead: int
    compression_timeout: str
    compression_after: int
    read_time: str
    request_line_time: str
    send_packet_time: str
    fails_at: str
    queues_fail_at: str


class Link(TypedDict):
    """
    The Ethernet link of a port.
    """

    rate: str
    gap_bytes: int
    latency: str


GuestCpu: TypeAlias = Literal["neoverse-n1", "cortex-a76"]


Traffic: TypeAlias = Literal["udp", "ping", "memcached", "iperf"]


Internet: TypeAlias = Literal["v4", "v6"]


class Sizes1(TypedDict):
    """
    All the same.
    """

    kind: Literal["fixed"]
    size: int


Part: TypeAlias = int


class Sizes2(TypedDict):
    """
    Sizes with weights.
    """

    kind: Literal["mix"]
    parts: list[tuple[Part, Part]]


Sizes3 = TypedDict(
    "Sizes3",
    {
        "kind": Literal["uniform"],
        "from": int,
        "to": int,
    },
)


Sizes: TypeAlias = Sizes1 | Sizes2 | Sizes3


class Arrivals1(TypedDict):
    """
    Each as far behind the one before as its bits take at the rate.
    """

    kind: Literal["constant"]


class Arrivals2(TypedDict):
    """
    Exponentially distributed distances.
    """

    kind: Literal["poisson"]


class Arrivals3(TypedDict):
    """
    Bursts of so many packets back to back; the bursts as far apart as the rate asks.
    """

    kind: Literal["burst"]
    size: int


class Arrivals4(TypedDict):
    """
    The line's rate for some time, then nothing for some time, so often that the mean is the rate.
    """

    kind: Literal["on-off"]
    on: str


class Arrivals5(TypedDict):
    """
    From a share of the rate to all of it, linearly over some time; then at the rate.
    """

    kind: Literal["ramp"]
    from_percent: int
    over: str


Arrivals: TypeAlias = Arrivals1 | Arrivals2 | Arrivals3 | Arrivals4 | Arrivals5


class Spread1(TypedDict):
    """
    One after the other.
    """

    kind: Literal["round-robin"]


class Spread2(TypedDict):
    """
    Each packet's flow is drawn, all equally likely.
    """

    kind: Literal["uniform"]


class Spread3(TypedDict):
    """
    Drawn; the k-th flow's share falls as k to the power of minus `exponent`.
    """

    kind: Literal["zipf"]
    exponent: float


Spread: TypeAlias = Spread1 | Spread2 | Spread3


Vary: TypeAlias = Literal["ports", "addresses", "both"]


class Recognition1(TypedDict):
    """
    By the probe that every packet carries.
    """

    by: Literal["probe"]


class Recognition2(TypedDict):
    """
    By the buffer that carried the packet through the host.
    """

    by: Literal["buffer"]


class Recognition3(TypedDict):
    """
    By bytes that the answer has in the same place, and by the buffer.
    """

    by: Literal["key"]
    offset: int
    length: int


Recognition: TypeAlias = Recognition1 | Recognition2 | Recognition3


class ClosedLoop(TypedDict):
    """
    Clients of a generator.
    """

    clients: int
    think: str
    exponential: bool
    timeout: str


class TraceClock1(TypedDict):
    """
    As captured, so many millionths as fast.
    """

    kind: Literal["captured"]
    millionths: int


class TraceClock2(TypedDict):
    """
    By the load's rate and arrival process.
    """

    kind: Literal["rate"]


TraceClock: TypeAlias = TraceClock1 | TraceClock2


KeyLengthItem: TypeAlias = int


ValueLengthItem: TypeAlias = int


class StoreLoad(TypedDict):
    """
    What clients ask for.
    """

    keys: int
    key_length: tuple[KeyLengthItem, KeyLengthItem]
    value_length: tuple[ValueLengthItem, ValueLengthItem]
    length_skew: float
    key_skew: float
    get_percent: int
    port: int


Protocol: TypeAlias = Literal["tcp", "udp"]


DropClasses: TypeAlias = Literal["wiretime", "gem5"]


Role: TypeAlias = Literal["forwards", "answers", "consumes", "sends"]


FarEnd: TypeAlias = Literal["none", "tap", "host"]


StartAt: TypeAlias = Literal["receiver-ready", "sending", "mark", "never"]


MacItem: TypeAlias = int


class Application(TypedDict):
    """
    What ran in the guest.
    """

    name: str
    command: str
    role: Role
    kernel_arguments: list[str]
    policy: list[str]


Timing2: TypeAlias = Literal["full", "always", "blocks"]


class Package(TypedDict):
    """
    A package of Debian's.
    """

    name: str
    version: str
    sha256: str


class Latency(TypedDict):
    """
    Moments and quantiles of latencies; quantiles to three digits.
    """

    mean: float
    deviation: float
    median: float
    p90: float
    p99: float
    p999: float
    p9999: float
    max: float


class Hop(TypedDict):
    """
    Latency of one hop.
    """

    name: str
    meaning: str
    mean: float
    median: float
    p90: float
    p99: float
    p999: float
    max: float


class Counts(TypedDict):
    """
    How many packets had each fate.
    """

    offered: int
    filtered: int
    dma_drop: int
    core_drop: int
    tx_drop: int
    host_drop: int
    consumed: int
    forwarded: int
    on_the_way: int
    in_rx_fifo: int
    held_by_host: int
    in_tx_path: int
    lost_in_reset: int


BurstSize: TypeAlias = int


AvailableAtReplenishItem: TypeAlias = int


class QueueResult(TypedDict):
    """
    What became of a queue's packets.
    """

    cohort: Counts
    burst_sizes: list[tuple[BurstSize, BurstSize]]
    available_at_replenish: list[tuple[AvailableAtReplenishItem, AvailableAtReplenishItem]]
    latency_ns: Latency | None


class DropTransition(TypedDict):
    """
    What was full when packets were refused.
    """

    before: str
    at: str
    drops: int


class StoreStats(TypedDict):
    """
    Requests and what became of them, from the start of the load on.
    """

    gets: int
    sets: int
    hits: int
    misses: int
    stored: int
    refused: int
    wrong: int
    unexpected: int
    datagrams: int


Datagram: TypeAlias = int


Retransmission: TypeAlias = int


Series: TypeAlias = int


class IperfReport(TypedDict):
    """
    What the client has counted, and what the server said at the end.
    """

    state: str
    sent: int
    received: int
    datagrams: tuple[Datagram, Datagram]
    server_bytes: int | None
    retransmissions: tuple[Retransmission, Retransmission]
    round_trip_ns: float | None
    series_begin_ns: float
    series_step_ns: float
    series: list[list[Series]]


FlowRowItem: TypeAlias = int


FlowName: TypeAlias = int | str


Port: TypeAlias = int


class Occupancy(TypedDict):
    """
    Fill of FIFO and rings: a table a port, a row a point.
    """

    interval_ns: float
    columns: list[str]
    ports: list[list[list[Port]]]


Ps: TypeAlias = int


class CoreStats(TypedDict):
    """
    What one core did.
    """

    instructions: int
    cycles: int
    mop_cache_hits: int
    mop_cache_misses: int
    branches: int
    branch_misses: int
    btb_misses: int
    loads: int
    stores: int
    store_forwards: int
    order_violations: int
    mmio_reads: int
    mmio_writes: int
    mmio_write_cycles: int
    exceptions: int
    unknown_instructions: int


class StallStats(TypedDict):
    """
    Cycles by cause: a CPI stack. They add up to the core's cycles.
    """

    base: int
    core: int
    l1i_miss: int
    itlb_miss: int
    branch_mispredict: int
    fetch: int
    exception: int
    issue_queue_full: int
    registers_full: int
    l2_hit: int
    llc_hit: int
    snoop: int
    dram: int
    dtlb_miss: int
    store_queue_full: int
    device: int
    barrier: int


class TlbStats(TypedDict):
    """
    What translation cost.
    """

    itlb_misses: int
    dtlb_misses: int
    l2_tlb_misses: int
    walk_reads: int
    walk_cycles: int


class PrivateStats(TypedDict):
    """
    One core's caches. Names follow Linux perf where it has one.
    """

    l1_icache_loads: int
    l1_icache_load_misses: int
    l1_dcache_loads: int
    l1_dcache_load_misses: int
    l1_dcache_stores: int
    l1_dcache_store_misses: int
    l1_dcache_mshr_hits: int
    l1_dcache_write_backs: int
    write_streamed_lines: int
    l2_accesses_code: int
    l2_accesses_load: int
    l2_accesses_store: int
    l2_accesses_prefetch: int
    l2_accesses_walk: int
    l2_misses_code: int
    l2_misses_load: int
    l2_misses_store: int
    l2_misses_prefetch: int
    l2_misses_walk: int
    l2_write_backs: int
    l2_mshr_full_cycles: int
    software_prefetches: int
    hardware_prefetches: int
    hardware_prefetches_used: int
    snoop_hits: int
    snooped_lines: int


class ProcessorTime(TypedDict):
    """
    Time of a core by kind.
    """

    user_ps: Ps
    system_ps: Ps
    softirq_ps: Ps
    irq_ps: Ps
    idle_ps: Ps


class MemoryStats(TypedDict):
    """
    What is shared.
    """

    llc_accesses_code: int
    llc_accesses_load: int
    llc_accesses_store: int
    llc_accesses_prefetch: int
    llc_accesses_walk: int
    llc_misses_code: int
    llc_misses_load: int
    llc_misses_store: int
    llc_misses_prefetch: int
    llc_misses_walk: int
    llc_allocations: int
    llc_write_backs: int
    llc_write_backs_device: int
    llc_evictions: int
    llc_mshr_full_ps: int
    dma_writes: int
    dma_write_allocations: int
    dma_write_updates: int
    dma_write_overflows: int
    dma_write_stashes: int
    dma_reads: int
    dma_read_hits: int
    dca_leaks: int


class ObjectStats(TypedDict):
    """
    Misses of cores by what the line holds.
    """

    l2_misses_descriptor: int
    l2_misses_mbuf_header: int
    l2_misses_payload: int
    l2_misses_code: int
    l2_misses_other: int
    llc_misses_descriptor: int
    llc_misses_mbuf_header: int
    llc_misses_payload: int
    llc_misses_code: int
    llc_misses_other: int


class DramStats(TypedDict):
    """
    What DRAM did.
    """

    reads_fetch: int
    reads_load: int
    reads_store: int
    reads_prefetch: int
    reads_walk: int
    reads_dma: int
    writes_cache: int
    writes_dma: int
    row_hits: int
    row_misses: int
    rows_reopened: int
    write_drains: int
    writes_moved: int
    writes_merged: int
    reads_forwarded: int


class ReceiveStats(TypedDict):
    """
    What the receive path of a port did.
    """

    frames: int
    filtered: int
    refused: int
    out_of_buffer: int
    delivered: int
    descriptor_fetches: int
    descriptors_fetched: int
    write_backs: int
    fifo_peak: int
    fifo_level: int
    fifo_level_ps: int
    buffer_faults: int


class TransmitStats(TypedDict):
    """
    What the transmit path of a port did.
    """

    frames: int
    bytes: int
    descriptor_fetches: int
    descriptors_fetched: int
    write_backs: int
    bad_packets: int
    buffer_faults: int
    fifo_peak: int


class IoStats(TypedDict):
    """
    What crossed the path.
    """

    upstream_bytes: int
    downstream_bytes: int
    upstream_payload: int
    downstream_payload: int
    dllp_bytes: int
    memory_writes: int
    memory_reads: int
    completions: int
    register_writes: int
    upstream_busy_ps: int
    downstream_busy_ps: int
    credit_wait_ps: int
    tag_wait_ps: int
    iotlb_hits: int
    iotlb_second_hits: int
    iotlb_misses: int
    iommu_table_reads: int


class FarStats(TypedDict):
    """
    What passed between a port and the far end of its wire.
    """

    frames_in: int
    payload_in: int
    frames_out: int
    payload_out: int


class RxQueueStats(TypedDict):
    """
    What happened to the packets of a receive queue.
    """

    delivered: int
    dma_drops: int
    core_drops: int
    tx_drops: int
    no_descriptor: int
    write_backs: int
    free: int
    waiting: int


class TxQueueStats(TypedDict):
    """
    What a transmit queue did.
    """

    packets: int
    write_backs: int
    level: int


class DriverStats(TypedDict):
    """
    What the driver does with a receive queue and its transmit queue of the same number.
    """

    polls: int
    empty_polls: int
    bursts: int
    burst_packets: int
    rx_doorbells: int
    replenished: int
    tx_doorbells: int
    posted: int
    rx_doorbell_interval_ps: int
    tx_doorbell_interval_ps: int


class Series1(TypedDict):
    """
    What counters counted in each step of the measurement.
    """

    interval: str
    columns: list[str]
    rows: list[list[int]]


class ExecutionPoint(TypedDict):
    """
    What had been executed by a point of the run.
    """

    point: str
    simulated_ns: int
    instructions: list[int]
    hash: str


class Late(TypedDict):
    """
    How late something was seen.
    """

    mean: float
    max: float


class GuestReport(TypedDict):
    """
    What the guest reported.
    """

    status: int
    figures: list[int]


class IperfSummary(TypedDict):
    """
    Rates and counts of both sides of an iperf3 run, of all ports.
    """

    state: str
    gbps: float
    received_gbps: float | None
    steady_gbps: float | None
    steady_after_ns: float | None
    retransmissions: list[Retransmission]
    retransmissions_before_steady: int | None
    client_bytes: int
    server_bytes: int | None
    datagrams: list[Datagram]
    round_trip_ns: float | None


class TraceSummary(TypedDict):
    """
    What a trace holds.
    """

    packets: int
    bytes: int
    shortest: int
    longest: int
    span_ps: Ps
    out_of_order: int
    cut: int
    skipped: int
    problem: str | None


LatencyHistogramN: TypeAlias = int


LatencyHopsPacket: TypeAlias = int


class ClassTiming(TypedDict):
    """
    Timing of one class of instructions.
    """

    latency: int
    interval: int
    unit: Unit


class Predictor(TypedDict):
    """
    Branch prediction, by named parts.
    """

    direction: Direction
    entries: int
    history: int
    nano_btb_entries: int
    micro_btb_entries: int
    btb_entries: int
    btb_ways: int
    btb_index_bit: int
    nano_btb_latency: int
    micro_btb_latency: int
    btb_latency: int
    btb_miss_latency: int
    return_stack: int
    indirect_entries: int
    indirect_history: int


class Prefetcher(TypedDict):
    """
    A hardware prefetcher, trained by the misses of its cache and the first use of what was prefetched.
    """

    kind: PrefetcherKind
    degree: int
    distance: int
    entries: int
    confidence: int
    throttle_below: int


class Level2(TypedDict):
    """
    The level-2 cache of one core.
    """

    size: str
    ways: int
    latency: int
    mshrs: int
    replacement: Replacement
    prefetcher: list[Prefetcher]
    inclusion: Inclusion
    banks: int
    interval: int


class SharedCache(TypedDict):
    """
    The shared cache.
    """

    size: str
    ways: int
    hashed: bool
    latency: str
    device_latency: str
    device_past_latency: str
    mesh_columns: int
    mesh_rows: int
    mesh_hop: str
    banks: int
    bank_time: str
    port_time: str
    crossbar_request: str
    crossbar_line: str
    io_cache: bool
    mshrs: int
    replacement: Replacement
    inclusion: Inclusion
    dca_ways: int
    dca_lines: int
    dca_beyond: Beyond
    stash: Stash
    device_reads: DeviceReads
    snoop_latency: str


class Dram(TypedDict):
    """
    Main memory. Timings by the names of JEDEC's standards.
    """

    channels: int
    interleave: int
    ranks: int
    banks: int
    bank_groups: int
    row_size: str
    bus_width: int
    transfer_rate: int
    t_cl: str
    t_cwl: str
    t_rcd: str
    t_rp: str
    t_ras: str
    t_ccd_s: str
    t_ccd_l: str
    t_ccd_l_wr: str
    t_rrd_s: str
    t_rrd_l: str
    t_rtp: str
    t_faw: str
    t_wr: str
    t_wtr_s: str
    t_wtr_l: str
    t_rtw: str
    t_rtrs: str
    refresh: Refresh
    t_rfc: str
    t_refi: str
    controller_latency: str
    write_queue_entries: int
    page_policy: PagePolicy
    page_timeout: str
    mapping: Mapping


class Iommu(TypedDict):
    """
    The I/O memory management unit.
    """

    enabled: bool
    iotlb_entries: int
    second_iotlb_entries: int
    second_iotlb_latency: str
    page_size: str
    ring_page_size: str
    walks: Walks
    walk_latency: str
    table_cache_entries: int
    walkers: int


class CardSlot(TypedDict):
    """
    Where a card is plugged in: its own way to the root complex, which nobody else uses.
    """

    path: IoPath
    generation: int
    lanes: int


class Qdma(TypedDict):
    """
    A QDMA: queues, clocks, and the interface by which it asks for memory.
    """

    user_logic: UserLogic
    drops_without_descriptors: bool
    queues: int
    user_clock: str
    requester_clock: str
    generator_cycles: int
    fetch_cycles: int
    prefetch_reads: int
    card_memory: str
    card_memory_latency: str
    request_header: int
    request_unit: int
    request_boundary: int
    request_lookahead: int


class System(TypedDict):
    """
    What belongs to no component.
    """

    cpu: GuestCpu
    cores: int
    memory: str
    counter_frequency: str
    boot_instruction_time: str
    quantum: str


class Flows(TypedDict):
    """
    The flows of a generator.
    """

    count: int
    spread: Spread
    vary: Vary


class Play(TypedDict):
    """
    How a trace is played.
    """

    clock: TraceClock
    loops: int
    mean_length: float


class IperfLoad(TypedDict):
    """
    What the client asks for.
    """

    protocol: Protocol
    reverse: bool
    streams: int
    length: int
    rate: str
    window: str
    coalesce: str
    port: int


class Versions(TypedDict):
    """
    What everything was made of.
    """

    wiretime: str
    qemu: str
    guest_kernel: str
    packages: dict[str, list[Package]]


FlowRow: TypeAlias = tuple[FlowName, FlowRowItem, FlowRowItem, float, float]
"""
Number of the flow, packets offered and answered, mean and longest latency in ns.
"""


class CoreStatistics(TypedDict):
    """
    A core's counters.
    """

    core: CoreStats
    stalls: StallStats
    tlb: TlbStats
    caches: PrivateStats
    processor_time: ProcessorTime


class QueueStatistics(TypedDict):
    """
    A queue's counters.
    """

    receive: RxQueueStats
    transmit: TxQueueStats
    driver: DriverStats


class Execution(TypedDict):
    """
    What was executed.
    """

    instructions: list[int]
    timed_instructions: int
    interrupts: int
    hash: str
    simulated_ns: int
    at: list[ExecutionPoint]


class Timing(TypedDict):
    """
    Classes of instructions.
    """

    alu: ClassTiming
    alu_shift: ClassTiming
    mul: ClassTiming
    mul_wide: ClassTiming
    div: ClassTiming
    div_wide: ClassTiming
    crc: ClassTiming
    branch: ClassTiming
    fp_move: ClassTiming
    fp_add: ClassTiming
    fp_mul: ClassTiming
    fp_fma: ClassTiming
    fp_div: ClassTiming
    simd: ClassTiming
    simd_mul: ClassTiming
    simd_permute: ClassTiming
    simd_transfer: ClassTiming
    crypto: ClassTiming
    load: ClassTiming
    load_vector: ClassTiming
    store: ClassTiming
    atomic: ClassTiming
    exclusive: ClassTiming
    prefetch: ClassTiming
    maintenance: ClassTiming
    auth: ClassTiming
    system_read: ClassTiming
    system_write: ClassTiming


class PrivateCache(TypedDict):
    """
    A cache of one core.
    """

    size: str
    ways: int
    index: CacheIndex
    latency: int
    mshrs: int
    replacement: Replacement
    prefetcher: list[Prefetcher]


class Nic(TypedDict):
    """
    A NIC, a card of one or several ports: its register interface and its resources. The same resources may be had with either
    interface. Ports of a card share its slot and its DMA engine; all else each has for itself.
    """

    interface: Interface
    slot: int
    ports: int
    rx_fifo: str
    tx_fifo: str
    descriptor_cache: int
    descriptor_prefetch: int
    descriptor_write_back: int
    descriptor_write_back_timer: str
    dma_reads: int
    dma_writes: int
    packet_latency: str
    tx_packets_in_flight: int
    qdma: NotRequired[Qdma | None]
    mlx5: NotRequired[Mlx5 | None]


class Load(TypedDict):
    """
    What is sent.
    """

    traffic: Traffic
    internet: Internet
    sizes: Sizes
    rate: str
    arrivals: Arrivals
    flows: Flows
    networks: bool
    recognition: Recognition
    timestamp_offset: int
    packets: int | None
    clients: ClosedLoop | None
    play: Play | None
    store: StoreLoad | None
    iperf: IperfLoad | None
    far: bool
    seed: int


class RunSettings(TypedDict):
    """
    The run's own settings.
    """

    load: Load
    trace_file: str | None
    until_end: bool
    drop_classes: DropClasses
    queues: int
    trace_start: str
    trace_length: str
    capture_start: str
    capture_length: str
    warm_up: str
    duration: str
    follow: str
    guest_limit: str
    interval: str
    processor_time: bool
    profile: bool
    role: Role
    far: FarEnd
    mac: list[MacItem]
    start_at: StartAt
    timing: Timing2
    host_speed: bool
    mapped_doorbells: bool
    chaos: bool
    ignore_hidden_accesses: bool


class Trial(TypedDict):
    """
    A trial: another measurement in the same boot, under another load.
    """

    load: Load
    idle: str
    warm_up: str
    duration: str
    follow: str


class PortResult(TypedDict):
    """
    What became of the packets of a port's generator.
    """

    offered_gbps: float
    forwarded_gbps: float
    cohort: Counts
    queues: list[QueueResult]
    drop_transitions: list[DropTransition]
    last_drop_ns: float | None
    given_up: int
    store: StoreStats | None
    iperf: IperfReport | None
    flows: list[FlowRow] | None


class PortStatistics(TypedDict):
    """
    A port's counters.
    """

    receive: ReceiveStats
    transmit: TransmitStats
    io: IoStats
    queues: list[QueueStatistics]


class Core(TypedDict):
    """
    A core.
    """

    kind: CoreKind
    frequency: str
    fetch_width: int
    fetch_queue_entries: int
    fetch_target_entries: int
    mop_cache_entries: int
    mop_cache_ways: int
    decode_width: int
    decode_latency: int
    dispatch_width: int
    commit_width: int
    rob_entries: int
    integer_queue_entries: int
    vector_queue_entries: int
    memory_queue_entries: int
    load_queue_entries: int
    store_queue_entries: int
    integer_registers: int
    vector_registers: int
    mispredict_penalty: int
    store_forward_latency: int
    exception_penalty: int
    system_read_drain: int
    system_read_store_drain: int
    split_accesses: bool
    full_barriers: bool
    zero_latency_moves: bool
    fused_branches: bool
    fused_selects: bool
    dependence_entries: int
    dispatch_limits: DispatchLimits
    units: Units
    timing: Timing
    predictor: Predictor
    tlb: Tlb


class Platform(TypedDict):
    """
    A machine: server, NIC and link.
    """

    name: str
    description: str
    core: Core
    l1i: PrivateCache
    l1d: PrivateCache
    l2: Level2
    write_streaming: WriteStreaming
    llc: SharedCache
    dram: Dram
    io: Io
    pcie: Pcie
    bus: Bus
    iommu: Iommu
    slot: list[CardSlot]
    nic: list[Nic]
    link: list[Link]
    system: System


class Configuration(TypedDict):
    """
    All that was set.
    """

    platform: Platform
    run: RunSettings


class Statistics(TypedDict):
    """
    Counters over the measurement, or a step of it.
    """

    time_ps: Ps
    cores: list[CoreStatistics]
    memory: MemoryStats
    objects: ObjectStats
    dram: DramStats
    receive: ReceiveStats
    transmit: TransmitStats
    io: IoStats
    far: FarStats
    ports: list[PortStatistics]


class Report(TypedDict):
    """
    What `wiretime run --out DIR` writes to DIR/result.json: the same bytes for the same configuration, seed and versions, on
    any host.
    """

    schema_version: Literal[1]
    app: Application
    configuration: Configuration
    versions: Versions
    offered_gbps: float
    forwarded_gbps: float
    offered_mpps: float
    forwarded_mpps: float
    loss_percent: float
    latency_ns: Latency | None
    latency_histogram_ns: list[tuple[float, LatencyHistogramN]]
    latency_hdr_ps: str | None
    latency_hops_ns: list[Hop]
    latency_hops_packets: list[LatencyHopsPacket]
    cohort: Counts
    load: Counts
    total: Counts
    ledger_violations: list[str]
    ports: list[PortResult]
    occupancy: Occupancy
    statistics: Statistics | None
    series: Series1 | None
    execution: Execution
    poll_lateness_ns: Late
    doorbell_lateness_ns: Late
    guest: GuestReport
    warnings: list[str]
    program: dict[str, Any] | None
    iperf: NotRequired[IperfSummary]
    trace: NotRequired[TraceSummary]


class Everything(TypedDict):
    Report: NotRequired[Report]
    Trial: NotRequired[Trial]
