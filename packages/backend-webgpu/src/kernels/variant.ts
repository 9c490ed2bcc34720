import { BackendError, type OperationName } from "@backplane/core";
import type { DeviceFeatures } from "../context.js";

/** One row of a table of variants: a way to compute an operation. */
export interface Variant<Shape> {
  readonly name: string;
  /** What the device must offer; a variant that is not possible is passed over even when forced. */
  requires(features: DeviceFeatures): boolean;
  /** Whether the variant can compute the shape at all. */
  fits(shape: Shape): boolean;
  /** Whether it is the one to take for a shape that it fits; the first such row of the table wins. */
  prefers(shape: Shape, features: DeviceFeatures): boolean;
}

/**
 * The first row that is possible, fits and is preferred, or else the last that is possible and fits.
 * `forced` names a row that is taken wherever it is possible and fits; throws where there is none of
 * that name.
 */
export function selectVariant<Shape, Row extends Variant<Shape>>(
  operation: OperationName,
  table: readonly Row[],
  shape: Shape,
  features: DeviceFeatures,
  forced?: string,
): Row {
  if (forced !== undefined && !table.some(({ name }) => name === forced))
    throw new BackendError(
      "INVALID_ARGUMENT",
      `${operation}: variant "${forced}" is unknown; allowed: ${table.map(({ name }) => name).join(", ")}`,
      { operation, argument: "variant" },
    );
  const possible = table.filter((row) => row.requires(features) && row.fits(shape));
  const chosen =
    possible.find(({ name }) => name === forced) ??
    possible.find((row) => row.prefers(shape, features)) ??
    possible.at(-1);
  if (chosen === undefined)
    throw new BackendError("UNSUPPORTED", `${operation}: no variant for this shape on this device`, {
      operation,
    });
  return chosen;
}
