//! Workflows over the Model Context Protocol: start, watch, pause, resume, and what came before.

use std::fs;
use std::ops::Deref;

use serde_json::{Value, json};

use crate::env::TestEnv;
use crate::mcp_client::{Mcp, text};
use crate::reference::until;
use crate::workspace_secrets::TOKEN;
use crate::workspace_sessions::git;

pub(crate) const PLAN: &str = "# Greeting\n\nSay hello.\n\n\
    ## Task one: Write it\n- review: ref\n\n\
    do: exec: echo one >> log.txt\n\
    do: exec: echo 'error: no such door'; false\n\
    do: say: Decided: plain text because it is simple.\n\
    do: say: {\"approved\": true, \"severity\": \"minor\", \"comments\": [\"name it better\"]}\n\n\
    ## Task two: Wait\n- depends on: one\n\n\
    do: wait for: go\ndo: exec: echo two >> log.txt\n\n\
    ## Task three: End\n- depends on: two\n\n\
    do: exec: echo three >> log.txt\n";

/// A repository with a plan, and the reference agent. Nothing of its workflows outlives it.
pub(crate) struct World(TestEnv);

impl Deref for World {
    type Target = TestEnv;

    fn deref(&self) -> &TestEnv {
        &self.0
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let listed = self.0.run(["workflow", "list", "--json"]);
        let rows: Value = serde_json::from_slice(&listed.stdout).unwrap_or_default();
        for row in rows.as_array().into_iter().flatten() {
            self.0.run(["workflow", "cancel", row["id"].as_str().unwrap_or_default()]);
        }
    }
}

impl World {
    pub(crate) fn new() -> Self {
        let env = TestEnv::new();
        env.agent("ref", &[]);
        git(&env, &["init", "-q", "-b", "main"]);
        let world = Self(env);
        world.write("plan.md", PLAN);
        git(&world, &["add", "."]);
        let author = ["-c", "user.name=anna", "-c", "user.email=anna@example.org"];
        git(&world, &[&author[..], &["commit", "-q", "-m", "begin"]].concat());
        world
    }

    pub(crate) fn write(&self, name: &str, content: &str) {
        fs::write(self.path("project").join(name), content).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path("project").join(name)).unwrap_or_default()
    }
}

fn task<'a>(status: &'a Value, id: &str) -> &'a Value {
    let tasks = status["tasks"].as_array().unwrap();
    tasks.iter().find(|task| task["id"] == id).unwrap()
}

/// Waits until a task is in a state; gives the status.
#[track_caller]
pub(crate) fn until_task(mcp: &mut Mcp, id: &str, state: &str) -> Value {
    until(&format!("task {id} is {state}"), || {
        let status = mcp.tool("workflow_status", json!({"detail": true}));
        (task(&status, id)["state"] == state).then_some(status)
    })
}

#[track_caller]
pub(crate) fn until_status(mcp: &mut Mcp, wanted: &str) -> Value {
    until(&format!("the workflow is {wanted}"), || {
        let status = mcp.tool("workflow_status", json!({"detail": true}));
        (status["status"] == wanted).then_some(status)
    })
}

pub(crate) fn start(mcp: &mut Mcp) -> String {
    let begun = mcp.tool("start_workflow", json!({"plan": "plan.md", "agent": "ref"}));
    assert_eq!(begun["tasks_total"], 3, "{begun:#}");
    text(&begun["id"]).to_owned()
}

