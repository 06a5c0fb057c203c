//! What the function says that it can do: answers of `QUERY_HCA_CAP` (first bit, width, value). Names of fields are those of
//! Linux's `mlx5_ifc.h`.
//!
//! Left out, so that drivers do not ask for them: e-switch, RoCE, tunnels, LRO, on-demand paging, software steering, clocks.

use super::fields::{put, Field};

const GENERAL: &[Field] = &[
    (128, 8, 15),        // log_max_srq_sz
    (136, 8, 15),        // log_max_qp_sz
    (155, 5, 17),        // log_max_qp
    (171, 5, 16),        // log_max_srq
    (200, 8, 22),        // log_max_cq_sz
    (219, 5, 20),        // log_max_cq
    (224, 8, 22),        // log_max_eq_sz
    (234, 6, 24),        // log_max_mkey
    (252, 4, 7),         // log_max_eq
    (1136, 16, 128),     // max_num_eqs
    (264, 1, 1),         // fixed_buffer_size
    (265, 7, 63),        // log_max_mrw_sz
    (282, 6, 16),        // log_max_klm_list_size
    (256, 8, 4),         // max_indirection
    (280, 1, 1),         // umr_extended_translation_offset
    (281, 1, 1),         // null_mkey
    (246, 1, 1),         // terminate_scatter_list_mkey
    (352, 1, 1),         // end_pad
    (356, 1, 1),         // cache_line_128byte
    (385, 1, 1),         // vport_counters
    (390, 10, 256),      // max_qp_cnt
    (384, 1, 1),         // out_of_seq_cnt
    (368, 16, 3),        // gid_table_size
    (416, 1, 1),         // vport_group_manager
    (422, 1, 1),         // nic_flow_table
    (425, 1, 1),         // mcam_reg
    (426, 1, 1),         // pcam_reg
    (438, 2, 1),         // port_type
    (440, 8, 1),         // num_ports
    (451, 5, 30),        // log_max_msg
    (508, 4, 1),         // cqe_version
    (512, 1, 1),         // compact_address_vector
    (513, 1, 1),         // striding_rq
    (533, 1, 1),         // sctr_data_cqe
    (540, 1, 1),         // eth_net_offloads
    (544, 1, 1),         // cq_oi
    (546, 1, 1),         // cq_moderation
    (547, 1, 1),         // cq_period_mode_modify
    (550, 1, 1),         // cq_eq_remap
    (552, 1, 1),         // block_lb_mc
    (554, 1, 1),         // scqe_break_moderation
    (555, 1, 1),         // cq_period_start_from_cqe
    (556, 1, 1),         // cd
    (560, 1, 1),         // umr_ptr_rlky
    (561, 1, 1),         // imaicl
    (575, 1, 1),         // rc
    (573, 1, 1),         // ud
    (572, 1, 1),         // xrc
    (519, 1, 1),         // umr_modify_entity_size_disabled
    (576, 1, 1),         // uar_4k
    (600, 8, 12),        // log_pg_sz
    (608, 1, 1),         // bf
    (609, 1, 1),         // driver_version
    (619, 5, 9),         // log_bf_reg_size
    (656, 16, 1024),     // max_wqe_sz_sq
    (688, 16, 512),      // max_wqe_sz_rq
    (720, 16, 256),      // max_wqe_sz_sq_dc
    (610, 1, 1),         // pad_tx_eth_packet
    (803, 5, 8),         // log_max_transport_domain
    (811, 5, 23),        // log_max_pd
    (827, 5, 8),         // log_max_xrcd
    (867, 5, 12),        // log_max_rq
    (875, 5, 12),        // log_max_sq
    (883, 5, 14),        // log_max_tir
    (891, 5, 14),        // log_max_tis
    (896, 1, 1),         // basic_cyclic_rcv_wqe
    (899, 5, 12),        // log_max_rmp
    (907, 5, 12),        // log_max_rqt
    (915, 5, 11),        // log_max_rqt_size
    (923, 5, 1),         // log_max_tis_per_sq
    (928, 1, 1),         // ext_stride_num_range
    (931, 5, 14),        // log_max_stride_sz_rq
    (939, 5, 4),         // log_min_stride_sz_rq
    (947, 5, 6),         // log_max_stride_sz_sq
    (955, 5, 6),         // log_min_stride_sz_sq
    (987, 5, 15),        // log_max_wq_sz
    (993, 1, 1),         // disable_local_lb_uc
    (994, 1, 1),         // disable_local_lb_mc
    (1003, 5, 12),       // log_max_vlan_list
    (1011, 5, 13),       // log_max_current_mc_list
    (1019, 5, 7),        // log_max_current_uc_list
    (1312, 32, 1),       // num_of_uars_per_page
    (1248, 32, 1000000), // device_frequency_khz
    (1216, 32, 1000),    // device_frequency_mhz
    (1471, 1, 1),        // cqe_compression
    (1468, 1, 1),        // mini_cqe_resp_stride_index
    (1470, 1, 1),        // cqe_compression_128
    (1469, 1, 1),        // cqe_128_always
    (1472, 16, 64),      // cqe_compression_timeout
    (1488, 16, 8),       // cqe_compression_max_num
    (388, 1, 1),         // modify_rq_counter_set_id
    (232, 1, 1),         // relaxed_ordering_write
    (233, 1, 1),         // relaxed_ordering_read_pci_enabled
    (1123, 5, 8),        // log_max_uctx
    (1131, 5, 20),       // log_max_umem
    (594, 1, 1),         // umem_uid_0
    (364, 1, 1),         // vnic_env_int_rq_oob
    (832, 1, 1),         // nic_receive_steering_discard
    (32, 1, 1),          // hca_cap_2
    (208, 1, 1),         // relaxed_ordering_write_umr
    (209, 1, 1),         // relaxed_ordering_read_umr
    (330, 6, 4),         // log_max_ra_req_qp
    (346, 6, 4),         // log_max_ra_res_qp
    (192, 8, 4),         // max_sgl_for_optimized_performance
];
const GENERAL_2: &[Field] = &[
    (427, 5, 12), // log_min_mkey_entity_size
];
const ETHERNET: &[Field] = &[
    (0, 1, 1),   // csum_cap
    (1, 1, 1),   // vlan_cap
    (11, 5, 18), // max_lso_cap
    (16, 2, 2),  // multi_pkt_send_wqe
    (18, 2, 2),  // wqe_inline_mode
    (20, 4, 11), // rss_ind_tbl_cap
    (24, 1, 1),  // reg_umr_sq
    (25, 1, 1),  // scatter_fcs
    (26, 1, 1),  // enhanced_multi_pkt_send_wqe
    (8, 1, 1),   // self_lb_en_modifiable
    (7, 1, 1),   // wqe_vlan_insert
    (35, 1, 1),  // cqe_checksum_full
];
const STEERING: &[Field] = &[
    (512, 1, 1),  // ft_support
    (514, 1, 1),  // flow_counter
    (515, 1, 1),  // flow_modify_en
    (516, 1, 1),  // modify_root
    (517, 1, 1),  // identified_miss_table_mode
    (518, 1, 1),  // flow_table_modify
    (546, 6, 22), // log_max_ft_size
    (568, 8, 64), // max_ft_level
    (632, 8, 16), // log_max_ft_num
    (656, 8, 20), // log_max_flow_counter
    (664, 8, 12), // log_max_destination
    (696, 8, 22), // log_max_flow
];
/// Fields of headers that steering can match: all of them.
const MATCHES: std::ops::Range<usize> = 96..112;

/// Which capabilities: types of the command.
const GENERAL_TYPE: u16 = 0;
const ETHERNET_TYPE: u16 = 1;
const STEERING_TYPE: u16 = 7;
const GENERAL_2_TYPE: u16 = 0x20;

/// Bytes of an answer's body.
const BODY: usize = 4096;

/// The body of an answer about one type; of what is not offered, zeros.
#[must_use]
pub fn body(kind: u16) -> Vec<u8> {
    let mut b = vec![0; BODY];
    let fields = match kind {
        GENERAL_TYPE => GENERAL,
        ETHERNET_TYPE => ETHERNET,
        STEERING_TYPE => STEERING,
        GENERAL_2_TYPE => GENERAL_2,
        _ => &[],
    };
    fields.iter().for_each(|&field| put(&mut b, field));
    if kind == STEERING_TYPE {
        b[0] |= 0x80; // several paths of receiving
        b[MATCHES].fill(0xff);
    }
    b
}
