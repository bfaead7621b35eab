//! Each view clicked through with what it is for, and pictures of the main ones:
//! `TURNWHEEL_SHOTS=docs/images cargo test -p turnwheel-browser --test views`.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use serde_json::json;
use turnwheel_browser::{Chromium, Page, Served};

const SELL: &str = "document: { dsl: '1.0.3', namespace: shop, name: sell, version: '1.0.0' }
do:
  - check: { set: { count: '${ .count + 1 }' } }
  - each:
      for: { each: item, in: '[1, 2, 3]' }
      do:
        - pack: { set: { packed: '${ $item }' } }
  - both:
      fork:
        branches:
          - stock: { set: { left: 4 } }
          - price: { set: { amount: 25 } }
  - charge:
      raise: { error: { type: 'https://example.org/declined', status: 402, title: 'The card is declined' } }
  - send: { set: { sent: true } }
";

const ASK: &str = "document: { dsl: '1.0.3', namespace: shop, name: ask, version: '1.0.0' }
do:
  - greet: { set: { text: hello } }
  - paid: { listen: { to: { one: { with: { type: com.shop.paid } } } } }
";

const ONBOARDING: &str = "journey: onboarding
platform: shop
elements:
  signed-up: { start: { on: customer.created }, then: hello }
  hello: { send: { channel: log, with: { text: hello } }, then: first-order }
  first-order:
    wait: { on: order.paid, for: P3D }
    lines:
      - { if: .event.data.total > 100, then: thanks }
      - { if: 'true', then: end }
    otherwise: remind
  remind: { send: { channel: log, with: { text: remind } }, then: end }
  thanks: { send: { channel: log, with: { text: thanks } }, then: end }
";

fn console(name: &str) -> (Chromium, Page, Served) {
    let served = Served::new();
    let (browser, mut page) = Chromium::start().expect("a browser");
    page.called(name);
    page.size(1280, 800);
    (browser, page, served)
}

#[test]
fn a_failed_run_is_found_by_its_error_and_shows_its_failed_task() {
    let (_browser, mut page, served) = console("failed-run");
    for count in 0..3 {
        let plan = served.start_flow(SELL, json!({ "count": count }));
        served.over_with(plan);
    }
    served.start_flow(ASK, json!({}));
    page.open(&served.page(""));
    page.see("row:3");
    page.see("text:The card is declined");
    page.see("text:for an event");
    page.shot("overview");
    page.click("link:3");
    page.wait("location.hash.startsWith('#/runs?')");
    page.wait("document.querySelectorAll('.runs tbody tr').length === 3");
    page.see(".error-line");
    let height = page.eval("document.querySelector('.runs tbody tr').offsetHeight");
    assert!(height.as_u64().is_some_and(|height| height <= 32), "a run is one line: {height}");
    page.open(&served.page("runs"));
    page.wait("document.querySelectorAll('.runs tbody tr').length === 4");
    page.shot("runs");
    // The words of a search are kept in the address.
    page.write("field:Search runs", "declined");
    page.wait("location.hash === '#/runs?text=declined'");
    page.wait("document.querySelectorAll('.runs tbody tr').length === 3");
    page.open_new(&served.page("runs?text=declined&show=failed"));
    page.wait("document.querySelectorAll('.runs tbody tr').length === 3");
    page.press("j");
    page.press("Enter");
    // The run on its flow: the failed task is red, in view, and open beside it.
    page.see("svg [data-task=check].s-success");
    page.see("svg [data-task=charge].s-error[aria-current]");
    page.see("svg [data-task=send].s-not_run");
    page.see("text:3×");
    page.see(".panel h2");
    // The attempt that failed is shown as failed, and its task is named once.
    page.see(".panel .rows .s-error");
    assert_eq!(page.count(".panel .rows .s-success"), 0, "no attempt of it went well");
    page.see(".panel .error");
    assert_eq!(page.count(".panel .error"), 1, "the error is said once");
    let error = page.eval("document.querySelector('.panel .error').textContent");
    assert_eq!(error, "The card is declined (402)");
    // Tasks are counted: those of the flow that have begun, each once.
    page.see("text:7 · error 1 success 6");
    page.shot("run");
    page.click("svg [data-task=pack]");
    page.see("text:Run 3 of 3");
    page.click("button:Before");
    page.see("text:Run 2 of 3");
    page.see("text:\"packed\": 2");
    page.click("link:timeline");
    page.see("svg .bar");
    assert_eq!(page.eval("[...document.querySelectorAll('svg .bar')].filter((bar) => bar.ariaLabel.startsWith('flow')).length"), 0);
    page.shot("timeline");
    page.click("link:tasks");
    page.see(".step-row");
    page.see("text:check");
    assert_eq!(page.eval("[...document.querySelectorAll('.step-row')].some((row) => /flow|plan/.test(row.textContent))"), false);
    page.click("link:history");
    page.see("link:shop/sell 1.0.0");
    page.see("button:charge");
    page.see("text:stopped: a task has failed");
    assert_eq!(page.count("text:asks for"), 0, "what the engine does behind the tasks is left out");
    assert_eq!(page.count("button:flow"), 0);
    page.click("link:data");
    page.see("text:\"count\": ");
    assert_eq!(page.count("text:definition"), 0, "the user's values, not their wrapping");
    page.is_sound();
}

