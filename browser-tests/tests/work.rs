//! Real work in the console: flows, events, failed steps, many plans, schedules.

use serde_json::json;
use turnwheel_browser::{Chromium, Page, Served};

const ASK: &str = "document: { dsl: '1.0.3', namespace: shop, name: ask, version: '1.0.0' }
input:
  schema:
    document:
      type: object
      required: [name]
      properties: { name: { type: string, title: Who }, amount: { type: integer, default: 3 } }
do:
  - greet: { set: { text: '${ \"hello \\(.name) \\(.amount)\" }' } }
  - paid:
      listen: { to: { one: { with: { type: com.shop.paid } } } }
";

fn console(name: &str) -> (Chromium, Page, Served) {
    let served = Served::new();
    let (browser, mut page) = Chromium::start().expect("a browser");
    page.called(name);
    page.size(1280, 900);
    (browser, page, served)
}

#[test]
fn a_flow_is_added_drawn_started_from_its_form_and_watched_to_its_event() {
    let (_browser, mut page, served) = console("flow");
    page.open(&served.page("flows"));
    page.see("text:There is no flow");
    page.click("link:Add a flow…");
    // What is wrong is shown at its line.
    page.write("#source", &ASK.replace("listen:", "lisen:"));
    page.see("text:is wrong");
    page.see("button:Line 11");
    page.see(".gutter .bad");
    page.shot("flow-wrong");
    page.click("button:Line 11");
    page.wait("document.activeElement.id === 'source'");
    page.write("#source", ASK);
    page.see("text:can be saved: it has 2 tasks");
    page.click("button:Save as a new version");
    // Its graph, before it has run.
    page.see("h1");
    page.wait("document.querySelectorAll('svg .task').length === 2");
    page.shot("flow");
    page.click("button:Start…");
    // A field that is needed is asked for by the browser itself.
    page.click("dialog button.main");
    page.wait("document.querySelector('dialog input:invalid') !== null");
    page.write("field:Who", "ann");
    page.click("dialog button.main");
    page.see("text:It waits: ");
    // The page is told of what happens while it is open.
    page.wait("document.querySelector('h1 .badge')?.textContent === 'running'");
    let event = json!({
        "specversion": "1.0", "id": "1", "source": "/test", "type": "com.shop.paid", "data": { "by": "ann" },
    });
    served.publish(&event);
    page.see("h1 .s-success");
    page.click("link:data");
    page.see("text:\"by\": \"ann\"");
    page.click("link:graph");
    // Its run is drawn on the definition, with the states of its tasks.
    page.see("svg [data-task=greet].s-success");
    page.see("svg [data-task=paid].s-success");
    page.shot("flow-run-graph");
    page.is_sound();
    // The same version with something else is refused, in words, and the next one is taken.
    page.open(&served.page("flows"));
    page.click("link:ask");
    page.click("link:Change it…");
    page.see("text:1.0.1 can be saved");
    let changed = "document.querySelector('#source').value.replace('1.0.1', '1.0.0').replace('hello', 'good day')";
    let changed = page.eval(changed);
    page.write("#source", changed.as_str().expect("a text"));
    page.click("button:Save as a new version");
    page.click("button:Raise its version");
    page.see("text:1.0.1 can be saved");
    page.click("button:Save as a new version");
    page.see("text:1.0.1");
    page.see("button:Start…");
    page.is_sound();
}

#[test]
fn a_step_gets_its_event_from_the_browser() {
    let (_browser, mut page, served) = console("event");
    page.open(&served.page(""));
    page.see("text:There is no run yet");
    served.begin("wait", &json!({}));
    page.open(&served.page("runs"));
    page.click("link:wait");
    page.see("text:It waits: ");
    page.click("button:send event…");
    page.write("dialog textarea", "{ broken");
    page.click("button:send event");
    page.see("text:That is no JSON");
    page.write("dialog textarea", "{\"paid\": 5}");
    page.click("button:send event");
    page.see("text:send event: done.");
    page.see("h1 .s-success");
    page.click("link:data");
    page.see("text:\"paid\": 5");
    page.click("link:history");
    page.see("table");
    page.click("link:timeline");
    page.see("svg .bar");
    page.is_sound();
}

const BROKEN: &str = "document: { dsl: '1.0.3', namespace: shop, name: sell, version: '1.0.0' }
do:
  - first: { set: { mended: false, count: '${ .count + 1 }' } }
  - second:
      if: .mended | not
      raise: { error: { type: 'https://example.org/broken', status: 500, title: 'It is broken' } }
";

