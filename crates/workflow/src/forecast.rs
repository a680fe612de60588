//! What a plan leads to, before it is begun: in which order tasks run, which of them at once, and what they are likely to take.

use std::collections::{BTreeSet, HashMap};

use super::record::Used;
use super::task::TaskSpec;

/// What earlier tasks of an agent took.
#[derive(Debug, Clone, PartialEq)]
pub struct Experience {
    pub agent: String,
    pub used: Used,
}

/// What a plan is likely to take.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Estimate {
    /// How many earlier tasks it is judged by.
    pub judged_by: usize,
    pub tokens: u64,
    /// `None` if no agent said what a task cost.
    pub cost_usd: Option<f64>,
    /// With so many tasks at once as are allowed.
    pub seconds: u64,
}

/// The tasks that are still to be done, in steps: those of a step run at once, if each task takes as long as any other.
pub fn steps(tasks: &[TaskSpec], jobs: usize) -> Vec<Vec<&TaskSpec>> {
    let open: HashMap<&str, usize> = (0..)
        .zip(tasks)
        .filter(|(_, task)| !task.state.is_done())
        .map(|(at, task)| (task.id.as_str(), at))
        .collect();
    let mut waits_for = vec![0_usize; tasks.len()];
    let mut leads_to: Vec<Vec<usize>> = vec![Vec::new(); tasks.len()];
    for (&id, &at) in &open {
        for on in tasks[at].depends_on.iter().filter(|on| on.as_str() != id) {
            if let Some(&on) = open.get(on.as_str()) {
                waits_for[at] += 1;
                leads_to[on].push(at);
            }
        }
    }
    let mut ready: BTreeSet<usize> =
        open.values().copied().filter(|at| waits_for[*at] == 0).collect();
    let mut steps = Vec::new();
    while !ready.is_empty() {
        let step: Vec<usize> = ready.iter().copied().take(jobs.max(1)).collect();
        for at in &step {
            ready.remove(at);
            for &next in &leads_to[*at] {
                waits_for[next] -= 1;
                if waits_for[next] == 0 {
                    ready.insert(next);
                }
            }
        }
        steps.push(step.into_iter().map(|at| &tasks[at]).collect());
    }
    steps
}

/// What these steps are likely to take, judged by what earlier tasks took: those of the same agent, where there are any. `None`
/// where there is nothing to judge by.
pub fn estimate(steps: &[Vec<&TaskSpec>], agent: &str, earlier: &[Experience]) -> Option<Estimate> {
    if earlier.is_empty() {
        return None;
    }
    let mut known: HashMap<&str, Mean> = HashMap::new();
    let mut all = Mean::default();
    for one in earlier {
        known.entry(one.agent.as_str()).or_default().add(&one.used);
        all.add(&one.used);
    }
    let mean = |task: &TaskSpec| {
        let agent = task.agent.as_deref().unwrap_or(agent);
        known.get(agent).unwrap_or(&all)
    };
    let mut sum = Estimate { judged_by: earlier.len(), ..Estimate::default() };
    for step in steps {
        for task in step {
            let mean = mean(task);
            sum.tokens = sum.tokens.saturating_add(mean.tokens());
            if let Some(cost) = mean.cost() {
                sum.cost_usd = Some(sum.cost_usd.unwrap_or(0.0) + cost);
            }
        }
        sum.seconds += step.iter().map(|task| mean(task).seconds()).max().unwrap_or(0);
    }
    Some(sum)
}

/// The mean of what tasks took.
#[derive(Debug, Default)]
struct Mean {
    count: u64,
    tokens: u64,
    seconds: u64,
    cost_usd: f64,
    /// How many said what they cost.
    priced: u32,
}

impl Mean {
    fn add(&mut self, used: &Used) {
        self.count += 1;
        self.tokens = self.tokens.saturating_add(used.tokens);
        self.seconds = self.seconds.saturating_add(used.seconds);
        if let Some(cost) = used.cost_usd {
            self.cost_usd += cost;
            self.priced += 1;
        }
    }

    const fn tokens(&self) -> u64 {
        self.tokens / if self.count == 0 { 1 } else { self.count }
    }

    const fn seconds(&self) -> u64 {
        self.seconds / if self.count == 0 { 1 } else { self.count }
    }

    fn cost(&self) -> Option<f64> {
        (self.priced > 0).then(|| self.cost_usd / f64::from(self.priced))
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::parse;
    use super::*;

    fn ids<'a>(steps: &'a [Vec<&TaskSpec>]) -> Vec<Vec<&'a str>> {
        steps.iter().map(|step| step.iter().map(|task| task.id.as_str()).collect()).collect()
    }

    const PLAN: &str = "- [ ] d: x (depends on: b, c)\n- [ ] b: x (depends on: a)\n- [ ] c: x (depends on: a; agent: other)\n- [x] z: x\n- [ ] a: x (depends on: z)\n- [ ] e: x\n";

    #[test]
    fn tasks_are_put_in_order_with_what_runs_at_once() {
        let tasks = parse(PLAN).unwrap().tasks;
        let one = [["a"], ["b"], ["c"], ["d"], ["e"]];
        assert_eq!(ids(&steps(&tasks, 1)), one, "the first that may begin, as the plan has them");
        let two: [&[&str]; 3] = [&["a", "e"], &["b", "c"], &["d"]];
        assert_eq!(ids(&steps(&tasks, 2)), two);
    }

    #[test]
    fn what_a_plan_takes_is_judged_by_earlier_tasks_of_the_same_agent() {
        let tasks = parse(PLAN).unwrap().tasks;
        let steps = steps(&tasks, 2);
        assert_eq!(estimate(&steps, "ref", &[]), None);
        let took = |agent: &str, tokens, cost_usd, seconds| Experience {
            agent: agent.to_owned(),
            used: Used { tokens, cost_usd, seconds, ..Used::default() },
        };
        let earlier = [
            took("ref", 100, Some(1.0), 10),
            took("ref", 300, None, 30),
            took("other", 1_000, Some(5.0), 60),
        ];
        let expected = Estimate {
            judged_by: 3,
            tokens: 4 * 200 + 1_000,
            cost_usd: Some(9.0),
            seconds: 20 + 60 + 20,
        };
        assert_eq!(estimate(&steps, "ref", &earlier), Some(expected));
        // Of an agent that is new here nothing is known: all tell.
        let new = estimate(&steps, "new", &earlier).unwrap();
        assert_eq!(new.tokens, 4 * (1_400 / 3) + 1_000);
    }

    #[test]
    fn a_long_chain_costs_little() {
        let line = |at: usize| match at {
            0 => "- [ ] t0: x\n".to_owned(),
            at => format!("- [ ] t{at}: x (depends on: t{})\n", at - 1),
        };
        let text: String = (0..super::super::plan::MOST_TASKS).map(line).collect();
        let tasks = parse(&text).unwrap().tasks;
        assert_eq!(steps(&tasks, 3).len(), tasks.len());
    }
}
