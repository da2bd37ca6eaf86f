"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const find = (selector, within = document) => within.querySelector(selector);
const findAll = (selector, within = document) => [...within.querySelectorAll(selector)];

// Every text goes into the page as text: `h` never reads HTML.
const SVG = new Set(["svg", "g", "line", "circle", "path", "rect", "text", "polygon", "title"]);
const h = (tag, attributes = {}, ...children) => {
  const node = SVG.has(tag) ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
};
const choice = (label, options, selected, change) => {
  const list = options.map(([value, text]) => h("option", { value, selected: value === selected }, text));
  return h("label", {}, h("span", {}, label), h("select", { onchange: (event) => change(event.target.value) }, list));
};

const measureNamed = (name) => data.measures.find((measure) => measure.name === name) ?? data.measures[0];
const systemNamed = (name) => data.systems.findIndex((system) => system.name === name);
const taskNamed = (name) => data.tasks.find((task) => task.name === name);
const judged = data.tasks.filter((task) => task.script);
const NOTHING = "–";
const write = (value, measure) =>
  value === null || value === undefined ? NOTHING : (value * measure.factor).toFixed(measure.decimals);
const signed = (value, measure) => {
  if (value === null || value === undefined) return NOTHING;
  const text = (value * measure.factor).toFixed(measure.decimals);
  return text.startsWith("-") ? text.replace("-", "−") : `+${text}`;
};
const mean = (values) =>
  values.length && values.every((value) => value !== null && value !== undefined)
    ? values.reduce((sum, value) => sum + value, 0) / values.length : null;

// Files beside the page are scripts, because a page that is opened from a disk may load nothing else.
const loading = new Map();
const arrived = new Map();
const load = (path) => {
  if (!loading.has(path)) {
    loading.set(path, new Promise((resolve, reject) => {
      const script = h("script", { src: path.split("/").map(encodeURIComponent).join("/") });
      script.addEventListener("load", () => resolve(arrived.get(path)));
      script.addEventListener("error", () => {
        loading.delete(path);
        reject(new Error(`${path} can't be read. Keep the folder “queries” beside this page.`));
      });
      document.head.append(script);
    }));
  }
  return loading.get(path);
};
const blockPath = (task, number) => `${task.script.slice(0, -3)}/${number}.js`;
const r2med = {
  task: (value) => arrived.set(taskNamed(value.task).script, value),
  block: (value) => arrived.set(blockPath(taskNamed(value.task), value.number), value),
};
const queryOf = async (task, id) => {
  const table = await load(task.script);
  const place = table.queries.findIndex((query) => query[0] === id);
  if (place < 0) throw new Error(`${task.name} has no query ${id}.`);
  const number = table.blocks.findLastIndex((first) => first <= place);
  const block = number < 0 ? null : await load(blockPath(task, number));
  return { table, place, block, details: block && block.queries[place - table.blocks[number]] };
};

const queryHash = (task, id, a, b) => `#query/${[task, id, a, b].filter((part) => part !== undefined).map(encodeURIComponent).join("/")}`;
const pairHash = (a, b, task = "", measure = data.main) => `#pair/${[a, b, task, measure].map(encodeURIComponent).join("/")}`;
