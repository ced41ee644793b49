//! A client's end of a control socket.

use std::fs;
use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ackclock_cli::{Exit, Failure};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// A connection to a stack's control socket.
#[derive(Debug)]
pub(crate) struct Client {
    path: PathBuf,
    stream: BufReader<UnixStream>,
}

#[derive(Debug, Deserialize)]
struct Refused {
    kind: String,
    message: String,
}

impl Client {
    /// Connects to the socket that `--control` names, or else the environment.
    pub fn connect(control: Option<&Path>) -> Result<Self, Failure> {
        let from_environment = || std::env::var_os(VARIABLE).map(PathBuf::from);
        let path = control.map(Path::to_owned).or_else(from_environment).ok_or_else(|| {
            Failure::usage("which stack to look at is missing").remedy(format!(
                "name the socket that it was started with: --control PATH, or {VARIABLE}=PATH in the \
                 environment"
            ))
        })?;
        match fs::symlink_metadata(&path) {
            Ok(metadata) if !metadata.file_type().is_socket() && !metadata.is_symlink() => {
                return Err(not_a_control_socket(&path, "it is not a socket"));
            }
            _ => {}
        }
        let stream = UnixStream::connect(&path).map_err(|error| unreachable(&path, &error))?;
        stream.set_read_timeout(Some(ANSWER_MAX)).map_err(|error| broken(&path, &error))?;
        Ok(Self { path, stream: BufReader::new(stream) })
    }

    /// Asks, and waits for the answer.
    pub fn ask<T: DeserializeOwned>(
        &mut self,
        request: &str,
        connection: Option<&str>,
    ) -> Result<T, Failure> {
        let answer = self.ask_for_any(request, connection)?;
        serde_json::from_value(answer).map_err(|error| {
            not_a_control_socket(
                &self.path,
                &format!("its answer is not what this version of tcpcat understands: {error}"),
            )
        })
    }

    /// As [`ask`](Self::ask), but returns the answer as it came.
    pub fn ask_for_any(&mut self, request: &str, connection: Option<&str>) -> Result<Value, Failure> {
        let mut asked = json!({ "schema": SCHEMA, "request": request });
        if let Some(connection) = connection {
            asked["connection"] = json!(connection);
        }
        // A server that refuses says so and closes before it reads a request: the answer is there all the
        // same.
        let written = self.stream.get_mut().write_all(format!("{asked}\n").as_bytes());
        match (self.next(), written) {
            (Err(_), Err(error)) => Err(broken(&self.path, &error)),
            (answer, _) => answer,
        }
    }

    /// The next answer.
    pub fn next(&mut self) -> Result<Value, Failure> {
        let mut line = String::new();
        match self.stream.read_line(&mut line) {
            Ok(0) => {
                let message = format!("the stack behind {} has ended", self.path.display());
                return Err(Failure::new(Exit::Failed, message));
            }
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                return Err(not_a_control_socket(&self.path, "it answers in another language"));
            }
            Err(error) => return Err(broken(&self.path, &error)),
        }
        let mut answer: Value = serde_json::from_str(&line)
            .map_err(|_| not_a_control_socket(&self.path, "it answers in another language"))?;
        if answer["schema"] != json!(SCHEMA) {
            return Err(not_a_control_socket(&self.path, "it speaks another version of the protocol"));
        }
        match serde_json::from_value(answer["error"].take()) {
            Ok(refused) => Err(self.refused(refused)),
            Err(_) => Ok(answer),
        }
    }

    /// From now on answers may take as long as they like: the stack writes when it has records.
    pub fn be_patient(&mut self) -> Result<(), Failure> {
        self.stream.get_ref().set_read_timeout(None).map_err(|error| broken(&self.path, &error))
    }

    fn refused(&self, Refused { kind, message }: Refused) -> Failure {
        match kind.as_str() {
            "not-permitted" => not_permitted(&self.path),
            "too-many-clients" => Failure::new(Exit::Refused, message),
            "no-such-connection" => Failure::new(Exit::Failed, message)
                .remedy("tcpcat ss lists them, each with its number in front"),
            _ => Failure::new(Exit::Failed, message),
        }
    }
}

fn unreachable(path: &Path, error: &io::Error) -> Failure {
    let shown = path.display();
    match error.kind() {
        ErrorKind::NotFound => Failure::new(Exit::Refused, format!("there is no control socket at {shown}"))
            .remedy(format!("start the stack with it: tcpcat send --control {shown} ..., and let it run")),
        ErrorKind::ConnectionRefused => Failure::new(
            Exit::Refused,
            format!("no stack listens at {shown} any more: its program has ended"),
        )
        .remedy("start it again; it replaces the socket"),
        ErrorKind::PermissionDenied => not_permitted(path),
        _ => Failure::new(Exit::Failed, format!("cannot connect to {shown}: {error}")),
    }
}

fn not_permitted(path: &Path) -> Failure {
    let shown = path.display();
    Failure::new(Exit::Device, format!("not permitted: {shown} answers to the user who runs the stack alone"))
        .remedy(format!("become that user (sudo -u \"$(stat -c %U {shown})\" tcpcat ss --control {shown})"))
}

fn not_a_control_socket(path: &Path, why: &str) -> Failure {
    Failure::new(Exit::Failed, format!("{} is not a control socket: {why}", path.display()))
        .remedy("name the PATH that the stack was started with: --control PATH")
}

fn broken(path: &Path, error: &io::Error) -> Failure {
    let why = match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            return not_a_control_socket(
                path,
                &format!("it has not answered for {} s", ANSWER_MAX.as_secs()),
            );
        }
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => "the stack has ended".to_owned(),
        _ => error.to_string(),
    };
    Failure::new(Exit::Failed, format!("the control socket {} broke off: {why}", path.display()))
}

const SCHEMA: u32 = 2;

/// The environment variable that names a control socket if no flag does.
const VARIABLE: &str = "TCPCAT_CONTROL";

/// How long an answer may take.
const ANSWER_MAX: Duration = Duration::from_secs(5);
