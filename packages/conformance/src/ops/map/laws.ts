import { type FloatType, floatTypes, type MapNode, mapLimits } from "@backplane/core";
import { fixedPlacement } from "../../arbitraries/shapes.js";
import type { Law } from "../../law.js";
import { adam, adamNumbers, adamResults, chain } from "./calls.js";
import { check, type InputCase, type MapCase } from "./expression.js";
import { everything, integers, treeCases, wholes } from "./trees.js";

export const mapLaws: readonly Law[] = floatTypes.flatMap((dtype) => lawsFor(dtype));

const all = (dtype: FloatType): InputCase => ({ dtype, repeats: [] });

const plain = (dtype: FloatType): MapCase => ({
  ...{ shape: [1], inputs: [all(dtype)], nodes: chain, parameters: [0.25, 2] },
  ...{ outputs: [{ dtype, result: chain.length - 1 }], numbers: "real", placement: fixedPlacement, seed: 1 },
});

/** outputs[0] = inputs[0] inputs[1] + inputs[2]. */
const threeInputs: readonly MapNode[] = [
  ...[{ input: 0 }, { input: 1 }, { input: 2 }],
  ...([
    { binary: "mul", a: 0, b: 1 },
    { binary: "add", a: 3, b: 2 },
  ] as const),
];

/** Around vectors, words and what chunks of threads or workgroups take; rows of all residues, and columns that repeat. */
function largeCases(dtype: FloatType): readonly MapCase[] {
  const rows = (shape: readonly number[], ...repeats: readonly (readonly boolean[])[]): MapCase => ({
    ...plain(dtype),
    ...{ shape, nodes: threeInputs, parameters: [], numbers: "whole" },
    inputs: [0, 1, 2].map((i): InputCase => ({ dtype, repeats: repeats[i] ?? [] })),
    outputs: [{ dtype, result: 4 }],
  });
  return [
    ...[100_003, 2 ** 17].map((n): MapCase => ({ ...plain(dtype), shape: [n] })),
    rows([401, 301], [], [true], [false, true]),
    rows([64, 1024], [true], [], [false, true]),
    rows([37, 29, 40], [false, true], [true, false, true], []),
    rows([5, 7, 11, 13, 17], [false, true, false, true], [true, false, true, false, true], [true, true]),
    rows([3, 70_001], [false, true], [], []),
    rows([30_001, 3], [true], [false, true], []),
    {
      ...rows([257, 130], [], [true], [false, true]),
      nodes: [...threeInputs, { binary: "less", a: 3, b: 2 }, { index: 1 }, { index: 0 }],
      outputs: [
        { dtype, result: 4 },
        { dtype: "u8", result: 5 },
        { dtype: "i32", result: 6 },
        { dtype: "i32", result: 7 },
      ],
    },
  ];
}

/** A lower triangle: x where the column is at most the row, else a parameter. */
const triangle: readonly MapNode[] = [
  ...[{ input: 0 }, { index: 0 }, { index: 1 }],
  { binary: "lessEqual", a: 2, b: 1 },
  { parameter: 0 },
  { select: 3, a: 0, b: 4 },
  { convert: "f32", x: 3 },
];

