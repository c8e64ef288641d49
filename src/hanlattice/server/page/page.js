// The page of `hanlattice serve`. Texts, words and labels reach the document through textContent and attributes only.
"use strict";

const TEXTS = {
  zh: {
    model: "模型", token: "令牌", text: "文本", type: "在这里输入或粘贴文本，每行一句", found: "识别结果", tools: "修改标注",
    remove: "删除", save: "保存本行", dictionary: "词典", new_word: "新词，或：拼多多 ORG", add: "加入",
    entries: "词后可写标签：拼多多 ORG；加分：拼多多 ORG 20，inf 为必定；禁止：奥 -inf；必切：太/贵 /。", changes: "去掉每个词会怎样", shares: "份额", lattice: "词格", saved: "已保存的行：",
    save_all: "全部保存", clear: "清空", file: "上传文本文件（每行一句），下载标注结果",
    keys: "选中文字即可新建标注。Tab 下一个；← → 移动右边界，Shift+← → 移动左边界；数字键换标签；Delete 删除；Enter 保存本行。",
    grow_left: "左边界左移", shrink_left: "左边界右移", shrink_right: "右边界左移", grow_right: "右边界右移",
    exclude: w => `不用“${w}”`, drop: w => `去掉“${w}”`, kept: n => `已保存，共 ${n} 行`, deleted: s => `已删除 ${s}`,
    now: s => `${s}`, nothing: "词典没有改变结果", long: n => `词格只显示光标所在的句子，最多 ${n} 个字`, working: (a, b) => `${a} / ${b} 行`,
    busy: "服务器忙，正在重试……", offline: "连不上服务器", empty: "还没有保存的行",
    pick: "指向或用 Tab 选择词格中的一个词或字，这里会显示去掉这个词会怎样，或它的份额。",
    changes_legend: "数字与粗细：去掉这个词，已找到的片段会增减多少个百分点；!：会找到别的片段。",
    shares_legend: n => `上方：从左到右读，词流入它的最后一个字；下方：从右到左读，词流入它的第一个字。百分比与粗细：占那个字的单元的份额${n > 1 ? `（第 1 层，共 ${n} 层）` : ""}。`,
    inks: { chosen: "加入的词", subword: "子词", own: "字自身的份额", word: "词的份额", before: "前一单元的份额" },
    no_words: "文本中没有词典里的词。", no_lattice: "这个模型没有词典，只读字。",
    without: (w, what) => `去掉“${w}”：${chinese(what)}`,
    arc: (w, way, m, s, lo, hi, c, even, w2) => `${w}（${way === "forward" ? "从左到右" : "从右到左"}）：占“${c}”的单元 ${m} ± ${s}（多数 ${lo}–${hi}），平均分为 ${even}` +
      (w2 ? `；去掉它：${chinese(w2)}` : ""),
    cell: (c, at, tag, own) => `${c}，第 ${+at + 1} 个字：${tag}` + (own ? `；自身份额 ${own[1]}（从左到右）、${own[2]}（从右到左）` : ""),
  },
  en: {
    model: "Model", token: "Token", text: "Text", type: "Type or paste text here, one sentence a line", found: "Found", tools: "Correct",
    remove: "Delete", save: "Save line", dictionary: "Dictionary", new_word: "New word, or: 拼多多 ORG", add: "Add",
    entries: "A label may follow: 拼多多 ORG; and how much more it scores: 拼多多 ORG 20, or inf. Never a span: 奥 -inf. Always cut: 太/贵 /.",
    changes: "Without each word", shares: "Shares", lattice: "Lattice", saved: "Saved lines:",
    save_all: "Save all", clear: "Clear", file: "Upload a text file (a sentence a line), download it tagged",
    keys: "Select text to make a span. Tab: next; ← → move its end, Shift+← → its start; digits: label; Delete: delete; Enter: save the line.",
    grow_left: "Start one to the left", shrink_left: "Start one to the right", shrink_right: "End one to the left", grow_right: "End one to the right",
    exclude: w => `Leave out “${w}”`, drop: w => `Remove “${w}”`, kept: n => `Saved, ${n} in all`, deleted: s => `Deleted ${s}`,
    now: s => `${s}`, nothing: "The dictionary changes nothing here", long: n => `The lattice shows the sentence at the cursor, up to ${n} characters`,
    working: (a, b) => `${a} of ${b} lines`, busy: "The server is busy, trying again …", offline: "The server cannot be reached", empty: "No line is saved yet",
    pick: "Point at a word or character of the lattice, or Tab to it: what changes without the word, or its share.",
    changes_legend: "Numbers and thickness: without the word, so many points more or less for a span that was found. !: other spans would be found.",
    shares_legend: n => `Above: read from left to right, words pour into their last character. Below: read from right to left, into their first. % and thickness: the share of that character's cell${n > 1 ? ` (layer 1 of ${n})` : ""}.`,
    inks: { chosen: "words that were added", subword: "subwords", own: "share of the character itself", word: "of words", before: "of the cell before" },
    no_words: "No word of the lexicon stands in this text.", no_lattice: "This model has no lexicon: it reads characters alone.",
  },
};
const $ = id => document.getElementById(id);
const state = { lang: "zh", view: "changes", models: [], tones: {}, limits: {}, model: null, words: [], out: [], lines: [], saved: [], at: null, current: 0, file: [] };
let wait = 0, tagging = null, drawing = null;

