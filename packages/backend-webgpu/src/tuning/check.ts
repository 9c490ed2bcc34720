import { BackendError, type OperationName } from "@backplane/core";
import { packageVersion } from "../version.js";
import { adapterFields, TUNING_FORMAT, type TuningData } from "./data.js";
import type { TunableShapes } from "./shapes.js";

/**
 * Returns the data, checked. Throws `INVALID_ARGUMENT` that says where something is wrong. Does not check the
 * entries of another version or format, or of operations that a program has no kernels for.
 */
export function checkedTuning(
  value: unknown,
  operation: string,
  argument: string,
  shapes: TunableShapes,
): readonly TuningData[] {
  const list: readonly unknown[] = Array.isArray(value) ? value : [value];
  const check = new TuningCheck(operation, shapes);
  for (const [i, data] of list.entries())
    check.data(data, Array.isArray(value) ? `${argument}[${i}]` : argument);
  return list as readonly TuningData[];
}

type Fields = Readonly<Record<string, unknown>>;

class TuningCheck {
  readonly #operation: string;
  readonly #shapes: TunableShapes;

  constructor(operation: string, shapes: TunableShapes) {
    this.#operation = operation;
    this.#shapes = shapes;
  }

  data(value: unknown, where: string): void {
    const data = this.#object(value, where);
    this.#is(Number.isSafeInteger(data.format), data.format, `${where}.format`, "a whole number");
    if (data.format !== TUNING_FORMAT) return;
    this.#text(data.version, `${where}.version`);
    const adapter = this.#object(data.adapter, `${where}.adapter`);
    for (const field of adapterFields) this.#text(adapter[field], `${where}.adapter.${field}`);
    this.#text(data.tier, `${where}.tier`);
    this.#is(Array.isArray(data.entries), data.entries, `${where}.entries`, "a list");
    if (data.version !== packageVersion) return;
    for (const [i, entry] of (data.entries as readonly unknown[]).entries())
      this.#entry(entry, `${where}.entries[${i}]`);
  }

  #entry(value: unknown, where: string): void {
    const entry = this.#object(value, where);
    const operation = entry.operation as OperationName;
    if (this.#shapes.areUnknown(operation)) return;
    this.#oneOf(operation, this.#shapes.operations, `${where}.operation`);
    const { variants, fields } = this.#shapes.of(operation)!;
    for (const name of ["variant", "defaultVariant"]) this.#oneOf(entry[name], variants, `${where}.${name}`);
    for (const name of ["seconds", "defaultSeconds"])
      this.#is(isDuration(entry[name]), entry[name], `${where}.${name}`, "a number from 0");
    const shape = this.#object(entry.shape, `${where}.shape`);
    for (const { name, is, allowed } of fields)
      this.#is(is(shape[name]), shape[name], `${where}.shape.${name}`, allowed);
  }

  #object(value: unknown, where: string): Fields {
    this.#is(typeof value === "object" && value !== null && !Array.isArray(value), value, where, "an object");
    return value as Fields;
  }

  #text(value: unknown, where: string): void {
    this.#is(typeof value === "string", value, where, "a text");
  }

  #oneOf(value: unknown, allowed: readonly unknown[], where: string): void {
    this.#is(allowed.includes(value), value, where, allowed.join(", "));
  }

  #is(holds: boolean, value: unknown, where: string, allowed: string): void {
    if (holds) return;
    throw new BackendError(
      "INVALID_ARGUMENT",
      `${this.#operation}: ${where} is ${JSON.stringify(value)}; allowed: ${allowed}`,
      { operation: this.#operation, argument: where },
    );
  }
}

function isDuration(value: unknown): boolean {
  return typeof value === "number" && Number.isFinite(value) && value >= 0;
}