#[test]
fn flows_are_listed_drawn_and_edited_with_a_graph_that_follows() {
    let (_browser, mut page, served) = console("flows");
    let plan = served.start_flow(SELL, json!({ "count": 1 }));
    served.over_with(plan);
    page.open(&served.page("flows"));
    page.see("row:sell");
    page.see("text:100 %");
    page.see(".strip .s-error");
    page.shot("flows");
    page.click("link:sell");
    page.see("svg [data-task=charge]");
    page.see(".source .t-key");
    page.shot("flow");
    page.click("link:Change it…");
    page.see("text:1.0.1 can be saved");
    page.see("svg [data-task=send]");
    page.shot("editor");
    let text = "document.querySelector('#source').value.replace('send:', 'deliver:')";
    let text = page.eval(text);
    page.write("#source", text.as_str().expect("a text"));
    page.see("svg [data-task=deliver]");
    page.is_sound();
}

#[test]
fn schedules_show_what_became_of_their_runs() {
    let (_browser, mut page, served) = console("schedules");
    let plan = served.start_flow(SELL, json!({ "count": 1 }));
    served.over_with(plan);
    page.open(&served.page("schedules"));
    page.click("button:Add a schedule…");
    page.write("field:Name", "hourly");
    page.write("field:Launches", "shop/sell 1.0.0");
    page.write("field:When", "manual");
    page.write("field:Input", "{\"count\": 5}");
    page.click("dialog button.main");
    page.see("text:«hourly» is saved");
    page.click("button:Launch now");
    page.click("dialog button.main");
    page.see("text:A run has begun");
    page.see(".strip .s-error");
    page.shot("schedules");
    page.click("link:hourly");
    page.see("text:The card is declined");
    page.click("link:its runs");
    page.wait("document.querySelectorAll('.runs tbody tr').length === 1");
    page.is_sound();
}

#[test]
fn events_are_seen_as_they_come_and_where_they_go() {
    let (_browser, mut page, served) = console("events-lately");
    let plan = served.start_flow(ASK, json!({}));
    page.open(&served.page("events"));
    page.see("text:Nothing has come since");
    // The stream is open once something has come of it.
    served.begin("brick", &json!(1));
    page.see("row:brick");
    let event = json!({ "specversion": "1.0", "id": "e1", "source": "/test", "type": "com.shop.paid", "subject": "17", "data": 1 });
    served.publish(&event);
    served.over_with(plan);
    // Its type, source and subject once, and the task that took it.
    let row = page.see("row:com.shop.paid");
    let row = row.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(row.ends_with("com.shop.paid 17, from /test to «paid» of shop/ask:1.0.0"), "{row}");
    // Nobody takes this one, and it is on the list all the same.
    page.click("button:Publish an event…");
    page.write("field:Type", "com.shop.nobody");
    page.click("button:Publish");
    page.see("row:com.shop.nobody from /console Nobody took it.");
    page.see("text:Events that nobody took since the world began: 1.");
    page.see("text:No step was over with an event that it had not taken");
    page.shot("events");
    page.write("field:Kind", "events that nobody took");
    page.see_no("row:com.shop.paid");
    page.see("row:com.shop.nobody");
    page.is_sound();
}

