//! `tcplab serve`: the page of the laboratory, with the user's captures, traces and scenarios.
//!
//! The page is the same as the one that works from a file. Here its requests are answered natively, by a
//! laboratory for each page that is open.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ackclock_cli::{Exit, Failure, output};
use ackclock_lab::{Engine, Lab, page};
use ackclock_sim::Scenario;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::header::{CONTENT_SECURITY_POLICY, HeaderValue};
use hyper::{Method, Request, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::http::{self, Answer, Refusal, is_here, whole};
use crate::real_time::args::listener;
use crate::{real_time, run};

/// Options of `tcplab serve`.
#[derive(Debug, clap::Args)]
pub(crate) struct ServeArgs {
    /// Serve the page here, for browsers of this machine; port 0 is a free one
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8035")]
    listen: SocketAddr,
    /// Captures (pcap, pcapng), traces of ackclock, and scenarios (.toml) to choose from on the page
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// State that the pages share.
#[derive(Debug)]
struct Shop {
    files: Vec<PathBuf>,
    /// The scenarios among the files, by their names.
    scenarios: Vec<(String, Scenario)>,
    /// The laboratories of the pages that asked last, the latest at the end.
    pages: Mutex<VecDeque<(String, Arc<Mutex<Lab>>)>>,
}

/// A file or a scenario that a page opens.
#[derive(Clone, Copy, Debug, Deserialize)]
struct Open {
    /// The file's index in the list.
    file: usize,
}

pub(crate) fn run(args: &ServeArgs) -> anyhow::Result<Exit> {
    if !is_here(args.listen.ip()) {
        let what = format!("--listen {} can be reached from other machines", args.listen);
        let remedy = "use 127.0.0.1, and `ssh -L` to look from elsewhere";
        return Err(Failure::usage(what).remedy(remedy).into());
    }
    for path in &args.files {
        File::open(path).map_err(|error| Failure::file("open", path, &error))?;
    }
    let scenarios = args.files.iter().filter(|path| is_scenario(path));
    let scenarios =
        scenarios.map(|path| Ok((name(path), run::read(path)?))).collect::<anyhow::Result<_>>()?;
    let listener = listener(args.listen)?;
    listener.set_nonblocking(true)?;
    output::say(format_args!("tcplab: http://{}/ (Ctrl-C ends it)", listener.local_addr()?));
    let shop = Arc::new(Shop { files: args.files.clone(), scenarios, pages: Mutex::default() });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let answer = move |request| answer(request, Arc::clone(&shop));
        tokio::select! {
            () = http::serve(listener, answer) => {}
            ended = tokio::signal::ctrl_c() => ended?,
            ended = real_time::terminated() => ended?,
        }
        anyhow::Ok(())
    })?;
    // What a request computes is for a page that gets no answer any more.
    runtime.shutdown_background();
    Ok(Exit::Done)
}

async fn answer(request: Request<Incoming>, shop: Arc<Shop>) -> Result<Answer, Refusal> {
    let (parts, body) = request.into_parts();
    match (parts.method, parts.uri.path()) {
        (Method::GET, "/") => {
            let mut page = whole(StatusCode::OK, "text/html; charset=utf-8", page(Engine::Server));
            // The rest of the policy is in the page, also where that is a file.
            let policy = HeaderValue::from_static("frame-ancestors 'none'");
            page.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
            Ok(page)
        }
        // Browsers ask for it.
        (Method::GET, "/favicon.ico") => Ok(whole(StatusCode::NO_CONTENT, "image/x-icon", "")),
        (Method::POST, path @ ("/ask" | "/push" | "/open" | "/files")) => {
            let path = path.to_owned();
            let name = parts.uri.query().and_then(|query| query.strip_prefix("page=")).unwrap_or_default();
            let lab = shop.lab(name);
            let body = Limited::new(body, BODY_MAX).collect().await;
            let body = body.map_err(|error| (StatusCode::BAD_REQUEST, error.to_string()))?.to_bytes();
            // A simulation or a capture may take seconds, in which other pages are answered.
            let text = tokio::task::spawn_blocking(move || shop.answer(&path, &lab, &body)).await;
            let text = text.map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
            Ok(whole(StatusCode::OK, "application/json", text))
        }
        (_, path) => {
            let what =
                format!("found `{path}`; the page is at /, and it posts to /ask, /push, /open and /files");
            Err((StatusCode::NOT_FOUND, what))
        }
    }
}

impl Shop {
    /// The laboratory of the page with this name.
    fn lab(&self, name: &str) -> Arc<Mutex<Lab>> {
        let mut pages = lock(&self.pages);
        let known = pages.iter().position(|(other, _)| other == name).and_then(|at| pages.remove(at));
        let (name, lab) = known.unwrap_or_else(|| (name.to_owned(), Arc::new(Mutex::new(self.new_lab()))));
        pages.push_back((name, Arc::clone(&lab)));
        if pages.len() > PAGES_MAX {
            pages.pop_front();
        }
        lab
    }

    /// A laboratory with the user's scenarios among its scenes.
    fn new_lab(&self) -> Lab {
        let mut lab = Lab::new();
        for (name, scenario) in &self.scenarios {
            lab.add_scenario(name.clone(), scenario.clone());
        }
        lab
    }

    fn answer(&self, path: &str, lab: &Mutex<Lab>, body: &[u8]) -> String {
        let mut lab = lock(lab);
        match path {
            "/push" => lab.push(body),
            "/open" => match self.open(&mut lab, body) {
                Ok(answer) => answer,
                Err(error) => json!({ "error": format!("{error:#}") }).to_string(),
            },
            "/files" => json!({ "files": self.files.iter().map(|path| described(path)).collect::<Vec<_>>() })
                .to_string(),
            _ => lab.answer(&String::from_utf8_lossy(body)),
        }
    }

    /// Reads one of the user's files; a scenario is run, and its trace is read.
    fn open(&self, lab: &mut Lab, body: &[u8]) -> anyhow::Result<String> {
        let Open { file } = serde_json::from_slice(body)?;
        let path = self.files.get(file).ok_or_else(|| anyhow::anyhow!("there is no file {file}"))?;
        let failed = |error| anyhow::Error::from(Failure::file("read", path, &error));
        let mut trace = None;
        if is_scenario(path) {
            trace = Some(run::trace_of(path)?);
        }
        let length = match &trace {
            Some(trace) => trace.len() as u64,
            None => std::fs::metadata(path).map_err(failed)?.len(),
        };
        let begin = json!({ "ask": "capture-begin", "name": name(path), "length": length });
        let _ = lab.answer(&begin.to_string());
        if let Some(trace) = trace {
            let _ = lab.push(&trace);
        } else {
            let mut input = File::open(path).map_err(failed)?;
            let mut piece = vec![0; PIECE_BYTES];
            loop {
                let bytes = input.read(&mut piece).map_err(failed)?;
                let said = lab.push(&piece[..bytes]);
                if bytes == 0 || said.starts_with("{\"error\"") {
                    break;
                }
            }
        }
        Ok(lab.answer("{\"ask\": \"capture-end\"}"))
    }
}

fn described(path: &Path) -> Value {
    json!({ "name": name(path), "scenario": is_scenario(path) })
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

fn is_scenario(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("toml"))
}

/// A panic of one request is an answer that says so; the others go on.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The most pages that keep their runs and captures.
const PAGES_MAX: usize = 8;
/// The largest request: a piece of a capture.
const BODY_MAX: usize = 32 << 20;
const PIECE_BYTES: usize = 4 << 20;