const t = (name, ...values) => {
  const text = TEXTS[state.lang][name] ?? TEXTS.en[name];
  return typeof text === "function" ? text(...values) : text;
};
const make = (tag, text = "", className = "") => {
  const made = document.createElement(tag);
  made.textContent = text;
  if (className) made.className = className;
  return made;
};
const chance = score => score === undefined ? "" : score > 0.995 && score < 1 ? ">99%" : `${Math.round(100 * score)}%`;
const part = (line, span) => line.chars.slice(span.start, span.end).join("");  // offsets are code points
const isSpace = character => /^\s$/u.test(character);
const chinese = what => what.replaceAll(", not found", "，不再找到").replaceAll(" found, ", " 出现，").replace("no change of 1% or more", "变化不到 1%");
const cuts = () => state.model?.kind === "words";

// ---- the server

async function ask(path, body, signal) {
  const headers = { "Content-Type": "application/json" };
  if ($("token").value) headers.Authorization = `Bearer ${$("token").value}`;
  for (let left = 5; ; left--) {
    const response = await fetch(path, body ? { method: "POST", headers, signal, body: JSON.stringify(body) } : { headers, signal });
    if (response.status === 429 && left) {
      problem(t("busy"));
      await new Promise(done => setTimeout(done, 1000 * (Number(response.headers.get("Retry-After")) || 1)));
      continue;
    }
    if (response.status === 401) $("token-row").hidden = false;
    const result = await response.json();
    if (!response.ok) throw new Error(result.error.message);
    problem("");
    return result;
  }
}
function problem(text) {
  $("problem").textContent = text;
  $("problem").hidden = !text;
}
function report(error) {
  if (error.name !== "AbortError") problem(error instanceof TypeError ? t("offline") : error.message);
}
const verb = () => cuts() ? "v1/segment" : "v1/tag";
const dictionary = () => ({
  model: state.model.name, ...(state.words.length && { dictionary: state.words.map(sent) }), ...(state.out.length && { exclude: state.out }),
});

// ---- tagging

