import { evaluateCall, type TimedCall, timedCalls } from "@backplane/conformance";
import {
  dtypeBytes,
  type FloatType,
  type Operand,
  type OperationArguments,
  type OperationName,
  operations,
} from "@backplane/core";
import { aloneOf, lineOf, type Slice } from "./alone.js";
import { type Case, type Goal, type Handles, type Inputs, operationCase, type ResultType } from "./case.js";
import { gemm } from "./gemm.js";

const torch = (atLeast: number): Goal => ({ against: "torch", atLeast });
const time = (microseconds: number): Goal => ({ against: "time", microseconds, atLeast: 1 });

/** Goals of calls that a copy says little of. The fixed times are for an NVIDIA H200. */
const goals: Readonly<Record<string, Goal>> = {
  "gather 4096x16384 along rows": torch(1.2),
  "scatter add 16384 to 50257x1024": torch(1.3),
  "scatter set 16384 to 50257x1024": torch(1.3),
  "sort 1x16777216": torch(0.35),
  "sort 4096x4096": torch(0.5),
  "sort first 40 of 64x131072": torch(1),
  "quantizedGemm 4 bits 1x4096x11008": time(15),
  "quantizedGemm 4 bits 8x4096x11008": time(30),
  "quantizedGemm 4 bits 32x4096x11008": time(60),
  "quantizedGemm 4 bits 1024x1024x1024": {
    against: "case",
    other: gemm(1024, 1024, 1024, { transB: true }),
    atLeast: 0.85,
  },
};

/** A call for the benchmark, with the name of its operation. */
export type NamedCall = TimedCall & { readonly operation: OperationName };

/**
 * The calls that operations name for themselves in the conformance suite, which has their formula and the error
 * that it allows. All inputs are uniform in [-1, 1), or whole numbers in [0, `below`).
 */
export function derivedCases(size: TimedCall["size"]): readonly Case[] {
  return timedCalls.filter((call) => call.size === size).map((call) => derived(call));
}

/** How much of its share of a copy's rate a call should keep in f16. */
const narrowShare = 0.85;

/** Calls of that size that go at the rate of memory, in f16. */
export function narrowCases(size: TimedCall["size"]): readonly Case[] {
  return timedCalls
    .filter((call) => call.size === size && call.copyShare !== undefined)
    .filter(({ rest }) => !("outputDtype" in rest) && !("dtype" in rest))
    .map((call) =>
      derived({
        ...call,
        rest: { ...call.rest, dtype: "f16" },
        copyShare: Number((narrowShare * call.copyShare!).toPrecision(3)),
      }),
    );
}

/** One call as a case. */
export function derived(call: NamedCall): Case {
  const { operation, name, rest, operands, types, before = {}, results, below, copyShare, parts } = call;
  const { arguments: table } = operations[operation] as {
    readonly arguments: Readonly<Record<string, { readonly role: string }>>;
  };
  // The entries of lists have names such as inputs[0].
  const roleOf = (operand: string) => table[operand.split("[")[0]!]!.role;
  const outputs = Object.keys(operands).filter((operand) => roleOf(operand) !== "reads");
  const [output] = outputs;
  if (output === undefined) throw new TypeError(`${operation}: an output is needed`);
  // Only the first output is compared; others are given like inputs, and so is one that is updated, unless it is times a
  // beta of 0, which never reads it.
  const { [output]: elements, ...others } = operands;
  const isRead = roleOf(output) === "updates" && (table.beta === undefined || (rest.beta ?? 0) !== 0);
  const inputs = isRead ? operands : others;
  const read = Object.entries(inputs).filter(([operand]) => roleOf(operand) !== "writes");
  const goal: Goal | undefined =
    goals[`${operation} ${name}`] ??
    (copyShare === undefined ? undefined : { against: "copy", atLeast: copyShare });
  const dtype = (rest.dtype ?? "f32") as FloatType;
  // All of a line or a part is evaluated for one of its results. An element takes as long as some 16 terms.
  const together = lineOf(operation, rest)?.length ?? (parts && elements! / parts.count);
  const terms = together === undefined ? {} : { terms: 16 * together };
  const evaluated = new Map<number, ReturnType<typeof evaluateCall>>();
  return operationCase<OperationName>({
    ...{ name, operation, inputs, dtype, ...terms },
    problem: { name, elements: operands, before, ...rest },
    output: {
      ...{ argument: output, elements: results?.count ?? elements!, extent: elements! },
      ...(results === undefined ? {} : { place: (index) => (before[output] ?? 0) + results.place(index) }),
      dtype: comparedType(types?.[output] ?? rest.outputDtype ?? dtype),
    },
    args: (handles) =>
      gathered({
        ...rest,
        ...placed(handles, before, dtypeBytes[dtype]),
      }) as unknown as OperationArguments[OperationName],
    expected(data: Inputs, index) {
      const place = results?.place(index) ?? index;
      // Results of a copy lie where they are to; all others are where the first output has them.
      const alone = aloneOf(call, elements!, operation === "copy" ? index : place);
      // All of a smaller call at once, when its first element is asked for.
      if (!evaluated.has(alone.number)) {
        const slices = read.map(([input, all]) => [input, sliceOf(data[input]!, alone.slice(input, all))]);
        evaluated.set(alone.number, evaluateCall(operation, alone.rest, Object.fromEntries(slices), outputs));
      }
      const { values, tolerances } = evaluated.get(alone.number)![output]!;
      return { value: values[alone.own]!, tolerance: tolerances[alone.own]! };
    },
    ...(below === undefined ? {} : { below }),
    bytes: Object.keys(inputs).filter((input) => types?.[input] === "u8"),
    wide: Object.keys(inputs).filter((input) => types?.[input] === "f32"),
    ...(goal === undefined ? {} : { goal }),
  });
}

function sliceOf(data: Inputs[string], { count, place }: Slice): Float64Array {
  const elements = new Float64Array(count);
  for (let i = 0; i < count; i++) elements[i] = data.at(place(i));
  return elements;
}

/** The arguments of a call, with the entries of each list gathered in it. */
function gathered(named: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const args: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(named)) {
    const [list = name, place] = name.split(/[[\]]/);
    if (place === undefined) args[name] = value;
    else {
      args[list] ??= [];
      (args[list] as unknown[])[Number(place)] = value;
    }
  }
  return args;
}

function comparedType(dtype: unknown): ResultType {
  return dtype === "f16" || dtype === "i32" || dtype === "u8" ? dtype : "f32";
}

/** The operands, some of them with elements before their places. */
function placed(
  handles: Handles,
  before: Readonly<Record<string, number>>,
  elementBytes: number,
): Readonly<Record<string, Operand>> {
  return Object.fromEntries(
    Object.entries(handles).map(([name, handle]) => {
      const elements = before[name];
      return [name, elements === undefined ? handle : { handle, byteOffset: elements * elementBytes }];
    }),
  );
}
