"""Pages hear what others do; nothing that is typed, read, opened, selected or pointed at moves (C92, C95, C96)."""

from __future__ import annotations

from playwright.sync_api import BrowserContext, Page, Request, expect

from tests.acceptance.site import Site, fresh_name
from tests.browser.asks import answers, asked, card, listed, outcomes
from tests.browser.conftest import Opens, Watched, sign_in
from tests.kit.waiting import until

LIVE = "[data-live-sign]"
STEPS = "SELECT count(*) FROM runs_step WHERE run_id = %s AND status = 'completed'"
COUNTED = """
    const Plain = EventSource;
    window.streams = 0;
    window.EventSource = class extends Plain {
        constructor(...given) { super(...given); window.streams += 1; }
        close() { if (this.readyState !== Plain.CLOSED) window.streams -= 1; super.close(); }
    };
"""


def live(page: Page, address: str) -> None:
    page.goto(address)
    expect(page.locator(LIVE)).to_have_text("Live")


def seqs(page: Page) -> list[int]:
    """The numbers in the history, as they stand on the page."""
    texts = page.locator("#_history tbody tr > td:first-child").all_inner_texts()
    return [int(text) for text in texts]


def requests_to(context: BrowserContext, part: str) -> list[str]:
    """Fills up with the addresses that any page of the context asks for."""
    seen: list[str] = []

    def note(request: Request) -> None:
        if part in request.url:
            seen.append(request.url)

    context.on("request", note)
    return seen


# ---- lists


def test_a_new_approval_waits_behind_a_button_and_the_count_is_told_at_once(site: Site, opens: Opens) -> None:
    """C95"""
    _, approval_id = asked(site, title="Already there")
    page = opens("frida").page
    live(page, f"/inbox/{approval_id}/")
    page.locator("#reason").fill("half a thought")
    rows, more = page.locator("[data-row]").count(), one_more(page)
    place = page.locator("[data-row]").first.bounding_box()
    asked(site, title="Just come in")
    expect(page.locator("[data-waits=_queue]")).to_have_text("1 new")
    expect(page.locator("#_inbox_count")).to_contain_text(more)
    expect(page.locator("[data-said=count]")).to_contain_text(f"{more} open")
    assert page.title().startswith(f"({more}) Already there")
    assert page.locator("[data-row]").count() == rows
    assert page.locator("[data-row]").first.bounding_box() == place
    page.locator("[data-waits=_queue]").click()
    expect(listed(page, "Just come in")).to_be_visible()
    expect(page.locator("[data-waits=_queue]")).to_be_hidden()
    assert page.locator("#reason").input_value() == "half a thought"
    assert page.locator("[data-row][aria-current]").inner_text().startswith("Already there")
    page.locator("#reason").fill("")


def one_more(page: Page) -> str:
    """What the count of the inbox will be; it ends at a hundred."""
    count = int(page.locator("#_inbox_count").inner_text().split()[0].rstrip("+"))
    return str(count + 1) if count < 99 else "99+"


def test_a_row_that_somebody_closes_is_told_and_stays_where_it_is(site: Site, opens: Opens) -> None:
    _, one = asked(site, title="Will be closed")
    _, other = asked(site, title="Read meanwhile")
    page, felix = opens("frida").page, opens("felix").page
    live(page, f"/inbox/{other}/")
    rows = page.locator("[data-row]").count()
    card(felix, one)
    answers(felix, "Reject")
    expect(page.locator(f"#row-{one} [data-when]")).to_have_text("closed")
    assert page.locator("[data-row]").count() == rows
    expect(page.locator(f"#row-{other} [data-row]")).to_have_attribute("aria-current", "true")


