//! Mode, model and options of a native session: the choices, and the calls that set them.

use rethread_engine::agents::{AgentError, EFFORT, Named, Offered, Settings};
use serde_json::{Value, json};

/// How many valid values an error names.
const MOST_NAMED: usize = 12;

/// What an agent offered when the session was opened.
#[derive(Debug, Default)]
pub(crate) struct Offers {
    modes: Vec<Named>,
    mode: Option<String>,
    models: Vec<Named>,
    model: Option<String>,
    options: Vec<Choosable>,
}

fn is(named: &Named, wanted: &str) -> bool {
    named.id == wanted || named.name.eq_ignore_ascii_case(wanted)
}

/// One of the agent's own options.
#[derive(Debug)]
struct Choosable {
    named: Named,
    category: String,
    is_switch: bool,
    is_second: bool,
    values: Vec<Named>,
    current: Option<String>,
}

/// A call that sets something. The session's id is still missing.
#[derive(Debug, PartialEq)]
pub(crate) struct Step {
    pub(crate) method: &'static str,
    pub(crate) params: Value,
}

impl Offers {
    /// Reads the response to new, load or resume.
    pub(crate) fn read(answer: &Value) -> Self {
        Self {
            modes: named(&answer["modes"]["availableModes"], "id"),
            mode: answer["modes"]["currentModeId"].as_str().map(str::to_owned),
            models: named(&answer["models"]["availableModels"], "modelId"),
            model: answer["models"]["currentModelId"].as_str().map(str::to_owned),
            options: options(&answer["configOptions"]),
        }
    }

    /// What there is to choose from, and what of it is in use.
    pub(crate) fn offered(&self) -> Offered {
        let of = |category: &str, known: &[Named], now: &Option<String>| {
            let option = self.of_category(category);
            match option.filter(|_| known.is_empty()) {
                Some(option) => (option.values.clone(), option.current.clone()),
                None => (known.to_vec(), now.clone()),
            }
        };
        let in_modes = of("mode", &self.modes, &self.mode);
        let of_models = of("model", &self.models, &self.model);
        Offered {
            modes: in_modes.0,
            mode: in_modes.1,
            models: of_models.0,
            model: of_models.1,
            commands: Vec::new(),
        }
    }

    /// The agent has carried out a step.
    pub(crate) fn took(&mut self, step: &Step) {
        let text = |name: &str| step.params[name].as_str().map(str::to_owned);
        self.mode = text("modeId").or(self.mode.take());
        self.model = text("modelId").or(self.model.take());
        let id = text("configId");
        let option = self.options.iter_mut().find(|option| Some(&option.named.id) == id.as_ref());
        if let Some(option) = option {
            option.current = text("value");
        }
    }

    /// Setting one option can change what others offer; the response says so.
    pub(crate) fn refresh(&mut self, answer: &Value) {
        if answer["configOptions"].is_array() {
            self.options = options(&answer["configOptions"]);
        }
    }

    /// The call for the first of the wanted settings, which is removed from them; `None` if there are none left.
    ///
    /// What seems to be set already is set again: agents change their settings without telling.
    pub(crate) fn next(&self, wanted: &mut Settings) -> Option<Result<Step, AgentError>> {
        if let Some(model) = wanted.model.take() {
            return Some(self.model(&model));
        }
        if let Some(mode) = wanted.mode.take() {
            return Some(self.mode(&mode));
        }
        let (name, value) = wanted.options.pop_first()?;
        let option = self.options.iter().find(|option| is(&option.named, &name));
        // Agents call it differently; the protocol knows what it is.
        let option = option
            .or_else(|| if name == EFFORT { self.of_category("thought_level") } else { None });
        let known = self.options.iter().map(|option| &option.named);
        let option = option.ok_or_else(|| lacks("option", &name, known));
        Some(option.and_then(|option| option.set(&option.named.id, &value)))
    }

    fn model(&self, model: &str) -> Result<Step, AgentError> {
        if let Some(option) = self.of_category("model") {
            return option.set("model", model);
        }
        // Removed from the protocol, but still used by agents.
        let known = self.models.iter().find(|known| is(known, model));
        let known = known.ok_or_else(|| lacks("model", model, self.models.iter()))?;
        let params = json!({ "modelId": known.id });
        Ok(Step { method: "session/set_model", params })
    }

