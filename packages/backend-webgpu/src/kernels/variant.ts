import { BackendError } from "@backplane/core";
import type { DeviceFeatures } from "../context.js";
import { general } from "../families.js";
import type { TunableOperation } from "../tuning/data.js";

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
 * The row that was tuned for the shape, or else the first that is possible, fits and is preferred, or
 * else the last that is possible and fits. `forced` names a row that is taken wherever it is possible
 * and fits; throws where there is none of that name.
 */
export function selectVariant<Shape, Row extends Variant<Shape>>(
  operation: TunableOperation,
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
  const tuned = features.tuned?.variantFor(operation, shape);
  const possible = possibleRows(table, features);
  const named = (name: string | undefined) =>
    name === undefined ? undefined : possible.find((row) => row.name === name && row.fits(shape));
  const chosen =
    named(forced) ??
    named(tuned) ??
    possible.find((row) => row.fits(shape) && row.prefers(shape, features)) ??
    possible.findLast((row) => row.fits(shape));
  if (chosen === undefined)
    throw new BackendError("UNSUPPORTED", `${operation}: no variant for this shape on this device`, {
      operation,
    });
  const listener = listeners.get(features);
  if (listener !== undefined)
    listener(operation, chosen.name, reasonOf(chosen, table, shape, features, forced, tuned), {
      ...{ shape, forced: chosen.name === forced },
      possible: possible.filter((row) => row.fits(shape)).map(({ name }) => name),
    });
  return chosen;
}

/**
 * By device and table: the rows that are possible. What they require is asked once, since adding up workgroup
 * memory at every call took more of the host's time than all the rest of it (decoding: 75 us, and 12 without).
 */
const possibleOn = new WeakMap<DeviceFeatures, Map<readonly unknown[], readonly unknown[]>>();

function possibleRows<Row extends Variant<never>>(
  table: readonly Row[],
  features: DeviceFeatures,
): readonly Row[] {
  let tables = possibleOn.get(features);
  if (tables === undefined) {
    tables = new Map();
    possibleOn.set(features, tables);
  }
  let rows = tables.get(table) as readonly Row[] | undefined;
  if (rows === undefined) {
    rows = table.filter(({ requires }) => requires(features));
    tables.set(table, rows);
  }
  return rows;
}

/** Told which variant an operation takes, each time, and why. */
export type ChoiceListener = (
  operation: TunableOperation,
  variant: string,
  reason: string,
  circumstances: ChoiceCircumstances,
) => void;

/** What there was to choose from. */
export interface ChoiceCircumstances {
  readonly shape: unknown;
  readonly forced: boolean;
  /** Those that are possible on the device and fit the shape. */
  readonly possible: readonly string[];
}

/** Choosing is pure all the same: listeners belong to the features of one open device, and only listen. */
const listeners = new WeakMap<DeviceFeatures, ChoiceListener>();

/** `listener` hears of the choices made for a device from here on. */
export function observeChoices(features: DeviceFeatures, listener: ChoiceListener): void {
  listeners.set(features, listener);
}

/** Why it is this row, and none of those before it. */
function reasonOf<Shape>(
  chosen: Variant<Shape>,
  table: readonly Variant<Shape>[],
  shape: Shape,
  features: DeviceFeatures,
  forced: string | undefined,
  tuned: string | undefined,
): string {
  if (chosen.name === forced) return "forced by the option variants";
  if (chosen.name === tuned) return "tuned for the shape";
  const anywhere = chosen.prefers(shape, { ...features, family: general });
  const where = anywhere ? "" : ` on ${features.family?.name}`;
  const preferred = chosen.prefers(shape, features)
    ? `preferred for the shape${where}`
    : "the last one that fits";
  const obstacles = table.slice(0, table.indexOf(chosen)).map(({ name, requires, fits }) => {
    if (!requires(features)) return `${name} needs more than the device has`;
    return fits(shape) ? undefined : `${name} does not fit`;
  });
  const passedOver = obstacles.filter((text) => text !== undefined);
  return [preferred, ...passedOver].join("; ");
}

/** Writes a line when an operation first takes a variant for a reason. */
export function choiceLog(log: (line: string) => void): ChoiceListener {
  const written = new Set<string>();
  return (operation, variant, reason) => {
    const line = `webgpu: ${operation} takes ${variant} (${reason})`;
    if (written.has(line)) return;
    written.add(line);
    log(line);
  };
}
