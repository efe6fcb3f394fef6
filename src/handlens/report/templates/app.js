"use strict";
(() => {
  const find = (id) => document.getElementById(id);
  const make = (name, parts = {}, ...children) => {
    const made = Object.assign(document.createElement(name), parts);
    made.append(...children);
    return made;
  };
  const base = location.pathname.replace(/[^/]*$/, "");
  const say = (text) => { find("told").textContent = text; find("told").hidden = !text; };
  const ask = async (path, options = {}) => {
    const answer = await fetch(base + path, options);
    const page = await answer.json().catch(() => ({}));
    if (!answer.ok) throw new Error(page.error || `the server says ${answer.status}`);
    return page;
  };
  const post = (path, question = {}) => ask(path, { method: "POST", body: JSON.stringify(question) });
  const guarded = (work) => async (...values) => {
    try { say(""); await work(...values); } catch (error) { say(error.message); }
  };

  // --- uploads -----------------------------------------------------------------------------------------------------

  let ready = null, shown = null;
  const upload = guarded(async (files) => {
    if (!files.length) return;
    const job = await post("jobs");
    for (const [number, { path, file }] of files.entries()) {
      say(`uploading ${number + 1} of ${files.length}: ${path}`);
      const name = path.split("/").map(encodeURIComponent).join("/");
      await ask(`jobs/${job.id}/input/${name}`, { method: "PUT", body: file });
    }
    const { challenge, why } = await ask(`jobs/${job.id}/guess`).catch(async (error) => {
      await ask(`jobs/${job.id}`, { method: "DELETE" });
      throw error;
    });
    ready = job.id;
    find("kind").value = challenge;
    find("taken").textContent = `${files.length === 1 ? files[0].path : `${files.length} files`}: taken for ${why}.`;
    find("ready").hidden = false;
    say("");
  });
  const chosen = (input) => [...input.files].map((file) => ({ path: file.webkitRelativePath || file.name, file }));
  const walk = async (entry, before = "") => {
    if (entry.isFile) return [{ path: before + entry.name, file: await new Promise((yes, no) => entry.file(yes, no)) }];
    const reader = entry.createReader(), found = [];
    for (;;) {
      const some = await new Promise((yes, no) => reader.readEntries(yes, no));
      if (!some.length) break;
      for (const each of some) found.push(...(await walk(each, `${before}${entry.name}/`)));
    }
    return found;
  };
  const dropped = guarded(async (transfer) => {
    const entries = [...transfer.items].map((item) => item.webkitGetAsEntry && item.webkitGetAsEntry()).filter(Boolean);
    const files = [...transfer.files].map((file) => ({ path: file.name, file }));
    const found = entries.length ? (await Promise.all(entries.map((entry) => walk(entry)))).flat() : files;
    await upload(found.filter(({ path }) => !path.split("/").some((part) => part.startsWith("."))));
  });

  // --- jobs ----------------------------------------------------------------------------------------------------------

  const words = (job) => {
    if (job.state === "running") return job.total ? `at work: ${job.done} of ${job.total}` : "at work";
    return { new: "not started", waiting: "waiting", done: "done", failed: `failed: ${job.message}`, cancelled: job.message }[job.state];
  };
  const row = (job) => {
    const line = make("li", { className: "job" });
    line.dataset.id = job.id;
    line.dataset.state = job.state;
    const button = (text, work) => make("button", { type: "button", className: "act", textContent: text, onclick: guarded(work) });
    line.append(make("b", { textContent: job.title || "upload" }), make("span", { className: "soft", textContent: job.challenge }),
      make("span", { className: "state", textContent: words(job) }));
    if (job.state === "running") {
      const bar = make("progress", { max: job.total || 1 });
      if (job.total) bar.value = job.done;
      bar.setAttribute("aria-label", "Progress");
      line.append(bar);
    }
    const acts = make("span", { className: "buttons" });
    if (["waiting", "running"].includes(job.state)) acts.append(button("Stop", () => post(`jobs/${job.id}/cancel`).then(refresh)));
    if (job.state === "done") acts.append(button("Look", () => look(job)));
    if (["failed", "cancelled"].includes(job.state)) acts.append(button("Start again", () => post(`jobs/${job.id}/start`, { challenge: job.challenge }).then(refresh)));
    if (!["waiting", "running"].includes(job.state)) acts.append(button("Remove", async () => {
      await ask(`jobs/${job.id}`, { method: "DELETE" });
      if (shown === job.id) { find("result").hidden = true; shown = null; }
      await refresh();
    }));
    line.append(acts);
    return line;
  };
  let last = "";
  const refresh = async () => {
    const { jobs } = await ask("jobs");
    const now = JSON.stringify(jobs);
    find("jobs-title").hidden = !jobs.some((job) => job.state !== "new");
    find("offers").hidden = jobs.some((job) => job.state !== "new");
    if (now !== last) find("jobs").replaceChildren(...jobs.filter((job) => job.state !== "new").map(row));
    last = now;
    for (const job of jobs) if (job.id === awaited && job.state === "done") { awaited = null; await look(job); }
  };

  // --- a result --------------------------------------------------------------------------------------------------------

  let awaited = null;
  const zipped = (id, query) => { find("zip").href = `${base}jobs/${id}/all.zip${query}`; };
  const look = async (job) => {
    shown = job.id;
    const mine = (asked += 1);
    find("busy").hidden = true;
    find("result").hidden = false;
    find("result-title").textContent = job.title;
    find("result").scrollIntoView({ block: "start" });
    find("page").src = `${base}jobs/${job.id}/files/${job.page}`;
    zipped(job.id, "");
    find("adjust-label").hidden = !job.adjust;
    if (job.adjust) {
      find("adjust-name").textContent = job.adjust.name;
      find("adjust").value = job.adjust.start;
      find("adjust-value").textContent = Number(job.adjust.start).toFixed(2);
    }
    find("downloads").replaceChildren();
    const files = await filesOf(job.id, "");
    if (mine === asked) find("downloads").replaceChildren(part("", files));
  };
  const PLUMBING = ["run.json", "report.json"];
  const filesOf = async (id, query) => (await ask(`jobs/${id}/files${query}`)).files
    .filter(({ name }) => !PLUMBING.includes(name.split("/").pop()))
    .map(({ name }) => ({ name, href: `${base}jobs/${id}/files/${name.split("/").map(encodeURIComponent).join("/")}` }));
  const part = (title, some) => {
    const links = some.slice(0, 60).flatMap(({ name, href }) =>
      [make("a", { textContent: name, href, download: name.split("/").pop() }), " · "]);
    return make("p", {}, title, ...links.slice(0, -1), ...(some.length > 60 ? [` and ${some.length - 60} more`] : []));
  };

  // --- another threshold: its page at once, its files when the slider has rested -------------------------------------------

  const REST = 600;
  const rest = () => new Promise((then) => setTimeout(then, REST));
  let asked = 0, writing = Promise.resolve();
  const adjust = guarded(async () => {
    const value = Number(find("adjust").value).toFixed(2), mine = (asked += 1), id = shown;
    const stays = () => mine === asked;
    find("adjust-value").textContent = value;
    find("busy").hidden = false;
    const { page } = await post(`jobs/${id}/adjust`, { value: Number(value) }).finally(() => { if (stays()) find("busy").hidden = true; });
    if (!stays()) return;
    const frame = find("page"), query = `?value=${value}`, title = `With ${find("adjust-name").textContent} ${value}`;
    const hash = (() => { try { return frame.contentWindow.location.hash; } catch (error) { return ""; } })();
    const loaded = new Promise((then) => frame.addEventListener("load", then, { once: true }));
    frame.src = `${base}jobs/${id}/files/${page}?asked=${mine}${hash}`;
    zipped(id, query);
    find("downloads").replaceChildren(part(`${title}: the files are being written …`, []));
    await loaded.then(rest);
    await writing.catch(() => null);  // of a value that is not shown any more
    if (stays()) await (writing = finish(id, page, query, title, stays));
  });
  const finish = async (id, page, query, title, stays) => {
    const files = await filesOf(id, query).catch((error) => {
      if (stays()) find("downloads").replaceChildren();
      throw error;
    });
    const changed = files.filter(({ name }) => name.startsWith("adjusted/"));
    const text = await (await fetch(`${base}jobs/${id}/files/${page}`)).text();
    if (!stays()) return;
    find("downloads").replaceChildren(part(`${title}: `, changed), part("As fitted: ", files.filter((file) => !changed.includes(file))));
    complete(find("page").contentDocument, new DOMParser().parseFromString(text, "text/html"));
  };
  // What is known with the files alone: links to them, and counts. The page that is looked at stays where it is.
  const complete = (seen, whole) => {
    const list = whole.querySelector("main > p.files"), verdict = seen && seen.querySelector(".verdict");
    if (!verdict || seen.querySelector("main > p.files")) return;
    verdict.textContent = whole.querySelector(".verdict").textContent;
    if (list) seen.querySelector("nav.jumps, .sections").before(list);
    for (const card of whole.querySelectorAll(".card"))
      for (const what of [".why", "script"]) {
        const [old, known] = [seen.getElementById(card.id), card].map((each) => each.querySelector(what));
        if (old && known) old.textContent = known.textContent;
      }
    seen.dispatchEvent(new Event("completed"));
  };

  // --- events ------------------------------------------------------------------------------------------------------------

  const drop = find("drop");
  for (const name of ["dragenter", "dragover"]) drop.addEventListener(name, (event) => { event.preventDefault(); drop.classList.add("over"); });
  for (const name of ["dragleave", "drop"]) drop.addEventListener(name, (event) => { event.preventDefault(); drop.classList.remove("over"); });
  drop.addEventListener("drop", (event) => dropped(event.dataTransfer));
  find("pick-files").onclick = () => find("files").click();
  find("pick-folder").onclick = () => find("folder").click();
  for (const id of ["files", "folder"]) find(id).onchange = () => { const some = chosen(find(id)); find(id).value = ""; upload(some); };
  find("go").addEventListener("submit", (event) => {
    event.preventDefault();
    guarded(async () => {
      await post(`jobs/${ready}/start`, { challenge: find("kind").value });
      awaited = ready;
      find("ready").hidden = true;
      await refresh();
    })();
  });
  find("offers").addEventListener("click", (event) => {
    const name = event.target.dataset.example;
    if (name) guarded(async () => {
      awaited = (await post("examples", { challenge: name })).id;
      await refresh();
    })();
  });
  find("adjust").oninput = () => { find("adjust-value").textContent = Number(find("adjust").value).toFixed(2); };
  find("adjust").onchange = adjust;
  const poll = async () => {
    try { await refresh(); } catch (error) { say("the server does not answer; is it still running?"); }
    setTimeout(poll, 700);
  };
  poll();
})();
