import { Checks, checkNames } from "@backplane/core";
import type { TuneOptions } from "./report.js";

/** Throws `INVALID_ARGUMENT`, with the allowed values, for unknown names and values of no meaning. */
export function checkTuneOptions(options: TuneOptions): void {
  checkNames("tune", options, ["onProgress", "signal", "budgetMilliseconds", "maxBytes", "margin"]);
  const { onProgress, budgetMilliseconds, maxBytes, margin, signal } = options;
  for (const [argument, value, allowed, holds] of [
    ["onProgress", onProgress, "a function", typeof onProgress === "function"],
    ["budgetMilliseconds", budgetMilliseconds, "a number from 0", Number(budgetMilliseconds) >= 0],
    ["maxBytes", maxBytes, "a number from 0", Number(maxBytes) >= 0],
    ["margin", margin, "a number from 0 to 1", Number(margin) >= 0 && Number(margin) <= 1],
    ["signal", signal, "an AbortSignal", typeof signal?.aborted === "boolean"],
  ] as const)
    if (value !== undefined && !holds)
      new Checks("tune").fail(argument, `is ${String(value)}; allowed: ${allowed}`);
}
