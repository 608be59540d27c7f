"use strict";
// Whatever comes from the data goes into the page as text (textContent), never as markup.

const data = JSON.parse(document.getElementById("data").textContent);
const RELAXED = 1, DIFFERS = 2; // what marks say, as answers.py has them
const EXCERPT = 100;
const SHOWN_AT_ONCE = 100;
const base = "ar";

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

// -- theme -------------------------------------------------------------------------------------

const THEMES = ["auto", "light", "dark"];
const themeButton = document.getElementById("theme");

function setTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  themeButton.textContent = `Theme: ${theme}`;
  try {
    localStorage.setItem("mars-theme", theme);
  } catch {} // a file opened from a disk may have no storage
}

function storedTheme() {
  try {
    return localStorage.getItem("mars-theme");
  } catch {
    return null;
  }
}

themeButton.addEventListener("click", () => {
  const now = document.documentElement.dataset.theme ?? "auto";
  setTheme(THEMES[(THEMES.indexOf(now) + 1) % THEMES.length]);
});
setTheme(THEMES.includes(storedTheme()) ? storedTheme() : "auto");
document.querySelector("header .controls").hidden = false;

// -- tables ------------------------------------------------------------------------------------

const words = new Intl.Collator("en", { numeric: true });

/** A cell's number, or its text; null where a figure was not measured, which sorts last. */
function sortKey(cell) {
  if (cell.dataset.key !== undefined) return Number(cell.dataset.key);
  return cell.classList.contains("n") ? null : cell.textContent;
}

function compare(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return words.compare(String(a), String(b));
}

/** Sorts rows, or where a row has more beneath it, its tbody; equal ones keep their order. */
function sortBy(table, column, descending) {
  const several = table.tBodies.length > 1;
  const rows = several ? [...table.tBodies] : [...(table.tBodies[0]?.rows ?? [])];
  const keyed = rows.map((row) => [sortKey((several ? row.rows[0] : row).cells[column]), row]);
  keyed.sort(([a], [b]) => {
    if (a === null || b === null) return (a === null) - (b === null);
    return descending ? compare(b, a) : compare(a, b);
  });
  (several ? table : table.tBodies[0])?.append(...keyed.map(([, row]) => row));
}

function makeSortable(table) {
  const headers = [...table.tHead.rows[0].cells];
  headers.forEach((header, column) => {
    if (!header.textContent) return;
    const button = element("button", { type: "button" }, ...header.childNodes);
    header.append(button);
    header.setAttribute("aria-sort", "none");
    button.addEventListener("click", () => {
      const descending = header.getAttribute("aria-sort") === "ascending";
      for (const other of headers) if (other.hasAttribute("aria-sort")) other.setAttribute("aria-sort", "none");
      header.setAttribute("aria-sort", descending ? "descending" : "ascending");
      sortBy(table, column, descending);
    });
  });
}

const tables = [...document.querySelectorAll("table.data")];
tables.forEach(makeSortable);

const rowFilter = document.getElementById("rows");
rowFilter.addEventListener("input", () => {
  const wanted = rowFilter.value.toLowerCase().split(/\s+/).filter(Boolean);
  let all = 0, left = 0;
  for (const table of tables) {
    for (const row of table.tBodies[0].rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !wanted.every((word) => text.includes(word));
      all += 1;
      left += !row.hidden;
    }
  }
  document.getElementById("rows-left").textContent = wanted.length ? `${left} of ${all}` : "";
});

// -- texts -------------------------------------------------------------------------------------

const DIRECTION = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/;

/** How a character is shown that would not be seen, or that would steer; else null. */
function sign(character) {
  const code = character.codePointAt(0);
  if (code < 0x20 && character !== "\n" && character !== "\t") return String.fromCharCode(0x2400 + code);
  if (code === 0x7f) return "\u2421";
  const hidden = (code >= 0x80 && code < 0xa0) || DIRECTION.test(character)
    || (code >= 0xd800 && code < 0xe000) || code === 0xfeff || code === 0x200b
    || code === 0x2028 || code === 0x2029 || (code >= 0xe0000 && code < 0xe0080);
  return hidden ? `U+${code.toString(16).toUpperCase().padStart(4, "0")}` : null;
}

/** Characters as nodes: those that are not seen become signs. */
function shown(characters) {
  const nodes = [];
  let plain = "";
  for (const character of characters) {
    const found = sign(character);
    if (found === null) {
      plain += character;
      continue;
    }
    if (plain) nodes.push(document.createTextNode(plain));
    plain = "";
    nodes.push(element("span", { class: "sign" }, found));
  }
  if (plain) nodes.push(document.createTextNode(plain));
  return nodes;
}

