use proptest::prelude::*;

use super::*;
use crate::testing::{options, sack_blocks};

fn written(options: &TcpOptions) -> Vec<u8> {
    let mut out = [0; OPTIONS_MAX];
    let len = options.write(&mut out);
    assert!(out[len..].iter().all(|byte| *byte == 0), "nothing is written beyond the length");
    out[..len].to_vec()
}

/// The part of `options` that fits into 40 bytes.
fn fitting(options: &TcpOptions) -> TcpOptions {
    let mut fixed = *options;
    fixed.sack = SackBlocks::default();
    (fixed.experiment, fixed.user_timeout, fixed.fast_open) = (None, None, None);
    let cookie = options.fast_open.map_or(0, |cookie| (2 + cookie.as_slice().len()).next_multiple_of(4));
    if options_len(&fixed) + cookie <= OPTIONS_MAX {
        fixed.fast_open = options.fast_open;
    }
    if options_len(&fixed) + 4 <= OPTIONS_MAX {
        fixed.user_timeout = options.user_timeout;
    }
    if options_len(&fixed) + EXPERIMENT_LEN <= OPTIONS_MAX {
        fixed.experiment = options.experiment;
    }
    let room = (OPTIONS_MAX - options_len(&fixed)).saturating_sub(4) / 8;
    for (left, right) in options.sack.as_slice().iter().take(room) {
        fixed.sack.push(*left, *right);
    }
    fixed
}

proptest! {
    // Tests: RFC 9293 MUST-4
    #[test]
    fn options_come_back_as_they_were_written(options in options()) {
        let bytes = written(&options);
        prop_assert_eq!(bytes.len(), options_len(&options));
        prop_assert_eq!(bytes.len() % 4, 0);
        prop_assert_eq!(TcpOptions::parse(&bytes), Ok(fitting(&options)));
    }

    // Tests: RFC 9293 MUST-68
    // Tests: RFC 9293 MUST-69
    #[test]
    fn written_options_all_have_lengths_and_no_padding_follows_an_end(options in options()) {
        let bytes = written(&options);
        let mut rest = &bytes[..];
        while let Some(kind) = rest.first() {
            prop_assert_ne!(*kind, END, "an end of list would need zero padding");
            let len = if *kind == NOP { 1 } else { usize::from(rest[1]) };
            prop_assert!(*kind == NOP || len >= 2);
            rest = &rest[len..];
        }
    }

    #[test]
    fn etherparse_reads_what_is_written(mut options in options()) {
        use etherparse::TcpOptionElement as E;
        // It knows neither Accurate ECN's options nor the rare ones.
        (options.accecn, options.experiment) = (None, None);
        (options.user_timeout, options.fast_open) = (None, None);
        let theirs = etherparse::TcpOptions::try_from_slice(&written(&options)).unwrap();
        let mut read = TcpOptions::default();
        for element in theirs.elements_iter() {
            match element.unwrap() {
                E::Noop => {}
                E::MaximumSegmentSize(mss) => read.mss = Some(mss),
                E::WindowScale(shift) => read.window_scale = Some(shift),
                E::SelectiveAcknowledgementPermitted => read.sack_permitted = true,
                E::Timestamp(value, echo) => read.timestamps = Some((value, echo)),
                E::SelectiveAcknowledgement(first, more) => {
                    let pairs: Vec<_> = [Some(first)].into_iter().chain(more).flatten().collect();
                    read.sack = sack_blocks(&pairs);
                }
            }
        }
        prop_assert_eq!(read, fitting(&options));
    }
}

#[test]
fn three_sack_blocks_fit_beside_timestamps() {
    let options = TcpOptions {
        timestamps: Some((1, 2)),
        sack: sack_blocks(&[(1, 2), (3, 4), (5, 6), (7, 8)]),
        ..Default::default()
    };
    assert_eq!(options_len(&options), 40);
    let parsed = TcpOptions::parse(&written(&options)).unwrap();
    assert_eq!(parsed.sack, sack_blocks(&[(1, 2), (3, 4), (5, 6)]));
}

#[test]
fn syn_options_take_twenty_bytes() {
    let (mss, window_scale, timestamps) = (Some(1460), Some(7), Some((1, 0)));
    let syn = TcpOptions { mss, window_scale, sack_permitted: true, timestamps, ..Default::default() };
    assert_eq!(
        written(&syn),
        [2, 4, 5, 180, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7],
        "MSS, SACK-permitted and timestamps, window scale"
    );
}