#[test]
fn a_job_is_added_in_its_form_run_and_its_history_seen() {
    let (_browser, mut page, served) = console("jobs");
    page.open(&served.page("jobs"));
    page.see("text:There is no job");
    page.click("button:Add a job…");
    page.write("field:Name", "backup");
    page.write("field:Schedule", "every minute");
    page.write("field:Settings of the executor", "{\"command\": \"echo saved\"}");
    page.click("dialog button.main");
    page.see("dialog [role=alert]");
    page.write("field:Schedule", "@daily");
    page.write("field:Owner", "ann");
    page.click("dialog button.main");
    page.see("text:«backup» is saved.");
    served.put_job(&json!({
        "name": "report", "after": [{ "job": "backup" }], "config": { "command": "true" },
    }));
    page.see("svg [data-task=report]");
    page.click("button:Run now…");
    page.click("dialog button.main");
    page.see("text:saved");
    page.see("h2 + .badge, .panel .s-succeeded");
    page.see(".calendar .good");
    page.shot("job");
    page.click("button:Change it…");
    page.write("field:Further attempts", "3");
    page.click("dialog button.main");
    page.see("text:Retries");
    // Its run has its name, in the list of runs too.
    page.open(&served.page("runs"));
    page.see("link:job backup");
    page.click("link:Jobs");
    page.see("row:backup");
    page.write("field:Search jobs", "ann");
    page.wait("document.querySelectorAll('main tbody tr').length === 1");
    page.shot("jobs");
    page.is_sound();
}

/// Shows the launches of a job as ones whose outcome nobody knows, which only a crash would make, and
/// keeps what is said about them.
const NOBODY_KNOWS: &str = "
const real = window.fetch;
window.fetch = async (url, request) => {
  if (String(url).endsWith('/answer')) {
    window.told = JSON.parse(request.body);
    return new Response('{}', { headers: { 'content-type': 'application/json' } });
  }
  const answer = await real(url, request);
  if (!String(url).includes('/history')) return answer;
  const { launches } = await answer.json();
  const asked = launches.map((launch) => ({ ...launch, state: 'unknown', ended_at: null }));
  return new Response(JSON.stringify({ launches: asked }), { headers: { 'content-type': 'application/json' } });
};
";

#[test]
fn what_has_become_of_a_launch_is_said_by_a_person_where_nobody_knows() {
    let (_browser, mut page, served) = console("unknown");
    page.before(NOBODY_KNOWS);
    served.put_job(&json!({
        "name": "move", "schedule": "@manually", "unknown": "ask", "config": { "command": "true" },
    }));
    page.open(&served.page("job/move"));
    page.click("button:Run now…");
    page.click("dialog button.main");
    page.see("h2 + .s-unknown");
    page.see("button:Cancel");
    page.click("button:Say what has become of it…");
    page.write("field:Outcome", "failed");
    page.click("dialog button.main");
    page.see("text:It is noted.");
    assert_eq!(page.eval("window.told"), json!({ "launch": 1, "outcome": "failed" }));
    page.is_sound();
}

