import {
  type BinaryKind,
  binaryKinds,
  bitKinds,
  logicalKinds,
  type MapElementType,
  type MapNode,
  type MapType,
  type UnaryKind,
  unaryKinds,
} from "@backplane/core";
import fc, { type Arbitrary } from "fast-check";
import { dataSeed, extent, placement } from "../../arbitraries/shapes.js";
import {
  binaryFunctions,
  comparisons,
  integerFunctions,
  integerUnaryFunctions,
  logicalFunctions,
  logicalUnaryFunctions,
  tests,
  unaryFunctions,
} from "../../functions.js";
import { product } from "../../kit/shapes.js";
import { type InputCase, type MapCase, type Numbers, typed } from "./expression.js";
import { shrinkingToNodes } from "./smallest.js";

/*
 * Random expressions. A tree is drawn as a list of choices, each of which becomes one node of what there is so far. Fewer
 * and smaller choices make smaller trees, and of the smallest the first wrong node is left (see `shrinkingToNodes`).
 */

/** Which nodes a tree may have. */
export interface Vocabulary {
  readonly inputTypes: readonly MapElementType[];
  readonly unary: readonly UnaryKind[];
  readonly binary: readonly BinaryKind[];
  /** The types that kinds take. */
  readonly of: readonly MapType[];
  readonly converts: readonly MapType[];
  readonly outputTypes: readonly MapElementType[];
  readonly numbers: Numbers;
}

const comparing: readonly BinaryKind[] = [
  ...(["equal", "notEqual", "less", "lessEqual", "greater", "greaterEqual"] as const),
];
const exactKinds: readonly BinaryKind[] = ["add", "sub", "mul", "max", "min", ...comparing];
const ofIntegers: readonly BinaryKind[] = ["div", "mod", "rem", "floorDiv", ...bitKinds, ...logicalKinds];

/** Every function of floats, and what integers have. */
export const everything = (dtype: "f32" | "f16"): Vocabulary => ({
  ...{ inputTypes: [dtype, dtype, dtype, "i32", "u8"], unary: unaryKinds, binary: binaryKinds },
  ...{ of: ["f32", "f32", "f32", "f32", "i32", "u8"], converts: ["f32", "i32", "u32", "u8"] },
  ...{ outputTypes: [dtype, dtype, "u8", "i32"], numbers: "real" },
});

/** What is exact on small whole numbers. */
export const wholes = (dtype: "f32" | "f16"): Vocabulary => ({
  ...{
    inputTypes: [dtype, dtype, "i32", "u8"],
    unary: ["neg", "abs", "relu", "sign", "floor"],
    binary: exactKinds,
  },
  ...{ of: ["f32", "i32"], converts: ["f32", "i32", "u8"] },
  ...{ outputTypes: [dtype, dtype, "u8", "i32"], numbers: "whole" },
});

/** Integers of any size. */
export const integers: Vocabulary = {
  ...{ inputTypes: ["i32", "u32", "u8"], binary: [...exactKinds, ...ofIntegers] },
  unary: ["abs", "neg", "square", "sign", "not", "logicalNot"],
  ...{ of: ["i32", "u32", "i32", "u32", "u8"], converts: ["i32", "u32", "u8"] },
  ...{ outputTypes: ["i32", "u32", "u8"], numbers: "any" },
};

/** Whether a type has a kind, independently of the code under test. */
function functionFor(operation: "unary" | "binary", kind: string, type: MapType): boolean {
  const tables = {
    unary: { f32: { ...unaryFunctions, ...tests }, ...integerUnaryFunctions, u8: logicalUnaryFunctions },
    binary: {
      f32: { ...binaryFunctions, ...comparisons },
      i32: { ...integerFunctions.i32, ...comparisons },
      u32: { ...integerFunctions.u32, ...comparisons },
      u8: logicalFunctions,
    },
  };
  return kind in tables[operation][type];
}

interface Choice {
  readonly form: number;
  readonly kind: number;
  readonly x: number;
  readonly y: number;
}

const choice: Arbitrary<Choice> = fc.record({
  ...{ form: fc.nat(15), kind: fc.nat(99), x: fc.nat(9), y: fc.nat(9) },
});