/** A text in <pre>, with its marks: [from, to, what], in characters, sorted, none over another. */
function textBox(text, marks, cut, label) {
  const characters = Array.from(text);
  const box = element("pre", { tabindex: "0", dir: "auto", role: "group", "aria-label": label });
  let at = 0;
  for (const [from, to, what] of marks) {
    box.append(...shown(characters.slice(at, from)));
    const names = [what & RELAXED ? "relaxed" : "", what & DIFFERS ? "differs" : ""].filter(Boolean);
    const says = { relaxed: "relaxed token", differs: "first difference from ar" };
    const title = names.map((name) => says[name]).join(", ");
    box.append(element("mark", { class: names.join(" "), title }, ...shown(characters.slice(from, to))));
    at = to;
  }
  box.append(...shown(characters.slice(at)));
  if (cut) box.append(element("span", { class: "sign" }, ` ... (${cut.toLocaleString("en")} characters in all)`));
  return box;
}

// -- documents ---------------------------------------------------------------------------------

const lowered = new Map();
function lowerText(place) {
  if (place === null) return "";
  if (!lowered.has(place)) lowered.set(place, data.texts[place].toLowerCase());
  return lowered.get(place);
}

function number(value) {
  if (value === null) return "\u2013";
  return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(4)));
}

/** How many characters all texts begin with alike (examples, instructions), whole words only. */
function sharedStart(texts) {
  if (texts.length < 2) return 0;
  const [first, ...others] = texts;
  let size = first.length;
  for (const text of others) {
    let same = 0;
    while (same < size && text[same] === first[same]) same += 1;
    size = same;
  }
  while (size > 0 && /\w/.test(first[size - 1])) size -= 1;
  return size;
}

const reversed = (text) => text.split("").reverse().join("");

/** What is a prompt's own, between what all begin and end with, on one line. */
function excerpt(text, start, end) {
  const own = text.slice(start, Math.max(start, text.length - end)) || text;
  const piece = own.slice(0, 3 * EXCERPT).replace(/\s+/g, " ").trim();
  return piece.length > EXCERPT ? `${piece.slice(0, EXCERPT)}...` : piece;
}

const traits = [
  ["lanes differ", (document) => document.answers.some((answer) => answer?.differs)],
  ["scores differ", (document) => new Set(document.answers.filter((a) => a && a.score !== null).map((a) => a.score)).size > 1],
  ["relaxed tokens", (document) => document.answers.some((answer) => answer?.relaxed)],
];

function nameOf(document) {
  const parts = [`${document.id}`];
  if (document.sample) parts.push(`sample ${document.sample}`);
  if (document.turn) parts.push(`turn ${document.turn + 1}`);
  return parts.join(", ");
}

function scoreCell(answer, reference, higher) {
  if (!answer) return element("td", { class: "n" }, "\u2013");
  const beside = [];
  if (answer.differs) beside.push(`\u2260${answer.differs.at ?? ""}`);
  if (answer.relaxed) beside.push(`r${answer.relaxed}`);
  let kind = "n";
  if (reference && reference.score !== null && answer.score !== null && answer.score !== reference.score) {
    kind += (answer.score > reference.score) === higher ? " better" : " worse";
  }
  const cell = element("td", { class: kind, "data-key": answer.score }, number(answer.score));
  if (beside.length) cell.append(" ", element("small", {}, beside.join(" ")));
  return cell;
}

function answerCard(task, document, lane, answer) {
  const heading = element("h4", {}, ...shown(task.lanes[lane]));
  if (!answer) return element("article", { class: "answer" }, heading, element("p", { class: "legend" }, "no answer"));
  const facts = [];
  if (answer.score !== null) facts.push(`score ${number(answer.score)}`);
  for (const [name, score] of answer.scores) facts.push(`${name} ${number(score)}`);
  facts.push(`${answer.tokens} tokens`);
  if (answer.finish) facts.push(`finish: ${answer.finish}`);
  if (answer.relaxed) {
    const marked = answer.marks.filter(([, , what]) => what & RELAXED).length;
    facts.push(`${answer.relaxed} relaxed${marked < answer.relaxed ? `, ${marked} marked` : ""}`);
  }
  if (answer.differs) {
    const at = answer.differs.at === null ? "" : ` from token ${answer.differs.at}`;
    facts.push(`differs${at}${answer.differs.shorter ? ": ends there" : ""}`);
  } else if (task.lanes[lane] !== base && document.answers[task.lanes.indexOf(base)]) {
    facts.push("as ar");
  }
  const label = `Answer of ${task.lanes[lane]} to document ${nameOf(document)}`;
  return element("article", { class: "answer" }, heading,
    element("p", { class: "legend" }, ...shown(facts.join(" \u00b7 "))),
    textBox(data.texts[answer.text], answer.marks, answer.cut, label));
}