#[test]
fn a_journey_is_drawn_with_the_path_of_a_user() {
    let (_browser, mut page, served) = console("journeys");
    served.put_journey(ONBOARDING);
    served.user_event("shop", "ann", "1", "customer.created", json!({}));
    served.user_event("shop", "bob", "2", "customer.created", json!({}));
    served.user_event("shop", "bob", "3", "order.paid", json!({ "total": 250 }));
    page.open(&served.page("journeys"));
    page.click("link:onboarding");
    page.see("svg [data-task=first-order].s-wait");
    page.see("text:1 here / 2");
    page.write("field:Find a user", "ann");
    page.see("svg [data-task=first-order].s-running[aria-current]");
    page.see("text:Waits at first-order");
    page.see("text:: remind");
    page.shot("journey");
    page.write("field:Find a user", "bob");
    page.see("svg [data-task=thanks].s-success");
    page.see("svg [data-task=remind].s-not_run");
    page.write("field:Find a user", "nobody");
    page.see("text:This user has not begun this journey");
    // One user by hand: nothing is stored.
    page.click("link:Walk by hand");
    page.write("field:Event", "customer.created");
    page.click("button:Send the event");
    page.see("text:Waits at first-order");
    page.click("button:Let 7 d pass");
    page.see("svg [data-task=remind].s-success");
    page.click("button:Begin anew");
    page.see("text:Send an event that begins the journey");
    page.is_sound();
}

#[test]
fn a_move_to_a_newer_version_and_conditions_that_fail_are_shown() {
    let (_browser, mut page, served) = console("journey-moves");
    let text = |settings: &str, wait: &str| {
        format!(
            "journey: ask\nplatform: shop\n{settings}elements:\n  \
             go: {{ start: {{ on: go, if: .event.data.n | tonumber > 0 }}, then: {wait} }}\n  \
             {wait}: {{ wait: {{ on: answer, if: .event.data.n | tonumber > 1 }}, then: end }}\n"
        )
    };
    served.put_journey(&text("", "first"));
    served.user_event("shop", "ann", "1", "go", json!({ "n": "1" }));
    served.put_journey(&text("under_way: move\nmoves: { first: second }\n", "second"));
    served.user_event("shop", "ann", "2", "answer", json!({ "n": "x" }));
    page.open(&served.page("journey/ask?user=ann"));
    page.see("text:Waits at second");
    page.see("text:by a newer version: first → second");
    page.see("text:by an event that changes nothing: second");
    page.see("text:«second»: .event.data.n | tonumber > 1");
    page.click("link:Walk by hand");
    page.write("field:Event", "go");
    page.write("field:Data of the event, as JSON", r#"{ "n": "x" }"#);
    page.click("button:Send the event");
    page.see("text:Conditions that failed");
    page.see("text:«go»: .event.data.n | tonumber > 0");
    page.is_sound();
}

/// Answers a request whose body is read, and closes.
fn answer(mut stream: TcpStream, status: &str) {
    let mut reader = BufReader::new(&stream);
    let mut length = 0;
    let mut line = String::new();
    while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
        if let Some(number) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = number.trim().parse().expect("a number");
        }
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("a body");
    let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    stream.write_all(answer.as_bytes()).expect("it is read");
}

#[test]
fn a_message_that_was_given_up_is_sent_again_by_a_button() {
    let (_browser, mut page, served) = console("given-up");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let receiver = std::thread::spawn(move || {
        for status in ["410 Gone", "204 No Content"] {
            answer(listener.accept().expect("a request").0, status);
        }
    });
    served.put_journey(&format!(
        "journey: hello
platform: shop
elements:
  go: {{ start: {{ on: joined }}, then: hello }}
  hello: {{ send: {{ channel: http, with: {{ url: 'http://{address}/in' }} }}, then: end }}
"
    ));
    served.user_event("shop", "ann", "1", "joined", json!({}));
    page.open(&served.page("journey/hello?user=ann"));
    page.see("text:Messages that were given up");
    page.see("text:status 410");
    page.click("button:Send again…");
    page.see("text:The message of hello leaves again");
    page.click("dialog button.main");
    page.see("text:They are on their way.");
    page.wait("!document.body.textContent.includes('Messages that were given up')");
    receiver.join().expect("it has come twice");
    page.wait("!document.body.textContent.includes('Messages that wait')");
    page.is_sound();
}

#[test]
fn the_cluster_shows_nodes_slots_and_the_store() {
    let (_browser, mut page, served) = console("cluster");
    served.begin("brick", &json!(1));
    page.open(&served.page("cluster"));
    page.see("row:alive");
    page.see("svg.slots rect");
    page.see("text:A commit takes");
    page.shot("cluster");
    page.is_sound();
}

