//! A receiver of posts that remembers what it was told.

use serde_json::Value;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::timeout;

const LONG: Duration = Duration::from_secs(60);

/// What was posted.
#[derive(Debug, Clone)]
pub(crate) struct Post {
    head: String,
    pub(crate) text: String,
    pub(crate) body: Value,
}

impl Post {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.head
            .lines()
            .filter_map(|line| line.split_once(": "))
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map_or_else(|| panic!("no {name}: {}", self.head), |(_, value)| value)
    }

    pub(crate) fn event(&self) -> &str {
        self.body["id"].as_str().unwrap()
    }

    pub(crate) fn kind(&self) -> &str {
        self.body["type"].as_str().unwrap()
    }

    pub(crate) fn ticket(&self) -> &str {
        self.body["ticket"]["id"].as_str().unwrap()
    }
}

/// Bytes of an answer to what was posted.
pub(crate) type Reaction = fn(&Value) -> Vec<u8>;

/// How the receiver answers.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Manner {
    Takes,
    Refuses,
    Hangs,
    /// With these bytes, by what was posted.
    Says(Reaction),
}

#[derive(Debug)]
struct State {
    manner: Mutex<Manner>,
    posts: Mutex<Vec<Post>>,
    told: Notify,
}

/// Listens until it is dropped.
pub(crate) struct Hook {
    pub(crate) address: SocketAddr,
    state: Arc<State>,
    _tasks: JoinSet<()>,
}

impl Hook {
    pub(crate) async fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let state = Arc::new(State {
            manner: Mutex::new(manner),
            posts: Mutex::default(),
            told: Notify::new(),
        });
        let address = listener.local_addr().unwrap();
        let mut tasks = JoinSet::new();
        let own = state.clone();
        tasks.spawn(async move {
            let mut served = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                served.spawn(serve(stream, own.clone()));
            }
        });
        Self {
            address,
            state,
            _tasks: tasks,
        }
    }

    pub(crate) fn set(&self, manner: Manner) {
        *self.state.manner.lock().unwrap() = manner;
    }

    pub(crate) fn posts(&self) -> Vec<Post> {
        self.state.posts.lock().unwrap().clone()
    }

    /// Waits until what was told is enough.
    pub(crate) async fn until(&self, enough: impl Fn(&[Post]) -> bool) -> Vec<Post> {
        let waiting = async {
            loop {
                let told = self.state.told.notified();
                let posts = self.posts();
                if enough(&posts) {
                    return posts;
                }
                told.await;
            }
        };
        let ended = timeout(LONG, waiting).await;
        ended.unwrap_or_else(|_| panic!("not told within 60 s: {:?}", self.posts()))
    }
}

async fn serve(mut stream: TcpStream, state: Arc<State>) {
    let mut bytes = Vec::new();
    loop {
        let Some((post, length)) = read(&bytes) else {
            if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
                return;
            }
            continue;
        };
        bytes.drain(..length);
        let manner = *state.manner.lock().unwrap();
        let said = match manner {
            Manner::Says(answer) => answer(&post.body),
            _ => Vec::new(),
        };
        state.posts.lock().unwrap().push(post);
        state.told.notify_waiters();
        let answer: &[u8] = match manner {
            Manner::Says(_) => &said,
            Manner::Takes => b"HTTP/1.1 204 No Content\r\n\r\n",
            Manner::Refuses => b"HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n",
            Manner::Hangs => return std::future::pending().await,
        };
        if stream.write_all(answer).await.is_err() {
            return;
        }
    }
}

/// A whole request, and how many bytes it has.
fn read(bytes: &[u8]) -> Option<(Post, usize)> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (head, rest) = text.split_once("\r\n\r\n")?;
    let length = head
        .lines()
        .filter_map(|line| line.split_once(": "))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))?;
    let length: usize = length.1.parse().ok()?;
    let body = rest.get(..length)?;
    let post = Post {
        head: head.to_owned(),
        text: body.to_owned(),
        body: serde_json::from_str(body).unwrap(),
    };
    Some((post, head.len() + 4 + length))
}