const blank = text => ({ text, chars: Array.from(text), spans: [], edited: false });
function later() {
  clearTimeout(wait);
  wait = setTimeout(() => { tag(); draw(); }, 120);
  keep();
}
async function tag() {
  tagging?.abort();
  tagging = new AbortController();
  const texts = $("text").value.split("\n"), { signal } = tagging;
  try {
    const own = state.words.length || state.out.length;
    const [found, plain] = await Promise.all([
      ask(verb(), { texts, ...dictionary() }, signal),
      own ? ask(verb(), { texts, model: state.model.name }, signal) : null,
    ]);
    const before = new Map(state.lines.filter(line => line.edited).map(line => [line.text, line]));
    state.lines = found.documents.map(each => before.get(each.text) ?? { ...blank(each.text), spans: each.spans });
    state.at = null;
    show();
    changes(plain?.documents, found.documents);
  } catch (error) { report(error); }
}
function changes(before, after) {
  const list = $("changes");
  list.replaceChildren();
  if (!before) return;
  const name = span => `${span.start} ${span.end} ${span.label}`;
  before.forEach((left, n) => {
    const was = new Map(left.spans.map(span => [name(span), span])), now = new Map(after[n].spans.map(span => [name(span), span]));
    for (const [key, span] of was) if (!now.has(key)) list.append(make("li", `${span.text} ${span.label} ${chance(span.score)}`, "minus"));
    for (const [key, span] of now) {
      const old = was.get(key);
      if (!old) list.append(make("li", `${span.text} ${span.label} ${chance(span.score)}`, "plus"));
      else if (Math.abs((old.score ?? 0) - (span.score ?? 0)) >= 0.01)
        list.append(make("li", `${span.text} ${span.label} ${chance(old.score)} → ${chance(span.score)}`));
    }
  });
  if (!list.children.length) list.append(make("li", t("nothing")));
}
const caretLine = () => $("text").value.slice(0, $("text").selectionStart).split("\n").length - 1;
function show(focus = false) {
  const box = $("found");
  state.current = caretLine();
  box.replaceChildren(...state.lines.map((line, n) => {
    const p = make("p", "", "line");
    p.dataset.line = n;
    p.classList.toggle("current", n === state.current && state.lines.length > 1);
    p.classList.toggle("saved", state.saved.some(each => each.text === line.text));
    let at = 0;
    for (const span of line.spans) {
      p.append(line.chars.slice(at, span.start).join(""));
      p.append(mark(line, span, n));
      at = span.end;
    }
    p.append(line.chars.slice(at).join(""));
    if (line.text) {
      const save = make("button", "✓");
      save.type = "button";
      save.setAttribute("aria-label", `${t("save")}: ${line.text}`);
      save.onclick = () => keepLine(n);
      p.append(save);
    }
    return p;
  }));
  if (focus && state.at) box.querySelector(".mark.selected")?.focus();
  $("count").textContent = state.saved.length;
}
function mark(line, span, n) {
  const made = make("span", part(line, span), `mark tone${state.tones[span.label] ?? 7}`);
  made.dataset.label = cuts() ? "" : span.label;
  made.tabIndex = 0;
  made.setAttribute("role", "button");
  made.setAttribute("aria-label", `${part(line, span)}, ${span.label} ${chance(span.score)}`);
  made.title = `${span.label} ${chance(span.score)}`;
  const chosen = state.at && state.at.line === n && state.at.span === span;
  made.classList.toggle("selected", !!chosen);
  made.onfocus = () => {
    if (state.at?.span === span) return;
    $("found").querySelector(".mark.selected")?.classList.remove("selected");
    made.classList.add("selected");
    state.at = { line: n, span };
    buttons();
  };
  made.onkeydown = event => key(event);
  return made;
}

// ---- correcting