/// docs/security.md D2: every kind with every length at every offset of a full header, the rest NOPs.
// Tests: RFC 9293 MUST-6
// Tests: RFC 9293 MUST-7
#[test]
fn every_kind_and_length_at_every_offset_is_skipped_or_refused() {
    for at in 0..OPTIONS_MAX {
        for (kind, len) in (0..=255u8).flat_map(|kind| (0..=255u8).map(move |len| (kind, len))) {
            let mut bytes = [NOP; OPTIONS_MAX];
            bytes[at] = kind;
            bytes[(at + 1).min(OPTIONS_MAX - 1)] = if at + 1 < OPTIONS_MAX { len } else { kind };
            let legal = match kind {
                END => true,
                // The next byte is a separate kind, and a NOP its length.
                NOP => at + 1 == OPTIONS_MAX || len == END || len == NOP,
                _ => at + 1 < OPTIONS_MAX && len >= 2 && at + usize::from(len) <= OPTIONS_MAX,
            };
            let parsed = TcpOptions::parse(&bytes);
            assert_eq!(parsed.is_ok(), legal, "kind {kind} length {len} at {at}");
            let accecn = [KIND_ECT0_FIRST, KIND_ECT1_FIRST].contains(&kind);
            let rare = [EXPERIMENT, USER_TIMEOUT, FAST_OPEN].contains(&kind);
            let known = (MSS..=SACK).contains(&kind) || kind == TIMESTAMPS || rare;
            if !known && !accecn && legal {
                assert_eq!(parsed, Ok(TcpOptions::default()), "kind {kind} length {len} at {at}");
            }
        }
    }
}

// Tests: RFC 9293 MUST-6
#[test]
fn unknown_option_before_known_ones_changes_nothing() {
    let known = [MSS, 4, 5, 180, WINDOW_SCALE, 3, 7, SACK_PERMITTED, 2];
    for len in 2..=30u8 {
        let unknown: Vec<u8> = [200, len].into_iter().chain(vec![0xff; usize::from(len) - 2]).collect();
        let bytes = [&unknown[..], &known].concat();
        assert_eq!(TcpOptions::parse(&bytes), TcpOptions::parse(&known));
    }
}

// Tests: RFC 9293 MUST-64
#[test]
fn options_may_begin_on_any_byte() {
    let mss: &[u8] = &[MSS, 4, 5, 180];
    let scale: &[u8] = &[WINDOW_SCALE, 3, 7];
    let timestamps: &[u8] = &[TIMESTAMPS, 10, 0, 0, 0, 1, 0, 0, 0, 2];
    let orders = [
        [mss, scale, timestamps],
        [mss, timestamps, scale],
        [scale, mss, timestamps],
        [scale, timestamps, mss],
        [timestamps, mss, scale],
        [timestamps, scale, mss],
    ];
    let expected =
        TcpOptions { mss: Some(1460), window_scale: Some(7), timestamps: Some((1, 2)), ..Default::default() };
    for (order, nops) in orders.iter().flat_map(|order| (0..5).map(move |nops| (order, nops))) {
        let bytes = [&vec![NOP; nops][..], &order.concat()].concat();
        assert_eq!(TcpOptions::parse(&bytes), Ok(expected), "{bytes:?}");
    }
}

#[test]
fn first_option_of_a_kind_counts() {
    let twice = [MSS, 4, 0, 1, MSS, 4, 0, 2, WINDOW_SCALE, 3, 1, WINDOW_SCALE, 3, 2];
    let parsed = TcpOptions::parse(&twice).unwrap();
    assert_eq!((parsed.mss, parsed.window_scale), (Some(1), Some(1)));
    let twice = [SACK, 10, 0, 0, 0, 1, 0, 0, 0, 2, SACK, 10, 0, 0, 0, 3, 0, 0, 0, 4];
    assert_eq!(TcpOptions::parse(&twice).unwrap().sack.as_slice(), [(SeqNum::new(1), SeqNum::new(2))]);
}

#[test]
fn known_kind_with_another_length_is_skipped() {
    for kind in [MSS, WINDOW_SCALE, SACK_PERMITTED, TIMESTAMPS] {
        assert_eq!(TcpOptions::parse(&[kind, 5, 1, 1, 1]), Ok(TcpOptions::default()));
    }
    for len in (2..=38).filter(|len| len % 8 != 2 || *len == 2) {
        let bytes = [&[SACK, len][..], &vec![9; usize::from(len) - 2]].concat();
        assert_eq!(TcpOptions::parse(&bytes), Ok(TcpOptions::default()), "SACK of {len} bytes");
    }
}