    fn mode(&self, mode: &str) -> Result<Step, AgentError> {
        if let Some(known) = self.modes.iter().find(|known| is(known, mode)) {
            let params = json!({ "modeId": known.id });
            return Ok(Step { method: "session/set_mode", params });
        }
        match self.of_category("mode") {
            Some(option) if self.modes.is_empty() => option.set("mode", mode),
            _ => Err(lacks("mode", mode, self.modes.iter())),
        }
    }

    /// The option of a category. If there are several, the one of that name: cline calls its providers models, too.
    fn of_category(&self, category: &str) -> Option<&Choosable> {
        let is_provider = |option: &&Choosable| option.named.id.to_lowercase().contains("provider");
        let all = || self.options.iter().filter(|option| option.category == category);
        all().find(|option| option.named.id == category).or_else(|| all().find(|o| !is_provider(o)))
    }

    /// What an agent reports as set, if that is not what was requested.
    pub(crate) fn differs(step: &Step, answer: &Value) -> Option<String> {
        let options = answer["configOptions"].as_array()?;
        let wanted = &step.params["configId"];
        let is_meant = |option: &&Value| option["id"] == *wanted || option["configId"] == *wanted;
        let option = options.iter().find(is_meant)?;
        let now = &option["currentValue"];
        (!now.is_null() && *now != step.params["value"])
            .then(|| now.as_str().map_or_else(|| now.to_string(), str::to_owned))
    }
}

impl Choosable {
    fn set(&self, what: &str, wanted: &str) -> Result<Step, AgentError> {
        let id = &self.named.id;
        let missing = || {
            if self.is_switch {
                let why = format!("value {wanted:?} for {what} (it has: true, false)");
                return AgentError::Unsupported(why);
            }
            lacks(what, wanted, self.values.iter())
        };
        let params = if self.is_switch {
            let value: bool = wanted.parse().map_err(|_| missing())?;
            json!({ "configId": id, "type": "boolean", "value": value })
        } else {
            let known = self.values.iter().find(|value| is(value, wanted)).ok_or_else(missing)?;
            let mut params = json!({ "configId": id, "value": known.id });
            if self.is_second {
                params["type"] = "id".into();
            }
            params
        };
        Ok(Step { method: "session/set_config_option", params })
    }
}

/// That an agent does not have something, with what it has instead.
fn lacks<'a>(what: &str, wanted: &str, known: impl Iterator<Item = &'a Named>) -> AgentError {
    let mut known: Vec<&str> = known.map(|known| known.id.as_str()).collect();
    let more = known.len().saturating_sub(MOST_NAMED);
    known.truncate(MOST_NAMED);
    let mut told = known.join(", ");
    if more > 0 {
        told.push_str(&format!(" and {more} more"));
    }
    if told.is_empty() {
        return AgentError::Unsupported(format!(
            "{what} {wanted:?}: it offers none to choose from"
        ));
    }
    AgentError::Unsupported(format!("{what} {wanted:?} (it has: {told})"))
}

fn named(list: &Value, id: &str) -> Vec<Named> {
    let list = list.as_array().map(Vec::as_slice).unwrap_or_default();
    list.iter().filter_map(|item| one(item, id)).collect()
}

fn one(item: &Value, id: &str) -> Option<Named> {
    let id = item[id].as_str()?.to_owned();
    let name = item["name"].as_str().map_or_else(|| id.clone(), str::to_owned);
    Some(Named { id, name })
}

