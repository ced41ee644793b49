use ackclock::profile::{CHOICES, Choices};
use ackclock_control::quantity::Limit;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn invocation(line: &str) -> Result<Invocation, clap::Error> {
    let words: Vec<OsString> =
        std::iter::once("tcpcat").chain(line.split_whitespace()).map(OsString::from).collect();
    parse(&words)
}

fn pipe(line: &str) -> (PipeArgs, Target) {
    match invocation(line) {
        Ok(Invocation::Pipe(args, target)) => (args, target),
        other => panic!("{line}: {other:?}"),
    }
}

fn error(line: &str) -> String {
    invocation(line).expect_err(line).to_string()
}

#[test]
fn the_definition_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn host_and_port_connect_as_nc_does() {
    let (args, target) = pipe("-n -v -w 3 -q 1 -p 4000 10.0.0.1 80");
    assert_eq!(target, Target::Connect { host: "10.0.0.1".into(), port: 80, local_port: 4000 });
    assert!(args.peer.numeric && args.common.verbose);
    assert_eq!(args.peer.wait, Some(Duration::from_secs(3)));
    assert_eq!(args.quit_after, Some(Duration::from_secs(1)));
}

#[test]
fn listening_takes_its_port_as_a_word_or_by_p() {
    let listen = |host: Option<&str>| Target::Listen { host: host.map(str::to_owned), port: 7000 };
    assert_eq!(pipe("-l 7000").1, listen(None));
    assert_eq!(pipe("-l -p 7000").1, listen(None));
    assert_eq!(pipe("-lk 10.0.0.2 7000").1, listen(Some("10.0.0.2")));
    assert_eq!(pipe("-l -p 7000 10.0.0.2").1, listen(Some("10.0.0.2")));
    assert_eq!(pipe("listen 7000").1, listen(None));
    assert!(error("-l -p 7000 10.0.0.2 7000").contains("given twice"));
}

#[test]
fn a_port_is_a_number_or_a_service_behind_the_host_or_in_one_word_with_it() {
    let connect = |host: &str| Target::Connect { host: host.to_owned(), port: 80, local_port: 0 };
    assert_eq!(pipe("10.0.0.1:80").1, connect("10.0.0.1"));
    assert_eq!(pipe("[fe80::1%eth0]:80").1, connect("fe80::1%eth0"));
    assert_eq!(pipe("10.0.0.1 http").1, connect("10.0.0.1"));
    assert_eq!(pipe("example.org:http").1, connect("example.org"));
    assert_eq!(pipe("-l 10.0.0.2:80").1, Target::Listen { host: Some("10.0.0.2".to_owned()), port: 80 });
    match invocation("send in 10.0.0.1:80") {
        Ok(Invocation::Send(_, target)) => assert_eq!(target, connect("10.0.0.1")),
        other => panic!("{other:?}"),
    }
    for (line, port) in [("10.0.0.1", 5201), ("10.0.0.1:80", 80), ("10.0.0.1 80", 80)] {
        match invocation(&format!("bench client {line}")) {
            Ok(Invocation::BenchClient(_, Target::Connect { host, port: found, .. })) => {
                assert_eq!((host.as_str(), found), ("10.0.0.1", port), "{line}");
            }
            other => panic!("{line}: {other:?}"),
        }
    }
    assert!(error("10.0.0.1 no-such-service").contains("/etc/services"));
    for line in ["10.0.0.1:0", "10.0.0.1 65536", "10.0.0.1:65536"] {
        assert!(error(line).contains("from 1 to 65535"), "{line}");
    }
}

#[test]
fn a_port_given_twice_is_refused() {
    for line in ["-l -p 7000 7001", "-l 7000 -p 7001", "-l 10.0.0.2:7000 -p 7001", "10.0.0.1:80 81"] {
        assert!(error(line).contains("PORT is given twice"), "{line}: {}", error(line));
    }
}

#[test]
fn an_address_that_no_host_can_have_is_refused() {
    for (addr, says) in [
        ("10.9.0.0/24", "is the network 10.9.0.0/24 itself"),
        ("10.9.0.255/24", "reaches all hosts of 10.9.0.0/24"),
        ("fd00::/64", "is the network fd00::/64 itself"),
        ("10.9.0.2", "write 10.9.0.2/24"),
    ] {
        let words = error(&format!("10.0.0.1 80 --addr {addr}"));
        assert!(words.contains(says), "{addr}: {words}");
    }
    for addr in ["10.9.0.0/31", "10.9.0.1/31", "10.9.0.0/32", "fd00::/127", "10.9.1.0/23"] {
        pipe(&format!("10.0.0.1 80 --addr {addr}"));
    }
}