#[test]
fn an_experiment_is_the_last_of_a_syns_options() {
    let experiment = Some(Experiment { id: 0x7463_7063, value: 0x0102_0304_0506_0708_u64.to_be_bytes() });
    let (mss, window_scale, timestamps) = (Some(1460), Some(7), Some((1, 0)));
    let syn =
        TcpOptions { mss, window_scale, sack_permitted: true, timestamps, experiment, ..Default::default() };
    let bytes = written(&syn);
    assert_eq!(bytes.len(), 36);
    assert_eq!(bytes[20..], [1, 1, 254, 14, 0x74, 0x63, 0x70, 0x63, 1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(TcpOptions::parse(&bytes), Ok(syn));
}

#[test]
fn an_experiment_of_another_length_is_skipped_and_the_first_one_counts() {
    for len in (2..=30u8).filter(|len| *len != 14) {
        let bytes = [&[254, len][..], &vec![9; usize::from(len) - 2]].concat();
        assert_eq!(TcpOptions::parse(&bytes), Ok(TcpOptions::default()), "{len} bytes");
    }
    let one = |byte| [&[254, 14][..], &[byte; 12]].concat();
    let parsed = TcpOptions::parse(&[one(1), one(2)].concat()).unwrap();
    assert_eq!(parsed.experiment, Some(Experiment { id: 0x0101_0101, value: [1; 8] }));
}

#[test]
fn an_experiment_without_room_is_left_out() {
    let accecn = Some(AccEcn::new(crate::AccEcnOrder::Ect0First, 1, 2, 3));
    let experiment = Some(Experiment { id: 1, value: [0; 8] });
    let options = TcpOptions {
        mss: Some(1460),
        window_scale: Some(7),
        sack_permitted: true,
        timestamps: Some((1, 2)),
        accecn,
        experiment,
        ..Default::default()
    };
    let parsed = TcpOptions::parse(&written(&options)).unwrap();
    assert_eq!(parsed, TcpOptions { experiment: None, ..options });
}

#[test]
fn bytes_behind_the_end_of_list_are_not_read() {
    assert_eq!(TcpOptions::parse(&[END, MSS, 0, 0]), Ok(TcpOptions::default()));
}

#[test]
fn accurate_ecn_counters_come_in_both_orders() {
    let option = TcpOptions::parse(&[172, 11, 0, 0, 1, 0, 0, 2, 0, 0, 3]).unwrap().accecn.unwrap();
    assert_eq!((option.ect0(), option.ce(), option.ect1()), (Some(1), Some(2), Some(3)));
    let option = TcpOptions::parse(&[174, 11, 0, 0, 1, 0, 0, 2, 0, 0, 3]).unwrap().accecn.unwrap();
    assert_eq!((option.ect0(), option.ce(), option.ect1()), (Some(3), Some(2), Some(1)));
}

/// RFC 9768 §3.2.3: in an option of unusual length, the complete counters count. Of several options, the
/// first counts.
#[test]
fn accurate_ecn_option_of_any_length_is_read_as_far_as_it_goes() {
    for len in 0..=20u8 {
        let data: Vec<u8> = (1..=len).collect();
        let bytes = [&[1, 174, len + 2][..], &data, &[172, 5, 9, 9, 9]].concat();
        let option = TcpOptions::parse(&bytes).unwrap().accecn.unwrap();
        let counter = |at: u8| (len >= at + 2).then(|| u32::from_be_bytes([0, at, at + 1, at + 2]));
        assert_eq!(
            (option.ect1(), option.ce(), option.ect0()),
            (counter(1), counter(4), counter(7)),
            "{len}"
        );
    }
}

#[test]
fn accurate_ecn_leaves_room_for_two_sack_blocks_beside_timestamps() {
    let accecn = Some(AccEcn::new(crate::AccEcnOrder::Ect0First, 1, 2, 3).truncated(2));
    let sack = sack_blocks(&[(1, 2), (3, 4), (5, 6)]);
    let options = TcpOptions { timestamps: Some((1, 2)), sack, accecn, ..Default::default() };
    assert_eq!(written(&options).len(), OPTIONS_MAX);
    assert_eq!(TcpOptions::parse(&written(&options)).unwrap().sack.as_slice().len(), 2);
}

#[test]
fn options_are_shown_in_the_words_of_tcpdump() {
    assert_eq!(TcpOptions::default().to_string(), "no options");
    let syn = TcpOptions {
        mss: Some(1460),
        window_scale: Some(7),
        sack_permitted: true,
        timestamps: Some((3955, 0)),
        fast_open: FastOpenCookie::new(&[]),
        ..Default::default()
    };
    assert_eq!(syn.to_string(), "mss 1460, wscale 7, sackOK, TS val 3955 ecr 0, tfo cookiereq");
    let ack = TcpOptions {
        sack: sack_blocks(&[(1, 2), (3, 4)]),
        accecn: Some(AccEcn::new(crate::AccEcnOrder::Ect0First, 1, 2, 3).truncated(2)),
        experiment: Some(Experiment { id: 0x7463_7063, value: [0, 0, 0, 0, 0, 0, 1, 2] }),
        user_timeout: Some(UserTimeout::at_least(std::time::Duration::from_secs(30))),
        fast_open: FastOpenCookie::new(&[7; 8]),
        ..Default::default()
    };
    let words = "sack 1:2, sack 3:4, acc-ecn ect0 1 ce 2 ect1 -, exp-74637063 0000000000000102, uto 30 s, tfo cookie of 8 bytes";
    assert_eq!(ack.to_string(), words);
}
