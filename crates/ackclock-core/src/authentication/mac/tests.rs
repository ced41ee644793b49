//! The vectors of RFC 9235 §4 to §7: for each of eight connections, three traffic keys and the MACs of four
//! segments: a SYN, its SYN-ACK and a segment with data each way.

use super::*;

struct Connection {
    section: &'static str,
    algorithm: Algorithm,
    covers_options: bool,
    client_port: u16,
    /// The client's ISN, the server's.
    isns: (u32, u32),
    /// The keys for the client's SYN, for the server's segments, and for the client's other segments.
    keys: [&'static str; 3],
    /// The TCP headers, with their MACs at the end.
    headers: [&'static str; 4],
}

const CONNECTIONS: [Connection; 8] = [
    Connection {
        section: "4.1",
        algorithm: Algorithm::HmacSha1,
        covers_options: true,
        client_port: 0xe9d7,
        isns: (0xfbfb_ab5a, 0x11c1_4261),
        keys: [
            "6d63ef1b02fe1509d4b1402707fd7b0416abb74f",
            "d9e217e4834a80ca2f3fd8de2e41b8e6797fea96",
            "d2e59c65ffc7b1a39347656463b70edc24a13d71",
        ],
        headers: [
            "e9d700b3fbfbab5a00000000e002ffffcac40000020405b4010303080402080a00155ab7000000001d103d542ee437c6f8ede6d7c4d602e7",
            "00b3e9d711c14261fbfbab5be012ffff37760000020405b4010303080402080a84a50beb00155ab71d10543deeab0fe24c3010815116b3be",
            "e9d700b3fbfbab5b11c14262c0180104a16200000101080a00155ac184a50beb1d103d547064cf998cc6c315c2c2e2bf",
            "00b3e9d711c14262fbfbab9ec0180100400c00000101080a84a50bf500155ac11d10543da63f0ecbbb2e635c954deac7",
        ],
    },
    Connection {
        section: "4.2",
        algorithm: Algorithm::HmacSha1,
        covers_options: false,
        client_port: 0xff12,
        isns: (0xcb0e_fbee, 0xacd5_b5e1),
        keys: [
            "30eaa1560cf0be57dab5c045229fb10a423cd7ea",
            "b5b2896bb3664e8176b0edc6e799524101a8307f",
            "f3db1793d7910ecd806c34f155ea1f00345953e3",
        ],
        headers: [
            "ff1200b3cb0efbee00000000e002ffff541f0000020405b4010303080402080a00024cce000000001d103d5480af3cfeb85368937b8f9ec2",
            "00b3ff12acd5b5e1cb0efbefe012ffff388e0000020405b4010303080402080a576772f300024cce1d10543d09306f9acea63a8c68cb9a70",
            "ff1200b3cb0efbefacd5b5e2c01801046c4500000101080a00024cce576772f31d103d54710608cc696c03a271c93aa5",
            "00b3ff12acd5b5e2cb0efc32c018010046b600000101080a576772f300024cce1d10543d97766e48ac262de9ae61b4f9",
        ],
    },
    Connection {
        section: "5.1",
        algorithm: Algorithm::Aes128Cmac,
        covers_options: true,
        client_port: 0xc4fa,
        isns: (0x787a_1ddf, 0xfadd_6de9),
        keys: [
            "f5b8b3d5f34fdbb6eb8d4ab9660e60e3",
            "4bc7571a486f3264bbd888474066b4b1",
            "8c8ae0e8371ec5cbb97ea79d90418391",
        ],
        headers: [
            "c4fa00b3787a1ddf00000000e002ffff5a0f0000020405b4010303080402080a00017ed0000000001d103d54e477e99c8040765498e55091",
            "00b3c4fafadd6de9787a1de0e012fffff3f20000020405b4010303080402080a93f4e9e800017ed01d10543dd6ada7bc4cdd536d1769db5f",
            "c4fa00b3787a1de0fadd6deac0180104950500000101080a00017ed093f4e9e81d103d5477412742fa4dc433eff0973e",
            "00b3c4fafadd6dea787a1e23c0180100e7db00000101080a93f4e9e800017ed01d10543df6d965a78382a74845f72dac",
        ],
    },
    Connection {
        section: "5.2",
        algorithm: Algorithm::Aes128Cmac,
        covers_options: false,
        client_port: 0xda1c,
        isns: (0x389b_ed71, 0xd384_4a6f),
        keys: [
            "2cdbae1392c49449fa92c4509735d50e",
            "3ce67a551869506b6347b633c50a624a",
            "035bc400a341ffe595f59f58005006ca",
        ],
        headers: [
            "da1c00b3389bed7100000000e002ffff70bf0000020405b4010303080402080a000185e1000000001d103d54c44e60cb31f7c0b1de3d2749",
            "00b3da1cd3844a6f389bed72e012ffffe4450000020405b4010303080402080ace459838000185e11d10543d3a6abb207e49b1be7136db90",
            "da1c00b3389bed72d3844a70c0180104885100000101080a000185e1ce4598381d103d547585e9e9d5c3ec857b96f837",
            "00b3da1cd3844a70389bed72c0180100044900000101080ace459838000185e11d10543d5c040fd9233304765c0982f4",
        ],
    },
    Connection {
        section: "6.1",
        algorithm: Algorithm::HmacSha1,
        covers_options: true,
        client_port: 0xf7e4,
        isns: (0x176a_833f, 0x3f51_994b),
        keys: [
            "625ec09d575836edc9b6428418bbf06989a361bb",
            "e4a37ada2a0afca8711434913fe138c771ebcb4a",
            "1ed82975f4ea444c61580c5bd90dbd61bbc91b7e",
        ],
        headers: [
            "f7e400b3176a833f00000000e002ffff47210000020405a0010303080402080a0041d087000000001d103d549033ec3d7334b64c5edd039f",
            "00b3f7e43f51994b176a8340e012ffffbfec0000020405a0010303080402080abd33129b0041d0871d10543df1cba346c3526163f71f1f55",
            "f7e400b3176a83403f51994cc0180100329c00000101080a0041d091bd33129b1d103d54bf0805feb4ac7b163d6fcdf2",
            "00b3f7e43f51994c176a8383c0180100ee6e00000101080abd3312a50041d0911d10543d6c48125c11335bab9a07a797",
        ],
    },
    Connection {
        section: "6.2",
        algorithm: Algorithm::HmacSha1,
        covers_options: false,
        client_port: 0xc6cd,
        isns: (0x020c_1e69, 0xeba3_734d),
        keys: [
            "31a3faf69effae52931b7f845467315c270a4edc",
            "405108947f996575e7bdbc26d40216a2c7fa91bd",
            "b34eed6a9396a669f1c4f4f57618f3656f52c7ab",
        ],
        headers: [
            "c6cd00b3020c1e6900000000e002ffffa41a0000020405a0010303080402080a009db95b000000001d103d54885698b0530ed4d5a15f8346",
            "00b3c6cdeba3734d020c1e6ae012ffff774d0000020405a0010303080402080a5ec99b70009db95b1d10543d3c546bad9743f12df8b8010d",
            "c6cd00b3020c1e6aeba3734ec018010083e600000101080a009db9655ec99b701d103d5448bd093b1924e001192f5bf0",
            "00b3c6cdeba3734e020c1eadc0180100716a00000101080a5ec99b7a009db9651d10543d559a819445b4fde98d9e1317",
        ],
    },
    Connection {
        section: "7.1",
        algorithm: Algorithm::Aes128Cmac,
        covers_options: true,
        client_port: 0xf85a,
        isns: (0x193c_ccec, 0xa674_4ecb),
        keys: [
            "fa5a2108882d39d0c71929175ab1b7b8",
            "cf1b1e225e06a63616764a067b46f4b1",
            "6174c3557abed27574dba37185f00300",
        ],
        headers: [
            "f85a00b3193cccec00000000e002ffffde5d0000020405a0010303080402080a13e4ab99000000001d103d5459b588107481ac6dc3927040",
            "00b3f85aa6744ecb193cccede012ffffeabb0000020405a0010303080402080a71daabc813e4ab991d10543ddc2843a84e78a6bcfdc5ed80",
            "f85a00b3193ccceda6744eccc0180100328000000101080a13e4aba371daabc81d103d547b6a455c0d4f5f01835baab3",
            "00b3f85aa6744ecc193ccd30c018010052f400000101080a71daabd313e4aba31d10543dc1069b7dfd3d693a6df3f289",
        ],
    },
    Connection {
        section: "7.2",
        algorithm: Algorithm::Aes128Cmac,
        covers_options: false,
        client_port: 0xf288,
        isns: (0xb01d_a74a, 0xa624_6145),
        keys: [
            "a94f511263e4093d35dd818c13bbbf53",
            "92dea5bbc78b1d9f5b2952e9cd30642a",
            "4fb2086e402c679079ed65d4bf97693d",
        ],
        headers: [
            "f28800b3b01da74a00000000e002ffff75ff0000020405a0010303080402080a14275b3b000000001d103d543d45b4342de8bb1530847898",
            "00b3f288a6246145b01da74be012ffffa70c0000020405a0010303080402080a1782245b14275b3b1d10543d1d01f6c87c6f93acffa9d4b5",
            "f28800b3b01da74ba6246146c0180100c3e600000101080a14275b4f1782245b1d103d54290cf414ccb47a333276e7f8",
            "00b3f288a6246146b01da78ec0180100345100000101080a1782246514275b4f1d10543d99515ffcd5403499f619fd1b",
        ],
    },
];

/// The payload of the segments with data, except for six bytes: the autonomous system, twice, and an
/// identifier.
fn payload(autonomous_system: &str, identifier: &str) -> Vec<u8> {
    let marker = "ff".repeat(16);
    unhex(&format!(
        "{marker}00430104{autonomous_system}00b4{identifier}260206010400010001020280000202020002024200020641\
         040000{autonomous_system}02084006006400010100"
    ))
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|byte| byte.is_ascii_hexdigit()).collect();
    let digit = |byte: u8| u8::try_from(char::from(byte).to_digit(16).unwrap()).unwrap();
    digits.chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

impl Connection {
    fn is_v6(&self) -> bool {
        self.section >= "6"
    }

    fn client(&self) -> SocketAddr {
        let addr = if self.is_v6() { "fd00::1" } else { "10.11.12.13" };
        SocketAddr::new(addr.parse().unwrap(), self.client_port)
    }

    fn server(&self) -> SocketAddr {
        let addr = if self.is_v6() { "fd00::2" } else { "172.27.28.29" };
        SocketAddr::new(addr.parse().unwrap(), 179)
    }

    fn traffic_keys(&self) -> [TrafficKey; 3] {
        let master = MasterKey {
            send_id: 61,
            receive_id: 84,
            algorithm: self.algorithm,
            covers_options: self.covers_options,
            secret: b"testvector".to_vec(),
        };
        let (client, server, (ours, theirs)) = (self.client(), self.server(), self.isns);
        [
            TrafficKey::derive(&master, client, server, (ours, 0)),
            TrafficKey::derive(&master, server, client, (theirs, ours)),
            TrafficKey::derive(&master, client, server, (ours, theirs)),
        ]
    }

    /// The key, the sender, the header and the payload of each segment.
    fn segments(&self) -> [(usize, bool, Vec<u8>, Vec<u8>); 4] {
        let [syn, syn_ack, sent, received] = self.headers.map(unhex);
        let (ours, theirs) = if self.is_v6() {
            (payload("fde8", "01010179"), payload("fde8", "0101017a"))
        } else {
            (payload("dabf", "0a0b0c0d"), payload("dac0", "ac1b1c1d"))
        };
        [
            (0, true, syn, Vec::new()),
            (1, false, syn_ack, Vec::new()),
            (2, true, sent, ours),
            (1, false, received, theirs),
        ]
    }

    fn mac_of(
        &self,
        keys: &[TrafficKey; 3],
        segment: &(usize, bool, Vec<u8>, Vec<u8>),
        sne: u32,
    ) -> [u8; 12] {
        let (key, from_client, header, payload) = segment;
        let ends = (self.client().ip(), self.server().ip());
        let (src, dst) = if *from_client { ends } else { (ends.1, ends.0) };
        let option_at = header.len() - OPTION_LEN;
        let covered = Covered { src, dst, sne, header, option_at, payload: [payload, &[]] };
        keys[*key].mac(&covered, self.covers_options)
    }
}

#[test]
fn traffic_keys_are_those_of_rfc_9235() {
    for connection in &CONNECTIONS {
        for (key, expected) in connection.traffic_keys().iter().zip(connection.keys) {
            let expected = unhex(expected);
            assert_eq!(key.bytes[..expected.len()], expected, "§{}", connection.section);
        }
    }
}

#[test]
fn printed_key_names_its_algorithm_and_keeps_its_secret() {
    let [key, ..] = CONNECTIONS[0].traffic_keys();
    assert_eq!(format!("{key:?}"), "TrafficKey { algorithm: HmacSha1, .. }");
}

#[test]
fn macs_are_those_of_rfc_9235() {
    for connection in &CONNECTIONS {
        let keys = connection.traffic_keys();
        for (index, segment) in connection.segments().iter().enumerate() {
            let mac = connection.mac_of(&keys, segment, 0);
            assert_eq!(segment.2[segment.2.len() - 12..], mac, "§{}.{}", connection.section, index + 1);
        }
    }
}

#[test]
fn any_bit_of_a_segment_and_the_extension_change_its_mac() {
    let connection = &CONNECTIONS[0];
    let keys = connection.traffic_keys();
    let [.., sent, _] = connection.segments();
    let mac = connection.mac_of(&keys, &sent, 0);
    assert!(!same(&mac, &connection.mac_of(&keys, &sent, 1)));
    for bit in 0..sent.3.len() * 8 {
        let mut changed = sent.clone();
        changed.3[bit / 8] ^= 1 << (bit % 8);
        assert!(!same(&mac, &connection.mac_of(&keys, &changed, 0)), "bit {bit} of the payload");
    }
    for bit in (0..sent.2.len() * 8).filter(|bit| !(16..18).contains(&(bit / 8))) {
        let mut changed = sent.clone();
        changed.2[bit / 8] ^= 1 << (bit % 8);
        let in_mac = bit / 8 >= sent.2.len() - 12;
        assert_eq!(same(&mac, &connection.mac_of(&keys, &changed, 0)), in_mac, "bit {bit} of the header");
    }
}

#[test]
fn a_segment_that_is_cut_in_two_has_the_same_mac() {
    let connection = &CONNECTIONS[2];
    let keys = connection.traffic_keys();
    let [.., received] = connection.segments();
    let (_, _, header, payload) = &received;
    let (start, end) = payload.split_at(17);
    let (src, dst) = (connection.server().ip(), connection.client().ip());
    let option_at = header.len() - OPTION_LEN;
    let covered = Covered { src, dst, sne: 0, header, option_at, payload: [start, end] };
    assert_eq!(keys[1].mac(&covered, true), connection.mac_of(&keys, &received, 0));
}
