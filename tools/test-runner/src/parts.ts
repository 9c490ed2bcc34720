import { availableParallelism } from "node:os";
import { runBrowserTests } from "./browser-suite.js";
import type { Machine } from "./machine.js";
import { runNodeTests } from "./node-suite.js";
import type { Options } from "./options.js";
import { type Outcome, sum } from "./outcome.js";
import { step } from "./step.js";
import { isChosen } from "./tags.js";
import { sourceOf } from "./test-times.js";
import { Transcript } from "./transcript.js";
import { browserEntries, nodeTests, type TestFile, workspacePackages, workspaceRoot } from "./workspace.js";

/** A part of the run with a process, or a browser, of its own. */
export interface Part {
  readonly title: string;
  readonly isLong: boolean;
  readonly files: readonly TestFile[];
  readonly run: (write: (text: string) => void) => Promise<Outcome>;
}

/** Files of one package that run in one process, unless they take long. */
const FILES_AT_ONCE = 8;

/** Each waits now and then, for a device or for a time, so there is one more than cores, up to a limit. */
const MOST_AT_ONCE = 3;

/**
 * Returns all parts that the options select. Long ones come first: begun last, they would still run when all
 * else is done.
 *
 * @param isLeftOut Files that need not run though they are selected.
 */
export function testParts(
  options: Options,
  machine: Machine,
  origin: string,
  isLeftOut: (file: TestFile) => boolean = () => false,
): Part[] {
  const packages = workspacePackages().map(({ path }) => path);
  const isWanted = (file: TestFile) => isChosen(file.tags, options) && !isLeftOut(file);
  const { grep } = options;
  const nodePart = (files: readonly TestFile[], title: string): Part => ({
    title,
    isLong: files.some(isLong),
    files,
    run: (write) => {
      const compiled = files.map((file) => file.compiled);
      return runNodeTests(title, compiled, { env: machine.env, grep, write });
    },
  });
  const browserPart = (entry: TestFile): Part => ({
    title: sourceOf(entry.compiled, workspaceRoot),
    isLong: isLong(entry),
    files: [entry],
    run: (write) => runBrowserTests(entry.compiled, { origin, grep, launch: machine.launch, write }),
  });
  const parts = packages.flatMap((path) => [
    ...(options.only === "node" ? [] : browserEntries(path).filter(isWanted).map(browserPart)),
    ...(options.only === "browser" ? [] : nodeParts(path, nodeTests(path).filter(isWanted), nodePart)),
  ]);
  return [...parts.filter(({ isLong }) => isLong), ...parts.filter(({ isLong }) => !isLong)];
}

function isLong({ tags }: TestFile): boolean {
  return tags.includes("long");
}

function nodeParts(
  path: string,
  files: readonly TestFile[],
  partOf: (files: readonly TestFile[], title: string) => Part,
): Part[] {
  const short = files.filter((file) => !isLong(file));
  const count = Math.ceil(short.length / FILES_AT_ONCE);
  const groups = Array.from({ length: count }, (_, i) =>
    short.slice((i * short.length) / count, ((i + 1) * short.length) / count),
  );
  return [
    ...files.filter(isLong).map((file) => partOf([file], sourceOf(file.compiled, workspaceRoot))),
    ...groups.map((group, i) => partOf(group, count === 1 ? path : `${path} (${i + 1} of ${count})`)),
  ];
}

/** Several at a time; each prints as if it were alone. `ended` receives each with its outcome. */
export async function runParts(
  parts: readonly Part[],
  ended: (part: Part, outcome: Outcome) => void = () => {},
): Promise<Outcome> {
  const transcript = new Transcript(parts.length, (text) => process.stdout.write(text));
  const outcomes: Outcome[] = [];
  const remaining = parts.entries();
  const runRemaining = async (): Promise<void> => {
    for (const [i, part] of remaining) {
      const write = (text: string): void => transcript.write(i, text);
      const outcome = await step(`test ${part.title}`, () => part.run(write), write);
      outcomes.push(outcome);
      ended(part, outcome);
      transcript.end(i);
    }
  };
  const atOnce = Math.min(MOST_AT_ONCE, availableParallelism() + 1);
  await Promise.all(Array.from({ length: atOnce }, runRemaining));
  return sum(outcomes);
}
