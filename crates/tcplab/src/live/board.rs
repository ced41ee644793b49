//! The state of the page, and its readers.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use ackclock_sim::Simulation;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper::header::{CONTENT_SECURITY_POLICY, HeaderValue};
use hyper::{Method, Request, StatusCode};
use serde::{Serialize, Serializer};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::frame::{Connection, Event, Frame};
use super::page;
use super::record::Record;
use super::scene::Scene;
use crate::http::{Answer, Refusal, json, response, whole};

/// The parts of a network that the page shows.
#[derive(Debug)]
pub(super) struct Board {
    scene: Arc<Scene>,
    shown: Mutex<Shown>,
}

#[derive(Debug)]
struct Shown {
    record: Record,
    events: Vec<Event>,
    /// How many of the network's changes are among the events.
    known: usize,
    viewers: Vec<Sender<News>>,
    over: bool,
}

/// A message to a page.
#[derive(Clone, Debug)]
enum News {
    State(Arc<State>),
    Next(Arc<Update>),
    End,
}

/// All that is shown.
#[derive(Debug, Serialize)]
pub(super) struct State {
    #[serde(serialize_with = "within")]
    pub scene: Arc<Scene>,
    pub events: Vec<Event>,
    #[serde(serialize_with = "each")]
    pub frames: Vec<Arc<Frame>>,
    pub over: bool,
}

/// The changes since the last message.
#[derive(Debug, Serialize)]
struct Update {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    events: Vec<Event>,
    #[serde(serialize_with = "within")]
    frame: Arc<Frame>,
}

impl Board {
    pub fn new(scene: Scene) -> Self {
        let shown =
            Shown { record: Record::new(), events: Vec::new(), known: 0, viewers: Vec::new(), over: false };
        Self { scene: Arc::new(scene), shown: Mutex::new(shown) }
    }

    /// Shows the network's present state. The network's own thread calls this, so it must be quick.
    pub fn show(&self, simulation: &Simulation, connections: (Vec<Connection>, usize), late: Option<String>) {
        let frame = Arc::new(Frame::new(&self.scene, simulation, connections, late));
        let mut shown = self.lock();
        let changes = simulation.changes();
        let count = changes.len();
        let room = EVENTS_MAX.saturating_sub(shown.events.len());
        let events: Vec<Event> = changes.skip(shown.known).take(room).map(Event::new).collect();
        shown.known = count;
        shown.events.extend(events.iter().cloned());
        shown.record.push(Arc::clone(&frame));
        shown.tell(&News::Next(Arc::new(Update { events, frame })));
    }

    pub fn end(&self) {
        let mut shown = self.lock();
        shown.over = true;
        shown.tell(&News::End);
    }

    pub fn state(&self) -> State {
        self.lock().state(&self.scene)
    }

    /// Until no page follows any longer.
    pub async fn viewers_gone(&self) {
        let viewers = std::mem::take(&mut self.lock().viewers);
        for viewer in viewers {
            viewer.closed().await;
        }
    }

    /// The news from now on, after what is known.
    fn follow(&self) -> Result<Receiver<News>, Refusal> {
        let mut shown = self.lock();
        shown.viewers.retain(|viewer| !viewer.is_closed());
        if shown.viewers.len() >= VIEWERS_MAX {
            let what = format!("{VIEWERS_MAX} pages follow this run already; close one");
            return Err((StatusCode::SERVICE_UNAVAILABLE, what));
        }
        let (sender, news) = channel(NEWS_WAITING);
        // There is room for both.
        sender.try_send(News::State(Arc::new(shown.state(&self.scene)))).ok();
        if shown.over {
            sender.try_send(News::End).ok();
        }
        shown.viewers.push(sender);
        Ok(news)
    }