def test_the_first_row_of_an_empty_list_appears_by_itself(site: Site, opens: Opens) -> None:
    page = opens("vera").page
    live(page, "/inbox/")
    assert page.locator("[data-row]").count() == 0
    page.goto("/runs/?status=running")
    expect(page.locator(LIVE)).to_have_text("Live")
    name = fresh_name()
    run_id = site.start("many", name=name, gates=[0])
    expect(page.locator(f"#row-{run_id}")).to_be_visible()
    site.stack.ledger.open(f"{name}-0")
    expect(page.locator(f"#row-{run_id} [data-when]")).to_have_text("changed")


def test_a_run_in_the_list_changes_where_it_stands(site: Site, opens: Opens) -> None:
    run_id, _ = asked(site)
    page = opens("olga").page
    live(page, "/runs/")
    row = page.locator(f"#row-{run_id}")
    expect(row).to_contain_text("Waiting")
    site.approve(run_id)
    expect(row).to_contain_text("Completed")
    new, _ = asked(site)
    expect(page.locator("[data-waits=_runs]")).to_have_text("1 new")
    expect(page.locator(f"#row-{new}")).to_have_count(0)
    page.locator("[data-waits=_runs]").click()
    expect(page.locator(f"#row-{new}")).to_be_visible()
    expect(page.locator("[data-waits=_runs]")).to_be_hidden()


# ---- the card that is read


def test_what_somebody_else_decides_is_told_before_the_click(site: Site, opens: Opens) -> None:
    _, approval_id = asked(site)
    frida, felix = opens("frida").page, opens("felix").page
    live(frida, f"/inbox/{approval_id}/")
    frida.locator("#reason").fill("typing")
    card(felix, approval_id)
    answers(felix, "Approve")
    expect(frida.locator("#_card_news")).to_contain_text("felix has decided this: approved.")
    assert frida.locator("#reason").input_value() == "typing"
    expect(frida.locator("#reason")).to_be_focused()
    frida.locator("#reason").fill("")


def test_a_vote_of_somebody_else_is_told(site: Site, opens: Opens) -> None:
    _, approval_id = asked(site, "two")
    frida, felix = opens("frida").page, opens("felix").page
    live(frida, f"/inbox/{approval_id}/")
    card(felix, approval_id)
    answers(felix, "Approve")
    expect(frida.locator("#_card_news")).to_contain_text("felix has voted on version 1.")


def test_an_edit_by_somebody_else_is_told_in_the_editor(site: Site, opens: Opens) -> None:
    """C95: text and caret stay; the page says that it is not saved."""
    _, approval_id = asked(site, args={"note": "x"}, editable=["note"])
    frida, felix = opens("frida").page, opens("felix").page
    live(frida, f"/inbox/{approval_id}/edit/")
    note = frida.get_by_label("note")
    note.fill("mine, and a long one")
    note.evaluate("field => field.setSelectionRange(4, 8)")
    felix.goto(f"/inbox/{approval_id}/edit/")
    felix.get_by_label("note").fill("his")
    felix.get_by_role("button", name="Save without my vote").click()
    expect(frida.locator("#_card_news")).to_contain_text("felix has edited this; version 2 is open now.")
    expect(note).to_have_value("mine, and a long one")
    assert note.evaluate("field => [field.selectionStart, field.selectionEnd]") == [4, 8]
    expect(frida.locator("[data-unsaved]")).to_be_visible()
    note.fill("x")


# ---- the page of a run


def test_a_run_is_drawn_anew_around_what_is_open_focused_and_read(site: Site, opens: Opens) -> None:
    """C95"""
    run_id, _ = asked(site, args={"text": "x" * 4_000})
    page = opens("olga", viewport={"width": 1440, "height": 480}).page  # so low that it scrolls
    live(page, f"/runs/{run_id}/history/")
    details = page.locator("#_history details").first
    details.locator("summary").click()
    expect(details).to_have_attribute("open", "")
    last = page.locator("#_history tbody tr").last
    last.scroll_into_view_if_needed()
    last.hover()
    place = last.bounding_box()
    kept = page.evaluate("document.querySelector('#_history tbody tr:last-child').kept = true")
    site.approve(run_id)
    expect(page.locator(".says-status")).to_contain_text("Completed")
    assert kept
    assert page.evaluate("document.querySelector('#_history tbody tr:last-child').kept") is True
    expect(page.locator("#_history details[open]")).to_have_count(1)
    expect(page.locator("#_history details[open] summary")).to_be_focused()
    moved = last.bounding_box()
    assert place is not None
    assert moved is not None
    assert abs(moved["y"] - place["y"]) < 2
    assert seqs(page) == list(range(len(seqs(page)), 0, -1))