#[test]
fn a_failed_flow_is_retried_from_its_failed_task_and_runs_again() {
    let (_browser, mut page, served) = console("retry");
    page.open(&served.page("add-flow"));
    page.write("#source", BROKEN);
    page.see("text:can be saved: it has 2 tasks");
    page.click("button:Save as a new version");
    page.click("button:Start…");
    page.write("dialog textarea", "{\"count\": 1}");
    page.click("dialog button.main");
    page.see("h1 .s-error");
    let failed = page.eval("location.hash");
    page.click("button:Retry from the failed task…");
    // The data of the failed task is there to be changed: the task before it has counted.
    page.wait("document.querySelector('dialog textarea')?.value.includes('\"count\": 2')");
    page.write("dialog textarea", "{ broken");
    page.click("dialog button.main");
    page.see("text:That is no JSON");
    page.shot("retry");
    page.write("dialog textarea", "{\"mended\": true}");
    page.click("dialog button.main");
    page.see("h1 .s-success");
    page.see("text:Retry of");
    page.see_no("button:Retry from the failed task…");
    let retry = page.eval("location.hash");
    page.click("link:data");
    page.see("text:Input of «second», where the retry went on");
    page.see("text:\"mended\": true");
    // The failed run knows its retry, and offers no second one.
    page.open(&served.page(failed.as_str().expect("an address").trim_start_matches("#/")));
    page.see("text:It was retried: ");
    page.see("button:Run again…");
    assert_eq!(page.count("button:Retry from the failed task…"), 0);
    page.click(".why a[href^='#/run/']");
    page.wait(&format!("location.hash === {retry}"));
    page.see("h1 .s-success");
    page.click("button:Run again…");
    // Its input is there to be changed.
    page.wait("document.querySelector('dialog textarea').value.includes('\"count\": 1')");
    page.click("dialog button.main");
    page.see("h1 .s-error");
    page.see("text:Run again of");
    page.shot("again");
    page.is_sound();
}

#[test]
fn an_action_runs_again_with_its_input_to_change() {
    let (_browser, mut page, served) = console("again");
    let plan = served.begin("brick", &json!(41));
    served.over_with(plan);
    page.open(&served.page(&format!("run/{plan}")));
    page.click("button:Run again…");
    page.wait("document.querySelector('dialog textarea')?.value === '41'");
    page.write("dialog textarea", "42");
    page.click("dialog button.main");
    page.see("text:Run again of");
    page.click("link:data");
    page.see("text:42");
    page.open(&served.page(&format!("run/{plan}")));
    page.see("text:Run again as");
    page.is_sound();
}

#[test]
fn failed_steps_are_skipped_retried_and_mended() {
    let (_browser, mut page, served) = console("failed");
    let broken = json!({ "is_mended": false });
    let skipped = served.begin("mend", &broken);
    page.open(&served.page(&format!("run/{skipped}")));
    page.see("text:it is broken and wants to be mended");
    page.click("button:skip…");
    page.click("dialog button.main");
    page.see("text:skip: done.");
    page.click("button:resume");
    page.click("dialog button.main");
    page.see("text:resume: done");
    page.wait("!['running', 'paused'].includes(document.querySelector('h1 .badge').textContent)");

    let mended = served.begin("mend", &broken);
    page.open(&served.page(&format!("run/{mended}")));
    page.see("text:it is broken and wants to be mended");
    page.click("button:retry…");
    page.click("dialog button.main");
    page.see("text:retry: done.");
    page.click("button:edit input…");
    page.write("dialog textarea", "{\"is_mended\": true}");
    page.click("dialog button.main");
    page.see("text:edit input: done.");
    page.click("button:resume");
    page.click("dialog button.main");
    page.see("h1 .s-success");
    page.see("text:it is whole");

    // What cannot be done any more is said in words, too.
    let gone = served.begin("wait", &json!({}));
    page.open(&served.page(&format!("run/{gone}")));
    page.click("button:cancel");
    page.see("dialog");
    served.cancel(gone);
    page.click("dialog button.main");
    page.see("dialog [role=alert]");
    page.press("Escape");
    page.see_no("dialog");
    page.is_sound();
}

#[test]
fn every_order_that_a_paused_plan_offers_is_carried_out() {
    let (_browser, mut page, served) = console("orders");
    let orders = ["skip failed", "retry failed", "cancel", "terminate", "revert", "fail"];
    for order in orders {
        let plan = served.begin("mend", &json!({ "is_mended": false }));
        served.over_with(plan);
        page.open(&served.page(&format!("run/{plan}")));
        page.click(&format!("button:{order}"));
        page.see(&format!("text:{order}?"));
        page.click("dialog button.main");
        page.see(&format!("text:{order}: done"));
    }
    page.is_sound();
}

