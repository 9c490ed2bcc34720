import { BackendError } from "@backplane/core";
import type { ConformanceReport } from "./report.js";

/** Returns a report, given its JSON. Throws `INVALID_ARGUMENT` if the text is not a report, or of another version. */
export function parseReport(text: string): ConformanceReport {
  let value: Partial<ConformanceReport> | null;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw refusal(`it is no JSON: ${(error as Error).message}`);
  }
  if (value?.kind !== "backplane-conformance-report") throw refusal("it is no conformance report");
  if (value.schemaVersion !== 1)
    throw refusal(`its schema has version ${value.schemaVersion}; this reader knows version 1`);
  for (const key of ["subject", "run", "totals", "laws", "operations", "numerics"] as const)
    if (typeof value[key] !== "object" || value[key] === null) throw refusal(`it has no ${key}`);
  // Earlier ones had no accuracy.
  return { accuracy: [], ...value } as ConformanceReport;
}

function refusal(why: string): BackendError {
  return new BackendError("INVALID_ARGUMENT", `the report cannot be read: ${why}`, {
    operation: "parseReport",
    argument: "text",
  });
}