/** The largest expressions of each kind. */
function widest(dtype: FloatType): readonly MapCase[] {
  const { inputs, outputs, parameters, nodes } = mapLimits;
  const count = (n: number) => Array.from({ length: n }, (_, i) => i);
  const whole: MapCase = { ...plain(dtype), shape: [70], numbers: "whole", parameters: [] };
  const sumOf = (terms: readonly MapNode[]): readonly MapNode[] => [
    ...terms,
    ...terms.slice(1).map((_, i): MapNode => {
      return { binary: "add", a: i === 0 ? 0 : terms.length + i - 1, b: i + 1 };
    }),
  ];
  const last = (list: readonly MapNode[]) => [{ dtype, result: list.length - 1 }];
  const wide = sumOf(count(inputs).map((input) => ({ input })));
  const numbered = sumOf(count(parameters).map((parameter) => ({ parameter })));
  const long: readonly MapNode[] = count(nodes).map((i): MapNode => {
    if (i < 2) return { input: i };
    return i % 3 === 0
      ? { binary: "sub", a: 1, b: i - 1 }
      : { binary: i % 3 === 1 ? "max" : "min", a: i - 1, b: i % 2 };
  });
  return [
    { ...whole, inputs: count(inputs).map(() => all(dtype)), nodes: wide, outputs: last(wide) },
    {
      ...whole,
      inputs: [all(dtype)],
      nodes: numbered,
      parameters: count(parameters).map((i) => (i % 7) - 3),
      outputs: last(numbered),
    },
    { ...whole, inputs: [all(dtype), all(dtype)], nodes: long, outputs: last(long) },
    // One output for each sum of the inputs up to there.
    {
      ...whole,
      inputs: count(inputs).map(() => all(dtype)),
      nodes: wide,
      outputs: count(outputs).map((i) => ({ dtype, result: wide.length - 1 - 2 * i })),
    },
  ];
}

/** Outputs over inputs: each over its own, over one another's, and over one that another output reads. */
function overInputs(dtype: FloatType): readonly MapCase[] {
  const nodes: readonly MapNode[] = [
    ...[{ input: 0 }, { input: 1 }, { input: 2 }],
    ...([
      { binary: "sub", a: 0, b: 1 },
      { binary: "add", a: 1, b: 2 },
      { binary: "max", a: 0, b: 2 },
    ] as const),
  ];
  const over = (...under: readonly (number | undefined)[]): MapCase => ({
    ...plain(dtype),
    ...{ shape: [331], nodes, parameters: [], numbers: "whole" },
    inputs: [0, 1, 2].map((i) => ({ ...all(dtype), ...(under[i] === undefined ? {} : { under: under[i] }) })),
    outputs: [3, 4, 5].map((result) => ({ dtype, result })),
  });
  return [
    ...[over(0, 1, 2), over(1, 2, 0), over(2, 0, 1), over(undefined, 2), over(1)],
    { ...over(0, 1, 2), placement: { before: [3, 1, 5, 2], shared: true } },
    { ...over(undefined, 0, 2), placement: { before: [1], shared: true } },
  ];
}

function adamCase(dtype: FloatType, shape: readonly number[], numbers = adamNumbers): MapCase {
  const inputs = [0, undefined, 1, 2].map(
    (under): InputCase => ({ ...all(dtype), ...(under === undefined ? {} : { under }) }),
  );
  return {
    ...plain(dtype),
    ...{ shape, nodes: adam, parameters: numbers, inputs },
    outputs: adamResults.map((result) => ({ dtype, result })),
  };
}

/** Products, quotients and comparisons of any integers. */
const ofIntegers: MapCase = {
  ...plain("f32"),
  ...{ shape: [500], parameters: [], numbers: "any" },
  inputs: (["i32", "i32", "u32", "u32"] as const).map((dtype) => ({ dtype, repeats: [] })),
  nodes: [
    ...[{ input: 0 }, { input: 1 }, { input: 2 }, { input: 3 }],
    ...([
      { binary: "mul", a: 0, b: 1 },
      { binary: "mul", a: 2, b: 3 },
      { binary: "div", a: 0, b: 1 },
      { binary: "div", a: 2, b: 3 },
      { binary: "less", a: 2, b: 3 },
      { convert: "u8", x: 4 },
    ] as const),
  ],
  outputs: (["i32", "u32", "i32", "u32", "u8", "u8"] as const).map((dtype, i) => ({ dtype, result: 4 + i })),
};

/** Fractions to integers, and integers of any size to fractions and to one another. */
function conversions(dtype: FloatType): MapCase {
  const types = ["i32", "u32", "u8"] as const;
  const to: readonly MapNode[] = types.map((convert) => ({ convert, x: 3 }));
  return {
    ...plain(dtype),
    ...{ shape: [300], parameters: [], numbers: "any" },
    inputs: [{ dtype: "i32", repeats: [] }, { dtype: "u32", repeats: [] }, all(dtype)],
    nodes: [
      ...[{ input: 2 }, { input: 0 }, { constant: 0.375 }, { binary: "mul", a: 0, b: 2 } as const, ...to],
      { convert: "f32", x: 1 },
      { convert: "u8", x: 1 },
      { input: 1 },
      { convert: "i32", x: 9 },
    ],
    outputs: [
      ...types.map((type, i) => ({ dtype: type, result: 4 + i })),
      ...(dtype === "f32" ? [{ dtype, result: 7 }] : []),
      { dtype: "u8", result: 8 },
      { dtype: "i32", result: 10 },
    ],
  };
}