function details(task, document, columns) {
  const prompt = element("div", { class: "prompt" }, element("h4", {}, "prompt"));
  if (document.prompt === null) {
    const why = document.turn ? "of a later turn: it holds the lane's own earlier answers" : "not recorded";
    prompt.append(element("p", { class: "legend" }, why));
  } else {
    prompt.append(textBox(data.texts[document.prompt], [], document.cut, `Prompt of document ${nameOf(document)}`));
  }
  const cards = document.answers.map((answer, lane) => answerCard(task, document, lane, answer));
  const key = element("p", { class: "legend" },
    element("mark", { class: "relaxed" }, "relaxed token"), " accepted though strict would have rejected it; ",
    element("mark", { class: "differs" }, "first difference"), " from ar");
  return element("tr", {}, element("td", { class: "open", colspan: columns }, prompt, element("div", { class: "lanes" }, ...cards), key));
}

function browser(task) {
  const columns = 2 + task.lanes.length;
  const header = element("tr", {}, element("th", { scope: "col" }, "document"), element("th", { scope: "col" }, "prompt"),
    ...task.lanes.map((lane) => element("th", { scope: "col", class: "n" }, ...shown(lane))));
  const table = element("table", { class: "browse" }, element("thead", {}, header));
  const prompts = task.documents.filter((one) => one.prompt !== null).map((one) => data.texts[one.prompt]);
  const start = sharedStart(prompts);
  const end = sharedStart(prompts.map((prompt) => reversed(prompt.slice(start))));
  const reference = task.lanes.indexOf(base);
  const entries = task.documents.map((document) => {
    const button = element("button", { type: "button", class: "document", "aria-expanded": "false" }, nameOf(document));
    const said = document.prompt === null ? "" : excerpt(data.texts[document.prompt], start, end);
    const row = element("tr", {}, element("th", { scope: "row" }, button), element("td", { class: "said" }, element("div", {}, ...shown(said))),
      ...document.answers.map((answer) => scoreCell(answer, document.answers[reference], task.higher)));
    const body = element("tbody", {}, row);
    button.addEventListener("click", () => {
      const open = button.getAttribute("aria-expanded") !== "true";
      button.setAttribute("aria-expanded", String(open));
      if (open) body.append(details(task, document, columns));
      else body.rows[1].remove();
    });
    return { document, body };
  });
  table.append(...entries.map((entry) => entry.body));
  makeSortable(table);

  const search = element("input", { type: "search", placeholder: "text of prompts, answers", autocomplete: "off" });
  const boxes = traits.map(([name, holds]) => ({ name, holds, input: element("input", { type: "checkbox" }) }));
  const count = element("output", { "aria-live": "polite" });
  const more = element("button", { type: "button" }, "Show all");
  let most = SHOWN_AT_ONCE;
  function update() {
    const wanted = search.value.toLowerCase().trim();
    const asked = boxes.filter((box) => box.input.checked);
    const found = new Set(entries.filter(({ document }) => asked.every((box) => box.holds(document))
      && (!wanted || String(document.id) === wanted || lowerText(document.prompt).includes(wanted)
        || document.answers.some((answer) => answer && lowerText(answer.text).includes(wanted)))).map(({ body }) => body));
    let left = most;
    for (const body of table.tBodies) {
      body.hidden = !found.has(body) || left === 0;
      if (!body.hidden) left -= 1;
    }
    count.textContent = `${found.size} of ${entries.length}`;
    more.hidden = found.size <= most;
  }
  search.addEventListener("input", update);
  for (const box of boxes) box.input.addEventListener("change", update);
  table.tHead.addEventListener("click", update);
  more.addEventListener("click", () => {
    most = Infinity;
    update();
  });
  update();
  const controls = element("div", { class: "controls" }, element("label", {}, "Find", search),
    ...boxes.map((box) => element("label", {}, box.input, box.name)), count);
  const metric = `Under each lane its score${task.metric ? ` (${task.metric})` : ""}, \u2260 with the first token that differs from ar's, r with the number of relaxed tokens.`;
  return [controls, element("div", { class: "wide" }, table), more, element("p", { class: "legend" }, ...shown(metric))];
}

for (const section of document.querySelectorAll("details.documents")) {
  const place = section.querySelector("[data-task]");
  section.addEventListener("toggle", () => {
    if (section.open && !place.childNodes.length) place.append(...browser(data.tasks[Number(place.dataset.task)]));
  });
}
