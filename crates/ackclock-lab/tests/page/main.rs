//! The static page in a real browser, opened from the disk: its own words lead to Vegas' figure 7, to a loss
//! with its reason and to a capture explained; a controller can be written. It needs what scripts/lab.sh
//! makes (feature `bundle`).

use std::path::PathBuf;

use ackclock_test_browser::Browser;

/// Where scripts/lab.sh puts the page: beside the folder of the build that runs this.
fn page() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let page = program.ancestors().nth(3).unwrap().join("lab/index.html");
    assert!(page.exists(), "{} is missing; run scripts/lab.sh", page.display());
    page
}

/// The start of the page, which was opened again.
fn start(browser: &Browser) {
    browser.load(&page());
    browser.wait_until("return !document.querySelector('#start').hidden");
}

#[test]
fn three_ways_lead_from_the_start_to_a_figure_a_loss_and_a_capture() {
    let Some(browser) = Browser::start(false) else { return };
    start(&browser);
    browser.click_element("#way-vegas");
    browser.wait_until("return document.querySelector('#laboratory .graph')?.dataset.x !== undefined");
    let shown = browser.run("return document.querySelector('#laboratory').textContent");
    let shown = shown.as_str().unwrap();
    assert!(shown.contains("Brakmo and Peterson 1995, figure 7") && shown.contains("1.34 Mbit/s"), "{shown}");

    start(&browser);
    browser.click_element("#way-loss");
    let sequence =
        "const sequence = [...document.querySelectorAll('#laboratory .graph')].map(element => element.graph)
            .find(graph => graph.data.title.startsWith('Sequence'));";
    browser.wait_until(&format!("{sequence} return sequence !== undefined"));
    browser.run(&format!(
        "{sequence} sequence.start();
         const series = sequence.data.panels[0].series.find(series => series.name === 'declared lost');
         sequence.pick({{ panel: 0, series, index: 0 }});
         window.sequence = sequence;"
    ));
    let reason = "declared lost: three duplicate acknowledgements (RFC 5681 §3.2)";
    browser.wait_until(&format!("return window.sequence.picked.textContent.includes('{reason}')"));

    start(&browser);
    browser.click_element("#way-capture");
    browser.wait_until("return !document.querySelector('#capture').hidden");
    browser.click_element("#example");
    browser.wait_until("return document.querySelectorAll('#connection .words p').length > 2");
    let promise = browser.run("return document.querySelector('.promise').textContent");
    assert!(promise.as_str().unwrap().starts_with("Nothing leaves this page"), "{promise}");
    browser.assert_no_errors();
}

#[test]
fn a_slider_redraws_and_the_link_carries_the_setting() {
    let Some(browser) = Browser::start(true) else { return };
    start(&browser);
    browser.click_element("#way-vegas");
    browser.wait_until("return document.querySelector('#laboratory').dataset.hash !== undefined");
    browser.run("window.first = document.querySelector('#laboratory').dataset.hash");
    let choose = |id: &str, value: &str, event: &str| {
        browser.run(&format!(
            "const input = document.querySelector('{id}'); input.value = '{value}';
             input.dispatchEvent(new Event('{event}'))"
        ));
    };
    choose("#dial-first", "reno", "input");
    browser.wait_until("return document.querySelector('#laboratory').dataset.hash !== window.first");
    choose("#compare", "cubic", "change");
    browser.wait_until("return document.querySelector('.sides.two') !== null");
    browser.wait_until("return location.hash === '#laboratory?scene=vegas-7&first=reno&compare=cubic'");
    // A reader who opens the link sees the same.
    browser.run(
        "window.reno = document.querySelector('#laboratory').dataset.hash; sessionStorage.reno = window.reno",
    );
    browser.run("location.reload()");
    browser.wait_until("return document.querySelector('#laboratory')?.dataset.hash === sessionStorage.reno");
    browser.wait_until("return document.querySelector('.sides.two') !== null");
    choose("#time", "500", "input");
    browser.wait_until("return document.querySelector('.steps output').textContent.includes('cwnd')");
    browser.assert_no_errors();
}

#[test]
fn a_written_controller_is_examined_and_one_without_end_is_ended() {
    let Some(browser) = Browser::start(false) else { return };
    start(&browser);
    browser.click_element("#tab-controller");
    browser.wait_until("return document.querySelector('#own-scene').options.length > 0");
    let examine = |code: &str| {
        let code = serde_json::json!(code);
        browser.run(&format!(
            "const code = {code}; if (code) document.querySelector('#code').value = code;
             [...document.querySelectorAll('#controller button')].find(one => one.textContent === 'Examine it').click()"
        ));
    };
    let said = |text: &str| {
        browser.wait_until(&format!(
            "return document.querySelector('#controller .state').textContent.includes({})",
            serde_json::json!(text)
        ));
    };
    // The example on the page.
    examine("");
    said("checks and situations passed.");
    let rows = browser.run("return document.querySelectorAll('.results tbody tr').length");
    assert_eq!(rows, 12);
    examine("function onAck(state) { return state.cwnd + undefinedName; }");
    said("your controller: ReferenceError: undefinedName is not defined");
    examine("function onAck(state) {\n  return 1 +;\n}");
    said("Line 2: Uncaught SyntaxError");
    examine("function onAck(state) { return 4 * state.smss; }");
    said("failed; they are listed first.");
    let failures = browser.run("return document.querySelector('.failures').textContent");
    assert!(failures.as_str().unwrap().contains("reduces on loss"), "{failures}");
    examine("function onAck(state) { for (;;); }");
    said("did not answer within 20 s and was ended");
}
