//! What an agent is told: never more than the budget, and of a long conversation what matters.

use std::path::Path;
use std::process::Command;

use rethread_domain::context::Limits;
use rethread_domain::message::NewMessage;
use rethread_domain::session::Beginning;
use rethread_domain::tokens;
use rethread_engine::ContextOptions;
use rethread_engine::agents::{OpenOptions, Talk};
use rethread_engine::views::SessionView;
use rethread_store::{Append, ListFilter};
use rethread_testkit::{assistant, beginning, user};

use crate::scripted::Scripted;
use crate::world::{Home, World, run};

fn long_talk(count: usize, needle: Option<usize>) -> Vec<NewMessage> {
    let one = |n: usize| {
        if Some(n) == needle {
            return user("Remember: the staging passkey is heron-42.");
        }
        let text = format!(
            "Step {n}: we looked at handler number {n} because it failed in the way that the log of round {n} \
             tells, and wrote the outcome down in the notes of that day."
        );
        if n.is_multiple_of(2) { assistant(&text) } else { user(&text) }
    };
    (1..=count).map(one).collect()
}

async fn told(
    world: &World,
    agent: &Scripted,
    limits: Limits,
    margin: f64,
    prompt: &str,
) -> String {
    let options = OpenOptions { limits, margin, ..world.options(agent) };
    let mut talk = Talk::open(&world.engine, options).await.unwrap();
    talk.send(prompt, &mut |_| ()).await.unwrap();
    talk.end().await.unwrap();
    agent.last_prompt().document().unwrap_or_default().to_owned()
}

#[test]
fn what_is_told_never_costs_more_than_the_budget() {
    run(async {
        let home = Home::new();
        for count in [1, 3, 60] {
            let world = World::new(&home);
            let agent = world.agent("anna", "none");
            let said = Append::new(world.session, long_talk(count, None));
            world.store.append(said).await.unwrap();
            for limit in (50..130).step_by(7).chain([200, 350, 500, 1_000, 3_000, 10_000]) {
                for margin in [0.0, 0.3] {
                    let limits = Limits { tokens: limit, ..Limits::default() };
                    let told = told(&world, &agent, limits, margin, "What did step 7 give?").await;
                    let most = limits.with_margin(margin).tokens;
                    let found = tokens::count(&told);
                    assert!(found <= most, "{found} of {most}: {told}");
                    assert!(!told.is_empty() || most < 60, "{most}: nothing is told");
                }
            }
        }
    });
}

#[test]
fn of_a_long_conversation_the_newest_are_told_and_older_ones_that_matter() {
    run(async {
        let home = Home::new();
        let world = World::new(&home);
        let agent = world.agent("anna", "none");
        let said = Append::new(world.session, long_talk(400, Some(20)));
        world.store.append(said).await.unwrap();
        let prompt = "What was the passkey for staging?";
        let told = told(&world, &agent, Limits::default(), 0.0, prompt).await;
        for n in 381..=400 {
            assert!(told.contains(&format!("> Step {n}: ")), "{n}: {told}");
        }
        assert!(told.contains("> Remember: the staging passkey is heron-42.\n"), "{told}");
        for n in [1, 100, 300, 380] {
            assert!(!told.contains(&format!("\n> Step {n}: ")), "{n}: {told}");
        }
        assert!(told.contains("Left out here: "), "{told}");
        assert!(!told.contains(prompt), "{told}");
    });
}

#[test]
fn a_long_stretch_that_was_missed_is_told_in_part() {
    run(async {
        let home = Home::new();
        let world = World::new(&home);
        let agent = world.agent("anna", "resume");
        world.turn(&agent, "m1 fix the basket").await.unwrap();
        let said = Append::new(world.session, long_talk(400, Some(20)));
        world.store.append(said).await.unwrap();
        let limits = Limits { tokens: 2_000, ..Limits::default() };
        let missed = told(&world, &agent, limits, 0.0, "What was the passkey for staging?").await;
        assert!(missed.contains("> Step 400: ") && missed.contains("heron-42"), "{missed}");
        assert!(!missed.contains("m1 fix the basket"), "it has that: {missed}");
        assert!(tokens::count(&missed) <= 2_000);
        assert_eq!(told(&world, &agent, limits, 0.0, "And now?").await, "", "told once");
    });
}

