//! A store in a few lines: what an upgrade must neither lose nor hide.

use rethread_store::{ListFilter, Span, Store};
use serde_json::{Value, json};

/// Everything that is in a store.
pub(crate) async fn described(store: &dyn Store) -> Value {
    json!({
        "sessions": sessions(store).await,
        "underway": underway(store).await,
        "openings": store.openings(None).await.unwrap(),
        "grants": store.grants().await.unwrap(),
    })
}

/// Every session with its counts and the hash of everything that was said in it.
async fn sessions(store: &dyn Store) -> Value {
    let mut filter = ListFilter { archived: true, limit: u32::MAX, ..ListFilter::default() };
    let mut sessions = store.list(&filter).await.unwrap();
    filter.deleted = true;
    sessions.extend(store.list(&filter).await.unwrap());
    sessions.sort_by_key(|session| session.id);
    let mut found = Vec::new();
    for session in sessions {
        let conversations = store.conversations(session.id).await.unwrap();
        let messages = store.messages(session.id, Span::after(1, u32::MAX)).await.unwrap();
        let mut hash = blake3::Hasher::new();
        for one in &messages {
            let said = json!([
                one.seq,
                one.given_id,
                one.role,
                one.at,
                one.conversation,
                one.body.whole(),
                one.extras,
                one.price.tokens,
                one.purged_at,
            ]);
            hash.update(said.to_string().as_bytes());
        }
        let mut watermarks = Vec::new();
        for conversation in &conversations {
            watermarks
                .extend(store.watermark(session.id, &conversation.name, "codex").await.unwrap());
        }
        let facts = serde_json::to_string(&store.facts(session.id).await.unwrap()).unwrap();
        found.push(json!({
            "id": session.id,
            "user": session.user,
            "title": session.title,
            "status": session.status(),
            "deleted": session.deleted_at.is_some(),
            "forked_from": session.forked_from,
            "messages": messages.len(),
            "purged": messages.iter().filter(|one| one.purged_at.is_some()).count(),
            "tokens": session.counters.tokens,
            "runs": session.counters.runs,
            "cost_nano": session.counters.cost_nano,
            "conversations": conversations
                .iter()
                .map(|one| json!([one.name, one.messages, one.summary.is_some()]))
                .collect::<Vec<_>>(),
            "holdings": watermarks,
            "content": hash.finalize().to_hex().to_string(),
            "facts": blake3::hash(facts.as_bytes()).to_hex().to_string(),
        }));
    }
    Value::Array(found)
}

/// Every turn that is under way, with what came of it.
async fn underway(store: &dyn Store) -> Value {
    let mut found = Vec::new();
    for (session, conversation) in store.underway().await.unwrap() {
        let begun = store.begun(session, &conversation).await.unwrap().unwrap();
        found.push(json!([session, conversation, begun.at, begun.what, begun.updates]));
    }
    Value::Array(found)
}
