import { timedCalls } from "@backplane/conformance";
import { type ComputeBackend, costOf, type DeviceHandle, newHandle } from "@backplane/core";
import type { Case } from "../cases/case.js";
import { derived, type NamedCall } from "../cases/derived.js";

/** Elements of calls that take two or more arrays at the rate of memory. */
const many = 2 ** 22;

function call(
  operation: NamedCall["operation"],
  name: string,
  rest: NamedCall["rest"],
  operands: NamedCall["operands"],
  more: Partial<NamedCall> = {},
): Case {
  return derived({ operation, name, rest, operands, size: "peers", ...more });
}

/** Copies that do more than to change the order of axes. */
export const copies: readonly Case[] = [
  call(
    "copy",
    "slice 1000 of 1024 columns",
    { shape: [4096, 1000], inputStrides: [1024, 1] },
    { input: many, output: 4096 * 1000 },
  ),
  call(
    "copy",
    "flip 4096x1024",
    { shape: [4096, 1024], inputStrides: [1024, -1] },
    { input: many, output: many },
    { before: { input: 1023 } },
  ),
  call("copy", "f32 to f16", { shape: [many], outputDtype: "f16" }, { input: many, output: many }),
  concat(4096, 512),
  pad(4096, 1024),
];

/** Two arrays side by side: a copy for each. */
function concat(rows: number, columns: number): Case {
  const part = (input: DeviceHandle, output: DeviceHandle, first: number) => ({
    ...{ shape: [rows, columns], outputStrides: [2 * columns, 1] },
    ...{ input, output: { handle: output, byteOffset: 4 * first } },
  });
  const cost = costOf("copy", part(newHandle(), newHandle(), 0));
  return {
    name: `copy f32 concat of two ${rows}x${columns} by columns`,
    ...{ operation: "copy", dtype: "f32", cost: { flops: 0, bytes: 2 * cost.bytes } },
    inputs: { a: rows * columns, b: rows * columns },
    output: { argument: "output", elements: 2 * rows * columns },
    prepare(backend: ComputeBackend, { a, b, output }) {
      const parts = [part(a!, output!, 0), part(b!, output!, columns)];
      return {
        call() {
          for (const each of parts) backend.copy(each);
        },
      };
    },
    expected({ a, b }, index) {
      const [row, column] = [Math.floor(index / (2 * columns)), index % (2 * columns)];
      const source = column < columns ? a : b;
      return { value: source!.at(row * columns + (column % columns)), tolerance: 0 };
    },
    problem: { operation: "copy", dtype: "f32", form: "concat", rows, columns },
  };
}

/** One zero more on every side: the inside is copied, and zeros go where it does not. */
function pad(rows: number, columns: number): Case {
  const [height, width] = [rows + 2, columns + 2];
  // The first row with the first element of the second, and the last row with the last element of that before.
  const edge = width + 1;
  return {
    name: `copy f32 pad ${rows}x${columns} by 1`,
    ...{ operation: "copy", dtype: "f32" },
    cost: { flops: 0, bytes: 4 * (rows * columns + height * width) },
    inputs: { input: rows * columns },
    output: { argument: "output", elements: height * width },
    prepare(backend: ComputeBackend, { input, output }) {
      const zero = backend.alloc(4);
      const at = (place: number) => ({ handle: output!, byteOffset: 4 * place });
      const inside = { shape: [rows, columns], outputStrides: [width, 1], input: input!, output: at(edge) };
      // The last element of each row and the first of the next.
      const sides = {
        ...{ shape: [rows - 1, 2], inputStrides: [0, 0], outputStrides: [width, 1] },
        ...{ input: zero, output: at(edge + columns) },
      };
      return {
        call() {
          backend.fill(output!, 0, edge);
          backend.fill(at(height * width - edge), 0, edge);
          backend.copy(sides);
          backend.copy(inside);
        },
        close: () => backend.free(zero),
      };
    },
    expected({ input }, index) {
      const [row, column] = [Math.floor(index / width) - 1, (index % width) - 1];
      const isInside = row >= 0 && row < rows && column >= 0 && column < columns;
      return { value: isInside ? input!.at(row * columns + column) : 0, tolerance: 0 };
    },
    problem: { operation: "copy", dtype: "f32", form: "pad", rows, columns },
  };
}

/** Sums of exponentials over both axes. */
export const reductions: readonly Case[] = [1, 0].map((axis) =>
  call(
    "reduce",
    `logSumExp of 4096 x 1024, axis ${axis}`,
    { kind: "logSumExp", shape: [4096, 1024], axes: [axis] },
    { input: many, output: axis === 1 ? 4096 : 1024 },
  ),
);

/** The expressions of `map` that the conformance suite times, on as many elements as the other rows. */
function expression(name: string): Case {
  const small = timedCalls.find((each) => each.operation === "map" && each.name.startsWith(`${name}, `))!;
  const operands = Object.fromEntries(Object.keys(small.operands).map((operand) => [operand, many]));
  return call("map", `${name}, ${many}`, { ...small.rest, shape: [many] }, operands, { elementwise: true });
}

export const chainOfSix: Case = expression("chain of six");
export const adam: Case = expression("Adam");

/** That of the standard normal distribution: an integral by Simpson's rule, with an error below 10^-9. */
function normalDistribution(x: number): number {
  const limit = Math.min(Math.abs(x), 8);
  const steps = 2 * Math.ceil(limit * 32) + 2;
  const width = limit / steps;
  let sum = 0;
  for (let i = 0; i <= steps; i++) {
    const weight = i === 0 || i === steps ? 1 : 2 + 2 * (i % 2);
    sum += weight * Math.exp(-((i * width) ** 2) / 2);
  }
  const half = (sum * width) / 3 / Math.sqrt(2 * Math.PI);
  return x < 0 ? 0.5 - half : 0.5 + half;
}

const distributions = {
  uniform: (x: number) => Math.min(Math.max(x, 0), 1),
  normal: normalDistribution,
} as const;

/** Random numbers: the same seed each time, which makes no difference to the time. */
export const randoms: readonly Case[] = (["uniform", "normal"] as const).map((kind) => ({
  ...call("random", `${kind} ${many}`, { kind, count: many, seed: 1 }, { output: many }),
  distribution: distributions[kind],
}));

/** Softmax and layer norm in f16. */
export const halves: readonly Case[] = [
  call(
    "softmax",
    "softmax 4096x1024",
    { kind: "softmax", shape: [4096, 1024], axis: 1, dtype: "f16" },
    { input: many, output: many },
  ),
  call(
    "normalize",
    "layer norm 4096x1024",
    { kind: "layer", rows: 4096, size: 1024, dtype: "f16" },
    { input: many, weight: 1024, bias: 1024, output: many },
  ),
];

/** Pools and resizing with channels last, as TensorFlow.js has them. */
export const channelsLast: readonly Case[] = timedCalls
  .filter(({ size, operation }) => size === "peers" && (operation === "pool2d" || operation === "resize2d"))
  .map((timed) => {
    const [batch, channels, height, width] = timed.rest.inputShape as readonly [
      number,
      number,
      number,
      number,
    ];
    return derived({
      ...{ ...timed, name: `${timed.name}, channels last` },
      rest: { ...timed.rest, layout: "NHWC", inputShape: [batch, height, width, channels] },
      parts: { count: batch, rest: { inputShape: [1, height, width, channels] } },
    });
  });
