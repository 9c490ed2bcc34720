import { dtypeBytes, floatTypes, type MapElementType, type MapProblem } from "@backplane/core";
import type { Local } from "../../wasm/index.js";
import {
  address,
  type CpuMemory,
  type CpuOperation,
  defineKernel,
  helpersFor,
  type Launch,
  maxParameters,
  type PlanContext,
  wordOf,
} from "../kernel.js";
import { rowChunks } from "../vector/index.js";
import { emitMap, headWords, type MapTile, nanosecondsOf } from "./map.wasm.js";

type Problem = MapProblem<CpuMemory>;

/** Words that one command stores. */
const wordsPerStore = maxParameters - 1;

/** Stores its parameters behind the first, which says where: for kernels with more than a block holds. */
const storeWords = defineKernel({
  name: "map_words",
  parameters: {
    at: "i32",
    ...(Object.fromEntries(Array.from({ length: wordsPerStore }, (_, i) => [`word${i}`, "i32"])) as Record<
      `word${number}`,
      "i32"
    >),
  },
  emit(f, { parameters }) {
    const { at, ...words } = parameters;
    for (const [i, word] of (Object.values(words) as readonly Local<"i32">[]).entries())
      f.store(at, word, 4 * i);
  },
});

/** The kernels of structures that have been met, apart from what a call decides. */
function tileOf(problem: Problem, indirect: boolean): MapTile {
  const { steps, inputs, outputs, parameters, shape } = problem;
  return {
    steps,
    inputs: inputs.map(({ dtype, strides }) => ({ dtype, repeats: strides.at(-1) === 0 })),
    outputs: outputs.map(({ dtype, result }) => ({ dtype, result })),
    parameters: parameters.map(({ type }) => type),
    ...{ axes: Math.max(shape.length, 1), indirect },
  };
}

/** The words of a launch, in the order in which the kernel reads them. */
function mapWords(
  { inputs, outputs, parameters, shape }: Problem,
  head: readonly number[],
): readonly number[] {
  const words = [...head];
  for (const { region } of inputs) words.push(address(region) | 0);
  for (const { region } of outputs) words.push(address(region) | 0);
  for (const { type, value } of parameters) words.push(wordOf(type === "f32" ? "f32" : "i32", value));
  for (let axis = 0; axis < shape.length - 1; axis++) {
    words.push(shape[axis]!);
    for (const { dtype, strides } of inputs) words.push(strides[axis]! * dtypeBytes[dtype]);
  }
  return words;
}

function plan(problem: Problem, { workers, late, workspace }: PlanContext): readonly Launch[] {
  const { key, shape, n, inputs, outputs, parameters, steps } = problem;
  const inner = shape.at(-1) ?? 1;
  const rows = n / inner;
  const { rowsPerChunk, chunkElements, chunksPerRow, chunks } = rowChunks(rows, inner, workers);
  const outer = Math.max(shape.length - 1, 0);
  const count = headWords + inputs.length + outputs.length + parameters.length + outer * (1 + inputs.length);
  const indirect = count > maxParameters;
  let repeats = "";
  for (const { strides } of inputs) repeats += strides.at(-1) === 0 ? "r" : "f";
  const name = `map ${key} ${repeats} ${outer}`;
  late(name, (module) => emitMap(module, tileOf(problem, indirect)));
  const words = mapWords(problem, [inner, rows, rowsPerChunk, chunkElements, chunksPerRow]);
  const helpers = helpersFor(chunks, n * nanosecondsOf(steps));
  if (!indirect) return [{ kernel: name, words, chunks, helpers }];

  const stores = Math.ceil(words.length / wordsPerStore);
  const at = workspace(4 * wordsPerStore * stores);
  const launches: Launch[] = [];
  for (let i = 0; i < stores; i++) {
    const part = words.slice(i * wordsPerStore, (i + 1) * wordsPerStore);
    while (part.length < wordsPerStore) part.push(0);
    launches.push(storeWords.launchList([at + 4 * wordsPerStore * i, ...part], 1, 0));
  }
  launches.push({ kernel: name, words: [at | 0], chunks, helpers });
  return launches;
}

const types: readonly MapElementType[] = ["f32", "f16", "i32", "u32", "u8"];

export const map: CpuOperation<Problem> = {
  supports: [{ dtype: floatTypes, inputTypes: types, outputTypes: types }],
  kernels: [storeWords],
  plan,
};
