import type { Argument, Operation } from "@backplane/core";
import type { Change, SmallCall } from "../ops/operation.js";

/**
 * Returns changes to a call that every backend must refuse as `INVALID_ARGUMENT`: those that follow from the
 * table of the operation's arguments, and those that its small call lists. The names and values used here
 * are such that no later version will define them. A null is none of them, except in lists: the contract does
 * not say that it is more than an argument left out.
 */
export function malformed(operation: Operation, call: SmallCall): readonly Change[] {
  return [
    ...Object.entries(operation.arguments).flatMap(([name, argument]) => [
      ...(isRequired(argument) ? [undefined] : []).map((value) => ({ [name]: value })),
      ...wrongValues(argument, call.rest[name]).map((value) => ({ [name]: value })),
    ]),
    { noSuchArgument: 1 },
    ...call.malformed,
  ];
}

function isRequired(argument: Argument): boolean {
  const isOperand = ["reads", "writes", "updates"].includes(argument.role);
  return !isOperand && !("default" in argument) && !("otherwise" in argument);
}

/** Whole numbers of 2^53 and above are not all there. */
const noCounts = [-1, 1.5, Number.NaN, 2 ** 53, "3"];
const noNumbers = [Number.NaN, Number.POSITIVE_INFINITY, "1"];

/** Returns values that are wrong by themselves; `given` is the one of the small call. */
function wrongValues(argument: Argument, given: unknown): readonly unknown[] {
  if (!("list" in argument)) return wrongOne(argument, given);
  // A list of operands has as many entries as others that go with it.
  if (["reads", "writes", "updates"].includes(argument.role)) return [12, "3"];
  if (!Array.isArray(given)) return [12, "3", {}];
  return [
    ...[12, "3", {}],
    ...wrongOne(argument, given.at(-1)).map((wrong) => [...given.slice(0, -1), wrong]),
  ];
}

function wrongOne(argument: Argument, given: unknown): readonly unknown[] {
  switch (argument.role) {
    case "extent":
    case "stride":
      return [...noCounts, ...below(argument.least)];
    case "extents": {
      const list = (given ?? argument.default) as readonly number[] | undefined;
      // An argument that the call does without may not be combined with the others.
      if (list === undefined) return [];
      const entries = [-1, 1.5, Number.NaN, null, -1n, ...below(argument.least)];
      const lengths = argument.length === undefined ? [] : [list.slice(1), [...list, 1]];
      return [12, "3", ...entries.map((entry) => [...list.slice(0, -1), entry]), ...lengths];
    }
    case "strides": {
      const list = given as readonly number[] | undefined;
      if (list === undefined) return [12, "3", {}];
      const entries = [1.5, Number.NaN, null, 2 ** 53, -1n, "1"];
      return [12, "3", list.slice(1), [...list, 1], ...entries.map((entry) => [...list.slice(0, -1), entry])];
    }
    case "axis":
      return [0.5, Number.NaN, "0", [0], -1n, 2 ** 30, -(2 ** 30)];
    case "axes":
      return [1, "0", [0.5], [Number.NaN], [null], [-1n]];
    case "factor":
      return noNumbers;
    case "unsigned":
      return [...noCounts, -1n, 1n << BigInt(argument.bits)];
    case "flag":
      return [0, 1, "no"];
    case "kind":
      return ["noSuchKind", "", 1];
    case "choice":
      return ["noSuchChoice", "", 1];
    case "elementType":
      return ["noSuchType", "F32", "", 4];
    case "nodes":
      return [12, "3", {}, [12], [null], [{}], [{ noSuchNode: 0 }]];
    default:
      return argument.scalar ? noNumbers.map((scalar) => ({ scalar })) : [];
  }
}

function below(least: number | undefined): readonly number[] {
  return least === undefined ? [] : [least - 1];
}
