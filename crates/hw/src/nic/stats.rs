//! What every NIC counts, whatever its registers: by path, and by queue.

use wiretime_base::stats;

stats! {
    /// What the receive path of a port did.
    pub struct ReceiveStats {
        frames: "frames", "frames that reached the NIC";
        filtered: "frames", "frames not taken by the filters";
        refused: "frames", "frames refused because the FIFO was full (rx_missed)";
        out_of_buffer: "frames", "frames refused or dropped for want of receive descriptors (rx_out_of_buffer)";
        delivered: "frames", "frames written to memory";
        descriptor_fetches: "reads", "reads of descriptors";
        descriptors_fetched: "descriptors", "descriptors read";
        write_backs: "writes", "writes of descriptors";
        fifo_peak: "B" gauge, "highest fill of the FIFO";
        fifo_level: "B" gauge, "fill of the FIFO at the end";
        fifo_level_ps: "B ps", "fill of the FIFO, added up over time";
        buffer_faults: "buffers", "buffers or descriptors outside memory, and indices outside their ring";
    }
}

stats! {
    /// What happened to the packets of a receive queue.
    pub struct RxQueueStats {
        delivered: "frames", "frames written to memory";
        dma_drops: "frames", "frames refused: DMA or memory too slow";
        core_drops: "frames", "frames refused: core too slow";
        tx_drops: "frames", "frames refused: transmit ring full";
        no_descriptor: "frames", "of these, dropped from the FIFO because the queue drops when it has no descriptors";
        write_backs: "writes", "writes of descriptors";
        free: "descriptors" gauge, "descriptors posted and not filled, at the end";
        waiting: "descriptors" gauge, "descriptors filled and not yet read by a core, at the end";
    }
}

stats! {
    /// What the transmit path of a port did.
    pub struct TransmitStats {
        frames: "frames", "frames sent on the wire";
        bytes: "B", "bytes of frames sent, FCS included";
        descriptor_fetches: "reads", "reads of descriptors";
        descriptors_fetched: "descriptors", "descriptors read";
        write_backs: "writes", "descriptors written back as done";
        bad_packets: "packets", "packets whose descriptors make no sense, dropped";
        buffer_faults: "buffers", "buffers or descriptors outside memory, and indices outside their ring";
        fifo_peak: "B" gauge, "highest fill of the FIFO";
    }
}

stats! {
    /// What a transmit queue did.
    pub struct TxQueueStats {
        packets: "packets", "packets gathered";
        write_backs: "writes", "descriptors written back as done";
        level: "descriptors" gauge, "descriptors (of a ConnectX, blocks of 64 B) posted and not sent, at the end";
    }
}