def test_a_checkpoint_that_was_chosen_stays(site: Site, opens: Opens) -> None:
    run_id, _ = asked(site)
    page = opens("olga").page
    live(page, f"/runs/{run_id}/")
    page.locator("#checkpoint-0 a.whole-row").click()
    expect(page.locator("#checkpoint h2").first).to_contain_text("checkpoint 0")
    site.approve(run_id)
    expect(page.locator(".says-status")).to_contain_text("Completed")
    expect(page.locator("#checkpoint h2").first).to_contain_text("checkpoint 0")
    expect(page.locator("#checkpoint-0")).to_have_attribute("aria-current", "true")


def test_a_selection_holds_the_page_until_it_is_let_go(site: Site, opens: Opens) -> None:
    run_id, _ = asked(site)
    page = opens("olga").page
    live(page, f"/runs/{run_id}/")
    page.locator(".says-status strong").select_text()
    chosen = page.evaluate("String(document.getSelection())")
    with page.expect_response(lambda answer: answer.request.headers.get("hx-target") == "live"):
        site.approve(run_id)
    assert page.evaluate("String(document.getSelection())") == chosen
    site.wait(run_id)
    page.evaluate("document.getSelection().removeAllRanges()")
    expect(page.locator(".says-status")).to_contain_text("Completed")


def test_an_ended_run_is_left_alone(site: Site, opens: Opens) -> None:
    """C92: the stream ends with the run, and nothing more is asked."""
    run_id, _ = asked(site)
    watched = opens("olga")
    page = watched.page
    page.clock.install()
    live(page, f"/runs/{run_id}/")
    site.approve(run_id)
    expect(page.locator(".says-status")).to_contain_text("Completed")
    expect(page.locator(LIVE)).to_be_hidden()
    page.clock.run_for(2_000)
    later = requests_to(watched.context, "/live/")
    page.clock.run_for(60_000)
    page.locator("#_run h1").click()
    assert len(later) <= 1


# ---- losses


def test_restarts_of_the_server_leave_no_gap_and_no_double(site: Site, opens: Opens) -> None:
    """C92: two restarts while a run makes events, three tabs, no reload; once more is missed than a page shows."""
    name = fresh_name()
    gates = {25: 70, 75: 230}  # where the run waits, and how far it comes while the server is away
    run_id = site.start("many", name=name, steps=250, gates=[*gates, 230])
    watched = opens("olga")
    pages = [watched.page, watched.open(), watched.open()]
    asked_for = requests_to(watched.context, "/live/runs/")
    for page in pages:
        live(page, f"/runs/{run_id}/history/")
    for gate, reached in gates.items():
        site.stack.end("web")
        for page in pages:
            expect(page.locator(LIVE)).not_to_have_text("Live", timeout=20_000)
        site.stack.ledger.open(f"{name}-{gate}")
        _wait_for_steps(site, run_id, reached)
        site.stack.start_web()
        site.stack.wait_for_web()
        for page in pages:
            expect(page.locator(LIVE)).to_have_text("Live", timeout=30_000)
    site.stack.ledger.open(f"{name}-230")
    for page in pages:
        expect(page.locator(".says-status")).to_contain_text("Completed", timeout=60_000)
    last = site.one("SELECT max(seq) FROM runs_event WHERE run_id = %s", run_id)
    for page in pages:
        expect(page.locator("#_history tbody tr > td:first-child").first).to_have_text(str(last))
        seen = seqs(page)
        assert seen == list(range(last, last - len(seen), -1))
        assert page.evaluate("performance.getEntriesByType('navigation').length") == 1
    assert all("after=" in url for url in asked_for)
    watched.faults.clear()  # a server that is away is noted by the browser