function lawsFor(dtype: FloatType): readonly Law[] {
  const law = (name: string, run: Law["run"]): Law => ({
    ...{ topic: "map", name, operation: "map", dtype, run },
    exempt: (_capabilities, backend) =>
      backend.supports("map", { dtype }) ? undefined : `map in ${dtype} is not supported`,
  });
  return [
    law("random expressions stay within the error bound", (context) =>
      context.forAll(treeCases(everything(dtype)), (value) => check(context, dtype, value), {
        runs: 2,
        examples: [plain(dtype), conversions(dtype)],
      }),
    ),
    law("is exact on whole numbers", (context) =>
      context.forAll(treeCases(wholes(dtype)), (value) => check(context, dtype, value), { runs: 2 }),
    ),
    ...(dtype === "f32"
      ? [
          law("integers are exact, whatever their size", (context) =>
            context.forAll(treeCases(integers), (value) => check(context, dtype, value), {
              examples: [ofIntegers],
            }),
          ),
        ]
      : []),
    law("counts every element on larger shapes", (context) =>
      context.forEach(largeCases(dtype), (value) => check(context, dtype, value), { quick: 9 }),
    ),
    law("takes new sizes, places and parameters with a structure that it knows", (context) =>
      context.forEach(
        [
          ...[
            [0.25, 2],
            [-1, 0.5],
            [0.25, -3],
          ].map((parameters) => ({ ...plain(dtype), parameters, shape: [77] })),
          ...[1, 2, 3, 4, 5, 6, 7, 8, 63, 64, 65, 1025].map((n) => ({ ...plain(dtype), shape: [n] })),
          { ...plain(dtype), shape: [3, 5], inputs: [{ dtype, repeats: [true] }] },
          { ...plain(dtype), shape: [3, 5], inputs: [{ dtype, repeats: [false, true] }] },
          { ...plain(dtype), shape: [12], placement: { before: [1, 3], shared: true } },
        ],
        (value) => check(context, dtype, value),
      ),
    ),
    law("counts along axes, whatever is merged", (context) =>
      context.forEach(
        [
          ...[
            [7, 9],
            [1, 9],
            [9, 1],
            [130, 66],
          ].map((shape): MapCase => {
            return {
              ...plain(dtype),
              shape,
              nodes: triangle,
              parameters: [-3],
              outputs: [
                { dtype, result: 5 },
                { dtype, result: 6 },
              ],
            };
          }),
          ...[0, 1, 2].map(
            (axis): MapCase => ({
              ...{ ...plain(dtype), shape: [6, 5, 70], inputs: [], parameters: [] },
              nodes: [{ index: axis }, { convert: "f32", x: 0 }],
              outputs: [
                { dtype: "i32", result: 0 },
                { dtype, result: 1 },
              ],
            }),
          ),
        ],
        (value) => check(context, dtype, value),
      ),
    ),
    law("reads every input before an output that lies over it is written", (context) =>
      context.forEach(overInputs(dtype), (value) => check(context, dtype, value)),
    ),
    law("makes a step of Adam in place", (context) =>
      context.forEach(
        [
          ...[1, 4, 130, 4099].map((n) => adamCase(dtype, [n])),
          { ...adamCase(dtype, [259], [0.5, 0.5, 0.75, 0.25, 0.01, 3, 1e-3]) },
        ],
        (value) => check(context, dtype, value),
      ),
    ),
    law("takes as many nodes, inputs, outputs and parameters as it says", (context) =>
      context.forEach(widest(dtype), (value) => check(context, dtype, value)),
    ),
  ];
}
