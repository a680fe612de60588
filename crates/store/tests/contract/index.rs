//! The search index follows the log.

use rethread_testkit::user;

use crate::on_each;

#[test]
fn an_append_does_not_wait_for_the_index_which_follows_in_steps() {
    on_each(async |store| {
        let id = store.begin().await;
        let messages = (0..1200).map(|n| user(&format!("message {n}"))).collect();
        store.add(id, messages).await.unwrap();
        assert_eq!(store.check().await.unwrap().unindexed, 1200);
        // Its title is one of the first hundred.
        assert_eq!(store.index(100).await.unwrap(), 1101);
        assert_eq!(store.index(700).await.unwrap(), 401);
        store.expect_sound().await;
        assert_eq!(store.index(u32::MAX).await.unwrap(), 0);
        assert_eq!(store.index(u32::MAX).await.unwrap(), 0);
        assert_eq!(store.check().await.unwrap().unindexed, 0);
        store.expect_sound().await;
    });
}

#[test]
fn two_who_index_at_once_do_not_index_twice() {
    on_each(async |store| {
        let id = store.begin().await;
        let messages = (0..600).map(|n| user(&format!("message {n}"))).collect();
        store.add(id, messages).await.unwrap();
        let other = store.open_again().await;
        let both = futures::future::join(store.index(u32::MAX), other.index(u32::MAX)).await;
        both.0.unwrap();
        both.1.unwrap();
        store.index_all().await;
        store.expect_sound().await;
    });
}
