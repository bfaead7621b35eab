//! The service behind the shop: payment, stock and shipping over HTTP. It fails at random.
//!
//! `POST` does something under the key in its header `idempotency-key`, and `DELETE` takes back what
//! was done under it. Both happen once, however often they are asked for: what is known of a key is
//! answered again. A key that was taken back does nothing any more, also if its `POST` comes late.

use std::error::Error;
use std::future::IntoFuture;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::Router;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::books::{Books, Refusal, Request};

/// The header with the key.
pub(crate) const KEY: &str = "idempotency-key";
/// How long a slow answer takes.
const SLOW: Duration = Duration::from_millis(40);
/// How long requests under way may take once the server is told to stop.
const GRACE: Duration = Duration::from_secs(10);

/// What was asked of the service, and how often it failed.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) requests: AtomicU64,
    /// Failed, and nothing was done.
    pub(crate) failed_before: AtomicU64,
    /// Failed after it was done: who asked cannot know that.
    pub(crate) failed_after: AtomicU64,
    /// Asked for again though it was done, and not done again.
    pub(crate) repeated: AtomicU64,
}

struct Service {
    books: Mutex<Books>,
    counts: Arc<Counts>,
    random: AtomicU64,
    /// Of a hundred requests, how many fail.
    fail_percent: u64,
}

enum Trouble {
    None,
    Slow,
    Before,
    After,
}

impl Service {
    fn trouble(&self) -> Trouble {
        // A Weyl sequence, mixed as in SplitMix64 (Steele, Lea and Flood 2014).
        let mut random = self.random.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        random = (random ^ (random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        random = (random ^ (random >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        random ^= random >> 31;
        if random % 100 >= self.fail_percent {
            return if (random >> 32) % 20 == 0 { Trouble::Slow } else { Trouble::None };
        }
        if (random >> 32) % 2 == 0 {
            Trouble::Before
        } else {
            Trouble::After
        }
    }

    fn answer(&self, key: &str, method: &Method, request: Request) -> Response {
        let mut books = self.books.lock().expect("whoever holds the books does not panic");
        let outcome = if *method == Method::POST {
            books.act(key, request)
        } else {
            books.take_back(key, request)
        };
        drop(books);
        match outcome {
            Ok(Ok(is_new)) => {
                self.counts.repeated.fetch_add(u64::from(!is_new), Ordering::Relaxed);
                format!("{} {}", request.section(), request.order()).into_response()
            }
            Ok(Err(refusal)) => {
                let status = match refusal {
                    Refusal::Declined => StatusCode::PAYMENT_REQUIRED,
                    Refusal::OutOfStock => StatusCode::CONFLICT,
                    Refusal::UnknownAddress => StatusCode::UNPROCESSABLE_ENTITY,
                    Refusal::TakenBack => StatusCode::GONE,
                };
                (status, refusal.name()).into_response()
            }
            Err(error) => {
                let text = format!("the books cannot be written: {error}");
                (StatusCode::INSUFFICIENT_STORAGE, text).into_response()
            }
        }
    }
}

async fn serve(
    State(service): State<Arc<Service>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: String,
) -> Response {
    let key = headers.get(KEY).and_then(|key| key.to_str().ok()).filter(|key| !key.is_empty());
    let request = Request::parse(uri.path(), &body);
    let (Some(key), Some(request)) = (key, request) else {
        let advice = format!("give a header {KEY} and the order as JSON");
        return (StatusCode::BAD_REQUEST, advice).into_response();
    };
    let counts = &service.counts;
    counts.requests.fetch_add(1, Ordering::Relaxed);
    match service.trouble() {
        Trouble::None => service.answer(key, &method, request),
        Trouble::Slow => {
            tokio::time::sleep(SLOW).await;
            service.answer(key, &method, request)
        }
        Trouble::Before => {
            counts.failed_before.fetch_add(1, Ordering::Relaxed);
            (StatusCode::SERVICE_UNAVAILABLE, "too busy").into_response()
        }
        Trouble::After => {
            let answer = service.answer(key, &method, request);
            if !answer.status().is_success() {
                return answer;
            }
            counts.failed_after.fetch_add(1, Ordering::Relaxed);
            (StatusCode::INTERNAL_SERVER_ERROR, "lost its memory").into_response()
        }
    }
}

/// A server that runs until it is stopped.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) counts: Arc<Counts>,
    stop: oneshot::Sender<()>,
    running: tokio::task::JoinHandle<std::io::Result<()>>,
    tokio: tokio::runtime::Runtime,
}

impl Server {
    /// Starts it with the books in this file, so that it remembers what it did in an earlier life.
    pub(crate) fn start(
        file: &Path,
        pieces: u64,
        fail_percent: u64,
        seed: u64,
    ) -> Result<Self, Box<dyn Error>> {
        let books = Mutex::new(Books::open(file, pieces)?);
        let tokio =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let listener = tokio.block_on(TcpListener::bind(("127.0.0.1", 0)))?;
        let address = listener.local_addr()?;
        let counts = Arc::<Counts>::default();
        let random = AtomicU64::new(seed);
        let service = Service { books, counts: Arc::clone(&counts), random, fail_percent };
        let router = Router::new().fallback(serve).with_state(Arc::new(service));
        let (stop, stopped) = oneshot::channel();
        let serve = axum::serve(listener, router).with_graceful_shutdown(async {
            // Nobody is left who could tell it to stop: that is the word, too.
            let _ = stopped.await;
        });
        let running = tokio.spawn(serve.into_future());
        Ok(Self { address, counts, stop, running, tokio })
    }

    /// Waits for the requests under way.
    pub(crate) fn stop(self) -> Result<(), Box<dyn Error>> {
        // It may have stopped already.
        let _ = self.stop.send(());
        let running = self.running;
        let ended = self.tokio.block_on(async { tokio::time::timeout(GRACE, running).await });
        let ended = ended.map_err(|_| format!("connections were open {GRACE:?} after the stop"))?;
        Ok(ended??)
    }
}
