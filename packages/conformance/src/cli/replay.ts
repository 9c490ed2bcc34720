import { createReadStream } from "node:fs";
import { access, constants } from "node:fs/promises";
import { parseArgs } from "node:util";
import { type BackendError, type ComputeBackend, replayTrace, type TraceReport } from "@backplane/core";
import { CompareBackend, type CompareReport } from "../compare/index.js";
import { createReferenceBackend } from "../reference.js";
import { backendMadeBy, type Subject } from "../subjects.js";
import { UsageError } from "./arguments.js";
import { loadSubjects } from "./load.js";
import type { Screen } from "./progress.js";

const replayUsage: string = `Usage: backplane-conformance replay FILE MODULE [options]

Makes the calls of a trace, which a TraceBackend has written to FILE, again on the
backend in MODULE (as without "replay"). Compares each call with its formula, within
the bounds of the laws, and what is read with what was read when the trace was made.

  --no-compare          do not compare each call, which takes long
  --tolerance N         how far numbers that are read may be from those in the trace, as
                        a share of the largest in the same read (default 2^-10)
  --allow-cut           take a trace without an end, as far as it goes
  --export NAME         take this export of MODULE in place of the default one
  --config LIST         only the configurations with these names
  --help

Ends with 0 where all is the same, 1 where a call or a read differs or the backend
refuses a call, 2 for a bad command line or trace, and 3 where the backend could not be
opened. After Ctrl-C it ends with 130.
`;

interface Request {
  readonly file: string;
  readonly module: string;
  readonly exportName: string | undefined;
  readonly configurations: readonly string[] | undefined;
  readonly compares: boolean;
  readonly allowCut: boolean;
  readonly tolerance: number | undefined;
}

/** The outcome of a replay, in the order of weight. */
export type ReplayOutcome = "same" | "unopened" | "different" | "interrupted";

/** What a replay needs of the process. */
interface Surroundings {
  readonly output: Screen;
  readonly errors: Screen;
  /** Abort it to end the replay early. */
  readonly signal: AbortSignal;
}

/** Replays a trace on each backend of a module. Throws a `UsageError` for a bad command line or trace. */
export async function replay(args: readonly string[], surroundings: Surroundings): Promise<ReplayOutcome> {
  const request = requestIn(args);
  if (request === undefined) {
    surroundings.output.write(replayUsage);
    return "same";
  }
  try {
    await access(request.file, constants.R_OK);
  } catch {
    throw new UsageError(`there is no file ${JSON.stringify(request.file)} that can be read`);
  }
  const outcomes: ReplayOutcome[] = [];
  for (const subject of await loadSubjects(request.module, request.exportName, request.configurations))
    outcomes.push(await replayOn(subject, request, surroundings));
  const byWeight = ["interrupted", "different", "unopened"] as const;
  return byWeight.find((outcome) => outcomes.includes(outcome)) ?? "same";
}

function requestIn(args: readonly string[]): Request | undefined {
  const { values, positionals } = parsed(args);
  if (values.help) return undefined;
  const [file, module, ...more] = positionals;
  if (file === undefined) throw new UsageError("which file has the trace?");
  if (module === undefined) throw new UsageError("which module has the backend?");
  if (more.length > 0) throw new UsageError(`one file and one module at a time: ${positionals.join(" ")}`);
  const tolerance = values.tolerance === undefined ? undefined : Number(values.tolerance);
  if (tolerance !== undefined && !(tolerance >= 0))
    throw new UsageError(
      `--tolerance is ${JSON.stringify(values.tolerance)}; allowed: numbers of at least 0`,
    );
  return {
    ...{ file, module, tolerance, exportName: values.export },
    configurations: values.config?.flatMap((text) => text.split(",")),
    compares: values["no-compare"] !== true,
    allowCut: values["allow-cut"] === true,
  };
}