#[test]
fn times_are_in_the_chosen_zone_and_colours_are_kept() {
    let (_browser, mut page, served) = console("choices");
    let plan = served.begin("brick", &json!(1));
    served.over_with(plan);
    page.open(&served.page(&format!("run/{plan}")));
    let clock = "document.querySelector('.facts time').textContent";
    let before = page.eval(clock);
    page.write("field:Zone of times", "other");
    page.write("field:Zone", "Nowhere/Land");
    page.click("button:Use it");
    page.see("dialog [role=alert]");
    page.write("field:Zone", "Asia/Tokyo");
    page.click("button:Use it");
    page.see_no("dialog");
    let after = page.eval(clock);
    let hours = "(from, to) => Math.round((Date.parse(`${to.replace(' ', 'T')}Z`) - Date.parse(`${from.replace(' ', 'T')}Z`)) / 36e5)";
    let apart = page.eval(&format!("({hours})({before}, {after})"));
    assert_eq!(apart, json!(9), "{before} is {after} in Tokyo");
    page.write("field:Colours", "dark");
    page.open_new(&served.page(&format!("run/{plan}")));
    let back = page.eval("getComputedStyle(document.documentElement).backgroundColor");
    assert_eq!(back, "rgb(17, 21, 27)", "the choice is kept");
    page.see("text:Asia/Tokyo");
    page.is_sound();
}

/// Reads a stream that is cut at every place, and says what came.
const CUT: &str = "(async () => {
  const { EventReader } = await import('./sse.js');
  const text = ': hi\\r\\nid: 1\\r\\nevent: plan\\r\\ndata: {\"a\":\\r\\ndata: 1}\\r\\n\\r\\ndata:x\\n\\nid: 7\\n\\ndata: last\\r\\r';
  const read = (pieces) => {
    const found = [];
    const reader = new EventReader((message) => found.push([message.event, message.data, message.id]));
    for (const piece of pieces) reader.push(piece);
    return JSON.stringify(found);
  };
  const all = read([text]);
  const wrong = [];
  for (let one = 0; one <= text.length; one += 1) {
    for (let other = one; other <= text.length; other += 1) {
      const cut = read([text.slice(0, one), text.slice(one, other), '', text.slice(other)]);
      if (cut !== all) wrong.push([one, other, cut]);
    }
  }
  return [JSON.parse(all), wrong.slice(0, 3), read([...text]) === all];
})()";

#[test]
fn a_stream_of_events_is_read_whole_wherever_it_is_cut() {
    let (_browser, mut page, served) = console("stream");
    page.open(&served.page(""));
    let found = page.eval(CUT);
    let messages = json!([
        ["plan", "{\"a\":\n1}", "1"],
        ["message", "x", null],
        ["message", "", "7"],
        ["message", "last", null]
    ]);
    assert_eq!(found, json!([messages, [], true]));
}

#[test]
fn a_flood_of_events_draws_the_page_seldom_and_keeps_its_elements() {
    let (_browser, mut page, served) = console("flood");
    let plan = served.begin("wait", &json!({}));
    page.open(&served.page("runs"));
    page.see("link:wait");
    page.eval(
        "window.row = document.querySelector('.runs tbody tr'); window.began = performance.now()",
    );
    for number in 0..1_000 {
        served.begin_labelled("brick", &json!(number), &[]);
    }
    served.settle();
    page.wait("document.querySelectorAll('.runs tbody tr').length === 100");
    page.open(&served.page("runs?state=running"));
    page.wait("document.querySelectorAll('.runs tbody tr').length === 1");
    let asked = page.eval("performance.getEntriesByType('resource').filter((one) => one.startTime >= window.began && one.name.includes('/plans?')).length");
    let most = page.eval("Math.ceil((performance.now() - window.began) / 500) + 4");
    assert!(asked.as_f64() <= most.as_f64(), "{asked} requests, {most} are enough");
    page.see("link:wait");
    served.cancel(plan);
    page.see("text:No run fits");
    page.is_sound();
}