def _wait_for_steps(site: Site, run_id: str, count: int) -> None:
    until(lambda: site.one(STEPS, run_id) >= count, seconds=60)


def test_a_lost_connection_is_told_and_what_was_missed_is_caught_up(site: Site, opens: Opens) -> None:
    """C92"""
    run_id, _ = asked(site)
    watched = opens("olga")
    page = watched.page
    live(page, f"/runs/{run_id}/")
    watched.context.set_offline(True)
    expect(page.locator(LIVE)).to_have_text("Reconnecting")
    expect(page.locator(LIVE)).to_have_text("Connection lost", timeout=20_000)
    expect(page.locator("[data-notice=lost]")).to_be_visible()
    site.approve(run_id)
    watched.context.set_offline(False)
    expect(page.locator(".says-status")).to_contain_text("Completed", timeout=20_000)
    expect(page.locator("[data-notice=lost]")).to_be_hidden()
    watched.faults.clear()


def test_a_server_that_refuses_for_seconds_is_asked_again_but_not_stormed(site: Site, opens: Opens) -> None:
    """C92: 503 ends a browser's own reconnects; ours go on, ever more slowly, and listen again."""
    run_id, _ = asked(site)
    watched = opens("olga")
    page = watched.page
    page.route("**/live/**", lambda route: route.fulfill(status=503))
    asked_for = requests_to(watched.context, "/live/")
    page.clock.install()
    page.goto(f"/runs/{run_id}/")
    expect(page.locator(LIVE)).to_have_text("Reconnecting")
    for _ in range(60):
        page.clock.run_for(1_000)
    assert 3 <= len(asked_for) <= 10
    page.unroute("**/live/**")
    for _ in range(40):
        page.clock.run_for(1_000)
    expect(page.locator(LIVE)).to_have_text("Live")
    site.approve(run_id)
    for _ in range(5):
        page.clock.run_for(1_000)
    expect(page.locator(".says-status")).to_contain_text("Completed")
    watched.faults.clear()


def test_a_hidden_tab_lets_its_stream_go_and_takes_it_up_again(site: Site, opens: Opens) -> None:
    run_id, _ = asked(site)
    page = opens("olga").page
    page.add_init_script(COUNTED)
    page.clock.install()
    live(page, f"/runs/{run_id}/")
    assert page.evaluate("streams") == 1
    _look_away(page, "hidden")
    page.clock.run_for(30_000)
    assert page.evaluate("streams") == 0
    site.approve(run_id)
    site.wait(run_id)
    _look_away(page, "visible")
    expect(page.locator(".says-status")).to_contain_text("Completed")


def _look_away(page: Page, state: str) -> None:
    page.evaluate(
        """state => {
            Object.defineProperty(document, "visibilityState", { value: state, configurable: true });
            document.dispatchEvent(new Event("visibilitychange"));
        }""",
        state,
    )


# ---- sessions


def test_a_session_that_expires_is_told_and_nothing_typed_is_lost(site: Site, opens: Opens) -> None:
    """C96: a notice with a way to sign in, no redirect, no storm; after it the page goes on."""
    _, approval_id = asked(site)
    watched = opens(None)
    page = watched.page
    sign_in(page, "frida")
    live(page, f"/inbox/{approval_id}/")
    page.locator("#reason").fill("typed before")
    watched.context.clear_cookies(name="hitl_session")
    later = requests_to(watched.context, "/live/")
    asked(site, title="Something happens")
    expect(page.locator("[data-notice=signed-out]")).to_be_visible(timeout=20_000)
    expect(page.locator(LIVE)).to_have_text("Signed out")
    assert page.locator("#reason").input_value() == "typed before"
    assert len(later) <= 2
    with watched.context.expect_page() as opened:
        page.get_by_role("link", name="Sign in in a new tab").click()
    _sign_in_there(opened.value, "frida")
    _look_away(page, "visible")
    expect(page.locator(LIVE)).to_have_text("Live")
    expect(page.locator("[data-notice=signed-out]")).to_be_hidden()
    assert page.locator("#reason").input_value() == "typed before"
    page.locator("#reason").fill("")


