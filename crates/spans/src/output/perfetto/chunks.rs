//! Packets, compressed.

use super::fields::{packet, trace};
use super::protobuf::{bytes, message};
use miniz_oxide::deflate::core::{
    CompressorOxide, TDEFLFlush, TDEFLStatus, compress, create_comp_flags_from_zip_params,
};

/// The size at which packets are compressed. The chunk of a flush is smaller.
const SIZE: usize = 64 << 10;
/// The fastest.
const LEVEL: i32 = 1;

/// Packets that wait to be compressed.
pub(super) struct Chunks {
    pub(super) packets: Vec<u8>,
    compressor: Box<CompressorOxide>,
}

impl Chunks {
    pub(super) fn new() -> Chunks {
        const ZLIB: i32 = 1;
        const DEFAULT_STRATEGY: i32 = 0;
        let flags = create_comp_flags_from_zip_params(LEVEL, ZLIB, DEFAULT_STRATEGY);
        Chunks { packets: Vec::new(), compressor: Box::new(CompressorOxide::new(flags)) }
    }

    pub(super) fn is_full(&self) -> bool {
        self.packets.len() >= SIZE
    }

    /// Returns a packet with all packets that wait. Empty if there are none.
    pub(super) fn take(&mut self) -> Vec<u8> {
        if self.packets.is_empty() {
            return Vec::new();
        }
        self.compressor.reset();
        // Enough for what cannot be compressed, so the first call is the only one.
        let mut compressed = vec![0; self.packets.len() + self.packets.len() / 8 + 1_024];
        let (status, _, written) =
            compress(&mut self.compressor, &self.packets, &mut compressed, TDEFLFlush::Finish);
        compressed.truncate(written);
        let mut chunk = Vec::with_capacity(written + 16);
        match status {
            TDEFLStatus::Done => message(&mut chunk, trace::PACKET, |to| {
                bytes(to, packet::COMPRESSED_PACKETS, &compressed);
            }),
            // Packets may stand in the trace as they are, too.
            _ => chunk.extend_from_slice(&self.packets),
        }
        self.packets.clear();
        chunk
    }
}
