//! Schedules.

use super::{encoded, understand, Client, ClientError, WITHIN};
use crate::api;

impl Client {
    /// Makes a schedule, or changes the one with this name.
    ///
    /// # Errors
    ///
    /// Its settings are invalid, or the server does not answer.
    pub fn put_schedule(
        &self,
        name: &str,
        spec: &api::ScheduleSpec,
    ) -> Result<api::ScheduleInfo, ClientError> {
        let path = format!("/schedules/{}", encoded(name));
        understand(&self.send("PUT", &path, &[], spec, WITHIN)?)
    }

    /// A schedule.
    ///
    /// # Errors
    ///
    /// There is no such schedule, or the server does not answer.
    pub fn schedule(&self, name: &str) -> Result<api::ScheduleInfo, ClientError> {
        self.get(&format!("/schedules/{}", encoded(name)))
    }

    /// A page of the schedules by name, from a cursor on.
    ///
    /// # Errors
    ///
    /// The server does not answer, or refuses.
    pub fn schedules(&self, cursor: Option<&str>) -> Result<api::SchedulePage, ClientError> {
        let cursor = cursor.map_or(String::new(), |cursor| format!("?cursor={}", encoded(cursor)));
        self.get(&format!("/schedules{cursor}"))
    }

    /// Launches now, regardless of the overlap policy.
    ///
    /// # Errors
    ///
    /// There is no such schedule, its plan cannot be started, or the server does not answer.
    pub fn trigger_schedule(&self, name: &str) -> Result<api::Started, ClientError> {
        self.post(&format!("/schedules/{}/trigger", encoded(name)), &serde_json::json!({}))
    }

    /// The same with an idempotency key: the same call again answers the plan of the first one.
    ///
    /// # Errors
    ///
    /// As [`Client::trigger_schedule`].
    pub fn trigger_schedule_once(
        &self,
        name: &str,
        key: &str,
    ) -> Result<api::Started, ClientError> {
        let path = format!("/schedules/{}/trigger", encoded(name));
        let headers = [("idempotency-key", key)];
        understand(&self.send("POST", &path, &headers, &serde_json::json!({}), WITHIN)?)
    }

    /// Launches nothing more until the schedule is unpaused.
    ///
    /// # Errors
    ///
    /// There is no such schedule, or the server does not answer.
    pub fn pause_schedule(&self, name: &str, why: &str) -> Result<api::ScheduleInfo, ClientError> {
        let pause = api::SchedulePause { why: why.to_owned() };
        self.post(&format!("/schedules/{}/pause", encoded(name)), &pause)
    }

    /// Launches again; times passed meanwhile are not made up for.
    ///
    /// # Errors
    ///
    /// There is no such schedule, or the server does not answer.
    pub fn unpause_schedule(&self, name: &str) -> Result<api::ScheduleInfo, ClientError> {
        self.post(&format!("/schedules/{}/unpause", encoded(name)), &serde_json::json!({}))
    }

    /// Launches the times in a range.
    ///
    /// # Errors
    ///
    /// There is no such schedule, the range is invalid, or the server does not answer.
    pub fn backfill_schedule(
        &self,
        name: &str,
        range: &api::Backfill,
    ) -> Result<api::BackfillDone, ClientError> {
        self.post(&format!("/schedules/{}/backfill", encoded(name)), range)
    }

    /// The next times of a schedule, without jitter.
    ///
    /// # Errors
    ///
    /// There is no such schedule, or the server does not answer.
    pub fn schedule_times(&self, name: &str) -> Result<api::ScheduleTimes, ClientError> {
        self.get(&format!("/schedules/{}/times", encoded(name)))
    }

    /// Removes a schedule; its running plans continue.
    ///
    /// # Errors
    ///
    /// There is no such schedule, or the server does not answer.
    pub fn remove_schedule(&self, name: &str) -> Result<(), ClientError> {
        self.ask("DELETE", &format!("/schedules/{}", encoded(name)), &[], None, WITHIN).map(drop)
    }
}
