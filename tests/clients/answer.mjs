// Answers questions of tests/unit/test_phone.py about the JavaScript client, as JSON.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const client = await import(pathToFileURL(process.argv[2]));
const questions = JSON.parse(readFileSync(0, "utf8"));

function stream(digits) {
  const bytes = Uint8Array.from(digits.match(/../g) ?? [], (pair) => parseInt(pair, 16));
  let place = 0;
  const draw = (size) => {
    if (place + size > bytes.length) throw new Error("too little entropy");
    place += size;
    return bytes.slice(place - size, place);
  };
  return { draw, left: () => bytes.length - place };
}

function double(bits) {
  const view = new DataView(new ArrayBuffer(8));
  view.setBigUint64(0, BigInt(`0x${bits}`));
  return view.getFloat64(0);
}

function refused(action) {
  try {
    action();
    return false;
  } catch {
    return true;
  }
}

const ways = {
  report({ parameters, cases }) {
    const read = client.readParameters(parameters);
    return cases.map(({ score_bits, label, entropy }) => {
      const { draw, left } = stream(entropy);
      const report = client.randomize(read, double(score_bits), label, draw);
      const bytes = Buffer.from(client.encode(report)).toString("hex");
      return { ...report, bytes, left: left() };
    });
  },
  bad: ({ parameters }) => refused(() => client.readParameters(parameters)),
  symbols({ parameters, pairs }) {
    const read = client.readParameters(parameters);
    return pairs.map(([cell, drawn]) => client.symbolOf(read, cell, BigInt(drawn)));
  },
  wrong({ parameters, examples }) {
    const read = client.readParameters(parameters);
    return examples.map(([score, label]) =>
      refused(() => client.randomize(read, score === "NaN" ? NaN : score, label)));
  },
  async together({ parameters, asked }) {
    const kept = new Map();
    const storage = {
      getItem: async (name) => kept.get(name) ?? null,
      setItem: async (name, value) => void kept.set(name, value),
    };
    const read = client.readParameters(parameters);
    const reports = asked.map((about) =>
      new client.Budget(read, storage, () => 0).report(0.4, 1, about));
    return (await Promise.all(reports)).map((report) => report && report.id);
  },
  sample({ parameters, score, label, size }) {
    const read = client.readParameters(parameters);
    const counts = new Array(2 * read.bins).fill(0);
    const ids = new Set();
    for (let k = 0; k < size; k += 1) {
      const report = client.randomize(read, score, label);
      counts[report.symbol] += 1;
      ids.add(report.id);
    }
    return { counts, ids: ids.size };
  },
  async budget({ parameters, asked }) {
    const kept = new Map();
    const storage = {
      getItem: async (name) => kept.get(name) ?? null,
      setItem: async (name, value) => void kept.set(name, value),
    };
    const read = client.readParameters(parameters);
    const answers = [];
    for (const { at, about, damage } of asked) {
      if (damage) kept.set([...kept.keys()][0], damage);
      const budget = new client.Budget(read, storage, () => at ?? NaN); // a new process
      try {
        const report = await budget.report(0.4, 1, about);
        answers.push(report && report.id);
      } catch {
        answers.push("refused");
      }
    }
    return answers;
  },
};

const answers = [];
for (const { way, ...question } of questions) answers.push(await ways[way](question));
process.stdout.write(JSON.stringify(answers));