#[test]
fn the_older_part_of_what_was_missed_is_summed_up() {
    run(async {
        let home = Home::new();
        let world = World::new(&home);
        let agent = world.agent("anna", "resume");
        let limits = Limits { tokens: 2_000, ..Limits::default() };
        world.turn(&agent, "m1 fix the basket").await.unwrap();
        for is_known in [false, true] {
            let said = Append::new(world.session, long_talk(400, Some(20)));
            world.store.append(said).await.unwrap();
            if !is_known {
                world.engine.prune(world.session, 50).await.unwrap();
            }
            let own = world.store.conversations(world.session).await.unwrap().remove(0);
            let summary = own.summary.unwrap().text;
            let first = summary.lines().next().unwrap();
            let missed = told(&world, &agent, limits, 0.0, "And now?").await;
            assert!(missed.contains("> Step 400: "), "{missed}");
            // One that sums up what it was told before says nothing new.
            assert_eq!(missed.contains(first), !is_known, "{first}: {missed}");
            assert!(tokens::count(&missed) <= 2_000);
        }
    });
}

fn git(folder: &Path, arguments: &[&str]) {
    let identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"];
    let mut command = Command::new("git");
    let done = command.arg("-C").arg(folder).args(identity).args(arguments).output().unwrap();
    assert!(done.status.success(), "git {arguments:?}");
}

#[test]
fn who_is_told_a_conversation_is_told_what_was_committed_meanwhile() {
    run(async {
        let home = Home::new();
        let project = home.folder().join("project");
        std::fs::create_dir(&project).unwrap();
        git(&project, &["init", "-q"]);
        git(&project, &["commit", "-q", "--allow-empty", "-m", "first"]);
        let about = Beginning { project: project.display().to_string(), ..beginning() };
        let world = World::about(&home, about);
        let (anna, bert) = (world.agent("anna", "resume"), world.agent("bert", "resume"));
        world.turn(&anna, "fix the basket").await.unwrap();
        git(&project, &["commit", "-q", "--allow-empty", "-m", "Rotate the cookie later"]);
        world.turn(&bert, "go on").await.unwrap();
        let told = bert.last_prompt().document().unwrap().to_owned();
        assert!(told.contains("Rotate the cookie later"), "{told}");
        anna.state().natives.clear();
        world.turn(&anna, "go on").await.unwrap();
        let told = anna.last_prompt().document().unwrap().to_owned();
        assert!(!told.contains("Rotate the cookie later"), "that was before: {told}");
    });
}

#[test]
fn a_session_is_with_the_agent_that_answered_last() {
    run(async {
        let home = Home::new();
        let about = Beginning { agent: Some("anna".to_owned()), ..beginning() };
        let world = World::about(&home, about);
        let (anna, ben) = (world.agent("anna", "resume"), world.agent("ben", "resume"));
        world.turn(&anna, "begin").await.unwrap();
        let engine = &world.engine;
        assert_eq!(engine.session(world.session).await.unwrap().speaker(), Some("anna"));
        world.turn(&ben, "go on").await.unwrap();
        let session = engine.session(world.session).await.unwrap();
        assert_eq!((session.speaker(), session.agent.as_deref()), (Some("ben"), Some("anna")));
        assert_eq!(engine.agent_of(&session, None).await.unwrap().as_deref(), session.speaker());
        assert_eq!(SessionView::from(&session).agent.as_deref(), Some("ben"));
        let filter = ListFilter { limit: 5, ..ListFilter::default() };
        assert_eq!(engine.list(&filter).await.unwrap()[0].speaker(), Some("ben"));
        let context = engine.context(world.session, &ContextOptions::default()).await.unwrap();
        assert!(context.context.contains("- Agent: ben\n"), "{}", context.context);
        assert_eq!(context.token_count, tokens::count(&context.context));
    });
}