#[test]
fn from_start_to_end_through_tools_alone() {
    let world = World::new();
    world.set("mcp", "wait_seconds = 6");
    let mut mcp = Mcp::start(&world);
    let id = start(&mut mcp);
    let status = until_task(&mut mcp, "two", "in_progress");
    assert_eq!((&status["id"], &status["is_running"]), (&json!(id), &json!(true)));
    assert_eq!((&status["status"], &status["next_task"]), (&json!("in_progress"), &json!("two")));
    assert_eq!((&status["snapshots"], &status["questions"]), (&json!([]), &json!([])));
    // While it runs there is nothing to resume, and what is known so far can be asked for.
    let refused = mcp.refused("resume_workflow", json!({"workflow_id": id}));
    assert!(refused.contains("already running"), "{refused}");
    let early = mcp.tool("get_decisions", json!({}));
    assert_eq!((&early["snapshot_id"], &early["total"]), (&Value::Null, &json!(1)), "{early:#}");
    assert!(mcp.refused("get_snapshot", json!({})).contains("no snapshot"));
    // Its task does not end within the second that is waited here.
    let pausing = mcp.tool("pause_workflow", json!({"reason": "lunch"}));
    assert_eq!(pausing["is_pausing"], true, "{pausing:#}");
    world.write("go", "");
    let paused = until_status(&mut mcp, "paused");
    assert_eq!((&paused["pause_reason"], &paused["tasks_completed"]), (&json!("lunch"), &json!(2)));
    let snapshot = &paused["snapshots"][0];
    assert_eq!((&snapshot["id"], &snapshot["trigger"]), (&paused["snapshot_id"], &json!("pause")));
    until("its process is gone", || {
        (mcp.tool("workflow_status", json!({}))["is_running"] == false).then_some(())
    });
    world.write("new.txt", "by hand");
    let resumed = mcp.tool("resume_workflow", json!({"from": snapshot["id"], "with": "ref"}));
    assert_eq!((&resumed["id"], &resumed["session_count"]), (&json!(id), &json!(2)));
    assert_eq!(resumed["from"]["id"], snapshot["id"]);
    assert!(resumed["diverged"].to_string().contains("new.txt"), "{resumed:#}");
    let done = until_status(&mut mcp, "completed");
    assert_eq!(done["tasks_completed"], 3, "{done:#}");
    assert_eq!(
        world.read("log.txt"),
        "one\none\ntwo\nthree\n",
        "the reviewer does as it is told, too"
    );
    let over = mcp.refused("pause_workflow", json!({"workflow_id": id}));
    assert!(over.contains("completed") && over.contains("workflow_status"), "{over}");
    assert!(mcp.refused("resume_workflow", json!({"workflow_id": id})).contains("completed"));
    assert!(mcp.refused("pause_workflow", json!({})).contains("no workflow that is in_progress"));
    world.assert_sound();
}

/// What a tool gives is what the command shows.
#[track_caller]
fn assert_same(of_tool: &Value, of_command: &Value, fields: &[(&str, &str)]) {
    let (left, right) = (of_tool.as_array().unwrap(), of_command.as_array().unwrap());
    assert!(!right.is_empty(), "{of_command:#}");
    assert_eq!(left.len(), right.len(), "{of_tool:#}\n{of_command:#}");
    for (left, right) in left.iter().zip(right) {
        for (field, known_as) in fields {
            assert_eq!(left[*field], right[*known_as], "{field}: {left:#}\n{right:#}");
        }
    }
}

/// Whoever follows a workflow is told what it takes to follow it, and the rest when it is asked for.
#[track_caller]
fn compact_by_default(mcp: &mut Mcp, detailed: &Value) {
    let compact = mcp.tool("workflow_status", json!({"workflow_id": detailed["id"]}));
    for name in ["status", "next_task", "snapshot_id", "tasks_total", "questions", "next"] {
        assert_eq!(compact[name], detailed[name], "{name}");
    }
    for name in ["snapshots", "usage", "tests", "issue", "plan"] {
        assert_eq!(compact.get(name), None, "{name}: {compact:#}");
    }
    assert!(detailed["usage"]["tokens"].is_number(), "{detailed:#}");
    assert_eq!(compact["snapshot_count"], detailed["snapshots"].as_array().unwrap().len());
    let (rows, tasks) =
        (compact["tasks"].as_array().unwrap(), detailed["tasks"].as_array().unwrap());
    assert_eq!(rows.len(), tasks.len());
    for (row, task) in rows.iter().zip(tasks) {
        assert_eq!((&row["id"], &row["state"]), (&task["id"], &task["state"]));
        assert!(row.get("session_ids").is_none() && task["session_ids"].is_array(), "{row}");
    }
    assert!(compact.to_string().len() * 2 < detailed.to_string().len(), "{compact:#}");
}

