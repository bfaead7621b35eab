//! Jobs, their launches and outputs. Answers are JSON as `docs/jobs.md` shows it.

use serde_json::{json, Value};

use super::{encoded, understand, Client, ClientError, WITHIN};

impl Client {
    /// A page of the jobs, by name: at most so many, from a cursor on.
    ///
    /// # Errors
    ///
    /// The server has no jobs, or does not answer.
    pub fn jobs(&self, limit: u32, cursor: Option<&str>) -> Result<Value, ClientError> {
        let cursor = cursor.map_or_else(String::new, |at| format!("&cursor={}", encoded(at)));
        self.get(&format!("/jobs?limit={limit}{cursor}"))
    }

    /// A job with its settings and its state.
    ///
    /// # Errors
    ///
    /// There is no such job, or the server does not answer.
    pub fn job(&self, name: &str) -> Result<Value, ClientError> {
        self.get(&job_path(name))
    }

    /// Makes a job, or replaces the settings of the one with this name; with a revision only if it
    /// has that still.
    ///
    /// # Errors
    ///
    /// A setting is wrong, the job was changed since, or the server does not answer.
    pub fn put_job(
        &self,
        name: &str,
        spec: &Value,
        revision: Option<u64>,
    ) -> Result<Value, ClientError> {
        let query = revision.map_or_else(String::new, |revision| format!("?revision={revision}"));
        let path = format!("{}{query}", job_path(name));
        understand(&self.send("PUT", &path, &[], spec, WITHIN)?)
    }

    /// Says why jobs would be refused, but for their parents; each is `{"spec": …, "revision": …}`. Nothing is
    /// stored.
    ///
    /// # Errors
    ///
    /// A body makes no sense, there are more than 200 jobs, or the server does not answer.
    pub fn check_jobs(&self, jobs: &[Value]) -> Result<Value, ClientError> {
        understand(&self.send("POST", "/job-check", &[], &json!({ "jobs": jobs }), WITHIN)?)
    }

    /// Removes a job that no other one runs after.
    ///
    /// # Errors
    ///
    /// There is no such job, it has dependants, or the server does not answer.
    pub fn remove_job(&self, name: &str) -> Result<Value, ClientError> {
        understand(&self.ask("DELETE", &job_path(name), &[], None, WITHIN)?)
    }

    /// Launches a job by hand; with force also beside launches that are under way.
    ///
    /// # Errors
    ///
    /// There is no such job, its overlap policy refuses the launch, or the server does not answer.
    pub fn run_job(&self, name: &str, force: bool) -> Result<Value, ClientError> {
        self.order_job(name, "run", &json!({ "force": force }))
    }

    /// Disables a job or enables it; the other one of both if nothing is said.
    ///
    /// # Errors
    ///
    /// There is no such job, or the server does not answer.
    pub fn toggle_job(&self, name: &str, disabled: Option<bool>) -> Result<Value, ClientError> {
        self.order_job(name, "toggle", &json!({ "disabled": disabled }))
    }

    /// Cancels a launch that is under way or waits.
    ///
    /// # Errors
    ///
    /// There is no such launch, or the server does not answer.
    pub fn cancel_job(&self, name: &str, launch: u64) -> Result<Value, ClientError> {
        self.order_job(name, "cancel", &json!({ "launch": launch }))
    }

    /// Says the outcome of a launch that nobody knows: `succeeded`, `failed`, or `retry`.
    ///
    /// # Errors
    ///
    /// There is no such launch, it asks for nothing, or the server does not answer.
    pub fn answer_job(&self, name: &str, launch: u64, outcome: &str) -> Result<Value, ClientError> {
        self.order_job(name, "answer", &json!({ "launch": launch, "outcome": outcome }))
    }

    fn order_job(&self, name: &str, order: &str, body: &Value) -> Result<Value, ClientError> {
        let path = format!("{}/{order}", job_path(name));
        understand(&self.send("POST", &path, &[], body, WITHIN)?)
    }

    /// Launches of a job, the newest first: at most so many, before one.
    ///
    /// # Errors
    ///
    /// There is no such job, or the server does not answer.
    pub fn job_history(
        &self,
        name: &str,
        before: Option<u64>,
        limit: u32,
    ) -> Result<Value, ClientError> {
        let before = before.map_or_else(String::new, |before| format!("&before={before}"));
        self.get(&format!("{}/history?limit={limit}{before}", job_path(name)))
    }

    /// Forgets the history of a job with its counts and last times.
    ///
    /// # Errors
    ///
    /// There is no such job, or the server does not answer.
    pub fn forget_job_history(&self, name: &str) -> Result<Value, ClientError> {
        let path = format!("{}/history", job_path(name));
        understand(&self.ask("DELETE", &path, &[], None, WITHIN)?)
    }

    /// The next times of a job, at most so many.
    ///
    /// # Errors
    ///
    /// There is no such job, or the server does not answer.
    pub fn job_times(&self, name: &str, limit: u32) -> Result<Value, ClientError> {
        self.get(&format!("{}/times?limit={limit}", job_path(name)))
    }

    /// The output that the last run of a launch has kept.
    ///
    /// # Errors
    ///
    /// There is no such launch, or the server does not answer.
    pub fn job_output(&self, name: &str, launch: u64) -> Result<Value, ClientError> {
        self.get(&format!("{}/launches/{launch}/output", job_path(name)))
    }

    /// The executors of the node, and whether each can work.
    ///
    /// # Errors
    ///
    /// The server has no jobs, or does not answer.
    pub fn job_executors(&self) -> Result<Value, ClientError> {
        self.get("/job-executors")
    }
}

fn job_path(name: &str) -> String {
    format!("/jobs/{}", encoded(name))
}
