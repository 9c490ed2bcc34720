import { type Law, lawId } from "../law.js";
import { planOf } from "../options.js";
import { buildReport, type ConformanceReport, lawReport } from "../report/index.js";
import type { Subject } from "../subjects.js";
import { runSuite, type SuiteOutcome } from "../suite.js";
import { suiteVersion } from "../version.js";
import { parseArguments, type Request, UsageError, usage } from "./arguments.js";
import { prepareFiles, type ReportFiles } from "./files.js";
import { LoadError, loadSubjects } from "./load.js";
import { progressDisplay, type Screen } from "./progress.js";
import { type ReplayOutcome, replay } from "./replay.js";
import { type Command, diffText, failureText, summaryText } from "./text.js";

/** The exit codes of the program. */
export const exitCodes = {
  kept: 0,
  broken: 1,
  usage: 2,
  unopened: 3,
  unfinished: 4,
  interrupted: 130,
} as const;

type ExitCode = (typeof exitCodes)[keyof typeof exitCodes];

const replayCodes: Readonly<Record<ReplayOutcome, ExitCode>> = {
  ...{ same: exitCodes.kept, different: exitCodes.broken, unopened: exitCodes.unopened },
  interrupted: exitCodes.interrupted,
};

/** The parts of the process that the program needs. */
export interface Host {
  readonly output: Screen;
  readonly errors: Screen;
  /** Abort it to end the run early and report what is known so far. */
  readonly signal: AbortSignal;
  /** Is called with the name of each law before it is tried. */
  readonly onLaw?: (law: string) => void;
}

/** Runs the command line program. Never throws because of a mistake of the user or the backend. */
export async function main(args: readonly string[], host: Host): Promise<ExitCode> {
  const { output, errors } = host;
  try {
    if (args[0] === "replay") return replayCodes[await replay(args.slice(1), host)];
    const request = parseArguments(args);
    if (request.action === "help") output.write(usage);
    else if (request.action === "version") output.write(`${suiteVersion}\n`);
    else if (request.action === "list") output.write(listed(planOf(request.options).laws));
    else return await run(request, host);
    return exitCodes.kept;
  } catch (error) {
    if (error instanceof UsageError) {
      errors.write(
        `backplane-conformance: ${error.message}\nbackplane-conformance --help says what there is\n`,
      );
      return exitCodes.usage;
    }
    if (error instanceof LoadError) {
      errors.write(`${error.message}: ${described(error.cause)}\n`);
      return exitCodes.unopened;
    }
    throw error;
  }
}

function listed(laws: readonly Law[]): string {
  return laws.map((law) => `${lawId(law)}\n`).join("");
}

async function run(request: Request, host: Host): Promise<ExitCode> {
  const { module, exportName, configurations } = request;
  const subjects = await loadSubjects(module!, exportName, configurations);
  const hasSeveral = subjects.length > 1;
  const prepared: { readonly subject: Subject; readonly files: ReportFiles }[] = [];
  for (const subject of subjects)
    prepared.push({ subject, files: await prepareFiles(request, hasSeveral ? subject.name : undefined) });
  const codes: ExitCode[] = [];
  for (const { subject, files } of prepared) {
    if (host.signal.aborted) break;
    const isNamed = hasSeveral || configurations !== undefined;
    const command: Command = {
      ...{ module: module!, exportName, configuration: isNamed ? subject.name : undefined },
      grade: request.options.grade ?? "must",
    };
    codes.push(await runOne(subject, request, files, command, host));
  }
  if (host.signal.aborted) return exitCodes.interrupted;
  // Of several configurations the worst counts.
  const byWeight = [exitCodes.broken, exitCodes.unopened, exitCodes.unfinished];
  return byWeight.find((code) => codes.includes(code)) ?? exitCodes.kept;
}

async function runOne(
  subject: Subject,
  request: Request,
  files: ReportFiles,
  command: Command,
  { output, errors, signal, onLaw }: Host,
): Promise<ExitCode> {
  const display = progressDisplay(output);
  let outcome: SuiteOutcome;
  try {
    const options = { ...request.options, signal };
    outcome = await runSuite(
      { ...subject, options },
      {
        onOpen: ({ name, capabilities }) =>
          output.write(`${subject.name}: ${name} on ${capabilities.device.name}\n`),
        onStart(law, progress) {
          onLaw?.(lawId(law));
          display.onStart?.(law, progress);
        },
        onResult(result, progress) {
          display.onResult?.(result, progress);
          if (result.status !== "broken") return;
          display.clear();
          output.write(`\n${failureText(lawReport(result, progress.seed), command)}\n`);
        },
      },
    );
  } catch (error) {
    // The options have been checked before, so the backend must have failed.
    display.clear();
    errors.write(`${subject.name} could not be opened: ${described(error)}\n`);
    return exitCodes.unopened;
  }
  display.clear();
  const report = buildReport(outcome);
  output.write(summaryText(report));
  const diff = await files.write(report);
  if (diff !== undefined) output.write(`\n${diffText(diff)}`);
  return codeOf(report, outcome);
}

function codeOf({ totals, run }: ConformanceReport, { disposal }: SuiteOutcome): ExitCode {
  if (totals.broken > 0 || disposal !== undefined) return exitCodes.broken;
  return run.complete ? exitCodes.kept : exitCodes.unfinished;
}

/** Renders an error and its causes, with the stack unless it is a `BackendError`. */
function described(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const text =
    error.name === "BackendError" ? `${error.name}: ${error.message}` : (error.stack ?? error.message);
  return error.cause === undefined ? text : `${text}\ncaused by ${described(error.cause)}`;
}