/** Returns the nodes that follow from a list of choices, each of which may use the inputs, two parameters and places. */
function grown(
  choices: readonly Choice[],
  vocabulary: Vocabulary,
  inputs: readonly InputCase[],
  rank: number,
): readonly MapNode[] {
  const { unary, binary, of, converts, numbers } = vocabulary;
  const nodes: MapNode[] = inputs.map((_, input) => ({ input }));
  if (of.includes("f32")) nodes.push({ parameter: 0 }, { constant: numbers === "real" ? 0.75 : 3 });
  else nodes.push({ parameter: 0, type: "i32" }, { constant: 7, type: "u32" });
  const typeAt = (place: number) => typed(nodes, inputs)[place]!.type;
  /** The last nodes of a type first, so that trees grow deep. */
  const among = (type: MapType | undefined, which: number): number | undefined => {
    const places = nodes
      .map((_, place) => place)
      .filter((place) => type === undefined || typeAt(place) === type);
    return places.length === 0 ? undefined : places.at(-1 - (which % places.length));
  };
  for (const { form, kind, x, y } of choices) {
    const pick = <Value>(list: readonly Value[]): Value => list[kind % list.length]!;
    const type = pick(of);
    const [a, b] = [among(type, x), among(type, y)];
    const any = among(undefined, x)!;
    const condition = among("u8", y);
    const unaryOf = unary.filter((one) => functionFor("unary", one, type));
    const binaryOf = binary.filter((one) => functionFor("binary", one, type));
    if (form < 5 && a !== undefined && unaryOf.length > 0) nodes.push({ unary: pick(unaryOf), x: a });
    else if (form < 10 && a !== undefined && b !== undefined && binaryOf.length > 0)
      nodes.push({ binary: pick(binaryOf), a, b });
    else if (form < 12 && condition !== undefined) {
      const other = among(typeAt(any), kind)!;
      nodes.push({ select: condition, a: any, b: other });
    } else if (form < 14) nodes.push({ convert: pick(converts), x: any });
    else if (form === 14 && rank > 0 && converts.includes("i32")) nodes.push({ index: kind % rank });
    else if (type !== "u8" && a !== undefined && b !== undefined)
      nodes.push({ binary: pick(comparing), a, b });
  }
  return nodes;
}

/** Shapes of up to four axes, or eight short ones. */
const shape: Arbitrary<readonly number[]> = fc
  .oneof(
    { weight: 3, arbitrary: fc.array(extent(), { maxLength: 2 }) },
    { weight: 2, arbitrary: fc.array(extent(17), { maxLength: 4 }) },
    { weight: 1, arbitrary: fc.array(fc.integer({ min: 1, max: 3 }), { maxLength: 8 }) },
  )
  .filter((extents) => product(extents) <= 2 ** 12);

/** Cases with random expressions, shapes and broadcasts, and one to three outputs. */
export function treeCases(vocabulary: Vocabulary, nodes = 10): Arbitrary<MapCase> {
  const input = fc.record({
    type: fc.nat(99),
    repeats: fc.array(fc.boolean(), { minLength: 8, maxLength: 8 }),
    full: fc.boolean(),
    without: fc.nat(3),
  });
  const trees = fc
    .record({
      shape,
      inputs: fc.array(input, { minLength: 1, maxLength: 4 }),
      choices: fc.array(choice, { minLength: 1, maxLength: nodes }),
      outputs: fc.array(fc.nat(9), { minLength: 1, maxLength: 3 }),
      parameter: fc.integer({ min: -5, max: 5 }),
      placement,
      seed: dataSeed,
    })
    .map(({ shape: extents, inputs: given, choices, outputs, parameter, ...rest }): MapCase => {
      const inputs = given.map(
        ({ type, repeats, full, without }): InputCase => ({
          dtype: vocabulary.inputTypes[type % vocabulary.inputTypes.length]!,
          repeats: extents.map((_, axis) => !full && repeats[axis]!),
          ...(full || without === 0 ? {} : { without: Math.min(without, extents.length) }),
        }),
      );
      const all = grown(choices, vocabulary, inputs, extents.length);
      const steps = typed(all, inputs);
      return {
        ...{
          shape: extents,
          inputs,
          nodes: all,
          parameters: [parameter],
          numbers: vocabulary.numbers,
          ...rest,
        },
        outputs: outputs.map((from) => {
          const result = steps.length - 1 - (from % Math.min(steps.length, 3));
          return { result, dtype: storedAs(steps[result]!.type, vocabulary) };
        }),
      };
    });
  return shrinkingToNodes(trees, ({ nodes: all, inputs }, result) => ({
    result,
    dtype: storedAs(typed(all, inputs)[result]!.type, vocabulary),
  }));
}

/** The element type of an output that holds values of a type. */
function storedAs(type: MapType, { outputTypes }: Vocabulary): MapElementType {
  return type === "f32" ? (outputTypes.includes("f16") ? "f16" : "f32") : type;
}
