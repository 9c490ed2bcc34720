// Runs the laws against every defective backend and shows which reject which:
//   node kill-matrix.js [--runs <cases per law>] [--quick] [--only <part of a name>,...] [--jobs <threads>] [--write]
// Without --runs as in the default mode, which takes hours on one core; --quick as in the quick mode; --write renews the matrix in
// docs/kill-matrix.md, or with --only the rows of those backends. Exits with 1 where a backend survives.
import { readFileSync, writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import {
  type Law,
  lawId,
  laws,
  loseReferenceDevice,
  type Mutant,
  mutants,
  runLaws,
  type SuiteOptions,
} from "#src/index.js";
import {
  columnOf,
  type Death,
  matrixFile,
  matrixText,
  topics,
  withMatrix,
  withRows,
} from "../support/kill-matrix.js";

/** What becomes of a defective backend, in the form in which threads tell it. */
type Told = Omit<Death, "mutant">;

/** As in `SuiteOptions`. */
type How = Pick<SuiteOptions, "mode" | "runs">;

/** The reference computes these by one another. */
const products: readonly (string | undefined)[] = ["gemm", "batchedGemm"];

/** Laws on other operations never call the one with the defect. */
function mayTell({ operation, topic }: Mutant, law: Law): boolean {
  if (topic !== undefined && topic !== law.topic) return false;
  if (operation === undefined || law.operation === undefined || law.operation === operation) return true;
  return products.includes(operation) && products.includes(law.operation);
}

async function kill(mutant: Mutant, how: How): Promise<Told> {
  const { name, create, hangs } = mutant;
  const broken = new Map<string, number>();
  const started = performance.now();
  let first: string | undefined;
  let seconds = 0;
  const chosen = laws.filter((law) => mayTell(mutant, law));
  const options = { ...how, laws: chosen, shrink: false, ...(hangs ? { patience: 20_000 } : {}) };
  const subject = { name, create, loseDevice: loseReferenceDevice, options };
  await runLaws(subject, ({ law, status }) => {
    if (status !== "broken") return;
    broken.set(law.topic, (broken.get(law.topic) ?? 0) + 1);
    if (first !== undefined) return;
    first = lawId(law);
    seconds = (performance.now() - started) / 1000;
  });
  return { broken, first, seconds };
}

function show({ mutant, broken, first, seconds }: Death): void {
  const by = topics.flatMap((topic) => {
    const count = broken.get(topic);
    return count === undefined ? [] : [`${columnOf(topic)} ${count}`];
  });
  const verdict = first === undefined ? "SURVIVES" : `${seconds.toFixed(1)} s`;
  console.log(`${verdict.padStart(8)}  ${mutant.name}: ${by.join(", ")}; first: ${first}`);
}

/** Each thread takes one backend after the other. */
async function killAll(all: readonly Mutant[], how: How, jobs: number): Promise<readonly Death[]> {
  const deaths: Death[] = [];
  let next = 0;
  const work = async (): Promise<void> => {
    const worker = new Worker(new URL(import.meta.url), { workerData: how });
    for (let index = next++; index < all.length; index = next++) {
      const mutant = all[index]!;
      const told = new Promise<Told>((resolve, reject) => {
        worker.once("message", resolve).once("error", reject);
      });
      worker.postMessage(mutant.name);
      deaths[index] = { mutant, ...(await told) };
      show(deaths[index]!);
    }
    await worker.terminate();
  };
  await Promise.all(Array.from({ length: Math.min(jobs, all.length) }, work));
  return deaths;
}

const usage = `node packages/conformance/dist-test/programs/kill-matrix.js [options]

  --only LIST  only backends with one of these in their names, with commas between
  --runs N     random cases of each law (default 20)
  --quick      the few cases of quick mode
  --jobs N     threads, each with a backend at a time (default 1)
  --write      writes the matrix, or with --only the rows of those, into docs/kill-matrix.md
  --help       this text

Exit code: 0 all rejected, 1 one survives, 2 bad usage.
`;

function parseOptions() {
  const { values } = parseArgs({
    options: {
      help: { type: "boolean" },
      runs: { type: "string", default: "20" },
      only: { type: "string" },
      jobs: { type: "string", default: "1" },
      quick: { type: "boolean" },
      write: { type: "boolean" },
    },
  });
  const [runs, jobs] = [Number(values.runs), Number(values.jobs)];
  if (![runs, jobs].every((count) => Number.isSafeInteger(count) && count >= 1))
    throw new Error(`--runs is ${values.runs} and --jobs ${values.jobs}; allowed: whole numbers from 1 on`);
  return { ...values, runs, jobs };
}

async function main(): Promise<void> {
  let values: ReturnType<typeof parseOptions>;
  try {
    values = parseOptions();
  } catch (error) {
    process.stderr.write(`${(error as Error).message}\n\n${usage}`);
    process.exit(2);
  }
  if (values.help === true) {
    process.stdout.write(usage);
    process.exit(0);
  }
  const { runs, jobs } = values;
  const wanted = values.only?.split(",");
  const some = mutants.filter(({ name }) => wanted?.some((text) => name.includes(text)) ?? true);
  if (some.length === 0) {
    process.stderr.write(`no backend's name contains ${wanted?.join(" or ")}\n`);
    process.exit(2);
  }
  const deaths = await killAll(some, values.quick ? { mode: "quick" } : { runs }, jobs);
  if (values.write === true) {
    const text = readFileSync(matrixFile, "utf8");
    const renewed =
      wanted === undefined ? withMatrix(text, matrixText(deaths, runs)) : withRows(text, deaths, mutants);
    writeFileSync(matrixFile, renewed);
  }
  process.exit(deaths.every(({ first }) => first !== undefined) ? 0 : 1);
}

if (isMainThread) await main();
else
  parentPort!.on("message", async (name: string) => {
    const mutant = mutants.find((candidate) => candidate.name === name)!;
    parentPort!.postMessage(await kill(mutant, workerData as How));
  });