#[test]
fn flags_of_other_programs_are_answered_with_what_does_the_same_here() {
    for (line, says) in [
        ("-u 10.0.0.1 80", "nc -u"),
        ("-lu 80", "nc -u"),
        ("-e /bin/sh 10.0.0.1 80", "mkfifo"),
        ("-i 1 10.0.0.1 80", "--stats=TIME"),
        ("connect -u 10.0.0.1 80", "nc -u"),
    ] {
        let words = error(line);
        assert!(words.contains(says) && !words.contains("as a value"), "{line}: {words}");
        assert!(words.contains("Usage: tcpcat"), "{line}: {words}");
    }
}

#[test]
fn an_error_shows_the_usage_of_its_subcommand() {
    for (line, usage) in [
        ("send", "Usage: tcpcat send [OPTIONS] FILE HOST PORT"),
        ("send file 10.0.0.1", "Usage: tcpcat send [OPTIONS] FILE HOST PORT"),
        ("connect 10.0.0.1", "Usage: tcpcat connect [OPTIONS] HOST PORT"),
        ("listen", "Usage: tcpcat listen [OPTIONS] [HOST] PORT"),
        ("bench client", "Usage: tcpcat bench client"),
        ("bench client 10.0.0.1 0", "Usage: tcpcat bench client"),
        ("bench server 0", "Usage: tcpcat bench server"),
        ("trace dump", "Usage: tcpcat trace dump"),
    ] {
        assert!(error(line).contains(usage), "{line}: {}", error(line));
    }
}

#[test]
fn a_file_without_host_is_waited_for() {
    for line in ["recv out 7000", "recv out -l 7000", "recv -l -p 7000 out"] {
        match invocation(line) {
            Ok(Invocation::Recv(args, target)) => {
                assert_eq!(args.file.file, PathBuf::from("out"));
                assert_eq!(target, Target::Listen { host: None, port: 7000 });
            }
            other => panic!("{line}: {other:?}"),
        }
    }
    assert!(matches!(invocation("send in 10.0.0.1 7000"), Ok(Invocation::Send(_, Target::Connect { .. }))));
}

#[test]
fn several_queues_have_no_room_for_a_capture_or_an_impairment() {
    let queues = |line: &str| pipe(line).0.common.device.queues();
    assert_eq!(queues("10.0.0.1 80 --queues 4"), Some(4));
    assert_eq!((queues("10.0.0.1 80 --queues 1"), queues("10.0.0.1 80")), (None, None));
    for flags in ["--queues 2 --pcap a.pcapng", "--queues 2 --loss 1%", "--queues 0", "--queues 257"] {
        assert!(error(&format!("10.0.0.1 80 {flags}")).contains("--queues"), "{flags}");
    }
}

#[test]
fn a_misspelt_subcommand_is_suggested() {
    assert!(error("snd file").contains("'send'"), "{}", error("snd file"));
    assert!(error("doktor").contains("'doctor'"), "{}", error("doktor"));
    assert_eq!(invocation("snd file").unwrap_err().exit_code(), 2);
}

#[test]
fn a_misspelt_flag_is_suggested() {
    assert!(error("send f h 1 --verfy").contains("--verify"));
    assert!(error("h 1 --configur").contains("--configure"));
}

#[test]
fn what_is_missing_is_named() {
    assert!(error("").contains("HOST and PORT are missing"));
    assert!(error("10.0.0.1").contains("PORT is missing"));
    assert!(error("-l").contains("PORT to listen on"));
    assert!(error("10.0.0.1 htpp").contains("is not a port"));
    assert!(error("10.0.0.1 0").contains("is not a port"));
    assert!(error("10.0.0.1 65536").contains("is not a port"));
}

#[test]
fn units_in_flags_explain_themselves() {
    for (flag, units) in [
        ("--delay 20", "`20ms` or `20s`"),
        ("--user-timeout 20", "`20ms` or `20s`"),
        ("--idle-timeout 20", "`20ms` or `20s`"),
        ("--stats=20", "`20ms` or `20s`"),
        ("--rate 20", "`20Mbit/s` or `20kbit/s`"),
        ("--rate-limit 20", "`20Mbit/s` or `20kbit/s`"),
        ("--rate-limit 1M,queue=20", "`20packets` or `20KiB`"),
        ("--bytes 20", "`20B` or `20KiB`"),
        ("--sndbuf 20", "`20B` or `20KiB`"),
        ("--rcvbuf 20", "`20B` or `20KiB`"),
        ("--record f --record-limit 20", "`20B` or `20KiB`"),
    ] {
        let message = format!("`20` has no unit; write {units}");
        assert!(error(&format!("{flag} h 1")).contains(&message), "{flag}");
    }
    assert!(error("h 1 --addr 10.0.0.1").contains("the prefix is missing"));
    assert!(error("send f h 1 -P 0").contains("connections"));
}

