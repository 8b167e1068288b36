// Reports of browsers and phones for discreet: one example, one private symbol.
//
//   const parameters = readParameters(await (await fetch("/v1/parameters")).text());
//   const report = randomize(parameters, score, label);           // label 1 or 0
//   await fetch("/v1/reports", { method: "POST", body: encode(report) });
//
// It follows docs/reports.md and the vectors in vectors/reports, needs no other module, and
// runs in browsers, Node and React Native (with a polyfill of crypto.getRandomValues).

export const VERSION = 1;
const DENOMINATOR = 1n << 32n; // `**` is compiled to Math.pow by some, which takes no BigInt
const MAX_EPSILON = 16n;
const FEWEST_BINS = 4;
const MOST_BINS = 128;
const MOST_WEIGHT = 1n << 62n;
const MOST_REPORTS = 1000;
const MOST_DAYS = 3660;
const DAY = 86400;
const KEYS = [
  "discreet", "edges", "epsilon", "length", "odds", "period_days", "plan",
  "reports_per_person", "version",
];

const systemBytes = (size) => globalThis.crypto.getRandomValues(new Uint8Array(size));

function check(holds, reason) {
  if (!holds) throw new RangeError(`these are no parameters to send reports by: ${reason}`);
}

const isWhole = (value, least, most) =>
  Number.isInteger(value) && value >= least && value <= most;

function pair(value) {
  const digits = /^(0|[1-9][0-9]{0,29})$/;
  check(
    Array.isArray(value) && value.length === 2 && value[1] !== "0" &&
      value.every((v) => typeof v === "string" && digits.test(v)),
    "epsilon and odds are two whole numbers each, written as texts",
  );
  return value.map(BigInt);
}

// An integer in (s e^x - 2, s e^x], x = top/bottom: a truncated series, all in integers.
function expBelow(top, bottom, scale) {
  let term = 1n, partial = 1n, denominator = 1n, k = 0n;
  while (k * bottom < 2n * top || 2n * scale * term >= denominator) {
    k += 1n;
    denominator *= bottom * k;
    term *= top;
    partial = partial * bottom * k + term;
  }
  return (partial * scale) / denominator;
}

// Read and check the parameters of a plan, which `discreet phone parameters` writes.
export function readParameters(text) {
  const table = JSON.parse(text);
  check(
    table !== null && typeof table === "object" && !Array.isArray(table) &&
      Object.keys(table).sort().join() === KEYS.join(),
    `the parameters hold ${KEYS.join(", ")}, and nothing else`,
  );
  const { plan, edges, length, reports_per_person, period_days } = table;
  check(
    table.discreet === "report parameters" && table.version === VERSION,
    `this client reads report parameters of version ${VERSION}`,
  );
  check(
    typeof plan === "string" && /^[0-9a-f]{64}$/.test(plan),
    "the plan's digest has 64 hexadecimal digits",
  );
  const [top, bottom] = pair(table.epsilon);
  check(top > 0n && top <= MAX_EPSILON * bottom, "epsilon is above 0 and at most 16");
  check(Array.isArray(edges), "the edges are a list");
  const bins = edges.length + 1;
  check(
    bins >= FEWEST_BINS && bins <= MOST_BINS,
    `there are between ${FEWEST_BINS} and ${MOST_BINS} bins`,
  );
  check(
    edges.every((e, k) => Number.isFinite(e) && (k === 0 || edges[k - 1] < e)),
    "edges are finite numbers in increasing order",
  );
  const [likely, unlikely] = pair(table.odds);
  check(unlikely <= DENOMINATOR && likely >= unlikely, "odds are n/D with n >= D");
  check(
    likely <= expBelow(top, bottom, unlikely),
    "the odds exceed e^epsilon: such a report is less private than said",
  );
  check(isWhole(length, 1, bins - 1), "an arc has 1 cell or more, and fewer than bins");
  const inside = BigInt(length) * likely;
  const weight = inside + BigInt(2 * bins - length) * unlikely;
  check(weight < MOST_WEIGHT, "the weights are too large for 64-bit words");
  check(isWhole(reports_per_person, 1, MOST_REPORTS), "a person sends a report or more");
  check(period_days === null || isWhole(period_days, 1, MOST_DAYS), "a period has days");
  return Object.freeze({
    plan, edges, bins, likely, unlikely, inside, weight,
    reportsPerPerson: reports_per_person, periodDays: period_days,
  });
}