    fn lock(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shown {
    /// A page that does not keep up misses some: all counts are totals.
    fn tell(&mut self, news: &News) {
        self.viewers.retain(|viewer| {
            viewer.try_send(news.clone()).ok();
            !viewer.is_closed()
        });
    }

    fn state(&self, scene: &Arc<Scene>) -> State {
        State {
            scene: Arc::clone(scene),
            events: self.events.clone(),
            frames: self.record.frames().to_vec(),
            over: self.over,
        }
    }
}

/// Answers a request.
pub(super) fn answer(request: &Request<Incoming>, board: &Board) -> Result<Answer, Refusal> {
    let path = request.uri().path();
    if request.method() != Method::GET {
        return Err((StatusCode::METHOD_NOT_ALLOWED, "the page only answers GET".to_owned()));
    }
    match path {
        "/" => {
            let mut page = whole(StatusCode::OK, "text/html; charset=utf-8", page::following(&board.scene));
            // The rest of the policy is in the page, also where that is a file.
            let policy = HeaderValue::from_static("frame-ancestors 'none'");
            page.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
            Ok(page)
        }
        // Browsers ask for it.
        "/favicon.ico" => Ok(whole(StatusCode::NO_CONTENT, "image/x-icon", "")),
        "/state" => json(&board.state()),
        "/events" => Ok(response(StatusCode::OK, "text/event-stream", Events(board.follow()?).boxed())),
        _ => Err((StatusCode::NOT_FOUND, format!("found `{path}`; allowed are /, /state and /events"))),
    }
}

/// News as server-sent events (HTML, §9.2).
struct Events(Receiver<News>);

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<hyper::body::Frame<Bytes>, Infallible>>> {
        let text = |news: News| match news {
            News::State(state) => event("state", &*state),
            News::Next(update) => event("message", &*update),
            News::End => event("end", &()),
        };
        self.0.poll_recv(cx).map(|news| Some(Ok(hyper::body::Frame::data(text(news?).into()))))
    }
}

fn event(name: &str, value: &impl Serialize) -> String {
    // This cannot fail: keys are field names. JSON on one line has no newline.
    format!("event: {name}\ndata: {}\n\n", serde_json::to_string(value).unwrap_or_default())
}

fn within<T: Serialize, S: Serializer>(shared: &Arc<T>, to: S) -> Result<S::Ok, S::Error> {
    shared.as_ref().serialize(to)
}

fn each<T: Serialize, S: Serializer>(shared: &[Arc<T>], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(shared.iter().map(|one| &**one))
}

/// The most pages that follow at a time.
const VIEWERS_MAX: usize = 8;
/// How much a page may be behind.
const NEWS_WAITING: usize = 8;
/// The most changes on a page.
const EVENTS_MAX: usize = 500;

#[cfg(test)]
mod tests {
    use ackclock_sim::Scenario;

    use super::*;

    #[test]
    fn a_page_that_takes_nothing_misses_moments_and_hears_of_the_next_again() {
        let link = "[[link]]\nbetween = [\"a\", \"b\"]\nthere = { rate = \"1Mbit/s\", delay = \"1ms\" }\n";
        let text = format!("duration = \"1s\"\nhost = [{{ name = \"a\" }}, {{ name = \"b\" }}]\n{link}");
        let scenario = Scenario::from_toml("two", &text).unwrap();
        let simulation = Simulation::new(&scenario).unwrap();
        let board = Board::new(Scene::new("two".to_owned(), &scenario, true, &[]));
        let show = || board.show(&simulation, (Vec::new(), 0), None);
        let mut news = board.follow().unwrap();
        (0..1000).for_each(|_| show());
        assert!(matches!(news.try_recv(), Ok(News::State(_))));
        let waiting = std::iter::from_fn(|| news.try_recv().ok()).count();
        assert_eq!(waiting, NEWS_WAITING - 1);
        show();
        assert!(matches!(news.try_recv(), Ok(News::Next(_))));
        // Once it has gone, nothing is left of it.
        drop(news);
        show();
        assert!(board.lock().viewers.is_empty());
    }
}
