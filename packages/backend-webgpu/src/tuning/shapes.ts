import { type OperationName, operationNames } from "@backplane/core";
import type { KernelSet, ShapeField } from "../kernels/index.js";
import type { TunedShape } from "./tuned-shape.js";

/** The variants of an operation, and the facts on which the choice between them is based. */
interface TunableShape {
  readonly variants: readonly string[];
  readonly fields: readonly (ShapeField & { readonly name: string })[];
}

/** The operations that have variants, among some kernels. */
export class TunableShapes {
  readonly #tables: { readonly [Name in OperationName]?: TunableShape };
  readonly #isAbsent: (operation: OperationName) => boolean;

  constructor({ entries, definitions }: KernelSet) {
    this.#tables = Object.fromEntries(
      entries.flatMap(({ operation, variants }) => {
        if (variants === undefined) return [];
        const named = Object.entries(variants.fields as Readonly<Record<string, ShapeField>>);
        const fields = named.map(([name, field]) => ({ name, ...field }));
        return [[operation, { variants: variants.rows.map(({ name }) => name), fields }]];
      }),
    );
    this.#isAbsent = (operation) => definitions[operation] === undefined;
  }

  get operations(): readonly OperationName[] {
    return Object.keys(this.#tables) as OperationName[];
  }

  /** Undefined for an operation without variants, or of which nothing is known. */
  of(operation: OperationName): TunableShape | undefined {
    return this.#tables[operation];
  }

  /** Whether core has an operation of this name and these kernels do not: nothing is known of its shapes. */
  areUnknown(operation: OperationName): boolean {
    return (
      this.of(operation) === undefined && operationNames.includes(operation) && this.#isAbsent(operation)
    );
  }

  /** Returns the same text for the same choice, and another one for every other. */
  key(operation: OperationName, shape: object): string {
    const values = shape as Readonly<Record<string, unknown>>;
    let key: string = operation;
    for (const { name, text } of this.#tables[operation]!.fields) {
      const value = values[name];
      key += ` ${text === undefined || value === undefined ? value : text(value as never)}`;
    }
    return key;
  }

  /** Returns the facts of a shape on which the choice is based, as JSON keeps them. */
  plain(operation: OperationName, shape: object): TunedShape {
    const values = shape as TunedShape;
    const fields = this.#tables[operation]!.fields.map(({ name }) => [name, values[name]] as const);
    return Object.fromEntries(fields.filter(([, value]) => value !== undefined));
  }
}

/** Returns the fields of a shape by name, for people, without those that are false or absent. */
export function shapeText(shape: TunedShape): string {
  return Object.entries(shape)
    .filter(([, value]) => value !== undefined && value !== false)
    .map(([name, value]) => (value === true ? name : `${name} ${wordOf(value)}`))
    .join(", ");
}

function wordOf(value: unknown): string {
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
