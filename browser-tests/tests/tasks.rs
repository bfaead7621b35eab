//! The tasks of `docs/tasks.md` by the console: the steps are those that the page names, three at most.
//!
//! A step is one press outside of a dialog, or one field; what a dialog asks belongs to the step that
//! has opened it.

use std::collections::VecDeque;

use serde_json::json;
use turnwheel_browser::{Chromium, Page, Served};

const DOCUMENT: &str = include_str!("../../docs/tasks.md");
const TASKS: usize = 25;
const STEPS_MAX: usize = 3;

/// The steps of a task by the console, as the page names them: what stands between asterisks.
fn steps(task: usize) -> VecDeque<String> {
    let begin = format!("**{task}. ");
    let (_, rest) = DOCUMENT.split_once(&begin).expect("the page has the task");
    let paragraph = rest.split("\n\n").next().unwrap_or_default();
    let (_, console) =
        paragraph.split_once("Console:").expect("the task says what the console does");
    let parts = console.split('*').skip(1).step_by(2);
    parts.map(|part| part.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

/// The text of one block of the page, such as the file of a flow.
fn block(first_line: &str) -> &'static str {
    let (_, rest) = DOCUMENT.split_once(first_line).expect("the page has the text");
    rest.split("```").next().unwrap_or_default()
}

/// Somebody who does tasks by the page alone.
struct Reader {
    page: Page,
    _browser: Chromium,
    served: Served,
    left: VecDeque<String>,
}

impl Reader {
    fn new(name: &str) -> Self {
        let served = Served::new();
        let (browser, mut page) = Chromium::start().expect("a browser");
        page.called(name);
        page.size(1280, 900);
        page.open(&served.page("system"));
        Self { page, _browser: browser, served, left: VecDeque::new() }
    }

    /// Begins a task; all steps of the one before were done.
    fn task(&mut self, task: usize) {
        assert!(self.left.is_empty(), "before task {task} these steps are left: {:?}", self.left);
        self.left = steps(task);
    }

    fn next(&mut self, name: &str) {
        let said = self.left.pop_front();
        assert_eq!(said.as_deref(), Some(name), "the page names another step");
    }

    /// Presses a link or a button of this name.
    fn press(&mut self, kind: &str, name: &str) {
        self.next(name);
        self.page.click(&format!("{kind}:{name}"));
    }

    /// Writes into a field of this name.
    fn fill(&mut self, name: &str, text: &str) {
        self.next(name);
        self.page.write(&format!("field:{name}"), text);
    }

    /// Gives an order to all runs that are listed.
    fn bulk(&mut self, order: &str) {
        self.press("button", "Bulk actions…");
        self.page.write("field:Action", order);
        self.page.click("button:Preview");
        self.page.see("text:1 would be touched");
        self.page.click("dialog button.main");
        self.page.see("text:1 done, ");
    }

    fn confirm(&mut self) {
        self.page.click("dialog button.main");
    }
}

#[test]
fn no_task_takes_more_than_three_steps() {
    for task in 1..=TASKS {
        let steps = steps(task);
        assert!(steps.len() <= STEPS_MAX, "task {task}: {steps:?}");
    }
    assert!(!DOCUMENT.contains(&format!("**{}. ", TASKS + 1)), "all tasks are looked at");
}

#[test]
fn runs_are_started_found_and_run_again_by_the_page() {
    let mut reader = Reader::new("tasks-runs");
    reader.task(2);
    reader.press("link", "Flows");
    reader.press("link", "Add a flow…");
    reader.page.write("#source", block("# mail.yaml\n"));
    reader.page.see("text:can be saved");
    reader.press("button", "Save as a new version");
    reader.page.see("button:Start…");
    reader.task(3);
    reader.press("link", "Flows");
    reader.press("button", "Start…");
    reader.page.write("field:Input", "{\"to\": \"ann\"}");
    reader.confirm();
    reader.page.see("h1 .s-success");
    reader.page.see("text:\"to\": \"ann\"");
    reader.task(4);
    reader.press("link", "Flows");
    reader.press("button", "Start…");
    reader.page.write("field:Input", "{\"to\": \"nobody\"}");
    reader.confirm();
    reader.page.wait("location.hash.startsWith('#/run/')");
    reader.task(5);
    reader.press("link", "Runs");
    reader.press("link", "failed");
    reader.page.wait("document.querySelectorAll('.runs tbody tr').length === 1");
    reader.page.see("text:send: no such mailbox (500)");
    reader.task(6);
    reader.press("link", "Runs");
    reader.press("link", "failed");
    reader.page.wait("document.querySelectorAll('.runs tbody tr').length === 1");
    reader.press("link", "shop/mail:1.0.0");
    reader.page.see("text:send: no such mailbox (500)");
    reader.page.see("svg [data-task=send].s-error[aria-current]");
    reader.task(7);
    reader.press("button", "Retry from the failed task…");
    reader.page.write("dialog textarea", "{\"to\": \"bob\"}");
    reader.confirm();
    reader.page.see("h1 .s-success");
    reader.page.see("text:\"to\": \"bob\"");
    reader.task(8);
    reader.press("button", "Run again…");
    reader.page.write("dialog textarea", "{\"to\": \"eva\"}");
    reader.confirm();
    reader.page.see("text:\"to\": \"eva\"");
    reader.task(9);
    reader.task(10);
    reader.press("button", "Labels…");
    reader.page.write("dialog textarea", "customer=Ann");
    reader.confirm();
    reader.press("link", "customer=Ann");
    reader.page.wait("document.querySelectorAll('.runs tbody tr').length === 1");
    reader.page.see("link:shop/mail:1.0.0");
    reader.task(1);
    reader.page.is_sound();
}

#[test]
fn waiting_runs_are_found_and_ordered_by_the_page() {
    let mut reader = Reader::new("tasks-waiting");
    reader.task(11);
    let waiting = reader.served.start_flow(block("# order.yaml\n"), json!({}));
    reader.press("link", "Overview");
    reader.press("link", "for an event");
    reader.page.see("text:paid waits for");
    reader.task(9);
    reader.page.click("link:shop/order:1.0.0");
    reader.page.see("h1 .s-running");
    reader.page.eval("window.isSame = true");
    reader.task(12);
    reader.press("link", "Events");
    reader.press("button", "Publish an event…");
    reader.page.write("field:Type", "org.example.paid");
    reader.page.write("field:Data", "{\"order\": 17}");
    reader.confirm();
    reader.page.see("text:1 task has got it");
    reader.served.over_with(waiting);
    // The page of another run follows it without being loaded anew.
    let live = reader.served.start_flow(block("# order.yaml\n"), json!({}));
    reader.page.open(&reader.served.page(&format!("run/{live}")));
    reader.page.see("h1 .s-running");
    let event = json!({ "specversion": "1.0", "id": "e9", "source": "/test", "type": "org.example.paid", "data": 1 });
    reader.served.publish(&event);
    reader.page.see("h1 .s-success");
    assert_eq!(reader.page.eval("window.isSame"), json!(true));
    reader.task(13);
    let waiting = reader.served.start_flow(block("# order.yaml\n"), json!({}));
    reader.page.open(&reader.served.page("runs?waits=event"));
    reader.page.see("link:shop/order:1.0.0");
    reader.press("link", "Runs");
    reader.fill("Flow or action", "shop/order");
    reader.page.wait("document.querySelectorAll('.runs tbody tr').length === 3");
    reader.bulk("pause");
    reader.task(14);
    reader.press("link", "Runs");
    reader.press("link", "paused");
    reader.page.wait("document.querySelectorAll('.runs tbody tr').length === 1");
    reader.bulk("resume");
    reader.task(15);
    reader.press("link", "Runs");
    reader.fill("Flow or action", "order");
    reader.page.wait("document.querySelectorAll('.runs tbody tr').length === 3");
    reader.bulk("cancel");
    reader.served.over_with(waiting);
    reader.task(25);
    reader.press("link", "Runs");
    reader.press("link", "cancelled");
    reader.page.wait("document.querySelectorAll('.runs tbody tr').length === 1");
    reader.bulk("delete");
    reader.page.see("text:No run fits");
    reader.task(1);
    reader.page.is_sound();
}

#[test]
fn schedules_are_worked_with_by_the_page() {
    let mut reader = Reader::new("tasks-schedules");
    let begun = reader.served.start_flow(block("# mail.yaml\n"), json!({ "to": "ann" }));
    reader.served.over_with(begun);
    reader.task(16);
    reader.press("link", "Schedules");
    reader.press("button", "Add a schedule…");
    reader.page.write("field:Name", "nightly");
    reader.page.write("field:Launches", "shop/mail 1.0.0");
    reader.page.write("field:When", "cron");
    reader.page.write("field:Pattern", "0 3 * * *");
    reader.page.write("field:Time zone", "Europe/Berlin");
    reader.page.write("field:Input", "{\"to\": \"ann\"}");
    reader.confirm();
    reader.page.see("text:«nightly» is saved");
    reader.task(17);
    reader.press("link", "Schedules");
    reader.press("link", "nightly");
    reader.page.see("h2");
    reader.page.wait("document.querySelectorAll('li time[data-ago]').length > 1");
    reader.task(18);
    reader.press("link", "Schedules");
    reader.press("button", "Launch now");
    reader.confirm();
    reader.page.see("text:A run has begun");
    reader.task(19);
    reader.press("link", "Schedules");
    reader.press("button", "Backfill…");
    reader.page.write("field:From", "2026-01-01T00:00:00");
    reader.page.write("field:Until", "2026-01-03T00:00:00");
    reader.page.see("text:2 times are in this range");
    reader.confirm();
    reader.page.see("text:2 times are in the range");
    reader.task(20);
    reader.press("link", "Schedules");
    reader.press("button", "Pause");
    reader.page.write("field:Why", "the disk is being replaced");
    reader.confirm();
    reader.page.see("text:the disk is being replaced");
    reader.task(1);
    reader.page.is_sound();
}

#[test]
fn jobs_journeys_and_the_server_are_looked_at_by_the_page() {
    let mut reader = Reader::new("tasks-jobs");
    reader.task(21);
    reader.press("link", "Jobs");
    reader.press("button", "Add a job…");
    reader.page.write("field:Name", "hello");
    reader.page.write("field:Schedule", "@daily");
    reader.page.write("field:Settings of the executor", "{\"command\": \"echo good day\"}");
    reader.confirm();
    reader.page.see("text:«hello» is saved.");
    reader.press("button", "Run now…");
    reader.confirm();
    reader.page.see("text:good day");
    reader.task(22);
    let journey = block("cat > welcome.json <<'END'\n").split("END").next().unwrap_or_default();
    reader.served.put_journey(journey);
    reader.served.user_event("shop", "ann", "1", "signed.up", json!({}));
    reader.press("link", "Journeys");
    reader.press("link", "welcome");
    reader.fill("Find a user", "ann");
    reader.page.see("text:Waits at order");
    reader.task(23);
    reader.press("link", "Overview");
    reader.page.see("text:A commit takes");
    reader.page.see(".health.good");
    reader.task(24);
    reader.press("link", "Cluster");
    reader.page.see("row:alive");
    reader.task(1);
    reader.page.is_sound();
}
