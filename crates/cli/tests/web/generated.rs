//! The document is valid, and what others generate from it works: two clients list, create, append and read.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::outside::{self, succeeded};
use crate::site::Site;

const PYTHON: &[&str] = &["openapi-spec-validator==0.9.0", "openapi-python-client==0.29.1"];
const NODE: &[&str] = &[
    "openapi-typescript@7.13.0",
    "openapi-fetch@0.17.0",
    "typescript@5.9.3",
    "@types/node@26.6.6",
];

/// A server, and its document in a folder.
fn site() -> (Site, std::path::PathBuf) {
    let site = Site::new();
    let folder = site.env.path("generated");
    std::fs::create_dir(&folder).unwrap();
    let document = site.get("/api/v1/openapi.json").is(200);
    std::fs::write(folder.join("openapi.json"), &document.body).unwrap();
    (site, folder)
}

/// What a client has seen is what the server has.
fn assert_seen(site: &Site, output: &Output, title: &str) {
    succeeded(output, title);
    let seen: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let id = seen["id"].as_str().expect("an id");
    assert_eq!((&seen["title"], &seen["content"]), (&json!(title), &json!([SAID])), "{seen}");
    assert_eq!(seen["problem"], "session_not_found", "{seen}");
    assert_eq!(seen["listed"], json!([seen["id"], seen["bare"]]), "{seen}");
    let messages = site.get(&format!("/api/v1/sessions/{id}/messages")).is(200).json();
    assert_eq!(messages["items"][0]["content"], SAID);
}

const SAID: &str = "The heron has an egg.";

#[test]
fn the_document_is_valid_and_a_python_client_works() {
    let programs = outside::python("openapi", PYTHON);
    let (site, folder) = site();
    let ran = |program: &str, args: &[&str]| {
        Command::new(programs.join(program)).args(args).current_dir(&folder).output().unwrap()
    };
    succeeded(&ran("openapi-spec-validator", &["openapi.json"]), "the document is not valid");
    let generate = "generate --path openapi.json --output-path client --meta none";
    let generated = ran("openapi-python-client", &generate.split(' ').collect::<Vec<_>>());
    succeeded(&generated, "the client cannot be generated");
    std::fs::write(folder.join("main.py"), PYTHON_MAIN).unwrap();
    let address = format!("http://{}", site.address);
    let output = ran("python", &["main.py", &address, &site.token]);
    assert_seen(&site, &output, "From Python");
}

#[test]
fn a_typescript_client_is_typed_and_works() {
    let installed = outside::node("openapi", NODE);
    let (site, folder) = site();
    for (name, text) in [
        ("main.ts", TYPESCRIPT_MAIN),
        ("package.json", "{\"private\":true,\"type\":\"module\"}"),
        ("tsconfig.json", TYPESCRIPT_CONFIG),
    ] {
        std::fs::write(folder.join(name), text).unwrap();
    }
    std::os::unix::fs::symlink(installed.join("node_modules"), folder.join("node_modules"))
        .unwrap();
    let ran = |program: &Path, args: &[&str]| {
        Command::new(program).args(args).current_dir(&folder).output().unwrap()
    };
    let program = |name: &str| installed.join("node_modules/.bin").join(name);
    let generated = ran(&program("openapi-typescript"), &["openapi.json", "-o", "api.d.ts"]);
    succeeded(&generated, "the types cannot be generated");
    succeeded(&ran(&program("tsc"), &[]), "the types do not fit");
    let address = format!("http://{}", site.address);
    let output = ran(Path::new("node"), &["out/main.js", &address, &site.token]);
    assert_seen(&site, &output, "From TypeScript");
}

