"use strict";

const at = (id) => document.getElementById(id);
const MOST_SUGGESTED = 6;
let offer = { systems: [], tasks: [], missing: [] };
let questions = [];
let asking = null;

/** Makes an element. Its children are elements and texts; a text is never read as HTML. */
function make(tag, classes, ...children) {
  const element = document.createElement(tag);
  if (classes) element.className = classes;
  element.append(...children.filter((child) => child !== null));
  return element;
}

const inSeconds = (seconds) => seconds < 1 ? `${Math.round(seconds * 1000)} ms` : `${seconds.toFixed(1)} s`;

function say(text, failed = false) {
  at("status").textContent = text;
  at("status").classList.toggle("failed", failed);
}

async function read(path) {
  const response = await fetch(path);
  if (!response.ok) throw new Error(`${path}: ${response.status}`);
  return response.json();
}

async function begin() {
  offer = await read("api/systems");
  document.title = `${offer.benchmark}: search`;
  at("benchmark").textContent = offer.benchmark;
  at("missing").hidden = offer.missing.length === 0;
  at("missing").replaceChildren(...offer.missing.map((text) => make("li", "", text)));
  at("system").replaceChildren(...offer.systems.map((system) => new Option(system.name, system.name)));
  at("task").replaceChildren(...offer.tasks.map((task) => new Option(`${task.name} (${task.documents})`, task.name)));
  const wanted = new URLSearchParams(location.hash.slice(1));
  for (const name of ["question", "system", "task", "k"]) {
    const value = wanted.get(name);
    const field = at(name);
    if (value !== null && (!field.options || [...field.options].some((option) => option.value === value))) field.value = value;
  }
  showSteps();
  await readQuestions();
}

async function readQuestions() {
  const task = at("task").value;
  const found = await read(`api/questions?task=${encodeURIComponent(task)}`);
  if (task !== at("task").value) return;   // another one was chosen meanwhile
  questions = found;
  suggest();
}

function showSteps() {
  const system = offer.systems.find((each) => each.name === at("system").value);
  const replays = system?.replays ? "; its texts were written earlier, so it answers the benchmark's own questions" : "";
  at("steps").textContent = system ? system.description + replays : "";
}

/** Shows the benchmark's questions that have the words of what is typed. */
function suggest() {
  const typed = at("question").value;
  const words = typed.toLowerCase().split(/\s+/).filter(Boolean);
  const fitting = questions.filter((each) => each.text !== typed && words.every((word) => each.text.toLowerCase().includes(word)));
  at("suggestions").replaceChildren(...fitting.slice(0, MOST_SUGGESTED).map((each) => {
    const button = make("button", "", make("small", "", each.query_id), each.text);
    button.type = "button";
    button.addEventListener("click", () => {
      at("question").value = each.text;
      suggest();
      at("question").focus();
    });
    return make("li", "", button);
  }));
}

function clear() {
  at("lists").replaceChildren();
  at("texts").replaceChildren();
  at("rewriting-time").textContent = "";
  at("rewriting").hidden = true;
}

const writings = new Map();

function showWriting(event) {
  at("rewriting").hidden = false;
  let shown = writings.get(event.unit);
  if (!shown) {
    shown = { reasoning: make("p", ""), text: make("p", "") };
    shown.thoughts = make("details", "", make("summary", "", "Reasoning"), shown.reasoning);
    writings.set(event.unit, shown);
    at("texts").append(make("blockquote", "writing", shown.thoughts, shown.text));
  }
  if (event.again) shown.reasoning.textContent = shown.text.textContent = "";
  shown.reasoning.append(event.reasoning);
  shown.text.append(event.text);
  shown.thoughts.hidden = shown.reasoning.textContent === "";
}

function showRewritten(event) {
  const thoughts = [...at("texts").querySelectorAll("details:not([hidden])")];
  at("rewriting").hidden = false;
  at("rewriting-time").textContent = inSeconds(event.seconds);
  at("texts").replaceChildren(
    ...thoughts,
    ...event.texts.map((each) => make("blockquote", "", make("small", "", `${each.method}, ${each.use}`), make("p", "", each.text))),
    ...event.notes.map((note) => make("p", "warning", note)),
  );
}

/** Says how a passage moved: from which place in each list that this one was made from. */
function moves(passage) {
  return Object.entries(passage.before).map(([list, place]) => {
    if (place === null) return `not in ${list}`;
    const up = place - passage.rank;
    return up === 0 ? `= ${list} ${place}` : `${up > 0 ? "↑" : "↓"}${Math.abs(up)} from ${list} ${place}`;
  }).join(" · ");
}

