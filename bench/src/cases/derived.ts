import { evaluateCall, type TimedCall, timedCalls } from "@backplane/conformance";
import {
  dtypeBytes,
  type Operand,
  type OperationArguments,
  type OperationName,
  operations,
} from "@backplane/core";
import { type Case, type Handles, type Inputs, operationCase } from "./case.js";

/**
 * The calls that operations name for themselves in the conformance suite, which has their formula and the error
 * that it allows. All inputs are uniform in [-1, 1), or whole numbers in [0, `below`).
 */
export function derivedCases(size: TimedCall["size"]): readonly Case[] {
  return timedCalls.filter((call) => call.size === size).map((call) => derived(call));
}

function derived(call: (typeof timedCalls)[number]): Case {
  const { operation, name, rest, operands, types, before = {}, results, below, copyShare } = call;
  const { arguments: table } = operations[operation] as {
    readonly arguments: Readonly<Record<string, { readonly role: string }>>;
  };
  const [output, ...more] = Object.keys(operands).filter((operand) => table[operand]!.role !== "reads");
  if (output === undefined || more.length > 0) throw new TypeError(`${operation}: one output is needed`);
  const { [output]: elements, ...inputs } = operands;
  let evaluated: ReturnType<typeof evaluateCall> | undefined;
  return operationCase<OperationName>({
    ...{ name, operation, inputs, dtype: "f32", problem: { ...rest } },
    output: {
      ...{ argument: output, elements: results?.count ?? elements!, extent: elements! },
      ...(results === undefined ? {} : { place: (index) => (before[output] ?? 0) + results.place(index) }),
      dtype: comparedType(types?.[output] ?? rest.outputDtype),
    },
    args: (handles) =>
      ({ ...rest, ...placed(handles, before) }) as unknown as OperationArguments[OperationName],
    expected(data: Inputs, index) {
      // All of it at once, when the first element is asked for.
      evaluated ??= evaluateCall(
        operation,
        rest,
        Object.fromEntries(
          Object.entries(inputs).map(([input, count]) => [
            input,
            Float64Array.from(data[input]!.toArray(count)),
          ]),
        ),
      );
      const { values, tolerances } = evaluated[output]!;
      const place = results?.place(index) ?? index;
      return { value: values[place]!, tolerance: tolerances[place]! };
    },
    ...(below === undefined ? {} : { below }),
    ...(copyShare === undefined ? {} : { goal: { against: "copy", atLeast: copyShare } as const }),
  });
}

/** Results in these types can be compared. */
function comparedType(dtype: unknown): "f32" | "f16" | "i32" {
  return dtype === "f16" || dtype === "i32" ? dtype : "f32";
}

/** The operands, some of them with elements before their places. */
function placed(
  handles: Handles,
  before: Readonly<Record<string, number>>,
): Readonly<Record<string, Operand>> {
  return Object.fromEntries(
    Object.entries(handles).map(([name, handle]) => {
      const elements = before[name];
      return [name, elements === undefined ? handle : { handle, byteOffset: elements * dtypeBytes.f32 }];
    }),
  );
}
