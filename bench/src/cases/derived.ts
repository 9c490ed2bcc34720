import { evaluateCall, type TimedCall, timedCalls } from "@backplane/conformance";
import { type OperationArguments, type OperationName, operations } from "@backplane/core";
import { type Case, type Inputs, operationCase } from "./case.js";

/**
 * The calls that operations name for themselves in the conformance suite, which has their formula and the error
 * that it allows. All inputs are uniform in [-1, 1).
 */
export function derivedCases(size: TimedCall["size"]): readonly Case[] {
  return timedCalls.filter((call) => call.size === size).map((call) => derived(call));
}

function derived({ operation, name, rest, operands, copyShare }: (typeof timedCalls)[number]): Case {
  const { arguments: table } = operations[operation] as {
    readonly arguments: Readonly<Record<string, { readonly role: string }>>;
  };
  const [output, ...more] = Object.keys(operands).filter((operand) => table[operand]!.role !== "reads");
  if (output === undefined || more.length > 0) throw new TypeError(`${operation}: one output is needed`);
  const { [output]: elements, ...inputs } = operands;
  let evaluated: ReturnType<typeof evaluateCall> | undefined;
  return operationCase<OperationName>({
    ...{ name, operation, inputs, dtype: "f32", problem: { ...rest } },
    output: { argument: output, elements: elements! },
    args: (handles) => ({ ...rest, ...handles }) as unknown as OperationArguments[OperationName],
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
      return { value: values[index]!, tolerance: tolerances[index]! };
    },
    ...(copyShare === undefined ? {} : { goal: { against: "copy", atLeast: copyShare } as const }),
  });
}
