//! Numbers of commands.

pub const QUERY_HCA_CAP: u16 = 0x100;
pub const QUERY_ADAPTER: u16 = 0x101;
pub const QUERY_ISSI: u16 = 0x10a;
pub const CREATE_MKEY: u16 = 0x200;
pub const DESTROY_MKEY: u16 = 0x202;
pub const QUERY_SPECIAL_CONTEXTS: u16 = 0x203;
pub const CREATE_EQ: u16 = 0x301;
pub const DESTROY_EQ: u16 = 0x302;
pub const CREATE_CQ: u16 = 0x400;
pub const DESTROY_CQ: u16 = 0x401;
pub const MODIFY_CQ: u16 = 0x403;
pub const ALLOC_Q_COUNTER: u16 = 0x771;
pub const QUERY_VPORT_STATE: u16 = 0x750;
pub const QUERY_NIC_VPORT_CONTEXT: u16 = 0x754;
pub const MODIFY_NIC_VPORT_CONTEXT: u16 = 0x755;
pub const QUERY_VNIC_ENV: u16 = 0x76f;
pub const QUERY_VPORT_COUNTER: u16 = 0x770;
pub const QUERY_Q_COUNTER: u16 = 0x773;
pub const ALLOC_PD: u16 = 0x800;
pub const ALLOC_UAR: u16 = 0x802;
pub const ACCESS_REG: u16 = 0x805;
pub const CREATE_TIR: u16 = 0x900;
pub const MODIFY_TIR: u16 = 0x901;
pub const DESTROY_TIR: u16 = 0x902;
pub const CREATE_SQ: u16 = 0x904;
pub const MODIFY_SQ: u16 = 0x905;
pub const DESTROY_SQ: u16 = 0x906;
pub const QUERY_SQ: u16 = 0x907;
pub const CREATE_RQ: u16 = 0x908;
pub const MODIFY_RQ: u16 = 0x909;
pub const DESTROY_RQ: u16 = 0x90a;
pub const QUERY_RQ: u16 = 0x90b;
pub const CREATE_RQT: u16 = 0x916;
pub const MODIFY_RQT: u16 = 0x917;
pub const DESTROY_RQT: u16 = 0x918;
pub const SET_FLOW_TABLE_ROOT: u16 = 0x92f;
pub const CREATE_FLOW_TABLE: u16 = 0x930;
pub const DESTROY_FLOW_TABLE: u16 = 0x931;
pub const CREATE_FLOW_GROUP: u16 = 0x933;
pub const DESTROY_FLOW_GROUP: u16 = 0x934;
pub const SET_FLOW_TABLE_ENTRY: u16 = 0x936;
pub const DELETE_FLOW_TABLE_ENTRY: u16 = 0x938;
pub const ALLOC_FLOW_COUNTER: u16 = 0x939;
pub const DEALLOC_FLOW_COUNTER: u16 = 0x93a;
pub const QUERY_FLOW_COUNTER: u16 = 0x93b;
pub const MODIFY_FLOW_TABLE: u16 = 0x93c;
pub const CREATE_UMEM: u16 = 0xa08;
pub const DESTROY_UMEM: u16 = 0xa0a;

/// What makes something of which only the number matters: the command, and its first number.
pub const PLAIN: [(u16, u32); 17] = [
    (ALLOC_PD, 2),
    (ALLOC_UAR, 16),
    (0x500, 2), // CREATE_QP
    (0x600, 1), // CREATE_PSV
    (0x700, 2), // CREATE_SRQ
    (0x705, 2), // CREATE_XRC_SRQ
    (0x710, 2), // CREATE_DCT
    (0x717, 2), // CREATE_XRQ
    (ALLOC_Q_COUNTER, 1),
    (0x80e, 1), // ALLOC_XRCD
    (0x816, 1), // ALLOC_TRANSPORT_DOMAIN
    (0x90c, 2), // CREATE_RMP
    (0x912, 1), // CREATE_TIS
    (0x93d, 1), // ALLOC_PACKET_REFORMAT_CONTEXT
    (0x940, 1), // ALLOC_MODIFY_HEADER_CONTEXT
    (0xa00, 1), // CREATE_GENERAL_OBJECT
    (0xa04, 1), // CREATE_UCTX
];
/// What takes it back: the commands behind those.
pub const PLAIN_GONE: [(u16, u16); 17] = [
    (0x801, ALLOC_PD),
    (0x803, ALLOC_UAR),
    (0x501, 0x500),
    (0x601, 0x600),
    (0x701, 0x700),
    (0x706, 0x705),
    (0x711, 0x710),
    (0x718, 0x717),
    (0x772, ALLOC_Q_COUNTER),
    (0x80f, 0x80e),
    (0x817, 0x816),
    (0x90e, 0x90c),
    (0x914, 0x912),
    (0x93e, 0x93d),
    (0x941, 0x940),
    (0xa03, 0xa00),
    (0xa06, 0xa04),
];
