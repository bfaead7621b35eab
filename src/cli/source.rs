//! Places that verbs look at: the store of the settings, or a server. Both answer in the shapes of
//! the API.

use std::time::{Duration, SystemTime};

use turnwheel::api::{
    EndedPlans, HistoryLine, PlanDetail, PlanSummary, ScheduleInfo, StepInfo, Tree,
};
use turnwheel::engine::store::{Filter, Order, StoreView};
use turnwheel::engine::{PlanId, PlanState, Presenter, StepId, Time, World};
use turnwheel::flow::WithFlows;
use turnwheel::shape;

use super::exit::Exit;
use super::outside::host_io;
use super::place::{no_server_can, Place};
use super::remote::Remote;
use super::settings::Settings;

/// Rows in one answer of a server, at most.
const PAGE_MAX: usize = 1_000;

/// Schedules that are read at once.
const SCHEDULES: usize = 1_000;

/// A place to look at.
pub(crate) enum Source {
    /// A store, also while another process has it; and what shows the actions of flows.
    Store(StoreView, Box<Presenter>),
    /// A server.
    Server(Remote),
}

impl Source {
    /// The server of the settings, else the store.
    pub(crate) fn of(settings: &Settings) -> Result<Self, Exit> {
        if settings.asks_server() {
            return Ok(Self::Server(Remote::new("", settings)?));
        }
        let presenter = World::builder().flows(host_io(settings)).presenter();
        Ok(Self::Store(Place::of(settings).view()?, Box::new(presenter)))
    }

    /// The store itself, for verbs that read more than a server tells.
    pub(crate) fn store(&mut self) -> Result<&mut StoreView, Exit> {
        match self {
            Self::Store(view, _) => Ok(view),
            Self::Server(server) => Err(no_server_can(server.address())),
        }
    }

    /// The plans that fit, up to the limit of the filter.
    pub(crate) fn list(&mut self, filter: &Filter) -> Result<Vec<PlanSummary>, Exit> {
        match self {
            Self::Store(view, _) => Ok(view.list(filter)?.into_iter().map(shape::row).collect()),
            Self::Server(server) => pages(server, filter, None),
        }
    }

    /// The same, of one node if one is named; a store knows none ([`Which::refuse_node`]).
    ///
    /// [`Which::refuse_node`]: super::find::Which::refuse_node
    pub(crate) fn list_of(
        &mut self,
        filter: &Filter,
        node: Option<&str>,
    ) -> Result<Vec<PlanSummary>, Exit> {
        match self {
            Self::Server(server) => pages(server, filter, node),
            Self::Store(..) => self.list(filter),
        }
    }

    /// A plan, without its steps.
    pub(crate) fn plan(&mut self, id: PlanId) -> Result<PlanDetail, Exit> {
        match self {
            Self::Store(view, presenter) => Ok(shape::plan(&**presenter, &view.plan(id)?)),
            Self::Server(server) => server.ask(|client| client.plan(&id.to_string())),
        }
    }

    /// All steps of a plan.
    pub(crate) fn steps(&mut self, id: PlanId) -> Result<Vec<StepInfo>, Exit> {
        match self {
            Self::Store(view, presenter) => {
                let plan = view.plan(id)?;
                Ok(plan.steps.iter().map(|step| shape::step(&**presenter, &plan, step)).collect())
            }
            Self::Server(server) => {
                let (mut steps, mut cursor) = (Vec::new(), None);
                loop {
                    let id = id.to_string();
                    let page = server.ask(|client| client.steps(&id, cursor.as_deref()))?;
                    steps.extend(page.steps);
                    cursor = page.next;
                    if cursor.is_none() {
                        return Ok(steps);
                    }
                }
            }
        }
    }

    /// A step of a plan.
    pub(crate) fn step(&mut self, id: PlanId, number: u32) -> Result<StepInfo, Exit> {
        match self {
            Self::Store(view, presenter) => {
                let plan = view.plan(id)?;
                let step = plan.find_step(StepId(number)).ok_or_else(|| {
                    Exit::not_found(format!("plan {id} has no step {number}"))
                        .advice("turnwheel show without --step lists its steps")
                })?;
                Ok(shape::step(&**presenter, &plan, step))
            }
            Self::Server(server) => server.ask(|client| client.step(&id.to_string(), number)),
        }
    }

    /// The lines of a plan's history, oldest first, and whether the plan is over. A server tells the
    /// newest ones.
    pub(crate) fn history(&mut self, id: PlanId) -> Result<(Vec<HistoryLine>, bool), Exit> {
        match self {
            Self::Store(view, _) => {
                let plan = view.plan(id)?;
                let line = |entry: &turnwheel::engine::plan::Entry| HistoryLine {
                    at: entry.at.to_string(),
                    text: entry.text.clone(),
                };
                let lines = plan.history.iter().map(line).collect();
                Ok((lines, plan.state == PlanState::Stopped))
            }
            Self::Server(server) => {
                let plan = server.ask(|client| client.plan(&id.to_string()))?;
                Ok((plan.history, plan.summary.state == PlanState::Stopped.name()))
            }
        }
    }

