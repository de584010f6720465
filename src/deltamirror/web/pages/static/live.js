// Asks for the same page every few seconds and puts its new parts in place. Nothing here is needed to read a page.
"use strict";
(() => {
  const period = Number(document.body.dataset.refresh) * 1000;
  const status = document.getElementById("live-status");
  const toggle = document.getElementById("live-toggle");
  if (!period || !document.querySelector("[data-live]")) return;

  let timer = 0, failures = 0, asking = null, said = summary(document);
  const isOn = () => toggle.getAttribute("aria-pressed") === "true";

  function summary(root) {
    const found = root.querySelector("[data-summary]");
    return found ? found.textContent.trim() : "";
  }

  function say(text, bad) {
    if (status.textContent !== text) status.textContent = text;
    status.classList.toggle("bad", Boolean(bad));
  }

  function plan(delay) {
    clearTimeout(timer);
    if (isOn() && !document.hidden) timer = setTimeout(ask, delay);
  }

  async function ask() {
    asking = new AbortController();
    const late = setTimeout(() => asking.abort(), 15000);
    try {
      const answer = await fetch(location.href, { headers: { "X-Live": "1" }, signal: asking.signal, cache: "no-store" });
      if (answer.status === 401 || answer.redirected) {
        say("Signed out: load the page again to sign in.", true);
        return;
      }
      if (!answer.ok) throw new Error(String(answer.status));
      put(new DOMParser().parseFromString(await answer.text(), "text/html"));
      failures = 0;
    } catch (error) {
      if (!isOn() || document.hidden) return;
      failures += 1;
      say("Not up to date: the server does not answer. Trying again.", true);
    } finally {
      clearTimeout(late);
      asking = null;
    }
    plan(Math.min(period * 2 ** failures, 60000));
  }

  function put(next) {
    const now = summary(next);  // before its parts move into this page
    for (const part of document.querySelectorAll("[data-live]")) {
      const fresh = next.getElementById(part.id);
      if (fresh && fresh.innerHTML !== part.innerHTML) replace(part, fresh);
    }
    if (status.classList.contains("bad")) say("Up to date again. " + now);
    else if (now !== said) say(now);
    said = now;
  }

  function replace(part, fresh) {
    const held = part.contains(document.activeElement) ? document.activeElement : null;
    const scrolled = [...part.querySelectorAll(".scroll")].map((each) => each.scrollLeft);
    part.replaceChildren(...document.adoptNode(fresh).childNodes);
    part.querySelectorAll(".scroll").forEach((each, index) => { each.scrollLeft = scrolled[index] || 0; });
    if (held) focusAgain(part, held);
    part.classList.remove("changed");
    requestAnimationFrame(() => part.classList.add("changed"));
  }

  function focusAgain(part, held) {
    const key = held.dataset.key;
    const same = [...part.querySelectorAll("a, button, [tabindex]")].find((each) =>
      key ? each.dataset.key === key : each.getAttribute("href") === held.getAttribute("href") && each.className === held.className);
    (same || document.getElementById("content")).focus({ preventScroll: true });
  }

  toggle.hidden = false;
  toggle.addEventListener("click", () => {
    const on = !isOn();
    toggle.setAttribute("aria-pressed", String(on));
    say(on ? "Updates go on." : "Updates are paused.");
    if (on) ask(); else { clearTimeout(timer); if (asking) asking.abort(); }
  });
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) { clearTimeout(timer); if (asking) asking.abort(); }
    else if (isOn()) ask();
  });
  plan(period);
})();
