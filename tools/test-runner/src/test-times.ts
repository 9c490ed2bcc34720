/** The outcome of one test or one hook, as a reporter receives it. */
export interface FinishedTest {
  readonly titlePath: readonly string[];
  readonly state: "passed" | "failed" | "skipped" | "hook";
  readonly milliseconds: number;
}

/** The time of one test, or hook, of a file. */
export interface TestTime {
  /** Relative to the root of the workspace: "packages/core/test/handles.test.ts". */
  readonly file: string;
  readonly title: string;
  readonly milliseconds: number;
}

/** The source of a compiled test file or entry, relative to the root of the workspace. */
export function sourceOf(compiled: string, root: string): string {
  const path = compiled.replaceAll("\\", "/").replace(root.replaceAll("\\", "/"), "").replace(/^\//, "");
  return path.replace("/dist-test/", "/test/").replace(/\.js$/, ".ts");
}

/** Hooks that take no longer than this have no line of their own. */
const SHORT_HOOK_MILLISECONDS = 100;

/** One line for each test as it ends, with its time, below a line for each suite. */
export class TestLines {
  #suite = "";

  lineOf({ titlePath, state, milliseconds }: FinishedTest): string {
    if (state === "hook" && milliseconds <= SHORT_HOOK_MILLISECONDS) return "";
    const suite = titlePath.slice(0, -1).join(" > ");
    const heading = suite === this.#suite ? "" : `  ${suite}\n`;
    this.#suite = suite;
    const time = state === "skipped" ? "skipped".padStart(11) : `${millisecondsText(milliseconds)} ms`;
    return `${heading}${time}  ${state === "failed" ? "FAILED: " : ""}${titlePath.at(-1)}\n`;
  }
}

function millisecondsText(milliseconds: number): string {
  return String(Math.round(milliseconds)).padStart(8);
}

const SLOWEST_TESTS = 25;
/** Files that take less are summed up. */
const LONG_FILE_MILLISECONDS = 1000;

/** The slowest tests, and the time of each package and of each file that takes long. */
export function timeTables(times: readonly TestTime[]): string {
  const slowest = times.toSorted((a, b) => b.milliseconds - a.milliseconds).slice(0, SLOWEST_TESTS);
  const packages = [...groups(times, ({ file }) => file.split("/test/", 1)[0]!)];
  return [
    `The ${slowest.length} slowest tests:`,
    ...slowest.map(({ milliseconds, file, title }) => `${secondsText(milliseconds)}  ${file}: ${title}`),
    "",
    "Time of the tests of each package, and of each file that takes long:",
    ...packages.flatMap(([name, ofPackage]) => [
      `${secondsText(total(ofPackage))}  ${name}`,
      ...fileLines(ofPackage, name),
    ]),
  ].join("\n");
}

function fileLines(ofPackage: readonly TestTime[], name: string): string[] {
  const files = [...groups(ofPackage, ({ file }) => file)]
    .map(([file, ofFile]) => ({ file, milliseconds: total(ofFile) }))
    .sort((a, b) => b.milliseconds - a.milliseconds);
  const long = files.filter(({ milliseconds }) => milliseconds >= LONG_FILE_MILLISECONDS);
  const others = files.slice(long.length);
  return [
    ...long.map(({ file, milliseconds }) => `${secondsText(milliseconds)}    ${file.slice(name.length + 1)}`),
    ...(others.length > 0 ? [`${secondsText(total(others))}    ${others.length} others`] : []),
  ];
}

function groups(times: readonly TestTime[], keyOf: (time: TestTime) => string): Map<string, TestTime[]> {
  const found = new Map<string, TestTime[]>();
  for (const time of times) {
    const key = keyOf(time);
    if (!found.has(key)) found.set(key, []);
    found.get(key)!.push(time);
  }
  return found;
}

function total(times: readonly { readonly milliseconds: number }[]): number {
  return times.reduce((sum, { milliseconds }) => sum + milliseconds, 0);
}

function secondsText(milliseconds: number): string {
  return `${(milliseconds / 1000).toFixed(1)} s`.padStart(9);
}