#[test]
fn letters_of_nc_and_iperf3_count_seconds() {
    let (args, _) = pipe("-w 3 -q 0.5 h 1");
    assert_eq!((args.peer.wait, args.quit_after), (Some(SECOND * 3), Some(SECOND / 2)));
    for (line, time) in [("-t 2", SECOND * 2), ("--time 2", SECOND * 2), ("-t 20ms", SECOND / 50)] {
        match invocation(&format!("bench client h {line}")) {
            Ok(Invocation::BenchClient(args, _)) => assert_eq!(args.time, Some(time), "{line}"),
            other => panic!("{line}: {other:?}"),
        }
    }
}

/// A quantity of the list that scenario files are held to as well: what clap makes of its flag.
#[test]
fn listed_quantities_are_read_as_in_scenarios() {
    let list = include_str!("../../../ackclock-control/tests/quantities.tsv");
    for line in list.lines().skip(1) {
        let [kind, text, value, refusal] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("four columns: {line}")
        };
        let flag = match kind {
            "rate" => format!("--rate={text}"),
            "size" => format!("--bytes={text}"),
            "time" => format!("--delay={text}"),
            "limit" => format!("--rate-limit=1Mbit/s,queue={text}"),
            "share" => format!("--loss={text}"),
            _ => panic!("a kind: {line}"),
        };
        match parse(&["tcpcat", &flag, "h", "1"].map(OsString::from)) {
            Ok(Invocation::Pipe(args, _)) => {
                let (moved, impair) = (args.move_, args.common.impair);
                let read = match (kind, impair.rate_limit.and_then(|limit| limit.queue)) {
                    ("rate", _) => moved.rate.map(|rate| rate.to_string()),
                    ("size", _) => moved.bytes.map(|bytes| bytes.to_string()),
                    ("time", _) => impair.delay.map(|delay| delay.as_nanos().to_string()),
                    ("share", _) => impair.loss.map(|loss| loss.parts_per_billion().to_string()),
                    (_, Some(Limit::Packets(number) | Limit::Bytes(number))) => Some(number.to_string()),
                    _ => None,
                };
                assert_eq!(read.as_deref(), Some(value), "{line}");
            }
            Ok(other) => panic!("{line}: {other:?}"),
            Err(error) => {
                assert_eq!(error.exit_code(), 2, "{line}");
                assert!(!refusal.is_empty() && error.to_string().contains(refusal), "{line}: {error}");
            }
        }
    }
}

