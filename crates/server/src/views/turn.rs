//! Turns and the questions in them, as clients see them.

use jiff::Timestamp;
use rethread_engine::agents::Question;
use rethread_engine::views::OpeningView;
use rethread_redact::Redactor;
use serde::Serialize;
use utoipa::ToSchema;

use crate::state::App;
use crate::turns::{Turn, TurnState};

/// A turn with an agent, and its outcome.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TurnView {
    pub(crate) turn_id: String,
    session_id: String,
    agent: String,
    conversation: String,
    /// `running`, `ended`, `cancelled` or `failed`
    pub(crate) status: String,
    /// Questions that wait for an answer
    questions: Vec<QuestionView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<String>,
    /// Why the agent stopped, such as `end_turn` or `cancelled`
    #[serde(skip_serializing_if = "Option::is_none")]
    stop_reason: Option<String>,
    /// The outcome: `answered`, `no_answer`, `model_error`, `usage_limit`, or the stop reason
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<String>,
    /// When the usage limit ends, if the agent said so
    #[serde(skip_serializing_if = "Option::is_none")]
    resets_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    opened: Option<OpeningView>,
    /// The newest message of the conversation afterwards
    #[serde(skip_serializing_if = "Option::is_none")]
    upto: Option<u32>,
    /// What went wrong
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// Whether the session has the prompt; known once the turn is over
    #[serde(skip_serializing_if = "Option::is_none")]
    is_recorded: Option<bool>,
}

/// A permission question of the agent.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = TurnQuestion)]
pub(crate) struct QuestionView {
    #[schema(minimum = 1)]
    pub(crate) question_id: u32,
    /// The kind of action, such as `edit` or `execute`
    pub(crate) kind: String,
    /// The command or the files, in full; the agent's own words only if it gives nothing else
    pub(crate) title: String,
    /// What else it will do, and what to know about it
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) details: Vec<DetailView>,
    /// Why no lasting answer is offered although the agent offers one
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) not_for_good: Option<String>,
    /// Why only answers that refuse are offered
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) not_allowable: Option<&'static str>,
    pub(crate) options: Vec<OptionView>,
}

/// A detail of a question.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct DetailView {
    /// Such as `in`, `change` or `the agent calls it`
    pub(crate) label: String,
    pub(crate) text: String,
}

/// A possible answer.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct OptionView {
    #[schema(minimum = 1)]
    pub(crate) option_id: u32,
    /// What the agent calls it
    pub(crate) name: String,
    /// Its meaning: `allow_once`, `allow_always`, `reject_once` or `reject_always`
    pub(crate) kind: String,
}

/// Said of a question that cannot be read as a whole here.
const MASKED: &str = "something in it is masked as a secret; in a terminal all of it is shown";

impl QuestionView {
    /// Whether something of what will be done is masked: nobody is to allow what they have not seen.
    pub(crate) fn is_masked(redactor: &Redactor, question: &Question) -> bool {
        let is_masked = |text: &str| redactor.redact(text).text != text;
        is_masked(&question.intent.headline())
            || question.intent.details().iter().any(|detail| is_masked(&detail.text))
    }

    pub(crate) fn of(redactor: &Redactor, number: u32, question: &Question) -> Self {
        let clean = |text: &str| redactor.redact(text).text.into_owned();
        let options = (1..).zip(&question.options).map(|(number, option)| OptionView {
            option_id: number,
            name: clean(&option.name),
            kind: clean(&option.kind),
        });
        let details = question
            .intent
            .details()
            .into_iter()
            .map(|detail| DetailView { label: detail.label.to_owned(), text: clean(&detail.text) });
        Self {
            question_id: number,
            kind: clean(&question.intent.kind),
            title: clean(&question.intent.headline()),
            details: details.collect(),
            not_for_good: question.unlasting.map(str::to_owned),
            not_allowable: Self::is_masked(redactor, question).then_some(MASKED),
            options: options.collect(),
        }
    }
}

impl TurnView {
    pub(crate) fn of(app: &App, turn: &Turn) -> Self {
        let mut view = Self {
            turn_id: turn.id.to_string(),
            session_id: turn.session.to_string(),
            agent: turn.agent.clone(),
            conversation: turn.conversation.clone(),
            status: "running".to_owned(),
            questions: Vec::new(),
            answer: None,
            stop_reason: None,
            outcome: None,
            resets_at: None,
            opened: None,
            upto: None,
            error: None,
            is_recorded: None,
        };
        let stands = turn.state();
        if !matches!(stands, TurnState::Running) {
            view.is_recorded = Some(turn.unrecorded_prompt().is_none());
        }
        match stands {
            TurnState::Running => view.questions = turn.questions.open(),
            TurnState::Ended(answer) => {
                let status = if answer.error.is_some() { "failed" } else { "ended" };
                status.clone_into(&mut view.status);
                view.error = answer.error.as_deref().map(|error| app.clean(error));
                view.resets_at = answer.resets_at;
                view.outcome = Some(answer.outcome);
                view.answer = Some(app.clean(&answer.answer));
                view.opened = Some(OpeningView::from(&answer.opened));
                view.upto = Some(answer.upto);
                view.stop_reason = Some(answer.stop);
            }
            TurnState::Cancelled => "cancelled".clone_into(&mut view.status),
            TurnState::Failed(problem) => {
                "failed".clone_into(&mut view.status);
                view.error = Some(app.clean(&problem.detail));
            }
        }
        view
    }
}
