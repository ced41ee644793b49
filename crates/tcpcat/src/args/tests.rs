use super::*;

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
    assert!(args.place.numeric && args.common.verbose);
    assert_eq!(args.place.wait, Some(Duration::from_secs(3)));
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
fn a_file_without_host_is_waited_for() {
    for line in ["recv out 7000", "recv out -l 7000", "recv -l -p 7000 out"] {
        match invocation(line) {
            Ok(Invocation::Recv(args, target)) => {
                assert_eq!(args.file, PathBuf::from("out"));
                assert_eq!(target, Target::Listen { host: None, port: 7000 });
            }
            other => panic!("{line}: {other:?}"),
        }
    }
    assert!(matches!(invocation("send in 10.0.0.1 7000"), Ok(Invocation::Send(_, Target::Connect { .. }))));
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
    assert!(error("10.0.0.1 http").contains("is no port"));
    assert!(error("10.0.0.1 0").contains("is no port"));
    assert!(error("10.0.0.1 65536").contains("is no port"));
}

#[test]
fn units_in_flags_explain_themselves() {
    assert!(error("h 1 --rate fast").contains("10MB/s"));
    assert!(error("h 1 --loss 2").contains("1%"));
    assert!(error("h 1 --addr 10.0.0.1").contains("the prefix is missing"));
    assert!(error("send f h 1 -P 0").contains("connections"));
}

#[test]
fn stats_takes_its_interval_after_an_equals_sign_only() {
    assert_eq!(pipe("h 1").0.common.observe.stats, None);
    assert_eq!(pipe("--stats h 1").0.common.observe.stats, Some(Duration::from_secs(1)));
    assert_eq!(pipe("--stats=0.5 h 1").0.common.observe.stats, Some(Duration::from_millis(500)));
    assert!(error("--stats=1ms h 1").contains("shortest"));
}

#[test]
fn the_kernels_tcp_has_no_device() {
    assert!(pipe("--kernel h 1").0.common.kernel);
    assert!(error("--kernel --tun tun1 h 1").contains("cannot be used with"));
    assert!(error("--kernel --loss 1% h 1").contains("cannot be used with"));
}

#[test]
fn both_families_at_once_contradict() {
    assert!(error("-4 -6 h 1").contains("cannot be used with"));
}