function edit(n, span, start, end) {
  const line = state.lines[n];
  start = Math.max(0, start);
  end = Math.min(line.chars.length, end);
  if (start >= end) return;
  Object.assign(span, { start, end, score: undefined });
  for (const other of line.spans) {
    if (other === span) continue;
    if (other.start < end && start < other.end) {  // what it grows over, others lose
      if (other.start < start) other.end = start;
      else other.start = end;
    }
  }
  settle(n, span);
}
function settle(n, span) {
  const line = state.lines[n];
  line.spans = line.spans.filter(each => each.start < each.end);
  if (cuts()) cover(line);
  line.spans.sort((a, b) => a.start - b.start);
  line.spans.forEach(each => { each.text = part(line, each); });
  line.edited = true;
  state.at = span && { line: n, span };
  show(true);
  buttons();
  if (span) $("status").textContent = t("now", `${part(line, span)} ${span.label}`);
}
function cover(line) {  // of a segmenter every character but white space belongs to a word
  const taken = new Set(line.spans.flatMap(span => line.chars.map((_, at) => at).slice(span.start, span.end)));
  line.chars.forEach((character, at) => {
    if (!taken.has(at) && !isSpace(character)) line.spans.push({ start: at, end: at + 1, label: state.model.labels[0] });
  });
}
function key(event) {
  const { line: n, span } = state.at, by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (by && event.shiftKey) edit(n, span, span.start + by, span.end);
  else if (by) edit(n, span, span.start, span.end + by);
  else if (/^[1-9]$/.test(event.key) && state.model.labels[event.key - 1]) label(state.model.labels[event.key - 1]);
  else if (event.key === "Delete" || event.key === "Backspace") drop();
  else if (event.key === "Enter" || event.key === " ") keepLine(n);
  else return;
  event.preventDefault();
}
function label(name) {
  if (!state.at) return;
  Object.assign(state.at.span, { label: name, score: undefined });
  settle(state.at.line, state.at.span);
}
function drop() {
  const { line: n, span } = state.at, line = state.lines[n];
  line.spans.splice(line.spans.indexOf(span), 1);
  $("status").textContent = t("deleted", part(line, span));
  const next = line.spans.find(each => each.start > span.start) ?? line.spans.at(-1);
  settle(n, next);
}
function selected() {  // text that was selected with the mouse, or with Shift and arrows, becomes a span
  const range = getSelection().rangeCount ? getSelection().getRangeAt(0) : null;
  const line = range && !range.collapsed && range.startContainer.parentElement?.closest(".line");
  if (!line || !line.contains(range.endContainer)) return;
  const before = document.createRange();
  before.selectNodeContents(line);
  before.setEnd(range.startContainer, range.startOffset);
  const start = Array.from(before.toString()).length, n = Number(line.dataset.line);
  const end = Math.min(start + Array.from(range.toString()).length, state.lines[n].chars.length);
  getSelection().removeAllRanges();
  if (start >= end) return;
  const span = { start, end, label: state.label ?? state.model.labels[0] };
  state.lines[n].spans.push(span);
  edit(n, span, start, end);
}
function buttons() {
  const names = state.model.labels;
  $("labels").replaceChildren(...(cuts() ? [] : names).map((name, n) => {
    const made = make("button", `${n + 1} ${name}`, `tone${state.tones[name] ?? 7}`);
    made.type = "button";
    made.setAttribute("aria-pressed", state.at?.span.label === name);
    made.onclick = () => { state.label = name; label(name); };
    return made;
  }));
}

// ---- saving