/// Where every field of a body is optional, so is the body; elsewhere it is missed as before.
#[test]
fn bodies_without_needs_may_be_left_out() {
    let (site, folder) = site();
    let document: Value =
        serde_json::from_slice(&std::fs::read(folder.join("openapi.json")).unwrap()).unwrap();
    let needed = |path: &str| document["paths"][path]["post"]["requestBody"]["required"].clone();
    assert_eq!(needed("/api/v1/sessions"), false);
    assert_eq!(needed("/api/v1/sessions/{id}/fork"), false);
    assert_eq!(needed("/api/v1/tokens"), true);
    let bare = |path: &str| crate::client::Request::new("POST", path).by(&site.token);
    let id = site.record("x", &["x"]);
    for path in ["/api/v1/sessions".to_owned(), format!("/api/v1/sessions/{id}/fork")] {
        bare(&path).send(site.address).is(201);
        bare(&path).header("Content-Type", "application/json").send(site.address).is(201);
        let other = bare(&path).header("Content-Type", "text/plain").send(site.address);
        assert_eq!(other.is(415).code(), "unsupported_media_type");
    }
    let missed = bare("/api/v1/tokens").send(site.address);
    assert_eq!(missed.is(415).code(), "unsupported_media_type");
}

const PYTHON_MAIN: &str = r#"
import json
import sys

from client import AuthenticatedClient
from client.api.messages import messages_append, messages_list
from client.api.sessions import sessions_create, sessions_list, sessions_read
from client.models import AppendMessages, CreateSession, Problem

address, token = sys.argv[1:]


def done(answer, status):
    if answer.status_code != status or isinstance(answer.parsed, Problem):
        sys.exit(f"{answer.status_code}: {answer.content}")
    return answer.parsed


with AuthenticatedClient(base_url=address, token=token) as client:
    # Every field of the body is optional, and so is the body.
    bare = done(sessions_create.sync_detailed(client=client), 201)
    made = done(sessions_create.sync_detailed(client=client, body=CreateSession(title="From Python")), 201)
    said = AppendMessages.from_dict({"messages": [{"role": "user", "content": "The heron has an egg."}]})
    done(messages_append.sync_detailed(made.session_id, client=client, body=said), 201)
    read = done(sessions_read.sync_detailed(made.session_id, client=client), 200)
    messages = done(messages_list.sync_detailed(made.session_id, client=client), 200)
    listed = done(sessions_list.sync_detailed(client=client, limit=10), 200)
    missing = sessions_read.sync_detailed("0" * 12, client=client).parsed
    print(json.dumps({
        "bare": bare.session_id,
        "id": made.session_id,
        "title": read.title,
        "content": [message.content for message in messages.items],
        "listed": [session.session_id for session in listed.items],
        "problem": missing.code,
    }))
"#;

const TYPESCRIPT_CONFIG: &str = r#"{
  "compilerOptions": { "strict": true, "target": "es2022", "module": "nodenext", "types": ["node"], "outDir": "out" },
  "files": ["main.ts"]
}"#;

const TYPESCRIPT_MAIN: &str = r#"
import createClient from "openapi-fetch";
import type { paths } from "./api.js";

const [, , baseUrl, token] = process.argv;
if (!baseUrl || !token) throw new Error("give the address and the token");
const api = createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${token}` } });

function done<T>(answer: { data?: T; error?: unknown; response: Response }, status: number): T {
  if (answer.data === undefined || answer.response.status !== status) {
    throw new Error(`${answer.response.status}: ${JSON.stringify(answer.error)}`);
  }
  return answer.data;
}

// Every field of the body is optional, and so is the body.
const bare = done(await api.POST("/api/v1/sessions"), 201);
const made = done(await api.POST("/api/v1/sessions", { body: { title: "From TypeScript" } }), 201);
const path = { id: made.session_id };
const messages = [{ role: "user" as const, content: "The heron has an egg." }];
done(await api.POST("/api/v1/sessions/{id}/messages", { params: { path }, body: { messages } }), 201);
const read = done(await api.GET("/api/v1/sessions/{id}", { params: { path } }), 200);
const said = done(await api.GET("/api/v1/sessions/{id}/messages", { params: { path } }), 200);
const listed = done(await api.GET("/api/v1/sessions", { params: { query: { limit: 10 } } }), 200);
const missing = await api.GET("/api/v1/sessions/{id}", { params: { path: { id: "0".repeat(12) } } });
console.log(
  JSON.stringify({
    bare: bare.session_id,
    id: made.session_id,
    title: read.title,
    content: said.items.map((message) => message.content),
    listed: listed.items.map((session) => session.session_id),
    problem: missing.error?.code,
  }),
);
"#;