// A uniform integer below a bound: 64-bit words, by rejection.
export function uniformBelow(bound, entropy = systemBytes) {
  for (;;) {
    const bytes = entropy(8);
    let word = 0n;
    for (let k = 7; k >= 0; k -= 1) word = (word << 8n) | BigInt(bytes[k]);
    const rest = word % bound;
    if (word - rest <= (1n << 64n) - bound) return rest;
  }
}

// The cell of an example: the number of edges at or below its score, plus B if positive.
export function cellOf(parameters, score, label) {
  const code = typeof label === "boolean" ? Number(label) : label;
  if (code !== 0 && code !== 1) throw new RangeError("a label is 0 or 1");
  if (typeof score !== "number" || Number.isNaN(score)) {
    throw new RangeError("a score is a number");
  }
  return parameters.edges.filter((e) => e <= score).length + code * parameters.bins;
}

// The symbol of a cell and an integer below W.
export function symbolOf(parameters, cell, drawn) {
  const { bins, likely, unlikely, inside } = parameters;
  const cells = 2 * bins;
  const step = drawn < inside
    ? -Number(drawn / likely)
    : 1 + Number((drawn - inside) / unlikely);
  return (cell + step + cells) % cells;
}

const hex = (bytes) => Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");

// The private report of one example. Two calls cost twice epsilon: see Budget.
export function randomize(parameters, score, label, entropy = systemBytes) {
  const cell = cellOf(parameters, score, label);
  const id = hex(entropy(16));
  const drawn = uniformBelow(parameters.weight, entropy);
  return { plan: parameters.plan.slice(0, 16), id, symbol: symbolOf(parameters, cell, drawn) };
}

// The 26 bytes of a report: version, plan, id, symbol.
export function encode(report) {
  const digits = report.plan + report.id;
  const middle = digits.match(/../g).map((pair) => parseInt(pair, 16));
  return Uint8Array.from([VERSION, ...middle, report.symbol]);
}

// A client's own budget: so many reports of a person by plan and period. `storage` has
// getItem and setItem, such as localStorage or React Native's AsyncStorage.
export class Budget {
  constructor(parameters, storage, clock = () => Date.now() / 1000, entropy = systemBytes) {
    Object.assign(this, { parameters, storage, clock, entropy });
  }

  // The report to send about one example, null when none is left. A question that was
  // answered before gets the same report again. `about` names the example.
  report(score, label, about) {
    const plan = this.parameters.plan.slice(0, 16);
    const name = `discreet-reports-${plan}`;
    return alone(name, () => this.answer(score, label, about, plan, name));
  }

  async answer(score, label, about, plan, name) {
    const { parameters, storage } = this;
    const memory = remembered(await storage.getItem(name));
    const key = String(about);
    const before = new Map(memory.answers).get(key);
    if (before) return { plan, id: before[1], symbol: before[2] };
    const days = parameters.periodDays;
    const now = days === null ? 0 : Math.floor(this.clock() / (DAY * days));
    if (!Number.isSafeInteger(now)) throw new RangeError("the clock gives no time");
    const period = Math.max(now, memory.period); // a clock put back
    const spent = memory.answers.filter(([, answer]) => answer[0] === period).length;
    if (spent >= parameters.reportsPerPerson) return null;
    const report = randomize(parameters, score, label, this.entropy);
    memory.answers.push([key, [period, report.id, report.symbol]]);
    memory.period = period;
    await storage.setItem(name, JSON.stringify(memory)); // stored before it is sent
    return report;
  }
}

// Questions wait for each other, so that none is answered from an older memory: also those
// of other tabs, where the browser has Web Locks.
let turn = Promise.resolve();

function alone(name, work) {
  const locks = globalThis.navigator?.locks;
  if (locks) return locks.request(name, work);
  const done = turn.then(work);
  turn = done.catch(() => {});
  return done;
}

// A question, and the period, the id and the symbol of its answer.
const isAnswer = (entry) => Array.isArray(entry) && typeof entry[0] === "string" &&
  Array.isArray(entry[1]) && Number.isInteger(entry[1][0]) &&
  /^[0-9a-f]{32}$/.test(entry[1][1]) && isWhole(entry[1][2], 0, 2 * MOST_BINS - 1);

function remembered(text) {
  if (text === null || text === undefined) return { version: VERSION, period: 0, answers: [] };
  const memory = JSON.parse(text);
  const whole = memory?.version === VERSION && Number.isInteger(memory.period) &&
    Array.isArray(memory.answers) && memory.answers.every(isAnswer);
  if (!whole) {
    throw new Error("what is remembered of reports was damaged: no further report is sent");
  }
  return memory;
}
