import type { OperationName } from "@backplane/core";
import { operationEntries, type ShapeField } from "../kernels/index.js";
import type { TunedShape } from "./tuned-shape.js";

/** The variants of an operation, and the facts on which the choice between them is based. */
interface TunableShapes {
  readonly variants: readonly string[];
  readonly fields: readonly (ShapeField & { readonly name: string })[];
}

/** By the operations that have variants. */
const tables: { readonly [Name in OperationName]?: TunableShapes } = Object.fromEntries(
  operationEntries.flatMap(({ operation, variants }) => {
    if (variants === undefined) return [];
    const named = Object.entries(variants.fields as Readonly<Record<string, ShapeField>>);
    const fields = named.map(([name, field]) => ({ name, ...field }));
    return [[operation, { variants: variants.rows.map(({ name }) => name), fields }]];
  }),
);

export const tunableOperations: readonly OperationName[] = Object.keys(tables) as OperationName[];

/** For an operation among `tunableOperations`. */
export function tunableShapes(operation: OperationName): TunableShapes {
  return tables[operation]!;
}

/** The same text for the same choice, and another one for every other. */
export function shapeKey(operation: OperationName, shape: object): string {
  const values = shape as Readonly<Record<string, unknown>>;
  let key: string = operation;
  for (const { name, text } of tables[operation]!.fields) {
    const value = values[name];
    key += ` ${text === undefined || value === undefined ? value : text(value as never)}`;
  }
  return key;
}

/** Returns the facts of a shape on which the choice is based, as JSON keeps them. */
export function plainShape(operation: OperationName, shape: object): TunedShape {
  const values = shape as TunedShape;
  const fields = tables[operation]!.fields.map(({ name }) => [name, values[name]] as const);
  return Object.fromEntries(fields.filter(([, value]) => value !== undefined));
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
