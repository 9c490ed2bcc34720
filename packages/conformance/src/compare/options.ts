import { Checks, checkNames } from "@backplane/core";
import type { Divergence } from "./report.js";

export interface CompareOptions {
  /** Compares every so-manieth call that writes; refused calls do not count. Default: 1, each. */
  readonly every?: number;
  /** Calls that use more bytes than this are not compared. Default: 2^28. */
  readonly mostBytes?: number;
  /**
   * Operations of more floating-point operations than this are not compared, since the formulas are plain loops, of about 10^8 a
   * second. Default: 2^31.
   */
  readonly mostFlops?: number;
  /** While so many bytes wait for their comparison, further calls are not compared. Default: 2^30. */
  readonly mostWaitingBytes?: number;
  /** Takes the text of the first divergence. What it throws surfaces as an unhandled rejection. Default: `console.warn`. */
  readonly warn?: (message: string, divergence: Divergence) => void;
}

/** Checks options, and returns them with the defaults. */
export function completed(options: CompareOptions): Required<CompareOptions> {
  const names = ["every", "mostBytes", "mostFlops", "mostWaitingBytes"] as const;
  checkNames("CompareBackend", options, [...names, "warn"]);
  const defaults = {
    ...{ every: 1, mostBytes: 2 ** 28, mostFlops: 2 ** 31, mostWaitingBytes: 2 ** 30 },
    warn: (message: string): void => console.warn(message),
  };
  const given = Object.entries(options).filter(([, value]) => value !== undefined);
  const all = { ...defaults, ...Object.fromEntries(given) };
  const checks = new Checks("CompareBackend");
  for (const name of names) checks.count(name, all[name], name === "every" ? 1 : 0);
  return all;
}