    /// The tree of a plan's actions.
    pub(crate) fn tree(&mut self, id: PlanId) -> Result<Tree, Exit> {
        match self {
            Self::Store(view, _) => Ok(shape::tree(view.plan(id)?.tree())),
            Self::Server(server) => {
                let id = id.to_string();
                let mut tree = server.ask(|client| client.tree(&id, &[("limit", "5000")]))?;
                while let Some(cursor) = tree.next.take() {
                    let part = [("limit", "5000"), ("cursor", cursor.as_str())];
                    let page = server.ask(|client| client.tree(&id, &part))?;
                    tree.nodes.extend(page.nodes);
                    tree.next = page.next;
                }
                Ok(tree)
            }
        }
    }

    /// Plans that have ended within the last hours.
    pub(crate) fn ended(&mut self, hours: u32) -> Result<EndedPlans, Exit> {
        match self {
            Self::Store(view, _) => {
                let span = Duration::from_secs(u64::from(hours) * 3_600);
                let now = Time::from(SystemTime::now());
                let tallies = view.tallies(Time(now.0.saturating_sub(span.as_micros() as u64)))?;
                Ok(shape::ended(&tallies, now, span, 1).all)
            }
            Self::Server(server) => Ok(server.ask(|client| client.ended(hours, 1))?.all),
        }
    }

    /// All schedules, by name.
    pub(crate) fn schedules(&mut self) -> Result<Vec<ScheduleInfo>, Exit> {
        let mut all: Vec<ScheduleInfo> = Vec::new();
        match self {
            Self::Store(view, _) => loop {
                let after = all.last().map_or("", |last| &last.name).to_owned();
                let page = view.schedules(&after, SCHEDULES)?;
                let is_last = page.len() < SCHEDULES;
                all.extend(page.into_iter().map(shape::schedule));
                if is_last {
                    return Ok(all);
                }
            },
            Self::Server(server) => {
                let mut cursor = None;
                loop {
                    let page = server.ask(|client| client.schedules(cursor.as_deref()))?;
                    all.extend(page.schedules);
                    cursor = page.next;
                    if cursor.is_none() {
                        return Ok(all);
                    }
                }
            }
        }
    }
}

/// The plans of a server that fit, page by page.
fn pages(server: &Remote, filter: &Filter, node: Option<&str>) -> Result<Vec<PlanSummary>, Exit> {
    let mut query = query(filter);
    query.extend(node.map(|node| ("node", node.to_owned())));
    let mut plans: Vec<PlanSummary> = Vec::new();
    loop {
        let limit = (filter.limit - plans.len()).min(PAGE_MAX).to_string();
        let mut part: Vec<(&str, &str)> =
            query.iter().map(|(name, value)| (*name, value.as_str())).collect();
        part.push(("limit", &limit));
        let page = server.ask(|client| client.plans(&part))?;
        plans.extend(page.plans);
        match page.next {
            Some(next) if plans.len() < filter.limit => {
                query.retain(|(name, _)| *name != "cursor");
                query.push(("cursor", next));
            }
            _ => return Ok(plans),
        }
    }
}

/// A filter as the query of the API.
fn query(filter: &Filter) -> Vec<(&'static str, String)> {
    let mut query = Vec::new();
    let mut add = |name, value: String| {
        if !value.is_empty() {
            query.push((name, value));
        }
    };
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let time = |time: Option<Time>| time.map_or_else(String::new, |time| time.to_string());
    let names = |names: Vec<&str>| names.join(",");
    add("state", names(filter.states.iter().map(|state| state.name()).collect()));
    add("result", names(filter.results.iter().map(|result| result.name()).collect()));
    add("waits", names(filter.waits.iter().map(|waits| waits.name()).collect()));
    add("label", text(&filter.label));
    add("name", text(&filter.name));
    add("text", text(&filter.text));
    let labels = filter.labels.iter().map(|(name, value)| match value {
        Some(value) => format!("{name}={value}"),
        None => name.clone(),
    });
    add("labels", labels.collect::<Vec<_>>().join(","));
    add("action", text(&filter.action));
    add("key", text(&filter.key));
    add("by", text(&filter.by));
    add("caller", filter.caller.map_or_else(String::new, |plan| plan.to_string()));
    add("created_from", time(filter.created_from));
    add("created_before", time(filter.created_before));
    add("ended_from", time(filter.ended_from));
    add("ended_before", time(filter.ended_before));
    let order = if filter.order == Order::OldestFirst { "oldest" } else { "newest" };
    add("order", order.to_owned());
    let behind = filter.before.or(filter.after);
    add("after_plan", behind.map_or_else(String::new, |plan| plan.to_string()));
    query
}
