//! Requests, at the world that serves the jobs.

use turnwheel_runtime::Context;

use super::{Answer, Edit, Roster};
use crate::error::JobError;
use crate::launch::Launch;
use crate::limits::TIMES_MAX;
use crate::request::{JobAnswer, JobRequest, Recent, Reply};
use crate::spec::JobSpec;
use crate::view::JobView;

fn view(done: Result<JobView, JobError>) -> Result<JobAnswer, JobError> {
    done.map(|view| JobAnswer::View(Box::new(view)))
}

fn view_to(to: Reply) -> Answer {
    Box::new(move |done| to.tell(view(done)))
}

impl Roster {
    /// Serves a request.
    pub(super) fn serve(&mut self, request: JobRequest, to: Reply, cx: &mut Context<'_, Self>) {
        let name = request.name().map(str::to_owned);
        name.iter().for_each(|name| self.rouse(name));
        self.serve_roused(request, to, cx);
        name.iter().for_each(|name| self.lay_down(name));
    }

    fn serve_roused(&mut self, request: JobRequest, to: Reply, cx: &mut Context<'_, Self>) {
        match request {
            JobRequest::Put { spec, revision, by } => {
                self.put(Edit { spec: *spec, revision, by }, view_to(to), cx);
            }
            JobRequest::Check { edits } => {
                to.tell(Ok(JobAnswer::Problems(self.check_edits(edits))));
            }
            JobRequest::Get { name } => {
                to.tell(view(self.found(&name).map(|entry| self.view(&name, entry))));
            }
            JobRequest::List { after, limit } => {
                to.tell(Ok(JobAnswer::Views(self.views(&after, limit))));
            }
            JobRequest::Remove { name, revision } => {
                self.remove(&name, revision, view_to(to), cx);
            }
            JobRequest::Toggle { name, disabled, by } => {
                match self.found(&name).map(|entry| entry.record.spec.clone()) {
                    Err(error) => to.tell(Err(error)),
                    Ok(spec) => {
                        let mut spec = JobSpec::clone(&spec);
                        spec.disabled = disabled.unwrap_or(!spec.disabled);
                        self.put(Edit { spec, revision: None, by }, view_to(to), cx);
                    }
                }
            }
            JobRequest::Run { name, by, is_forced, key } => {
                self.run(&name, (&by, is_forced, key), to, cx);
            }
            JobRequest::Cancel { name, launch, by } => self.end_launch(&name, launch, &by, to, cx),
            JobRequest::Answer { name, launch, answer, by } => {
                self.answer(&name, (launch, answer), &by, to, cx);
            }
            JobRequest::Forget { name } => self.forget(&name, to, cx),
            JobRequest::Began { name, launch, key, at } => {
                self.run_began(&name, (launch, &key), at, cx);
                to.tell(Ok(JobAnswer::Done));
            }
            JobRequest::Busy => to.tell(Ok(JobAnswer::Busy(self.busy()))),
            JobRequest::Recent { name } => to.tell(self.recent(&name)),
            JobRequest::Times { name, limit } => {
                let now = self.now();
                let found = self.found(&name);
                let found = found.map(|entry| entry.next_launches(now, limit.min(TIMES_MAX)));
                to.tell(found.map(JobAnswer::Next));
            }
            JobRequest::Server => to.tell(Ok(JobAnswer::Node(self.node.clone()))),
            JobRequest::PausedBy => to.tell(Ok(JobAnswer::PausedBy(self.paused_by.clone()))),
            JobRequest::Pause { by } => self.pause(by, to, cx),
        }
    }

    /// The launches at work, by job. A job at rest has none.
    fn busy(&self) -> Vec<(String, Launch)> {
        let there = self.entries.iter().filter(|(_, entry)| !entry.is_removed);
        let all = there.flat_map(|(name, entry)| {
            let busy = entry.record.active.iter().filter(|launch| launch.is_at_work());
            busy.map(|launch| (name.clone(), launch.clone()))
        });
        let mut all: Vec<(String, Launch)> = all.collect();
        all.iter_mut().for_each(|(_, launch)| launch.show_waiting());
        all
    }

