"use strict";
// Text goes in as text, never as markup: names come from job files.

const states = new Map();

function make(tag, words, attributes = {}) {
  const node = document.createElement(tag);
  if (words !== undefined) node.textContent = words;
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
}

function size(count) {
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (count < 1023.95) return `${unit === "B" ? count : count.toFixed(1)} ${unit}`;
    count /= 1024;
  }
  return `${count.toFixed(1)} TiB`;
}

function duration(seconds) {
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
}

function progress(row) {
  const cell = make("td");
  if (row.share === null) return cell;
  const percent = Math.round(100 * row.share);
  cell.append(make("progress", undefined, { max: "100", value: percent, "aria-label": `${row.role}, ${row.stage}` }));
  cell.append(` ${percent} %`);
  return cell;
}

function roles(job) {
  const table = make("table");
  table.append(make("caption", `Roles of ${job.name}`));
  const head = make("tr");
  for (const word of ["role", "stage", "done", "sent", "rate", "time left"]) head.append(make("th", word, { scope: "col" }));
  const body = make("tbody");
  for (const row of job.roles) {
    const line = make("tr");
    line.append(make("th", row.role, { scope: "row" }), make("td", row.stage), progress(row));
    line.append(make("td", row.sent ? size(row.sent) : ""));
    line.append(make("td", row.rate === null ? "" : `${size(row.rate)}/s`));
    line.append(make("td", row.left === null ? "" : duration(row.left)));
    body.append(line);
  }
  const top = make("thead");
  top.append(head);
  table.append(top, body);
  const wide = make("div", undefined, { class: "wide", tabindex: "0", role: "region", "aria-label": `Roles of ${job.name}` });
  wide.append(table);
  return wide;
}

function article(job) {
  const title = `${job.name} (${job.id})`;
  const node = make("article", undefined, { "aria-label": title, "data-job": job.id });
  node.append(make("h3", title));
  const about = make("p");
  const attempt = job.attempt > 1 ? `, attempt ${job.attempt}` : "";
  about.append(make("span", job.state, { class: `state ${job.state}` }));
  const session = job.session ? `, ${job.session}` : "";
  about.append(` · ${job.task}${attempt}${session} · ${job.enlisted} of ${job.members} enlisted · submitted by ${job.submitter}`);
  node.append(about, roles(job));
  for (const failure of job.failures) {
    const stage = failure.stage ? ` in ${failure.stage}` : "";
    node.append(make("p", `${failure.code}: ${failure.who}${stage}: ${failure.text}`, { class: "failure" }));
  }
  return node;
}

function announce(jobs) {
  for (const job of jobs) {
    const before = states.get(job.id);
    if (before !== job.state) {
      states.set(job.id, job.state);
      if (before !== undefined || job.state === "broken") {
        document.getElementById("news").textContent = `${job.name} is ${job.state}`;
      }
    }
  }
}

function show(board) {
  document.getElementById("about").textContent =
    `listening on ${board.csp.address} · fedsvd ${board.csp.version} · as of ${board.csp.now.slice(0, 19)}`;
  if (board.jobs.length) {
    // A region that has the focus keeps it: it is found again by its name.
    const focused = document.activeElement && document.activeElement.getAttribute("aria-label");
    document.getElementById("jobs").replaceChildren(...board.jobs.map(article));
    if (focused) for (const node of document.querySelectorAll("[tabindex='0']")) if (node.getAttribute("aria-label") === focused) node.focus();
  }
  announce(board.jobs);
  document.getElementById("history").replaceChildren(
    ...board.history.map((event) => {
      const line = make("tr");
      line.append(make("td", event.when.slice(0, 19)), make("td", event.event), make("td", event.facts));
      return line;
    }),
  );
}

// The page brings the state it was made with; from then on the server says what has changed.
show(JSON.parse(document.querySelector("main").dataset.state));

const lost = "The server does not answer; trying again.";
const news = document.getElementById("news");

function listen() {
  const source = new EventSource("events");
  source.onmessage = (event) => show(JSON.parse(event.data));
  source.onopen = () => { if (news.textContent === lost) news.textContent = ""; };
  source.onerror = () => {
    news.textContent = lost;
    if (source.readyState === EventSource.CLOSED) setTimeout(listen, 2000); // a browser gives up after some errors
  };
}

listen();