#[test]
fn udp_takes_no_flag_of_tcp_and_its_own_need_it() {
    for (line, says) in [
        ("-u -Z", "'--zerocopy'"),
        ("-u --cc cubic", "'--cc <NAME>'"),
        ("-u --profile modern", "'--profile <NAME>'"),
        ("-u --nodelay", "'--nodelay'"),
        ("-u --sack off", "'--sack"),
        ("--udp-counters-64bit", "--udp"),
        ("-u -l 15B", "from 16 to 65507 bytes"),
        ("-u -l 64K", "from 16 to 65507 bytes"),
    ] {
        let words = error(&format!("bench client h {line}"));
        assert!(words.contains(says), "{line}: {words}");
    }
    match invocation("bench client h -u -b 0 -l 65507B -P 2 --bidir --udp-counters-64bit --shape 20M") {
        Ok(Invocation::BenchClient(args, _)) => {
            assert_eq!((args.udp, args.rate, args.length), (true, Some(0), Some(65_507)));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn stats_takes_its_interval_after_an_equals_sign_only() {
    assert_eq!(pipe("h 1").0.common.observe.stats, None);
    assert_eq!(pipe("--stats h 1").0.common.observe.stats, Some(Duration::from_secs(1)));
    assert_eq!(pipe("--stats=0.5s h 1").0.common.observe.stats, Some(Duration::from_millis(500)));
    assert!(error("--stats=1ms h 1").contains("shortest"));
}

#[test]
fn the_kernels_tcp_has_no_device() {
    assert!(pipe("--kernel h 1").0.common.kernel);
    assert!(error("--kernel --tun tun1 h 1").contains("cannot be used with"));
    assert!(error("--kernel --loss 1% h 1").contains("cannot be used with"));
    assert!(error("--kernel --trace f h 1").contains("cannot be used with"));
    assert!(error("--kernel --flight-recorder f h 1").contains("cannot be used with"));
}

#[test]
fn a_trace_is_whole_or_of_the_newest() {
    assert!(error("--flight-recorder f,10 h 1").contains("from 64 to 1048576"));
    assert!(
        invocation("bench server --trace f").is_ok()
            && invocation("recv x 7 --trace f --flight-recorder g,64").is_ok()
    );
}

#[test]
fn both_families_at_once_contradict() {
    assert!(error("-4 -6 h 1").contains("cannot be used with"));
}

#[test]
fn a_profile_is_overruled_by_single_choices() {
    let config = |line: &str| {
        let mut config = ackclock::TcpConfig::default();
        pipe(line).0.common.control.apply(&mut config).unwrap();
        config
    };
    let modern = config("h 1");
    assert_eq!(
        (modern.profile, modern.congestion.name(), modern.choices.recovery.name()),
        ("modern", "cubic", "rack-tlp")
    );
    let mixed = config(
        "h 1 --cc vegas --profile reno-1990 --recovery newreno --rto rfc6298,min=1s --undo dsack --start-up \
         csa:5,0.2 --acks window-share --pacing on --ecn classic",
    );
    assert_eq!(
        (mixed.profile, mixed.congestion.name(), mixed.choices.recovery.name()),
        ("reno-1990", "vegas", "newreno")
    );
    assert_eq!(mixed.choices.rto.rto_min, Duration::from_secs(1));
    assert_eq!(
        (mixed.choices.undo.to_string(), mixed.choices.acks.to_string()),
        ("dsack".into(), "window-share:35,200ms".into())
    );
    assert_eq!(mixed.choices.start_up.map(|kind| kind.to_string()).as_deref(), Some("csa:5,0.2"));
    assert_eq!(
        (mixed.choices.pacing, mixed.choices.ecn.name(), mixed.choices.sack),
        (true, "classic", false)
    );
    assert!(!config("h 1 --pacing off --start-up off").choices.pacing);
}

#[test]
fn every_choice_is_a_flag() {
    for choice in &CHOICES {
        let mut config = ackclock::TcpConfig::default();
        pipe(&format!("h 1 --{choice} {}", choice.example)).0.common.control.apply(&mut config).unwrap();
        let mut wanted = Choices::default();
        choice.set(&mut wanted, choice.example).unwrap();
        assert_eq!(config.choices, wanted, "{choice}");
        assert!(error("--help").contains(&format!("--{choice} <{}>", choice.grammar)), "{choice}");
    }
    let (wrong, valid) = (error("h 1 --inital-window 3"), "--initial-window");
    assert!(wrong.contains(valid), "{wrong}");
}

#[test]
fn timeout_without_backoff_is_for_simulated_networks_only() {
    assert!(error("h 1 --rto rfc6298,backoff=off").contains("simulated networks only"));
    assert!(invocation("h 1 --rto rfc6298,backoff=on").is_ok());
}

#[test]
fn names_that_there_are_not_list_those_that_there_are() {
    for (line, expected) in [
        ("h 1 --profile vegas", "vegas-1995"),
        ("h 1 --profile vegas-1996", "a similar value exists: 'vegas-1995'"),
        ("h 1 --cc renault", "newreno"),
        ("h 1 --recovery rack", "rack-tlp"),
        ("h 1 --rto jacobson", "jacobson-1988"),
        ("h 1 --rto rfc6298,min=2s,max=1s", "longer than the largest"),
        ("h 1 --undo eifel", "timestamps"),
        ("h 1 --start-up csaa", "tcsa-prime"),
        ("h 1 --acks lazy", "window-share"),
        ("h 1 --pacing maybe", "off"),
        ("h 1 --sack yes", "off"),
        ("h 1 --idle kept", "restart-window"),
        ("h 1 --initial-window 0", "1 to 65535"),
        ("h 1 --receiver-bandwidth 257", "1 to 256"),
        ("h 1 --recovery rack-tip", "a similar value exists: 'rack-tlp'"),
        ("h 1 --ecn on", "accurate"),
        ("send f h 1 --profile x", "modern"),
        ("bench client h --cc x", "cubic"),
        ("h 1 --profile none-1987", "simulated networks only"),
        ("h 1 --cc none-1987", "simulated networks only"),
    ] {
        let error = invocation(line).expect_err(line);
        assert_eq!(error.exit_code(), 2, "{line}");
        assert!(error.to_string().contains(expected), "{line}: {error}");
    }
}

#[test]
fn commands_of_the_documents_parse() {
    let commands = ackclock_tests::documents::commands("tcpcat");
    assert!(commands.len() > 20, "{}", commands.len());
    for (place, words) in commands {
        match invocation(&words.join(" ")) {
            Err(error) if error.use_stderr() => panic!("{place}: {error}"),
            _ => {}
        }
    }
}
