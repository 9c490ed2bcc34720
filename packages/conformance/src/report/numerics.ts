import type { Numerics } from "@backplane/core";
import type { LawResult } from "../bench.js";
import { LawFailure, lawId, type NumericsFlag } from "../law.js";
import type { NumericsReport } from "./report.js";

type Verdict = "holds" | "does not hold";
type Evidence = NumericsReport["evidence"][number];

/** The promises that a backend may make beyond the tolerances that hold for all, in the order of `Numerics`. */
const promises: Readonly<Record<NumericsFlag, string | boolean>> = {
  ...{ nan: "kept", infinity: "kept", subnormals: "kept", signedZero: "kept" },
  ...{ rounding: "nearest-even", deterministic: true },
};

export function verdict(holds: boolean): Verdict {
  return holds ? "holds" : "does not hold";
}

/** Compares a backend's declarations with the findings of the laws on each promise. */
export function numericsReports(declared: Numerics, results: readonly LawResult[]): NumericsReport[] {
  return Object.entries(promises).map(([key, promised]): NumericsReport => {
    const promise = key as NumericsFlag;
    const evidence = results
      .filter(({ law }) => law.promise?.flag === promise)
      .map(evidenceOf)
      .filter((one) => one !== undefined);
    const observed = evidence.length === 0 ? null : verdict(evidence.every(({ held }) => held));
    return { promise, declared: declared[promise], promised, observed, evidence };
  });
}

function evidenceOf({ law, status, error, observed }: LawResult): Evidence | undefined {
  const id = lawId(law);
  if (status === "kept") return { law: id, held: true, detail: null };
  if (status === "broken") {
    const detail = error instanceof LawFailure ? error.reason : String(error);
    return { law: id, held: false, detail };
  }
  return observed === undefined
    ? undefined
    : { law: id, held: observed.holds, detail: observed.detail ?? null };
}
