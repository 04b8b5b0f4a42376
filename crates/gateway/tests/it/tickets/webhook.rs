//! What a webhook is told, and what a bad one costs.

use super::hook::{Hook, Manner};
use super::{ask_as, down, id_of, keeping, ticket};
use crate::gateway::{Gateway, upstream};
use evenkeel_chaos::Behaviour;
use ring::hmac;
use std::collections::BTreeSet;
use std::fmt::Write as _;

fn told(hook: &Hook, up: &evenkeel_chaos::Upstream) -> Gateway {
    let url = format!("http://{}/hook?token=t", hook.address);
    let tickets = format!(
        "[tickets]\nwebhook_url = \"{url}\"\nwebhook_secret = \"whsec\"\nwebhook_timeout_ms = 300"
    );
    Gateway::with_more(&[up], keeping(), &tickets)
}

#[tokio::test]
async fn an_answer_is_posted_once_and_signed() {
    let hook = Hook::start(Manner::Takes).await;
    let up = upstream("up", down()).await;
    let gateway = told(&hook, &up);
    let id = id_of(&ask_as(&gateway, "evk-ann", &[]).await);
    up.set(Behaviour::default().with_text("at last"));
    let posts = hook.until(|posts| !posts.is_empty()).await;
    let post = &posts[0];
    assert_eq!(
        (post.kind(), post.ticket()),
        ("ticket.answered", id.as_str())
    );
    let answer = &post.body["ticket"]["answer"];
    assert_eq!(answer["choices"][0]["message"]["content"], "at last");
    assert_eq!(post.header("idempotency-key"), post.event());
    assert!(!post.text.contains("Say hi"), "no prompt");
    let signature = post.header("x-evenkeel-signature");
    let (t, v1) = signature.split_once(",v1=").unwrap();
    let key = hmac::Key::new(hmac::HMAC_SHA256, b"whsec");
    let signed = format!("{}.{}", t.strip_prefix("t=").unwrap(), post.text);
    let tag = hmac::sign(&key, signed.as_bytes());
    let hex = tag.as_ref().iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    });
    assert_eq!(v1, hex);
    // A second ticket's post comes after whatever else the first could bring.
    up.set(down());
    let other = id_of(&ask_as(&gateway, "evk-ann", &[]).await);
    ticket(&gateway, "DELETE", "evk-ann", &other).await;
    let posts = hook.until(|posts| posts.len() > 1).await;
    assert_eq!(
        (posts[1].kind(), posts[1].ticket()),
        ("ticket.dropped", other.as_str())
    );
    assert_eq!(posts.len(), 2);
}

/// The same event until it is taken; a hanging receiver is given up on in time.
#[tokio::test]
async fn a_bad_receiver_is_told_again_and_holds_nothing_up() {
    for manner in [Manner::Refuses, Manner::Hangs] {
        let hook = Hook::start(manner).await;
        let up = upstream("up", down()).await;
        let gateway = told(&hook, &up);
        let mut ids = BTreeSet::new();
        for _ in 0..6 {
            ids.insert(id_of(&ask_as(&gateway, "evk-ann", &[]).await));
        }
        up.set(Behaviour::default());
        // All are answered while the receiver takes none.
        up.wait_until(|stats| stats.ok >= 6).await;
        hook.until(|posts| posts.len() > 6).await;
        hook.set(Manner::Takes);
        let refused = hook.posts().len();
        let taken = hook
            .until(|posts| {
                let taken = posts[refused..].iter().map(super::hook::Post::ticket);
                taken.collect::<BTreeSet<_>>().len() == 6
            })
            .await;
        for id in &ids {
            let events: BTreeSet<_> = taken
                .iter()
                .filter(|post| post.ticket() == id)
                .map(super::hook::Post::event)
                .collect();
            assert_eq!(events.len(), 1, "{manner:?}: one event, however often told");
        }
    }
}
