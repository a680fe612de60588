//! Files of our own, for editors whose settings are programs: Lua for Neovim, Emacs Lisp, and a shell script for Toad.

use rethread_domain::shell;

use super::editors::Offer;

/// Stands in every file that we wrote.
const MARK: &str = "Written by `rethread acp --install";

/// Whether a file is one of ours.
pub(super) fn is_ours(text: &str) -> bool {
    text.contains(MARK)
}

/// A module that gives the agents as `CodeCompanion` and avante take them.
pub(super) fn lua(offer: &Offer) -> String {
    let agents = offer.agents.iter().map(|agent| {
        let command: Vec<String> = offer.command(agent).into_iter().map(lua_text).collect();
        format!("  [{}] = {{ {} }},\n", lua_text(&agent.title), command.join(", "))
    });
    include_str!("neovim.lua").replace("  --{agents}\n", &agents.collect::<String>())
}

/// A text as Lua reads it.
fn lua_text(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_ascii_control() => quoted.push_str(&format!("\\{:03}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

/// A file that adds the agents to those of agent-shell.
pub(super) fn elisp(offer: &Offer) -> String {
    let agents = offer.agents.iter().map(|agent| {
        let command: Vec<String> = offer.command(agent).into_iter().map(elisp_text).collect();
        format!(
            "\n    ({} {} {})",
            elisp_text(&format!("rethread-{}", agent.name)),
            elisp_text(&agent.title),
            command.join(" ")
        )
    });
    include_str!("emacs.el").replace("'(agents)", &format!("'({})", agents.collect::<String>()))
}

/// A text as Emacs reads it.
pub(super) fn elisp_text(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// A program that starts Toad with one of the agents.
pub(super) fn shell(offer: &Offer) -> String {
    let agents = offer.agents.iter().map(|agent| {
        let command: Vec<String> = offer.command(agent).into_iter().map(shell::word).collect();
        format!(
            "{})\n    title={}\n    command={}\n    ;;\n",
            shell::word(&agent.name),
            shell::quoted(&agent.title),
            shell::quoted(&command.join(" "))
        )
    });
    let names: Vec<&str> = offer.agents.iter().map(|agent| agent.name.as_str()).collect();
    include_str!("toad.sh")
        .replace("# agents\n", &agents.collect::<String>())
        .replace("'names'", &shell::quoted(&names.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_quoted_for_each_language() {
        let text = "/a \"b\"\\c\n/it's";
        assert_eq!(lua_text(text), "\"/a \\\"b\\\"\\\\c\\010/it's\"");
        assert_eq!(elisp_text(text), "\"/a \\\"b\\\"\\\\c\n/it's\"");
    }
}
