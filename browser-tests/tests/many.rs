//! Much: a run of ten thousand steps is drawn by what can be seen of it.

use serde_json::json;
use turnwheel_browser::{Chromium, Served};

#[test]
fn a_run_of_ten_thousand_steps_can_be_looked_through() {
    let (_browser, mut page) = Chromium::start().expect("a browser");
    page.called("many");
    page.size(1280, 900);
    let served = Served::new();
    let plan = served.begin("wall", &json!(10_000));
    served.over_with(plan);
    page.open(&served.page(&format!("run/{plan}/steps")));
    page.see(".step-row");
    page.see("text:20,001 · ");
    assert!(page.count(".step-row") < 200, "only what is seen is drawn");
    page.press("Tab");
    page.tab_to(".steps", 40);
    page.press("End");
    page.wait(
        "(at => at && at.ariaPosInSet === at.ariaSetSize)(document.querySelector('.step-row.at'))",
    );
    page.see("text:1 to 1,000 of 10,001 actions.");
    page.click("button:Later");
    page.see("text:1,001 to 2,000 of 10,001 actions.");
    page.click("button:Earlier");
    page.see("text:1 to 1,000 of 10,001 actions.");
    page.write("field:Search steps", "7777");
    page.wait("document.querySelectorAll('.step-row').length === 1");
    page.click(".step-row");
    page.see(".panel h2");
    let parts = [
        ("graph", "text:1 to 2,317 of 10,000 steps", "text:2,318 to"),
        ("timeline", "text:1 to 200 of 10,000 steps", "text:201 to 400 of 10,000 steps"),
        ("history", "text:1 to 200 of 10,000 calls", "text:201 to 400 of 10,000 calls"),
    ];
    for (part, first, second) in parts {
        page.click(&format!("link:{part}"));
        page.see(if part == "history" { "table" } else { "svg" });
        page.see(first);
        page.click("button:Later");
        page.see(second);
        let all = page.eval("document.querySelectorAll('*').length").as_u64().unwrap_or_default();
        assert!(all < 12_000, "{part} has {all} elements");
        page.shot(&format!("many-{part}"));
    }
    page.is_sound();
}