fn options(list: &Value) -> Vec<Choosable> {
    let list = list.as_array().map(Vec::as_slice).unwrap_or_default();
    let options = list.iter().filter_map(|option| {
        // Version 2 calls it otherwise, and wants the kind of a value named.
        let (named, is_second) = match one(option, "id") {
            Some(named) => (named, false),
            None => (one(option, "configId")?, true),
        };
        let category = option["category"].as_str().unwrap_or(&named.id).to_owned();
        let mut values = self::named(&option["options"], "value");
        // They may be grouped.
        for group in option["options"].as_array().into_iter().flatten() {
            values.extend(self::named(&group["options"], "value"));
        }
        let is_switch = option["currentValue"].is_boolean();
        let current = option["currentValue"].as_str().map(str::to_owned);
        Some(Choosable { named, category, is_switch, is_second, values, current })
    });
    options.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effort_is_what_the_protocol_calls_the_level_of_thought() {
        let option = |id: &str, category: &str| {
            json!({ "configOptions": [{
                "id": id, "name": id, "category": category, "currentValue": "low",
                "options": [{ "value": "low", "name": "low" }, { "value": "high", "name": "high" }],
            }] })
        };
        let wish = || wanted("", "", &[("effort", "high")]);
        for (answer, id) in [
            (option("reasoning_effort", "thought_level"), "reasoning_effort"),
            (option("effort", "other"), "effort"),
        ] {
            let params = json!({ "configId": id, "value": "high" });
            let step = ("session/set_config_option".to_owned(), params);
            assert_eq!(steps(&answer, wish()), [Ok(step)]);
        }
        assert!(steps(&option("speed", "other"), wish())[0].is_err());
    }

    fn steps(answer: &Value, mut wanted: Settings) -> Vec<Result<(String, Value), String>> {
        let offers = Offers::read(answer);
        let mut steps = Vec::new();
        while let Some(step) = offers.next(&mut wanted) {
            let step = step.map(|step| (step.method.to_owned(), step.params));
            steps.push(step.map_err(|trouble| trouble.to_string()));
        }
        steps
    }

    fn wanted(model: &str, mode: &str, options: &[(&str, &str)]) -> Settings {
        let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let options = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Settings { model: some(model), mode: some(mode), options: options.collect() }
    }

    #[test]
    fn old_agents_have_calls_of_their_own_for_mode_and_model() {
        let answer = json!({
            "modes": { "currentModeId": "ask", "availableModes": [
                { "id": "ask", "name": "Ask" }, { "id": "code", "name": "Write code" } ] },
            "models": { "availableModels": [{ "modelId": "m-1", "name": "Model One" }] },
        });
        assert_eq!(
            steps(&answer, wanted("model one", "code", &[])),
            [
                Ok(("session/set_model".to_owned(), json!({ "modelId": "m-1" }))),
                Ok(("session/set_mode".to_owned(), json!({ "modeId": "code" }))),
            ]
        );
        let unknown = steps(&answer, wanted("m-2", "fly", &[("x", "y")]));
        assert!(unknown.iter().all(Result::is_err), "{unknown:?}");
    }

    #[test]
    fn new_agents_have_options_for_everything() {
        let answer = json!({ "configOptions": [
            { "id": "mode", "category": "mode", "type": "select", "currentValue": "ask",
              "options": [{ "value": "ask", "name": "Ask" }, { "value": "code", "name": "Code" }] },
            { "id": "llm", "name": "Model", "category": "model", "type": "select", "currentValue": "a",
              "options": [{ "group": "g", "name": "G", "options": [{ "value": "b", "name": "Bee" }] }] },
            { "id": "web", "name": "Web search", "type": "boolean", "currentValue": false },
        ] });
        let steps = steps(&answer, wanted("bee", "code", &[("web", "true"), ("web search", "no")]));
        let set = |params: Value| Ok(("session/set_config_option".to_owned(), params));
        assert_eq!(
            steps,
            [
                set(json!({ "configId": "llm", "value": "b" })),
                set(json!({ "configId": "mode", "value": "code" })),
                set(json!({ "configId": "web", "type": "boolean", "value": true })),
                Err("the agent has no value \"no\" for web (it has: true, false)".to_owned()),
            ]
        );
    }

    #[test]
    fn version_2_has_other_names() {
        let answer = json!({ "configOptions": [
            { "configId": "mode", "category": "mode", "type": "select", "currentValue": "ask",
              "options": [{ "value": "code", "name": "Code" }] },
        ] });
        let set = json!({ "configId": "mode", "type": "id", "value": "code" });
        let call = "session/set_config_option".to_owned();
        assert_eq!(steps(&answer, wanted("", "code", &[])), [Ok((call, set.clone()))]);
        let step = Step { method: "session/set_config_option", params: set };
        assert_eq!(Offers::differs(&step, &answer).as_deref(), Some("ask"));
    }

    #[test]
    fn what_there_is_not_is_told_with_what_there_is() {
        let list = |ids: &[&str], id: &str| -> Vec<Value> {
            ids.iter().map(|one| json!({ id: one, "name": one })).collect()
        };
        let many: Vec<String> = (0..20).map(|number| format!("m{number}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let answer = json!({
            "modes": { "availableModes": list(&["ask", "code"], "id") },
            "models": { "availableModels": list(&many, "modelId") },
            "configOptions": [{ "id": "web", "type": "boolean", "currentValue": false }],
        });
        let told = |wanted: Settings| steps(&answer, wanted).remove(0).unwrap_err();
        let mode = told(wanted("", "fly", &[]));
        assert_eq!(mode, "the agent has no mode \"fly\" (it has: ask, code)");
        let model = told(wanted("m-2", "", &[]));
        assert!(model.contains("(it has: m0, m1, ") && model.ends_with(" and 8 more)"), "{model}");
        let option = told(wanted("", "", &[("wob", "true")]));
        assert_eq!(option, "the agent has no option \"wob\" (it has: web)");
        let none = steps(&json!({}), wanted("m", "", &[])).remove(0).unwrap_err();
        assert_eq!(none, "the agent has no model \"m\": it offers none to choose from");
    }

    #[test]
    fn what_there_is_can_be_listed_and_what_is_set_is_known() {
        let mut offers = Offers::read(&json!({
            "modes": { "currentModeId": "ask", "availableModes": [
                { "id": "ask", "name": "Ask" }, { "id": "code", "name": "Code" } ] },
            "configOptions": [{ "id": "llm", "name": "Model", "category": "model", "currentValue": "a",
                "options": [{ "value": "a", "name": "A" }, { "value": "b", "name": "B" }] }],
        }));
        let shown = |offered: Offered| {
            let ids = |all: &[Named]| all.iter().map(|one| one.id.clone()).collect::<Vec<_>>();
            (ids(&offered.modes), offered.mode, ids(&offered.models), offered.model)
        };
        let of = |mode: &str, model: &str| {
            let all = |ids: [&str; 2]| ids.map(str::to_owned).to_vec();
            (all(["ask", "code"]), Some(mode.to_owned()), all(["a", "b"]), Some(model.to_owned()))
        };
        assert_eq!(shown(offers.offered()), of("ask", "a"));
        let mut wanted = wanted("b", "code", &[]);
        while let Some(step) = offers.next(&mut wanted) {
            offers.took(&step.unwrap());
        }
        assert_eq!(shown(offers.offered()), of("code", "b"));
    }

    #[test]
    fn a_provider_is_no_model() {
        // As cline has it.
        let option = |id: &str, values: &[&str]| {
            let values: Vec<Value> =
                values.iter().map(|one| json!({ "value": one, "name": one })).collect();
            json!({ "id": id, "category": "model", "type": "select", "currentValue": values[0]["value"], "options": values })
        };
        let answer = json!({ "configOptions":
            [option("provider", &["cline", "openai"]), option("model", &["gpt-4o"])] });
        let set = json!({ "configId": "model", "value": "gpt-4o" });
        let call = "session/set_config_option".to_owned();
        assert_eq!(steps(&answer, wanted("gpt-4o", "", &[])), [Ok((call, set))]);
        let told = steps(&answer, wanted("openai", "", &[])).remove(0).unwrap_err();
        assert_eq!(told, "the agent has no model \"openai\" (it has: gpt-4o)");
        let only = json!({ "configOptions": [option("provider", &["cline"])] });
        assert!(steps(&only, wanted("cline", "", &[])).remove(0).is_err());
    }

    #[test]
    fn what_is_set_is_read_back() {
        let params = json!({ "configId": "mode", "value": "ask" });
        let step = Step { method: "session/set_config_option", params };
        let says = |now: &str| json!({ "configOptions": [{ "id": "mode", "currentValue": now }] });
        assert_eq!(Offers::differs(&step, &says("ask")), None);
        assert_eq!(Offers::differs(&step, &says("auto")).as_deref(), Some("auto"));
        assert_eq!(Offers::differs(&step, &json!({})), None);
    }
}