/** Marks the sentences that late interaction found in a piece of a passage. They are counted in characters. */
function marked(piece, begins, sentences) {
  const characters = [...piece];
  const parts = [];
  let at = 0;
  for (const { number, start, stop, percent } of [...sentences].sort((one, other) => one.number - other.number)) {
    const [left, right] = [start - begins, stop - begins].map((place) => Math.min(Math.max(place, at), characters.length));
    if (left === right) continue;
    const share = stop - begins <= characters.length ? make("small", "", ` [sentence ${number}: ${percent} %]`) : null;
    parts.push(characters.slice(at, left).join(""), make("span", "sentence", characters.slice(left, right).join(""), share));
    at = right;
  }
  return [...parts, characters.slice(at).join("")];
}

function showPassage(passage) {
  const isGold = passage.grade !== null && passage.grade > 0;
  const mark = isGold ? make("span", "mark", `★ relevant${passage.grade > 1 ? ` (${passage.grade})` : ""}`) : null;
  const text = make("p", "text", passage.title ? make("strong", "", ...marked(`${passage.title} `, 0, passage.sentences)) : null,
    ...marked(passage.text, passage.title ? [...passage.title].length + 1 : 0, passage.sentences));
  const more = make("button", "more", "Whole text");
  more.type = "button";
  const moved = moves(passage);
  const item = make("li", isGold ? "gold" : "",
    make("div", "head", make("span", "rank", String(passage.rank)), make("span", "id", passage.doc_id),
      make("span", "score", passage.score.toFixed(4))),
    mark || moved ? make("div", "moved", mark, moved) : null, text,
    passage.sentences.length ? make("div", "moved", `Score by sentences: ${passage.sentences.map((each) => `sentence ${each.number} ${each.percent} %`).join(" · ")}`) : null, more);
  more.addEventListener("click", () => {
    const open = item.classList.toggle("open");
    more.textContent = open ? "Less" : "Whole text";
    more.setAttribute("aria-expanded", String(open));
  });
  more.setAttribute("aria-expanded", "false");
  more.setAttribute("aria-label", `Whole text of ${passage.doc_id}`);
  return item;
}

function showList(event, step) {
  const title = make("h2", "", step ? `${step}: ${event.name}` : event.name, " ", make("small", "", inSeconds(event.seconds)));
  const list = event.passages.length ? make("ol", "", ...event.passages.map(showPassage)) : make("p", "", "Nothing was found.");
  const section = make("section", event.event, title, list);
  section.setAttribute("aria-label", title.textContent);
  at("lists").append(section);
  requestAnimationFrame(() => {
    for (const item of section.querySelectorAll("li")) {
      const text = item.querySelector(".text");
      item.querySelector(".more").hidden = text.scrollHeight <= text.clientHeight;
    }
  });
}

let relevant = null;
let last = "";

function show(event) {
  last = event.event;
  switch (event.event) {
    case "begun":
      relevant = event.relevant;
      say("Searching …");
      break;
    case "writing":
      if (event.step === "rewriting") showWriting(event);
      else say("A language model reads the passages …");
      break;
    case "rewritten": showRewritten(event); break;
    case "retrieved": showList(event, ""); break;
    case "fused": showList(event, "Fused"); break;
    case "reranked": showList(event, "Reranked"); break;
    case "done": {
      const gold = relevant === null ? "" : ` The benchmark knows this question and ${relevant} relevant document${relevant === 1 ? "" : "s"}.`;
      say(`Done in ${inSeconds(event.seconds)}.${gold}`);
      break;
    }
    case "error": say(event.detail, true); break;
  }
}

async function refusal(response) {
  const said = await response.json().catch(() => ({}));
  return typeof said.detail === "string" ? said.detail : `The server answered ${response.status}.`;
}

/** Reads the lines of an answer and shows each event. */
async function readEvents(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) show(JSON.parse(line));
  }
}

async function ask() {
  asking?.abort();
  const mine = asking = new AbortController();
  const request = { question: at("question").value, system: at("system").value, task: at("task").value, k: Number(at("k").value) };
  history.replaceState(null, "", `#${new URLSearchParams(request)}`);
  last = "";
  writings.clear();
  clear();
  say("Waiting …");
  at("stop").hidden = false;
  try {
    const response = await fetch("api/stream", {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(request), signal: mine.signal,
    });
    if (response.ok) {
      await readEvents(response);
      if (!["done", "error"].includes(last)) say("The answer broke off.", true);
    } else say(await refusal(response), true);
  } catch (error) {
    if (mine !== asking) return;
    say(error.name === "AbortError" ? "Stopped." : `The server can't be reached: ${error.message}`, error.name !== "AbortError");
  } finally {
    if (mine === asking) at("stop").hidden = true;
  }
}

at("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  if (at("question").value.trim()) ask();
});
at("question").addEventListener("input", suggest);
at("question").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  at("ask").requestSubmit();
});
at("system").addEventListener("change", () => {
  showSteps();
  if (at("lists").childElementCount && at("question").value.trim()) ask();
});
const unreachable = (error) => say(`The server can't be reached: ${error.message}`, true);
at("task").addEventListener("change", () => readQuestions().catch(unreachable));
at("stop").addEventListener("click", () => asking?.abort());
begin().catch(unreachable);
