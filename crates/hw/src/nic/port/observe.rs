//! What is seen of a port from outside: counters of device and books together, fill, balance.

use super::Port;
use crate::io::IoStats;
use crate::nic::blocks::dma_engine::DmaEngine;
use crate::nic::books::{Books, ModelCounters, QueueBook};
use crate::nic::device::Device;
use crate::nic::stats::{ReceiveStats, RxQueueStats, TransmitStats, TxQueueStats};
use crate::nic::DriverStats;
use crate::wire::{End, FarStats};

/// Counters of a queue pair.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)] // the parts'
pub struct QueueStats {
    pub receive: RxQueueStats,
    pub transmit: TxQueueStats,
    pub driver: DriverStats,
}

/// Counters of the port, by part.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)] // the parts'
pub struct PortStats {
    pub receive: ReceiveStats,
    pub transmit: TransmitStats,
    pub io: IoStats,
    pub far: FarStats,
    pub queues: Vec<QueueStats>,
}

impl<D: Device> Port<D> {
    /// Those of so many queues that the device has, and those behind them that are on: a kernel takes one a core.
    pub(super) fn on(&self, asked: usize) -> usize {
        let more = (asked..self.device.queues()).take_while(|&queue| self.device.is_on(queue as u16));
        asked.min(self.device.queues()) + more.count()
    }

    /// Counters; `queues` of them by queue, or as many as are on.
    pub(super) fn counters(&self, queues: usize, engine: &DmaEngine, books: &Books) -> PortStats {
        let queue = |(i, book): (u16, &QueueBook)| {
            let (receive, transmit) = self.device.queue_stats(i, book.stats());
            QueueStats {
                receive: RxQueueStats {
                    dma_drops: book.dma_drops,
                    core_drops: book.core_drops,
                    tx_drops: book.tx_drops,
                    waiting: book.driver.waiting() as u64,
                    ..receive
                },
                transmit,
                driver: book.driver.stats.clone(),
            }
        };
        let (receive, transmit) = self.device.stats(books.ports[self.index].stats());
        let queues = self.on(queues);
        PortStats {
            receive,
            transmit,
            io: engine.stats(self.index as u16),
            far: self.mac.cable.end().passed(),
            queues: (0..).zip(&books.ports[self.index].queues).take(queues).map(queue).collect(),
        }
    }

    /// Bytes in the RX FIFO; descriptors left, filled and unread, and posted for transmission, over all queues.
    pub(super) fn fill(&self, books: &Books) -> [u64; 4] {
        let mut sum = [self.device.fifo().0, 0, 0, 0];
        for (queue, book) in (0..).zip(&books.ports[self.index].queues).take(self.device.queues()) {
            if self.device.is_on(queue) {
                let (receive, transmit) = self.device.queue_stats(queue, book.stats());
                sum[1] += receive.free;
                sum[2] += book.driver.waiting() as u64;
                sum[3] += transmit.level;
            }
        }
        sum
    }

    /// Everything of this port that does not balance, by the device's counters where it has them.
    pub(super) fn balance(&self, books: &Books) -> Vec<String> {
        let book = &books.ports[self.index];
        let mut queues: Vec<_> = book.queues.iter().map(QueueBook::counters).collect();
        for ((queue, counters), book) in (0..).zip(&mut queues).zip(&book.queues).take(self.device.queues()) {
            counters.delivered = self.device.queue_stats(queue, book.stats()).0.delivered;
        }
        let model = ModelCounters {
            arrived: book.arrived,
            filtered: self.device.stats(book.stats()).0.filtered,
            fifo_packets: self.device.fifo().1,
            returned: books.returned.get(self.index).copied().unwrap_or(0),
            queues,
        };
        books.ledger.audit(self.index, &model)
    }
}