function parsed(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      allowPositionals: true,
      options: {
        "no-compare": { type: "boolean" },
        tolerance: { type: "string" },
        "allow-cut": { type: "boolean" },
        export: { type: "string" },
        config: { type: "string", multiple: true },
        help: { type: "boolean", short: "h" },
      },
    });
  } catch (error) {
    throw new UsageError((error as Error).message.split(". ")[0]!);
  }
}

async function replayOn(
  subject: Subject,
  request: Request,
  surroundings: Surroundings,
): Promise<ReplayOutcome> {
  const { errors, signal } = surroundings;
  if (signal.aborted) return "interrupted";
  let backend: ComputeBackend;
  let comparison: CompareBackend | undefined;
  try {
    const made = await backendMadeBy(subject.create);
    comparison = request.compares
      ? new CompareBackend(made, createReferenceBackend(), { warn: () => {} })
      : undefined;
    backend = comparison ?? made;
    await backend.init();
  } catch (error) {
    errors.write(`${subject.name} could not be opened: ${String(error)}\n`);
    return "unopened";
  }
  let outcome: ReplayOutcome;
  try {
    outcome = await outcomeOn(subject.name, backend, comparison, request, surroundings);
  } catch (error) {
    // Why the replay ended matters more than why the backend did not.
    await backend.dispose().catch(() => {});
    throw error;
  }
  try {
    await backend.dispose();
    return outcome;
  } catch (error) {
    errors.write(`${subject.name} could not be disposed of: ${String(error)}\n`);
    return outcome === "same" ? "different" : outcome;
  }
}

async function outcomeOn(
  name: string,
  backend: ComputeBackend,
  comparison: CompareBackend | undefined,
  { file, allowCut, tolerance }: Request,
  { output, errors, signal }: Surroundings,
): Promise<ReplayOutcome> {
  try {
    const options = { allowCut, ...(tolerance === undefined ? {} : { tolerance }) };
    const report = await replayTrace(contentsOf(file, signal), backend, options);
    const compared = comparison?.report();
    output.write(textOf(name, report, compared));
    return report.differing.length > 0 || (compared?.divergences ?? 0) > 0 ? "different" : "same";
  } catch (error) {
    if (signal.aborted) return "interrupted";
    if (error instanceof UsageError) throw error;
    const { argument, message } = error as BackendError;
    const divergence = comparison?.report().first;
    if (divergence !== undefined) output.write(`${divergence.message}\n`);
    if (argument === "source") throw new UsageError(`${file}: ${message}`);
    errors.write(`${name}: ${message}\n`);
    return "different";
  }
}

/** Pieces are small, because the replay can be interrupted between them only. */
const pieceBytes = 2 ** 14;

async function* contentsOf(file: string, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  try {
    yield* createReadStream(file, { signal, highWaterMark: pieceBytes });
  } catch (error) {
    throw new UsageError(`${JSON.stringify(file)} cannot be read: ${(error as Error).message}`);
  }
}

function textOf(name: string, report: TraceReport, compared: CompareReport | undefined): string {
  const { calls, allocations, reads, differing, largestDifference, omitted, isCut } = report;
  const lines = [
    `${name}: ${calls} calls, ${allocations} allocations, ${reads} reads${isCut ? "; the trace has no end" : ""}`,
    `reads: ${differing.length} differ; the largest difference of fractions is ${largestDifference}`,
    ...differing
      .slice(0, 5)
      .map(
        ({ read, call, byteOffset, dtype, recorded, replayed }) =>
          `  read ${read}, after ${call} calls, byte ${byteOffset}: ${replayed}, was ${recorded} (${dtype})`,
      ),
    ...omitted.map(({ operation, reason }) => `not in the trace: ${operation}: ${reason}`),
  ];
  if (compared !== undefined) {
    lines.push(`calls: ${compared.compared} compared, ${compared.divergences} out of bounds`);
    for (const { operation, calls: count, reason } of compared.skipped)
      lines.push(`  not compared: ${count} of ${operation}: ${reason}`);
    if (compared.first !== undefined) lines.push(compared.first.message);
  }
  return `${lines.join("\n")}\n`;
}
