import {
  type Accuracy,
  inexactBinaryKinds,
  inexactUnaryKinds,
  type OperationName,
  type UnitsRange,
} from "@backplane/core";
import type { LawResult } from "../bench.js";
import type { UnitsObservation } from "../law.js";
import { finite, merged } from "../measurements.js";
import type { AccuracyReport } from "./report.js";

/**
 * Compares the units that a backend declares for each function with the largest errors found. Leaves out
 * functions that were not tried.
 */
export function accuracyReports(
  declared: Accuracy | undefined,
  results: readonly LawResult[],
): readonly AccuracyReport[] {
  const { units } = merged(results.map(({ measurements }) => measurements));
  const report = (
    operation: OperationName,
    kind: string,
    ranges: readonly Partial<UnitsRange>[] | undefined,
  ) => {
    const observed = units.filter((observation) => observation.kind === kind);
    return observed.length === 0 ? [] : [reportOf(operation, kind, ranges ?? [{}], observed)];
  };
  return [
    ...inexactUnaryKinds.flatMap((kind) => report("unary", kind, declared?.unary?.[kind])),
    ...inexactBinaryKinds.flatMap((kind) => {
      const units = declared?.binary?.[kind];
      return report("binary", kind, units === undefined ? undefined : [{ units }]);
    }),
  ];
}

function reportOf(
  operation: OperationName,
  kind: string,
  ranges: readonly Partial<UnitsRange>[],
  observed: readonly UnitsObservation[],
): AccuracyReport {
  return {
    ...{ operation, kind },
    ranges: ranges.map(({ below, units }, i) => {
      const found = observed.find(({ range }) => range === i);
      return {
        ...{ from: ranges[i - 1]?.below ?? null, below: below ?? null, declared: units ?? null },
        ...{ observed: found === undefined ? null : finite(found.units), at: found?.at ?? [] },
      };
    }),
  };
}
