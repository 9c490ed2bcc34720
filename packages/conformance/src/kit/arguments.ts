import type { DType, Operation } from "@backplane/core";

/*
 * Calls have names for operands. An operand in a list has the name of the list and its place there, such as
 * `inputs[0]`.
 */

const entry = /^(.*)\[(\d+)\]$/;

/** Returns the arguments of a call, with the entries of each list gathered in it. */
export function argumentsOf(named: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const args: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(named)) {
    const [, list, place] = entry.exec(name) ?? [];
    if (list === undefined) args[name] = value;
    else {
      args[list] ??= [];
      (args[list] as unknown[])[Number(place)] = value;
    }
  }
  return args;
}

/** Returns those of the operands that a call of the operation writes. */
export function outputsOf(
  operation: Operation,
  operands: Readonly<Record<string, unknown>>,
): readonly string[] {
  return Object.keys(operands).filter((name) => {
    const { role } = operation.arguments[entry.exec(name)?.[1] ?? name]!;
    return role === "writes" || role === "updates";
  });
}

/** The default of the argument `dtype`, wherever it has one. */
const usualType: DType = "f32";

/** Returns the argument `dtype`, or none if that has its default. */
export function given<Type extends DType>(dtype: Type): { readonly dtype?: Type } {
  return dtype === usualType ? {} : { dtype };
}
