import { mkdir, open, readFile, writeFile } from "node:fs/promises";
import { dirname, extname } from "node:path";
import {
  type ConformanceReport,
  diffReports,
  parseReport,
  type ReportDiff,
  renderHtml,
  renderMarkdown,
} from "../report/index.js";
import { type Request, UsageError } from "./arguments.js";

/** The files of one configuration. */
export interface ReportFiles {
  /** The report that `--diff` names. Read before anything is written, because `--json` may name the same file. */
  readonly earlier: ConformanceReport | undefined;
  /** Writes the requested files. Returns the differences if `--diff` was given. */
  write(report: ConformanceReport): Promise<ReportDiff | undefined>;
}

/**
 * Reads and opens the files of a run before it begins, so that a bad path is not found out an hour
 * later. Of several configurations, each has files with its name in theirs.
 */
export async function prepareFiles(
  request: Request,
  configuration: string | undefined,
): Promise<ReportFiles> {
  const own = (path: string) => (configuration === undefined ? path : withName(path, configuration));
  const { files } = request;
  const earlier = request.earlier === undefined ? undefined : await readReport(own(request.earlier));
  for (const path of Object.values(files)) await makeWritable(own(path));
  return {
    earlier,
    async write(report) {
      const diff = earlier === undefined ? undefined : diffReports(earlier, report);
      const texts = {
        json: () => `${JSON.stringify(report, undefined, 2)}\n`,
        markdown: () => renderMarkdown(report, diff),
        html: () => renderHtml(report, diff),
      };
      for (const kind of ["json", "markdown", "html"] as const)
        if (files[kind] !== undefined) await writeFile(own(files[kind]), texts[kind]());
      return diff;
    },
  };
}

/** `report.json` becomes `report.NAME.json`. */
function withName(path: string, name: string): string {
  const extension = extname(path);
  const slug = name.replaceAll(/[^\w.-]+/g, "-");
  return `${path.slice(0, path.length - extension.length)}.${slug}${extension}`;
}

async function readReport(path: string): Promise<ConformanceReport> {
  try {
    return parseReport(await readFile(path, "utf8"));
  } catch (error) {
    throw new UsageError(`--diff ${path}: ${(error as Error).message}`);
  }
}

async function makeWritable(path: string): Promise<void> {
  try {
    await mkdir(dirname(path), { recursive: true });
    await (await open(path, "a")).close();
  } catch (error) {
    throw new UsageError(`${path} cannot be written: ${(error as Error).message}`);
  }
}