#[test]
fn events_are_published_and_dead_letters_sent_again() {
    let (_browser, mut page, served) = console("events");
    let plan = served.start_flow(ASK, json!({ "name": "ann" }));
    page.open(&served.page(&format!("run/{plan}")));
    page.see("text:It waits: ");
    page.open(&served.page("events"));
    page.click("button:Publish an event…");
    page.write("field:Type", "com.shop.paid");
    page.write("field:Data", "{\"by\": \"bob\"}");
    page.click("button:Publish");
    page.see("text:1 task has got it");
    page.open(&served.page(&format!("run/{plan}/data")));
    page.see("text:\"by\": \"bob\"");
    // What no step takes is listed, and why; it can be tried again, in vain here.
    let over = served.begin("brick", &json!(1));
    served.over_with(over);
    served.send(over, 2, &json!("too late"));
    page.open(&served.page("events"));
    page.click("button:Send again…");
    page.click("dialog button.main");
    page.see("dialog [role=alert]");
    page.press("Escape");
    page.see_no("dialog");
    page.is_sound();
}

#[test]
fn runs_are_ticked_and_ordered_and_all_that_fit_are_too() {
    let (_browser, mut page, served) = console("bulk");
    for _ in 0..7 {
        served.begin("wait", &json!({}));
    }
    served.begin("brick", &json!(1));
    page.open(&served.page("runs?state=running"));
    page.wait("document.querySelectorAll('td.tick input').length === 7");
    page.click("tbody tr:nth-child(1) input");
    page.click("tbody tr:nth-child(3) input");
    page.see("text:2 ticked");
    page.shot("runs-ticked");
    page.click("button:cancel");
    page.see("text:2 would be touched");
    page.click("button:cancel 2 runs");
    page.see("text:2 done, 0 left, 0 failed.");
    page.wait("document.querySelectorAll('td.tick input').length === 5");
    page.see_no("text:ticked");
    page.click("button:Bulk actions…");
    page.write("dialog select", "cancel");
    page.click("button:Preview");
    page.see("text:5 would be touched");
    page.click("button:cancel 5 runs");
    page.see("text:5 done, 0 left, 0 failed.");
    page.see("text:No run fits");
    // An order that would touch none says why, and asks nothing.
    page.open(&served.page("runs?action=brick"));
    page.wait("document.querySelectorAll('td.tick input').length === 1");
    page.click(".tick-all input");
    page.click("button:resume");
    page.see("text:only a paused plan can be resumed");
    // A filter is set in the moment after a link: what the link has cleared stays cleared.
    page.eval(
        "(() => {
            location.hash = '#/runs';
            const field = document.querySelector('[aria-label^=\"Flow or action\"]');
            field.value = 'wait';
            field.dispatchEvent(new Event('input', { bubbles: true }));
        })()",
    );
    page.wait("location.hash === '#/runs?name=wait'");
    page.wait("document.querySelectorAll('td.tick input').length === 7");
    page.is_sound();
}

/// Waits until the page was drawn anew, and says what is in a field then.
const DRAWN_ANEW: &str = "(async (name) => {
  const field = () => document.querySelector(`[aria-label^=\"${name}\"]`);
  const asked = () => performance.getEntriesByType('resource').length;
  const before = asked();
  while (asked() < before + 3) await new Promise((resolve) => { setTimeout(resolve, 20); });
  await new Promise((resolve) => { requestAnimationFrame(() => requestAnimationFrame(resolve)); });
  return field().value;
})";

