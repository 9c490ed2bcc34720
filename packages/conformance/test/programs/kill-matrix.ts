// Runs every law against every defective backend and shows which reject which:
//   node kill-matrix.js [--runs <cases per law>] [--only <part of a name>,...] [--write]
// Without --runs as in the default mode, which takes about a quarter of an hour; --write renews the matrix in
// docs/kill-matrix.md, or with --only the rows of those backends. Exits with 1 where a backend survives.
import { readFileSync, writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { lawId, loseReferenceDevice, type Mutant, mutants, runLaws } from "#src/index.js";
import {
  columnOf,
  type Death,
  matrixFile,
  matrixText,
  topics,
  withMatrix,
  withRows,
} from "../support/kill-matrix.js";

const { values } = parseArgs({
  options: { runs: { type: "string", default: "20" }, only: { type: "string" }, write: { type: "boolean" } },
});
const runs = Number(values.runs);

async function kill(mutant: Mutant): Promise<Death> {
  const { name, create } = mutant;
  const broken = new Map<string, number>();
  const started = performance.now();
  let first: string | undefined;
  let seconds = 0;
  const subject = { name, create, loseDevice: loseReferenceDevice, options: { runs, shrink: false } };
  await runLaws(subject, ({ law, status }) => {
    if (status !== "broken") return;
    broken.set(law.topic, (broken.get(law.topic) ?? 0) + 1);
    if (first !== undefined) return;
    first = lawId(law);
    seconds = (performance.now() - started) / 1000;
  });
  return { mutant, broken, first, seconds };
}

const wanted = values.only?.split(",");
const deaths: Death[] = [];
for (const mutant of mutants) {
  if (wanted !== undefined && !wanted.some((text) => mutant.name.includes(text))) continue;
  const death = await kill(mutant);
  deaths.push(death);
  const by = topics.flatMap((topic) => {
    const count = death.broken.get(topic);
    return count === undefined ? [] : [`${columnOf(topic)} ${count}`];
  });
  const verdict = death.first === undefined ? "SURVIVES" : `${death.seconds.toFixed(1)} s`;
  console.log(`${verdict.padStart(8)}  ${mutant.name}: ${by.join(", ")}; first: ${death.first}`);
}
if (values.write === true) {
  const text = readFileSync(matrixFile, "utf8");
  const renewed =
    wanted === undefined ? withMatrix(text, matrixText(deaths, runs)) : withRows(text, deaths, mutants);
  writeFileSync(matrixFile, renewed);
}
process.exit(deaths.every(({ first }) => first !== undefined) ? 0 : 1);
