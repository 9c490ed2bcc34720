import { type Argument, type OperationName, operationNames, operations } from "@backplane/core";
import { assert } from "chai";
import { place, resolve } from "../support/resolve.js";
import { smallCall } from "../support/small-calls.js";

/** What no argument of the role may be. */
function wrongValues(argument: Argument): readonly unknown[] {
  if ("list" in argument && !["reads", "writes", "updates"].includes(argument.role)) {
    const { list: _, ...one } = argument;
    return [1, "1", null, {}, ...wrongValues(one as Argument).map((wrong) => [wrong])];
  }
  const notCounts = [-1, 0.5, Number.NaN, 2 ** 53, "2", null, true];
  switch (argument.role) {
    case "extent":
    case "stride":
      return argument.least === 1 ? [...notCounts, 0] : notCounts;
    case "axis":
      return [-1000, 1000, 0.5, Number.NaN, "0", 0n, null, [0], {}];
    case "extents": {
      const lists = notCounts.map((wrong) => Array.from({ length: argument.length ?? 1 }, () => wrong));
      const short = argument.length === undefined ? [] : [[1]];
      return [1, "1", null, {}, ...lists, ...short];
    }
    case "strides":
      return [
        1,
        "1",
        null,
        {},
        [1, 1, 1, 1, 1, 1, 1, 1, 1],
        ...[0.5, Number.NaN, 2 ** 53, "2", null, true].map((wrong) => [1, wrong]),
      ];
    case "axes":
      return [0, "0", null, {}];
    case "factor":
      return [Number.NaN, Number.POSITIVE_INFINITY, 1e39, "1", null, true];
    case "unsigned":
      return [...notCounts, -1n, 1n << BigInt(argument.bits)];
    case "flag":
      return [0, 1, "true", null];
    case "kind":
    case "choice":
      return ["none", "toString", 1, null, {}];
    case "elementType":
      return ["f64", "toString", 4, null];
    case "nodes":
      return [1, "1", null, {}, [1], [null], [{}], [{ noSuchNode: 0 }]];
    default:
      return [];
  }
}

function fails(name: OperationName, change: Readonly<Record<string, unknown>>): { argument?: string } {
  try {
    resolve(name, { ...smallCall(name, (i) => place(i + 1)), ...change } as never);
  } catch (error) {
    assert.propertyVal(error, "code", "INVALID_ARGUMENT");
    return error as { argument?: string };
  }
  throw new Error(`${name} takes ${JSON.stringify(change)}`);
}

describe("the tables of arguments", () => {
  for (const name of operationNames) {
    const { arguments: table, names, operands, kinds } = operations[name];

    it(`are kept by ${name}: each argument has the role, and refuses what the role does`, () => {
      for (const [argument, specification] of Object.entries(table))
        for (const wrong of wrongValues(specification))
          assert.equal(fails(name, { [argument]: wrong }).argument?.split("[")[0], argument);
    });

    it(`are kept by ${name}: a default is what a call means that leaves the argument out`, () => {
      const plain = resolve(name, smallCall(name, (i) => place(i + 1)) as never);
      for (const [argument, specification] of Object.entries(table))
        if ("default" in specification)
          assert.deepEqual(
            resolve(name, {
              ...smallCall(name, (i) => place(i + 1)),
              [argument]: specification.default,
            } as never),
            plain,
          );
    });

    it(`are kept by ${name}: what neither has a default nor says what holds otherwise is required`, () => {
      for (const [argument, specification] of Object.entries(table)) {
        const isOptional = "default" in specification || "otherwise" in specification;
        assert.equal(
          Object.hasOwn(
            smallCall(name, (i) => place(i + 1)),
            argument,
          ),
          // Of several outputs that may be left out, one must be there.
          !isOptional ||
            argument === "n" ||
            ["sort values", "normalizeGradient inputGradient"].includes(`${name} ${argument}`),
          argument,
        );
        if (isOptional || operands.includes(argument)) continue;
        assert.equal(fails(name, { [argument]: undefined }).argument, argument);
      }
    });

    it(`tell the names, operands and kinds of ${name}`, () => {
      assert.sameMembers([...names], Object.keys(table));
      const roles = operands.map((operand) => table[operand]!.role);
      assert.isTrue(roles.includes("writes") || roles.includes("updates"));
      assert.isBelow(roles.lastIndexOf("reads"), roles.length - 1);
      for (const kind of kinds ?? []) {
        // The gradient of a maximum needs what that of a mean has not.
        const more = name === "pool2dGradient" && kind === "max" ? { indices: place(9) } : {};
        resolve(name, { ...smallCall(name, (i) => place(i + 1)), ...more, kind } as never);
      }
    });
  }
});
