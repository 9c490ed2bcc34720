import { BackendError, type OperationName } from "@backplane/core";
import type { DeviceFeatures } from "../device/index.js";
import { general } from "../device/index.js";

/** One row of a table of variants: a way to compute an operation. */
export interface Variant<Shape> {
  readonly name: string;
  /** Whether the device has what the variant needs; otherwise it is passed over even if it is forced. */
  requires(features: DeviceFeatures): boolean;
  /** Whether the variant can compute the shape at all. */
  fits(shape: Shape): boolean;
  /** Whether it is the one to take for a shape that it fits; the first such row of the table is chosen. */
  prefers(shape: Shape, features: DeviceFeatures): boolean;
}

/**
 * Returns the row that was tuned for the shape; otherwise the first that is possible, fits and is preferred;
 * otherwise the last that is possible and fits. `forced` names a row that is taken if it is possible and
 * fits. Throws if there is none of that name.
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
  const tuned = features.tuned?.variantFor(operation, shape);
  const possible = possibleRows(table, features);
  const chosen =
    rowNamed(forced, possible, shape) ?? rowNamed(tuned, possible, shape) ?? best(possible, shape, features);
  if (chosen === undefined)
    throw new BackendError("UNSUPPORTED", `${operation}: no variant for this shape on this device`, {
      operation,
    });
  const listener = listeners.get(features);
  if (listener !== undefined) {
    const motive = motiveOf(chosen, shape, features, forced, tuned);
    listener({
      ...{ operation, variant: chosen.name, motive, shape },
      reason: () => reasonFor(motive, table, chosen, shape, features),
      possible: () => possible.filter((row) => row.fits(shape)).map(({ name }) => name),
    });
  }
  return chosen;
}

function rowNamed<Shape, Row extends Variant<Shape>>(
  name: string | undefined,
  rows: readonly Row[],
  shape: Shape,
): Row | undefined {
  return name === undefined ? undefined : rows.find((row) => row.name === name && row.fits(shape));
}

/** A loop: this runs for every call, and functions made for it would cost as much as the rest. */
function best<Shape, Row extends Variant<Shape>>(
  rows: readonly Row[],
  shape: Shape,
  features: DeviceFeatures,
): Row | undefined {
  let last: Row | undefined;
  for (const row of rows) {
    if (!row.fits(shape)) continue;
    if (row.prefers(shape, features)) return row;
    last = row;
  }
  return last;
}

/**
 * By device and table: the rows that are possible. Their requirements are checked once, since adding up
 * workgroup memory at every call took most of the host's time (decoding: 75 us, and 12 without).
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

/**
 * The reason for a row: its name in the options, a measurement, its preference (`here`: one that it has only
 * on adapters of this family), or that no other was left.
 */
export type Motive = "forced" | "tuned" | "preferred" | "preferred here" | "last";

/** A variant that an operation takes. */
export interface Choice {
  readonly operation: OperationName;
  readonly variant: string;
  readonly motive: Motive;
  readonly shape: unknown;
  /** Returns the motive for people, and the reasons against the rows before. Must not be called for every call. */
  reason(): string;
  /** Returns those that are possible on the device and fit the shape. */
  possible(): readonly string[];
}

/** Told of every choice. */
export type ChoiceListener = (choice: Choice) => void;

/** Choosing is pure all the same: listeners belong to the features of one open device, and only listen. */
const listeners = new WeakMap<DeviceFeatures, ChoiceListener>();

/** `listener` hears of the choices made for a device from here on. */
export function observeChoices(features: DeviceFeatures, listener: ChoiceListener): void {
  listeners.set(features, listener);
}

/** Whether somebody hears of the choices made for a device. */
export function isObserved(features: DeviceFeatures): boolean {
  return listeners.has(features);
}

function motiveOf<Shape>(
  chosen: Variant<Shape>,
  shape: Shape,
  features: DeviceFeatures,
  forced: string | undefined,
  tuned: string | undefined,
): Motive {
  if (chosen.name === forced) return "forced";
  if (chosen.name === tuned) return "tuned";
  if (!chosen.prefers(shape, features)) return "last";
  return (features.family ?? general) === general || chosen.prefers(shape, { ...features, family: general })
    ? "preferred"
    : "preferred here";
}

function reasonFor<Shape>(
  motive: Motive,
  table: readonly Variant<Shape>[],
  chosen: Variant<Shape>,
  shape: Shape,
  features: DeviceFeatures,
): string {
  if (motive === "forced") return "forced by the option variants";
  if (motive === "tuned") return "tuned for the shape";
  const obstacles = table.slice(0, table.indexOf(chosen)).map(({ name, requires, fits }) => {
    if (!requires(features)) return `${name} needs more than the device has`;
    return fits(shape) ? undefined : `${name} does not fit`;
  });
  const passedOver = obstacles.filter((text) => text !== undefined);
  const where = motive === "preferred here" ? ` on ${features.family?.name}` : "";
  const preferred = motive === "last" ? "the last one that fits" : `preferred for the shape${where}`;
  return [preferred, ...passedOver].join("; ");
}

/** Writes a line when an operation first takes a variant for a motive. */
export function choiceLog(log: (line: string) => void): ChoiceListener {
  const written = new Set<string>();
  return ({ operation, variant, motive, reason }) => {
    const choice = `${operation} ${variant} ${motive}`;
    if (written.has(choice)) return;
    written.add(choice);
    log(`webgpu: ${operation} takes ${variant} (${reason()})`);
  };
}