#[test]
fn what_came_before_is_what_the_snapshot_has() {
    let world = World::new();
    let mut mcp = Mcp::start(&world);
    let limited = json!({"plan": "plan.md", "agent": "ref", "pause_after": 1});
    let id = text(&mcp.tool("start_workflow", limited)["id"]).to_owned();
    let paused = until_status(&mut mcp, "paused");
    let snapshot = text(&paused["snapshot_id"]).to_owned();
    assert_eq!(paused["snapshots"][0]["trigger"], "task_complete");
    let part = |part: &str| world.json(["workflow", "show", &id, "--part", part]);
    compact_by_default(&mut mcp, &paused);
    let whole = mcp.tool("get_snapshot", json!({"snapshot_id": snapshot}));
    assert_eq!((&whole["id"], &whole["workflow_id"]), (&json!(snapshot), &json!(id)));
    assert_eq!((&whole["next_task"], &whole["tasks_remaining"]), (&json!("two"), &json!(2)));
    let of = json!({"workflow_id": &id[..13], "snapshot_id": &snapshot[24..]});
    let decided = mcp.tool("get_decisions", of.clone());
    let fields = [("what", "what"), ("why", "why"), ("type", "type"), ("task", "task")];
    assert_same(&decided["decisions"], &part("decisions"), &fields);
    assert_eq!(
        (&decided["decisions"], &decided["snapshot_id"]),
        (&whole["decisions"], &json!(snapshot))
    );
    let errors = mcp.tool("get_errors", of.clone());
    let fields = [("message", "message"), ("resolution", "resolution"), ("task", "task")];
    assert_same(&errors["errors"], &part("errors"), &fields);
    assert!(errors.to_string().contains("no such door"), "{errors:#}");
    let reviews = mcp.tool("get_reviewer_feedback", of.clone());
    let fields = [("comments", "comments"), ("approved", "approved"), ("task", "task")];
    assert_same(&reviews["feedback"], &part("feedback"), &fields);
    assert_eq!(reviews["feedback"][0]["comments"], json!(["name it better"]));
    let none = |mcp: &mut Mcp, tool: &str, more: Value| mcp.tool(tool, more)["total"] == 0;
    assert!(none(&mut mcp, "get_reviewer_feedback", json!({"only_open": true})));
    assert!(none(&mut mcp, "get_decisions", json!({"task": "two"})));
    let changes = mcp.tool("get_git_changes", of);
    assert_eq!(changes["git"]["files_modified"], part("git")["files_modified"]);
    assert_eq!(changes["git"]["branch"], "main");
    assert!(changes["git"]["files_uncommitted"].to_string().contains("log.txt"), "{changes:#}");
    assert_eq!(changes["diverged"], json!([]));
    world.write("other.txt", "");
    let changes = mcp.tool("get_git_changes", json!({}));
    assert!(changes["diverged"].to_string().contains("other.txt"), "{changes:#}");
    mcp.tool("resume_workflow", json!({}));
    until_task(&mut mcp, "two", "in_progress");
    mcp.tool("pause_workflow", json!({"now": true}));
}

#[test]
fn mistakes_are_told_with_what_to_do() {
    let world = World::new();
    let mut mcp = Mcp::start(&world);
    world.write("bad.md", "# Nothing\n");
    world.write("PLAN.md", "# Mine\n");
    world.write("named.md", "## Task a: A\n- verify: unheard\n");
    let with = |more: Value| {
        let mut all = json!({"agent": "ref", "plan": "plan.md"});
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        all
    };
    for (arguments, what) in [
        (json!({}), "Give plan"),
        (json!({"plan": "  ", "issue": ""}), "Give plan"),
        (json!({"plan": "plan.md"}), "list_agents"),
        (with(json!({"plan": "missing.md"})), "missing.md"),
        (with(json!({"plan": "bad.md"})), "bad.md"),
        (with(json!({"plan": "named.md"})), "unheard"),
        (with(json!({"agent": "nobody"})), "nobody"),
        (with(json!({"worktree": "/nowhere"})), "/nowhere"),
        (json!({"agent": "ref", "issue": "Do it"}), "PLAN.md already exists. Give it as plan"),
        (with(json!({"jobs": 0})), "begin at 1"),
        (with(json!({"pause_after": 0})), "begin at 1"),
        (with(json!({"max_tokens": 0})), "begin at 1"),
        (with(json!({"max_cost": -1.0})), "max_cost"),
        (with(json!({"approveCommands": true})), "unknown field"),
        (with(json!({"permissions": "allow"})), "unknown field"),
    ] {
        let told = mcp.refused("start_workflow", arguments.clone());
        assert!(told.contains(what), "{arguments}: {told}");
    }
    assert_eq!(world.json(["workflow", "list"]), json!([]), "nothing was made");
    let tools = ["workflow_status", "pause_workflow", "resume_workflow", "get_snapshot"];
    let parts = ["get_decisions", "get_errors", "get_reviewer_feedback", "get_git_changes"];
    for tool in tools.into_iter().chain(parts) {
        let none = mcp.refused(tool, json!({}));
        assert!(none.contains("There is no workflow"), "{tool}: {none}");
        assert!(none.contains("tart_workflow"), "{tool}: {none}");
        for odd in ["", "xyz", "../..", "0192f0c1-0000-7000-8000-000000000000"] {
            let unknown = mcp.refused(tool, json!({"workflow_id": odd}));
            assert!(unknown.contains("o workflow"), "{tool} {odd}: {unknown}");
        }
        assert!(mcp.refused(tool, json!({"workflow_id": 5})).contains("input schema"), "{tool}");
        assert!(mcp.refused(tool, json!({"odd": 5})).contains("unknown field"), "{tool}");
    }
}