def _sign_in_there(page: Page, person: str) -> None:
    from tests.acceptance.seed import PASSWORD

    page.get_by_label("Name").fill(person)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/inbox/**")


def test_somebody_else_who_signs_in_here_is_told(site: Site, opens: Opens) -> None:
    """C96: the page shows nothing of the other person, and nothing is sent under the new name."""
    _, approval_id = asked(site)
    watched = opens(None)
    page = watched.page
    sign_in(page, "frida")
    live(page, f"/inbox/{approval_id}/")
    page.locator("#reason").fill("frida's")
    _exchange(watched, opens("felix"))
    asked(site, title="For both")
    expect(page.locator("[data-notice=somebody-else]")).to_be_visible(timeout=20_000)
    assert page.locator("#reason").input_value() == "frida's"
    answers(page, "Approve")
    expect(page.locator("#banner")).to_be_visible()
    assert outcomes(site, approval_id) == []


def test_somebody_else_who_signs_in_after_a_signing_out_is_told(site: Site, opens: Opens) -> None:
    """C96: the page has heard that frida is out before felix is in; it asks again once it is turned to."""
    _, approval_id = asked(site)
    watched = opens(None)
    page = watched.page
    sign_in(page, "frida")
    live(page, f"/inbox/{approval_id}/")
    page.locator("#reason").fill("frida's")
    watched.context.clear_cookies(name="hitl_session")
    asked(site, title="Nobody is in")
    expect(page.locator("[data-notice=signed-out]")).to_be_visible(timeout=20_000)
    sign_in(watched.open(), "felix")
    page.evaluate("window.dispatchEvent(new Event('focus'))")
    expect(page.locator("[data-notice=somebody-else]")).to_be_visible(timeout=20_000)
    assert page.locator("#reason").input_value() == "frida's"
    page.locator("#reason").fill("")


def _exchange(watched: Watched, other: Watched) -> None:
    """Another session in one go: in between, a page that asks would hear that nobody is in, and ask no more."""
    (value,) = (cookie["value"] for cookie in other.context.cookies() if cookie["name"] == "hitl_session")
    watched.context.add_cookies(
        [{"name": "hitl_session", "value": value, "url": watched.url, "httpOnly": True}]
    )


# ---- the browser's own ways


def test_back_shows_the_list_as_it_is_now_and_listens_again(site: Site, opens: Opens) -> None:
    run_id, _ = asked(site)
    page = opens("olga").page
    live(page, "/runs/")
    page.locator(f"#row-{run_id} [data-row]").click()
    expect(page.locator(".says-status")).to_contain_text("Waiting")
    site.approve(run_id)
    expect(page.locator(".says-status")).to_contain_text("Completed")
    page.go_back()
    expect(page.locator(LIVE)).to_have_text("Live")
    expect(page.locator(f"#row-{run_id}")).to_contain_text("Completed")


def test_two_clicks_while_the_page_changes_decide_once(site: Site, opens: Opens) -> None:
    """C94"""
    run_id, approval_id = asked(site)
    watched: Watched = opens("frida")
    page = watched.page
    live(page, f"/inbox/{approval_id}/")
    asked(site, title="Comes in between")
    page.locator("button.answer.yes").dblclick()
    expect(page.locator("#toasts")).to_contain_text("Approved")
    site.wait(run_id)
    assert outcomes(site, approval_id) == ["approve"]