    fn recent(&self, name: &str) -> Result<JobAnswer, JobError> {
        let record = &self.found(name)?.record;
        let (pages, made, keep) = (record.pages, record.created_at, record.spec.keep);
        let ended = record.ended.iter().map(AsRef::as_ref);
        let launches = record.active.iter().chain(ended).cloned().collect();
        let from = record.kept_from(self.now());
        let recent = Recent { launches, pages, made, keep, from };
        Ok(JobAnswer::Recent(Box::new(recent)))
    }

    /// Refuses what only a server does, or a job that is not there.
    fn may_launch(&self, name: &str) -> Result<(), JobError> {
        match self.is_at_rest {
            true => Err(JobError::AtRest),
            false => self.found(name).map(drop),
        }
    }

    /// Launches a job by hand, once for each key.
    fn run(
        &mut self,
        name: &str,
        (by, is_forced, key): (&str, bool, Option<String>),
        to: Reply,
        cx: &mut Context<'_, Self>,
    ) {
        if let Err(error) = self.may_launch(name) {
            return to.tell(Err(error));
        }
        let launched = self.decide(name, |turn| match key {
            Some(key) => turn.by_hand_once(by, is_forced, key),
            None => turn.by_hand(by, is_forced).map(JobAnswer::Launch),
        });
        let launched = launched.unwrap_or_else(|| Err(JobError::Unknown(name.to_owned())));
        let answer: Answer = Box::new(move |done| to.tell(done.and(launched)));
        self.changed(name, answer, cx);
    }

    /// Ends a launch.
    fn end_launch(
        &mut self,
        name: &str,
        launch: u64,
        by: &str,
        to: Reply,
        cx: &mut Context<'_, Self>,
    ) {
        if let Err(error) = self.may_launch(name) {
            return to.tell(Err(error));
        }
        let why = format!("cancelled by {by}");
        let ended = self.decide(name, |turn| turn.end(launch, by, &why));
        if ended != Some(true) {
            self.advance(name, cx);
            return to.tell(Err(self.not_under_way(name, launch)));
        }
        self.changed(name, view_to(to), cx);
    }

    /// Takes the outcome of a launch that nobody knew.
    fn answer(
        &mut self,
        name: &str,
        (launch, answer): (u64, crate::Answer),
        by: &str,
        to: Reply,
        cx: &mut Context<'_, Self>,
    ) {
        if let Err(error) = self.may_launch(name) {
            return to.tell(Err(error));
        }
        let taken = self.decide(name, |turn| turn.answer(launch, answer, by));
        match taken.unwrap_or_else(|| Err(JobError::Unknown(name.to_owned()))) {
            Ok(()) => self.changed(name, view_to(to), cx),
            Err(error) => {
                self.advance(name, cx);
                to.tell(Err(error));
            }
        }
    }

    /// Why there is nothing to cancel: a launch is over, or was never there.
    fn not_under_way(&self, name: &str, launch: u64) -> JobError {
        let job = name.to_owned();
        match self.found(name).ok().and_then(|entry| entry.record.launch(launch)) {
            Some(over) => JobError::LaunchOver { job, launch, state: over.state.name().into() },
            None => JobError::UnknownLaunch { job, launch: launch.to_string() },
        }
    }

    /// Forgets the history of a job with its counts and last times.
    fn forget(&mut self, name: &str, to: Reply, cx: &mut Context<'_, Self>) {
        if let Err(error) = self.found(name) {
            return to.tell(Err(error));
        }
        if let Some(entry) = self.entries.get_mut(name) {
            let record = &mut entry.record;
            // Times that come again have no rows to tell that they were decided.
            record.settled = record.decided.max(record.replay_until);
            record.ended.clear();
            record.pages.0 = record.pages.1;
            record.counts = Default::default();
            (record.last_success, record.last_error, record.status) = (None, None, None);
            record.is_failing = false;
        }
        self.changed(name, view_to(to), cx);
    }

    /// Refuses new and changed jobs, or takes them again.
    fn pause(&mut self, by: Option<String>, to: Reply, cx: &mut Context<'_, Self>) {
        let (store, version, term) = (self.store.clone(), self.paused_version, self.term);
        let given = by.clone();
        let saved = async move { store.save_paused(given, version).await };
        cx.await_interleaved(saved, move |roster: &mut Self, _, outcome| {
            let outcome = outcome.map_err(|error| JobError::Failed(error.to_string()));
            to.tell(outcome.map(|version| {
                if roster.term == term {
                    (roster.paused_by, roster.paused_version) = (by, version);
                }
                JobAnswer::Done
            }));
        });
    }
}