#[test]
fn commands_and_plans_wait_for_a_person() {
    let world = World::new();
    let mut mcp = Mcp::start(&world);
    world.write("plan.md", "## Task a: A\n- verify: `touch checked`\n\ndo: say: done\n");
    let id = text(&mcp.tool("start_workflow", json!({"plan": "plan.md", "agent": "ref"}))["id"])
        .to_owned();
    let blocked = until_status(&mut mcp, "blocked");
    let question = &blocked["questions"][0];
    assert_eq!(question["about"], "command", "{blocked:#}");
    assert!(text(&question["question"]).contains("touch checked"));
    assert!(text(&blocked["next"]).contains("rethread workflow approve"));
    let resume = mcp.refused("resume_workflow", json!({"workflow_id": id}));
    assert!(resume.contains("is blocked"), "{resume}");
    let again = mcp.refused("start_workflow", json!({"plan": "plan.md", "agent": "ref"}));
    assert!(again.contains(&id) && again.contains("another worktree"), "{again}");
    assert!(!world.path("project/checked").exists());
    world.run(["workflow", "approve", &id]).succeeded();
    assert_eq!(mcp.tool("workflow_status", json!({"workflow_id": id}))["status"], "completed");
    assert!(world.path("project/checked").exists());
}

#[test]
fn those_of_another_user_are_not_found() {
    let world = World::new();
    let mut mcp = Mcp::start(&world);
    let limited = json!({"plan": "plan.md", "agent": "ref", "pause_after": 1});
    let id = text(&mcp.tool("start_workflow", limited)["id"]).to_owned();
    let snapshot = text(&until_status(&mut mcp, "paused")["snapshot_id"]).to_owned();
    let mut command = world.command(["mcp"]);
    command.env("RETHREAD_USER", "berta");
    let mut other = Mcp::spawn(command);
    for tool in ["workflow_status", "pause_workflow", "resume_workflow"] {
        for arguments in [json!({}), json!({"workflow_id": id}), json!({"workflow_id": &id[24..]})]
        {
            let told = other.refused(tool, arguments);
            assert!(told.contains("o workflow"), "{tool}: {told}");
        }
    }
    for tool in
        ["get_snapshot", "get_decisions", "get_errors", "get_reviewer_feedback", "get_git_changes"]
    {
        for arguments in [json!({"snapshot_id": snapshot}), json!({"workflow_id": id})] {
            let told = other.refused(tool, arguments);
            assert!(told.contains("o workflow"), "{tool}: {told}");
        }
    }
    assert_eq!(mcp.tool("workflow_status", json!({}))["status"], "paused");
}

#[test]
fn secrets_are_masked() {
    let world = World::new();
    let plan = format!(
        "# Heron {TOKEN}\n\nIt is {TOKEN}.\n\n## Task one: The heron {TOKEN}\n\n\
         do: exec: touch {TOKEN}; echo 'error: denied {TOKEN}'; false\n\
         do: say: Decided: keep {TOKEN} because it is short.\n\n\
         ## Task two: Never\n- depends on: one\n\ndo: say: x\n"
    );
    world.write("plan.md", &plan);
    let mut mcp = Mcp::start(&world);
    let limited = json!({"plan": "plan.md", "agent": "ref", "pause_after": 1});
    let begun = mcp.tool("start_workflow", limited);
    let paused = until_status(&mut mcp, "paused");
    let mut all = vec![("start_workflow", begun), ("workflow_status", paused)];
    for tool in ["get_snapshot", "get_decisions", "get_errors", "get_git_changes"] {
        all.push((tool, mcp.tool(tool, json!({}))));
    }
    // It is there, for its owner.
    assert!(world.data(["workflow", "show", "--part", "tasks"]).contains(TOKEN));
    all.push(("resume_workflow", mcp.tool("resume_workflow", json!({}))));
    for (tool, answer) in all {
        assert!(!answer.to_string().contains(&TOKEN[..16]), "{tool}: {answer:#}");
        assert!(answer.to_string().contains("[redacted: "), "{tool}: {answer:#}");
    }
    until_status(&mut mcp, "completed");
}