#[test]
fn what_is_typed_in_a_filter_stays_and_is_what_bulk_actions_are_about() {
    let (_browser, mut page, served) = console("typed");
    for _ in 0..2 {
        served.begin("wait", &json!({}));
    }
    page.open(&served.page("runs"));
    page.wait("document.querySelectorAll('td.tick input').length === 2");
    // Text is applied without Enter, and stays while runs come and go.
    page.click("field:Flow or action");
    page.type_text("wai");
    for number in 0..3 {
        served.begin("brick", &json!(number));
    }
    page.wait("location.hash === '#/runs?name=wai'");
    assert_eq!(page.eval(&format!("{DRAWN_ANEW}('Flow or action')")), "wai");
    page.click("link:Clear");
    page.wait("document.querySelectorAll('td.tick input').length === 5");
    assert_eq!(page.eval("document.querySelector('[aria-label^=Flow]').value"), "");
    // The first click counts, and so does the text that was typed right before it.
    page.click("field:Flow or action");
    page.type_text("brick");
    page.eval("document.querySelector('.ticks button').click()");
    page.see("text:For all runs with the flow or action «brick»");
    page.click("button:Close");
    page.wait("document.querySelectorAll('td.tick input').length === 3");
    // A slow press is no lost click, though the pause after the text ends while it lasts.
    page.write("field:Flow or action", "wait");
    page.press_slowly("button:Bulk actions…", 400);
    page.see("text:For all runs with the flow or action «wait»");
    page.write("dialog select", "cancel");
    page.click("button:Preview");
    page.see("text:2 would be touched");
    page.click("button:Close");
    page.see_no("dialog");
    // An order of a list is no filter: all runs of all flows need one answer more.
    page.open(&served.page("runs?order=oldest"));
    page.wait("document.querySelectorAll('td.tick input').length === 5");
    page.click("button:Bulk actions…");
    page.see("text:No filter is set: this is for all runs of all flows");
    page.write("dialog select", "delete");
    page.click("button:Preview");
    page.see("text:3 would be touched");
    page.click("button:delete 3 runs");
    page.wait("document.querySelector('dialog input:invalid') !== null");
    assert_eq!(page.count("td.tick input"), 5, "nothing is deleted without the answer");
    page.click("field:All runs of all flows");
    page.click("button:delete 3 runs");
    page.see("text:3 done, ");
    page.is_sound();
}

#[test]
fn a_key_that_is_typed_stays_while_the_page_is_drawn_anew() {
    let (_browser, mut page, served) = console("typed-key");
    served.ask_account("ann");
    page.open(&served.page("system/entities"));
    page.click("field:Key");
    page.type_text("ann");
    assert_eq!(page.eval(&format!("{DRAWN_ANEW}('Key')")), "ann");
    page.write("field:Type", "account");
    page.click("button:Look");
    page.see("text:a message goes to its mailbox");
    page.is_sound();
}

#[test]
fn a_schedule_is_added_paused_made_up_for_and_removed() {
    let (_browser, mut page, served) = console("schedule");
    page.open(&served.page("schedules"));
    page.see("text:There is no schedule");
    page.click("button:Add a schedule…");
    page.write("field:Name", "nightly");
    page.write("field:Launches", "brick");
    page.write("field:When", "cron");
    page.write("field:Pattern", "0 0 31 2 x");
    page.write("field:Input", "7");
    page.click("dialog button.main");
    page.see("dialog [role=alert]");
    page.write("field:Pattern", "0 0 * * *");
    page.click("dialog button.main");
    page.see("text:«nightly» is saved; it launches next at");
    page.click("button:Pause");
    page.write("field:Why", "the disk is exchanged");
    page.click("dialog button.main");
    page.see("text:the disk is exchanged");
    page.shot("schedule-paused");
    page.click("button:Go on");
    page.click("dialog button.main");
    page.see("button:Pause");
    page.click("button:Backfill…");
    page.write("field:From, in UTC", "2026-01-01T00:00:00");
    page.write("field:Until, in UTC", "2026-01-04T00:00:00");
    page.see("text:3 times are in this range");
    page.click("dialog button.main");
    page.see("text:3 times are in the range: the launches are under way.");
    page.open(&served.page("runs?action=brick"));
    page.wait("document.querySelectorAll('td.tick input').length === 3");
    page.open(&served.page("schedules"));
    page.click("button:Remove");
    page.click("dialog button.main");
    page.see("text:There is no schedule");
    page.is_sound();
}

#[test]
fn entities_and_workers_are_looked_at() {
    let (_browser, mut page, served) = console("inside");
    served.ask_account("ann");
    served.ask_account("bob");
    served.begin("brick", &json!(1));
    page.open(&served.page("system/entities"));
    page.see("row:account 2 2");
    page.write("field:Type", "account");
    page.write("field:Key", "ann");
    page.click("button:Look");
    page.see("text:a message goes to its mailbox");
    page.shot("entity");
    page.write("field:Key", "eve");
    page.click("button:Look");
    page.see("text:a message activates it");
    page.open(&served.page("system/runtime"));
    page.see("text:Group «plans»");
    page.see("text:Group «journal»");
    // Two looks are needed to say how busy it is.
    page.see(".load meter");
    page.write("field:Search classes", "account");
    page.wait("document.querySelectorAll('.spread, td .quiet').length > 0");
    page.shot("runtime");
    page.is_sound();
}