function keepLine(n) {
  const { text, spans } = state.lines[n];
  if (!text) return;
  const one = { text, spans: spans.map(({ start, end, label }) => ({ start, end, label })) };
  const there = state.saved.findIndex(each => each.text === text);
  if (there < 0) state.saved.push(one); else state.saved[there] = one;
  state.at = null;
  keepSaved();
  show();
  $("status").textContent = t("kept", state.saved.length);
  $("found").querySelectorAll(".line")[n + 1]?.querySelector(".mark")?.focus();
}
function keepSaved() {
  try { localStorage.setItem(`saved ${state.model.kind}`, JSON.stringify(state.saved)); } catch { /* a private window */ }
}
function loadSaved() {
  try { state.saved = JSON.parse(localStorage.getItem(`saved ${state.model.kind}`)) ?? []; } catch { state.saved = []; }
}
const FORMATS = {
  jsonl: ({ text, spans }) => JSON.stringify({ text, spans: spans.map(span => ({ ...span, text: Array.from(text).slice(span.start, span.end).join("") })) }) + "\n",
  bmes: document_ => columns(document_, (at, span) => at === span.start ? (span.end - at === 1 ? "S" : "B") : at === span.end - 1 ? "E" : "M"),
  conll: document_ => columns(document_, (at, span) => at === span.start ? "B" : "I"),
};
function columns({ text, spans }, prefix) {
  const tags = Array.from(text).map(() => "O");
  for (const span of spans) for (let at = span.start; at < span.end; at++) tags[at] = `${prefix(at, span)}-${span.label}`;
  return Array.from(text).map((character, at) => `${character}\t${tags[at]}\n`).join("") + "\n";
}
function download(documents, format, name) {
  const full = documents.filter(each => each.text);
  if (!full.length) { $("status").textContent = t("empty"); return; }
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([full.map(FORMATS[format]).join("")], { type: "text/plain" }));
  link.download = `${name}.${format}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
async function upload(file) {
  const lines = (await file.text()).replace(/^\ufeff/, "").split(/\r?\n/).filter(line => line.trim()), bar = $("progress");
  state.file = [];
  $("downloads").hidden = true;
  bar.hidden = false;
  try {
    for (let at = 0; at < lines.length;) {
      const texts = [];
      for (let size = 0; at < lines.length && texts.length < 64 && size < 10000; at++) size += texts[texts.push(lines[at]) - 1].length;
      state.file.push(...(await ask(verb(), { texts, ...dictionary(), scores: false })).documents);
      bar.value = at / lines.length;
      $("status").textContent = t("working", at, lines.length);
    }
    $("downloads").hidden = false;
  } catch (error) { report(error); }
  bar.hidden = true;
}

// ---- the lattice

function sentence() {  // the one at the cursor
  const { value, selectionStart } = $("text");
  let at = 0;
  for (const each of value.split(/(?<=[。！？!?；;\n])/)) {
    at += each.length;
    if (selectionStart < at || at === value.length) return each.trim();
  }
  return "";
}
async function draw() {
  drawing?.abort();
  drawing = new AbortController();
  const whole = Array.from(sentence()), most = state.limits.max_explain, text = whole.slice(0, most).join("");
  $("about").className = "";
  $("about").textContent = whole.length > most ? t("long", most) : t("pick");
  if (!text) { $("lattice").replaceChildren(); return; }
  const width = Math.max(300, Math.min(1000, $("lattice").clientWidth - 2));
  try {
    const { view } = state, without = view === "changes";
    const found = await ask("v1/explain", { text, ...dictionary(), without, svg: true, view, legend: false, width }, drawing.signal);
    const svg = document.importNode(new DOMParser().parseFromString(found.svg, "image/svg+xml").documentElement, true);
    const words = found.words.map(each => each.word);
    for (const title of svg.querySelectorAll("g > title")) point(title.parentNode, title.textContent, words);
    $("lattice").replaceChildren(svg);
    legend(found);
  } catch (error) { report(error); }
}
function legend(found) {
  const isShares = state.view === "shares", box = $("legend"), kinds = [];
  const sources = new Set(found.words.map(each => each.chosen ? "chosen" : each.source.replace(/s$/, "")));
  for (const each of ["chosen", "subword"]) if (sources.has(each)) kinds.push(each);
  const layers = Math.max(0, ...found.characters.map(each => each.forward.length));
  box.textContent = !found.has_lattice ? t("no_lattice") : !found.words.length ? t("no_words") : t(`${state.view}_legend`, layers);
  for (const each of [...kinds, ...(isShares && found.has_lattice ? ["own", "word", "before"] : [])])
    box.append(" ", make("span", "", `ink ${each}`), t("inks")[each]);
  for (const each of document.querySelectorAll("[data-view]")) each.setAttribute("aria-pressed", each.dataset.view === state.view);
}
const ARC = /^(.*), (forward|backward): (\S+) ± (\S+) \(most units (\S+) to (\S+)\) of the cell of (.*); an even share would be (\d+%)(?:; without it: (.*))?$/s;
const CELL = /^(.*), character (\d+): (.*?)(?:; own share (\S+) forward, (\S+) backward)?$/s;
function point(group, title, words) {
  const name = words.find(each => title.startsWith(`without ${each}: `));  // of an arc of what changes
  const arc = name === undefined ? ARC.exec(title) : [title, name], cell = !arc && CELL.exec(title);
  let text = title;
  if (state.lang === "zh" && name !== undefined) text = t("without", name, title.slice(`without ${name}: `.length));
  else if (state.lang === "zh" && arc) text = t("arc", ...arc.slice(1));
  else if (state.lang === "zh" && cell) text = t("cell", cell[1], cell[2], cell[3], cell[4] && [0, cell[4], cell[5]]);
  group.setAttribute("tabindex", arc && !group.querySelector("path") ? -1 : 0);  // an arc once, not its label too
  group.setAttribute("role", "img");
  group.setAttribute("aria-label", text);
  if (arc) group.setAttribute("class", "word");
  const tell = () => {
    $("about").replaceChildren(make("span", text));
    $("about").className = "told";
    if (!arc) return;
    const own = state.words.some(each => wordOf(each) === arc[1]), button = make("button", own ? t("drop", arc[1]) : t("exclude", arc[1]));
    button.type = "button";
    button.onclick = () => leaveOut(arc[1]);
    $("about").append(button);
  };
  group.addEventListener("pointerenter", tell);
  group.addEventListener("focus", tell);
  if (arc) group.addEventListener("keydown", event => { if (event.key === "Enter" || event.key === "Delete") leaveOut(arc[1]); });
}

// ---- the dictionary

// An entry is a word, or as a line of a dictionary file a word, a TAB, and what it says: a label, a number, or both.
const wordOf = entry => entry.split("\t")[0];
function sent(entry) {
  const [word, said] = entry.split("\t");
  if (said === undefined) return word;
  if (said === "-inf") return { word, trust: said };
  const [label, trust] = said.split(" ");
  return { word, label, ...(trust && { trust: /inf$/.test(trust) ? trust : Number(trust) }) };
}
function entry(text) {  // what was typed: 拼多多, 拼多多 ORG, 拼多多 ORG 20, 奥 -inf, 太/贵 /
  const found = /^(.*\S)\s+(?![+-]?inf$)(\S*[^\s\d.+-]\S*)(?:\s+([+-]?(?:inf|\d+(?:\.\d+)?)))?$/su.exec(text);
  const [, word, label, trust] = found ?? [], isWide = each => /[^\0-\x7f]/.test(each);
  const isLabel = found && (label === "/" || state.model.labels.includes(label) || (trust && isWide(label)) ||
    (/^[A-Z][A-Z_.-]*$/.test(label) && (trust || isWide(word))));  // a Latin word may have two parts
  if (isLabel) return `${word}\t${label}${trust ? ` ${trust.replace("+", "")}` : ""}`;
  return text.replace(/\s+-inf$/, "\t-inf");
}
function leaveOut(word) {
  if (state.words.some(each => wordOf(each) === word)) state.words = state.words.filter(each => wordOf(each) !== word);
  else if (!state.out.includes(word)) state.out.push(word);
  showWords();
  later();
}
function showWords() {
  const chip = (word, list) => {
    const item = make("li", word.replace("\t", " "), list === "out" ? "out" : ""), button = make("button", "✕");
    button.type = "button";
    button.setAttribute("aria-label", t("drop", word.replace("\t", " ")));
    button.onclick = () => { state[list] = state[list].filter(each => each !== word); showWords(); later(); };
    item.append(button);
    return item;
  };
  $("words").replaceChildren(...state.words.map(word => chip(word, "words")), ...state.out.map(word => chip(word, "out")));
}

// ---- the address, languages, the beginning

function keep() {
  const values = { t: $("text").value, m: state.model?.name ?? "", l: state.lang };
  if (state.words.length) values.w = state.words.join("\n");
  if (state.out.length) values.x = state.out.join("\n");
  history.replaceState(null, "", `#${new URLSearchParams(values)}`);
}
function translate() {
  document.documentElement.lang = state.lang;
  for (const each of document.querySelectorAll("[data-t]")) each.textContent = t(each.dataset.t);
  for (const each of document.querySelectorAll("[data-p]")) each.placeholder = t(each.dataset.p);
  for (const each of document.querySelectorAll("[data-a]")) each.setAttribute("aria-label", t(each.dataset.a));
  $("language").textContent = state.lang === "zh" ? "English" : "中文";
}
function choose(name) {
  state.model = state.models.find(each => each.name === name) ?? state.models[0];
  $("model").value = state.model.name;
  state.lines = [];
  state.at = null;
  loadSaved();
  buttons();
  later();
}
function fromAddress() {
  const values = new URLSearchParams(location.hash.slice(1));
  state.lang = values.get("l") ?? (navigator.language.startsWith("zh") ? "zh" : "en");
  state.words = values.get("w")?.split("\n").filter(Boolean) ?? [];
  state.out = values.get("x")?.split("\n").filter(Boolean) ?? [];
  $("text").value = values.get("t") ?? "南京市长江大桥";
  translate();
  showWords();
  return values.get("m");
}
async function begin() {
  const name = fromAddress();
  try {
    Object.assign(state, await ask("v1/models"));
    $("model").replaceChildren(...state.models.map(each => make("option", each.name)));
    choose(name);
  } catch (error) { report(error); }
}
$("text").addEventListener("input", later);
for (const name of ["click", "keyup"]) $("text").addEventListener(name, () => {
  if (caretLine() !== state.current && state.model) { show(); draw(); }
});
$("found").addEventListener("mouseup", selected);
$("found").addEventListener("touchend", () => setTimeout(selected, 300));
$("model").addEventListener("change", event => choose(event.target.value));
$("token-row").addEventListener("submit", event => { event.preventDefault(); begin(); });
$("file").addEventListener("change", event => event.target.files[0] && upload(event.target.files[0]));
$("language").addEventListener("click", () => {
  state.lang = state.lang === "zh" ? "en" : "zh";
  translate();
  showWords();
  show();
  later();
});
$("add").addEventListener("submit", event => {
  event.preventDefault();
  const word = entry($("word").value.trim());
  if (Array.from(word).length < 2) return;
  state.out = state.out.filter(each => each !== wordOf(word));
  state.words = [...state.words.filter(each => wordOf(each) !== wordOf(word)), word];
  $("word").value = "";
  showWords();
  later();
});
document.addEventListener("click", event => {
  const { act, export: format, download: tagged } = event.target.dataset ?? {};
  if (event.target.dataset?.view) { state.view = event.target.dataset.view; draw(); }
  else if (format) download(state.saved, format, "corrected");
  else if (tagged) download(state.file, tagged, "tagged");
  else if (act === "save-all") state.lines.forEach((_, n) => keepLine(n));
  else if (act === "clear") { state.saved = []; keepSaved(); show(); }
  else if (act && state.at) {
    const { line: n, span } = state.at;
    if (act === "remove") drop();
    else if (act === "save") keepLine(n);
    else if (act.startsWith("start")) edit(n, span, span.start + (act.endsWith("+") ? 1 : -1), span.end);
    else edit(n, span, span.start, span.end + (act.endsWith("+") ? 1 : -1));
  }
});
window.addEventListener("hashchange", () => choose(fromAddress()));
let resized = 0;
window.addEventListener("resize", () => { clearTimeout(resized); resized = setTimeout(draw, 300); });
begin();
