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

/** Names of kernels by the key of their structure, and then by what a call decides. */
const names = new Map<string, Map<number, string>>();

/** More are hardly in use at the same time. */
const mostNames = 4096;

/**
 * The name of the kernel of a structure with `outer` axes before the last. Returns the same text each time: to look up a
 * new one takes as long as all else of a small call, for it has hundreds of letters.
 */
function kernelName(key: string, inputs: Problem["inputs"], outer: number): string {
  // At most 16 inputs and 8 axes.
  let form = outer;
  for (let i = 0; i < inputs.length; i++) {
    const { strides } = inputs[i]!;
    form = 2 * form + (strides[strides.length - 1] === 0 ? 1 : 0);
  }
  let ofKey = names.get(key);
  if (ofKey === undefined) {
    if (names.size >= mostNames) names.clear();
    ofKey = new Map();
    names.set(key, ofKey);
  }
  let name = ofKey.get(form);
  if (name === undefined) {
    const repeats = inputs.map(({ strides }) => (strides.at(-1) === 0 ? "r" : "f")).join("");
    name = `map ${key} ${repeats} ${outer}`;
    ofKey.set(form, name);
  }
  return name;
}

function plan(problem: Problem, { workers, late, workspace }: PlanContext): readonly Launch[] {
  const { key, shape, n, inputs, outputs, parameters, steps } = problem;
  const inner = shape.at(-1) ?? 1;
  const rows = n / inner;
  const { rowsPerChunk, chunkElements, chunksPerRow, chunks } = rowChunks(rows, inner, workers);
  const outer = Math.max(shape.length - 1, 0);
  const count = headWords + inputs.length + outputs.length + parameters.length + outer * (1 + inputs.length);
  const indirect = count > maxParameters;
  const name = kernelName(key, inputs, outer);
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
